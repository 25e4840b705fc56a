//! The bytes of chunks at both ends: the source of packets' payload, and its destination.
//!
//! [`crate::send`] and [`crate::receive`] make decisions and hold no bytes; these types hold bytes
//! and make no decisions.

use crate::fec::{Code, RepairPacket, Scheme};
use crate::receive::Arrival;
use crate::send::{Content, Transmit};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Groups whose repair is kept: lanes work on this many at once.
const KEPT_GROUPS: usize = 80;
/// Free buffers of chunks kept for reuse.
const KEPT_BUFFERS: usize = 8;
/// Lengths of buffers that may grow, in bytes: a small file needs no buffer of a whole chunk.
const SMALL_BYTES: [usize; 2] = [64 << 10, 1 << 20];

/// The chunks being sent.
#[derive(Debug)]
pub struct Source {
    payload: usize,
    code: Code,
    chunks: BTreeMap<u32, Vec<u8>>,
    /// Chunk, group and its repair packets, contiguous; the newest last.
    encoded: VecDeque<(u32, u32, Vec<u8>)>,
}

impl Source {
    /// For packets of `payload_bytes`, with `scheme`.
    #[must_use]
    pub fn new(payload_bytes: u32, scheme: Scheme) -> Self {
        Self {
            payload: payload_bytes as usize,
            code: Code::new(scheme),
            chunks: BTreeMap::new(),
            encoded: VecDeque::new(),
        }
    }

    /// Stores the bytes of a chunk that is offered.
    pub fn put(&mut self, chunk: u32, bytes: Vec<u8>) {
        self.chunks.insert(chunk, bytes);
    }

    /// Removes and returns the bytes of a completed chunk.
    pub fn remove(&mut self, chunk: u32) -> Option<Vec<u8>> {
        self.encoded.retain(|(of, _, _)| *of != chunk);
        self.chunks.remove(&chunk)
    }

    /// Appends the payload of `transmit` to `out`. False if the chunk is not stored.
    pub fn fill(&mut self, transmit: &Transmit, out: &mut Vec<u8>) -> bool {
        let chunk = transmit.header.chunk;
        match transmit.body {
            Content::Data { offset, bytes } => {
                let from = offset as usize;
                let data = self.chunks.get(&chunk);
                let Some(data) = data.and_then(|data| data.get(from..from + bytes as usize)) else {
                    return false;
                };
                out.extend_from_slice(data);
            }
            Content::Repair { group, row, bytes } => {
                let Some(rows) = self.repair_of(chunk, group) else { return false };
                let (row, bytes) = (row as usize, bytes as usize);
                let Some(row) = rows.get(row * bytes..(row + 1) * bytes) else { return false };
                out.extend_from_slice(row);
            }
            Content::Probe { probe, bytes } => probe.write(out, bytes as usize),
        }
        true
    }

    /// A group's repair packets, computed when the first of them is sent.
    fn repair_of(&mut self, chunk: u32, group: u32) -> Option<&[u8]> {
        let known =
            self.encoded.iter().rposition(|(of, number, _)| (*of, *number) == (chunk, group));
        let at = match known {
            Some(at) => at,
            None => {
                let rows = self.encode(chunk, group)?;
                if self.encoded.len() >= KEPT_GROUPS {
                    self.encoded.pop_front();
                }
                self.encoded.push_back((chunk, group, rows));
                self.encoded.len() - 1
            }
        };
        self.encoded.get(at).map(|(_, _, rows)| rows.as_slice())
    }

    fn encode(&self, chunk: u32, group: u32) -> Option<Vec<u8>> {
        let scheme = self.code.scheme();
        let data = self.chunks.get(&chunk)?;
        let stride = scheme.data_packets() * self.payload;
        let first = group as usize * stride;
        let data = data.get(first..data.len().min(first + stride))?;
        let length = data.len().min(self.payload);
        let mut rows = vec![0; scheme.repair_packets() * length];
        let mut slices: Vec<&mut [u8]> = rows.chunks_exact_mut(length.max(1)).collect();
        self.code.encode_run(data, self.payload, &mut slices).ok()?;
        Some(rows)
    }
}

/// A chunk being received.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Group, row, bytes.
    repair: Vec<(u32, u32, Vec<u8>)>,
}

/// The chunks being received.
#[derive(Debug)]
pub struct Store {
    payload: usize,
    chunk_bytes: usize,
    code: Code,
    chunks: BTreeMap<u32, Buffer>,
    free: Vec<Vec<u8>>,
}

impl Store {
    /// For chunks of at most `chunk_bytes`, in packets of `payload_bytes`, with `scheme`. The
    /// receiver's window bounds the number of chunks.
    #[must_use]
    pub fn new(chunk_bytes: u32, payload_bytes: u32, scheme: Scheme) -> Self {
        Self {
            payload: payload_bytes as usize,
            chunk_bytes: chunk_bytes as usize,
            code: Code::new(scheme),
            chunks: BTreeMap::new(),
            free: Vec::new(),
        }
    }

    /// Stores `bytes` at their position.
    pub fn put(&mut self, arrival: Arrival, bytes: &[u8]) {
        match arrival {
            Arrival::Data { chunk, offset, of } => {
                let from = offset as usize;
                let most = self.chunk_bytes.min(of as usize);
                let buffer = self.buffer(chunk, most);
                grow(&mut buffer.bytes, from + bytes.len(), most);
                if let Some(place) = buffer.bytes.get_mut(from..from + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            Arrival::Repair { chunk, group, row } => {
                let buffer = self.chunks.entry(chunk).or_default();
                buffer.repair.push((group, row, bytes.to_vec()));
            }
            Arrival::Probe { .. } | Arrival::Close | Arrival::Control | Arrival::Refused(_) => {}
        }
    }

    /// The buffer of a chunk of `of` bytes; a new one may be empty.
    fn buffer(&mut self, chunk: u32, of: usize) -> &mut Buffer {
        let free = &mut self.free;
        self.chunks.entry(chunk).or_insert_with(|| {
            // A small file does not keep the memory of a large chunk.
            let at = free.partition_point(|free| free.len() < of);
            let fits = free.get(at).is_some_and(|free| free.len() / 4 <= of.max(SMALL_BYTES[0]));
            // Data of an earlier chunk in the buffer is overwritten before the chunk is complete.
            let mut bytes = if fits { free.remove(at) } else { Vec::new() };
            bytes.truncate(of);
            Buffer { bytes, repair: Vec::new() }
        })
    }

    /// A chunk has this length: memory beyond it, from before that was known, is given up.
    pub fn announce(&mut self, chunk: u32, bytes: u32) {
        if let Some(buffer) = self.chunks.get_mut(&chunk)
            && buffer.bytes.len() > bytes as usize
        {
            buffer.bytes.truncate(bytes as usize);
            buffer.bytes.shrink_to_fit();
        }
    }

    /// Repairs the packets `missing` (as bits) of a group of a chunk with `bytes` in total. False
    /// if that is impossible because the other end has sent inconsistent repair packets.
    #[must_use]
    pub fn repair(&mut self, chunk: u32, group: u32, bytes: u32, missing: &[u64; 4]) -> bool {
        let Some(buffer) = self.chunks.get_mut(&chunk) else { return false };
        let stride = self.code.scheme().data_packets() * self.payload;
        let first = group as usize * stride;
        let end = (bytes as usize).min(first + stride);
        grow(&mut buffer.bytes, end, self.chunk_bytes);
        let Some(data) = buffer.bytes.get_mut(first..end) else { return false };
        let rows: Vec<RepairPacket<'_>> = buffer
            .repair
            .iter()
            .filter(|(of, _, _)| *of == group)
            .map(|(_, row, bytes)| RepairPacket { row: *row as usize, bytes })
            .collect();
        let is_missing = |index: usize| missing[index / 64] >> (index % 64) & 1 == 1;
        let repaired = self.code.repair_run(data, self.payload, is_missing, &rows).is_ok();
        buffer.repair.retain(|(of, _, _)| *of != group);
        repaired
    }

    /// Whether no chunk is being received.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes of memory of all chunks that are being received, and of their repair.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let of_chunk = |Buffer { bytes, repair }: &Buffer| {
            let rows: usize = repair.iter().map(|(_, _, row)| row.len()).sum();
            (bytes.len() + rows) as u64
        };
        self.chunks.values().map(of_chunk).sum()
    }

    /// Drops chunks that are not wanted any more.
    pub fn discard(&mut self, chunks: Range<u32>) {
        while let Some((&chunk, _)) = self.chunks.range(chunks.clone()).next() {
            if let Some(buffer) = self.take(chunk) {
                self.give_back(buffer);
            }
        }
    }

    /// Removes a complete chunk: its buffer, which starts with the chunk.
    pub fn take(&mut self, chunk: u32) -> Option<Vec<u8>> {
        self.chunks.remove(&chunk).map(|buffer| buffer.bytes)
    }

    /// Returns a buffer for reuse. The shortest are reused first.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.is_empty() || buffer.len() > self.chunk_bytes {
            return;
        }
        let at = self.free.partition_point(|free| free.len() < buffer.len());
        self.free.insert(at, buffer);
        if self.free.len() > KEPT_BUFFERS {
            self.free.remove(0);
        }
    }
}

/// Enlarges a buffer to at least `needed` bytes, if that is at most `most`, in steps such that data
/// is copied at most twice.
fn grow(bytes: &mut Vec<u8>, needed: usize, most: usize) {
    if needed <= bytes.len() || needed > most {
        return;
    }
    let length = SMALL_BYTES.into_iter().find(|small| needed <= *small).unwrap_or(most).min(most);
    // Zeroed memory from the system costs nothing until it is used, unlike growing in place.
    let mut longer = vec![0; length];
    longer[..bytes.len()].copy_from_slice(bytes);
    *bytes = longer;
}
