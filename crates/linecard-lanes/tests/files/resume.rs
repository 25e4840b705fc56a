//! Going on after anything.

use super::{CHUNK, chunks, listing, object, random, sink, write};
use linecard::rng::Rng;
use linecard_lanes::file::{Have, Object};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const JOURNAL: &str = ".a.linecard-journal";

/// Whether every chunk that counts has its bytes, and the rest can be added.
fn goes_on(folder: &Path, object: &Object, bytes: &[u8]) -> Have {
    let sink = sink(folder, object);
    let have = sink.have();
    let partial = fs::read(folder.join(".a.linecard-part")).unwrap();
    for chunk in have.ranges().flatten() {
        let range = chunks().range(chunk, bytes.len() as u64);
        let range = range.start as usize..range.end as usize;
        assert_eq!(partial[range.clone()], bytes[range], "chunk {chunk}");
    }
    write(&sink, bytes, have.missing(chunks().count(bytes.len() as u64).unwrap()).flatten());
    sink.finish(&blake3::hash(bytes)).unwrap();
    assert_eq!(fs::read(folder.join("a")).unwrap(), bytes);
    assert_eq!(listing(folder), ["a"]);
    have
}

/// A partial file with these chunks, as bytes of file and journal.
fn left_behind(object: &Object, bytes: &[u8], which: &[u32]) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    write(&sink(folder.path(), object), bytes, which.iter().copied());
    let read = |name| fs::read(folder.path().join(name)).unwrap();
    (read(".a.linecard-part"), read(JOURNAL))
}

fn put(folder: &Path, part: &[u8], journal: &[u8]) {
    fs::write(folder.join(".a.linecard-part"), part).unwrap();
    fs::write(folder.join(JOURNAL), journal).unwrap();
}

#[test]
fn a_journal_cut_at_any_byte_is_gone_on_with() {
    let bytes = random(4 * CHUNK + 10);
    let object = object("a", bytes.len());
    let (part, journal) = left_behind(&object, &bytes, &[3, 0, 4]);
    let header = journal.len() - 3 * 76;
    for len in 0..=journal.len() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &part, &journal[..len]);
        let have = goes_on(folder.path(), &object, &bytes);
        assert_eq!(have.count() as usize, len.saturating_sub(header) / 76, "{len}");
    }
}

#[test]
fn a_damaged_journal_gives_fewer_chunks_and_never_wrong_ones() {
    let bytes = random(4 * CHUNK + 10);
    let object = object("a", bytes.len());
    // Chunks 1 and 2 are not there: counting them would show in the file.
    let (part, journal) = left_behind(&object, &bytes, &[3, 0, 4]);
    for at in 0..journal.len() {
        let folder = tempfile::tempdir().unwrap();
        let mut damaged = journal.clone();
        damaged[at] ^= 1 << (at % 8);
        put(folder.path(), &part, &damaged);
        let have = goes_on(folder.path(), &object, &bytes);
        // The name of the boot is in the header: with another one chunks are checked, and count.
        assert!(have.count() <= 2 && !have.contains(1) && !have.contains(2), "{at}: {have:?}");
    }
}

#[test]
fn a_torn_record_is_written_over() {
    let bytes = random(5 * CHUNK);
    let object = object("a", bytes.len());
    let (part, journal) = left_behind(&object, &bytes, &[1, 2]);
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &part, &journal[..journal.len() - 20]);
    write(&sink(folder.path(), &object), &bytes, [4]);
    assert_eq!(goes_on(folder.path(), &object, &bytes).ranges().collect::<Vec<_>>(), [1..2, 4..5]);
}

#[test]
fn another_object_another_cut_or_a_short_partial_start_anew() {
    let bytes = random(4 * CHUNK);
    let first = object("a", bytes.len());
    let (part, journal) = left_behind(&first, &bytes, &[0, 1, 2]);
    let mut newer = first.clone();
    newer.modified.secs += 1;
    for (object, part, bytes) in [
        (newer, &part[..], random(4 * CHUNK)),
        (object("a", 4 * CHUNK + 1), &part[..], random(4 * CHUNK + 1)),
        (first.clone(), &part[..4 * CHUNK - 1], bytes.clone()),
        (first, &[][..], bytes),
    ] {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), part, &journal);
        assert_eq!(goes_on(folder.path(), &object, &bytes).count(), 0);
    }
}

const TARGET: &str = "LINECARD_TEST_RECEIVE_INTO";
const COUNT: u32 = 400;

/// The receiving program: goes on with what is there, in an order of its own.
#[test]
fn receiver() {
    let Some(folder) = std::env::var_os(TARGET) else { return };
    let bytes = random(COUNT as usize * CHUNK);
    let sink = sink(folder.as_ref(), &object("a", bytes.len()));
    let mut missing: Vec<u32> = sink.have().missing(COUNT).flatten().collect();
    if missing.len().is_multiple_of(2) {
        missing.reverse();
    }
    for chunk in missing {
        write(&sink, &bytes, [chunk]);
        std::thread::sleep(Duration::from_micros(200));
    }
    sink.finish(&blake3::hash(&bytes)).unwrap();
}

#[test]
fn killed_again_and_again_it_ends_with_all_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = random(COUNT as usize * CHUNK);
    let mut rng = Rng::new(9);
    let (mut kills, mut last) = (0, 0);
    while !folder.path().join("a").exists() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resume::receiver"])
            .env(TARGET, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + rng.below(15_000)));
        let _ended = child.kill();
        child.wait().unwrap();
        kills += 1;
        let records = fs::metadata(folder.path().join(JOURNAL)).map_or(0, |file| file.len());
        assert!(records >= last || folder.path().join("a").exists());
        last = records;
        assert!(kills < 1_000, "no progress");
    }
    assert!(kills > 5, "killed only {kills} times");
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), bytes);
}

#[test]
fn after_a_loss_of_power_chunks_are_checked_before_they_count() {
    let bytes = random(4 * CHUNK);
    let object = object("a", bytes.len());
    let (mut part, mut journal) = left_behind(&object, &bytes, &[0, 1, 3]);
    // A chunk that never reached the disk.
    part[CHUNK..2 * CHUNK].fill(0);
    let folder = tempfile::tempdir().unwrap();
    // Written under another boot: that is in the header, before its checksum of 8 bytes.
    let header = journal.len() - 3 * 76;
    journal[header - 24..header - 8].fill(0x55);
    let sum = blake3::hash(&journal[..header - 8]);
    journal[header - 8..header].copy_from_slice(&sum.as_bytes()[..8]);
    for record in 0..3 {
        let at = header + record * 76;
        let sum = blake3::hash(&[&journal[..header], &journal[at..at + 68]].concat());
        journal[at + 68..at + 76].copy_from_slice(&sum.as_bytes()[..8]);
    }
    put(folder.path(), &part, &journal);
    let have = goes_on(folder.path(), &object, &bytes);
    assert_eq!(have.ranges().collect::<Vec<_>>(), [0..1, 3..4]);
    // The file is open for nobody else then.
    assert!(OpenOptions::new().write(true).open(folder.path().join("a")).is_ok());
}
