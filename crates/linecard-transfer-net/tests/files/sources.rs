//! The data to send.

use super::{CHUNK, chunks, random};
use linecard_transfer_net::file::{ChunkHash, FileError, Kind, Object, Piece, Source, Tree};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

fn names(source: &Source) -> Vec<String> {
    source.objects().iter().map(|object| object.name.to_string()).collect()
}

/// All bytes of an object, by chunks.
fn content(source: &Source, object: &Object) -> Vec<u8> {
    let reader = source.reader(object).unwrap();
    let (mut all, mut tree, mut buffer) = (Vec::new(), Tree::new(chunks()), vec![0; CHUNK]);
    for chunk in 0.. {
        let Piece { bytes, is_last } = reader.read(chunk, chunks(), &mut buffer).unwrap();
        tree.set(chunk, &ChunkHash::of(chunk, chunks(), &buffer[..bytes]));
        all.extend_from_slice(&buffer[..bytes]);
        if is_last {
            break;
        }
    }
    reader.finish().unwrap();
    assert_eq!(reader.size(), all.len() as u64);
    assert_eq!(tree.root(reader.size()).unwrap(), Some(blake3::hash(&all)));
    all
}

#[test]
fn a_folder_is_everything_in_it_in_order_of_names() {
    let at = tempfile::tempdir().unwrap();
    let top = at.path().join("top");
    fs::create_dir_all(top.join("b/empty")).unwrap();
    for (name, size) in [("b/x", 3_000), ("a", 0), ("c", CHUNK), ("B", 1)] {
        fs::write(top.join(name), random(size)).unwrap();
    }
    fs::set_permissions(top.join("a"), fs::Permissions::from_mode(0o4751)).unwrap();
    symlink("a", top.join("link")).unwrap();
    symlink("../top/a", top.join("out")).unwrap();
    let _socket = UnixListener::bind(top.join("socket")).unwrap();
    fs::write(top.join(".x.linecard-part"), "").unwrap();
    let source = Source::open(&top).unwrap();
    assert_eq!(
        names(&source),
        ["top", "top/B", "top/a", "top/b", "top/b/empty", "top/b/x", "top/c", "top/link"]
    );
    let skipped: Vec<_> = source.skipped().iter().map(|skipped| skipped.why).collect();
    assert_eq!(skipped.len(), 3);
    assert!(skipped[0].contains("partial") && skipped[1].contains("leads out"), "{skipped:?}");
    assert_eq!(content(&source, &source.objects()[7]), b"a");
    for object in source.objects().iter().filter(|object| object.kind == Kind::File) {
        let path = at.path().join(object.name.as_path());
        assert_eq!(content(&source, object), fs::read(&path).unwrap());
    }
    assert_eq!(source.objects()[2].mode, 0o751);
    // The same by other names of it.
    assert_eq!(names(&Source::open(&top.join("b/..")).unwrap()), names(&source));
    assert_eq!(names(&Source::open(&top.join("link")).unwrap()), ["link"]);
}

#[test]
fn a_pipe_is_read_in_order_until_it_ends() {
    let at = tempfile::tempdir().unwrap();
    let path = at.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 100_000] {
        let bytes = random(size);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
                bytes.chunks(777).for_each(|part| pipe.write_all(part).unwrap());
            });
            let source = Source::open(&path).unwrap();
            assert_eq!((source.objects()[0].kind, source.objects()[0].size), (Kind::Stream, None));
            assert_eq!(content(&source, &source.objects()[0]), bytes);
        });
    }
    // Order is all that a pipe has.
    let source = Source::open(Path::new("/dev/null")).unwrap();
    let reader = source.reader(&source.objects()[0]).unwrap();
    let mut buffer = [0; CHUNK];
    assert!(matches!(reader.read(1, chunks(), &mut buffer), Err(FileError::Chunk { .. })));
    let end = Piece { bytes: 0, is_last: true };
    assert_eq!(reader.read(0, chunks(), &mut buffer).unwrap(), end);
    assert!(reader.read(1, chunks(), &mut buffer).is_err());
}

#[test]
fn a_source_that_changes_is_found_out() {
    let at = tempfile::tempdir().unwrap();
    let path = at.path().join("a");
    let start = || {
        fs::write(&path, random(3 * CHUNK)).unwrap();
        // Two writes may have one time: the file's is set to another.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let source = Source::open(&path).unwrap();
        let reader = source.reader(&source.objects()[0]).unwrap();
        (source, reader)
    };
    let mut buffer = [0; CHUNK];
    let (_, reader) = start();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(CHUNK as u64).unwrap();
    let short = reader.read(2, chunks(), &mut buffer).unwrap_err();
    assert!(matches!(&short, FileError::Changed { .. }), "{short}");
    assert!(short.to_string().contains("3072 bytes and has 1024"), "{short}");

    let changes: [fn(&Path); 4] = [
        |path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap(),
        |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"x", 5).unwrap();
        },
        |path| {
            fs::copy(path, path.with_extension("new")).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for change in changes {
        let (source, reader) = start();
        reader.read(0, chunks(), &mut buffer).unwrap();
        change(&path);
        let found = reader.finish().unwrap_err();
        assert!(matches!(found, FileError::Changed { .. }), "{found}");
        assert_eq!(found.to_string().lines().count(), 1);
        // Nor is it opened as what it was.
        assert!(source.reader(&source.objects()[0]).is_err());
    }
}

#[test]
fn a_buffer_that_is_too_short_is_refused() {
    let at = tempfile::tempdir().unwrap();
    fs::write(at.path().join("a"), random(CHUNK + 1)).unwrap();
    let source = Source::open(&at.path().join("a")).unwrap();
    let reader = source.reader(&source.objects()[0]).unwrap();
    let mut buffer = [0; 10];
    assert!(matches!(reader.read(0, chunks(), &mut buffer), Err(FileError::Room { room: 10, .. })));
    let last = reader.read(1, chunks(), &mut buffer).unwrap();
    assert_eq!(last, Piece { bytes: 1, is_last: true });
}

#[test]
fn what_is_not_there_is_said_with_its_path() {
    let error = Source::open(Path::new("/nowhere/at all")).unwrap_err().to_string();
    assert!(error.contains("\"/nowhere/at all\"") && error.lines().count() == 1, "{error}");
}
