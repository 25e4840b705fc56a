//! Which chunks of a partial file are complete, so that the next process can resume.
//!
//! A header identifies the object of the partial file, and each record of one chunk is written after that
//! chunk. Both are checksummed; a record counts only behind the header it was written for. So a file
//! that was cut or damaged anywhere gives fewer chunks, never a wrong one.
//!
//! The journal is only a hint: before a chunk counts, the next process reads it from the partial file and
//! compares its hash. So it does not matter which of the two reached the disk first.
//!
//! ```text
//! header  magic 8 | chunk bytes 8 | size 8 | seconds 8 | ns 4 | name's hash 32 | check 8
//! record  chunk 4 | node 32 | alone 32 | check 8
//! ```

use super::digest::HASH_BYTES;
use super::{ChunkBytes, ChunkHash, MAX_CHUNKS, Object};

const MAGIC: [u8; 8] = *b"LCJOURN2";
const CHECK_BYTES: usize = 8;
/// Where the length of chunks stands, and what follows it.
const CHUNK_BYTES_AT: usize = MAGIC.len();
const OBJECT_AT: usize = CHUNK_BYTES_AT + 8;
/// Bytes of the header.
pub const HEADER_BYTES: usize = OBJECT_AT + 8 + 8 + 4 + HASH_BYTES + CHECK_BYTES;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 4 + 2 * HASH_BYTES + CHECK_BYTES;

/// Header of a journal, and the checksum of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header([u8; HEADER_BYTES]);

/// Contents of a journal.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// The length of the chunks, which another run may have chosen otherwise.
    pub chunk_bytes: ChunkBytes,
    /// Chunks that were whole.
    pub chunks: Vec<(u32, ChunkHash)>,
    /// It consists of valid records: more can be appended.
    pub is_clean: bool,
}

impl Header {
    /// The header for an object of known size.
    #[must_use]
    pub fn new(object: &Object, size: u64, chunk_bytes: ChunkBytes) -> Self {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(chunk_bytes.bytes().to_be_bytes());
        header.extend(size.to_be_bytes());
        header.extend(object.modified.secs.to_be_bytes());
        header.extend(object.modified.ns.to_be_bytes());
        header.extend(blake3::hash(object.name.as_bytes()).as_bytes());
        header.extend(check(&[&header]));
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&header);
        Self(bytes)
    }

    /// As it is written.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The record of a chunk.
    #[must_use]
    pub fn record(&self, chunk: u32, hash: &ChunkHash) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        let (body, sum) = record.split_at_mut(RECORD_BYTES - CHECK_BYTES);
        body[..4].copy_from_slice(&chunk.to_be_bytes());
        body[4..4 + HASH_BYTES].copy_from_slice(&hash.node);
        body[4 + HASH_BYTES..].copy_from_slice(&hash.alone);
        sum.copy_from_slice(&check(&[&self.0, body]));
        record
    }

    /// The entries of `journal` for the same object of `size` bytes; none if it is about another one, or none at all.
    #[must_use]
    pub fn read(&self, journal: &[u8], size: u64) -> Option<Contents> {
        let (header, records) = journal.split_first_chunk::<HEADER_BYTES>()?;
        let (body, sum) = header.split_at(HEADER_BYTES - CHECK_BYTES);
        let is_same =
            body[..CHUNK_BYTES_AT] == MAGIC && body[OBJECT_AT..] == self.0[OBJECT_AT..body.len()];
        if !is_same || check(&[body]) != sum {
            return None;
        }
        let written = Self(*header);
        let chunk_bytes = written.chunk_bytes()?;
        let count = chunk_bytes.count(size).ok()?;
        let mut records = records.chunks_exact(RECORD_BYTES);
        let mut is_clean = *header == self.0;
        let mut chunks = Vec::new();
        for record in &mut records {
            match written.chunk_of(record).filter(|(chunk, _)| *chunk < count) {
                Some(found) => chunks.push(found),
                None => is_clean = false,
            }
        }
        is_clean &= records.remainder().is_empty();
        Some(Contents { chunk_bytes, chunks, is_clean })
    }

    fn chunk_bytes(&self) -> Option<ChunkBytes> {
        let bytes = self.0[CHUNK_BYTES_AT..OBJECT_AT].try_into().ok()?;
        ChunkBytes::new(u64::from_be_bytes(bytes)).ok()
    }

    fn chunk_of(&self, record: &[u8]) -> Option<(u32, ChunkHash)> {
        let (body, sum) = record.split_at_checked(RECORD_BYTES - CHECK_BYTES)?;
        if check(&[&self.0, body]) != sum {
            return None;
        }
        let (chunk, hashes) = body.split_first_chunk()?;
        let (node, alone) = hashes.split_first_chunk()?;
        let hash = ChunkHash { node: *node, alone: *alone.first_chunk()? };
        Some((u32::from_be_bytes(*chunk), hash))
    }
}

/// Most bytes of a journal that are read: as many records as an object has chunks at most, each twice,
/// which nobody writes. `size` bounds it further: no chunk is shorter than [`ChunkBytes::MIN`].
#[must_use]
pub fn longest(size: u64) -> u64 {
    let count = size.div_ceil(ChunkBytes::MIN).min(MAX_CHUNKS.into());
    HEADER_BYTES as u64 + 2 * count * RECORD_BYTES as u64
}

fn check(parts: &[&[u8]]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests {
    use super::super::{Name, Stamp};
    use super::*;

    const SIZE: u64 = 6_000;

    fn object() -> Object {
        Object { modified: Stamp { secs: -3, ns: 9 }, ..Object::file("a/b", SIZE) }
    }

    fn chunks() -> ChunkBytes {
        ChunkBytes::new(1_024).unwrap()
    }

    fn header() -> Header {
        Header::new(&object(), SIZE, chunks())
    }

    /// A journal of chunks 4, 0 and 2, and their hashes.
    fn journal() -> (Vec<u8>, Vec<(u32, ChunkHash)>) {
        let chunks: Vec<(u32, ChunkHash)> =
            [4, 0, 2].map(|chunk| (chunk, ChunkHash::of(chunk, chunks(), &[1; 1_024]))).into();
        let mut bytes = header().as_bytes().to_vec();
        for (chunk, hash) in &chunks {
            bytes.extend(header().record(*chunk, hash));
        }
        (bytes, chunks)
    }

    #[test]
    fn a_journal_cut_anywhere_gives_the_records_before_the_cut() {
        let (bytes, chunks) = journal();
        for len in 0..=bytes.len() {
            let found = header().read(&bytes[..len], SIZE);
            let Some(body) = len.checked_sub(HEADER_BYTES) else {
                assert_eq!(found, None);
                continue;
            };
            let whole = body / RECORD_BYTES;
            let is_clean = body % RECORD_BYTES == 0;
            let chunks = chunks[..whole].to_vec();
            let chunk_bytes = self::chunks();
            assert_eq!(found, Some(Contents { chunk_bytes, chunks, is_clean }), "{len}");
        }
    }

    #[test]
    fn a_damaged_byte_never_makes_a_wrong_chunk() {
        let (bytes, chunks) = journal();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let found = header().read(&damaged, SIZE);
                let Some(body) = at.checked_sub(HEADER_BYTES) else {
                    assert_eq!(found, None, "byte {at}");
                    continue;
                };
                let mut left = chunks.clone();
                left.remove(body / RECORD_BYTES);
                let left = Contents { chunk_bytes: self::chunks(), chunks: left, is_clean: false };
                assert_eq!(found, Some(left), "byte {at}");
            }
        }
    }

    /// Its checksum is right: it is of a chunk that the object does not have.
    #[test]
    fn a_record_of_a_chunk_behind_the_end_does_not_count() {
        let count = chunks().count(SIZE).unwrap();
        let hash = ChunkHash::of(count, chunks(), &[1; 1_024]);
        let records = [count - 1, count, count + 1].map(|chunk| header().record(chunk, &hash));
        let journal = [header().as_bytes(), records.as_flattened()].concat();
        let found = header().read(&journal, SIZE).unwrap();
        assert_eq!((found.chunks, found.is_clean), (vec![(count - 1, hash)], false));
    }

    /// Another run may have had the shortest chunks, and each of them may have been written twice.
    #[test]
    fn the_longest_journal_that_is_read_has_each_of_the_shortest_chunks_twice() {
        let shortest = ChunkBytes::new(ChunkBytes::MIN).unwrap();
        for size in [0, 1, 1_024, 1_025, SIZE] {
            let header = Header::new(&object(), size, shortest);
            let mut journal = header.as_bytes().to_vec();
            for chunk in 0..shortest.count(size).unwrap() {
                let record = header.record(chunk, &ChunkHash::of(chunk, shortest, &[1; 1_024]));
                journal.extend([record, record].concat());
            }
            assert_eq!(longest(size), journal.len() as u64, "{size}");
        }
        assert_eq!(longest(u64::MAX), longest(u64::from(MAX_CHUNKS) * ChunkBytes::MIN));
    }

    #[test]
    fn records_count_only_for_the_object_they_were_written_for() {
        let (bytes, chunks) = journal();
        let other = |change: fn(&mut Object, &mut u64)| {
            let (mut object, mut size) = (object(), SIZE);
            change(&mut object, &mut size);
            Header::new(&object, size, self::chunks())
        };
        let others = [
            other(|object, _| object.name = Name::new(b"a/c").unwrap()),
            other(|object, _| object.modified.ns += 1),
            other(|_, size| *size += 1),
        ];
        for other in others {
            assert_eq!(other.read(&bytes, SIZE), None);
            // Not behind another header either.
            let grafted = [other.as_bytes(), &bytes[HEADER_BYTES..]].concat();
            assert_eq!(other.read(&grafted, SIZE).unwrap().chunks, []);
        }
        // Chunks of another length are known, but the journal is not continued as it is.
        let longer = Header::new(&object(), SIZE, ChunkBytes::new(2_048).unwrap());
        let found = longer.read(&bytes, SIZE).unwrap();
        assert_eq!(
            (found.chunk_bytes, found.chunks, found.is_clean),
            (self::chunks(), chunks, false)
        );
    }
}
