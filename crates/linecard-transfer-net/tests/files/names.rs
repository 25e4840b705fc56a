//! Names from a peer, and obstacles in their path.

use super::{chunks, listing, object};
use linecard_transfer_net::file::{Existing, FileError, Folder, Kind, Name, Object, Quotas};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

#[test]
fn folders_are_made_and_get_their_modes_last() {
    let at = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(&at.path().join("new/inbox")).unwrap();
    let closed = Object { kind: Kind::Folder, mode: 0o550, ..object("top/inner", 0) };
    folder.make(&closed).unwrap();
    let sink = folder.sink(&object("top/inner/a", 1), chunks(), false).unwrap();
    sink.write(0, b"x").unwrap();
    sink.finish(&blake3::hash(b"x")).unwrap();
    folder.finish().unwrap();
    let inner = at.path().join("new/inbox/top/inner");
    assert_eq!(fs::read(inner.join("a")).unwrap(), b"x");
    let metadata = fs::metadata(&inner).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o550);
    assert_eq!(metadata.mtime(), 1_000_000_000);
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn links_lead_nowhere() {
    let (at, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), at.path().join("link")).unwrap();
    fs::write(outside.path().join("victim"), "mine").unwrap();
    let victim = outside.path().join("victim");
    fs::write(at.path().join("file"), "").unwrap();
    for name in [".a.linecard-part", ".b.linecard-journal"] {
        symlink(&victim, at.path().join(name)).unwrap();
    }
    symlink(&victim, at.path().join("c")).unwrap();
    symlink(outside.path().join("nothing"), at.path().join("dangling")).unwrap();
    let mut folder = Folder::open(at.path()).unwrap();
    for name in ["link/a", "link/sub/a", "file/a", "dangling/a"] {
        let refused = folder.sink(&object(name, 1), chunks(), true).map(drop);
        assert!(matches!(refused, Err(FileError::Name { .. })), "{name}: {refused:?}");
        let inner = Object { kind: Kind::Folder, ..object(name, 0) };
        assert!(folder.make(&inner).is_err(), "{name}");
    }
    // Of one chunk there is no journal.
    for (name, bytes) in [("a", 1), ("b", 1_025)] {
        let refused = folder.sink(&object(name, bytes), chunks(), true).map(drop);
        assert!(matches!(refused, Err(FileError::InTheWay { .. })), "{name}: {refused:?}");
    }
    assert!(matches!(folder.sink(&object("c", 1), chunks(), false), Err(FileError::Exists { .. })));
    // Overwriting takes the link's place, and leaves alone what it leads to.
    let sink = folder.sink(&object("c", 1), chunks(), true).unwrap();
    sink.write(0, b"x").unwrap();
    sink.finish(&blake3::hash(b"x")).unwrap();
    assert!(fs::symlink_metadata(at.path().join("c")).unwrap().is_file());
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(listing(outside.path()), ["victim"]);
}

#[test]
fn a_pipe_in_the_partial_files_place_is_not_waited_for() {
    let at = tempfile::tempdir().unwrap();
    let made =
        std::process::Command::new("mkfifo").arg(at.path().join(".a.linecard-part")).status();
    assert!(made.unwrap().success());
    let folder = Folder::open(at.path()).unwrap();
    let refused = folder.sink(&object("a", 1), chunks(), false).unwrap_err();
    assert!(matches!(refused, FileError::InTheWay { .. }), "{refused}");
    // A dry run only reads: that would wait for a writer.
    let refused = folder.would_take(&object("a", 1_025), chunks(), false).unwrap_err();
    assert!(matches!(refused, FileError::InTheWay { .. }), "{refused}");
}

/// A copy of a folder by hard links, as backups make, had what came of a partial file afterwards, and so had any file of
/// which a link was placed there.
#[test]
fn what_comes_is_written_to_no_other_name() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let sink = || folder.sink(&object("a", 3_000), chunks(), true).unwrap();
    let first = sink();
    first.write(0, &[1; 1_024]).unwrap();
    drop(first);
    let (part, journal) = (".a.linecard-part", ".a.linecard-journal");
    for name in [part, journal] {
        fs::hard_link(at.path().join(name), at.path().join(name.trim_start_matches('.'))).unwrap();
    }
    let copied = |name: &str| fs::read(at.path().join(name.trim_start_matches('.'))).unwrap();
    let before = [copied(part), copied(journal)];
    let second = sink();
    assert_eq!(second.have().count(), 0);
    second.write(1, &[2; 1_024]).unwrap();
    assert!(before == [copied(part), copied(journal)]);
    drop(second);
    let third = sink();
    assert_eq!(third.have().count(), 1);
    // It keeps its name while it is received, whatever copies are made of it.
    fs::hard_link(at.path().join(part), at.path().join("copy")).unwrap();
    let locked = folder.sink(&object("a", 3_000), chunks(), true).unwrap_err();
    assert!(matches!(locked, FileError::Locked { .. }), "{locked}");
    assert_eq!(fs::metadata(at.path().join(part)).unwrap().nlink(), 2);
}

/// They were made before the quota was asked, as parents of what it refused.
#[test]
fn each_folder_that_is_made_counts_against_a_quota() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let quota = Quotas::default().of(&folder, 3 * 4_096).unwrap();
    let mut folder = folder.with_quota(Some(quota));
    let of = |name| Object { kind: Kind::Folder, ..object(name, 0) };
    folder.make(&of("a/b")).unwrap();
    // One is made on the way to another, for which there is no room.
    let refused = folder.make(&of("a/b/c/d/e")).unwrap_err();
    assert!(matches!(refused, FileError::Quota { .. }), "{refused}");
    assert!(at.path().join("a/b/c").exists() && !at.path().join("a/b/c/d").exists());
    // Looking for something makes nothing, and what is there costs nothing.
    assert_eq!(folder.existing(&object("x/y/z", 1)).unwrap(), Existing::Nothing);
    assert!(folder.sink(&object("x/y", 1), chunks(), false).is_err());
    assert_eq!(listing(at.path()), ["a"]);
    folder.make(&of("a/b/c")).unwrap();
}

/// The transfer failed when all of it had come.
#[test]
fn a_folder_that_was_replaced_has_no_mode_and_time_to_get() {
    let (at, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut folder = Folder::open(at.path()).unwrap();
    for name in ["a", "a/b", "c"] {
        let mode = 0o700;
        folder.make(&Object { kind: Kind::Folder, mode, ..object(name, 0) }).unwrap();
    }
    fs::rename(at.path().join("a"), at.path().join("moved")).unwrap();
    let before = fs::metadata(outside.path()).unwrap().modified().unwrap();
    symlink(outside.path(), at.path().join("a")).unwrap();
    folder.finish().unwrap();
    assert_eq!(fs::metadata(outside.path()).unwrap().modified().unwrap(), before);
    assert_eq!(fs::metadata(at.path().join("c")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_folder_below_is_not_that_to_which_a_link_leads() {
    let (at, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), at.path().join("link")).unwrap();
    let below =
        |name: &str| Folder::open(at.path()).unwrap().below(&Name::new(name.as_bytes()).unwrap());
    for name in ["link", "link/inner"] {
        assert!(matches!(below(name), Err(FileError::Name { .. })), "{name}");
    }
    let inner = below("one/two").unwrap().unwrap();
    let sink = inner.sink(&object("a", 1), chunks(), false).unwrap();
    sink.write(0, b"x").unwrap();
    sink.finish(&blake3::hash(b"x")).unwrap();
    assert_eq!(fs::read(at.path().join("one/two/a")).unwrap(), b"x");
    let look =
        |name: &[u8]| Folder::look(at.path()).unwrap().unwrap().below(&Name::new(name).unwrap());
    assert!(look(b"one/three").unwrap().is_none() && look(b"one").unwrap().is_some());
    assert!(!at.path().join("one/three").exists());
    assert!(listing(outside.path()).is_empty());
}

#[test]
fn long_names_work_and_two_receivers_of_one_do_not() {
    let at = tempfile::tempdir().unwrap();
    let name = format!("{}/{}", "d".repeat(255), "f".repeat(255));
    let folder = Folder::open(at.path()).unwrap();
    let sink = folder.sink(&object(&name, 1), chunks(), false).unwrap();
    let locked = folder.sink(&object(&name, 1), chunks(), false).unwrap_err();
    assert!(matches!(locked, FileError::Locked { .. }), "{locked}");
    sink.write(0, b"x").unwrap();
    sink.finish(&blake3::hash(b"x")).unwrap();
    assert_eq!(fs::read(at.path().join(&name)).unwrap(), b"x");
    // The lock has gone with the sink.
    assert!(folder.sink(&object(&name, 1), chunks(), true).is_ok());
}
