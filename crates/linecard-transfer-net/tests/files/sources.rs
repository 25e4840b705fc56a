//! The data to send.

use super::{CHUNK, chunks, random};
use linecard_transfer_net::file::{Choice, ChunkHash, FileError, Kind, Patterns, Source, Tree};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn names(source: &Source) -> Vec<String> {
    source.objects().iter().map(|object| object.name.to_string()).collect()
}

fn open(path: &Path) -> Result<Source, FileError> {
    Source::open(&[path.into()], Patterns::default())
}

/// All bytes of an object, by chunks.
fn content(source: &Source, object: usize) -> Vec<u8> {
    let reader = source.reader(object).unwrap();
    let (mut all, mut tree, mut buffer) = (Vec::new(), Tree::new(chunks()), vec![0; CHUNK]);
    for chunk in 0..chunks().count(reader.size()).unwrap().max(1) {
        let bytes = reader.read(chunk, chunks(), &mut buffer).unwrap();
        tree.set(chunk, &ChunkHash::of(chunk, chunks(), &buffer[..bytes]));
        all.extend_from_slice(&buffer[..bytes]);
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
    let source = open(&top).unwrap();
    assert_eq!(
        names(&source),
        ["top", "top/B", "top/a", "top/b", "top/b/empty", "top/b/x", "top/c", "top/link"]
    );
    let skipped: Vec<_> = source.skipped().iter().map(|skipped| skipped.why).collect();
    assert_eq!(skipped.len(), 3);
    assert!(skipped[0].contains("partial") && skipped[1].contains("leads out"), "{skipped:?}");
    assert_eq!(content(&source, 7), b"a");
    let choice = Choice { links_out: true, ..Choice::default() };
    let all = Source::open(std::slice::from_ref(&top), choice).unwrap();
    assert_eq!((names(&all).len(), all.skipped().len()), (9, 2));
    assert_eq!((names(&all)[8].as_str(), content(&all, 8)), ("top/out", b"../top/a".to_vec()));
    let files = source.objects().iter().enumerate();
    for (at_place, object) in files.filter(|(_, object)| object.kind == Kind::File) {
        let path = at.path().join(object.name.as_path());
        assert_eq!(content(&source, at_place), fs::read(&path).unwrap());
    }
    assert_eq!(source.objects()[2].mode, 0o751);
    // The same by other names of it.
    assert_eq!(names(&open(&top.join("b/..")).unwrap()), names(&source));
    assert_eq!(names(&open(&top.join("link")).unwrap()), ["link"]);
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
            let source = open(&path).unwrap();
            assert_eq!((source.objects()[0].kind, source.objects()[0].size), (Kind::Stream, None));
            let mut pipe = source.pipe(0).unwrap();
            let (mut content, mut buffer) = (Vec::<u8>::new(), [0; CHUNK]);
            loop {
                let bytes = pipe.read(&mut buffer, None).unwrap();
                content.extend(&buffer[..bytes]);
                if bytes < CHUNK {
                    break;
                }
            }
            assert_eq!(content, bytes);
            assert_eq!(pipe.bytes(), bytes.len() as u64);
            // One that writes later is not heard.
            assert_eq!(pipe.read(&mut buffer, None).unwrap(), 0);
        });
    }
}

/// What had come of a pipe waited until a chunk was full.
#[test]
fn what_has_come_of_a_pipe_does_not_wait_for_more() {
    let at = tempfile::tempdir().unwrap();
    let path = at.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let writer = std::thread::spawn({
        let path = path.clone();
        move || OpenOptions::new().write(true).open(path).unwrap()
    });
    let mut pipe = open(&path).unwrap().pipe(0).unwrap();
    let mut writer = writer.join().unwrap();
    let (mut buffer, hold) = ([0; CHUNK], Some(Duration::from_millis(1)));
    for part in [&b"some"[..], b"more", &[7; CHUNK]] {
        writer.write_all(part).unwrap();
        assert_eq!(pipe.read(&mut buffer, hold).unwrap(), part.len());
        assert_eq!(&buffer[..part.len()], part);
    }
    drop(writer);
    assert_eq!(pipe.read(&mut buffer, hold).unwrap(), 0);
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
        let source = open(&path).unwrap();
        let reader = source.reader(0).unwrap();
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
        assert!(source.reader(0).is_err());
    }
}

#[test]
fn a_buffer_that_is_too_short_is_refused() {
    let at = tempfile::tempdir().unwrap();
    fs::write(at.path().join("a"), random(CHUNK + 1)).unwrap();
    let source = open(&at.path().join("a")).unwrap();
    let reader = source.reader(0).unwrap();
    let mut buffer = [0; 10];
    assert!(matches!(reader.read(0, chunks(), &mut buffer), Err(FileError::Room { room: 10, .. })));
    let last = reader.read(1, chunks(), &mut buffer).unwrap();
    assert_eq!(last, 1);
}

#[test]
fn what_is_not_there_is_said_with_its_path() {
    let error = open(Path::new("/nowhere/at all")).unwrap_err().to_string();
    assert!(error.contains("\"/nowhere/at all\"") && error.lines().count() == 1, "{error}");
}

#[test]
fn several_paths_are_sent_with_their_own_names() {
    let at = tempfile::tempdir().unwrap();
    fs::create_dir_all(at.path().join("x/tree/below")).unwrap();
    fs::create_dir_all(at.path().join("y")).unwrap();
    for name in ["x/tree/below/a", "y/b", "y/tree"] {
        fs::write(at.path().join(name), name).unwrap();
    }
    let of = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| at.path().join(name)).collect();
        Source::open(&paths, Patterns::default())
    };
    let source = of(&["y/b", "x/tree"]).unwrap();
    assert_eq!(names(&source), ["b", "tree", "tree/below", "tree/below/a"]);
    assert_eq!(content(&source, 0), b"y/b");
    assert_eq!(content(&source, 3), b"x/tree/below/a");
    let twins = of(&["x/tree", "y/tree"]).unwrap_err().to_string();
    assert!(twins.contains("x/tree\" and ") && twins.contains("same name"), "{twins}");
    let pipe = Source::open(&[at.path().join("y/b"), "/dev/null".into()], Patterns::default());
    let pipe = pipe.unwrap_err().to_string();
    assert!(pipe.starts_with("\"/dev/null\" is a pipe"), "{pipe}");
}

/// The same as globs of the patterns would say of each path, folder by folder.
#[test]
fn patterns_leave_out_what_they_name() {
    let at = tempfile::tempdir().unwrap();
    let top = at.path().join("top");
    for folder in ["src/build", "build", "logs/old"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    for file in
        ["src/a.rs", "src/build/b.rs", "build/c.rs", "logs/d.log", "logs/old/e.log", "f.txt"]
    {
        fs::write(top.join(file), file).unwrap();
    }
    let of = |include: &[&str], exclude: &[&str]| {
        let all = |list: &[&str]| list.iter().map(|&pattern| pattern.into()).collect::<Vec<_>>();
        let patterns = Patterns::new(&all(include), &all(exclude))?;
        let source = Source::open(std::slice::from_ref(&top), patterns)?;
        Ok::<_, FileError>((names(&source).join(" "), source.left_out()))
    };
    let sent =
        |include: &[&str], exclude: &[&str]| of(include, exclude).unwrap().0.replace("top/", "");
    assert_eq!(
        sent(&[], &["/build", "*.log"]),
        "top f.txt logs logs/old src src/a.rs src/build src/build/b.rs"
    );
    assert_eq!(
        sent(&[], &["build/"]),
        "top f.txt logs logs/d.log logs/old logs/old/e.log src src/a.rs"
    );
    // Folders without any of the files are left out, too.
    assert_eq!(sent(&["*.log"], &[]), "top logs logs/d.log logs/old logs/old/e.log");
    assert_eq!(sent(&["*.log"], &["old"]), "top logs logs/d.log");
    let build = "top build build/c.rs src src/build src/build/b.rs";
    assert_eq!(sent(&["build/"], &[]), build);
    assert_eq!(sent(&["build"], &["c.rs"]), build.replace(" build build/c.rs", ""));
    assert_eq!(sent(&["/build"], &[]), "top build build/c.rs");
    assert_eq!(sent(&["src/build/"], &[]), "top src src/build src/build/b.rs");
    assert_eq!(sent(&["src/**/*.rs"], &[]), "top src src/a.rs src/build src/build/b.rs");
    assert_eq!(sent(&["nothing"], &[]), "top");
    assert_eq!(of(&[], &["/build", "*.log"]).unwrap().1, 3);
    for wrong in ["[a", "!a", ""] {
        let why = of(&[], &[wrong]).unwrap_err().to_string();
        assert!(why.starts_with("the pattern ") && why.lines().count() == 1, "{why}");
    }
}

/// Names and, where it is a hard link, that of its file.
fn linked(source: &Source) -> Vec<(String, Option<String>)> {
    let objects = source.objects();
    let first = |kind| match kind {
        Kind::HardLink(of) => Some(objects[of as usize].name.to_string()),
        _ => None,
    };
    objects.iter().map(|object| (object.name.to_string(), first(object.kind))).collect()
}

#[test]
fn further_names_of_a_file_are_hard_links_of_the_first() {
    let at = tempfile::tempdir().unwrap();
    let top = at.path().join("top");
    fs::create_dir_all(top.join("b")).unwrap();
    fs::write(top.join("b/first"), random(3_000)).unwrap();
    fs::write(top.join("alone"), "").unwrap();
    for name in ["b/second", "third"] {
        fs::hard_link(top.join("b/first"), top.join(name)).unwrap();
    }
    // A file with another name that is not sent is one of its own.
    fs::write(at.path().join("outside"), "").unwrap();
    fs::hard_link(at.path().join("outside"), top.join("inside")).unwrap();
    symlink("alone", top.join("link")).unwrap();
    fs::hard_link(top.join("link"), top.join("link2")).unwrap_or(());
    let open = |patterns: Patterns| {
        let choice = Choice { hard_links: true, ..patterns.into() };
        Source::open(std::slice::from_ref(&top), choice).unwrap()
    };
    let source = open(Patterns::default());
    let of = |name: &str| {
        let all = linked(&source);
        all.into_iter().find(|(other, _)| other == name).unwrap().1
    };
    assert_eq!(of("top/b/first"), None);
    for name in ["top/b/second", "top/third"] {
        assert_eq!(of(name).as_deref(), Some("top/b/first"));
    }
    assert_eq!(linked(&source).iter().filter(|(_, of)| of.is_some()).count(), 2);
    let with_links: Vec<_> = source.objects().iter().filter(|object| object.has_links).collect();
    assert!(matches!(with_links[..], [file] if !file.by_time && file.size == Some(3_000)));
    let links = source.objects().iter().filter(|object| matches!(object.kind, Kind::HardLink(_)));
    assert!(links.into_iter().all(|link| link.size == Some(0) && !link.has_links));
    // The first name that is sent is the file.
    let source = open(Patterns::new(&[], &["/b/first".into()]).unwrap());
    let links: Vec<_> = linked(&source).into_iter().filter(|(_, of)| of.is_some()).collect();
    assert_eq!(links, [("top/third".into(), Some("top/b/second".into()))]);
    // Not asked for.
    assert!(linked(&self::open(&top).unwrap()).iter().all(|(_, of)| of.is_none()));
}

/// They were listed as what is never sent, as devices are, and the transfer counted as complete.
#[test]
fn folders_that_are_too_deep_are_missing() {
    let at = tempfile::tempdir().unwrap();
    let deep = at.path().join(["a"; 140].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "x").unwrap();
    let source = Source::open(&[at.path().to_path_buf()], Patterns::default()).unwrap();
    assert!(source.skipped().is_empty());
    assert_eq!(source.unreadable().count(), 1);
    assert!(source.unreadable().first()[0].contains("in more than 127 folders"));
}
