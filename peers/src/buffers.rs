//! Buffers: of the same size and distance for all implementations, so that no prefetcher has an advantage.

use crate::trace::Trace;

/// Bytes before a frame, as a network card's driver leaves them.
pub const HEADROOM: usize = 128;
/// The rest between two of DPDK's data rooms: an `rte_mbuf` and the pool's own header.
const BETWEEN: usize = 192;
/// The bytes that [`aligned`] may skip.
pub const PAGE: usize = 4096;

/// The memory in which a receiver gets its packets.
pub trait Buffer {
    /// Where it lies: buffers are sorted by it, so that every round goes the same way.
    fn address(&self) -> usize;
    /// The bytes in use.
    fn bytes(&self) -> &[u8];
}

/// A place in an arena with the bytes in use.
#[derive(Debug)]
pub struct Slot<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl<'a> Slot<'a> {
    /// Divides an arena into slots of `stride` bytes, headroom included.
    pub fn divide(arena: &'a mut [u8], stride: usize) -> Vec<Self> {
        let rooms = arena.chunks_exact_mut(stride).map(|bytes| &mut bytes[HEADROOM..]);
        rooms.map(|room| Self { room, len: 0 }).collect()
    }

    /// All bytes of the slot, in use or not.
    pub fn room(&mut self) -> &mut [u8] {
        self.room
    }

    /// How many bytes there are, in use or not.
    pub fn capacity(&self) -> usize {
        self.room.len()
    }

    /// Says how many bytes are in use.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.room.len(), "{len} bytes in a slot of {}", self.room.len());
        self.len = len;
    }

    /// Takes a whole frame of a trace.
    pub fn take(&mut self, trace: &Trace, index: usize) {
        self.len = trace.write(index, self.room);
    }
}

impl AsRef<[u8]> for Slot<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

impl AsMut<[u8]> for Slot<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.room[..self.len]
    }
}

impl Buffer for Slot<'_> {
    fn address(&self) -> usize {
        self.room.as_ptr() as usize
    }

    fn bytes(&self) -> &[u8] {
        self.as_ref()
    }
}

/// Room for frames of at most `max_len` bytes, as drivers choose it: 2 KiB, or more for jumbo.
pub fn room(max_len: usize) -> usize {
    max_len.max(2048).next_multiple_of(64)
}

/// Bytes from one slot to the next: an odd number of cache lines, so that they do not all fall
/// into a few sets of the cache.
pub fn stride(room: usize) -> usize {
    (room + HEADROOM + BETWEEN).next_multiple_of(64) | 64
}

/// The part of some memory that starts at a page, so that all buffers begin a cache line.
pub fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let skipped = memory.as_ptr().align_offset(PAGE).min(memory.len());
    &mut memory[skipped..]
}

/// Takes every line of these bytes out of all caches.
pub fn evict(bytes: &[u8]) {
    use core::arch::x86_64::{_mm_clflush, _mm_mfence};
    let start = bytes.as_ptr() as usize;
    for line in (start & !63..start + bytes.len()).step_by(64) {
        // SAFETY: the line holds a byte of `bytes`, or is the line that it starts in; a flush
        // changes no memory.
        unsafe { _mm_clflush(line as *const u8) };
    }
    // SAFETY: a fence touches no memory.
    unsafe { _mm_mfence() };
}
