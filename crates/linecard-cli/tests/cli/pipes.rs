//! `-`: stdin and stdout, alone and with the tools that people pipe captures through.

use crate::around::is_there;
use crate::entries::packets;
use crate::folder::{CommandOutput, Folder, capture};
use serde_json::Value as Json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// `cat FILE | linecard coalesce - - | linecard segment - -`.
#[test]
fn both_commands_in_a_pipe() {
    for name in ["tcp4-8flows.pcap", "tcp4-two-interfaces.pcapng", "udp6-fragments.pcap"] {
        let folder = Folder::new();
        let file = File::open(capture(name)).unwrap();
        let mut first = folder.command(&["coalesce", "-", "-", "--json"]);
        first.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = first.spawn().unwrap();
        let between = first.stdout.take().unwrap();
        let second = folder.command(&["segment", "-", "-"]).stdin(between).output().unwrap();
        let first = CommandOutput::from(first.wait_with_output().unwrap());
        assert_eq!((first.code, second.status.code()), (Some(0), Some(0)));
        // The statistics give way to the data.
        let json: Json = serde_json::from_str(&first.stderr).unwrap();
        assert!(json["merging"]["merged"].as_u64().unwrap() > 0 || name.starts_with("udp"));
        assert!(String::from_utf8(second.stderr).unwrap().starts_with("Packets\n"));
        assert_eq!(packets(&second.stdout), packets(&fs::read(capture(name)).unwrap()), "{name}");
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}

/// On a live pipe, packets that are ready are passed on before more are waited for.
#[test]
fn a_pipe_that_pauses_gives_what_is_ready() {
    let mut command = Folder::new().command(&["coalesce", "-", "-"]);
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&fs::read(capture("tcp4-8flows.pcap")).unwrap()).unwrap();
    // The pipe stays open. A command that kept everything would make this wait forever, and the
    // guard below end it.
    let mut output = child.stdout.take().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut some = vec![0; 30_000];
        let _ = send.send(output.read_exact(&mut some).is_ok());
    });
    let in_time = receive.recv_timeout(std::time::Duration::from_secs(20));
    drop(input);
    child.wait().unwrap();
    reader.join().unwrap();
    assert_eq!(in_time, Ok(true), "nothing came while the pipe was open");
}

/// Other names of stdout are treated as it: the statistics must not end up among the data.
#[test]
fn stdout_by_another_name() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let dash = folder.command(&["coalesce", "in.pcap", "-"]).output().unwrap();
    let device = folder.command(&["coalesce", "in.pcap", "/dev/stdout"]).output().unwrap();
    assert!(dash.status.success());
    assert_eq!(
        (dash.status, dash.stdout, dash.stderr),
        (device.status, device.stdout, device.stderr)
    );
}

/// Lines that a tool prints for the output of `coalesce`, one for each packet.
fn lines_of(tool: &mut Command) -> usize {
    let file = File::open(capture("tcp4-bulk.pcap")).unwrap();
    let mut coalesce = Folder::new().command(&["coalesce", "-", "-"]);
    // The folder is gone by now: nothing is to be written there.
    coalesce.current_dir("/").stdin(file).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut coalesce = coalesce.spawn().unwrap();
    let output =
        tool.stdin(coalesce.stdout.take().unwrap()).stderr(Stdio::null()).output().unwrap();
    assert!(coalesce.wait().unwrap().success());
    assert!(output.status.success(), "{tool:?}");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn tcpdump_reads_what_is_written() {
    if is_there("tcpdump", "reading captures from a pipe") {
        assert_eq!(lines_of(Command::new("tcpdump").args(["-n", "-r", "-"])), 43);
    }
}

#[test]
fn tshark_reads_what_is_written() {
    if is_there("tshark", "reading captures from a pipe") {
        assert_eq!(lines_of(Command::new("tshark").args(["-n", "-r", "-"])), 43);
    }
}

/// tcpdump as the source, as in `tcpdump -w - | linecard coalesce - out.pcapng`.
#[test]
fn tcpdump_writes_what_is_read() {
    if !is_there("tcpdump", "capturing into a pipe") {
        return;
    }
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-n", "-w", "-", "-r"]).arg(folder.path("in.pcap"));
    let mut tcpdump = tcpdump.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let from = tcpdump.stdout.take().unwrap();
    let status =
        folder.command(&["coalesce", "-", "out.pcapng"]).stdin(from).output().unwrap().status;
    assert!(status.success() && tcpdump.wait().unwrap().success());
    assert_eq!(packets(&folder.read("out.pcapng")).len(), 43);
}

/// Runs with a stdout whose reader has closed it, and gives the input only after that.
fn unread(arguments: &[&str], input: &[u8]) -> CommandOutput {
    let mut command = Folder::new().command(arguments);
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let bytes = fs::read(capture("tcp4-bulk.pcap")).unwrap();
    for arguments in [
        &["coalesce", "-", "-"][..],
        &["segment", "-", "-"],
        &["coalesce", "-", "/dev/null"],
        &["segment", "-", "/dev/null", "--json"],
        &["run", "--seconds", "0.05"],
        &["--help"],
    ] {
        let outcome = unread(arguments, &bytes);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// It does not hide errors of the input.
#[test]
fn a_reader_that_leaves_hides_no_damage() {
    let bytes = fs::read(capture("tcp4-bulk.pcap")).unwrap();
    let outcome = unread(&["coalesce", "-", "/dev/null"], &bytes[..bytes.len() - 1]);
    assert_eq!(outcome.code, Some(4));
    assert!(outcome.stderr.starts_with("linecard: -: damaged at byte "), "{}", outcome.stderr);
}

/// `| head -c 10`, with much more to come than a pipe holds.
#[test]
fn a_reader_that_takes_ten_bytes() {
    let bytes = fs::read(capture("tcp4-8flows.pcap")).unwrap();
    let mut command = Folder::new().command(&["segment", "-", "-"]);
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let _ = input.write_all(&bytes[..24]);
        while input.write_all(&bytes[24..]).is_ok() {}
    });
    let mut ten = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut ten).unwrap();
    assert_eq!(ten[..4], *b"\n\r\r\n");
    drop(child.stdout.take());
    let outcome = CommandOutput::from(child.wait_with_output().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    feeder.join().unwrap();
}
