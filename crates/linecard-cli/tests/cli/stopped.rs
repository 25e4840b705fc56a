//! Stopped in the middle: an incomplete file never has the name of the output, and is removed where the process is able
//! to do so.

use crate::folder::{CommandOutput, Folder, capture, one_line};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
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
fn stopped(folder: &Folder, signal: &str, arguments: &[&str]) -> Output {
    let mut child = folder.command(arguments);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let bytes = fs::read(capture("tcp4-8flows.pcap")).unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes).unwrap();
    // More than the output's buffer, so that a part of it is on the disk.
    for _ in 0..40 {
        input.write_all(&bytes[24..]).unwrap();
    }
    input.flush().unwrap();
    wait_for_partial(folder);
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    // Where signals are ignored, as in a shell's background, the input has to end for the test to fail.
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(input);
    child.wait_with_output().unwrap()
}

/// A signal that can be caught ends it with its statistics, the documented code and a line, and
/// removes the incomplete output.
fn stopped_by(signal: &str, command: &str, existing: bool) {
    let caught = signal != "KILL";
    let folder = Folder::new();
    if existing {
        folder.write("out.pcapng", b"precious");
    }
    let output = stopped(&folder, signal, &[command, "-", "out.pcapng"]);
    let (status, outcome) = (output.status, CommandOutput::from(output));
    if caught {
        assert_eq!(outcome.code, Some(130), "{outcome:?}");
        let said = [&format!("stopped by SIG{signal}"), "out.pcapng was not written"];
        one_line(&outcome.stderr, &said);
        let account = ["packets in", "Stopped before the end of the input"];
        assert!(account.iter().all(|part| outcome.stdout.contains(part)), "{outcome:?}");
        let left: &[&str] = if existing { &["out.pcapng"] } else { &[] };
        assert_eq!(folder.names(), left, "nothing is left");
    } else {
        assert!(status.signal().is_some(), "{command} ended by itself: {status}");
    }
    if existing {
        assert_eq!(folder.read("out.pcapng"), b"precious");
    } else {
        assert!(!folder.path("out.pcapng").exists(), "{:?}", folder.names());
    }
}

#[test]
fn a_part_is_kept_on_request_and_is_a_whole_capture() {
    let folder = Folder::new();
    let arguments = ["coalesce", "-", "out.pcapng", "--json", "--keep-partial"];
    let outcome = CommandOutput::from(stopped(&folder, "INT", &arguments));
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    one_line(&outcome.stderr, &["stopped by SIGINT", "out.pcapng has the packets read until then"]);
    assert_eq!(folder.names(), ["out.pcapng"]);
    let account: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let read = account["merging"]["packets_in"].as_u64().unwrap();
    let back = folder.run(&["segment", "out.pcapng", "back.pcap", "--json"]);
    let account: serde_json::Value = serde_json::from_str(&back.stdout).unwrap();
    assert_eq!(account["packets"]["packets_out"].as_u64(), Some(read), "{back:?}");
}

/// Statistics of a run that is stopped before it has read anything.
#[test]
fn stopped_before_anything_was_read() {
    let folder = Folder::new();
    let mut child = folder.command(&["coalesce", "-", "out.pcapng"]);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let input = child.stdin.take();
    wait_for_handler(child.id());
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let outcome = CommandOutput::from(child.wait_with_output().unwrap());
    drop(input);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(130), ""), "{outcome:?}");
    one_line(&outcome.stderr, &["stopped by SIGINT", "nothing was read or written"]);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn interrupted() {
    stopped_by("INT", "coalesce", false);
    stopped_by("INT", "segment", true);
    if !linecard_testkit::skips_hangup("the end of coalesce at SIGHUP") {
        stopped_by("HUP", "coalesce", true);
    }
}

/// A script's background job, and `nohup`, have signals ignored: they stay so.
#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let folder = Folder::new();
    let mut shell = Command::new("sh");
    let program = folder.command(&[]).get_program().to_owned();
    shell.args(["-c", "trap '' HUP; exec \"$0\" coalesce - out.pcapng"]).arg(program);
    shell.current_dir(folder.path(".")).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = shell.spawn().unwrap();
    let bytes = fs::read(capture("tcp4-8flows.pcap")).unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes).unwrap();
    for _ in 0..40 {
        input.write_all(&bytes[24..]).unwrap();
    }
    wait_for_partial(&folder);
    let kill = format!("kill -HUP {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.names(), ["out.pcapng"]);
}

#[test]
fn killed() {
    stopped_by("TERM", "segment", false);
    stopped_by("KILL", "coalesce", true);
}

/// Waits until a process catches SIGINT: before that, the signal ends it without a word.
fn wait_for_handler(process: u32) {
    let begun = Instant::now();
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) >> 1 & 1 == 1
    };
    while !catches() {
        assert!(begun.elapsed() < PATIENCE, "no handler was installed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Those that write no file ended without a word.
#[test]
fn commands_without_output_say_that_they_were_stopped() {
    let folder = Folder::new();
    for arguments in [
        &["run", "--seconds", "600"][..],
        &["run", "--lanes", "sim", "--chunks", "2000"],
        &["jitter", "analyze", "-"],
        &["reproduce", "--all"],
    ] {
        let mut child = folder.command(arguments);
        child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let input = child.stdin.take();
        wait_for_handler(child.id());
        let kill = format!("kill -INT {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let outcome = CommandOutput::from(child.wait_with_output().unwrap());
        drop(input);
        assert_eq!(outcome.code, Some(130), "{arguments:?}: {outcome:?}");
        one_line(&outcome.stderr, &["stopped by SIGINT (Ctrl-C) before the end"]);
    }
}
