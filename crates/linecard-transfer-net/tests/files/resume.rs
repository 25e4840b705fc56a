//! Resuming after any interruption.

use super::{CHUNK, chunks, listing, object, random, sink, write};
use linecard::rng::Rng;
use linecard_transfer_net::file::{ChunkBytes, Existing, Folder, Have, Object};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const JOURNAL: &str = ".a.linecard-journal";

/// Whether every chunk that counts has its bytes, and the rest can be added.
fn keep_going(folder: &Path, object: &Object, bytes: &[u8]) -> Have {
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

/// Promise (Transfer): A journal that is cut at any byte, or damaged, never yields a wrong chunk.
#[test]
fn a_journal_cut_at_any_byte_is_gone_on_with() {
    let bytes = random(4 * CHUNK + 10);
    let object = object("a", bytes.len());
    let (part, journal) = left_behind(&object, &bytes, &[3, 0, 4]);
    let header = journal.len() - 3 * 76;
    for len in 0..=journal.len() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &part, &journal[..len]);
        let have = keep_going(folder.path(), &object, &bytes);
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
        let have = keep_going(folder.path(), &object, &bytes);
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
    assert_eq!(
        keep_going(folder.path(), &object, &bytes).ranges().collect::<Vec<_>>(),
        [1..2, 4..5]
    );
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
        assert_eq!(keep_going(folder.path(), &object, &bytes).count(), 0);
    }
}

const TARGET: &str = "LINECARD_TEST_RECEIVE_INTO";
const COUNT: u32 = 400;

/// The receiving program: resumes with the stored chunks, in an order of its own.
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

/// Killed at any moment, and every other time not before it has written something: a busy machine may need longer than
/// any time to start it.
#[test]
fn killed_again_and_again_it_ends_with_all_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = random(COUNT as usize * CHUNK);
    let mut rng = Rng::new(9);
    let (mut kills, mut last) = (0, 0);
    let is_whole = || folder.path().join("a").exists();
    let written = || fs::metadata(folder.path().join(JOURNAL)).map_or(0, |file| file.len());
    while !is_whole() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resume::receiver"])
            .env(TARGET, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while kills % 2 == 1 && written() <= last && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
        let _ended = child.kill();
        child.wait().unwrap();
        kills += 1;
        assert!(written() >= last || is_whole());
        last = written();
        assert!(kills < 1_000, "no progress");
    }
    assert!(kills > 5, "killed only {kills} times");
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), bytes);
}

/// A loss of power, a bad disk, another program: only chunks with the right hash count.
#[test]
fn chunks_are_read_again_before_they_count() {
    let bytes = random(4 * CHUNK);
    let object = object("a", bytes.len());
    let (mut part, journal) = left_behind(&object, &bytes, &[0, 1, 3]);
    part[CHUNK + 100..CHUNK + 200].fill(0);
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &part, &journal);
    let have = keep_going(folder.path(), &object, &bytes);
    assert_eq!(have.ranges().collect::<Vec<_>>(), [0..1, 3..4]);
    // No other process has the file open then.
    assert!(OpenOptions::new().write(true).open(folder.path().join("a")).is_ok());
}

/// Twice: the record of the chunk that was found damaged is not there any more.
#[test]
fn a_chunk_that_was_written_again_counts_the_next_time() {
    let bytes = random(4 * CHUNK);
    let object = object("a", bytes.len());
    let (mut part, journal) = left_behind(&object, &bytes, &[0, 1]);
    part[..CHUNK].fill(9);
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &part, &journal);
    let again = sink(folder.path(), &object);
    assert_eq!(again.have(), Have::from_iter([1]));
    write(&again, &bytes, [0]);
    drop(again);
    assert_eq!(keep_going(folder.path(), &object, &bytes).count(), 2);
}

/// So that a loss of power at any time leaves one of the two.
#[test]
fn a_journal_is_replaced_as_a_whole() {
    let bytes = random(4 * CHUNK);
    let object = object("a", bytes.len());
    let (mut part, journal) = left_behind(&object, &bytes, &[0, 1, 3]);
    part[..CHUNK].fill(9);
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &part, &journal);
    // An earlier run was killed while it wrote a longer one.
    fs::write(folder.path().join(".a.linecard-journal-new"), [7; 4_096]).unwrap();
    let mut old = fs::File::open(folder.path().join(JOURNAL)).unwrap();
    assert_eq!(sink(folder.path(), &object).have(), Have::from_iter([1, 3]));
    let mut kept = Vec::new();
    old.read_to_end(&mut kept).unwrap();
    assert_eq!(kept, journal, "the old one has not changed");
    let new = fs::metadata(folder.path().join(JOURNAL)).unwrap().len();
    assert_eq!(new, journal.len() as u64 - 76);
    // One that is whole stays.
    assert_eq!(sink(folder.path(), &object).have().count(), 2);
    assert_eq!(keep_going(folder.path(), &object, &bytes).count(), 2);
}

/// A dry run says so, and changes nothing.
#[test]
fn chunks_of_an_earlier_run_are_told_without_a_change() {
    let bytes = random(4 * CHUNK + 10);
    let object = object("a", bytes.len());
    let (mut part, journal) = left_behind(&object, &bytes, &[3, 0, 4]);
    part[3 * CHUNK] ^= 1;
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let told = || folder.would_take(&object, chunks(), false).map(|(have, _)| have);
    assert_eq!(told().unwrap(), Have::default());
    fs::write(at.path().join(".a.linecard-part"), &part).unwrap();
    assert_eq!(told().unwrap(), Have::default());
    put(at.path(), &part, &journal);
    assert_eq!(told().unwrap(), Have::from_iter([0, 4]));
    assert_eq!(fs::read(at.path().join(JOURNAL)).unwrap(), journal);
    assert_eq!(fs::read(at.path().join(".a.linecard-part")).unwrap(), part);
    // Something else has its name.
    fs::remove_file(at.path().join(JOURNAL)).unwrap();
    std::os::unix::fs::symlink("nothing", at.path().join(JOURNAL)).unwrap();
    assert!(told().is_err());
}

#[test]
fn chunks_of_another_length_are_gone_on_with() {
    let bytes = random(9 * CHUNK + 10);
    let object = object("a", bytes.len());
    let (part, journal) = left_behind(&object, &bytes, &[0, 1, 2, 5, 8, 9]);
    for (length, whole) in [(2 * CHUNK, &[0, 4][..]), (8 * CHUNK, &[1])] {
        let whole = Have::from_iter(whole.iter().copied());
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &part, &journal);
        let longer = ChunkBytes::new(length as u64).unwrap();
        let open = || Folder::open(folder.path()).unwrap().sink(&object, longer, false).unwrap();
        assert_eq!(open().have(), whole);
        // Written down now, in chunks of this length.
        let sink = open();
        assert_eq!(sink.have(), whole);
        let size = bytes.len() as u64;
        for chunk in sink.have().missing(longer.count(size).unwrap()).flatten() {
            let range = longer.range(chunk, size);
            sink.write(chunk, &bytes[range.start as usize..range.end as usize]).unwrap();
        }
        sink.finish(&blake3::hash(&bytes)).unwrap();
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), bytes);
        assert_eq!(listing(folder.path()), ["a"]);
    }
}

#[test]
fn what_is_there_already_is_told_by_its_hash() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let object = object("d/a", 3);
    assert_eq!(folder.existing(&object).unwrap(), Existing::Nothing);
    // It was looked for, and nothing made.
    assert!(listing(at.path()).is_empty());
    fs::create_dir(at.path().join("d")).unwrap();
    fs::write(at.path().join("d/.a.linecard-part"), "").unwrap();
    assert_eq!(folder.existing(&object).unwrap(), Existing::Part);
    fs::write(at.path().join("d/a"), "xyz").unwrap();
    let hash = blake3::hash(b"xyz");
    assert_eq!(folder.existing(&object).unwrap(), Existing::File { hash, part: true });
    fs::write(at.path().join("d/a"), "four").unwrap();
    assert_eq!(folder.existing(&object).unwrap(), Existing::Other);
    fs::remove_file(at.path().join("d/a")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at.path().join("d/a")).unwrap();
    assert_eq!(folder.existing(&object).unwrap(), Existing::Other);
}
