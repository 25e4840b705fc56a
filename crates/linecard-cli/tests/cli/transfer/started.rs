//! Receivers that the sender starts: a script stands for ssh, and does what sshd does with a command.

use super::ends::{Ends, beside_pauses, noise, says, signal};
use crate::folder::CommandOutput;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// It greets, as some hosts do, and gives the command to a shell.
const LOGIN: &str = "#!/bin/sh\n\
    echo \"$1\" >>logins; shift; echo Welcome; printf '%s' 'no end of line'\n\
    echo $$ >pid; export SSH_CONNECTION='192.0.2.1 4000 127.0.0.1 22'; exec sh -c \"$*\"\n";

impl Ends {
    pub(super) fn with_login(bytes: usize) -> Self {
        let ends = Self::with_file(bytes);
        ends.folder.write("login", LOGIN.as_bytes());
        fs::set_permissions(ends.folder.path("login"), fs::Permissions::from_mode(0o755)).unwrap();
        ends
    }

    fn send_to(&self, what: &str, place: &str, more: &[&str]) -> Command {
        let receiver = format!("{} recv", env!("CARGO_BIN_EXE_linecard"));
        let all = ["send", what, place, "--ssh", "./login", "--receiver", &receiver];
        self.command("sender", &[&all[..], more].concat())
    }
}

fn outcome(mut command: Command) -> CommandOutput {
    command.output().unwrap().into()
}

/// Promise (Transfer): `linecard send PATH user@host:folder` starts the receiver there by ssh with a key for once, and it
/// ends with the sender.
#[test]
fn a_receiver_is_started_by_a_login() {
    let ends = Ends::with_login((3 << 20) + 7);
    let sent = outcome(ends.send_to("from.bin", "user@localhost:to", &["--chunk", "256K"]));
    assert_eq!((sent.code, &*beside_pauses(&sent.stderr)), (Some(0), ""), "{sent:?}");
    assert!(sent.stdout.contains("goodput"), "{sent:?}");
    ends.assert_equal();
    assert_eq!(ends.folder.read("logins"), b"user@localhost\n");
    assert!(!ends.folder.path("sender/linecard").exists(), "no keys");

    // A name that a shell would take apart; a host of which only the login knows where it is; lanes.
    let odd = r"it's $(a) \ \\ folder";
    let place = format!("no-such-host.invalid:{odd}");
    let lanes = ["--lane", "127.0.0.1", "--lane", "tcp:127.0.0.1"];
    let sent = outcome(ends.send_to("from.bin", &place, &lanes));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(ends.folder.read("from.bin") == ends.folder.read(&format!("{odd}/from.bin")));

    // Folders, and what is gone there.
    fs::create_dir(ends.folder.path("tree")).unwrap();
    ends.folder.write("tree/a", &noise(5_000));
    fs::create_dir_all(ends.folder.path("to/tree")).unwrap();
    ends.folder.write("to/tree/old", b"old");
    symlink("/", ends.folder.path("tree/out")).unwrap();
    let sent = outcome(ends.send_to("tree", "localhost:to", &["--delete", "--links-out"]));
    assert_eq!(fs::read_link(ends.folder.path("to/tree/out")).unwrap(), Path::new("/"));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(ends.folder.path("to/tree/a").exists() && !ends.folder.path("to/tree/old").exists());
}

/// It made the folder.
#[test]
fn a_receiver_that_is_started_for_a_dry_run_makes_nothing() {
    let ends = Ends::with_login(1_000);
    let asked = outcome(ends.send_to("from.bin", "localhost:new/deeper", &["--dry-run"]));
    assert_eq!((asked.code, asked.stderr.as_str()), (Some(0), ""), "{asked:?}");
    assert!(asked.stdout.contains("from.bin"), "{asked:?}");
    assert!(!ends.folder.path("new").exists(), "{asked:?}");
    ends.folder.write("file", b"");
    let refused = outcome(ends.send_to("from.bin", "localhost:file", &["--dry-run"]));
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let sent = outcome(ends.send_to("from.bin", "localhost:new/deeper", &[]));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(ends.folder.read("from.bin") == ends.folder.read("new/deeper/from.bin"));
}

#[test]
fn a_receiver_that_does_not_start_is_said() {
    let ends = Ends::with_login(1_000);
    let send = |arguments: &[&str]| {
        let all = [&["send", "from.bin"], arguments].concat();
        outcome(ends.command("sender", &all))
    };
    let missing = send(&["host:to", "--ssh", "./login", "--receiver", "no-such-linecard recv"]);
    assert_eq!(missing.code, Some(14), "{missing:?}");
    says(
        &missing.stderr,
        &[
            "`./login host` has ended (exit status: 127) before `no-such-linecard recv` listened there",
        ],
    );
    says(&missing.stderr, &["name it by --ssh or --receiver"]);
    for (wrong, what) in
        [("none", "cannot send none: No such file"), ("from.bin", "no interface `nosuch0`")]
    {
        let logins = ends.folder.read("logins");
        let all = [
            "send",
            wrong,
            "host:new",
            "--ssh",
            "./login",
            "--lane",
            "127.0.0.1",
            "--lane",
            "nosuch0",
        ];
        let lanes = if wrong == "none" { 7 } else { all.len() };
        let sent = outcome(ends.command("sender", &all[..lanes]));
        says(&sent.stderr, &[what]);
        assert!(ends.folder.read("logins") == logins, "nobody had to log in");
    }
    fs::create_dir_all(ends.folder.path("other")).unwrap();
    ends.folder.write("other/from.bin", b"");
    let twins = send(&["other/from.bin", "host:to", "--ssh", "no-login"]);
    assert_eq!(twins.code, Some(1), "{twins:?}");
    says(&twins.stderr, &["have the same name"]);
    let refused = send(&["host:to", "--ssh", "false"]);
    says(&refused.stderr, &["`false host` has ended (exit status: 1)"]);
    let keys = send(&["host:to", "--ssh", "./login", "--psk", "psk"]);
    assert_eq!(keys.code, Some(2), "{keys:?}");
    says(&keys.stderr, &["gets a key for once: leave out options on keys"]);
    for option in ["-oProxyCommand=x:to", "-x@host:to"] {
        let refused = send(&["--", option]);
        assert!(refused.code == Some(2) && refused.stderr.contains("is not a host"), "{refused:?}");
    }
    let typed =
        ends.command("receiver", &["recv", "to", "--started"]).stdin(Stdio::null()).output();
    says(&String::from_utf8(typed.unwrap().stderr).unwrap(), &["--started is for `linecard send`"]);
    // Its own reason is on the standard error.
    ends.folder.write("file", b"");
    let own = outcome(ends.send_to("from.bin", "host:file", &[]));
    assert_eq!(own.code, Some(14), "{own:?}");
    assert!(own.stderr.starts_with("linecard: \"./file\" is a file"), "{own:?}");
    says(&own.stderr, &["its own message says why"]);
    assert!(!ends.folder.path("to").exists());
}

#[test]
fn a_login_ends_with_its_sender() {
    let ends = Ends::with_file(1_000);
    ends.folder.write("silent", b"#!/bin/sh\necho $$ >pid.part; mv pid.part pid; exec sleep 600\n");
    fs::set_permissions(ends.folder.path("silent"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut sender = ends.command("sender", &["send", "from.bin", "host:to", "--ssh", "./silent"]);
    let sender = sender.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !ends.folder.path("pid").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no login");
        std::thread::sleep(Duration::from_millis(5));
    }
    let login: u32 = String::from_utf8(ends.folder.read("pid")).unwrap().trim().parse().unwrap();
    signal("TERM", sender.id());
    let sent = CommandOutput::from(sender.wait_with_output().unwrap());
    assert_eq!(sent.code, Some(130), "{sent:?}");
    assert!(fs::read_link(format!("/proc/{login}/exe")).is_err(), "it goes on logging in");
}

/// Whatever ends the sender ends the receiver, and what has arrived is kept.
#[test]
fn a_receiver_ends_with_its_sender() {
    let ends = Ends::with_login(24 << 20);
    let more = ["--chunk", "256K", "--rate", "20M"];
    for name in ["KILL", "TERM"] {
        let mut sender = ends.send_to("from.bin", "localhost:to", &more);
        let mut sender = sender.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        ends.wait_for_records(ends.records() + 2);
        let receiver: u32 =
            String::from_utf8(ends.folder.read("pid")).unwrap().trim().parse().unwrap();
        signal(name, sender.id());
        sender.wait().unwrap();
        let begun = Instant::now();
        // Gone, or left to be waited for.
        let runs = || fs::read_link(format!("/proc/{receiver}/exe")).is_ok();
        while runs() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it goes on without a sender");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let before = ends.records();
    assert!(before > 3, "{before}");
    let sent = outcome(ends.send_to("from.bin", "localhost:to", &["--chunk", "256K"]));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    ends.assert_equal();
}

/// A broken ssh connection counts as a lost host: the same command resumes.
#[test]
fn a_login_that_breaks_is_a_peer_that_is_gone() {
    let ends = Ends::with_login(24 << 20);
    // Its own process is not the receiver's, which sees the end of its input.
    let login =
        b"#!/bin/sh\nshift; mkfifo pipe; sh -c \"$*\" <pipe & echo $$ >pid; exec cat >pipe\n";
    ends.folder.write("login", login);
    let more = ["--chunk", "256K", "--rate", "20M"];
    let mut sender = ends.send_to("from.bin", "localhost:to", &more);
    let sender = sender.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ends.wait_for_records(ends.records() + 2);
    let login: u32 = String::from_utf8(ends.folder.read("pid")).unwrap().trim().parse().unwrap();
    signal("KILL", login);
    let sent = CommandOutput::from(sender.wait_with_output().unwrap());
    assert_eq!(sent.code, Some(14), "{sent:?}");
    // The receiver says why it ends, too, sooner or later.
    let said =
        "the login at localhost:to has ended (signal: 9 (SIGKILL)), and the receiver with it";
    assert!(sent.stderr.contains(said), "{sent:?}");
}
