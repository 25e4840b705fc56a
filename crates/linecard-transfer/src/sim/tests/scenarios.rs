//! Behaviour of lanes that are slow, or fail: figures that the design promises.

use super::super::*;

const CHUNK: u32 = 16 << 20;

/// Eight lanes of 200 Mbit/s, 1,408 bytes of data in 1,490 on the line.
fn lanes_of(rates_bits_per_second: &[u64], mode: Mode, fec: &str) -> Settings {
    let lane = |&rate_bits_per_second: &u64| {
        let settings = LaneSettings { rate_bits_per_second, ..LaneSettings::default() };
        let link = LinkSettings {
            rate_bits_per_second,
            framing_bytes: 42,
            delay_ns: 50_000,
            queue_bytes: Some(200_000),
            ..LinkSettings::default()
        };
        (settings, link)
    };
    Settings {
        lanes: rates_bits_per_second.iter().map(lane).collect(),
        send: SendSettings { mode, fec: fec.parse().unwrap(), ..SendSettings::default() },
        chunks: 24,
        chunk_bytes: CHUNK,
        last_bytes: CHUNK,
        ..Settings::default()
    }
}

/// The time that a chunk takes when every lane carries all that it can, in ns.
fn ideal_ns(rates_bits_per_second: &[u64], fec_share: f64) -> f64 {
    let packets = f64::from(CHUNK.div_ceil(1_408)) * (1.0 + fec_share);
    let sum: u64 = rates_bits_per_second.iter().sum();
    packets * 1_490.0 * 8e9 / sum as f64
}

fn ratio(rates_bits_per_second: &[u64]) -> f64 {
    let out = run(&lanes_of(rates_bits_per_second, Mode::LowLatency, "none")).unwrap();
    out.median_latency_ns() as f64 / ideal_ns(rates_bits_per_second, 0.0)
}

/// Promise (Transfer): A chunk over 8 equal lanes takes at most 2 % longer than they need together,
/// in virtual time.
#[test]
fn equal_lanes_share_a_chunk_within_two_percent() {
    let ratio = ratio(&[200_000_000; 8]);
    assert!((1.0..1.02).contains(&ratio), "{ratio}");
}

/// Promise (Transfer): With one of 8 lanes at a quarter of the rate, a chunk takes at most 5 %
/// longer than the lanes need together, in virtual time.
#[test]
fn a_slow_lane_takes_its_share_within_five_percent() {
    let mut rates = [200_000_000; 8];
    rates[3] = 50_000_000;
    let ratio = ratio(&rates);
    assert!((1.0..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn stable_throughput_is_what_the_lines_carry() {
    let rates = [200_000_000; 8];
    let out = run(&lanes_of(&rates, Mode::Stable, "none")).unwrap();
    let bound = 8.0 * 200e6 * 1_408.0 / 1_490.0;
    let share = out.goodput_bits_per_second() / bound;
    assert!((0.98..=1.0).contains(&share), "{share}");
}

/// Promise (Transfer): Round trips longer than chunks cost a transfer only one of them at each end:
/// at least 95 % of what framing leaves, in all three modes, over 8 lanes of 1 Gbit/s with 40 ms
/// round trip and chunks of 2 MiB.
///
/// Round trips of 40 ms, three times what a chunk takes on a lane, and twenty times what it takes on all.
#[test]
fn round_trips_longer_than_chunks_are_hidden() {
    for mode in [Mode::Stable, Mode::LowLatency, Mode::Auto] {
        let mut settings = lanes_of(&[1_000_000_000; 8], mode, "none");
        for (lane, link) in &mut settings.lanes {
            link.delay_ns = 20_000_000;
            link.queue_bytes = Some(1_000_000);
            lane.quantum_ns = 0;
        }
        settings.chunks = 400;
        (settings.chunk_bytes, settings.last_bytes) = (2 << 20, 2 << 20);
        settings.window = 64;
        let out = run(&settings).unwrap();
        // Of the time, two round trips are before and behind the data.
        let seconds = out.end.as_ns() as f64 / 1e9 - 0.08;
        let share = out.bytes as f64 * 8.0 / seconds / (8.0 * 1e9 * 1_408.0 / 1_490.0);
        assert!((0.95..=1.0).contains(&share), "{mode:?}: {share}");
    }
}

/// Lane 2 dies in the middle of chunk 5 or so.
fn with_a_death(fec: &str, from_ms: u64, for_ms: u64) -> Settings {
    let mut settings = lanes_of(&[200_000_000; 8], Mode::LowLatency, fec);
    let from = Instant::from_ns(from_ms * 1_000_000);
    settings.lanes[2].1.dead = from..from.plus_ns(for_ms * 1_000_000);
    settings
}

/// Promise (Transfer): With `rs:28,4` over 8 lanes, a failing lane costs no retransmission and at
/// most 1.15 times the latency.
#[test]
fn with_repair_for_a_lane_nothing_is_sent_again_when_one_dies() {
    let quiet = run(&lanes_of(&[200_000_000; 8], Mode::LowLatency, "rs:28,4")).unwrap();
    let ideal = ideal_ns(&[200_000_000; 8], 4.0 / 28.0);
    for from_ms in [500, 517, 531, 560] {
        let out = run(&with_a_death("rs:28,4", from_ms, 1 << 40)).unwrap();
        assert_eq!(out.send.resent, 0, "from {from_ms} ms");
        assert_eq!(out.lanes[2].deaths, 1);
        // The chunk in which it died; later ones have seven lanes.
        let died =
            out.latencies_ns.iter().position(|&ns| ns > quiet.median_latency_ns() * 102 / 100);
        let slower = out.latencies_ns[died.unwrap()] as f64 / ideal;
        assert!(slower < 1.15, "from {from_ms} ms: {slower}");
    }
}

/// Promise (Transfer): Without repair, the stall of a failing lane ends within 2 (RTT + timeout).
#[test]
fn without_repair_a_death_stops_nothing_for_longer_than_it_takes_to_notice() {
    for from_ms in [500, 523, 551] {
        let out = run(&with_a_death("none", from_ms, 1 << 40)).unwrap();
        let (rtt_ns, timeout_ns) = (2_000_000, 17_000_000);
        assert!(out.longest_stall_ns < 2 * (rtt_ns + timeout_ns), "{}", out.longest_stall_ns);
        assert!(out.send.resent + out.send.duplicates > 0);
    }
}

/// Promise (Transfer): A lane that returns is used again within a second.
#[test]
fn a_lane_that_comes_back_is_used_again_within_a_second() {
    let settings = with_a_death("none", 300, 400);
    let out = run(&settings).unwrap();
    assert_eq!((out.lanes[2].deaths, out.lanes[2].rejoins), (1, 1));
    // Dead for 0.4 of 2.3 s, and back less than a second later: it carried its part of the rest.
    let share = out.lanes[2].packets as f64 / out.lanes[0].packets as f64;
    assert!(share > 0.6, "{share}");
}

#[test]
fn when_all_lanes_are_dead_it_says_so() {
    let mut settings = lanes_of(&[200_000_000; 2], Mode::Auto, "none");
    for lane in &mut settings.lanes {
        lane.1.dead = Instant::from_ns(2_000_000_000)..Instant::NEVER;
    }
    let error = run(&settings).unwrap_err();
    assert!(matches!(error, RunError::Stalled { done: 1..=6, chunks: 24, .. }), "{error:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut settings = lanes_of(&[200_000_000; 3], Mode::Auto, "rs:10,2");
    settings.chunk_bytes = 1 << 20;
    settings.last_bytes = 1 << 20;
    settings.lanes[1].1.faults =
        Faults { loss: 0.02, duplicate: 0.01, reorder: 0.05, overtake: 0.01, corrupt: 0.01 };
    assert_eq!(run(&settings), run(&settings));
    let other = Settings { seed: 2, ..settings.clone() };
    assert_ne!(run(&settings), run(&other));
}

/// Lanes of unknown rate find it out; without other flows, most of it is used.
#[test]
fn unknown_lanes_find_their_rate() {
    let mut settings = lanes_of(&[200_000_000; 4], Mode::Stable, "none");
    settings.lanes.iter_mut().for_each(|lane| lane.0.rate_bits_per_second = 0);
    let out = run(&settings).unwrap();
    let share = out.goodput_bits_per_second() / (4.0 * 200e6 * 1_408.0 / 1_490.0);
    assert!(share > 0.9, "{share}");
    let lost: u64 = out.links.iter().map(|link| link.dropped).sum();
    let sent: u64 = out.lanes.iter().map(|lane| lane.packets).sum();
    assert!((lost as f64) < 0.02 * sent as f64, "{lost} of {sent}");
}
