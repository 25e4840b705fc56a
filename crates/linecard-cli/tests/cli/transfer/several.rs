//! Several paths in one transfer, and several transfers at once.

use super::ends::{Ends, Receiver, Sender, noise, says, signal};
use linecard_io::rights;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn several_paths_arrive_without_what_patterns_leave_out() {
    let ends = Ends::new();
    fs::create_dir_all(ends.folder.path("day/cache/deep")).unwrap();
    for name in ["notes", "day/a.mxf", "day/b.tmp", "day/cache/c", "day/cache/deep/d.mxf"] {
        ends.folder.write(name, name.as_bytes());
    }
    let send = |paths: &[&str], more: &[&str]| {
        let receiver = ends.receiver(&[]);
        let all = [&["send"], paths, &[&receiver.address, "--psk", "psk"], more].concat();
        let sent: crate::folder::CommandOutput =
            ends.command("sender", &all).output().unwrap().into();
        let got = receiver.end();
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        sent
    };
    let sent = send(&["notes", "day"], &["--exclude", "*.tmp", "--exclude", "/cache/"]);
    assert!(sent.stdout.contains("left out by patterns"), "{}", sent.stdout);
    for (name, is_there) in
        [("notes", true), ("day/a.mxf", true), ("day/b.tmp", false), ("day/cache", false)]
    {
        assert_eq!(ends.folder.path("to").join(name).exists(), is_there, "{name}");
    }
    fs::remove_dir_all(ends.folder.path("to")).unwrap();
    send(&["day"], &["--include", "d.mxf"]);
    assert!(ends.folder.path("to/day/cache/deep/d.mxf").exists());
    assert!(!ends.folder.path("to/day/a.mxf").exists());

    let refuses = |arguments: &[&str], parts: &[&str]| {
        let all = [&["send"], arguments, &["--psk", "psk"]].concat();
        let output = ends.command("sender", &all).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        says(&String::from_utf8_lossy(&output.stderr), parts);
    };
    refuses(&["notes", "-", "127.0.0.1:1"], &["- is sent alone", "./-"]);
    refuses(&["day", "127.0.0.1:1", "--exclude", "[a"], &["exclude", "\"[a\"", ".gitignore"]);
}

/// Options between the paths and the receiver were refused.
#[test]
fn options_stand_anywhere() {
    let ends = Ends::new();
    ends.folder.write("a", b"a");
    ends.folder.write("b", b"b");
    let receiver = ends.receiver(&["--keep"]);
    let peer = &*receiver.address;
    for order in [
        &["--psk", "psk", "--dry-run", "a", "b", "--rate", "5M", peer][..],
        &["a", "--psk", "psk", "b", "--rate", "5M", "--dry-run", peer],
        &["a", "b", "--rate=5M", peer, "--dry-run", "--psk", "psk"],
    ] {
        let all = [&["send"], order].concat();
        let asked = ends.command("sender", &all).output().unwrap();
        assert!(asked.status.success(), "{all:?}: {asked:?}");
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        assert_eq!(said.lines().filter(|line| line.starts_with("send ")).count(), 2, "{said}");
    }
    stop(receiver);
    ends.folder.refuses(2, &["send", "a", "--rate", "5M"], &["PATH... PEER"]);
    ends.folder.refuses(
        2,
        &["send", "a", "--rate", "5M", "x:0"],
        &["PEER: ", "\"x:0\" is not a host"],
    );
}

/// Promise (Transfer): A receiver that is kept receives from several senders at once, each into the folder and within the
/// quota that the list of senders gives it; a sender that waits for its data keeps nobody else waiting.
#[test]
fn several_send_at_once_each_into_its_folder() {
    let ends = Ends::with_file(50_000);
    fs::create_dir_all(ends.folder.path("receiver/linecard")).unwrap();
    let [one, two] = ["one", "two"].map(|host| ends.key(host));
    let list = format!("{one} folder=one\n{two} folder=lab/two quota=100K remarks\n");
    ends.folder.write("receiver/linecard/authorized", list.as_bytes());
    let only_owner = fs::Permissions::from_mode(0o600);
    fs::set_permissions(ends.folder.path("receiver/linecard/authorized"), only_owner).unwrap();
    let receiver = ends.listen(&["to", "--keep"]);
    let send = |host: &str, paths: &[&str]| {
        let all = [&["send"], paths, &[&receiver.address, "--accept-new"]].concat();
        ends.command(host, &all)
    };
    // The first waits for its data.
    let mut waiting =
        send("one", &["-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut pipe = waiting.stdin.take().unwrap();
    pipe.write_all(b"first").unwrap();
    wait_for(&ends, "to/one/.stdin.linecard-part");
    let second = send("two", &["from.bin"]).output().unwrap();
    assert!(second.status.success(), "{second:?}");
    assert_eq!(ends.folder.read("to/lab/two/from.bin"), ends.folder.read("from.bin"));
    // Of two files one fits.
    ends.folder.write("large", &noise(60_000));
    ends.folder.write("small", &noise(1_000));
    let third = send("two", &["large", "small"]).output().unwrap();
    assert_eq!(third.status.code(), Some(17), "{third:?}");
    let stderr = String::from_utf8_lossy(&third.stderr);
    assert!(stderr.contains("quota of 102400 bytes") && stderr.contains("large"), "{stderr}");
    assert!(ends.folder.path("to/lab/two/small").exists());
    assert!(!ends.folder.path("to/lab/two/large").exists());
    // A stream says nothing of its length: it ends where the quota does.
    let mut stream =
        send("two", &["-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _may_be_gone = stream.stdin.take().unwrap().write_all(&noise(120_000));
    let stream = stream.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&stream.stderr);
    assert!(!stream.status.success() && stderr.contains("quota"), "{stderr}");
    drop(pipe);
    assert!(waiting.wait().unwrap().success());
    assert_eq!(ends.folder.read("to/one/stdin"), b"first");
    signal("TERM", receiver.id());
    let got = receiver.end();
    assert_eq!(got.code, Some(0));
    let of_large = got.stderr.lines().find(|line| line.contains("large")).unwrap_or_default();
    assert!(of_large.starts_with("linecard: from 127.0.0.1:"), "{}", got.stderr);
}

/// The sender reported only that the connection was closed.
#[test]
fn a_folder_of_a_sender_that_cannot_be_used_is_said_to_it() {
    let ends = Ends::with_file(1_000);
    let key = ends.key("sender");
    for folder in ["lists", "to/locked"] {
        fs::create_dir_all(ends.folder.path(folder)).unwrap();
    }
    ends.folder.write("to/file", b"in the way");
    ends.folder.write("lists/authorized", key.as_bytes());
    fs::set_permissions(ends.folder.path("to/locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let all = ["to", "--keep", "--authorized", "lists/authorized", "--identity", "lists/identity"];
    let owned = ["lists/authorized", "lists", "to", "to/file", "to/locked"];
    let receiver = ends.listen_as_nobody(&all, &owned);
    let send = |line: &str, more: &[&str]| -> crate::folder::CommandOutput {
        ends.folder.write("lists/authorized", format!("{key} {line}").as_bytes());
        let all = [&["send", "from.bin", &receiver.address, "--accept-new"], more].concat();
        ends.command("sender", &all).output().unwrap().into()
    };
    for (line, why) in [
        ("folder=file", "a file or a link is there"),
        ("folder=file/below", "a file or a link is there"),
        ("folder=locked", "cannot write to the folder"),
        ("folder=locked/below quota=1G", "cannot make the folders of"),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            // It would be made, as far as can be seen without making it.
            if more.is_empty() || !line.contains("below") {
                let refused = send(line, more);
                assert_eq!(refused.code, Some(16), "{line}: {refused:?}");
                let folder = line.split(' ').next().unwrap();
                says(&refused.stderr, &["the receiver refuses: ", folder, why]);
                assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
            }
        }
    }
    let sent = send("folder=new/one", &[]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    signal("TERM", receiver.id());
    let got = receiver.end();
    assert_eq!(got.code, Some(0), "{got:?}");
    assert!(got.stderr.contains("(folder=locked) cannot be used"), "{}", got.stderr);
}

/// It ended the transfer when all had arrived, each time again.
#[test]
fn a_folder_of_another_user_is_refused_alone() {
    let ends = Ends::new();
    if fs::metadata(ends.folder.path(".")).unwrap().uid() != 0 {
        return linecard_testkit::skip("a folder of another user", "it needs root");
    }
    for folder in ["lists", "to/tree/shared", "tree/shared"] {
        fs::create_dir_all(ends.folder.path(folder)).unwrap();
    }
    for (file, content) in [("tree/one", "1"), ("tree/shared/two", "2")] {
        ends.folder.write(file, content.as_bytes());
    }
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(ends.folder.path("to/tree/shared"), open).unwrap();
    let key = ends.key("sender");
    ends.folder.write("lists/authorized", key.as_bytes());
    let all = ["to", "--keep", "--authorized", "lists/authorized", "--identity", "lists/identity"];
    let receiver = ends.listen_as_nobody(&all, &["lists/authorized", "lists", "to", "to/tree"]);
    for more in [&["--dry-run"][..], &[], &[]] {
        let all = [&["send", "tree", &receiver.address, "--accept-new"], more].concat();
        let sent: crate::folder::CommandOutput =
            ends.command("sender", &all).output().unwrap().into();
        assert_eq!(sent.code, Some(17), "{sent:?}");
        let said = sent.stderr.contains("cannot set mode and time of \"to/tree/shared\"");
        assert!(said, "{sent:?}");
    }
    for file in ["one", "shared/two"] {
        let [from, to] = ["", "to/"].map(|at| format!("{at}tree/{file}"));
        let [from, to] = [from, to].map(|file| fs::read(ends.folder.path(&file)).unwrap());
        assert_eq!(from, to, "{file}");
    }
    signal("TERM", receiver.id());
    assert_eq!(receiver.end().code, Some(0));
}

#[test]
fn no_more_send_at_once_than_are_allowed() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.receiver(&["--keep", "--at-once", "1"]);
    let mut first = ends
        .sender("-", &receiver, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = first.stdin.take().unwrap();
    pipe.write_all(b"first").unwrap();
    wait_for(&ends, "to/.stdin.linecard-part");
    let refused = ends.send("from.bin", &receiver, &["--patience", "5"]);
    says(&refused.stderr, &["busy: receiving from 127.0.0.1:", "try again later"]);
    assert_eq!(refused.code, Some(14), "{refused:?}");
    // With time, it waits for its turn.
    let log = ends.folder.path("waits.log");
    let waiting = ends.sender("from.bin", &receiver, &["--patience", "600"]);
    let waiting = Sender::with_log(waiting, &log);
    ends.wait_until(|| fs::read_to_string(&log).unwrap().contains("is asked again for up to 600s"));
    // What has changed meanwhile is sent as it is.
    ends.folder.write("from.bin", b"changed while it waited");
    drop(pipe);
    assert!(first.wait().unwrap().success());
    let waited = waiting.end();
    assert_eq!(waited.code, Some(0), "{waited:?}");
    ends.assert_equal();
    stop(receiver);
    ends.folder.refuses(2, &["recv", "to", "--at-once", "2", "--accept-any"], &["--keep"]);
}

/// Twelve senders of three files each to a receiver of four at once: those that are refused ask again, and all files arrive.
#[test]
fn many_senders_take_turns() {
    let ends = Ends::new();
    for sender in 0..12_u8 {
        fs::create_dir_all(ends.folder.path(&format!("s{sender}"))).unwrap();
        for file in 0..3 {
            ends.folder.write(&format!("s{sender}/f{file}"), &noise(30_000 + usize::from(sender)));
        }
    }
    let receiver = ends.receiver(&["--keep"]);
    let start = |sender| {
        Sender::start(ends.sender(&format!("s{sender}"), &receiver, &["--patience", "600"]))
    };
    let running: Vec<Sender> = (0..12).map(start).collect();
    for sender in running {
        let ended = sender.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    stop(receiver);
    for sender in 0..12 {
        for file in 0..3 {
            let name = format!("s{sender}/f{file}");
            assert_eq!(ends.folder.read(&format!("to/{name}")), ends.folder.read(&name), "{name}");
        }
    }
}

/// The list is replaced by a link to one elsewhere, which the receiver has taken its rights to away from itself.
#[test]
fn a_receiver_reads_no_list_elsewhere() {
    // On a thread of its own, as there is no way back.
    if !std::thread::spawn(|| rights::confine(&[])).join().unwrap().unwrap() {
        linecard_testkit::skip("a list elsewhere", "the kernel has no Landlock");
        return;
    }
    let ends = Ends::with_file(1_000);
    fs::create_dir_all(ends.folder.path("receiver/linecard")).unwrap();
    let key = ends.key("sender");
    ends.folder.write("elsewhere", key.as_bytes());
    let receiver = ends.listen(&["to", "--keep"]);
    let list = ends.folder.path("receiver/linecard/authorized");
    std::os::unix::fs::symlink(ends.folder.path("elsewhere"), &list).unwrap();
    let send = || {
        let all = ["send", "from.bin", &receiver.address, "--accept-new"];
        ends.command("sender", &all).output().unwrap()
    };
    let refused = send();
    assert_eq!(refused.status.code(), Some(15), "{refused:?}");
    fs::remove_file(&list).unwrap();
    ends.folder.write("receiver/linecard/authorized", key.as_bytes());
    let sent = send();
    assert!(sent.status.success(), "{sent:?}");
    signal("TERM", receiver.id());
    let got = receiver.end();
    assert!(got.stderr.contains("Permission denied"), "{}", got.stderr);
}

/// The rights to the list are given up before it is there.
#[test]
fn a_list_may_be_made_later_and_may_be_a_link() {
    let ends = Ends::with_file(1_000);
    let key = ends.key("sender");
    fs::create_dir(ends.folder.path("elsewhere")).unwrap();
    ends.folder.write("elsewhere/list", b"");
    fs::create_dir(ends.folder.path("here")).unwrap();
    std::os::unix::fs::symlink("../elsewhere/list", ends.folder.path("here/link")).unwrap();
    for (list, made) in [("none/list", "none/list"), ("here/link", "elsewhere/list")] {
        let receiver = ends.listen(&["to", "--keep", "--authorized", list]);
        ends.folder.write(made, key.as_bytes());
        let all = ["send", "from.bin", &receiver.address, "--accept-new"];
        let sent = ends.command("sender", &all).output().unwrap();
        assert!(sent.status.success(), "{list}: {sent:?}");
        stop(receiver);
    }
}

/// A full pipe held up each thread that had statistics to print, until none was left to receive.
#[test]
fn a_receiver_goes_on_if_nobody_reads_its_statistics() {
    let ends = Ends::with_file(1_000);
    let pipe = ends.folder.path("unread");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut full =
        File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    while full.write(&[0; 4_096]).is_ok() {}
    let receiver = ends.receiver_by_shell("exec \"$@\" >unread", &["--keep"]);
    // One is being printed, 64 wait, and one is left out.
    for _ in 0..66 {
        let sent = ends.send("from.bin", &receiver, &["--patience", "10s"]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    signal("TERM", receiver.id());
    let got = receiver.end();
    assert_eq!(got.code, Some(0), "{got:?}");
    assert!(got.stderr.contains("are left out: stdout is not read"), "{}", got.stderr);
}

/// It waited for a program that writes into the pipe, and did not say so.
#[test]
fn a_named_pipe_is_said_to_be_waited_for() {
    let ends = Ends::new();
    let pipe = ends.folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let receiver = ends.receiver(&[]);
    let log = ends.folder.path("waits.log");
    let sender = Sender::with_log(ends.sender("pipe", &receiver, &[]), &log);
    let line = "pipe is a pipe: it is read as soon as a program writes into it";
    ends.wait_until(|| fs::read_to_string(&log).unwrap().contains(line));
    // Opened for both, it does not wait for a reader, which may have ended.
    let mut data = File::options().read(true).write(true).open(&pipe).unwrap();
    data.write_all(b"at last").unwrap();
    let part = ends.folder.path("to/.pipe.linecard-part");
    ends.wait_until(|| fs::metadata(&part).is_ok_and(|about| about.len() > 0));
    drop(data);
    let sent = sender.end();
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert_eq!(receiver.end().code, Some(0));
    assert_eq!(ends.folder.read("to/pipe"), b"at last");
}

fn stop(receiver: Receiver) {
    signal("TERM", receiver.id());
    let got = receiver.end();
    assert_eq!(got.code, Some(0), "{got:?}");
}

/// Waits until a file exists.
fn wait_for(ends: &Ends, name: &str) {
    let begun = Instant::now();
    while !ends.folder.path(name).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {name}: {:?}", ends.folder.names());
        std::thread::sleep(Duration::from_millis(2));
    }
}
