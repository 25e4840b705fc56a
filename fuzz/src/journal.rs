//! Journals of partial files, damaged, cut off, of other objects: only chunks that were recorded for this object count.

use crate::draw::Draw;
use linecard_transfer_net::file::journal::{HEADER_BYTES, Header, RECORD_BYTES, longest};
use linecard_transfer_net::file::{ChunkBytes, ChunkHash, Kind, Name, Object, Stamp};

/// Records of one input.
const MAX_RECORDS: usize = 64;

/// Input: the object, then records and the end of the journal, and damage.
pub fn journal(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let size = u64::from(draw.word()) * 5;
    let (own, written) = (chunk_bytes(draw), chunk_bytes(draw));
    let object = object(draw);
    let header = Header::new(&object, size, own);
    let before = Header::new(&object, size, written);
    let other = Object { mode: 0o600, modified: Stamp { secs: 1, ns: 0 }, ..object };
    let other = Header::new(&other, size, written);
    let count = written.count(size).expect("a small object");
    assert_eq!(header.read(data, size), None, "any bytes are not a journal");

    let mut bytes = before.as_bytes().to_vec();
    let mut records = Vec::new();
    for _ in 0..draw.below(MAX_RECORDS) {
        let (choice, chunk) = (draw.below(8), u32::from(draw.word()) % (count + 2));
        let hash = ChunkHash::of(chunk, written, &draw.take(4));
        let (record, found) = match choice {
            0 => (record(draw), None),
            1 => (other.record(chunk, &hash).to_vec(), None),
            _ => (before.record(chunk, &hash).to_vec(), (chunk < count).then_some((chunk, hash))),
        };
        bytes.extend(record);
        records.push(found);
    }
    let end = draw.below(RECORD_BYTES);
    bytes.extend(draw.take(end));
    assert!(longest(size) >= HEADER_BYTES as u64 + u64::from(count) * RECORD_BYTES as u64);

    let mut is_header_sound = true;
    let (at, bits) = (usize::from(draw.word()) % bytes.len(), draw.byte());
    bytes[at] ^= bits;
    if bits != 0 {
        match at.checked_sub(HEADER_BYTES) {
            None => is_header_sound = false,
            Some(at) => {
                records.iter_mut().skip(at / RECORD_BYTES).take(1).for_each(|one| *one = None)
            }
        }
    }
    let cut = usize::from(draw.word()).min(bytes.len() - 1);
    bytes.truncate(bytes.len() - cut);
    let found = header.read(&bytes, size);
    let body = bytes.len().checked_sub(HEADER_BYTES).filter(|_| is_header_sound);
    let Some(body) = body else { return assert_eq!(found, None) };
    let found = found.expect("the header is sound");
    records.truncate(body / RECORD_BYTES);
    let is_clean = records.iter().all(Option::is_some) && body % RECORD_BYTES == 0;
    let chunks: Vec<(u32, ChunkHash)> = records.into_iter().flatten().collect();
    assert_eq!((found.chunk_bytes, found.chunks), (written, chunks));
    assert_eq!(found.is_clean, is_clean && own == written);
}

fn chunk_bytes(draw: &mut Draw<'_>) -> ChunkBytes {
    ChunkBytes::new(ChunkBytes::MIN << draw.below(4)).expect("a power of two")
}

fn object(draw: &mut Draw<'_>) -> Object {
    let len = draw.below(16);
    let name = Name::new(&draw.take(len)).unwrap_or(Name::new(b"folder/file").expect("a name"));
    let modified = Stamp { secs: i64::from(draw.word()) + 2, ns: draw.byte().into() };
    let (size, mode) = (None, 0o644);
    Object {
        name,
        kind: Kind::File,
        size,
        has_holes: false,
        has_links: false,
        by_time: false,
        mode,
        modified,
    }
}

/// As many bytes as a record has.
fn record(draw: &mut Draw<'_>) -> Vec<u8> {
    let mut bytes = draw.take(RECORD_BYTES);
    bytes.resize(RECORD_BYTES, 0);
    bytes
}
