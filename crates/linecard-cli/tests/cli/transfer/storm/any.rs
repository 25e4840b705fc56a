//! Faults of all kinds, one after the other, at moments that a seed chooses.

use super::hosts::{Hosts, Protocol};
use super::{Attempt, STEADY, Storm, Underway};
use crate::transfer::ends::number;
use linecard::rng::Rng;
use std::fs;
use std::time::Duration;

/// A fault, and the end that it kills.
type Fault = fn(&Underway<'_>, &mut Rng) -> Option<End>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

/// On this host.
const LOCAL: [Fault; 4] = [
    |underway, _| {
        underway.signal(false, "KILL");
        Some(End::Sender)
    },
    |underway, _| {
        underway.signal(true, "KILL");
        Some(End::Receiver)
    },
    |underway, rng| {
        let is_receiver = rng.below(2) == 0;
        underway.signal(is_receiver, "STOP");
        std::thread::sleep(Duration::from_millis(rng.below(400)));
        underway.signal(is_receiver, "CONT");
        None
    },
    |_, _| None,
];

/// Between hosts.
const REMOTE: [Fault; 3] = [
    |underway, rng| {
        underway.hosts().break_connections(&[[4780, 7001, 7002][rng.below(3) as usize]]);
        None
    },
    |underway, rng| {
        let links = [&["link1"][..], &["link2"], &["link1", "link2"]][rng.below(3) as usize];
        underway.hosts().interrupt(links);
        None
    },
    |underway, rng| {
        let rules = ["", "udp dport 7001", "tcp dport 4780", "numgen random mod 3 == 0"];
        let _dropped = underway.hosts().drop_for_a_while(rules[rng.below(4) as usize]);
        None
    },
];

/// One round: a fault at some moment, and what must be true of both ends.
fn round(storm: &Storm, faults: &[Fault], rng: &mut Rng) -> Attempt {
    let underway = storm.begin(&STEADY);
    // From before the handshake to the last chunks.
    std::thread::sleep(Duration::from_millis(rng.below(60)));
    if rng.below(4) > 0 {
        let begun = storm.ends.records();
        underway.reaches(begun + rng.below(40));
    }
    let killed = faults[rng.below(faults.len() as u64) as usize](&underway, rng);
    let attempt = underway.end_or_stop();
    for (end, own) in [(&attempt.sent, End::Sender), (&attempt.got, End::Receiver)] {
        // A receiver that waits for the next sender is stopped by the test.
        let is_stopped = own == End::Receiver && end.code == Some(130);
        if killed != Some(own) && !is_stopped {
            super::assert_ended(end, &attempt);
        }
    }
    storm.assert_whole_or_nothing(&attempt);
    attempt
}

fn rounds(storm: &Storm, faults: &[Fault]) {
    let seed = super::seed();
    let mut rng = Rng::new(seed);
    let (mut completed, rounds) = (0, number("LINECARD_ROUNDS").unwrap_or(5));
    for number in 0..rounds {
        let attempt = round(storm, faults, &mut rng);
        let codes = (attempt.sent.code, attempt.got.code);
        eprintln!("round {number} of seed {seed}: {codes:?}, {} chunks", storm.ends.records());
        if storm.ends.folder.path("to/from.bin").exists() {
            completed += 1;
            fs::remove_dir_all(storm.ends.folder.path("to")).unwrap();
        }
    }
    storm.assert_resumes();
    eprintln!("{completed} of {rounds} rounds of seed {seed} completed the file");
}

#[test]
fn any_fault_at_any_moment() {
    rounds(&Storm::new(), &LOCAL);
}

/// Promise (Transfer): When ends are killed or stopped, connections broken, packets dropped and links taken down at random
/// moments, only the whole file ever has its name, an end that was not killed says in a line why it failed, and the same
/// commands complete the transfer: five rounds between two hosts, or `LINECARD_ROUNDS`.
#[test]
fn any_fault_between_hosts_at_any_moment() {
    let test = "any fault between hosts at any moment";
    let Some(hosts) = Hosts::new(test) else { return };
    if hosts.can_break(test) && hosts.can_drop(test) {
        let storm = Storm::between(hosts, Protocol::Tcp);
        rounds(&storm, &[&LOCAL[..], &REMOTE].concat());
    }
}
