//! Experiments whose stream another linecard sends, started by a command: over loopback, and from another namespace with
//! a clock of its own. Figures are not looked at: the machine may be busy.

use crate::folder::{CommandOutput, Folder, one_line};
use crate::jitter_lab::{alone, json, kill};
use linecard_testkit::lab::{End, Namespace, cable};
use serde_json::Value as Json;
use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(50);
const LINECARD: &str = env!("CARGO_BIN_EXE_linecard");
const SHORT: [&str; 5] = ["--json", "--count", "3000", "--period", "200us"];
/// The near end of the cable, and where its stream goes.
const NEAR: &str = "near0";
const AT: &str = "192.0.2.1:5004%near0";

/// A free port of loopback.
fn here() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().to_string()
}

fn run(folder: &Folder, arguments: &[&str]) -> CommandOutput {
    let mut command = folder.command(&[&["jitter"], arguments].concat());
    command.env("LINECARD_JOURNALS", folder.path("journals"));
    command.output().unwrap().into()
}

/// Two namespaces with a cable, and the command that sends in the far one.
struct Hosts {
    near: Namespace,
    far: Namespace,
}

impl Hosts {
    fn new() -> Result<Self, String> {
        let (near, far) = (Namespace::quiet()?, Namespace::quiet()?);
        let end = |namespace, device| End { namespace, device, options: &[] };
        cable(end(&near, NEAR), end(&far, "far0"))?;
        for (namespace, device, address) in
            [(&near, NEAR, "192.0.2.1/24"), (&far, "far0", "192.0.2.2/24")]
        {
            namespace.ip(&["address", "add", address, "dev", device])?;
            namespace.ip(&["link", "set", device, "up"])?;
        }
        Ok(Self { near, far })
    }

    fn of(test: &str) -> Option<Self> {
        Self::new().map_err(|error| linecard_testkit::skip(test, error)).ok()
    }

    fn sender(&self, clock: &str) -> String {
        format!("ip netns exec {} {clock}{LINECARD}", self.far.name())
    }

    fn command(&self, folder: &Folder, arguments: &[&str]) -> Command {
        let mut command = self.near.command(LINECARD);
        command.arg("jitter").args(arguments).current_dir(folder.path(""));
        command.env("LINECARD_JOURNALS", folder.path("journals"));
        command
    }

    /// Settings of the near end that experiments change.
    fn settings(&self) -> String {
        let read = |name: &str| {
            let output =
                self.near.command("cat").arg(format!("/sys/class/net/{NEAR}/{name}")).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        ["threaded", "queues/rx-0/rps_cpus", "gro_flush_timeout", "napi_defer_hard_irqs"]
            .map(read)
            .concat()
    }
}

fn records(outcome: &CommandOutput) -> Vec<Json> {
    assert!(matches!(outcome.code, Some(0 | 11)), "{outcome:?}");
    json(&outcome.stdout).as_array().unwrap().clone()
}

fn gate<'r>(record: &'r Json, name: &str) -> &'r Json {
    let gates = record["gates"].as_array().unwrap();
    gates.iter().find(|gate| gate["name"] == name).unwrap_or(&Json::Null)
}

/// The other end needs no rights, and neither does this one.
#[test]
fn another_process_can_send() {
    let _alone = alone();
    let folder = Folder::new();
    let address = here();
    let remote = ["--remote-sender", LINECARD, "--sink-address", &address, "--trace", "off"];
    let outcome = run(&folder, &[&["run", "E0", "E5", "E7"][..], &remote, &SHORT].concat());
    let records = records(&outcome);
    for record in [&records[0], &records[2]] {
        assert_eq!(
            (&record["sent"], &record["arrived"]),
            (&3_000.into(), &3_000.into()),
            "{}",
            record["id"]
        );
        assert_eq!(record["place"], format!("a remote sender's stream to {address}"));
        assert!(gate(record, "generator")["found"].is_string());
        // One host has one clock.
        assert_eq!(
            (&gate(record, "clock")["passes"], &record["remarks"]),
            (&true.into(), &json("[]"))
        );
    }
    let found = gate(&records[1], "testable")["found"].as_str().unwrap();
    assert!(found.contains("--sink-address 192.0.2.1:5004%eth1"), "{found}");
    let outcome = run(
        &folder,
        &[&["ab", "blocking", "--blocks", "6", "--count", "200"][..], &remote].concat(),
    );
    assert!(matches!(outcome.code, Some(0 | 11)), "{outcome:?}");
    assert!(outcome.stdout.contains("blocking"), "{outcome:?}");
}

#[test]
fn what_does_not_send_is_said_in_one_line() {
    let _alone = alone();
    let folder = Folder::new();
    let address = here();
    let with = |command: &str, code, parts: &[&str]| {
        let to = ["--remote-sender", command, "--sink-address", &address, "--trace", "off"];
        let outcome = run(&folder, &[&["run", "E2"][..], &to].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{outcome:?}");
        one_line(&outcome.stderr, parts);
    };
    with("false", 6, &["`false` has ended (exit status: 1)", "jitter remote-sender 127.0.0.1:"]);
    with("echo Welcome; cat", 6, &["answered \"Welcome\"", "no linecard"]);
    with(
        "echo hello version=9 boot=x time=1; cat",
        6,
        &["version 9", "same linecard on both hosts"],
    );
    with(&format!("{LINECARD} --no-such-option 2>/dev/null"), 6, &["has ended (exit status: 2)"]);
    let refuses = |arguments: &[&str], parts: &[&str]| {
        folder.refuses(2, &[&["jitter", "run"], arguments].concat(), parts);
    };
    refuses(&["--remote-sender", "x"], &["--sink-address ADDRESS:PORT%INTERFACE"]);
    refuses(&["--sink-address", &address], &["--remote-sender COMMAND"]);
    refuses(&["--remote-sender", "x", "--sink-address", "0.0.0.0:5004"], &["are not 0"]);
    refuses(&["--remote-sender", "x", "--sink-address", "239.0.0.1:5004"], &["group"]);
    refuses(
        &["--remote-sender", "x", "--sink-address", "127.0.0.1:5004%none9"],
        &["none9", "ip link"],
    );
    refuses(&["--remote-sender", "x", "--sink-address", "here"], &["here", "192.0.2.1:5004"]);
    refuses(&["--remote-sender", "x", "--loopback", "--sink-address", &address], &["--loopback"]);
}

/// A user who starts the other end by hand is told its purpose.
#[test]
fn the_other_end_takes_nothing_else() {
    let folder = Folder::new();
    let mut command = folder.command(&["jitter", "remote-sender", "127.0.0.1:9"]);
    let input = Stdio::from(fs::File::open("/dev/null").unwrap());
    let outcome = CommandOutput::from(command.stdin(input).output().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert!(outcome.stdout.starts_with("hello version=1 "), "{outcome:?}");
    folder.write("words", b"send me\n");
    let mut command = folder.command(&["jitter", "remote-sender", "127.0.0.1:9"]);
    let input = Stdio::from(fs::File::open(folder.path("words")).unwrap());
    let outcome = CommandOutput::from(command.stdin(input).output().unwrap());
    assert_eq!(outcome.code, Some(2));
    one_line(&outcome.stderr, &["send me", "--remote-sender"]);
    folder.refuses(2, &["jitter", "remote-sender", "nowhere"], &["nowhere"]);
}

/// Promise (Jitter): Packets of a sender in another namespace, with its own clock too, are followed from there to the
/// application, none against the order of the stages, and settings of the interface are as before.
///
/// Experiments that change the interface restore it, and the clock of a host that was booted at another time is related
/// to this one's: no packet is received before it was sent.
#[test]
fn a_sender_with_a_clock_of_its_own_is_followed() {
    let test = "a_sender_with_a_clock_of_its_own_is_followed";
    let Some(hosts) = Hosts::of(test) else { return };
    let _alone = alone();
    let folder = Folder::new();
    let before = hosts.settings();
    let unshare = "unshare --time --monotonic 100000 ";
    let has_own =
        hosts.near.command("unshare").args(["--time", "--monotonic", "9", "true"]).status();
    let clocks = if has_own.is_ok_and(|status| status.success()) {
        &["", unshare][..]
    } else {
        linecard_testkit::skip(test, "no time namespaces, or no unshare");
        &[""][..]
    };
    for clock in clocks {
        let sender = hosts.sender(clock);
        let remote = ["--remote-sender", &sender, "--sink-address", AT];
        let arguments = [&["run", "E2", "E5", "E6", "E8"][..], &remote, &SHORT].concat();
        let outcome = hosts.command(&folder, &arguments).output().unwrap().into();
        let records = records(&outcome);
        assert_eq!(records.len(), 4);
        for record in &records {
            // On two cores, E6 takes another period.
            let all = if record["period_ns"] == 200_000 { 3_000 } else { 1_500 };
            let id = &record["id"];
            assert_eq!(record["arrived"], all, "{clock}{id}");
            assert_eq!(
                record["place"],
                format!("a remote sender's stream to 192.0.2.1:5004 at {NEAR}")
            );
            let found = gate(record, "clock")["found"].as_str().unwrap();
            assert_eq!(
                found.contains("ppm faster than the sender's"),
                !clock.is_empty(),
                "{found}"
            );
            assert_eq!(gate(record, "clock")["passes"], true, "{found}");
            if record["traced"].is_null() {
                linecard_testkit::skip(test, &record["untraced"]);
                continue;
            }
            assert_eq!(
                gate(record, "order")["passes"],
                true,
                "{clock}{id}: {}",
                gate(record, "order")
            );
            let joined = record["traced"]["joined"].as_u64().unwrap();
            assert!(joined > all * 9 / 10, "{clock}{id}: {joined}");
            let outside = record["traced"]["causes"].as_array().unwrap().iter();
            let outside = outside.filter(|cause| cause["kind"] == "outside").count();
            assert!(outside == 0 || !clock.is_empty(), "one host has no outside: {id}");
        }
        // Handed to the sink's core, as the trace sees.
        if !records[1]["traced"].is_null() {
            assert_eq!(
                gate(&records[1], "place")["passes"],
                true,
                "{}",
                gate(&records[1], "place")
            );
        }
        assert_eq!(hosts.settings(), before, "{clock}");
    }
    assert!(!folder.path("journals").exists());
}

/// Processes that have this in their command line.
fn processes(with: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let words = |line: &Vec<u8>| String::from_utf8_lossy(line).replace('\0', " ").contains(with);
    lines.filter(words).count()
}

#[test]
fn a_killed_run_leaves_no_sender_and_the_next_restores() {
    let Some(hosts) = Hosts::of("a_killed_run_leaves_no_sender_and_the_next_restores") else {
        return;
    };
    let _alone = alone();
    let folder = Folder::new();
    let before = hosts.settings();
    let sender = hosts.sender("");
    let remote = ["--remote-sender", &sender, "--sink-address", AT];
    let long = ["--count", "200000", "--period", "1ms", "--trace", "off"];
    let sending = format!("{LINECARD} jitter remote-sender 192.0.2.1:5004");
    for signal in ["-KILL", "-INT"] {
        let mut command = hosts.command(&folder, &[&["run", "E5"][..], &remote, &long].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait("settings of the interface", || hosts.settings() != before);
        wait("the sender", || processes(&sending) > 0);
        let packets = || {
            let file = format!("/sys/class/net/{NEAR}/statistics/rx_packets");
            let output = hosts.near.command("cat").arg(file).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()
        };
        let at_first = packets();
        wait("packets", || packets() > at_first + 50);
        kill(&child, signal);
        if signal == "-INT" {
            let outcome: CommandOutput = child.wait_with_output().unwrap().into();
            assert!(outcome.stdout.replace('\n', " ").contains("Stopped early: "), "{outcome:?}");
        } else {
            child.wait().unwrap();
            let outcome: CommandOutput =
                hosts.command(&folder, &["audit"]).output().unwrap().into();
            assert!(outcome.stderr.contains("rps_cpus"), "{outcome:?}");
        }
        wait("the end of the sender", || processes(&sending) == 0);
        assert_eq!(hosts.settings(), before, "{signal}");
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}
