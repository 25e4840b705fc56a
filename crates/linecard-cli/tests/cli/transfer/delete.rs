//! Removal of files at the receiver that the sender does not have.

use super::dry::{lines, snapshot, steps};
use super::ends::{Ends, Receiver, Sender, noise, says, signal};
use crate::folder::CommandOutput;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A folder that was sent, and of which the receiver has more since.
fn more_there() -> Ends {
    let ends = Ends::new();
    fs::create_dir_all(ends.folder.path("tree/sub")).unwrap();
    for name in ["tree/a", "tree/sub/b", "tree/mine.tmp"] {
        ends.folder.write(name, name.as_bytes());
    }
    let (sent, got) = ends.both("tree", &["--exclude", "*.tmp"], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    for folder in ["to/tree/old/deep", "to/tree/half", "to/other", "outside"] {
        fs::create_dir_all(ends.folder.path(folder)).unwrap();
    }
    let files =
        ["x", "sub/y", "old/deep/z", "half/gone", "half/kept.tmp", "mine.tmp", ".p.linecard-part"];
    for name in files {
        ends.folder.write(&format!("to/tree/{name}"), b"more");
    }
    ends.folder.write("to/other/file", b"not sent");
    ends.folder.write("outside/file", b"elsewhere");
    symlink("../../outside", ends.folder.path("to/tree/out")).unwrap();
    ends
}

const GONE: [&str; 7] = ["x", "sub/y", "old/deep/z", "old/deep", "old", "half/gone", "out"];

fn there(ends: &Ends) -> usize {
    let is_there = |name: &&&str| ends.folder.path("to/tree").join(name).symlink_metadata().is_ok();
    GONE.iter().filter(is_there).count()
}

fn remove(ends: &Ends, receiver: &Receiver, more: &[&str]) -> CommandOutput {
    ends.send("tree", receiver, &[&["--exclude", "*.tmp", "--delete"], more].concat())
}

/// Promise (Transfer): `send --delete` removes only what the sender has not, in the folders that it sends: nothing that a
/// pattern hides, nothing through a link, nothing if the receiver does not permit it.
#[test]
fn what_only_the_receiver_has_is_removed() {
    let ends = more_there();
    ends.folder.write("tree/new", b"new");
    let receiver = ends.receiver(&["--keep"]);
    let before = snapshot(&ends.folder.path("to"));
    let refused = remove(&ends, &receiver, &[]);
    assert_eq!(refused.code, Some(16), "{refused:?}");
    says(&refused.stderr, &["may not remove files", "--allow-delete", "delete=yes"]);
    signal("TERM", receiver.id());
    assert_eq!(receiver.end().code, Some(0));

    let receiver = ends.receiver(&["--allow-delete", "--json"]);
    let asked = remove(&ends, &receiver, &["--dry-run", "--json"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(snapshot(&ends.folder.path("to")) == before, "something was changed");
    let (of_each, all) = lines(&asked);
    let removals: Vec<_> =
        steps(&of_each).into_iter().filter(|(_, action, _)| *action == "remove").collect();
    assert_eq!(removals.len(), GONE.len(), "{removals:?}");
    assert!(GONE.iter().all(|name| removals.iter().any(|step| step.0 == format!("tree/{name}"))));
    assert_eq!(all["dry_run"]["removed"], GONE.len() as u64);

    let sent = remove(&ends, &receiver, &["--json"]);
    let got = receiver.end();
    for outcome in [&sent, &got] {
        assert_eq!(outcome.code, Some(0), "{sent:?} {got:?}");
        let account: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(account["transfer"]["removed"], GONE.len() as u64, "{account}");
    }
    assert_eq!(there(&ends), 0);
    let kept = ["tree/a", "tree/sub/b", "tree/new", "tree/half/kept.tmp", "tree/mine.tmp"];
    for name in kept.into_iter().chain(["tree/.p.linecard-part", "other/file"]) {
        assert!(ends.folder.path("to").join(name).exists(), "{name}");
    }
    assert_eq!(ends.folder.read("outside/file"), b"elsewhere");
}

/// Too much, a file that is refused, and a receiver that is killed.
#[test]
fn nothing_is_removed_unless_all_is_well() {
    let ends = more_there();
    let receiver = ends.receiver(&["--allow-delete", "--keep"]);
    let sent = remove(&ends, &receiver, &["--max-delete", "6"]);
    assert_eq!((sent.code, there(&ends)), (Some(17), GONE.len()), "{sent:?}");
    assert!(sent.stderr.contains("7 files and folders are more than --max-delete 6"), "{sent:?}");
    ends.folder.write("to/tree/a", b"another");
    let sent = remove(&ends, &receiver, &[]);
    assert_eq!((sent.code, there(&ends)), (Some(17), GONE.len()), "{sent:?}");
    assert!(sent.stderr.contains("because not all files have arrived"), "{sent:?}");
    // With patterns of wanted files, folders are kept.
    let all = ["--include", "gone", "--include", "x", "--delete"];
    let sent = ends.send("tree", &receiver, &all);
    assert_eq!((sent.code, there(&ends)), (Some(0), GONE.len() - 2), "{sent:?}");
    assert!(ends.folder.path("to/tree/half").is_dir());

    fs::remove_file(ends.folder.path("to/tree/a")).unwrap();
    ends.folder.write("tree/z", &noise(3_000_000));
    let all = ["--delete", "--exclude", "*.tmp", "--rate", "10M", "--chunk", "64K"];
    let sender = Sender::start(ends.sender("tree", &receiver, &all));
    while !ends.folder.path("to/tree/.z.linecard-part").exists() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    signal("KILL", receiver.id());
    assert_eq!((sender.end().code, there(&ends)), (Some(14), GONE.len() - 2));
    drop(receiver);
    ends.folder.refuses(2, &["send", "a", "127.0.0.1:1", "--max-delete", "1"], &["--delete"]);
    ends.folder.refuses(
        2,
        &["send", "psk", "127.0.0.1:1", "--delete", "--psk", "psk"],
        &["folder"],
    );
}

/// The right stands in the line of the sender.
#[test]
fn a_sender_with_a_key_removes_only_if_its_line_says_so() {
    let ends = more_there();
    let key = ends.key("sender");
    fs::create_dir_all(ends.folder.path("receiver/linecard")).unwrap();
    let list = "receiver/linecard/authorized";
    ends.folder.write(list, key.as_bytes());
    fs::set_permissions(ends.folder.path(list), fs::Permissions::from_mode(0o600)).unwrap();
    let receiver = ends.listen(&["to", "--keep"]);
    let send = || -> CommandOutput {
        let keeps = ["--exclude", "/mine.tmp", "--accept-new", "--delete"];
        let all = [&["send", "tree", &receiver.address], &keeps[..]].concat();
        ends.command("sender", &all).output().unwrap().into()
    };
    let refused = send();
    assert_eq!((refused.code, there(&ends)), (Some(16), GONE.len()), "{refused:?}");
    ends.folder.write(list, format!("{key} delete=yes the office").as_bytes());
    let sent = send();
    assert_eq!((sent.code, there(&ends)), (Some(0), 0), "{sent:?}");
    // Only one of them is excluded here.
    assert!(ends.folder.path("to/tree/mine.tmp").exists());
    assert!(!ends.folder.path("to/tree/half/kept.tmp").exists());
    signal("TERM", receiver.id());
    assert_eq!(receiver.end().code, Some(0));
}

/// Root may write everywhere, so the receiver runs as user "nobody" then.
#[test]
fn a_folder_that_cannot_be_changed_is_said_in_one_line() {
    let ends = Ends::new();
    let path = |name: &str| ends.folder.path(name);
    for name in ["tree", "to/tree/locked", "to/tree/more"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    // One of its own would be removed, whatever its mode.
    ends.folder.write("to/tree/locked/y", b"y");
    fs::set_permissions(path("to/tree/more"), fs::Permissions::from_mode(0o555)).unwrap();
    ends.folder.write("to/tree/more/z", b"z");
    ends.folder.write("key", &ends.folder.read("psk"));
    let owned = ["key", "to", "to/tree", "to/tree/more", "to/tree/more/z"];
    let receiver = ends.listen_as_nobody(&["to", "--psk", "key", "--allow-delete"], &owned);
    let sent = ends.send("tree", &receiver, &["--delete", "--max-delete", "10"]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(17), Some(17)), "{sent:?} {got:?}");
    for outcome in [&sent, &got] {
        let said = outcome.stderr.lines().filter(|line| line.contains("locked/y"));
        let said: Vec<_> = said.collect();
        assert!(said.len() == 1 && said[0].contains("not removed: "), "{}", outcome.stderr);
        assert!(said[0].contains("cannot remove") && said[0].contains("Permission denied"));
    }
    assert!(path("to/tree/locked/y").exists() && !path("to/tree/more").exists());
}

/// Root reads everything, so the sender runs as user "nobody" then.
#[test]
fn what_cannot_be_read_here_is_not_taken_for_missing() {
    let ends = Ends::new();
    let path = |name: &str| ends.folder.path(name);
    for folder in ["tree/locked", "to/tree/locked"] {
        fs::create_dir_all(path(folder)).unwrap();
        ends.folder.write(&format!("{folder}/x"), b"x");
    }
    ends.folder.write("to/tree/y", b"y");
    ends.folder.write("key", &ends.folder.read("psk"));
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let receiver = ends.receiver(&["--allow-delete"]);
    mode("tree/locked", 0);
    let all = ["send", "tree", &receiver.address, "--psk", "key", "--delete"];
    let sent = ends.command_of_nobody(&all, &["key"]).output().unwrap();
    let sent = CommandOutput::from(sent);
    drop(receiver);
    // A user without root could not look there.
    mode("tree/locked", 0o755);
    mode("to/tree/locked", 0o755);
    assert_eq!(sent.code, Some(17), "{sent:?}");
    for text in ["cannot list \"tree/locked\"", "because not all files have arrived"] {
        assert!(sent.stderr.contains(text), "{text}: {}", sent.stderr);
    }
    assert!(path("to/tree/locked/x").exists() && path("to/tree/y").exists());
}

/// A disk that is not mounted at the sender, and a link in the place of a folder at the receiver.
#[test]
fn of_several_folders_none_is_emptied_by_mistake() {
    let ends = Ends::new();
    let path = |name: &str| ends.folder.path(name);
    for folder in ["one", "two", "to/one/more", "to/two", "outside"] {
        fs::create_dir_all(path(folder)).unwrap();
    }
    let extra = ["to/one/x", "to/two/x", "outside/x"];
    extra.into_iter().chain(["one/a"]).for_each(|name| ends.folder.write(name, name.as_bytes()));
    let send = |receiver: &Receiver, more: &[&str]| -> CommandOutput {
        let all = ["send", "one", "two", &receiver.address, "--psk", "psk", "--delete"];
        ends.command("sender", &[&all[..], more].concat()).output().unwrap().into()
    };
    let left = || extra.into_iter().filter(|name| path(name).exists()).count();
    let receiver = ends.receiver(&["--allow-delete"]);
    let asked = send(&receiver, &["--max-delete", "2", "--dry-run", "--json"]);
    let (of_each, _) = lines(&asked);
    assert!(of_each.iter().all(|line| line["action"] != "remove"), "{of_each:?}");
    let sent = send(&receiver, &[]);
    // All has arrived: it is not the receiver that misses something.
    let codes = (asked.code, sent.code, receiver.end().code);
    assert_eq!((codes, left()), ((Some(17), Some(17), Some(0)), 3), "{sent:?}");
    assert!(sent.stderr.contains("\"two\" is empty here: give --max-delete"), "{sent:?}");

    // Nor one within them: the mirror of a disk would go with exit code 0.
    fs::create_dir_all(path("two/disk")).unwrap();
    fs::create_dir_all(path("to/two/disk/deep")).unwrap();
    ends.folder.write("to/two/disk/deep/y", b"y");
    let receiver = ends.receiver(&["--allow-delete"]);
    let sent = send(&receiver, &[]);
    assert_eq!((sent.code, receiver.end().code, left()), (Some(17), Some(0), 3), "{sent:?}");
    assert!(sent.stderr.contains("\"two/disk\" is empty here: give --max-delete"), "{sent:?}");
    assert!(path("to/two/disk/deep/y").exists());
    fs::remove_dir(path("two/disk")).unwrap();
    fs::remove_dir_all(path("to/two/disk")).unwrap();

    let receiver = ends.receiver(&["--allow-delete", "--keep"]);
    let sent = send(&receiver, &["--max-delete", "3"]);
    assert_eq!((sent.code, left()), (Some(0), 1), "{sent:?}");
    assert!(!path("to/one/more").exists() && path("to/one/a").exists());
    fs::remove_dir(path("to/two")).unwrap();
    symlink("../outside", path("to/two")).unwrap();
    ends.folder.write("to/one/x", b"x");
    let sent = send(&receiver, &["--max-delete", "3"]);
    // That one is found through the link, too.
    assert_eq!((sent.code, left()), (Some(17), 3), "{sent:?}");
}
