//! Transfers from and to object stores.

use crate::ends::{self, noise, run_as_text as run};
use crate::memory::Memory;
use linecard::progress::Progress;
use linecard_transfer_net::file::{Choice, ChunkBytes, Input, Kind, Patterns, Source, Stamp};
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::receive::{self, ReceiveOptions};
use linecard_transfer_net::send::{self, SendOptions, Sent};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

/// A tree of small files, and one of many chunks of these lanes, which overtake each other.
fn tree(at: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("large.bin".to_owned(), noise((5 << 20) + 3)),
        ("empty".to_owned(), Vec::new()),
        ("a b/ä+c%.txt".to_owned(), noise(10)),
    ];
    files.extend((0..60).map(|number| (format!("deep/er/{number}"), noise(number * 999))));
    for (name, bytes) in &files {
        let path = at.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, bytes).expect("there is room");
    }
    files
}

fn to_bucket(from: &Path, bucket: &Memory) -> (SendOptions, ReceiveOptions) {
    let (mut send, receive, _) = ends::options(from, from);
    let spec: Spec = "udp:127.0.0.1".parse().expect("a lane");
    send.lanes = vec![spec; 3];
    send.chunk_bytes = ChunkBytes::new(64 << 10).expect("a power of two");
    (send, ReceiveOptions { folder: None, bucket: Some(Arc::new(bucket.clone())), ..receive })
}

#[test]
fn a_tree_goes_to_a_bucket_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, bucket) = (folder.path().join("tree"), Memory::new("s3://b/in/tree"));
    let files = tree(&from);
    let into = Memory::new("s3://b/in");
    let (send, receive) = to_bucket(&from, &into);
    let (sent, got) = run(&send, &receive);
    assert_eq!((sent.expect("sent").unchanged, got.expect("received").unchanged), (0, 0));
    assert_eq!(into.names().len(), files.len());
    for (name, bytes) in &files {
        assert!(into.get(&format!("tree/{name}")).as_ref() == Some(bytes), "{name}");
        bucket.put(name, bytes.clone(), None);
    }
    // Again: nothing is sent.
    let (sent, got) = run(&send, &receive);
    let (sent, got) = (sent.expect("sent"), got.expect("received"));
    assert_eq!((sent.unchanged, got.unchanged), (files.len() as u64, files.len() as u64));
    assert_eq!((sent.bytes, into.counted().0), (sent.had_bytes, files.len()));
    // By content, too.
    let choice = Choice { by_contents: true, ..Choice::default() };
    let (sent, _) = run(&SendOptions { choice, ..send }, &receive);
    assert_eq!(
        (sent.expect("sent").unchanged, into.counted().0),
        (files.len() as u64, files.len())
    );

    let to = folder.path().join("to");
    let (mut send, mut receive, _) = ends::options(&from, &to);
    send.input = Input::Bucket(Arc::new(bucket.clone()));
    let (sent, got) = run(&send, &receive);
    assert_eq!(sent.expect("sent").bytes, got.expect("received").bytes);
    for (name, bytes) in &files {
        assert!(fs::read(to.join("tree").join(name)).expect("it came") == *bytes, "{name}");
    }
    let (sent, _) = run(&send, &receive);
    assert_eq!(sent.expect("sent").unchanged, files.len() as u64);
    // From one to another.
    let other = Memory::new("s3://other");
    receive.folder = None;
    receive.bucket = Some(Arc::new(other.clone()));
    let (sent, got) = run(&send, &receive);
    assert_eq!((sent.expect("sent").objects, got.expect("received").objects), (63, 63));
    assert!(other.get("tree/large.bin") == bucket.get("large.bin"));
}

#[test]
fn an_object_that_differs_is_kept_or_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("tree");
    fs::create_dir(&from).expect("a folder");
    for name in ["same", "longer", "other"] {
        fs::write(from.join(name), noise(1_000)).expect("there is room");
    }
    symlink("same", from.join("link")).expect("a link");
    let bucket = Memory::new("s3://b");
    bucket.put("tree/same", noise(1_000), None);
    bucket.put("tree/longer", noise(1_001), None);
    bucket.put("tree/other", vec![1; 1_000], Some(Stamp { secs: 1, ns: 2 }));
    let (mut send, mut receive) = to_bucket(&from, &bucket);
    send.dry_run = true;
    let planned = asked(&send, &receive).expect("a plan").plan.expect("a plan");
    let planned: Vec<_> =
        planned.iter().map(|one| format!("{:?} {:?}", one.kind, one.action)).collect();
    assert_eq!(
        planned,
        ["Folder Equal", "Link Refuse", "File Refuse", "File Refuse", "File Equal"]
    );
    send.dry_run = false;
    let (sent, got) = run(&send, &receive);
    let (sent, got) = (sent.expect("sent"), got.expect("received"));
    assert_eq!((sent.failures.count(), got.failures.count(), got.unchanged), (3, 3, 1));
    let all = got.failures.first().join("\n");
    assert!(
        all.contains("s3://b/tree/longer\" exists") && all.contains("tree/other\" exists"),
        "{all}"
    );
    assert!(all.contains("object stores have no links"), "{all}");
    assert_eq!(bucket.get("tree/other"), Some(vec![1; 1_000]));
    receive.overwrite = true;
    let (sent, _) = run(&send, &receive);
    assert_eq!(sent.expect("sent").failures.count(), 1);
    assert_eq!(bucket.get("tree/other"), Some(noise(1_000)));
    assert_eq!(bucket.get("tree/longer"), Some(noise(1_000)));
    assert_eq!(bucket.counted(), (2, 0));
    // What is for folders only.
    send.delete = true;
    let refused = asked(&send, &receive).expect_err("it is refused");
    assert!(refused.contains("--delete: not when objects"), "{refused}");
}

/// What a sender gets of a receiver that goes on until it is stopped.
fn asked(send: &SendOptions, receive: &ReceiveOptions) -> Result<Sent, String> {
    let stop: Arc<Progress> = Arc::default();
    let options = ReceiveOptions { stop: Arc::clone(&stop), ..receive.clone() };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let to = SendOptions { peer: listener.local_addr().expect("it listens"), ..send.clone() };
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive::receive(&options, &listener, &mut |_| {}));
        let sent = send::send(&to, &mut |_| {});
        stop.stop();
        let _stopped = receiving.join().expect("the receiver does not panic");
        sent.map_err(|error| error.to_string())
    })
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = Memory::new("s3://b/large");
    bucket.put("", noise(6 << 20), None);
    bucket.replace_after(3 << 20);
    let to = Memory::new("s3://to");
    let (mut send, receive) = to_bucket(folder.path(), &to);
    send.input = Input::Bucket(Arc::new(bucket));
    let (sent, got) = run(&send, &receive);
    let sent = sent.expect_err("it has changed");
    assert!(sent.contains("s3://b/large\" changed while it was read"), "{sent}");
    assert!(got.expect_err("it has ended").contains("the sender has ended the transfer"));
    assert_eq!(to.names(), [""; 0], "nothing is stored");
    let (uploads, dropped) = to.counted();
    assert!(uploads == 1 && dropped > 0, "{uploads} {dropped}");
}

#[test]
fn keys_that_are_no_names_are_missing_and_the_others_are_sent() {
    let bucket = Memory::new("s3://b/top");
    let names = [
        "../x",
        "a/../../x",
        "/abs",
        "a//b",
        "a/./b",
        "z.linecard-part",
        "ok",
        "empty/",
        "a/c",
        "s/",
        &"w".repeat(256),
    ];
    for name in names {
        bucket.put(name, if name == "s/" { vec![1] } else { Vec::new() }, None);
    }
    let patterns = Patterns::new(&[], &["c".to_owned()]).expect("a pattern");
    let source = Source::of(&Input::Bucket(Arc::new(bucket.clone())), patterns).expect("a list");
    let objects: Vec<_> =
        source.objects().iter().map(|one| (one.name.to_string(), one.kind)).collect();
    assert_eq!(
        objects,
        [("top/empty".to_owned(), Kind::Folder), ("top/ok".to_owned(), Kind::File)]
    );
    let skipped: Vec<_> =
        source.skipped().iter().map(|one| one.path.display().to_string()).collect();
    assert_eq!(skipped, ["s3://b/top/z.linecard-part"]);
    let missing = source.unreadable();
    assert_eq!((missing.count(), missing.first().len()), (7, 7), "{missing:?}");
    assert!(missing.first()[0].contains("\"top/../x\" is refused"), "{missing:?}");
    assert_eq!(source.left_out(), 1);
    let nothing = Input::Bucket(Arc::new(Memory::new("s3://b/none")));
    let error = Source::of(&nothing, Choice::default()).expect_err("there is nothing").to_string();
    assert!(error.contains("s3://b/none\": no object has this key or prefix"), "{error}");
}
