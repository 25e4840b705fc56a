//! One file from its first chunk to its name.

use super::{CHUNK, chunks, listing, object, random, sink, write};
use linecard_transfer_net::file::{
    ChunkBytes, Existing, FileError, Folder, Kind, Name, Object, Ordered, PipeFile,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// Promise (Transfer): An object appears under its name only when it is complete and its BLAKE3
/// hash is the sender's.
#[test]
fn a_file_appears_when_it_is_whole_with_mode_and_time() {
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 100] {
        let name = format!("file{size}");
        let bytes = random(size);
        let sink = sink(folder.path(), &object(&name, size));
        let count = chunks().count(size as u64).unwrap();
        let target = folder.path().join(&name);
        write(&sink, &bytes, (0..count).rev());
        assert!(!target.exists());
        sink.finish(&blake3::hash(&bytes)).unwrap();
        assert_eq!(fs::read(&target).unwrap(), bytes);
        let metadata = fs::metadata(&target).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_000_000_000, 7));
    }
    assert!(listing(folder.path()).iter().all(|name| name.starts_with("file")));
}

#[test]
fn chunks_that_are_none_of_the_object_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), &object("a", 2 * CHUNK + 1));
    for (chunk, bytes) in
        [(0, CHUNK - 1), (0, CHUNK + 1), (2, CHUNK), (2, 0), (3, 1), (u32::MAX, CHUNK)]
    {
        let refused = sink.write(chunk, &vec![0; bytes]);
        assert!(matches!(refused, Err(FileError::Chunk { .. })), "{chunk} of {bytes}");
    }
    assert_eq!(sink.have().count(), 0);
}

/// The journal of a run with short chunks stayed when the next had one chunk for all.
#[test]
fn nothing_is_left_of_a_run_with_shorter_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = random(3 * CHUNK);
    let object = object("a", bytes.len());
    write(&sink(folder.path(), &object), &bytes, [0, 2]);
    assert_eq!(listing(folder.path()), [".a.linecard-journal", ".a.linecard-part"]);
    let long = ChunkBytes::new(4 * CHUNK as u64).unwrap();
    let sink = Folder::open(folder.path()).unwrap().sink(&object, long, false).unwrap();
    sink.write(0, &bytes).unwrap();
    sink.finish(&blake3::hash(&bytes)).unwrap();
    assert_eq!(listing(folder.path()), ["a"]);
}

/// A file of one chunk whose receiver was killed before it had its name was sent again.
#[test]
fn a_file_of_one_chunk_that_was_left_counts_if_it_is_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, other) = (random(CHUNK), vec![1; CHUNK]);
    let hash = blake3::hash(&bytes);
    let open = |name: &str| sink(folder.path(), &object(name, CHUNK));
    for name in ["as sent", "other"] {
        assert_eq!(open(name).left(), None, "there is none");
        open(name).write(0, &bytes).unwrap();
        let again = open(name);
        assert_eq!((again.left(), again.have().count()), (Some(hash), 0));
    }
    open("as sent").finish(&hash).unwrap();
    assert!(fs::read(folder.path().join("as sent")).unwrap() == bytes);
    // The sender has another one now.
    let changed = open("other").finish(&blake3::hash(&other));
    assert!(matches!(changed, Err(FileError::NotWhole { missing: 1, .. })), "{changed:?}");
    let again = open("other");
    again.write(0, &other).unwrap();
    assert_eq!(again.left(), None);
    again.finish(&blake3::hash(&other)).unwrap();
    assert!(fs::read(folder.path().join("other")).unwrap() == other);
    // What is shorter was not whole.
    open("short").write(0, &bytes).unwrap();
    let part = fs::File::options().write(true).open(folder.path().join(".short.linecard-part"));
    part.unwrap().set_len(CHUNK as u64 - 1).unwrap();
    assert_eq!(open("short").left(), None);
}

/// Holes are not written: what an earlier run had left there would show.
#[test]
fn nothing_shows_in_holes_of_what_was_left() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    for size in [1 << 19, 2 << 20] {
        let name = format!("file{size}");
        let one = ChunkBytes::new(size as u64).unwrap();
        folder.sink(&object(&name, size), one, false).unwrap().write(0, &random(size)).unwrap();
        let sparse = Object { has_holes: true, ..object(&name, size) };
        let sink = folder.sink(&sparse, one, false).unwrap();
        let mut bytes = vec![0; size];
        bytes[7] = 1;
        sink.write(0, &bytes).unwrap();
        sink.finish(&blake3::hash(&bytes)).unwrap();
        assert!(fs::read(at.path().join(name)).unwrap() == bytes);
    }
}

/// Root may open any file: this thread does not.
fn without_rights() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// One that had the mode of the sender's file, and not its name yet, could not be opened.
#[test]
fn a_partial_file_that_its_owner_may_only_read_or_write_is_resumed() {
    without_rights();
    let at = tempfile::tempdir().unwrap();
    for (count, mode) in [(1, 0o400), (1, 0o200), (3, 0o444), (3, 0o222), (1, 0o666)] {
        let name = format!("{count}-{mode:o}");
        let bytes = random(count * CHUNK);
        let object = Object { mode, ..object(&name, bytes.len()) };
        write(&sink(at.path(), &object), &bytes, 0..count as u32);
        let part = at.path().join(format!(".{name}.linecard-part"));
        set_mode(&part, mode);
        let again = sink(at.path(), &object);
        assert_eq!(mode_of(&part), 0o600, "only its owner may read it");
        assert!(again.left().is_some() || again.have().count() == 3, "{name}");
        again.finish(&blake3::hash(&bytes)).unwrap();
        let told = mode & !0o022;
        assert!([mode, told].contains(&mode_of(&at.path().join(&name))), "{name}");
    }
    // Nobody can tell whether another process works on that one.
    let none = Object { mode: 0, ..object("none", CHUNK) };
    drop(sink(at.path(), &none));
    set_mode(&at.path().join(".none.linecard-part"), 0);
    let denied = Folder::open(at.path()).unwrap().sink(&none, chunks(), false);
    assert!(matches!(denied, Err(FileError::Denied { .. })), "{denied:?}");
}

/// A folder of mode 0555 that was received could not get a new file later.
#[test]
fn a_folder_that_is_sent_again_gets_new_files_whatever_its_mode() {
    without_rights();
    let at = tempfile::tempdir().unwrap();
    fs::create_dir(at.path().join("d")).unwrap();
    set_mode(&at.path().join("d"), 0o555);
    let mut folder = Folder::open(at.path()).unwrap();
    let denied = folder.sink(&object("d/new", 3), chunks(), false);
    assert!(matches!(denied, Err(FileError::Denied { .. })), "it was not sent: {denied:?}");
    folder.make(&Object { kind: Kind::Folder, mode: 0o555, ..object("d", 0) }).unwrap();
    let sink = folder.sink(&object("d/new", 3), chunks(), false).unwrap();
    sink.write(0, b"new").unwrap();
    sink.finish(&blake3::hash(b"new")).unwrap();
    folder.finish().unwrap();
    assert_eq!(mode_of(&at.path().join("d")), 0o555);
    // Removed by the next run: nothing new comes into it.
    let name = Name::new(b"d/new").unwrap();
    Folder::open(at.path()).unwrap().remove(&name, false).unwrap();
    assert_eq!((mode_of(&at.path().join("d")), at.path().join("d/new").exists()), (0o555, false));
}

/// A second receiver of a file of mode 0444 took that away: it had 0600 in the end.
#[test]
fn the_mode_of_what_others_work_on_or_have_another_name_for_stays() {
    without_rights();
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let object = Object { mode: 0o444, ..object("a", CHUNK) };
    let part = at.path().join(".a.linecard-part");
    let first = sink(at.path(), &object);
    set_mode(&part, 0o444);
    let locked = folder.sink(&object, chunks(), false);
    assert!(matches!(locked, Err(FileError::Locked { .. })), "{locked:?}");
    assert_eq!(mode_of(&part), 0o444);
    drop(first);
    // A copy by hard links: it is left as it is under its other name.
    fs::hard_link(&part, at.path().join("copy")).unwrap();
    drop(sink(at.path(), &object));
    assert_eq!((mode_of(&at.path().join("copy")), mode_of(&part)), (0o444, 0o600));
}

#[test]
fn what_is_not_whole_or_not_right_does_not_appear() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = random(3 * CHUNK);
    let open = || sink(folder.path(), &object("a", bytes.len()));
    write(&open(), &bytes, [0, 2]);
    let missing = open().finish(&blake3::hash(&bytes));
    assert!(matches!(missing, Err(FileError::NotWhole { missing: 1, .. })));
    let sink = open();
    sink.write(1, &[9; CHUNK]).unwrap();
    let damaged = sink.finish(&blake3::hash(&bytes)).unwrap_err();
    assert!(matches!(damaged, FileError::Damaged { .. }), "{damaged}");
    assert_eq!(listing(folder.path()), [".a.linecard-damaged"]);
    // The next one starts from the beginning.
    assert_eq!(open().have().count(), 0);
}

#[test]
fn what_exists_is_left_alone_unless_allowed() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    fs::write(at.path().join("a"), "mine").unwrap();
    fs::create_dir(at.path().join("d")).unwrap();
    for (name, overwrite) in [("a", false), ("d", false), ("d", true)] {
        let refused = folder.sink(&object(name, 1), chunks(), overwrite);
        let is_said = match refused {
            Err(FileError::Exists { .. }) => name == "a",
            Err(FileError::IsFolder { .. }) => name == "d",
            _ => false,
        };
        assert!(is_said, "{name}");
    }
    assert_eq!(listing(at.path()), ["a", "d"]);
    let sink = folder.sink(&object("a", 1), chunks(), true).unwrap();
    sink.write(0, b"x").unwrap();
    assert_eq!(fs::read(at.path().join("a")).unwrap(), b"mine");
    sink.finish(&blake3::hash(b"x")).unwrap();
    assert_eq!(fs::read(at.path().join("a")).unwrap(), b"x");
    // And what appears in the meantime.
    let sink = folder.sink(&object("b", 1), chunks(), false).unwrap();
    sink.write(0, b"x").unwrap();
    fs::write(at.path().join("b"), "mine").unwrap();
    assert!(matches!(sink.finish(&blake3::hash(b"x")), Err(FileError::Exists { .. })));
    assert_eq!(fs::read(at.path().join("b")).unwrap(), b"mine");
}

#[test]
fn a_pipe_has_no_length_until_it_ends() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let start = |name: &str| {
        let pipe = Object { kind: Kind::Stream, size: None, ..object(name, 0) };
        let sink = folder.sink(&pipe, chunks(), false).unwrap();
        Ordered::new(PipeFile::new(sink), Path::new(name), chunks(), 8)
    };
    for size in [0, 1, CHUNK, 2 * CHUNK, 2 * CHUNK + 5] {
        let (name, bytes) = (format!("s{size}"), random(size));
        let mut ordered = start(&name);
        // The last ones first, and shorter than chunks may be.
        let parts: Vec<&[u8]> = bytes.chunks(700).collect();
        for (chunk, part) in parts.iter().enumerate().rev() {
            ordered.write(chunk as u32, part.to_vec()).unwrap();
        }
        let (file, hash) = ordered.end(size as u64).unwrap();
        let sink = file.finish(&hash, &blake3::hash(&bytes)).unwrap();
        assert!(matches!(sink.write(9, &[1]), Err(FileError::Chunk { .. })), "none is left");
        drop(sink);
        assert_eq!(fs::read(at.path().join(format!(".{name}.linecard-part"))).unwrap(), bytes);
    }
    let mut wrong = start("wrong");
    wrong.write(0, b"some".to_vec()).unwrap();
    let (file, hash) = wrong.end(4).unwrap();
    let error = file.finish(&hash, &blake3::hash(b"more")).unwrap_err();
    assert!(matches!(error, FileError::Damaged { .. }), "{error}");
    assert!(!listing(at.path()).iter().any(|name| name == ".wrong.linecard-part"));
}

/// Its chunks have no places.
#[test]
fn chunks_that_no_pipe_has_are_refused() {
    let at = tempfile::tempdir().unwrap();
    let pipe = Object { kind: Kind::Stream, size: None, ..object("a", 0) };
    let sink = sink(at.path(), &pipe);
    for (chunk, bytes) in [(0, 0), (0, 1), (1, CHUNK), (0, CHUNK + 1), (u32::MAX, CHUNK)] {
        let refused = sink.write(chunk, &vec![1; bytes]);
        assert!(matches!(refused, Err(FileError::Chunk { .. })), "{chunk} of {bytes}");
    }
    assert_eq!(sink.have().count(), 0);
    assert!(matches!(sink.finish(&blake3::hash(&[])), Err(FileError::NotWhole { .. })));
    assert_eq!(fs::metadata(at.path().join(".a.linecard-part")).unwrap().len(), 0);
}

const SMALL: &str = "LINECARD_TEST_SMALL_DISK";

/// The test starts itself where there is a file system of 1 MiB.
#[test]
fn a_full_disk_shows_at_once_and_what_was_received_stays() {
    if let Some(disk) = std::env::var_os(SMALL) {
        return full_disk(disk.as_ref());
    }
    let at = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$1\" && exec \"$2\" --exact \"$3\" --nocapture";
    let mount = "mount -t tmpfs -o size=1m none \"$1\"";
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(at.path());
        command.arg(std::env::current_exe().unwrap());
        command.arg("sinks::a_full_disk_shows_at_once_and_what_was_received_stays");
        command.env(SMALL, at.path()).output()
    };
    if !inside(mount).is_ok_and(|output| output.status.success()) {
        linecard_testkit::skip("a full disk", "needs root and `unshare` for a small file system");
        return;
    }
    let output = inside(script).unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "on the small disk: {text}");
}

fn full_disk(disk: &Path) {
    // The tree of test programs does not fit: only files on the small disk count.
    assert!(listing(disk).is_empty());
    let folder = Folder::open(disk).unwrap();
    let large = folder.sink(&object("large", 2 << 20), chunks(), false).unwrap_err();
    assert!(matches!(large, FileError::DiskFull { bytes, .. } if bytes == 2 << 20), "{large}");
    assert_eq!(large.to_string().lines().count(), 1);
    assert!(listing(disk).is_empty());
    // Its room is taken now: what comes later finds none, and it goes on all the same.
    let bytes = random(700 << 10);
    let sink = folder.sink(&object("fits", bytes.len()), chunks(), false).unwrap();
    write(&sink, &bytes, 0..100);
    let stream = Object { kind: Kind::Stream, size: None, ..object("stream", 0) };
    let other = PipeFile::new(folder.sink(&stream, chunks(), false).unwrap());
    let mut other = Ordered::new(other, Path::new("stream"), chunks(), 1);
    let full = (0..1_000).find_map(|chunk| other.write(chunk, vec![1; CHUNK]).err()).unwrap();
    assert!(matches!(full, FileError::DiskFull { .. }), "{full}");
    // Not even the journal finds room now: chunks that it does not have do not count.
    let refused = (100..700).find_map(|chunk| {
        let start = chunk as usize * CHUNK;
        sink.write(chunk, &bytes[start..start + CHUNK]).err()
    });
    assert!(matches!(refused, Some(FileError::DiskFull { .. })));
    let had = sink.have().count();
    assert!((100..700).contains(&had), "{had}");
    drop((sink, other));
    fs::remove_file(disk.join(".stream.linecard-part")).unwrap();
    let sink = folder.sink(&object("fits", bytes.len()), chunks(), false).unwrap();
    assert_eq!(sink.have().count(), had);
    let missing: Vec<u32> = sink.have().missing(700).flatten().collect();
    write(&sink, &bytes, missing);
    sink.finish(&blake3::hash(&bytes)).unwrap();
    assert_eq!(fs::read(disk.join("fits")).unwrap(), bytes);
}

#[test]
fn a_link_appears_where_it_stays_in_its_folder_and_nowhere_else() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let make = |name: &str, target: &str, overwrite| {
        let link = Object { kind: Kind::Link, ..object(name, target.len()) };
        let sink = folder.sink(&link, chunks(), overwrite)?;
        write(&sink, target.as_bytes(), 0..1);
        sink.finish(&blake3::hash(target.as_bytes()))?;
        assert_eq!(fs::read_link(at.path().join(name)).unwrap(), Path::new(target));
        let about = fs::symlink_metadata(at.path().join(name)).unwrap();
        assert_eq!((about.mtime(), about.mtime_nsec()), (1_000_000_000, 7));
        folder.existing(&link)
    };
    let same = |target: &str| Existing::File { hash: blake3::hash(target.as_bytes()), part: false };
    assert_eq!(make("top/a/link", "../b", false).unwrap(), same("../b"));
    assert!(matches!(make("top/a/link", "../c", false), Err(FileError::Exists { .. })));
    assert_eq!(make("top/a/link", "../c", true).unwrap(), same("../c"));
    for target in ["/etc/passwd", "../../x", "b/../../../x"] {
        let error = make("top/a/out", target, true).unwrap_err().to_string();
        assert!(error.contains("leads out"), "{error}");
        assert!(!at.path().join("top/a/out").is_symlink());
    }
    let names = |folder: &str| fs::read_dir(at.path().join(folder)).unwrap().count();
    assert_eq!((names("top"), names("top/a")), (1, 1), "nothing else is left");
    // Where it is permitted; never without a path.
    let folder = Folder::open(at.path()).unwrap().with_links_out(true);
    let make = |target: &[u8]| {
        let link = Object { kind: Kind::Link, ..object("top/a/out", target.len()) };
        let sink = folder.sink(&link, chunks(), true)?;
        write(&sink, target, 0..target.len().div_ceil(CHUNK) as u32);
        sink.finish(&blake3::hash(target))
    };
    for target in ["/etc/passwd", "../../x", "b/../../../x"] {
        make(target.as_bytes()).unwrap();
        assert_eq!(fs::read_link(at.path().join("top/a/out")).unwrap(), Path::new(target));
    }
    for target in [&b""[..], b"a\0b", &[b'a'; 5_000]] {
        let error = make(target).unwrap_err().to_string();
        assert!(error.contains("no path"), "{error}");
    }
    assert_eq!(names("top/a"), 2, "nothing else is left");
}

#[test]
fn a_file_with_holes_takes_no_more_room_than_its_bytes() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let size = 6 << 20;
    let sparse = Object { has_holes: true, ..object("sparse", size) };
    let large = ChunkBytes::new(1 << 20).unwrap();
    let sink = folder.sink(&sparse, large, false).unwrap();
    let mut bytes = vec![0; size];
    bytes[3 << 20..][..4_096].copy_from_slice(&random(4_096));
    for chunk in 0..6 {
        sink.write(chunk, &bytes[(chunk as usize) << 20..][..1 << 20]).unwrap();
    }
    sink.finish(&blake3::hash(&bytes)).unwrap();
    let path = at.path().join("sparse");
    assert!(fs::read(&path).unwrap() == bytes);
    let blocks = fs::metadata(&path).unwrap().blocks();
    assert!(blocks * 512 < 1 << 20, "{blocks} blocks of 512 bytes");
}

#[test]
fn removal_follows_no_link() {
    let (at, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = Folder::open(at.path()).unwrap();
    let name = |name: &str| Name::new(name.as_bytes()).unwrap();
    let remove = |path: &str, is_folder| folder.remove(&name(path), is_folder);
    fs::write(outside.path().join("file"), b"elsewhere").unwrap();
    fs::create_dir_all(at.path().join("tree/full/inner")).unwrap();
    fs::write(at.path().join("tree/full/file"), b"here").unwrap();
    std::os::unix::fs::symlink(outside.path(), at.path().join("tree/link")).unwrap();
    let listed = folder.list(&name("tree/link"), 1_000).map(drop);
    for refused in [listed, remove("tree/link/file", false), remove("tree/full/file/x", false)] {
        assert!(matches!(refused, Err(FileError::Name { .. })), "{refused:?}");
    }
    assert_eq!(folder.list(&name("tree/full"), 1_000).unwrap(), [&b"file"[..], b"inner/"]);
    assert_eq!(folder.list(&name("tree"), 1_000).unwrap(), [&b"full/"[..], b"link"]);
    assert!(folder.list(&name("none/at/all"), 1_000).unwrap().is_empty());
    // Others were put into their places since they were listed.
    for (path, is_folder) in [("tree/link", true), ("tree/full", true), ("tree/full", false)] {
        assert!(remove(path, is_folder).is_err(), "{path}");
    }
    for (path, is_folder) in [("tree/link", false), ("tree/full/inner", true), ("none/x", true)] {
        remove(path, is_folder).unwrap();
    }
    assert_eq!(folder.list(&name("tree/full"), 1_000).unwrap(), [b"file"]);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"elsewhere");
}
