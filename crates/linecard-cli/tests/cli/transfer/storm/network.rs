//! Connections that break, packets that are lost, links that go down.

use super::super::ends::beside_pauses;
use super::hosts::{Hosts, Protocol};
use super::{LASTING, SLOW, STEADY, Storm, Underway};
use crate::folder::one_line;

/// Ends both ends with 14 and the same line.
const CUT: &str = "was cut";
const SILENT: &str = " for 2s";

/// A fault, and how it must end.
struct Row {
    name: &'static str,
    protocol: Protocol,
    fault: fn(&Underway<'_>, &Hosts),
    /// The line of both ends that fail with 14; none if the transfer completes.
    fails: Option<&'static str>,
}

/// Each row has hosts of its own; all run at once, as they mostly wait.
fn run(test: &str, rows: &[Row], can: fn(&Hosts, &str) -> bool) {
    std::thread::scope(|scope| {
        for row in rows {
            scope.spawn(move || {
                let test = format!("{test}: {}", row.name);
                let Some(hosts) = Hosts::new(&test) else { return };
                if can(&hosts, &test) {
                    row.run(hosts);
                }
            });
        }
    });
}

impl Row {
    fn run(&self, hosts: Hosts) {
        let mut storm = Storm::between(hosts, self.protocol);
        let pace = if self.fails.is_some() { SLOW } else { STEADY };
        if self.fails.is_some() {
            storm = storm.patience("2");
        }
        let hosts = storm.hosts.as_ref().unwrap();
        let underway = storm.start(&pace);
        (self.fault)(&underway, hosts);
        if self.fails.is_none() {
            underway.assert_goes_on();
        }
        let attempt = underway.end();
        // As an administrator does before the same commands are given again.
        hosts.mend();
        let Some(line) = self.fails else {
            assert!(attempt.is_complete(), "{}: {attempt:?}", self.name);
            return storm.assert_holds(&attempt);
        };
        assert!(!attempt.is_complete(), "{}: {attempt:?}", self.name);
        storm.assert_failed(&attempt, (14, 14), (line, line));
    }
}

#[test]
fn connections_break() {
    let rows = [
        Row {
            name: "lanes, one after the other, three times",
            protocol: Protocol::Tcp,
            fault: |underway, hosts| {
                for port in [7001, 7002, 7001] {
                    // The lane may still be coming back.
                    underway.until("a connection to be broken", || {
                        hosts.break_connections(&[port]) > 0
                    });
                    underway.assert_goes_on();
                }
            },
            fails: None,
        },
        Row {
            name: "both lanes at once",
            protocol: Protocol::Tcp,
            fault: |_, hosts| assert!(hosts.break_connections(&[7001, 7002]) > 0),
            fails: None,
        },
        Row {
            name: "the control connection",
            protocol: Protocol::Udp,
            fault: |_, hosts| assert_eq!(hosts.break_connections(&[4780]), 1),
            fails: Some(CUT),
        },
        Row {
            name: "all of them",
            protocol: Protocol::Tcp,
            fault: |_, hosts| assert!(hosts.break_connections(&[7001, 7002, 4780]) > 1),
            fails: Some(CUT),
        },
    ];
    run("connections that the kernel breaks", &rows, Hosts::can_break);
}

#[test]
fn packets_are_dropped() {
    let rows = [
        Row {
            name: "all of them for a while",
            protocol: Protocol::Udp,
            fault: |_, hosts| assert!(hosts.drop_for_a_while("") > 0),
            fails: None,
        },
        Row {
            name: "all of them for a while, with lanes over TCP",
            protocol: Protocol::Tcp,
            fault: |_, hosts| assert!(hosts.drop_for_a_while("") > 0),
            fails: None,
        },
        Row {
            name: "one in ten",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.drop_packets("numgen random mod 10 == 0"),
            fails: None,
        },
        Row {
            name: "those of one lane without end",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.drop_packets("udp dport 7001"),
            fails: None,
        },
        Row {
            name: "those to the control connection without end",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.drop_packets("tcp dport 4780"),
            fails: None,
        },
        Row {
            name: "those from the control connection without end",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.drop_packets("tcp sport 4780"),
            fails: None,
        },
        Row {
            name: "all of them without end",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.drop_packets(""),
            fails: Some(SILENT),
        },
        Row {
            name: "all of them without end, with lanes over TCP",
            protocol: Protocol::Tcp,
            fault: |_, hosts| hosts.drop_packets(""),
            fails: Some(SILENT),
        },
    ];
    run("packets that are dropped", &rows, Hosts::can_drop);
}

#[test]
fn links_go_down() {
    let rows = [
        Row {
            name: "one of two, that of the control connection, without end",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.set(&["link1"], "down"),
            fails: None,
        },
        Row {
            name: "the other, without end",
            protocol: Protocol::Tcp,
            fault: |_, hosts| hosts.set(&["link2"], "down"),
            fails: None,
        },
        Row {
            name: "both for a while",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.interrupt(&["link1", "link2"]),
            fails: None,
        },
        Row {
            name: "both for a while, with lanes over TCP",
            protocol: Protocol::Tcp,
            fault: |_, hosts| hosts.interrupt(&["link1", "link2"]),
            fails: None,
        },
        Row {
            name: "both for longer than the patience",
            protocol: Protocol::Udp,
            fault: |_, hosts| hosts.set(&["link1", "link2"], "down"),
            fails: Some(SILENT),
        },
    ];
    run("links that go down", &rows, |_, _| true);
}

/// An end that is stopped when the link of the control connection is down tells the other one over a lane.
#[test]
fn the_reason_of_an_end_comes_over_lanes() {
    for (is_receiver, codes) in [(false, (130, 16)), (true, (16, 130))] {
        let Some(hosts) = Hosts::new("the reason of an end comes over lanes") else { return };
        let storm = Storm::between(hosts, Protocol::Udp);
        let underway = storm.start(&LASTING);
        storm.hosts.as_ref().unwrap().set(&["link1"], "down");
        underway.assert_goes_on();
        underway.signal(is_receiver, "INT");
        let attempt = underway.end();
        storm.hosts.as_ref().unwrap().mend();
        let (sent, got) = (&attempt.sent, &attempt.got);
        assert_eq!((sent.code, got.code), (Some(codes.0), Some(codes.1)), "{attempt:?}");
        for end in [sent, got] {
            one_line(&beside_pauses(&end.stderr), &["stopped"]);
        }
        storm.assert_whole_or_nothing(&attempt);
        storm.assert_resumes();
    }
}

/// The kernel gives the control connection up after some 14 seconds without a route; the other lane is enough.
#[test]
fn the_control_connection_is_given_up() {
    let Some(hosts) = Hosts::new("the control connection is given up") else { return };
    let storm = Storm::between(hosts, Protocol::Udp);
    let underway = storm.start(&LASTING);
    storm.hosts.as_ref().unwrap().set(&["link1"], "down");
    let attempt = underway.end();
    assert!(attempt.is_complete(), "{attempt:?}");
    storm.assert_holds(&attempt);
}
