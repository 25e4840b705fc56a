//! Traces that no kernel makes: random events in any order, exits without entries, packets at any time
//! with any number. Figures of them mean nothing, but they add up and nothing panics.

use crate::made_up::{GENERATOR, SINK};
use linecard::rng::Rng;
use linecard_jitter::stream::{Arrival, Measured, Schedule};
use linecard_jitter::trace::{Event, EventKind, Joined, Names, Stage, Timeline, Trace, Vector};
use linecard_jitter::verdict::Analysis;

const SEEDS: u64 = 3_000;
/// Numbers of packets, and one more for those that were not sent.
const PACKETS: u64 = 12;

#[test]
fn charges_add_up_to_the_excess_whatever_was_traced() {
    let (mut spikes, mut followed) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        // Three scales: all at once, as on a host, and the whole clock.
        let span_ns = [40, 100_000, u64::MAX][(seed % 3) as usize];
        let measured = measured(span_ns, &mut rng);
        let trace = trace(span_ns, &mut rng);
        let analysis = Analysis::of(&measured, Some(&trace));
        let ledger = analysis.traced.expect("there is a trace").ledger;
        let joined = Joined::of(&trace, &measured);
        let mut whole = 0_u64;
        for spike in &ledger.spikes {
            let sum: u64 = spike.charges.iter().map(|charge| charge.ns).sum();
            assert_eq!(sum, spike.excess_ns, "seed {seed}, packet {}", spike.sequence);
            assert_eq!(spike.expected_ns() + spike.excess_ns, spike.arrived_ns, "seed {seed}");
            whole = whole.saturating_add(spike.excess_ns);
            followed += u64::from(spike.charges.iter().any(|charge| charge.stage > Stage::Send));
        }
        assert_eq!(whole, ledger.excess_ns, "seed {seed}");
        let causes = ledger.causes.values().map(|entry| entry.ns);
        assert_eq!(causes.fold(0, u64::saturating_add), whole, "seed {seed}");
        let stages = ledger.stages.values().map(|entry| entry.ns);
        assert_eq!(stages.fold(0, u64::saturating_add), whole, "seed {seed}");
        assert!(joined.counts.joined <= joined.counts.arrived, "seed {seed}");
        spikes += ledger.spikes.len();
    }
    // The test has seen what it is about.
    assert!(spikes > 1_000 && followed > 100, "{spikes} spikes, {followed} followed");
}

#[test]
fn any_times_of_a_core_are_covered() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let timeline = Timeline::of(&trace(1_000, &mut rng));
        for core in 0..3 {
            let spans = timeline.spans(core);
            assert!(spans.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "seed {seed}");
            let (from_ns, to_ns) = (rng.below(1_200), rng.below(1_200));
            let inside = timeline.within(core, from_ns, to_ns);
            let sum: u64 = inside.map(|span| span.to_ns - span.from_ns).sum();
            assert_eq!(sum, to_ns.saturating_sub(from_ns), "seed {seed}");
        }
    }
}

/// Empty inputs, and numbers and times as large as they can be.
#[test]
fn extremes_do_not_panic() {
    let huge = Schedule { start_ns: u64::MAX, period_ps: u64::MAX };
    let at = |sequence, at_ns| Arrival { sequence, at_ns };
    let arrivals = vec![at(0, 0), at(1, u64::MAX), at(2, 0), at(u64::MAX, u64::MAX), at(1, 1)];
    for schedule in [huge, Schedule { start_ns: 0, period_ps: 1 }] {
        for arrivals in [arrivals.clone(), Vec::new()] {
            for sent_ns in [vec![], vec![0, 0], vec![u64::MAX; 3]] {
                let measured = Measured {
                    schedule,
                    sent_ns,
                    arrivals: arrivals.clone(),
                    overflowed: u64::MAX,
                };
                let analysis = Analysis::of(&measured, Some(&Trace::default()));
                assert!(!analysis.gates.pass());
            }
        }
    }
}

/// A packet that is due at the end of all time is early, not late.
#[test]
fn lateness_keeps_its_sign() {
    let schedule = Schedule { start_ns: 0, period_ps: 1_000_000 };
    let at = |sequence, at_ns| Arrival { sequence, at_ns };
    let arrivals = vec![at(0, 5), at(1, 1_005), at(u64::MAX, 2_005)];
    let measured = Measured { schedule, sent_ns: vec![1, 1_001], arrivals, overflowed: 0 };
    let sink = Analysis::of(&measured, None).sink.expect("there are packets");
    let lateness = sink.lateness.expect("of each");
    assert_eq!((lateness.min_ns, lateness.max_ns), (2_005 - i64::MAX, 5));
}

fn time(span_ns: u64, rng: &mut Rng) -> u64 {
    match rng.below(20) {
        0 => 0,
        1 => span_ns,
        _ => rng.below(span_ns),
    }
}

fn number(rng: &mut Rng) -> u64 {
    if rng.below(30) == 0 { u64::MAX - rng.below(2) } else { rng.below(PACKETS + 1) }
}

fn measured(span_ns: u64, rng: &mut Rng) -> Measured {
    let period_ps = rng.below(span_ns / PACKETS).saturating_mul(1_000).max(1);
    let schedule = Schedule { start_ns: time(span_ns, rng) / 2, period_ps };
    let sent_ns = (0..rng.below(PACKETS + 1)).map(|_| time(span_ns, rng)).collect();
    let mut arrivals: Vec<_> = (0..rng.below(PACKETS * 2))
        .map(|_| Arrival { sequence: number(rng), at_ns: time(span_ns, rng) })
        .collect();
    if rng.below(2) == 0 {
        arrivals.sort_by_key(|arrival| arrival.sequence);
    }
    Measured { schedule, sent_ns, arrivals, overflowed: rng.below(3) }
}

/// Cores 0 and 1 are traced, twice perhaps, and core 2 has events as well.
fn trace(span_ns: u64, rng: &mut Rng) -> Trace {
    let mut events: Vec<_> = (0..rng.below(250))
        .map(|_| {
            let core = rng.below(3) as u16;
            Event { at_ns: time(span_ns, rng), core, what: what(rng) }
        })
        .collect();
    if rng.below(4) > 0 {
        events.sort_by_key(|event| event.at_ns);
    }
    let cores = [vec![0, 1], vec![1, 0, 1], vec![], vec![9]]
        [(rng.below(8) as usize).saturating_sub(4)]
    .clone();
    let seat = |seat, rng: &mut Rng| (rng.below(4) > 0).then_some(seat);
    let (sink, generator) = (seat(SINK, rng), seat(GENERATOR, rng));
    let (lost, is_sender_remote) = (rng.below(2), rng.chance(0.5));
    Trace { events, lost, cores, names: Names::default(), sink, generator, is_sender_remote }
}

fn what(rng: &mut Rng) -> EventKind {
    let thread = |rng: &mut Rng| [0, GENERATOR.thread, SINK.thread, 300][rng.below(4) as usize];
    match rng.below(26) {
        0..4 => EventKind::Transmit { sequence: number(rng) },
        4..8 => EventKind::Receive { sequence: number(rng) },
        8..12 => EventKind::Ready { socket: 0 },
        12 => EventKind::Refused,
        13 => EventKind::Raise,
        14 => EventKind::Poll { work: rng.below(9) as u32 },
        15 => EventKind::InterruptEntry { number: rng.below(3) as u32 },
        16 => EventKind::InterruptExit,
        17 => EventKind::VectorEntry { vector: Vector::ALL[rng.below(4) as usize] },
        18 => EventKind::VectorExit,
        19 => EventKind::SoftirqEntry { number: rng.below(256) as u8 },
        20 => EventKind::SoftirqExit,
        21 => EventKind::TimerEntry { function: rng.below(3) },
        22 => EventKind::TimerExit,
        23 => EventKind::Sleep { state: rng.below(3) as u32 },
        24 => EventKind::Awake,
        _ => EventKind::Switch {
            from: thread(rng),
            is_displaced: rng.below(2) == 0,
            to: thread(rng),
            name: [0; 8],
        },
    }
}
