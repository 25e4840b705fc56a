//! How an object is divided into chunks.

use super::FileError;
use std::ops::Range;

/// Most chunks of an object: 8 TiB in chunks of 2 MiB, whose hashes take 256 MiB.
pub const MAX_CHUNKS: u32 = 1 << 22;

/// Length of a chunk: a power of two, 1 KiB (a leaf of BLAKE3) to 1 GiB.
///
/// ```
/// use linecard_transfer_net::file::ChunkBytes;
/// let chunks = ChunkBytes::new(1 << 20)?;
/// assert_eq!(chunks.count((3 << 20) + 1)?, 4);
/// assert_eq!(chunks.range(3, (3 << 20) + 1), 3 << 20..(3 << 20) + 1);
/// # Ok::<(), linecard_transfer_net::file::FileError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkBytes(u64);

impl ChunkBytes {
    /// The shortest: a leaf of the hash's tree.
    pub const MIN: u64 = blake3::CHUNK_LEN as u64;
    /// The longest: it is held in memory.
    pub const MAX: u64 = 1 << 30;

    /// Chunks of `bytes`.
    ///
    /// # Errors
    ///
    /// [`FileError::ChunkBytes`] if that is not a power of two from [`Self::MIN`] to [`Self::MAX`].
    pub fn new(bytes: u64) -> Result<Self, FileError> {
        let is_good = bytes.is_power_of_two() && (Self::MIN..=Self::MAX).contains(&bytes);
        if is_good { Ok(Self(bytes)) } else { Err(FileError::ChunkBytes(bytes)) }
    }

    /// Bytes of a whole chunk.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Chunks of an object of `size` bytes; 0 for an empty one.
    ///
    /// # Errors
    ///
    /// [`FileError::TooManyChunks`] beyond [`MAX_CHUNKS`].
    pub fn count(self, size: u64) -> Result<u32, FileError> {
        let count = u32::try_from(size.div_ceil(self.0)).ok().filter(|count| *count <= MAX_CHUNKS);
        count.ok_or_else(|| self.too_many(size))
    }

    /// The error that `size` bytes have too many chunks.
    pub(crate) fn too_many(self, size: u64) -> FileError {
        let least = size.div_ceil(MAX_CHUNKS.into()).checked_next_power_of_two();
        FileError::TooManyChunks { size, chunk_bytes: self.0, least: least.unwrap_or(Self::MAX) }
    }

    /// The bytes of an object of `size` bytes that `chunk` is; empty beyond its end.
    #[must_use]
    pub fn range(self, chunk: u32, size: u64) -> Range<u64> {
        let start = self.start(chunk).min(size);
        start..size.min(start + self.0)
    }

    /// Where `chunk` starts in its object.
    #[must_use]
    pub const fn start(self, chunk: u32) -> u64 {
        // 2^32 chunks of 2^30 bytes do not overflow.
        chunk as u64 * self.0
    }
}

impl Default for ChunkBytes {
    /// 2 MiB: what a core's cache holds costs least, and [as many as are in flight](linecard_transfer::receive::MAX_WINDOW)
    /// take 512 MiB.
    fn default() -> Self {
        Self(2 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two_within_bounds() {
        for bad in [0, 1, 512, 1_025, 3 << 20, 1 << 31, u64::MAX] {
            assert!(matches!(ChunkBytes::new(bad), Err(FileError::ChunkBytes(_))), "{bad}");
        }
        assert!(ChunkBytes::new(1_024).is_ok() && ChunkBytes::new(1 << 30).is_ok());
        assert!(ChunkBytes::new(ChunkBytes::default().bytes()).is_ok());
    }

    #[test]
    fn chunks_cover_the_object_and_are_bounded() {
        let chunks = ChunkBytes::new(1_024).unwrap();
        for size in [0, 1, 1_023, 1_024, 1_025, 4_096, 5_000] {
            let count = chunks.count(size).unwrap();
            let covered: u64 =
                (0..count).map(|chunk| chunks.range(chunk, size)).map(|r| r.end - r.start).sum();
            assert_eq!(covered, size);
            assert!(chunks.range(count, size).is_empty());
        }
        assert!(chunks.count(u64::from(MAX_CHUNKS) * 1_024).is_ok());
        assert!(chunks.count(u64::from(MAX_CHUNKS) * 1_024 + 1).is_err());
        assert!(chunks.count(u64::MAX).is_err());
    }
}
