//! Common code of this benchmark and the one in `peers/`: traffic, buffers and the statistic, so
//! that both time the same packets in the same way.

pub(crate) mod count;
pub(crate) mod hostile;
pub(crate) mod measure;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod trace;
pub(crate) mod traffic;

/// Packets handed over at once, as a poll of a network card gives them.
pub(crate) const BURST: usize = 64;

/// A place in an arena with the bytes in use: what the author of a data path would hand over.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Slot<'a> {
    /// Divides an arena into slots of `stride` bytes.
    pub(crate) fn divide(arena: &'a mut [u8], stride: usize) -> Vec<Self> {
        arena.chunks_exact_mut(stride).map(|bytes| Self { bytes, len: 0 }).collect()
    }

    /// All bytes of the slot, in use or not.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Bytes of the slot, in use or not.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Says how many bytes are in use.
    pub(crate) fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes in a slot of {}", self.capacity());
        self.len = len;
    }

    /// Where the slot lies: slots are sorted by it, so that every round goes the same way.
    pub(crate) fn address(&self) -> usize {
        self.bytes.as_ptr() as usize
    }
}

/// Bytes of a slot for frames of `len` bytes: an odd number of cache lines, so that slots do not
/// all fall into a few sets of the cache.
pub(crate) fn stride(len: usize) -> usize {
    (len + 64).next_multiple_of(64) | 64
}

impl AsRef<[u8]> for Slot<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsMut<[u8]> for Slot<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}
