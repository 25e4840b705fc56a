//! What nothing can do without: reading headers, summing, copying, writing headers. They share no
//! code with anybody who is timed.

use crate::buffers::{HEADROOM, PAGE, Slot, aligned, room, stride};
use crate::check::Account;
use crate::measure::{BURST, Receiver, Sender};
use crate::packet::{ETHERNET, Kind, fold};
use crate::trace::Trace;
use std::hint::black_box;

/// What a floor does with every packet or segment.
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
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        unsafe { wide::<false>(bytes, bytes.as_ptr().cast_mut()) }
    } else {
        narrow(bytes)
    }
}

/// The same, of bytes that are copied on the way.
fn copy_sum(bytes: &[u8], to: &mut [u8]) -> u64 {
    assert_eq!(bytes.len(), to.len());
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it, and the target is as long.
        unsafe { wide::<true>(bytes, to.as_mut_ptr()) }
    } else {
        to.copy_from_slice(bytes);
        narrow(bytes)
    }
}

fn narrow(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 8;
    bytes.chunks(2).map(word).sum()
}

/// All bytes are added up, and once more those in even places: the others count 256 times as much.
/// One instruction adds up eight bytes, so nothing has to be widened.
///
/// # Safety
///
/// If `COPY`, there must be room for as many bytes at `to`; otherwise nothing is written.
#[target_feature(enable = "avx2")]
unsafe fn wide<const COPY: bool>(bytes: &[u8], to: *mut u8) -> u64 {
    use core::arch::x86_64::*;
    let (zero, even) = (_mm256_setzero_si256(), _mm256_set1_epi16(0x00FF));
    let [mut all, mut evens] = [[zero; 4]; 2];
    let (whole, rest) = bytes.as_chunks::<128>();
    for (index, block) in whole.iter().enumerate() {
        for lane in 0..4 {
            // SAFETY: 32 bytes of a block of 128; as many at the target, as the caller says.
            let part = unsafe {
                let part = _mm256_loadu_si256(block.as_ptr().add(lane * 32).cast());
                if COPY {
                    _mm256_storeu_si256(to.add(index * 128 + lane * 32).cast(), part);
                }
                part
            };
            all[lane] = _mm256_add_epi64(all[lane], _mm256_sad_epu8(part, zero));
            let masked = _mm256_and_si256(part, even);
            evens[lane] = _mm256_add_epi64(evens[lane], _mm256_sad_epu8(masked, zero));
        }
    }
    if COPY {
        // SAFETY: what is left of the source, and as much at the target.
        unsafe { rest.as_ptr().copy_to_nonoverlapping(to.add(whole.len() * 128), rest.len()) };
    }
    let total = |lanes: [__m256i; 4]| {
        let both = lanes.into_iter().reduce(|a, b| _mm256_add_epi64(a, b)).unwrap_or(zero);
        _mm256_extract_epi64::<0>(both) as u64
            + _mm256_extract_epi64::<1>(both) as u64
            + _mm256_extract_epi64::<2>(both) as u64
            + _mm256_extract_epi64::<3>(both) as u64
    };
    let (all, evens) = (total(all), total(evens));
    evens + (all - evens) * 256 + short(rest)
}

/// The sum of less than 128 bytes, four at a time.
fn short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>() + narrow(rest)
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

/// Compares the fast sum with the slow one, at lengths around all its steps.
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
