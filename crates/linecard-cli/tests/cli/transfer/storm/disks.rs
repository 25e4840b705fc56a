//! A disk that is full at each step, and files of the receiver that are damaged.

use super::{Attempt, SLOW, STEADY, Storm};
use crate::transfer::ends::{JOURNAL, Sender, says};
use linecard::rng::Rng;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PART: &str = "to/.from.bin.linecard-part";

/// A small file system as the receiver's folder; unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    /// None, which is said, where nothing can be mounted.
    fn mount(storm: &Storm, limits: &str) -> Option<Self> {
        let folder = storm.ends.folder.path("to");
        fs::create_dir_all(&folder).unwrap();
        if mount(&folder, limits) {
            return Some(Self(folder));
        }
        let test = format!("a full disk with {limits} under a transfer");
        linecard_testkit::skip(test, "no file system can be mounted here, which needs root");
        None
    }

    /// Somebody has made room.
    fn grow(&self) {
        assert!(mount(&self.0, "remount,size=64m,nr_inodes=1000"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(folder: &Path, options: &str) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(folder);
    mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// It failed for want of room, which both ends say; nothing else is wrong.
fn assert_no_room(storm: &Storm, attempt: &Attempt) {
    assert_eq!((attempt.sent.code, attempt.got.code), (Some(16), Some(1)), "{attempt:?}");
    for end in [&attempt.sent, &attempt.got] {
        let line = end.stderr.lines().last().unwrap();
        assert!(line.contains("no room "), "{attempt:?}");
    }
    storm.assert_holds(attempt);
}

/// Room for so many files and folders that creating the partial file fails, then the journal, and so on.
#[test]
fn no_room_for_another_file() {
    for files in 1.. {
        let storm = Storm::new();
        let Some(disk) = Disk::mount(&storm, &format!("nr_inodes={files}")) else { return };
        let attempt = storm.begin(&[]).end();
        if attempt.is_complete() {
            assert!(files > 2, "the partial file and the journal");
            return storm.ends.assert_equal();
        }
        assert!(files < 10, "{attempt:?}");
        assert_no_room(&storm, &attempt);
        disk.grow();
        storm.assert_completes();
    }
}

/// The folder that is to be received, and the one to receive into.
#[test]
fn no_room_for_a_folder() {
    let storm = Storm::new();
    let Some(disk) = Disk::mount(&storm, "nr_inodes=1") else { return };
    let into = ["recv", "to/deep", "--psk", "psk", "--listen", "127.0.0.1:0"];
    storm.ends.folder.refuses(1, &into, &["no room to make the folder", "to/deep"]);
    fs::create_dir_all(storm.ends.folder.path("tree/in")).unwrap();
    storm.ends.folder.write("tree/in/file", b"content");
    let both = || {
        let receiver = storm.receiver();
        let sent = storm.ends.send("tree", &receiver, &[]);
        Attempt { sent, got: receiver.end() }
    };
    assert_no_room(&storm, &both());
    disk.grow();
    let attempt = both();
    assert!(attempt.is_complete(), "{attempt:?}");
    assert_eq!(storm.ends.folder.read("to/tree/in/file"), b"content");
}

/// Room for the file and one page: that is the first of two of its journal.
#[test]
fn no_room_for_the_journal() {
    let storm = Storm::new();
    let size = super::FILE_BYTES + 4_096;
    let Some(disk) = Disk::mount(&storm, &format!("size={size}")) else { return };
    let attempt = storm.begin(&[]).end();
    assert_no_room(&storm, &attempt);
    disk.grow();
    storm.assert_resumes();
}

/// The length of a pipe is not known, so no room is allocated for it.
#[test]
fn no_room_for_more_of_a_pipe() {
    let storm = Storm::new();
    let Some(disk) = Disk::mount(&storm, "size=1m") else { return };
    let both = || {
        let receiver = storm.receiver();
        let mut sender =
            storm.ends.sender("-", &receiver, &["--name", "from.bin", "--chunk", "64K"]);
        sender.stdin(File::open(storm.ends.folder.path("from.bin")).unwrap());
        let sent = Sender::start(sender).end();
        Attempt { sent, got: receiver.end() }
    };
    assert_no_room(&storm, &both());
    disk.grow();
    storm.assert_complete(&both());
}

/// The receiver was killed when it had some chunks.
fn killed() -> Storm {
    let storm = Storm::new();
    let underway = storm.start(&SLOW);
    underway.signal(true, "KILL");
    let attempt = underway.end();
    assert_eq!((attempt.sent.code, attempt.got.code), (Some(14), None), "{attempt:?}");
    says(&attempt.sent.stderr, &["was cut", "to resume"]);
    storm
}

/// A file, and its length.
fn opened(storm: &Storm, name: &str) -> (File, u64) {
    let file = OpenOptions::new().write(true).open(storm.ends.folder.path(name)).unwrap();
    let bytes = file.metadata().unwrap().len();
    (file, bytes)
}

/// Writes other bytes to some places.
fn scribble(storm: &Storm, name: &str, rng: &mut Rng) {
    let (file, bytes) = opened(storm, name);
    for _ in 0..8 {
        file.write_all_at(&[0x5A; 3], rng.below(bytes - 3)).unwrap();
    }
}

fn truncate(storm: &Storm, name: &str, rng: &mut Rng) {
    let (file, bytes) = opened(storm, name);
    file.set_len(rng.below(bytes)).unwrap();
}

fn lengthen(storm: &Storm, name: &str, _: &mut Rng) {
    let (file, bytes) = opened(storm, name);
    file.set_len(bytes + 70_000).unwrap();
}

fn remove(storm: &Storm, name: &str, _: &mut Rng) {
    fs::remove_file(storm.ends.folder.path(name)).unwrap();
}

type Damage = fn(&Storm, &str, &mut Rng);

const DAMAGES: [Damage; 4] = [scribble, truncate, lengthen, remove];

/// Whatever the disk has kept of either file.
#[test]
fn files_damaged_after_a_crash() {
    let seed = super::seed();
    std::thread::scope(|scope| {
        for name in [PART, JOURNAL] {
            for (number, damage) in (0..).zip(DAMAGES) {
                scope.spawn(move || {
                    let storm = killed();
                    damage(&storm, name, &mut Rng::new(seed + number));
                    storm.assert_completes();
                });
            }
        }
    });
}

/// The journal is for the next transfer: this one does not read it.
#[test]
fn a_journal_damaged_while_it_is_written() {
    let seed = super::seed();
    std::thread::scope(|scope| {
        for (number, damage) in (0..).zip(DAMAGES) {
            scope.spawn(move || {
                let storm = Storm::new();
                let underway = storm.start(&STEADY);
                damage(&storm, JOURNAL, &mut Rng::new(seed + number));
                let attempt = underway.end();
                storm.assert_holds(&attempt);
                if !attempt.is_complete() {
                    storm.assert_completes();
                }
            });
        }
    });
}

/// It cannot get the file's name then, which is said.
#[test]
fn a_partial_file_removed_while_it_is_written() {
    let storm = Storm::new();
    let underway = storm.start(&STEADY);
    fs::remove_file(storm.ends.folder.path(PART)).unwrap();
    let attempt = underway.end();
    assert_eq!((attempt.sent.code, attempt.got.code), (Some(16), Some(1)), "{attempt:?}");
    says(&attempt.got.stderr, &["cannot rename the partial file", "No such file"]);
    storm.assert_holds(&attempt);
    storm.assert_completes();
}
