//! A full disk: one line reports it, and an incomplete file never appears complete.

use crate::folder::{CommandOutput, Folder, one_line};
use std::process::Command;

const REASON: [&str; 2] = ["No space left", "free some space, or write elsewhere"];

#[test]
fn a_full_device() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    for command in ["coalesce", "segment"] {
        let parts = [&["cannot write /dev/full"], &REASON[..]].concat();
        folder.refuses(1, &[command, "in.pcap", "/dev/full"], &parts);
    }
}

#[test]
fn a_full_standard_output() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = |arguments: &[&str]| -> CommandOutput {
        folder.command(arguments).stdout(full()).output().unwrap().into()
    };
    let outcome = run(&["coalesce", "in.pcap", "-"]);
    assert_eq!(outcome.code, Some(1));
    one_line(&outcome.stderr, &[&["cannot write -"], &REASON[..]].concat());
    for arguments in [
        &["run", "--seconds", "0.05"][..],
        &["coalesce", "in.pcap", "out.pcapng"],
        &["--help"],
        &["-h"],
        &["run", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["schema", "npu"],
    ] {
        let outcome = run(arguments);
        assert_eq!(outcome.code, Some(1));
        one_line(&outcome.stderr, &["cannot write the report", "No space left"]);
    }
}

/// No message can be written, but the exit code is right.
#[test]
fn a_full_standard_error() {
    let folder = Folder::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = folder.command(&["coalesce", "no.pcap", "out"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// The smallest of real disks, in a mount namespace of its own, with an older output on it.
#[test]
fn a_full_disk() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    std::fs::create_dir(folder.path("disk")).unwrap();
    // The state of the disk afterwards goes to stdout.
    let script = "mount -t tmpfs -o size=32k none disk || exit 99; \
                  printf precious > disk/old.pcapng; \
                  \"$1\" segment in.pcap disk/old.pcapng; old=$?; \
                  \"$1\" segment in.pcap disk/new.pcapng; new=$?; \
                  ls -A disk; cat disk/old.pcapng; echo \" $old $new\"";
    let run =
        |flags: &str| -> CommandOutput {
            let mut command = Command::new("unshare");
            command.args([flags, "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_linecard")]);
            command.current_dir(folder.path(".")).output().map(CommandOutput::from).unwrap_or(
                CommandOutput { code: None, stdout: String::new(), stderr: String::new() },
            )
        };
    // As root, or as root of a user namespace.
    let outcome = [run("-m"), run("-rm")].into_iter().find(|outcome| outcome.code == Some(0));
    let Some(outcome) = outcome else {
        linecard_testkit::skip("a full disk", "no file system can be mounted here");
        return;
    };
    assert_eq!(outcome.stdout, "old.pcapng\nprecious 1 1\n");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    one_line(&format!("{}\n", lines[0]), &[&["disk/old.pcapng"], &REASON[..]].concat());
    one_line(&format!("{}\n", lines[1]), &[&["disk/new.pcapng"], &REASON[..]].concat());
}
