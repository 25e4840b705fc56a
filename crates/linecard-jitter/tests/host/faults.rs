//! Faults of a measurement, one at a time: each is found, and no verdict is given.

use crate::made_up::{Host, HostConfig};
use linecard::rng::Rng;
use linecard_jitter::trace::{Event, EventKind, NET_RX, PinnedThread};
use linecard_jitter::verdict::Analysis;

const SEEDS: u64 = 100;

type Fault = fn(&mut Host, &mut Rng);

/// Faults, and the gates that may report them.
const FAULTS: [(&str, &[&str], Fault); 11] = [
    ("the tracer says that it lost records", &["records"], |host, rng| {
        host.trace.lost = 1 + rng.below(1_000);
    }),
    ("records are lost and nobody says so", &["counts", "joined"], |host, rng| {
        let wanted = rng.below(host.ways.len() as u64);
        host.trace.events.retain(|event| event.what != EventKind::Receive { sequence: wanted });
    }),
    ("a packet came up and into no socket", &["counts"], |host, _| {
        // One that was received after the stream hides that its place in the counts is another's.
        let event = |what| Event { at_ns: 5_000, core: 1, what };
        let stray =
            [EventKind::SoftirqEntry { number: NET_RX }, EventKind::Receive { sequence: u64::MAX }];
        let stray = stray.into_iter().chain([EventKind::SoftirqExit]).map(event);
        host.trace.events.splice(0..0, stray);
        host.trace.events.retain(|event| event.what != EventKind::Receive { sequence: 7 });
    }),
    ("packets are missing from the start of the trace", &["joined", "counts"], |host, rng| {
        let lost = 1 + rng.below(10);
        host.trace.events.retain(|event| {
            !matches!(event.what, EventKind::Transmit { sequence } | EventKind::Receive { sequence } if sequence < lost)
        });
    }),
    ("the clock of the trace is ahead", &["order"], |host, rng| {
        let ahead_ns = 5_000 + rng.below(1_000_000);
        host.trace.events.iter_mut().for_each(|event| event.at_ns += ahead_ns);
    }),
    ("the clock of the trace is behind", &["order"], |host, rng| {
        let behind_ns = 5_000 + rng.below(1_000_000);
        for event in &mut host.trace.events {
            event.at_ns = (event.at_ns + 2_000_000) - behind_ns;
        }
        host.measured.schedule.start_ns += 2_000_000;
        host.measured.sent_ns.iter_mut().for_each(|at_ns| *at_ns += 2_000_000);
        host.measured.arrivals.iter_mut().for_each(|arrival| arrival.at_ns += 2_000_000);
    }),
    ("the receiver's clock is behind", &["clock"], |host, rng| {
        let behind_ns = 9_000 + rng.below(1_000);
        host.measured.arrivals.iter_mut().for_each(|arrival| arrival.at_ns -= behind_ns);
    }),
    ("packets never came", &["complete"], |host, rng| {
        let lost = rng.below(host.measured.arrivals.len() as u64);
        host.measured.arrivals.remove(lost as usize);
    }),
    ("a packet came that the kernel refused to send", &["known"], |host, rng| {
        let refused = rng.below(host.measured.sent_ns.len() as u64);
        host.measured.sent_ns[refused as usize] = 0;
    }),
    ("threads have other numbers for the kernel", &["seats"], |host, rng| {
        host.trace.sink = host
            .trace
            .sink
            .map(|seat| PinnedThread { thread: 9_000 + rng.below(99) as u32, ..seat });
    }),
    ("packets arrived that were not sent", &["known"], |host, rng| {
        let last = host.measured.arrivals.len() - 1;
        host.measured.arrivals[last].sequence += 1_000 + rng.below(1_000);
    }),
];

/// Promise (Jitter): A faulty measurement gets no verdict: 11 kinds of faults with 100 seeds each
/// are all found by their gate.
#[test]
fn every_fault_is_found() {
    for (what, gates, fault) in FAULTS {
        for seed in 0..SEEDS {
            let mut rng = Rng::new(seed);
            let mut host = Host::new(&HostConfig::default(), &mut rng);
            fault(&mut host, &mut rng);
            let analysis = Analysis::of(&host.measured, Some(&host.trace));
            let failed: Vec<_> =
                analysis.gates.0.iter().filter(|gate| !gate.passes).map(|gate| gate.name).collect();
            assert!(!failed.is_empty(), "{what}: seed {seed}: nothing was found");
            assert!(
                failed.iter().any(|name| gates.contains(name)),
                "{what}: seed {seed}: found by {failed:?}"
            );
        }
    }
}

/// Promise (Jitter): Measurements without a fault get a verdict, with 100 seeds.
#[test]
fn without_a_fault_there_is_a_verdict() {
    for seed in 0..SEEDS {
        let host = Host::new(&HostConfig::default(), &mut Rng::new(seed));
        let analysis = Analysis::of(&host.measured, Some(&host.trace));
        assert!(analysis.gates.pass(), "seed {seed}: {:?}", analysis.gates.reasons());
    }
}
