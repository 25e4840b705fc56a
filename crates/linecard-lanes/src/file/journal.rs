//! Which chunks of a partial file are whole, so that a killed process can go on.
//!
//! A header says of what the partial file is a part, and each record of one chunk is written when that
//! chunk is. Both are checksummed; a record counts only behind the header it was written for. So a file
//! that was cut or damaged anywhere gives fewer chunks, never a wrong one.
//!
//! What one process has written, the next one reads, whatever killed the first: but not after a loss of
//! power, when a record may be on the disk and its chunk not. The header therefore names the boot of the
//! system, and in another one chunks are read and hashed again before they count.
//!
//! ```text
//! header  magic 8 | chunk bytes 8 | size 8 | seconds 8 | ns 4 | name's hash 32 | boot 16 | check 8
//! record  chunk 4 | node 32 | alone 32 | check 8
//! ```

use super::digest::HASH_BYTES;
use super::{ChunkBytes, ChunkHash, Object};
use std::fs;

const MAGIC: [u8; 8] = *b"LCJOURN1";
const CHECK_BYTES: usize = 8;
const SAME_BYTES: usize = 8 + 8 + 8 + 8 + 4 + HASH_BYTES;
const BOOT_BYTES: usize = 16;
/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = SAME_BYTES + BOOT_BYTES + CHECK_BYTES;
/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 4 + 2 * HASH_BYTES + CHECK_BYTES;

/// This run of the system.
pub(super) type Boot = [u8; BOOT_BYTES];

/// What a journal begins with, and what its records are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header([u8; HEADER_BYTES]);

/// What a journal says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Chunks that were whole.
    pub(super) chunks: Vec<(u32, ChunkHash)>,
    /// Since then the system has not been started anew.
    pub(super) is_same_boot: bool,
    /// It is records from end to end: one can go on behind them.
    pub(super) is_clean: bool,
}

impl Header {
    /// The header for an object of known size.
    pub(super) fn new(object: &Object, size: u64, chunk_bytes: ChunkBytes, boot: &Boot) -> Self {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(chunk_bytes.bytes().to_be_bytes());
        header.extend(size.to_be_bytes());
        header.extend(object.modified.secs.to_be_bytes());
        header.extend(object.modified.ns.to_be_bytes());
        header.extend(blake3::hash(object.name.as_bytes()).as_bytes());
        header.extend(boot);
        header.extend(check(&[&header]));
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&header);
        Self(bytes)
    }

    /// As it is written.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The record of a chunk.
    pub(super) fn record(&self, chunk: u32, hash: &ChunkHash) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        let (body, sum) = record.split_at_mut(RECORD_BYTES - CHECK_BYTES);
        body[..4].copy_from_slice(&chunk.to_be_bytes());
        body[4..4 + HASH_BYTES].copy_from_slice(&hash.node);
        body[4 + HASH_BYTES..].copy_from_slice(&hash.alone);
        sum.copy_from_slice(&check(&[&self.0, body]));
        record
    }

    /// What `journal` says about the same object; none if it is about another one, or none at all.
    pub(super) fn read(&self, journal: &[u8], count: u32) -> Option<Found> {
        let (header, records) = journal.split_first_chunk::<HEADER_BYTES>()?;
        let (body, sum) = header.split_at(HEADER_BYTES - CHECK_BYTES);
        if body[..SAME_BYTES] != self.0[..SAME_BYTES] || check(&[body]) != sum {
            return None;
        }
        let is_same_boot = *header == self.0 && self.names_a_boot();
        let written = Self(*header);
        let mut records = records.chunks_exact(RECORD_BYTES);
        let mut is_clean = true;
        let mut chunks = Vec::new();
        for record in &mut records {
            match written.chunk_of(record).filter(|(chunk, _)| *chunk < count) {
                Some(found) => chunks.push(found),
                None => is_clean = false,
            }
        }
        is_clean &= records.remainder().is_empty();
        Some(Found { chunks, is_same_boot, is_clean })
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

    fn names_a_boot(&self) -> bool {
        self.0[SAME_BYTES..SAME_BYTES + BOOT_BYTES] != [0; BOOT_BYTES]
    }
}

/// Most bytes that a journal about `count` chunks is read: each chunk twice, which nobody writes.
pub(super) fn longest(count: u32) -> u64 {
    HEADER_BYTES as u64 + 2 * u64::from(count) * RECORD_BYTES as u64
}

/// What the kernel calls this run of the system; zeros, which equal nothing, if it does not say.
pub(super) fn boot() -> Boot {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
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
    use super::super::{Kind, Name, Stamp};
    use super::*;

    const COUNT: u32 = 6;

    fn object() -> Object {
        Object {
            name: Name::new(b"a/b").unwrap(),
            kind: Kind::File,
            size: Some(6_000),
            mode: 0o644,
            modified: Stamp { secs: -3, ns: 9 },
        }
    }

    fn header(boot: u8) -> Header {
        Header::new(&object(), 6_000, ChunkBytes::new(1_024).unwrap(), &[boot; BOOT_BYTES])
    }

    /// A journal of chunks 4, 0 and 2, and their hashes.
    fn journal() -> (Vec<u8>, Vec<(u32, ChunkHash)>) {
        let chunks: Vec<(u32, ChunkHash)> = [4, 0, 2]
            .map(|chunk| {
                (chunk, ChunkHash::of(chunk, ChunkBytes::new(1_024).unwrap(), &[1; 1_024]))
            })
            .into();
        let mut bytes = header(1).as_bytes().to_vec();
        for (chunk, hash) in &chunks {
            bytes.extend(header(1).record(*chunk, hash));
        }
        (bytes, chunks)
    }

    #[test]
    fn a_journal_cut_anywhere_gives_the_records_before_the_cut() {
        let (bytes, chunks) = journal();
        for len in 0..=bytes.len() {
            let found = header(1).read(&bytes[..len], COUNT);
            let Some(body) = len.checked_sub(HEADER_BYTES) else {
                assert_eq!(found, None);
                continue;
            };
            let whole = body / RECORD_BYTES;
            let is_clean = body % RECORD_BYTES == 0;
            let chunks = chunks[..whole].to_vec();
            assert_eq!(found, Some(Found { chunks, is_same_boot: true, is_clean }), "{len}");
        }
    }

    #[test]
    fn a_damaged_byte_never_makes_a_wrong_chunk() {
        let (bytes, chunks) = journal();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let found = header(1).read(&damaged, COUNT);
                let Some(body) = at.checked_sub(HEADER_BYTES) else {
                    assert_eq!(found, None, "byte {at}");
                    continue;
                };
                let mut left = chunks.clone();
                left.remove(body / RECORD_BYTES);
                let left = Found { chunks: left, is_same_boot: true, is_clean: false };
                assert_eq!(found, Some(left), "byte {at}");
            }
        }
    }

    #[test]
    fn records_count_only_for_the_object_they_were_written_for() {
        let (bytes, chunks) = journal();
        let other = |change: fn(&mut Object, &mut u64)| {
            let (mut object, mut size) = (object(), 6_000);
            change(&mut object, &mut size);
            Header::new(&object, size, ChunkBytes::new(1_024).unwrap(), &[1; BOOT_BYTES])
        };
        let others = [
            other(|object, _| object.name = Name::new(b"a/c").unwrap()),
            other(|object, _| object.modified.ns += 1),
            other(|_, size| *size += 1),
        ];
        for other in others {
            assert_eq!(other.read(&bytes, COUNT), None);
            // Not behind another header either.
            let grafted = [other.as_bytes(), &bytes[HEADER_BYTES..]].concat();
            assert_eq!(other.read(&grafted, COUNT).unwrap().chunks, []);
        }
        // After another start of the system they are known, but not to be trusted.
        let found = header(2).read(&bytes, COUNT).unwrap();
        assert_eq!((found.chunks, found.is_same_boot), (chunks, false));
        let unknown = header(0);
        let found = unknown.read(unknown.as_bytes(), COUNT).unwrap();
        assert!(!found.is_same_boot);
        // Chunks that the object does not have.
        assert_eq!(header(1).read(&bytes, 4).unwrap().chunks.len(), 2);
    }

    #[test]
    fn the_kernel_names_its_boot() {
        assert_ne!(boot(), [0; BOOT_BYTES]);
        assert_eq!(boot(), boot());
    }
}
