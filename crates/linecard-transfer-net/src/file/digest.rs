//! The hash of an object, computed from those of its chunks.
//!
//! Source: O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3: one function, fast everywhere", section
//! 2.1. A chunk of 2^n KiB that starts at a multiple of its length is a subtree.

use super::{ChunkBytes, FileError};
use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a hash.
pub(super) const HASH_BYTES: usize = blake3::OUT_LEN;

/// Distinguishes what [`derived`] gives from all other hashes.
const CONTEXT: &str = "linecard 2026-11-29 hash of a partial file";

/// Told of a partial file instead of its hash: an end that has the data can compare it, and one that does not cannot claim
/// them, as their hash does not follow from it.
pub(crate) fn derived(hash: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    blake3::derive_key(CONTEXT, hash)
}

/// State of one chunk: its node in the tree of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHash {
    /// Its chaining value.
    pub(super) node: [u8; HASH_BYTES],
    /// The object's hash if this is its only chunk; zeros for all but the first chunk.
    pub(super) alone: [u8; HASH_BYTES],
}

impl ChunkHash {
    /// The hash of `bytes` as chunk number `chunk`; of bytes beyond a chunk's length nothing is read.
    #[must_use]
    pub fn of(chunk: u32, chunk_bytes: ChunkBytes, bytes: &[u8]) -> Self {
        let longest = usize::try_from(chunk_bytes.bytes()).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(longest)];
        let mut hasher = ChunkHasher::new(chunk, chunk_bytes);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The hash of chunk number `chunk` of an object of `size` bytes, as it is in `file` now, read through
    /// `buffer`.
    pub(super) fn of_file(
        chunk: u32,
        (chunk_bytes, size): (ChunkBytes, u64),
        file: &File,
        buffer: &mut [u8],
    ) -> io::Result<Self> {
        let range = chunk_bytes.range(chunk, size);
        let mut hasher = ChunkHasher::new(chunk, chunk_bytes);
        let mut at = range.start;
        while at < range.end {
            let length = buffer.len().min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
            file.read_exact_at(&mut buffer[..length], at)?;
            hasher.update(&buffer[..length]);
            at += length as u64;
        }
        Ok(hasher.finish())
    }
}

/// Bytes that are hashed and read or written in turns: they are in the cache for both.
pub(super) const STEP_BYTES: usize = 256 << 10;

/// The hash of a chunk whose bytes come in order.
#[derive(Debug)]
pub(super) struct ChunkHasher {
    hasher: Hasher,
    is_first: bool,
}

impl ChunkHasher {
    pub(super) fn new(chunk: u32, chunk_bytes: ChunkBytes) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(chunk_bytes.start(chunk));
        Self { hasher, is_first: chunk == 0 }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    pub(super) fn finish(self) -> ChunkHash {
        let Self { hasher, is_first } = self;
        if hasher.count() == 0 {
            return ChunkHash { node: [0; HASH_BYTES], alone: *blake3::hash(&[]).as_bytes() };
        }
        // The first chunk's may also be taken as the root, which one with an offset must not be.
        let alone = if is_first { *hasher.finalize().as_bytes() } else { [0; HASH_BYTES] };
        ChunkHash { node: hasher.finalize_non_root(), alone }
    }
}

/// The hashes of an object's chunks, which come in any order.
///
/// ```
/// use linecard_transfer_net::file::{ChunkBytes, ChunkHash, Tree};
/// let chunks = ChunkBytes::new(1024)?;
/// let bytes = [7; 2500];
/// let mut tree = Tree::new(chunks);
/// for chunk in [2, 0, 1] {
///     let range = chunks.range(chunk, 2500);
///     let bytes = &bytes[range.start as usize..range.end as usize];
///     tree.set(chunk, &ChunkHash::of(chunk, chunks, bytes));
/// }
/// assert_eq!(tree.root(2500)?, Some(blake3::hash(&bytes)));
/// # Ok::<(), linecard_transfer_net::file::FileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tree {
    chunk_bytes: ChunkBytes,
    nodes: Vec<Option<[u8; HASH_BYTES]>>,
    alone: [u8; HASH_BYTES],
}

impl Tree {
    /// A tree without any.
    #[must_use]
    pub const fn new(chunk_bytes: ChunkBytes) -> Self {
        Self { chunk_bytes, nodes: Vec::new(), alone: [0; HASH_BYTES] }
    }

    /// Takes the hash of a chunk; beyond [`MAX_CHUNKS`](super::MAX_CHUNKS) it is none.
    pub fn set(&mut self, chunk: u32, hash: &ChunkHash) {
        if chunk >= super::MAX_CHUNKS {
            return;
        }
        let at = chunk as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, None);
        }
        self.nodes[at] = Some(hash.node);
        if chunk == 0 {
            self.alone = hash.alone;
        }
    }

    /// The hash of the object of `size` bytes, as `blake3::hash` of all of it; none while chunks are
    /// missing.
    ///
    /// # Errors
    ///
    /// [`FileError::TooManyChunks`].
    pub fn root(&self, size: u64) -> Result<Option<blake3::Hash>, FileError> {
        let count = self.chunk_bytes.count(size)? as usize;
        if count == 0 {
            return Ok(Some(blake3::hash(&[])));
        }
        let nodes: Option<Vec<_>> =
            self.nodes.get(..count).and_then(|n| n.iter().copied().collect());
        Ok(nodes.map(|nodes| match nodes.len() {
            1 => blake3::Hash::from_bytes(self.alone),
            _ => {
                let (left, right) = nodes.split_at(left_len(nodes.len()));
                merge_subtrees_root(&merged(left), &merged(right), Mode::Hash)
            }
        }))
    }
}

/// The node above `nodes`, of which there is at least one. As deep as the logarithm of their number.
fn merged(nodes: &[[u8; HASH_BYTES]]) -> [u8; HASH_BYTES] {
    if nodes.len() < 2 {
        return nodes.first().copied().unwrap_or_default();
    }
    let (left, right) = nodes.split_at(left_len(nodes.len()));
    merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
}

/// The largest power of two below `count`, which is at least 2: left subtrees are complete.
const fn left_len(count: usize) -> usize {
    count.div_ceil(2).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// The root by chunks in random order.
    fn by_chunks(bytes: &[u8], chunk_bytes: ChunkBytes, rng: &mut Rng) -> Option<blake3::Hash> {
        let size = bytes.len() as u64;
        let mut order: Vec<u32> = (0..chunk_bytes.count(size).unwrap()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let mut tree = Tree::new(chunk_bytes);
        for chunk in order {
            if size > 0 {
                assert_eq!(tree.root(size).unwrap(), None);
            }
            let range = chunk_bytes.range(chunk, size);
            let part = &bytes[range.start as usize..range.end as usize];
            tree.set(chunk, &ChunkHash::of(chunk, chunk_bytes, part));
        }
        tree.root(size).unwrap()
    }

    /// Promise (Transfer): The hash that is combined from chunks equals the plain BLAKE3 hash at
    /// all boundary sizes.
    #[test]
    fn the_tree_of_chunks_is_the_hash_of_the_whole() {
        let mut rng = Rng::new(5);
        let mut bytes = vec![0; 40 << 10];
        rng.fill(&mut bytes);
        for chunk in [1_024_u64, 2_048, 4_096, 16_384] {
            let chunk_bytes = ChunkBytes::new(chunk).unwrap();
            let mut sizes = vec![0, 1, 1_023, 1_024, 1_025];
            sizes.extend((1..=9).flat_map(|n| [n * chunk - 1, n * chunk, n * chunk + 1]));
            sizes.extend((0..50).map(|_| rng.below(40 << 10)));
            for size in sizes.into_iter().filter(|size| *size <= bytes.len() as u64) {
                let whole = &bytes[..size as usize];
                let root = by_chunks(whole, chunk_bytes, &mut rng);
                assert_eq!(root, Some(blake3::hash(whole)), "{size} in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_chunk_elsewhere_has_another_hash() {
        let chunk_bytes = ChunkBytes::new(1_024).unwrap();
        let at = |chunk| ChunkHash::of(chunk, chunk_bytes, &[1; 1_024]);
        assert_ne!(at(1), at(2));
        let mut tree = Tree::new(chunk_bytes);
        tree.set(0, &at(0));
        tree.set(1, &at(2));
        assert_ne!(tree.root(2_048).unwrap(), Some(blake3::hash(&[1; 2_048])));
    }

    #[test]
    fn what_is_too_long_or_beyond_all_bounds_does_not_panic() {
        let chunk_bytes = ChunkBytes::new(1_024).unwrap();
        assert_eq!(
            ChunkHash::of(1, chunk_bytes, &[1; 5_000]),
            ChunkHash::of(1, chunk_bytes, &[1; 1_024])
        );
        let mut tree = Tree::new(chunk_bytes);
        tree.set(u32::MAX, &ChunkHash::of(u32::MAX, chunk_bytes, &[1]));
        assert!(tree.nodes.is_empty() && tree.root(u64::MAX).is_err());
    }
}
