//! Files that are read, and files that appear when they are whole.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod names;
mod resume;
mod sinks;
mod sources;

use linecard::rng::Rng;
use linecard_transfer_net::file::{ChunkBytes, Folder, Kind, Name, Object, Sink, Stamp};
use std::path::Path;

const CHUNK: usize = 1_024;

fn chunks() -> ChunkBytes {
    ChunkBytes::new(CHUNK as u64).unwrap()
}

/// `bytes` random bytes.
fn random(bytes: usize) -> Vec<u8> {
    let mut random = vec![0; bytes];
    Rng::new(bytes as u64).fill(&mut random);
    random
}

fn object(name: &str, size: usize) -> Object {
    Object {
        name: Name::new(name.as_bytes()).unwrap(),
        kind: Kind::File,
        size: Some(size as u64),
        has_holes: false,
        has_links: false,
        by_time: false,
        mode: 0o640,
        modified: Stamp { secs: 1_000_000_000, ns: 7 },
    }
}

fn sink(folder: &Path, object: &Object) -> Sink {
    Folder::open(folder).unwrap().sink(object, chunks(), false).unwrap()
}

/// Writes these chunks of `bytes`.
fn write(sink: &Sink, bytes: &[u8], which: impl IntoIterator<Item = u32>) {
    for chunk in which {
        let range = chunks().range(chunk, bytes.len() as u64);
        sink.write(chunk, &bytes[range.start as usize..range.end as usize]).unwrap();
    }
}

/// Contents of a folder.
fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
