//! Stopped in the middle: what is not complete never has the name of the output.

use crate::folder::{Folder, capture};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the command has written something beside its target.
fn wait_for_partial(folder: &Folder) {
    let begun = Instant::now();
    let is_partial = |name: &str| {
        name.ends_with(".partial") && fs::metadata(folder.path(name)).is_ok_and(|d| d.len() > 0)
    };
    while !folder.names().iter().any(|name| is_partial(name)) {
        assert!(begun.elapsed() < PATIENCE, "nothing was written: {:?}", folder.names());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a command that has read a part of its input and waits for more.
fn stopped_by(signal: &str, command: &str, existing: bool) {
    let folder = Folder::new();
    if existing {
        folder.write("out.pcapng", b"precious");
    }
    let mut child = folder.command(&[command, "-", "out.pcapng"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let bytes = fs::read(capture("tcp4-8flows.pcap")).unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes).unwrap();
    // More than the output's buffer, so that a part of it is on the disk.
    for _ in 0..40 {
        input.write_all(&bytes[24..]).unwrap();
    }
    input.flush().unwrap();
    wait_for_partial(&folder);
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert!(status.signal().is_some(), "{command} ended by itself: {status}");
    if existing {
        assert_eq!(folder.read("out.pcapng"), b"precious");
    } else {
        assert!(!folder.path("out.pcapng").exists(), "{:?}", folder.names());
    }
    drop(input);
}

#[test]
fn interrupted() {
    stopped_by("INT", "coalesce", false);
    stopped_by("INT", "segment", true);
}

#[test]
fn killed() {
    stopped_by("TERM", "segment", false);
    stopped_by("KILL", "coalesce", true);
}
