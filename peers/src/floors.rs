//! The work of any implementation: reading headers, summing, copying, writing headers. They share no
//! code with the measured implementations.

use crate::buffers::{HEADROOM, PAGE, Slot, aligned, room, stride};
use crate::check::Account;
use crate::measure::{BURST, Receiver, Sender};
use crate::packet::{ETHERNET, Kind, fold};
use crate::trace::Trace;
use std::hint::black_box;

/// The work of a floor on every packet or segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Parse,
    Sum,
    ParseSum,
    Copy,
    CopySum,
    /// Of sending only.
    Header,
}

/// A part of receiving alone.
pub struct Receive {
    work: Work,
    scratch: Vec<u8>,
    room: usize,
}

impl Receive {
    pub fn new(work: Work, trace: &Trace) -> Self {
        let room = stride(room(trace.max_len()));
        Self { work, scratch: vec![0; BURST * room + PAGE], room }
    }
}

impl<'a> Receiver<Slot<'a>> for Receive {
    fn fill(&self, trace: &Trace, index: usize, slot: &mut Slot<'a>) {
        slot.take(trace, index);
    }

    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, _: u64) {
        let mut all = 0;
        let scratch = aligned(&mut self.scratch);
        for (slot, target) in burst.iter().zip(scratch.chunks_exact_mut(self.room)) {
            let frame = slot.as_ref();
            all ^= match self.work {
                Work::Parse => parse(frame).0,
                Work::Sum => sum(&frame[ETHERNET..]),
                Work::ParseSum => {
                    let (fields, start) = parse(frame);
                    fields ^ sum(&frame[start..])
                }
                Work::CopySum => copy_sum(frame, &mut target[..frame.len()]),
                Work::Copy | Work::Header => {
                    target[..frame.len()].copy_from_slice(frame);
                    0
                }
            };
        }
        black_box((all, &mut self.scratch));
    }

    fn settle(&mut self, burst: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, _: &mut Account) {
        free.append(burst);
    }
}

/// Reads all that a coalescer compares: addresses, ports, lengths, flags, sequence numbers, and
/// where the transport header starts. No check beyond those of the slices.
fn parse(frame: &[u8]) -> (u64, usize) {
    let eight = |at: usize| frame[at..at + 8].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let mut all = eight(ETHERNET) ^ eight(ETHERNET + 8).rotate_left(7);
    let start = if frame[12] == 8 {
        all ^= eight(ETHERNET + 12).rotate_left(13);
        ETHERNET + usize::from(frame[ETHERNET] & 0x0F) * 4
    } else {
        for (at, turn) in [(22, 13), (30, 23), (38, 31), (46, 41)] {
            all ^= eight(at).rotate_left(turn);
        }
        ETHERNET + 40
    };
    for (at, turn) in [(start, 3), (start + 8, 17)] {
        all = all.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ eight(at).rotate_left(turn);
    }
    (all, start)
}

/// The Internet checksum's sum in the machine's byte order, carries not yet added.
fn sum(bytes: &[u8]) -> u64 {
    if fast() {
        // SAFETY: the processor has what it takes, and nothing is written.
        unsafe { wide::<false>(bytes, core::ptr::null_mut()) }
    } else {
        narrow(bytes)
    }
}

/// The same, of bytes that are copied on the way.
fn copy_sum(bytes: &[u8], to: &mut [u8]) -> u64 {
    assert_eq!(bytes.len(), to.len());
    if fast() {
        // SAFETY: the processor has what it takes, and the target is as long.
        unsafe { wide::<true>(bytes, to.as_mut_ptr()) }
    } else {
        to.copy_from_slice(bytes);
        narrow(bytes)
    }
}

fn fast() -> bool {
    std::arch::is_x86_feature_detected!("avx512vnni")
        && std::arch::is_x86_feature_detected!("avx512bw")
}

/// Four bytes at a time: what a compiler makes vectors of, elsewhere.
fn narrow(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let pair = |pair: &[u8]| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 8;
    words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>()
        + rest.chunks(2).map(pair).sum::<u64>()
}

/// Bytes in even and in odd places are added up apart: one instruction does it for 64 of each, and
/// those in odd places count 256 times as much.
///
/// # Safety
///
/// If `COPY`, there must be room for as many bytes at `to`; otherwise nothing is written.
#[target_feature(enable = "avx512bw,avx512vnni")]
unsafe fn wide<const COPY: bool>(bytes: &[u8], to: *mut u8) -> u64 {
    use core::arch::x86_64::*;
    let (even, odd) = (_mm512_set1_epi16(0x0001), _mm512_set1_epi16(0x0100));
    let zero = _mm512_setzero_si512();
    // Two of each, so that no sum waits for the one before; names, as arrays end up in memory.
    let (mut evens, mut odds, mut more_evens, mut more_odds) = (zero, zero, zero, zero);
    let (blocks, rest) = bytes.as_chunks::<128>();
    for (index, block) in blocks.iter().enumerate() {
        // SAFETY: 128 bytes, and as many at the target, as the caller says.
        let (a, b) = unsafe {
            let (a, b) = (block.as_ptr().cast(), block.as_ptr().add(64).cast());
            let (a, b) = (_mm512_loadu_si512(a), _mm512_loadu_si512(b));
            if COPY {
                _mm512_storeu_si512(to.add(index * 128).cast(), a);
                _mm512_storeu_si512(to.add(index * 128 + 64).cast(), b);
            }
            (a, b)
        };
        evens = _mm512_dpbusd_epi32(evens, a, even);
        odds = _mm512_dpbusd_epi32(odds, a, odd);
        more_evens = _mm512_dpbusd_epi32(more_evens, b, even);
        more_odds = _mm512_dpbusd_epi32(more_odds, b, odd);
    }
    for (index, part) in rest.chunks(64).enumerate() {
        let mask = u64::MAX >> (64 - part.len());
        // SAFETY: only the bytes of the mask are read and written: as many as the part has.
        let part = unsafe {
            let part = _mm512_maskz_loadu_epi8(mask, part.as_ptr().cast());
            if COPY {
                let to = to.add(blocks.len() * 128 + index * 64);
                _mm512_mask_storeu_epi8(to.cast(), mask, part);
            }
            part
        };
        evens = _mm512_dpbusd_epi32(evens, part, even);
        odds = _mm512_dpbusd_epi32(odds, part, odd);
    }
    let even = _mm512_reduce_add_epi32(_mm512_add_epi32(evens, more_evens)) as u32;
    let odd = _mm512_reduce_add_epi32(_mm512_add_epi32(odds, more_odds)) as u32;
    u64::from(even) + u64::from(odd) * 256
}

/// A part of sending alone.
pub struct Send<'a> {
    work: Work,
    kind: Kind,
    size: usize,
    slots: Vec<Slot<'a>>,
}

impl<'a> Send<'a> {
    pub fn new(work: Work, kind: Kind, size: usize, slots: Vec<Slot<'a>>) -> Self {
        Self { work, kind, size, slots }
    }
}

impl Sender for Send<'_> {
    fn cut(&mut self, _: usize, frame: &mut [u8]) -> usize {
        let (headers, payload) = frame.split_at(self.kind.headers());
        let mut count = 0;
        for (part, slot) in payload.chunks(self.size).zip(&mut self.slots) {
            let (head, body) = slot.room().split_at_mut(headers.len());
            let body = &mut body[..part.len()];
            match self.work {
                Work::CopySum => drop(black_box(copy_sum(part, body))),
                Work::Copy => body.copy_from_slice(part),
                _ => write_header(head, headers, count, part.len(), self.kind.ip_len()),
            }
            count += 1;
        }
        black_box(&mut self.slots);
        count
    }

    fn segments(&self, _: usize) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// Headers copied, and written over where segments differ; no checksum.
fn write_header(to: &mut [u8], from: &[u8], index: usize, len: usize, ip_len: usize) {
    to.copy_from_slice(from);
    let total = (from.len() - ETHERNET + len) as u16;
    to[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
    to[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&(index as u16).to_be_bytes());
    let sequence = &mut to[ETHERNET + ip_len + 4..ETHERNET + ip_len + 8];
    sequence.copy_from_slice(&((index * len) as u32).to_be_bytes());
}

/// Compares the fast sums with the slow one, at lengths around all their steps.
pub fn self_test() {
    let mut chance = crate::chance::Chance::new(23);
    let bytes: Vec<u8> = (0..9001 + HEADROOM).map(|_| chance.next() as u8 | 0xF0).collect();
    let mut copy = vec![0; bytes.len()];
    for len in (0..300).chain([1448, 1499, 8948, 9001]) {
        let part = &bytes[len % 67..len % 67 + len];
        assert_eq!(fold(sum(part)), fold(narrow(part)), "sum of {len} bytes");
        assert_eq!(fold(copy_sum(part, &mut copy[..len])), fold(narrow(part)), "copy of {len}");
        assert_eq!(part, &copy[..len], "copy of {len} bytes");
    }
}
