//! Names from a peer, and obstacles in their path.

use super::{chunks, listing, object};
use linecard_transfer_net::file::{FileError, Folder, Kind, Object};
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
    assert!(folder.sink(&object("a", 1), chunks(), true).is_err());
    // Of one chunk there is no journal.
    assert!(folder.sink(&object("b", 1_025), chunks(), true).is_err());
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
    assert!(refused.to_string().contains("is not a file"));
    // A dry run only reads: that would wait for a writer.
    let refused = folder.would_take(&object("a", 1_025), chunks(), false).unwrap_err();
    assert!(refused.to_string().contains("is not a file"));
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
