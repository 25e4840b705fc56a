//! Resequencing against an obvious slow twin, on random traffic that is badly reordered.
//!
//! `LINECARD_SEED` replays one seed, `LINECARD_LONG` looks twenty times longer.

use core::time::Duration;
use linecard::offload::resequence::{Config, Release};
use linecard::rng::Rng;
use linecard::time::{Instant, ns};
use linecard_testkit::packets::sequencing::{by_flow, check, run};
use linecard_testkit::packets::traffic::{Arrival, scenario};
use linecard_testkit::packets::{between, for_seeds, is_whole, pick};
use std::collections::BTreeSet;

/// Packets of one scenario.
const PACKETS: usize = 1_000;

/// Promise (Offloads): Resequencing forwards exactly what a naive one forwards, unchanged and
/// without loss: 1,010,082 packets displaced by up to 60 places, damaged and duplicated, 104,201 of
/// them held.
#[test]
fn gives_on_what_the_twin_does() {
    let (mut packets, mut filled, mut released) = (0, 0, 0);
    for_seeds(&[], 1, 1_000, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, arrivals, punctual) = draw(rng);
        let (run, twin) = run(&config, &arrivals, punctual);
        let real = run.numbers();
        for (key, numbers) in by_flow(&real, &arrivals) {
            let expected = by_flow(&twin.out, &arrivals).remove(&key).unwrap_or_default();
            assert_eq!(numbers, expected);
        }
        let gone: BTreeSet<usize> = real.iter().map(|(number, _)| *number).collect();
        let dropped = (0..arrivals.len()).filter(|number| !gone.contains(number));
        let expected: BTreeSet<usize> = twin.dropped.iter().copied().collect();
        assert_eq!(dropped.collect::<BTreeSet<usize>>(), expected);
        check(&run, &arrivals, &config);
        let counters = run.resequencer.counters();
        if punctual {
            assert!(counters.hold_ns.max() <= ns(config.hold_budget));
        }
        packets += arrivals.len();
        filled += counters.released.of(Release::Filled);
        released += counters.released.total();
    });
    println!("{packets} packets compared; {released} were held, {filled} until a gap was filled");
    assert!(filled > released / 10 && released > 100 || !is_whole(), "{filled} of {released}");
}

fn draw(rng: &mut Rng) -> (Config, Vec<Arrival>, bool) {
    let mut scenario = scenario(rng, PACKETS);
    let by = pick(rng, &[0, 1, 3, 3, 10, 60]);
    displace(rng, &mut scenario.arrivals, by);
    let mut config = Config {
        checksum: scenario.config.checksum,
        secret: rng.next_u64(),
        drop_duplicates: rng.chance(0.3),
        max_flows: 1_024,
        ..Config::default()
    };
    if rng.chance(0.5) {
        let us = pick(rng, &[0, 5, 100, 1_000, 30_000]);
        config.hold_budget = Duration::from_micros(us);
    }
    if rng.chance(0.3) {
        config.gap_floor = Duration::from_micros(pick(rng, &[0, 1, 10_000]));
    }
    if rng.chance(0.4) {
        config.max_flow_packets = pick(rng, &[0, 1, 2, 5, 17]);
    }
    if rng.chance(0.4) {
        config.max_flow_bytes = pick(rng, &[0, 100, 700, 3_000, 20_000]);
    }
    if rng.chance(0.4) {
        config.max_held_packets = pick(rng, &[0, 1, 2, 9, 30]);
    }
    if rng.chance(0.3) {
        config.max_held_bytes = pick(rng, &[0, 500, 2_000, 9_000]);
    }
    (config, scenario.arrivals, scenario.punctual)
}

/// Moves packets by at most `by` places; the times of arrival stay.
fn displace(rng: &mut Rng, arrivals: &mut Vec<Arrival>, by: u64) {
    let times: Vec<Instant> = arrivals.iter().map(|arrival| arrival.now).collect();
    let mut order: Vec<(u64, Arrival)> = arrivals
        .drain(..)
        .zip(0..)
        .map(|(arrival, at)| (at + between(rng, 0, by), arrival))
        .collect();
    order.sort_by_key(|(key, _)| *key);
    let moved = order.into_iter().zip(times);
    arrivals.extend(moved.map(|((_, arrival), now)| Arrival { now, ..arrival }));
}
