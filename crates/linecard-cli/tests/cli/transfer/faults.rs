//! Faults: both ends report them in one line, and an incomplete file never appears complete.

use super::ends::{Ends, Receiver, Sender, says, signal};
use crate::folder::{CommandOutput, Folder, one_line};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Slow enough to be interrupted.
const SLOW: [&str; 4] = ["--rate", "40M", "--chunk", "64K"];

fn underway(ends: &Ends, recv: &[&str], send: &[&str]) -> (Receiver, Sender) {
    let both = started(ends, recv, send);
    ends.wait_for_records(8);
    both
}

fn started(ends: &Ends, recv: &[&str], send: &[&str]) -> (Receiver, Sender) {
    let receiver = ends.receiver(recv);
    let sender = Sender::start(ends.sender("from.bin", &receiver, &[&SLOW, send].concat()));
    (receiver, sender)
}

#[test]
fn something_is_there_already() {
    let ends = Ends::with_file(100_000);
    fs::create_dir(ends.folder.path("to")).unwrap();
    ends.folder.write("to/from.bin", b"precious");
    let (sent, got) = ends.both("from.bin", &[], &[]);
    assert_eq!((sent.code, got.code), (Some(16), Some(1)), "{sent:?} {got:?}");
    one_line(&sent.stderr, &["the receiver has ended the transfer", "to/from.bin", "exists"]);
    says(&got.stderr, &["to/from.bin\" exists", "--overwrite"]);
    assert_eq!(ends.folder.read("to/from.bin"), b"precious");
    let (sent, got) = ends.both("from.bin", &[], &["--overwrite"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    ends.assert_equal();
}

#[test]
fn stopped_by_a_signal_at_either_end() {
    let cases = [("INT", false), ("TERM", true), ("HUP", false), ("HUP", true)];
    for (name, is_receiver) in cases {
        if name == "HUP" && linecard_testkit::skips_hangup("the end of a transfer at SIGHUP") {
            continue;
        }
        let ends = Ends::with_file(4 << 20);
        let (receiver, sender) = started(&ends, &[], &[]);
        // From the first on there is something to be continued.
        ends.wait_for_records(1);
        let own = if is_receiver { receiver.id() } else { sender.id() };
        signal(name, own);
        if name == "HUP" {
            // When a terminal goes, the shell sends another: that does not end it any sooner.
            signal(name, own);
        }
        let (sent, got) = (sender.end(), receiver.end());
        let (own, other, who) =
            if is_receiver { (got, sent, "the receiver") } else { (sent, got, "the sender") };
        assert_eq!((own.code, other.code), (Some(130), Some(16)), "{own:?} {other:?}");
        says(&own.stderr, &["stopped", "again to resume", "skipped"]);
        says(&other.stderr, &[who, "has ended the transfer: stopped", "skipped"]);
        assert!(!ends.folder.path("to/from.bin").exists());
        let (sent, got) = ends.both("from.bin", &["--chunk", "64K"], &[]);
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        assert!(sent.stdout.contains("there before"), "{}", sent.stdout);
        ends.assert_equal();
    }
}

/// A second sender gets the reason why it has to go elsewhere, and the first continues.
#[test]
fn a_sender_while_another_sends() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.receiver(&[]);
    let mut first = ends.sender("-", &receiver, &["--chunk", "64K"]);
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(&[7; 256 << 10]).unwrap();
    let partial = ends.folder.path("to/.stdin.linecard-part");
    while !fs::metadata(&partial).is_ok_and(|about| about.len() > 0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let refused = ends.send("from.bin", &receiver, &[]);
    assert_eq!(refused.code, Some(16), "{refused:?}");
    let parts = ["the receiver refuses", "busy: receiving from 127.0.0.1:", "it ends with that"];
    one_line(&refused.stderr, &parts);
    drop(stdin);
    let (sent, got) = (first.wait().unwrap(), receiver.end());
    assert_eq!((sent.code(), got.code), (Some(0), Some(0)), "{got:?}");
    let line = "turned away 127.0.0.1:";
    assert!(got.stderr.contains(line) && got.stderr.contains("another transfer runs"), "{got:?}");
    assert_eq!(ends.folder.read("to/stdin"), [7; 256 << 10]);
}

/// Faulty lanes of one sender do not end the receiver, which waits for the next.
#[test]
fn a_typo_in_a_lane_ends_the_sender_only() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.receiver(&[]);
    for lane in ["192.0.2.77", "tcp:192.0.2.77", "no-such-if0", "[::1]"] {
        let wrong = ends.send("from.bin", &receiver, &["--lane", lane]);
        assert_eq!(wrong.code, Some(6), "{lane}: {wrong:?}");
        one_line(&wrong.stderr, &["lane at "]);
    }
    let too_long = ends.send("from.bin", &receiver, &["--chunk", "64M", "--fec", "rs:1,200"]);
    assert_eq!(too_long.code, Some(16), "{too_long:?}");
    let sent = ends.send("from.bin", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    // Most typos end the sender before it connects; what has reached the receiver is one line each.
    let lines: Vec<&str> = got.stderr.lines().filter(|line| line.contains("turned away")).collect();
    assert!(lines.iter().any(|line| line.contains("refused the sender")), "{}", got.stderr);
    assert!(lines.len() <= 5, "{}", got.stderr);
    ends.assert_equal();
}

/// The receiver's own lanes are tried before it waits for senders.
#[test]
fn a_typo_in_a_lane_of_the_receiver() {
    let ends = Ends::new();
    let recv = ["recv", "to", "--psk", "psk", "--listen", "127.0.0.1:0", "--lane", "192.0.2.77"];
    let refused: CommandOutput = ends.command("receiver", &recv).output().unwrap().into();
    assert_eq!(refused.code, Some(6), "{refused:?}");
    one_line(&refused.stderr, &["lane at 192.0.2.77", "no such address"]);
    let folder = Folder::new();
    folder.write("file", b"");
    let plain = ["--insecure-none", "--listen", "127.0.0.1:0"];
    folder.refuses(1, &[&["recv", "file"], &plain[..]].concat(), &["is a file: name a folder"]);
}

/// As under nohup: the terminal goes, and the transfer stays.
#[test]
fn a_hangup_that_is_ignored() {
    let ends = Ends::with_file(1_000);
    let plain =
        ends.command("receiver", &["recv", "to", "--listen", "127.0.0.1:0", "--psk", "psk"]);
    let mut ignoring = Command::new("sh");
    ignoring.current_dir(ends.folder.path(".")).args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    ignoring.arg(plain.get_program()).args(plain.get_args());
    let receiver = Receiver::start(ignoring);
    signal("HUP", receiver.id());
    let sent = ends.send("from.bin", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    ends.assert_equal();
}

#[test]
fn stopped_before_anybody_came() {
    let ends = Ends::new();
    let receiver = ends.receiver(&[]);
    signal("INT", receiver.id());
    let got = receiver.end();
    assert_eq!(got.code, Some(130));
    one_line(&got.stderr, &["stopped before anything arrived"]);
}

#[test]
fn nobody_there_and_nobody_any_more() {
    let ends = Ends::with_file(4 << 20);
    let gone =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    ends.folder.refuses(
        14,
        &["send", "from.bin", &gone, "--psk", "psk"],
        &["cannot connect to", &gone, "`linecard recv`"],
    );
    ends.folder.refuses(
        14,
        &["send", "from.bin", "no-such-host.invalid", "--psk", "psk"],
        &["no-such-host.invalid"],
    );
    let (receiver, sender) = underway(&ends, &[], &[]);
    signal("KILL", receiver.id());
    let sent = sender.end();
    assert_eq!(sent.code, Some(14), "{sent:?}");
    one_line(&sent.stderr, &["was cut", "to resume", "skipped"]);
}

/// A receiver that runs and does not respond any more.
#[test]
fn a_receiver_that_hangs() {
    let ends = Ends::with_file(4 << 20);
    let (receiver, sender) = underway(&ends, &[], &["--patience", "1"]);
    signal("STOP", receiver.id());
    let sent = sender.end();
    signal("CONT", receiver.id());
    assert_eq!(sent.code, Some(14), "{sent:?}");
    one_line(&sent.stderr, &["nothing has arrived for 1s", "skipped"]);
    let got = receiver.end();
    assert!(matches!(got.code, Some(14 | 16)), "{got:?}");
}

/// The sender waits for a pipe, and ends all the same when there is no receiver.
#[test]
fn the_receiver_goes_while_nothing_is_to_be_sent() {
    let ends = Ends::new();
    let receiver = ends.receiver(&[]);
    let mut sender = ends.sender("-", &receiver, &["--chunk", "64K"]);
    let mut sender = sender.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    stdin.write_all(&[7; 256 << 10]).unwrap();
    let partial = ends.folder.path("to/.stdin.linecard-part");
    while !fs::metadata(&partial).is_ok_and(|about| about.len() > 0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal("KILL", receiver.id());
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(14), "{output:?}");
    drop(stdin);
}

#[test]
fn the_source_changes_under_way() {
    let ends = Ends::with_file(4 << 20);
    let (receiver, sender) = underway(&ends, &[], &[]);
    let mut file = OpenOptions::new().append(true).open(ends.folder.path("from.bin")).unwrap();
    file.write_all(b"more").unwrap();
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(1), Some(16)), "{sent:?} {got:?}");
    one_line(&sent.stderr, &["from.bin", "changed while it was read", "send it again"]);
    says(&got.stderr, &["the sender has ended the transfer", "changed while it was read"]);
    assert!(!ends.folder.path("to/from.bin").exists());
}

#[test]
fn a_folder_for_the_standard_output() {
    let ends = Ends::new();
    fs::create_dir(ends.folder.path("tree")).unwrap();
    ends.folder.write("tree/a", b"a");
    let receiver = ends.listen(&["-", "--psk", "psk"]);
    let sent = ends.send("tree", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(16), Some(2)), "{sent:?} {got:?}");
    assert_eq!(got.stdout, "");
    one_line(&sent.stderr, &["standard output", "tar c"]);
}

/// Neither root nor the owner: both ends name the file that may not be written.
#[test]
fn permission_denied() {
    let ends = Ends::with_file(1_000);
    let to = ends.folder.path("to");
    fs::create_dir(&to).unwrap();
    fs::set_permissions(ends.folder.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = ends.command("receiver", &[]);
    let is_root = fs::metadata("/proc/self")
        .is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0);
    if is_root {
        // A copy that nobody may run, as where it was built only root may look.
        let copy = ends.folder.copy_of_linecard();
        fs::write(ends.folder.path("key"), ends.folder.read("psk")).unwrap();
        fs::set_permissions(ends.folder.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(ends.folder.path("key"), Some(65_534), None).unwrap();
        command = Command::new(copy);
        command.current_dir(ends.folder.path(".")).uid(65_534);
    }
    let key = if is_root { "key" } else { "psk" };
    command.args(["recv", "to", "--listen", "127.0.0.1:0", "--psk", key]);
    let receiver = Receiver::start(command);
    let sent = ends.send("from.bin", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(16), Some(1)), "{sent:?} {got:?}");
    one_line(&sent.stderr, &["the receiver has ended the transfer", "Permission denied"]);
    says(&got.stderr, &["to/from.bin", "Permission denied", "change its permissions"]);
    let unreadable = ["send", "no.bin", "127.0.0.1:1", "--psk", "psk"];
    ends.folder.refuses(1, &unreadable, &["no.bin", "No such file"]);
}

/// Room for a part only, in a mount namespace of its own.
#[test]
fn a_full_disk() {
    let ends = Ends::with_file(2 << 20);
    fs::create_dir(ends.folder.path("to")).unwrap();
    let script = "mount -t tmpfs -o size=1m none to || exit 99; \
        \"$1\" recv to --psk psk --listen 127.0.0.1:0 2> said & recv=$!; \
        for i in $(seq 500); do grep -q 'may send' said && break; sleep 0.02; done; \
        port=$(sed -n 's/.*listening at 127.0.0.1:\\([0-9]*\\).*/\\1/p' said); \
        \"$1\" send from.bin 127.0.0.1:$port --psk psk; sent=$?; \
        wait $recv; echo $sent $?; ls -A to; tail -n 1 said >&2";
    let run = |flags: &str| -> Option<CommandOutput> {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_linecard")]);
        command.current_dir(ends.folder.path(".")).output().map(CommandOutput::from).ok()
    };
    let outcome = ["-m", "-rm"].into_iter().filter_map(run).find(|ran| ran.code == Some(0));
    let Some(outcome) = outcome else {
        linecard_testkit::skip(
            "a full disk under a transfer",
            "no file system can be mounted here",
        );
        return;
    };
    assert_eq!(outcome.stdout, "16 1\n", "{outcome:?}");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("the receiver has ended the transfer: no room for 2097152 bytes"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("linecard: no room for 2097152 bytes"), "{lines:?}");
}

#[test]
fn wrong_arguments() {
    let folder = Folder::new();
    let send: [(&[&str], &[&str]); 12] = [
        (&["--psk", ""], &["--psk"]),
        (&["--lane", "10.0.0.300"], &["--lane", "10.0.0.300", "is not an address"]),
        (&["--mode", "fast"], &["--mode", "stable, low-latency, auto"]),
        (&["--fec", "rs:0,1"], &["--fec", "rs:0,1"]),
        (&["--rate", "fast"], &["--rate", "\"fast\" is not a rate", "200M"]),
        (&["--rate", "10"], &["--rate", "10 is out of range", "1K to 10T"]),
        (&["--payload", "9"], &["--payload", "9 is out of range", "512 to 65467"]),
        (&["--chunk", "3M"], &["--chunk", "power of two"]),
        (&["--patience", "0"], &["--patience", "0ns is out of range"]),
        (&["--strict", "--accept-new"], &["--strict", "--accept-new"]),
        (&["--psk", "a", "--accept-new"], &["--psk", "--accept-new"]),
        (&["--insecure-none", "--psk", "a"], &["--insecure-none", "--psk"]),
    ];
    for (more, parts) in send {
        folder.refuses(2, &[&["send", "-", "host"], more].concat(), parts);
    }
    // Before the name is looked up.
    folder.refuses(2, &["send", "test:x", "no-such-host.invalid"], &["\"x\" is not a size"]);
    folder.refuses(2, &["recv", "a", "--authorized", ""], &["--authorized"]);
    folder.refuses(2, &["send", "-", "host:0"], &["\"host:0\" is not a host", "host:4780"]);
    folder.refuses(2, &["recv", "a", "--listen", "eth0"], &["\"eth0\" is not an address"]);
    folder.refuses(2, &["recv", "a", "--memory", "5"], &["--memory", "5 is out of range"]);
    folder.refuses(2, &["recv", "-", "--keep", "--accept-any"], &["--keep", "stdout"]);
    folder.refuses(1, &["recv", "a", "--psk", "none"], &["--psk none", "keys psk none"]);
    folder.refuses(2, &["keys", "authorize", "lc1"], &["lc1", "52 letters"]);
}

/// It was taken for a host of the name s3, to log in there.
#[test]
fn an_object_store_is_no_peer() {
    let ends = Ends::with_file(1);
    let all = ["send", "from.bin", "s3://box/in", "--psk", "psk"];
    let refused: CommandOutput = ends.command("sender", &all).output().unwrap().into();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    one_line(&refused.stderr, &["PEER", "linecard recv s3://"]);
}

#[cfg(not(feature = "objects"))]
#[test]
fn an_object_store_takes_a_feature() {
    let ends = Ends::new();
    for arguments in [["recv", "s3://box/in"], ["send", "s3://box/in"]] {
        let peer: &[&str] = if arguments[0] == "send" { &["127.0.0.1:9"] } else { &[] };
        let all = [&arguments[..], peer, &["--psk", "psk"]].concat();
        let refused: CommandOutput = ends.command("receiver", &all).output().unwrap().into();
        assert_eq!(refused.code, Some(2), "{refused:?}");
        one_line(&refused.stderr, &["s3://box/in is in an object store", "--features objects"]);
    }
}
