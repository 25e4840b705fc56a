//! Something bad happens while a transfer runs.
//!
//! A [`Storm`] is a transfer between two commands, slow enough for a fault in its middle. Whatever the fault is, one of
//! two things is true when both ends have ended:
//!
//! - both ends have exit code 0, and the file has its name and the right bytes;
//! - an end that was not killed has one of the exit codes of its `--help` and a last line that says why, nothing has
//!   the file's name unless it is the whole file, and the same commands complete the transfer from where it was.
//!
//! Each wait ends with a process, or with what the test waits for; nothing depends on how busy the machine is.

mod any;
mod disks;
mod hosts;
mod network;
mod processes;
mod strangers;

use super::ends::{Ends, Receiver, Sender, number, runs, says, signal};
use crate::folder::CommandOutput;
use hosts::Hosts;
use std::process::Command;
use std::time::{Duration, Instant};

/// 64 chunks of 64 KiB.
const FILE_BYTES: usize = 4 << 20;
const CHUNK: [&str; 2] = ["--chunk", "64K"];
/// For a transfer that goes on after the fault: eight seconds in all over two lanes.
const STEADY: [&str; 2] = ["--rate", "2M"];
/// For one that goes on over one lane for longer than the kernel keeps a connection without a route: 20 seconds.
const LASTING: [&str; 2] = ["--rate", "1500K"];
/// For one that the fault ends: it would take 16 seconds.
const SLOW: [&str; 2] = ["--rate", "1M"];
/// Exit codes of a transfer that failed; see `linecard send --help`.
const FAILED: [i32; 6] = [1, 5, 6, 14, 16, 17];
/// No wait for progress is longer.
const LONGEST: Duration = Duration::from_secs(60);

/// A file to be sent, where to, and the options of both ends.
struct Storm {
    ends: Ends,
    /// None: both ends are on this host, over loopback.
    hosts: Option<Hosts>,
    recv: Vec<&'static str>,
    send: Vec<&'static str>,
    /// Variables of the environment of both.
    env: Vec<(&'static str, String)>,
}

/// A transfer that runs.
struct Underway<'s> {
    storm: &'s Storm,
    receiver: Receiver,
    sender: Sender,
}

/// How both ends have ended.
#[derive(Debug)]
struct Attempt {
    sent: CommandOutput,
    got: CommandOutput,
}

impl Storm {
    /// Over two lanes of loopback.
    fn new() -> Self {
        Self {
            ends: Ends::with_file(FILE_BYTES),
            hosts: None,
            recv: Vec::new(),
            send: vec!["--lane", "127.0.0.1", "--lane", "127.0.0.1"],
            env: Vec::new(),
        }
    }

    /// Over the two links between hosts.
    fn between(hosts: Hosts, protocol: hosts::Protocol) -> Self {
        let (recv, send) = hosts::lanes(protocol);
        Self { ends: Ends::with_file(FILE_BYTES), hosts: Some(hosts), recv, send, env: Vec::new() }
    }

    /// With the same patience at both ends, in seconds.
    fn patience(mut self, seconds: &'static str) -> Self {
        self.recv.extend(["--patience", seconds]);
        self.send.extend(["--patience", seconds]);
        self
    }

    /// A command as it runs on the receiver's host, or on the sender's.
    fn on(&self, is_receiver: bool, mut command: Command) -> Command {
        command.envs(self.env.iter().cloned());
        match &self.hosts {
            Some(hosts) => hosts.on(is_receiver, &command),
            None => command,
        }
    }

    fn receiver(&self) -> Receiver {
        let listen = if self.hosts.is_some() { hosts::CONTROL } else { "127.0.0.1:0" };
        let all = [&["recv", "to", "--psk", "psk", "--listen", listen], &self.recv[..]].concat();
        let mut receiver = Receiver::start(self.on(true, self.ends.command("receiver", &all)));
        if self.hosts.is_some() {
            hosts::CONTROL.clone_into(&mut receiver.address);
        }
        receiver
    }

    /// Both ends run, and nothing is known of how far they are.
    fn begin(&self, pace: &[&str]) -> Underway<'_> {
        let receiver = self.receiver();
        let more = [&CHUNK[..], pace, &self.send].concat();
        let sender = self.on(false, self.ends.sender("from.bin", &receiver, &more));
        Underway { storm: self, sender: Sender::start(sender), receiver }
    }

    /// Some chunks are stored, and more are to come.
    fn start(&self, pace: &[&str]) -> Underway<'_> {
        let before = self.ends.records();
        let underway = self.begin(pace);
        self.ends.wait_for_records(before + 4);
        underway
    }

    /// Both ends keep to the rules above, and neither was killed.
    fn assert_holds(&self, attempt: &Attempt) {
        for end in [&attempt.sent, &attempt.got] {
            assert_ended(end, attempt);
        }
        self.assert_whole_or_nothing(attempt);
    }

    /// Nothing but the whole file ever has its name.
    fn assert_whole_or_nothing(&self, attempt: &Attempt) {
        if attempt.is_complete() {
            return self.ends.assert_equal();
        }
        if self.ends.folder.path("to/from.bin").exists() {
            let is_equal =
                self.ends.folder.read("from.bin") == self.ends.folder.read("to/from.bin");
            assert!(is_equal, "other bytes have the file's name: {attempt:?}");
        }
    }

    /// It has completed.
    fn assert_complete(&self, attempt: &Attempt) {
        assert!(attempt.is_complete(), "{attempt:?}");
        self.ends.assert_equal();
    }

    /// Both ends have failed with these codes and lines, and the same commands go on.
    fn assert_failed(&self, attempt: &Attempt, codes: (i32, i32), parts: (&str, &str)) {
        assert_eq!(
            (attempt.sent.code, attempt.got.code),
            (Some(codes.0), Some(codes.1)),
            "{attempt:?}"
        );
        says(&attempt.sent.stderr, &[parts.0]);
        says(&attempt.got.stderr, &[parts.1]);
        self.assert_holds(attempt);
        self.assert_resumes();
    }

    /// The same commands complete it, and what has arrived is not sent again.
    fn assert_resumes(&self) {
        let is_begun = self.ends.records() > 0;
        let attempt = self.assert_completes();
        let resumed = attempt.sent.stdout.contains("there before");
        assert!(resumed || !is_begun, "it began again: {attempt:?}");
    }

    /// The same commands complete it.
    fn assert_completes(&self) -> Attempt {
        let attempt = self.begin(&[]).end();
        self.assert_complete(&attempt);
        attempt
    }
}

impl Underway<'_> {
    /// Waits until `count` more chunks are stored; false if the receiver ends before.
    fn advances(&self, count: u64) -> bool {
        self.reaches(self.storm.ends.records() + count)
    }

    /// Waits until `count` chunks are stored; false if the receiver ends before.
    fn reaches(&self, count: u64) -> bool {
        let begun = Instant::now();
        while self.storm.ends.records() < count {
            if !runs(self.receiver.id()) {
                return false;
            }
            assert!(begun.elapsed() < LONGEST, "it stands still before {count} chunks");
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Waits until `is_so`, while the transfer runs.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(self.runs(), "the transfer was over before {what}");
            assert!(begun.elapsed() < LONGEST, "no {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Neither end has ended.
    fn runs(&self) -> bool {
        [self.sender.id(), self.receiver.id()].into_iter().all(runs)
    }

    /// After a fault that it withstands: it goes on, and was not over before.
    fn assert_goes_on(&self) {
        assert!(self.advances(1), "the transfer was over before the fault");
    }

    fn hosts(&self) -> &Hosts {
        self.storm.hosts.as_ref().unwrap()
    }

    /// Sends a signal to one of the ends.
    fn signal(&self, is_receiver: bool, name: &str) {
        signal(name, if is_receiver { self.receiver.id() } else { self.sender.id() });
    }

    /// Waits until both have ended.
    fn end(self) -> Attempt {
        let sent = self.sender.end();
        Attempt { sent, got: self.receiver.end() }
    }

    /// The same. The fault may have ended the sender before it had announced anything: the receiver waits for another.
    fn end_or_stop(self) -> Attempt {
        let sent = self.sender.end();
        // A visitor shows that it waits.
        let visit = || drop(std::net::TcpStream::connect(&*self.receiver.address));
        match &self.storm.hosts {
            Some(hosts) => hosts.visit(visit),
            None => visit(),
        }
        Attempt { sent, got: self.receiver.end_or_stop() }
    }
}

impl Attempt {
    fn is_complete(&self) -> bool {
        (self.sent.code, self.got.code) == (Some(0), Some(0))
    }
}

/// An end that was not killed is done, or says why not.
fn assert_ended(end: &CommandOutput, attempt: &Attempt) {
    assert!(!end.stderr.contains("panicked"), "{attempt:?}");
    if end.code == Some(0) {
        return;
    }
    assert!(end.code.is_some_and(|code| FAILED.contains(&code)), "{attempt:?}");
    says(&end.stderr, &[]);
}

fn seed() -> u64 {
    number("LINECARD_SEED").unwrap_or(1)
}
