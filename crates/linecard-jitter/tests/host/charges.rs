//! Each nanosecond of each late packet, attributed separately, gives the same ledger.

use crate::made_up::{GENERATOR, Host, HostConfig, SINK};
use linecard::rng::Rng;
use linecard_jitter::ledger::{Cause, Ledger};
use linecard_jitter::trace::{Joined, Occupant, PacketTimes, Stage, Timeline};
use std::collections::BTreeMap;

const SEEDS: u64 = 300;

/// Promise (Jitter): Each nanosecond of each late packet is charged once, to its stage and
/// occupant: 300 generated hosts with over 1,000 spikes, examined nanosecond by nanosecond, without
/// a difference.
#[test]
fn charges_are_those_of_each_nanosecond() {
    let mut spikes = 0;
    let mut kinds = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let host = Host::new(&HostConfig::default(), &mut rng);
        let joined = Joined::of(&host.trace, &host.measured);
        assert_eq!(joined.counts.joined, host.measured.arrivals.len() as u64, "seed {seed}");
        let ledger = Ledger::of(&host.trace, &host.measured);
        let usual_ns = Stage::ALL.map(|stage| median(joined.durations_ns(stage).collect()));
        let mut all = BTreeMap::new();
        for spike in &ledger.spikes {
            let passage = &joined.passages[spike.sequence as usize];
            let slow = instant_by_instant(&host, passage, spike.expected_ns(), usual_ns);
            let mut fast = BTreeMap::new();
            for charge in &spike.charges {
                *fast.entry((charge.stage, charge.cause)).or_insert(0) += charge.ns;
                *all.entry(charge.cause).or_insert(0) += charge.ns;
                *kinds.entry(charge.cause.kind()).or_insert(0_u64) += 1;
            }
            assert_eq!(fast, slow, "seed {seed}, packet {}", spike.sequence);
            assert_eq!(fast.values().sum::<u64>(), spike.excess_ns, "seed {seed}");
        }
        let causes = ledger.causes.iter().map(|(cause, entry)| (*cause, entry.ns));
        assert_eq!(
            causes.filter(|(_, ns)| *ns > 0).collect::<BTreeMap<_, _>>(),
            all,
            "seed {seed}"
        );
        assert_eq!(all.values().sum::<u64>(), ledger.excess_ns, "seed {seed}");
        spikes += ledger.spikes.len();
    }
    // The test has seen what it is about.
    assert!(spikes > 1_000, "{spikes} spikes");
    for kind in ["interrupt", "vector", "timer", "softirq", "thread", "path", "no_kernel_event"] {
        assert!(kinds.get(kind).is_some_and(|n| *n > 50), "{kind}: {kinds:?}");
    }
}

/// The obvious slow way.
fn instant_by_instant(
    host: &Host,
    passage: &PacketTimes,
    from_ns: u64,
    usual_ns: [u64; 8],
) -> BTreeMap<(Stage, Cause), u64> {
    let mut sums = BTreeMap::new();
    let mut own = BTreeMap::new();
    for at_ns in from_ns..passage.arrived_ns {
        let is_in =
            |stage: &Stage| (passage.begin_ns(*stage)..passage.end_ns(*stage)).contains(&at_ns);
        let stage = Stage::ALL.into_iter().find(is_in).expect("every instant is in a stage");
        let core = usize::from(stage > Stage::Send);
        let mut cause = cause(stage, occupant(&host.truth[core], at_ns));
        if cause == Cause::Signal && passage.is_deferred {
            cause = Cause::Deferral;
        }
        if cause == Cause::Silent {
            // Time in the stage before the excess counts as own time.
            let before = from_ns.saturating_sub(passage.begin_ns(stage));
            let spent = own.entry(stage).or_insert(before);
            if *spent < usual_ns[stage as usize] {
                cause = Cause::Path;
            }
            *spent += 1;
        }
        *sums.entry((stage, cause)).or_insert(0) += 1;
    }
    sums
}

fn occupant(truth: &[(u64, Occupant)], at_ns: u64) -> Occupant {
    let last = truth.iter().rev().find(|(since_ns, _)| *since_ns <= at_ns);
    last.expect("the host is older than the stream").1
}

fn cause(stage: Stage, occupant: Occupant) -> Cause {
    let sender = stage <= Stage::Send;
    let reader = stage >= Stage::Wakeup;
    match occupant {
        Occupant::Interrupt(n) => Cause::Interrupt(n),
        Occupant::Vector(vector) => Cause::Vector(vector),
        Occupant::Timer(function) => Cause::Timer(function),
        Occupant::Softirq(n) => Cause::Softirq(n),
        Occupant::Thread(_) | Occupant::Idle(_) if stage == Stage::Notify => Cause::Signal,
        Occupant::Idle(state) => Cause::IdleExit(state),
        Occupant::Thread(thread) if sender && thread == GENERATOR.thread => Cause::Silent,
        Occupant::Thread(thread) if reader && thread == SINK.thread => Cause::Silent,
        Occupant::Thread(thread) => Cause::Thread(thread),
        Occupant::Throttled(_) | Occupant::Missing | Occupant::Unknown => {
            unreachable!("there are none")
        }
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Packets far enough apart are followed to the nanosecond.
#[test]
fn ways_are_found() {
    for seed in 0..SEEDS {
        let wish = HostConfig { late: 9, apart_ns: 12_000, ..HostConfig::default() };
        let host = Host::new(&wish, &mut Rng::new(seed));
        let joined = Joined::of(&host.trace, &host.measured);
        assert_eq!(joined.counts.disordered, 0);
        for (passage, way) in joined.passages.iter().zip(&host.ways) {
            for stage in
                [Stage::Generator, Stage::Send, Stage::Notify, Stage::Protocols, Stage::Wakeup]
            {
                assert_eq!(passage.begin_ns(stage), way[position(stage)], "seed {seed}, {stage:?}");
            }
        }
    }
}

/// The made-up way has no place of its own for the application, which begins where the wake-up does.
fn position(stage: Stage) -> usize {
    match stage {
        Stage::Generator => 0,
        Stage::Send => 1,
        Stage::Notify => 2,
        Stage::Softirq => 3,
        Stage::Batch => 4,
        Stage::Protocols => 5,
        Stage::Wakeup | Stage::Application => 6,
    }
}

/// Spans of a core are what it was drawn as, without gaps.
#[test]
fn timelines_have_no_gaps() {
    for seed in 0..SEEDS {
        let host = Host::new(&HostConfig::default(), &mut Rng::new(seed));
        let timeline = Timeline::of(&host.trace);
        assert_eq!(timeline.breaks(), 0, "seed {seed}");
        for core in [0, 1] {
            let spans = timeline.spans(core);
            assert!(spans.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "seed {seed}");
            let mut rng = Rng::new(seed);
            for _ in 0..50 {
                let from_ns = 1_000 + rng.below(200_000);
                let to_ns = from_ns + rng.below(5_000);
                let inside: Vec<_> = timeline.within(core, from_ns, to_ns).collect();
                let sum: u64 = inside.iter().map(|span| span.to_ns - span.from_ns).sum();
                assert_eq!(sum, to_ns - from_ns, "seed {seed}");
                for span in inside.iter().filter(|span| span.occupant != Occupant::Unknown) {
                    let truth = &host.truth[usize::from(core)];
                    assert_eq!(occupant(truth, span.from_ns), span.occupant, "seed {seed}");
                }
            }
        }
    }
}
