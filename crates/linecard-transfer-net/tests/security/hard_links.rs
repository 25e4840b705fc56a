//! Hard links give no sender a second name for a file of another, and announcements of them are checked.

use super::shared;
use super::visitors::{Receiver, answer, hello, object, say};
use linecard_transfer::control::{End, Have, Message, Object};
use linecard_transfer_net::control::Control;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, UNIX_EPOCH};

fn file(id: u32, name: &str) -> Object {
    Object { has_links: true, ..object(id, name) }
}

fn link(id: u32, name: &str, of: u32) -> Object {
    Object { link_of: Some(of), ..object(id, name) }
}

/// A sender that a receiver has welcomed.
fn welcome(receiver: &Receiver) -> Control {
    let mut peer = receiver.connect(&shared(1));
    let hello = hello(&peer);
    say(&mut peer, &Message::Hello(hello));
    assert!(matches!(answer(&mut peer), Message::Welcome(_)));
    peer
}

fn announce(peer: &mut Control, object: Object) -> Have {
    say(peer, &Message::Object(object));
    match answer(peer) {
        Message::Have(have) => have,
        other => panic!("{other:?}"),
    }
}

/// Says that all of an object has been sent: the error, if it is not stored.
fn end(peer: &mut Control, end: End) -> Option<String> {
    say(peer, &Message::End(end));
    match answer(peer) {
        Message::Stored { object } if object == end.object => None,
        Message::Failed(failed) if failed.object == Some(end.object) => {
            Some(failed.text.to_string())
        }
        other => panic!("{other:?}"),
    }
}

fn empty(object: u32) -> End {
    End { object, size: 0, root: *blake3::hash(b"").as_bytes(), proof: None }
}

/// Promise (Transfer): A sender that knows name, length, time and hash of another's file in the same folder, and not what
/// is in it, does not get a hard link of it.
#[test]
fn who_does_not_have_a_file_gets_no_hard_link_of_it() {
    let secret = b"only its sender knows that";
    for by_time in [true, false] {
        for forged in [None, Some([0; 32]), Some(*blake3::hash(secret).as_bytes())] {
            let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
            let path = receiver.folder.join("theirs");
            fs::write(&path, secret).unwrap();
            let time = UNIX_EPOCH + Duration::from_secs(7);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            let mut peer = welcome(&receiver);
            let size = Some(secret.len() as u64);
            let known = Object { size, by_time, modified_ns: 7_000_000_000, ..file(0, "theirs") };
            let have = announce(&mut peer, known);
            // It has to be read, and its hash is told, which proves nothing then.
            assert!(!have.is_same && have.proof_key.is_some(), "{have:?}");
            let root = have.existing.unwrap();
            let size = secret.len() as u64;
            assert_eq!(end(&mut peer, End { object: 0, size, root, proof: forged }), None);
            let after = Object { first_chunk: 1, ..link(1, "mine", 0) };
            assert!(!announce(&mut peer, after).is_same);
            let why = end(&mut peer, empty(1)).unwrap();
            assert!(why.contains("did not prove that it has the same"), "{why}");
            for part in ["mine", "theirs", "send again"] {
                assert!(why.contains(part), "{why}");
            }
            assert!(!receiver.folder.join("mine").exists());
            assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
        }
    }
}

/// A sender that knows name and length of a file whose sender was cut off before it had its name gets neither the file
/// nor a hard link of it.
#[test]
fn who_does_not_have_what_is_in_a_part_cannot_complete_it() {
    let secret = b"only its sender knows that";
    let size = secret.len() as u64;
    let known = blake3::hash(secret);
    for claimed in [None, Some(*known.as_bytes())] {
        let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
        fs::write(receiver.folder.join(".theirs.linecard-part"), secret).unwrap();
        let mut peer = welcome(&receiver);
        let have = announce(&mut peer, Object { size: Some(size), ..file(0, "theirs") });
        assert_eq!((have.existing, have.proof_key, have.ranges.len()), (None, None, 0));
        // What is told does not give the hash away; who has that has it of the data.
        let told = have.part.unwrap();
        assert_ne!(told, *known.as_bytes());
        let root = claimed.unwrap_or(told);
        say(&mut peer, &Message::End(End { object: 0, size, root, proof: None }));
        if claimed.is_some() {
            let stored = answer(&mut peer);
            assert!(matches!(stored, Message::Stored { object: 0 }), "{stored:?}");
            assert_eq!(fs::read(receiver.folder.join("theirs")).unwrap(), secret);
        } else {
            // The receiver waits for the chunk. It says nothing, and the next answer is that to the link.
            announce(&mut peer, Object { first_chunk: 1, ..link(1, "mine", 0) });
            say(&mut peer, &Message::End(empty(1)));
            drop(peer);
            assert!(!receiver.folder.join("theirs").exists());
            assert!(!receiver.folder.join("mine").exists());
        }
    }
}

/// With what is in the file, it is the same file to both.
#[test]
fn who_has_a_file_gets_a_hard_link_of_it() {
    let content = b"both know that";
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    fs::write(receiver.folder.join("first"), content).unwrap();
    let mut peer = welcome(&receiver);
    let size = content.len() as u64;
    let have = announce(&mut peer, Object { size: Some(size), ..file(0, "first") });
    let proof = blake3::keyed_hash(&have.proof_key.unwrap(), content);
    let (root, proof) = (have.existing.unwrap(), Some(*proof.as_bytes()));
    assert_eq!(end(&mut peer, End { object: 0, size, root, proof }), None);
    announce(&mut peer, Object { first_chunk: 1, ..link(1, "second", 0) });
    assert_eq!(end(&mut peer, empty(1)), None);
    assert_eq!(fs::metadata(receiver.folder.join("second")).unwrap().nlink(), 2);
}

/// A file is not hashed again for each link of a sender that does not have it.
#[test]
fn a_proof_is_checked_once() {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let path = receiver.folder.join("first");
    fs::write(&path, "their content").unwrap();
    let mut peer = welcome(&receiver);
    let have = announce(&mut peer, Object { size: Some(13), ..file(0, "first") });
    let other = b"other content";
    let proof = Some(*blake3::keyed_hash(&have.proof_key.unwrap(), other).as_bytes());
    let root = have.existing.unwrap();
    assert_eq!(end(&mut peer, End { object: 0, size: 13, root, proof }), None);
    for object in 1..4 {
        announce(&mut peer, Object { first_chunk: 1, ..link(object, "second", 0) });
        let why = end(&mut peer, empty(object)).unwrap();
        assert!(why.contains("did not prove"), "{why}");
        // Now it would be one.
        fs::write(&path, other).unwrap();
    }
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
}

/// Promise (Transfer): A hard link is made of the file that its sender has stored, not of one that another has put into
/// that file's place since.
#[test]
fn a_file_that_took_the_place_of_another_gets_no_hard_link() {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let mut peer = welcome(&receiver);
    announce(&mut peer, file(0, "shared"));
    assert_eq!(end(&mut peer, empty(0)), None);
    announce(&mut peer, link(1, "before", 0));
    assert_eq!(end(&mut peer, empty(1)), None);
    let path = receiver.folder.join("shared");
    for round in 0..20 {
        // The number of a file that is removed may be used again.
        fs::remove_file(&path).unwrap();
        let _gone = fs::remove_file(receiver.folder.join("before"));
        fs::write(&path, "a secret of another").unwrap();
        announce(&mut peer, link(2 + round, &format!("after{round}"), 0));
        let why = end(&mut peer, empty(2 + round)).unwrap();
        assert!(why.contains("another file has taken its place"), "{why}");
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
    }
    // A link to another place in the file's place is not followed.
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    announce(&mut peer, link(22, "password", 0));
    assert!(end(&mut peer, empty(22)).is_some());
    let mut names: Vec<_> = fs::read_dir(&receiver.folder).unwrap().collect();
    assert_eq!(names.pop().unwrap().unwrap().file_name(), "shared");
    assert!(names.is_empty(), "{names:?}");
}

/// Promise (Transfer): Announcements of hard links of anything but an earlier file of the same transfer end it.
#[test]
fn hard_links_of_what_is_no_earlier_file_are_refused() {
    let (folder, symlink) = (0o040_755, 0o120_777);
    let of_other = "a hard link of another object than a file before it";
    let cases: [(&[Object], &str); 9] = [
        (&[link(0, "itself", 0)], of_other),
        (&[link(0, "later", 1)], of_other),
        (&[link(0, "large", u32::MAX)], of_other),
        // It was not announced as a file of which there are links.
        (&[object(0, "file"), link(1, "link", 0)], of_other),
        (&[Object { mode: folder, ..object(0, "folder") }, link(1, "link", 0)], of_other),
        (&[file(0, "file"), link(1, "link", 0), link(2, "link of it", 1)], of_other),
        (&[Object { mode: folder, ..file(0, "folder") }], "hard links of another object than"),
        (&[Object { mode: symlink, ..link(0, "symbolic", 0) }], "a hard link that is no file"),
        (&[file(0, "file"), Object { size: Some(1), ..link(1, "link", 0) }], "with a length"),
    ];
    for (objects, part) in cases {
        let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
        let mut peer = welcome(&receiver);
        objects.iter().for_each(|object| say(&mut peer, &Message::Object(object.clone())));
        let text = loop {
            match answer(&mut peer) {
                Message::Failed(failed) => break failed.text.to_string(),
                Message::Have(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(text.contains(part), "{objects:?}: {text}");
    }
}
