//! Hard links in a folder that is sent.

use crate::ends::{self, noise, run_as_text as run};
use crate::memory::Memory;
use linecard_transfer_net::file::Choice;
use linecard_transfer_net::receive::{ReceiveOptions, Received};
use linecard_transfer_net::send::{Action, SendOptions, Sent};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Three chunks and some.
const BYTES: usize = (3 << 20) + 5;
/// Names of the file, in order.
const NAMES: [&str; 3] = ["a/first", "b/second", "third"];

/// Folders of both ends.
struct Ends {
    folder: tempfile::TempDir,
    send: SendOptions,
    receive: ReceiveOptions,
}

impl Ends {
    /// With a file of three names, and another.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("tree"), folder.path().join("to"));
        for name in ["a", "b"] {
            fs::create_dir_all(from.join(name)).expect("a folder");
        }
        fs::write(from.join("other"), noise(10)).expect("there is room");
        let (send, receive, _) = ends::options(&from, &to);
        let send = SendOptions { choice: Choice { hard_links: true, ..Choice::default() }, ..send };
        let ends = Self { folder, send, receive };
        ends.replace(&noise(BYTES));
        ends
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("tree").join(name)
    }

    fn to(&self, name: &str) -> PathBuf {
        self.folder.path().join("to/tree").join(name)
    }

    /// Gives all names another file with this content.
    fn replace(&self, content: &[u8]) {
        NAMES.iter().for_each(|name| drop(fs::remove_file(self.at(name))));
        fs::write(self.at(NAMES[0]), content).expect("there is room");
        for name in &NAMES[1..] {
            fs::hard_link(self.at(NAMES[0]), self.at(name)).expect("a link");
        }
    }

    fn run(&self) -> (Sent, Received) {
        let (sent, got) = run(&self.send, &self.receive);
        (sent.expect("sent"), got.expect("received"))
    }

    /// All arrives, and as what it is.
    fn succeed(&self) -> (Sent, Received) {
        let (sent, got) = self.run();
        assert_eq!((sent.failures.first(), got.failures.first()), (&[][..], &[][..]));
        let content = fs::read(self.at(NAMES[0])).expect("it is there");
        for name in NAMES {
            assert!(fs::read(self.to(name)).expect("it came") == content, "{name}");
            assert_eq!(inode(&self.to(name)), (inode(&self.to(NAMES[0])).0, 3), "{name}");
        }
        assert_eq!(inode(&self.to("other")).1, 1);
        (sent, got)
    }
}

/// The number of a file, and of its names.
fn inode(path: &Path) -> (u64, u64) {
    let about = fs::symlink_metadata(path).expect("it is there");
    (about.ino(), about.nlink())
}

/// Promise (Transfer): With `--hard-links`, a file with several names below a folder that is sent is sent once, and has the
/// same names at the receiver; a second run sends nothing.
#[test]
fn a_file_with_three_names_is_sent_once() {
    let ends = Ends::new();
    for unchanged in [0, 4] {
        let (sent, got) = ends.succeed();
        assert_eq!((sent.objects, got.objects), (7, 7));
        assert_eq!(sent.bytes, (BYTES + 10) as u64);
        assert_eq!((sent.unchanged, got.unchanged), (unchanged, unchanged));
        assert_eq!(sent.had_bytes, if unchanged == 0 { 0 } else { sent.bytes });
    }
    // What a killed end may have left, and a name that was not given any more.
    fs::remove_file(ends.to(NAMES[1])).expect("it is there");
    fs::write(ends.to("b/.second.linecard-link"), "x").expect("there is room");
    let (sent, got) = ends.succeed();
    assert_eq!((sent.had_bytes, got.unchanged), (sent.bytes, 3));
    assert!(!ends.to("b/.second.linecard-link").exists());
    // Without it, all are files of their own; those that are there stay as they are.
    let mut ends = ends;
    ends.send.choice.hard_links = false;
    let (sent, _) = ends.succeed();
    assert_eq!((sent.bytes, sent.unchanged), ((3 * BYTES + 10) as u64, 4));
    fs::remove_dir_all(ends.to("")).expect("it is there");
    ends.run();
    for name in NAMES {
        assert_eq!(inode(&ends.to(name)).1, 1, "{name}");
    }
}

/// Files of their own become links, whose content is not sent again.
#[test]
fn what_is_there_is_replaced_by_links() {
    let mut ends = Ends::new();
    ends.send.choice.hard_links = false;
    ends.run();
    ends.send.choice.hard_links = true;
    let (sent, got) = ends.run();
    assert_eq!((sent.failures.count(), got.failures.count()), (2, 2));
    let why = got.failures.first().join("\n");
    assert!(why.contains("b/second\" exists") && why.contains("third\" exists"), "{why}");
    ends.receive.overwrite = true;
    let (sent, got) = ends.succeed();
    assert_eq!((sent.had_bytes, sent.unchanged, got.unchanged), (sent.bytes, 2, 2));
    // Another file at the sender: links of the former one are replaced with it.
    ends.replace(&noise(BYTES + 1));
    let (sent, got) = ends.succeed();
    assert_eq!((sent.unchanged, got.unchanged, sent.had_bytes), (1, 1, 10));
    assert_eq!(ends.succeed().0.unchanged, 4);
    // A folder is not replaced by a link.
    fs::remove_file(ends.to(NAMES[1])).expect("it is there");
    fs::create_dir(ends.to(NAMES[1])).expect("a folder");
    let (sent, got) = ends.run();
    assert_eq!((sent.failures.count(), got.failures.count()), (1, 1));
    assert!(got.failures.first()[0].contains("is a folder"), "{:?}", got.failures);
}

#[test]
fn links_of_a_file_that_fails_are_not_made() {
    let mut ends = Ends::new();
    ends.run();
    let before = inode(&ends.to(NAMES[0]));
    // It differs, and is kept: by its length, or when the sender has read all of it.
    for other in [vec![1; BYTES], noise(BYTES + 1)] {
        ends.replace(&other);
        let (sent, got) = ends.run();
        assert_eq!((sent.failures.count(), got.failures.count()), (3, 3));
        let why = got.failures.first().join("\n");
        assert_eq!(why.matches("which is not transferred").count(), 2, "{why}");
        assert_eq!(NAMES.map(|name| inode(&ends.to(name))), [before; 3]);
    }
    // A dry run says so.
    ends.send.dry_run = true;
    let plan = dry(&ends);
    let refused = |planned: &&(String, Action)| planned.1 == Action::Refuse;
    assert_eq!(plan.iter().filter(refused).count(), 3, "{plan:?}");
    ends.receive.overwrite = true;
    let plan = dry(&ends);
    let replaced = |planned: &&(String, Action)| planned.1 == Action::Replace;
    assert_eq!(plan.iter().filter(replaced).count(), 3, "{plan:?}");
    // The file is a folder there.
    ends.send.dry_run = false;
    fs::remove_dir_all(ends.to("")).expect("it is there");
    fs::create_dir_all(ends.to(NAMES[0])).expect("a folder");
    let (_, got) = ends.run();
    assert_eq!(got.failures.count(), 3);
    assert!(!ends.to(NAMES[1]).exists() && !ends.to(NAMES[2]).exists());
}

/// What a dry run says; the receiver goes on after it.
fn dry(ends: &Ends) -> Vec<(String, Action)> {
    let stop: Arc<linecard::progress::Progress> = Arc::default();
    let receive = ReceiveOptions { stop: Arc::clone(&stop), ..ends.receive.clone() };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let peer = listener.local_addr().expect("it listens");
    let send = SendOptions { peer, dry_run: true, ..ends.send.clone() };
    let sent = std::thread::scope(|scope| {
        let receiving = scope
            .spawn(|| linecard_transfer_net::receive::receive(&receive, &listener, &mut |_| {}));
        let sent = linecard_transfer_net::send::send(&send, &mut |_| {});
        stop.stop();
        drop(receiving.join().expect("the receiver does not panic"));
        sent
    });
    let plan = sent.expect("a plan").plan.expect("a plan");
    plan.into_iter().map(|planned| (planned.name, planned.action)).collect()
}

#[test]
fn a_dry_run_says_what_happens_with_links() {
    let ends = Ends::new();
    let actions = |ends: &Ends| -> Vec<Action> {
        let named = dry(ends).into_iter().filter(|(name, _)| {
            NAMES.iter().any(|other| name.strip_prefix("tree/") == Some(other))
        });
        named.map(|(_, action)| action).collect()
    };
    // Into a folder that does not exist.
    assert_eq!(actions(&ends), [Action::Send; 3]);
    assert!(!ends.to("").exists());
    ends.run();
    assert_eq!(actions(&ends), [Action::Equal; 3]);
    fs::remove_file(ends.to(NAMES[2])).expect("it is there");
    assert_eq!(actions(&ends), [Action::Equal, Action::Equal, Action::Send]);
}

/// Links cost no data of an object store, which has none.
#[test]
fn an_object_store_gets_the_file_and_no_links() {
    let mut ends = Ends::new();
    let bucket = Memory::new("s3://b");
    ends.receive.folder = None;
    ends.receive.bucket = Some(Arc::new(bucket.clone()));
    let (sent, got) = ends.run();
    assert_eq!((sent.failures.count(), got.failures.count()), (2, 2));
    let why = got.failures.first().join("\n");
    assert_eq!(why.matches("no hard links: send without --hard-links").count(), 2, "{why}");
    assert_eq!(bucket.get("tree/a/first"), Some(noise(BYTES)));
    assert_eq!(bucket.names().len(), 2);
}

/// A link is made under the lock that files of its name have.
#[test]
fn a_name_that_another_transfer_writes_is_left_to_it() {
    let ends = Ends::new();
    ends.run();
    let second = ends.to(NAMES[1]);
    fs::remove_file(&second).expect("it is there");
    let [part, link] = ["part", "link"].map(|end| ends.to(&format!("b/.second.linecard-{end}")));
    let lock = fs::File::create(&part).expect("there is room");
    lock.try_lock().expect("nobody has it");
    fs::write(&link, "of the other").expect("there is room");
    let (sent, got) = ends.run();
    assert_eq!((sent.failures.count(), got.failures.count()), (1, 1));
    let why = &got.failures.first()[0];
    assert!(why.contains("is being received by another process"), "{why}");
    assert_eq!(fs::read(&link).expect("it is there"), b"of the other");
    assert!(part.exists() && !second.exists());
    // One that has its name is not changed either.
    fs::hard_link(ends.to(NAMES[0]), &second).expect("there is room");
    assert_eq!(ends.succeed().1.unchanged, 4);
    assert!(part.exists() && link.exists());
    lock.unlock().expect("it is locked");
    ends.succeed();
    assert!(!part.exists() && !link.exists());
}

#[test]
fn what_has_the_temporary_name_of_a_link_ends_no_others() {
    let ends = Ends::new();
    let folder = ends.to("b/.second.linecard-link");
    fs::create_dir_all(&folder).expect("a folder");
    let (sent, got) = ends.run();
    assert_eq!((sent.failures.count(), got.failures.count()), (1, 1));
    let why = &got.failures.first()[0];
    assert!(why.contains("second") && why.contains("temporary name"), "{why}");
    assert_eq!(inode(&ends.to(NAMES[2])).1, 2);
    assert!(!ends.to("b/.second.linecard-part").exists());
    fs::remove_dir(&folder).expect("it is there");
    ends.succeed();
}

/// A receiver that was killed when a link had its temporary name has left that, a further name of a whole file.
#[test]
fn a_temporary_name_that_was_left_is_removed_with_the_next_run() {
    for (hard_links, there) in
        [(true, &NAMES[..]), (true, &NAMES[..1]), (false, &NAMES[..]), (false, &NAMES[..1])]
    {
        let mut ends = Ends::new();
        ends.run();
        let left = ends.to("b/.second.linecard-link");
        fs::hard_link(ends.to(NAMES[0]), &left).expect("there is room");
        for name in NAMES.iter().filter(|name| !there.contains(name)) {
            fs::remove_file(ends.to(name)).expect("it is there");
        }
        ends.send.choice.hard_links = hard_links;
        let (sent, _) = ends.run();
        assert_eq!(sent.failures.count(), 0, "{:?}", sent.failures);
        assert!(!left.exists(), "{hard_links} {there:?}");
        let names = if hard_links { 3 } else { there.len() as u64 };
        assert_eq!(inode(&ends.to(NAMES[0])).1, names, "{hard_links} {there:?}");
    }
}

/// Files that are removed at the sender go at the receiver, and the others keep their names.
#[test]
fn a_name_that_goes_is_removed_and_others_stay() {
    let mut ends = Ends::new();
    (ends.send.delete, ends.send.max_delete) = (true, Some(1));
    ends.receive.allow_delete = true;
    ends.succeed();
    fs::remove_file(ends.at(NAMES[0])).expect("it is there");
    let (sent, _) = ends.run();
    assert_eq!((sent.failures.count(), sent.unremoved.first(), sent.removed), (0, &[][..], 1));
    assert!(!ends.to(NAMES[0]).exists());
    assert_eq!(inode(&ends.to(NAMES[1])), inode(&ends.to(NAMES[2])));
    assert_eq!(sent.had_bytes, sent.bytes);
}

#[test]
fn a_file_with_holes_and_several_names_keeps_both() {
    let ends = Ends::new();
    let file = fs::File::options().write(true).open(ends.at(NAMES[0])).expect("it is there");
    file.set_len(0).expect("there is room");
    file.set_len(64 << 20).expect("there is room");
    file.write_all_at(&noise(100), 40 << 20).expect("there is room");
    ends.succeed();
    let about = fs::metadata(ends.to(NAMES[2])).expect("it came");
    assert!(about.blocks() * 512 < 8 << 20, "{} blocks", about.blocks());
}
