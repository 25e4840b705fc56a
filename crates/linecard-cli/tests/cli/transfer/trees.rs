//! Folders that are sent again: stored files are not sent, files that cannot be sent are named, all others arrive.

use super::ends::{Ends, HEADER_BYTES, JOURNAL, Sender, noise, signal};
use crate::folder::CommandOutput;
use linecard_testkit::say;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const FILES: usize = 60;
const FILE_BYTES: usize = 100_000;

/// A folder of files, called `tree`.
fn tree() -> Ends {
    let ends = Ends::new();
    for number in 0..FILES {
        let folder = ends.folder.path(&format!("tree/d{}", number / 10));
        fs::create_dir_all(&folder).unwrap();
        let mut bytes = noise(FILE_BYTES);
        bytes[0] = number as u8;
        fs::write(folder.join(format!("f{number}")), bytes).unwrap();
    }
    ends
}

fn name(number: usize) -> String {
    format!("tree/d{}/f{number}", number / 10)
}

fn transfer(outcome: &CommandOutput) -> Value {
    let account: Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    account["transfer"].clone()
}

fn number(outcome: &CommandOutput, key: &str) -> u64 {
    transfer(outcome)[key].as_u64().unwrap_or(0)
}

fn assert_equal(ends: &Ends, but: &[usize]) {
    for number in (0..FILES).filter(|number| !but.contains(number)) {
        let name = name(number);
        let (from, to) = (ends.folder.read(&name), ends.folder.read(&format!("to/{name}")));
        assert!(from == to, "{name}");
    }
}

fn arrived(ends: &Ends) -> u64 {
    let is_there = |number: &usize| ends.folder.path(&format!("to/{}", name(*number))).exists();
    (0..FILES).filter(is_there).count() as u64
}

#[test]
fn an_interrupted_folder_goes_on() {
    let ends = tree();
    let receiver = ends.receiver(&[]);
    let sender = Sender::start(ends.sender("tree", &receiver, &["--rate", "40M"]));
    let begun = Instant::now();
    while arrived(&ends) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing came");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal("KILL", receiver.id());
    assert_eq!((sender.end().code, receiver.end().code), (Some(14), None));
    let there = arrived(&ends);
    assert!(there < FILES as u64, "it was over");
    let (sent, got) = ends.both("tree", &["--json"], &["--json"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    for outcome in [&sent, &got] {
        assert_eq!(number(outcome, "unchanged"), there);
        assert!(number(outcome, "had_bytes") >= there * FILE_BYTES as u64);
    }
    assert_equal(&ends, &[]);
}

#[test]
fn a_second_run_sends_nothing() {
    for overwrite in [&["--json"][..], &["--json", "--overwrite"]] {
        let ends = tree();
        fs::write(ends.folder.path("tree/empty"), "").unwrap();
        let (sent, got) = ends.both("tree", &[], &[]);
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        let inode = || fs::metadata(ends.folder.path(&format!("to/{}", name(7)))).unwrap().ino();
        let before = inode();
        let (sent, got) = ends.both("tree", &["--json"], overwrite);
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        for outcome in [&sent, &got] {
            assert_eq!(number(outcome, "unchanged"), FILES as u64 + 1);
            assert_eq!(number(outcome, "had_bytes"), number(outcome, "bytes"));
            assert_eq!(transfer(outcome)["complete"], true);
        }
        assert_eq!(inode(), before);
        assert_equal(&ends, &[]);
    }
}

/// A file that was changed and has its former time.
#[test]
fn length_and_time_decide_unless_contents_are_to_be_compared() {
    let ends = tree();
    let (sent, got) = ends.both("tree", &[], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let path = ends.folder.path(&format!("to/{}", name(11)));
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let other = noise(FILE_BYTES);
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&other).unwrap();
    file.set_modified(modified).unwrap();
    let (sent, got) = ends.both("tree", &["--json"], &["--json", "--overwrite"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert_eq!((number(&sent, "unchanged"), number(&got, "unchanged")), (60, 60));
    assert!(fs::read(&path).unwrap() == other);
    let (sent, got) = ends.both("tree", &["--json", "--checksum"], &["--json", "--overwrite"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert_eq!((number(&sent, "unchanged"), number(&got, "unchanged")), (59, 59));
    assert_equal(&ends, &[]);
}

#[test]
fn an_equal_file_is_no_error() {
    let ends = Ends::with_file(300_000);
    for _ in 0..2 {
        let (sent, got) = ends.both("from.bin", &["--json"], &["--json"]);
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        ends.assert_equal();
    }
    let (sent, got) = ends.both("from.bin", &["--json"], &[]);
    assert_eq!((number(&sent, "unchanged"), number(&sent, "had_bytes")), (1, 300_000));
    assert!(got.stdout.contains("files there already"), "{}", got.stdout);
}

/// A process that was killed between the two steps, the file's name and the end of its journal, has left that.
#[test]
fn a_journal_beside_a_whole_file_goes() {
    for how in [&["--chunk", "64K"][..], &["--chunk", "64K", "--checksum"]] {
        let ends = Ends::with_file(300_000);
        ends.both("from.bin", &[], &[]);
        ends.folder.write(JOURNAL, b"LCJOURN2");
        let (sent, got) = ends.both("from.bin", how, &[]);
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        ends.assert_equal();
    }
}

/// The others arrive, and both ends name the file that was written to; the next run has it.
#[test]
fn a_file_that_changes_while_it_is_sent_does_not_keep_the_others_back() {
    let ends = tree();
    // It takes two seconds, and is changed in the first.
    ends.folder.write("tree/d3/changing", &noise(4 << 20));
    let receiver = ends.receiver(&["--json"]);
    let send = ["--rate", "16M", "--chunk", "64K", "--json"];
    let sender = Sender::start(ends.sender("tree", &receiver, &send));
    let journal = ends.folder.path("to/tree/d3/.changing.linecard-journal");
    ends.wait_until(|| fs::metadata(&journal).is_ok_and(|about| about.len() > HEADER_BYTES));
    let changing = ends.folder.path("tree/d3/changing");
    fs::OpenOptions::new().append(true).open(&changing).unwrap().write_all(b"more").unwrap();
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(17), Some(17)), "{sent:?} {got:?}");
    for outcome in [&sent, &got] {
        assert_eq!(number(outcome, "failed"), 1);
        for part in ["tree/d3/changing", "changed while it was read", "1 not transferred"] {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
    }
    assert!(!ends.folder.path("to/tree/d3/changing").exists());
    assert_equal(&ends, &[]);
    let (sent, got) = ends.both("tree", &["--json"], &["--json"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert_eq!(number(&sent, "unchanged"), FILES as u64);
    assert!(ends.folder.read("tree/d3/changing") == ends.folder.read("to/tree/d3/changing"));
}

#[test]
fn what_differs_is_kept_unless_it_may_be_replaced() {
    let ends = tree();
    let (sent, got) = ends.both("tree", &[], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let (same_length, longer) = (noise(FILE_BYTES), noise(FILE_BYTES + 1));
    fs::write(ends.folder.path(&format!("to/{}", name(11))), &same_length).unwrap();
    fs::write(ends.folder.path(&format!("to/{}", name(12))), &longer).unwrap();
    fs::remove_file(ends.folder.path(&format!("to/{}", name(13)))).unwrap();
    let (sent, got) = ends.both("tree", &["--json"], &["--json"]);
    assert_eq!((sent.code, got.code), (Some(17), Some(17)), "{sent:?} {got:?}");
    for outcome in [&sent, &got] {
        assert_eq!((number(outcome, "failed"), number(outcome, "unchanged")), (2, 57));
        assert_eq!(transfer(outcome)["complete"], false);
        for part in ["f11", "f12", "exists; move it away, or let recv replace it by --overwrite"] {
            assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
        }
    }
    assert_eq!(ends.folder.read(&format!("to/{}", name(11))), same_length);
    assert_equal(&ends, &[11, 12]);
    let (sent, got) = ends.both("tree", &["--json"], &["--json", "--overwrite"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert_eq!(number(&sent, "unchanged"), 58);
    assert_eq!(number(&sent, "bytes") - number(&sent, "had_bytes"), 2 * FILE_BYTES as u64);
    assert_equal(&ends, &[]);
}

/// Root may read everything, so the command runs as user "nobody" then.
#[test]
fn a_file_that_cannot_be_read_does_not_keep_the_others_back() {
    let ends = tree();
    let at = ends.folder.path(".");
    fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
    let closed = ends.folder.path(&name(25));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    fs::create_dir(ends.folder.path("tree/hidden")).unwrap();
    let hidden = ends.folder.path("tree/hidden");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    let copy = ends.folder.copy_of_linecard();
    fs::write(ends.folder.path("key"), ends.folder.read("psk")).unwrap();
    fs::set_permissions(ends.folder.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    if is_root {
        std::os::unix::fs::chown(ends.folder.path("key"), Some(65_534), None).unwrap();
    }
    let run = || {
        let receiver = ends.receiver(&["--json"]);
        let mut command = Command::new(&copy);
        command.current_dir(&at).args(["send", "tree", &receiver.address, "--psk", "key"]);
        command.arg("--json");
        if is_root {
            std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        }
        let sent: CommandOutput = command.output().unwrap().into();
        (sent, receiver.end())
    };
    let (sent, got) = run();
    assert_eq!((sent.code, got.code), (Some(17), Some(17)), "{sent:?} {got:?}");
    assert_eq!((number(&sent, "failed"), number(&got, "failed")), (2, 1));
    for text in ["tree/d2/f25", "tree/hidden", "Permission denied", "2 not transferred"] {
        assert!(sent.stderr.contains(text), "{text}: {}", sent.stderr);
    }
    assert!(got.stderr.contains("tree/d2/f25"), "{}", got.stderr);
    assert_equal(&ends, &[25]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o755)).unwrap();
    let (sent, got) = run();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert_eq!(number(&sent, "unchanged"), FILES as u64 - 1);
    assert_equal(&ends, &[]);
}

/// A disk that is full after some files, and larger when the same commands are run again.
#[test]
fn a_full_disk_within_a_folder() {
    let ends = tree();
    fs::create_dir(ends.folder.path("to")).unwrap();
    let script = r#"mount -t tmpfs -o size=3m none to || exit 99
        once() {
            "$1" recv to --psk psk --listen 127.0.0.1:0 --json > got.$2 2> said.$2 & recv=$!
            for i in $(seq 3000); do grep -q 'may send' said.$2 && break; sleep 0.02; done
            port=$(sed -n 's/.*listening at 127.0.0.1:\([0-9]*\).*/\1/p' said.$2)
            "$1" send tree 127.0.0.1:$port --psk psk --json > sent.$2 2> err.$2; sent=$?
            wait $recv; echo $sent $?
        }
        once "$1" 1
        mount -o remount,size=20m to || exit 98
        once "$1" 2
        for i in $(seq 0 59); do cmp tree/d$((i / 10))/f$i to/tree/d$((i / 10))/f$i || exit 97; done"#;
    let run = |flags: &str| -> Option<CommandOutput> {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_linecard")]);
        command.current_dir(ends.folder.path(".")).output().map(CommandOutput::from).ok()
    };
    let outcome = ["-m", "-rm"].into_iter().filter_map(run).find(|ran| ran.code != Some(99));
    let Some(outcome) = outcome.filter(|outcome| outcome.code.is_some()) else {
        say("SKIPPED: a full disk within a folder: no file system can be mounted here");
        return;
    };
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "16 1\n0 0\n"), "{outcome:?}");
    let text = |name: &str| fs::read_to_string(ends.folder.path(name)).unwrap();
    assert!(text("said.1").contains(
        "free some space and run again: the transfer resumes from \
         there"
    ));
    let again: Value = serde_json::from_str(&text("sent.2")).unwrap();
    // 3 MiB hold 30 of them. The news of the end of one or two may still be under way when the disk is full.
    assert!(again["transfer"]["unchanged"].as_u64().unwrap() >= 28, "{again}");
    assert!(!Path::new("to/tree").exists());
}
