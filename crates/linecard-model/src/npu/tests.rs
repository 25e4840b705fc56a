//! The facts of Li, Chen, Su, and invariants of every configuration.

use super::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use linecard::rng::Rng;
use linecard_config::{Duration, Maybe, Rate, Switch};
use std::println;

const MS: u64 = 1_000_000;

/// Rate of 13 threads that take 32.0 µs for 1,460 bytes each.
const PLATEAU: f64 = 13.0 * 1_460.0 * 8.0 / 32.0e-6;

/// The unit of which each packet takes a thread 32.0 µs.
fn constant(npu: &Npu) -> Npu {
    Npu { packet_ns: Maybe::from(32_000), ..npu.clone() }
}

/// Runs it; nothing may be uncounted.
fn ran(config: &Config) -> NpuResults {
    let outcome = run(config).expect("a config");
    assert!(outcome.is_conserved(), "{config:?}: {outcome:#?}");
    outcome
}

/// A run measured from one millisecond to another.
fn span(seed: u64, from_ms: u64, to_ms: u64) -> Run {
    Run { seed, warm_up: Duration::from_ms(from_ms), duration: Duration::from_ms(to_ms) }
}

/// Figure 13 with this many connections, measured for 20 ms once windows are full.
fn figure_13(connections: u32, seed: u64, npu: Npu) -> Config {
    let warm_up_ms = if npu.merge.0 { 8 } else { 30 };
    Config {
        run: span(seed, warm_up_ms, warm_up_ms + 20),
        npu,
        client: Client { connections, ..Client::default() },
        ..Config::default()
    }
}

/// Mean and the standard error of it.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// Promise (Hardware model): With 32.0 µs for a packet, the modelled network processor has the published plateau of
/// 4.75 Gbit/s and the throughput of the formula below it, with the live coalescer.
///
/// "Finally stabilizes around 4.75 Gbps", and before that as many threads work as have a connection.
#[test]
fn throughput_follows_the_threads_that_have_a_connection() {
    for (connections, seeds) in [(1, 5), (4, 20), (13, 20), (64, 5)] {
        let share = |seed| {
            let outcome = ran(&figure_13(connections, seed, constant(&Npu::default())));
            let of_threads = outcome.bits_per_second / (PLATEAU / 13.0);
            let used = outcome.threads_used as f64;
            assert!((of_threads / used - 1.0).abs() < 0.01, "{connections}, {seed}: {of_threads}");
            assert_eq!((outcome.client.timeouts, outcome.dropped.total().packets), (0, 0));
            outcome.bits_per_second / PLATEAU
        };
        let (mean, error) = mean(&(0..seeds).map(share).collect::<Vec<_>>());
        let expected = expected_share(13, connections);
        println!("{connections}: {mean:.3} ± {error:.3} of the plateau, expected {expected:.3}");
        assert!((mean - expected).abs() < 3.0 * error + 0.01 * expected);
        let plateau = mean * PLATEAU / 4.75e9;
        assert!(connections < 64 || (plateau - 1.0).abs() < 0.02, "{plateau}");
    }
}

/// Threads of one core with a connection each and more, on a link and engines that do not limit.
fn one_core(threads: u16, change: fn(&mut Config)) -> NpuResults {
    let npu = Npu { cores: 1, threads_per_core: threads + OTHER_THREADS, ..Npu::default() };
    let mut config = figure_13(8 * u32::from(threads), 1, npu);
    config.dma.rate = Rate::tera(1);
    change(&mut config);
    ran(&config)
}

/// Promise (Hardware model): Threads of a modelled network processor's core hide the latency of memory until its pipeline
/// is full, and no longer.
#[test]
fn threads_hide_latency_until_the_pipeline_is_full() {
    let rates = [1, 2, 4, 8].map(|threads| one_core(threads, |_| {}));
    let rate = |place: usize| rates[place].bits_per_second;
    let busy =
        |place: usize| rates[place].issuing.as_secs_f64() / rates[place].duration.as_secs_f64();
    for place in 0..4 {
        println!(
            "{} threads: {:.2} Gbit/s, pipeline {:.2}",
            1 << place,
            rate(place) / 1e9,
            busy(place)
        );
    }
    assert!(rate(1) > 1.8 * rate(0), "a second thread runs while the first waits");
    assert!(busy(0) < 0.4 && busy(3) > 0.95, "{} {}", busy(0), busy(3));
    assert!(rate(3) < 1.2 * rate(2) && rate(3) < 5.0 * rate(0), "the pipeline is full");
    // Without latency one thread fills the pipeline; without a pipeline, eight are eight times as fast as one.
    let fast = |config: &mut Config| {
        (config.core.latency_ns, config.core.memory_rate) = (0, Rate::tera(1));
        config.npu.message_ns = 0;
    };
    let ratio = one_core(8, fast).bits_per_second / one_core(1, fast).bits_per_second;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    let free = |threads| one_core(threads, |config| config.npu = constant(&config.npu));
    let ratio = free(8).bits_per_second / free(1).bits_per_second;
    assert!((ratio / 8.0 - 1.0).abs() < 0.02, "{ratio}");
}

/// A narrow memory is full before the pipelines are.
#[test]
fn memory_has_a_bandwidth() {
    let narrow = |config: &mut Config| config.core.memory_rate = Rate::giga(2);
    let outcome = one_core(8, narrow);
    let moved = outcome.moving.as_secs_f64() / outcome.duration.as_secs_f64();
    assert!(moved > 0.9 && outcome.bits_per_second < 2e9, "{moved}, {}", outcome.bits_per_second);
    assert!(outcome.bits_per_second < 0.7 * one_core(8, |_| {}).bits_per_second);
}

/// "TCP data receiving throughput is irrelevant to the number of TCP connections": the host has an
/// interrupt and its stack for each packet. Hashed, one connection would have one thread.
#[test]
fn without_merging_connections_do_not_matter() {
    let rate = |connections, npu| ran(&figure_13(connections, 1, npu)).bits_per_second;
    let host = Host::default();
    let copy_ns = 1_460 * 8 / 40;
    let expected = 1_460.0 * 8e9 / (host.interrupt_ns + host.packet_ns + copy_ns) as f64;
    for connections in [1, 3, 16, 64] {
        let rate = rate(connections, Npu::normal());
        println!("{connections} connections, not merged: {:.0} Mbit/s", rate / 1e6);
        assert!((rate / expected - 1.0).abs() < 0.02, "{connections}: {rate}, {expected}");
    }
    // Hashed, one connection has one thread: enough, unless a packet takes it long.
    let hashed = Npu { dispatch: Dispatch::Hash, ..Npu::normal() };
    let slow = constant(&hashed);
    assert!((rate(1, hashed) / expected - 1.0).abs() < 0.02);
    assert!(rate(1, slow.clone()) < 0.2 * rate(64, slow));
}

/// Three connections whose packets overload the DMA engine, `load_percent` of it if they have a
/// thread each, and 64 that are tried later, two SYNs each.
fn starvation(discipline: Discipline, load_percent: u64, seed: u64) -> Config {
    let client = Client {
        connections: 3,
        idle_connections: 64,
        stagger_ns: 2 * MS,
        head_start_ns: 100 * MS,
        segment: 536,
        syn_rto_ns: 100 * MS,
        syn_tries: 2,
        ..Client::default()
    };
    // Each packet is a request: merged ones come in bursts, between which a SYN is on top.
    let npu = constant(&Npu { merge: Switch::OFF, ring: 16_384, ..Npu::default() });
    let request_ns = 32_000 * load_percent / 100 / 3;
    let dma = Dma { request_ns, rate: Rate::tera(1), discipline, ..Dma::default() };
    Config { run: span(seed, 0, 500), npu, dma, client, ..Config::default() }
}

#[test]
fn a_stack_starves_connections_that_come_later() {
    let asked = |discipline, load, merge| {
        let (mut made, mut syns, mut served, mut offered) = (0, 0, 0, 0.0);
        for seed in 0..3 {
            let mut config = starvation(discipline, load, seed);
            config.npu.merge = Switch(merge);
            let outcome = ran(&config);
            made += outcome.client.idle_established;
            (syns, served) = (syns + outcome.dma.syns, served + outcome.dma.syns_served);
            offered += outcome.dma_load() / 3.0;
        }
        let share = served as f64 / syns as f64;
        println!(
            "{discipline:?}, load {offered:.2}: {made} of 192 made, {share:.2} of SYNs served"
        );
        (made, share)
    };
    let seen = |discipline, load| asked(discipline, load, false);
    for load in [150, 200, 400] {
        let all = [Discipline::Stack, Discipline::Fifo, Discipline::RoundRobin];
        let [stack, fifo, turns] = all.map(|discipline| seen(discipline, load));
        assert!(stack.0 < turns.0 && stack.1 < turns.1, "{load}: {stack:?}, {turns:?}");
        assert!(fifo.0 <= turns.0, "{load}: {fifo:?}, {turns:?}");
        // A queue that has grown for long does not help: at 400 % what it serves is too late.
        assert!(load > 200 || stack.0 < fifo.0, "{load}: {stack:?}, {fifo:?}");
    }
    // Merged packets ask for 44 transfers or more at once, and then for a long time for none: a SYN
    // that comes between is on top, and the stack does no harm.
    assert!(asked(Discipline::Stack, 400, true).1 > 0.9);
    // Ten of thirteen threads have no busy connection.
    assert!(seen(Discipline::RoundRobin, 400).0 >= 192 * 10 / 13);
}

/// A mebibyte from a sender that may have 16 KiB outstanding, to a unit that waits for 32 KiB.
fn held_back(active_ack: ActiveAck, idle_floor_ns: u64) -> Config {
    Config {
        run: span(0, 0, 5_000),
        npu: Npu { active_ack, idle_floor_ns, max_bytes: 32 << 10, ..Npu::default() },
        client: Client {
            connections: 1,
            bytes: Maybe::from(1 << 20),
            send_window: 16 << 10,
            ..Client::default()
        },
        ..Config::default()
    }
}

/// Section V.C. The paper's own timer (IV.E) would flush after ten intervals, long before the
/// sender's fires: what it describes needs one that waits for longer.
#[test]
fn without_active_ack_the_sender_waits_for_its_timer() {
    const NO_TIMER: u64 = 4_000 * MS;
    let done_ms = |outcome: &NpuResults| outcome.client.finished_at.map(|at| at.as_ns() / MS);
    let stalled = ran(&held_back(ActiveAck::Off, NO_TIMER));
    assert_eq!((stalled.client.finished, stalled.corrupt), (0, 0));
    assert!(stalled.client.timeouts >= 5, "{stalled:?}");
    // "The retransmitted packets will be considered as redundant and discarded."
    assert_eq!(stalled.duplicates, stalled.client.retransmitted);
    assert!(stalled.host.accepted < 1 << 17, "{stalled:?}");
    for mode in [ActiveAck::Paper, ActiveAck::Honest] {
        for floor in [NO_TIMER, 1] {
            let flowing = ran(&held_back(mode, floor));
            println!("{mode:?}, timer of {floor} ns at least: {:?} ms", done_ms(&flowing));
            assert_eq!((flowing.client.finished, flowing.client.timeouts), (1, 0), "{flowing:?}");
            assert!(flowing.host.accepted == 1 << 20 && flowing.duplicates == 0);
        }
    }
    let timer = ran(&held_back(ActiveAck::Off, 1));
    println!("no active ACK, published timer: {:?} ms", done_ms(&timer));
    assert_eq!((timer.client.finished, timer.client.timeouts), (1, 0));
    assert!(timer.timeouts > 60, "every window waits for the timeout thread: {timer:?}");
}

/// 0xFFFF is more than a receiver has: what was acknowledged for it is lost.
#[test]
fn the_published_window_overruns_a_slow_receiver() {
    let slow = |mode| {
        let mut config = held_back(mode, 1);
        config.host.receive_buffer = 40_000;
        config.host.read_rate = Maybe::from(Rate::new(100_000_000));
        config.client.send_window = 65_535;
        ran(&config)
    };
    let paper = slow(ActiveAck::Paper);
    assert!(paper.host.overrun > 0 && paper.host.accepted < 1 << 20, "{paper:?}");
    assert_eq!(paper.client.finished, 0);
    let honest = slow(ActiveAck::Honest);
    assert_eq!((honest.host.overrun, honest.host.accepted), (0, 1 << 20), "{honest:?}");
    assert_eq!((honest.client.finished, honest.host.finished), (1, 1));
    let read_ms = (8 << 20) / 100_000;
    let done_ms = honest.client.finished_at.map(|at| at.as_ns() / MS);
    println!("{:?}; honest: {done_ms:?} ms, read in {read_ms} ms", paper.host);
    assert!(done_ms.is_some_and(|ms| ms <= read_ms + 5), "{done_ms:?}");
}

/// Promise (Hardware model): The modelled network processor loses no packet uncounted in 60 random
/// overloads.
///
/// Every part too small by turns, with wrong and late frames: nothing is lost uncounted, no wrong
/// byte arrives, and each way to be dropped is taken.
#[test]
fn whatever_overflows_is_counted() {
    let mut seen = [0; 5];
    let mut others = [0; 3];
    for seed in 0..60 {
        let rng = &mut Rng::new(seed);
        let mut one_of = |values: [u64; 3]| values[rng.below(3) as usize];
        let modes = [ActiveAck::Off, ActiveAck::Paper, ActiveAck::Honest];
        let disciplines = [Discipline::Stack, Discipline::Fifo, Discipline::RoundRobin];
        let npu = Npu {
            packet_ns: Maybe([None, Some(4_000), Some(32_000)][one_of([0, 1, 2]) as usize]),
            queue: one_of([8, 64, 1_024]) as usize,
            buffers: one_of([40, 400, 65_536]),
            ring: one_of([2, 8, 1_024]),
            send_queue: one_of([2, 50, 4_096]),
            descriptors: one_of([2, 8, 256]) as usize,
            merge: Switch(one_of([0, 1, 1]) == 1),
            active_ack: modes[one_of([0, 1, 2]) as usize],
            ..Npu::default()
        };
        let discipline = disciplines[one_of([0, 1, 2]) as usize];
        let requests = one_of([50, 1_000, 1 << 18]) as usize;
        let dma =
            Dma { request_ns: one_of([200, 2_000, 9_000]), discipline, requests, ..Dma::default() };
        let client = Client {
            connections: one_of([1, 9, 40]) as u32,
            idle_connections: one_of([0, 3, 9]) as u32,
            bytes: Maybe([None, Some(1), Some(300_001)][one_of([0, 1, 2]) as usize]),
            corrupt_every: Maybe([None, Some(50), Some(500)][one_of([0, 1, 2]) as usize]),
            swap_every: Maybe([None, Some(7), Some(100)][one_of([0, 1, 2]) as usize]),
            start: Start::Each,
            rto_ns: 5 * MS,
            syn_rto_ns: 5 * MS,
            ..Client::default()
        };
        let outcome =
            ran(&Config { run: span(seed, 0, 30), npu, dma, client, ..Config::default() });
        for (seen, (_, amount)) in seen.iter_mut().zip(outcome.dropped.named()) {
            *seen += amount.packets;
        }
        for (other, more) in
            others.iter_mut().zip([outcome.answers_dropped, outcome.duplicates, outcome.corrupt])
        {
            *other += more;
        }
    }
    println!("dropped: {seen:?}; answers, duplicates, corrupt: {others:?}");
    assert!(seen.iter().chain(&others).all(|count| *count > 0), "{seen:?} {others:?}");
}

/// Lost and late frames are made good: all arrives, in order, once.
#[test]
fn transfers_come_through_faults() {
    for (seed, active_ack) in (0..).zip([ActiveAck::Off, ActiveAck::Paper, ActiveAck::Honest]) {
        let client = Client {
            connections: 5,
            bytes: Maybe::from(200_000),
            corrupt_every: Maybe::from(97),
            swap_every: Maybe::from(5),
            rto_ns: 10 * MS,
            syn_rto_ns: 10 * MS,
            ..Client::default()
        };
        let npu = Npu { active_ack, ..Npu::default() };
        let outcome = ran(&Config { run: span(seed, 0, 2_000), npu, client, ..Config::default() });
        assert_eq!((outcome.client.finished, outcome.host.finished), (5, 5), "{outcome:?}");
        assert_eq!((outcome.host.accepted, outcome.held.packets), (1_000_000, 0), "{outcome:?}");
        assert!(outcome.corrupt > 0 && outcome.client.retransmitted > 0, "{outcome:?}");
    }
}

/// The same on every machine, with and without optimisation.
#[test]
fn equal_scenarios_have_equal_results() {
    let digest = |seed| ran(&figure_13(16, seed, Npu::default())).digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
    assert_eq!(digest(1), 4_543_462_571_455_766_964);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = figure_13(1, 0, Npu::default());
        change(&mut config);
        run(&config).expect_err("refused").to_string()
    };
    for (text, said) in [
        (
            refused(|s| s.run.duration = Duration::ZERO),
            "run.duration: 0ns is out of range: choose 1ns to 3600s",
        ),
        (
            refused(|s| s.client.segment = 1_461),
            "client.segment: 1461 is out of range: choose 64 to 1460",
        ),
        (
            refused(|s| s.client.send_window = 100),
            "client.send_window: 100 is less than a segment: choose 1460",
        ),
        (refused(|s| s.host.receive_buffer = 65_536), "choose 1 to 65535"),
        (
            refused(|s| (s.npu.cores, s.npu.threads_per_core) = (1, 3)),
            "npu.cores: 3 hardware threads: 3 send",
        ),
        (refused(|s| s.npu.ring = 20_165), "16777280 bytes: shared memory has 16777216"),
        (refused(|s| s.run.warm_up = s.run.duration), "begin before the end"),
    ] {
        assert!(text.contains(said) && !text.contains('\n'), "{text}");
    }
    assert!(run(&figure_13(0, 0, Npu::default())).is_ok_and(|outcome| outcome.sent.packets == 0));
}
