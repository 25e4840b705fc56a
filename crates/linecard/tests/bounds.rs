//! Every limit of the coalescer's configuration holds, at its exact value, and whatever time does.

use core::time::Duration;
use linecard::offload::coalesce::{Config, Creation, Exit, Flush, Input, LargePackets, Refusal};
use linecard::offload::segment::segment;
use linecard::packet::{BATCH, Batch, ChecksumState, LayerKind, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_testkit::packets::frame::{ACK, FIN, Field, Frame, RST, SYN, UDP};
use linecard_testkit::packets::runner::{
    Real, arrival, arrivals, check_counters, check_round_trip, coalesce, numbers, packet, whole,
};
use linecard_testkit::packets::traffic::{Arrival, scenario};
use linecard_testkit::packets::tunnel::each_kind;
use linecard_testkit::packets::{for_seeds, pick};

/// Packets in each that left, and why.
fn left(real: &Real) -> Vec<(Vec<usize>, Option<Flush>)> {
    real.outs().into_iter().map(|out| (out.packets, out.flush)).collect()
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// The `index`th packet of the flow with this port.
fn of(port: u16, index: usize) -> Frame {
    Frame { ports: (port, 9), ..Frame::bulk(index, 100) }
}

/// Pushes frames at times in microseconds.
fn timed(config: Config, frames: &[(u64, Frame)]) -> (Real, Vec<Arrival>) {
    let mut real = Real::new(config);
    let all: Vec<Arrival> = frames.iter().map(|(us, frame)| arrival(frame, us * 1_000)).collect();
    all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    (real, all)
}

fn at_us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// Promise (Offloads): Every bound of `Config` holds, no packet is lost, and none is held beyond
/// its budget if the caller calls when asked to.
#[test]
fn random_small_limits_lose_nothing_and_hold() {
    let mut packets = 0;
    for_seeds(&[], 1, 600, |seed| {
        let rng = &mut Rng::new(seed);
        let mut scenario = scenario(rng, 1_000);
        let config = &mut scenario.config;
        config.max_flows = pick(rng, &[0, 1, 8, 16]);
        config.max_held_packets = pick(rng, &[0, 1, 2, 5, 60]);
        config.max_held_bytes = pick(rng, &[2_000, 3_000, 20_000]);
        config.hold_budget = pick(rng, &[us(0), us(100), us(10_000), Duration::MAX]);
        let (most, most_bytes) = (config.max_held_packets.max(1), config.max_held_bytes);
        let flows = config.max_flows.next_power_of_two().max(8);
        let mut real = Real::new(config.clone());
        let (mut held_bytes, mut seen) = (0, 0);
        for (number, arrival) in scenario.arrivals.iter().enumerate() {
            real.push(number, arrival);
            held_bytes += arrival.bytes.len();
            for (packet, _) in &real.out[seen..] {
                let bytes = |number: &usize| scenario.arrivals[*number].bytes.len();
                held_bytes -= numbers(packet).iter().map(bytes).sum::<usize>();
            }
            seen = real.out.len();
            assert!(real.coalescer.held() <= most);
            assert!(held_bytes <= most_bytes, "{held_bytes} bytes held");
            assert!(real.coalescer.flows() <= flows);
        }
        check_counters(&real, &scenario.arrivals);
        real.stop();
        check_round_trip(&real, &scenario.arrivals);
        check_counters(&real, &scenario.arrivals);
        packets += scenario.arrivals.len();
    });
    println!("{packets} packets under small limits");
}

/// Promise (Offloads): Packets that merge into none of the large ones that the port behind takes pass unheld, whatever
/// came before.
#[test]
fn what_is_not_taken_passes_unheld() {
    let mut passed = 0;
    for_seeds(&[], 1, 400, |seed| {
        let rng = &mut Rng::new(seed);
        let scenario = scenario(rng, 500);
        let large = LargePackets::from_bits(rng.next_u64() as u8);
        let mut real = Real::new(scenario.config.clone());
        real.coalescer.set_large(large, &mut |_, _| unreachable!("nothing is held"));
        let mut number = 0;
        for part in scenario.arrivals.chunks(1 + seed as usize % BATCH) {
            let mut batch = Batch::new();
            for arrival in part {
                assert!(batch.push(packet(number, arrival)).is_ok());
                number += 1;
            }
            real.push_batch(&mut batch, part[0].now);
        }
        real.stop();
        check_counters(&real, &scenario.arrivals);
        check_round_trip(&real, &scenario.arrivals);
        for (packet, exit) in &real.out {
            let layout = packet.layout();
            let Some(transport) = layout.transport() else { continue };
            let is = |kind| layout.network().is_some_and(|layer| layer.kind == kind);
            let mut needed = match transport.kind {
                LayerKind::Tcp if is(LayerKind::Ipv4) => LargePackets::TCP4,
                LayerKind::Tcp => LargePackets::TCP6,
                _ => LargePackets::UDP,
            };
            needed = needed.with(LargePackets::IN_TUNNELS, layout.tunnels() > 0);
            if large.with(needed, true) != large {
                assert!(matches!(exit, Exit::Passed(_)), "{large:?}: {exit:?}");
                passed += 1;
            }
        }
    });
    // Emulated processors try a part of the seeds.
    assert!(passed > 1_000, "{passed}");
}

#[test]
fn a_full_table_lets_go_its_oldest_and_the_others_still_merge() {
    let config = Config { max_flows: 8, ..Config::default() };
    let mut frames: Vec<(u64, Frame)> =
        (1..=9).map(|port| (u64::from(port), of(port, 0))).collect();
    frames.extend((2..=9).map(|port| (20, of(port, 1))));
    let (mut real, all) = timed(config, &frames);
    assert_eq!(left(&real), [(vec![0], Some(Flush::TableFull))]);
    assert_eq!((real.coalescer.flows(), real.coalescer.counters().flows_evicted), (8, 1));
    real.stop();
    assert!(left(&real)[1..].iter().all(|(packets, _)| packets.len() == 2));
    check_round_trip(&real, &all);
}

#[test]
fn an_idle_flow_gives_its_place_before_one_that_holds_data() {
    let config = Config { max_flows: 8, ..Config::default() };
    let mut frames: Vec<(u64, Frame)> = (1..=7).map(|port| (1, of(port, 0))).collect();
    // The eighth has flushed its data and is the latest.
    frames.push((2, Frame { flags: ACK | 8, ..of(8, 0) }));
    frames.push((3, of(9, 0)));
    let (real, _) = timed(config, &frames);
    assert_eq!(left(&real), [(vec![7], Some(Flush::EndFlag))]);
    assert_eq!(real.coalescer.held(), 8);
}

#[test]
fn held_packets_and_bytes_are_bounded() {
    let config = Config { max_held_packets: 4, ..Config::default() };
    let frames: Vec<Frame> = (0..10).map(|index| of(1, index)).collect();
    let real = coalesce(config, &frames);
    let sizes: Vec<_> = left(&real).into_iter().map(|(p, why)| (p.len(), why)).collect();
    let limit = Some(Flush::HeldLimit);
    assert_eq!(sizes, [(4, limit), (4, limit), (2, Some(Flush::Stop))]);
    // Frames of 154 bytes: three fit into 500.
    let config = Config { max_held_bytes: 500, ..Config::default() };
    let real = coalesce(config, &frames);
    let sizes: Vec<_> = left(&real).into_iter().map(|(p, why)| (p.len(), why)).collect();
    assert_eq!(sizes, [(3, limit), (3, limit), (3, limit), (1, Some(Flush::Stop))]);
    let exact = Config { max_held_bytes: 154 * 10, ..Config::default() };
    assert_eq!(left(&coalesce(exact, &frames)).len(), 1);
    // Other flows make room, the one nearest its deadline first.
    let config = Config { max_held_packets: 2, ..Config::default() };
    let (real, _) = timed(config, &[(0, of(1, 0)), (50, of(2, 0)), (60, of(3, 0)), (61, of(3, 1))]);
    assert_eq!(left(&real), [(vec![0], limit), (vec![1], limit)]);
}

/// A packet larger than all that may be held is not held.
#[test]
fn a_packet_above_the_byte_limit_is_not_held() {
    let mut real = Real::new(Config { max_held_bytes: 100, ..Config::default() });
    real.push(0, &arrival(&of(1, 0), 0));
    assert_eq!(real.coalescer.held(), 0, "154 bytes are held with a limit of 100");
}

#[test]
fn segments_datagrams_and_bytes_are_bounded() {
    let tcp: Vec<Frame> = (0..7).map(|index| of(1, index)).collect();
    let udp: Vec<Frame> =
        tcp.iter().map(|frame| Frame { protocol: UDP, ..frame.clone() }).collect();
    let sizes = |config: &Config, frames: &[Frame]| -> Vec<usize> {
        let real = coalesce(config.clone(), frames);
        let left = left(&real);
        let before_last = &left[..left.len() - 1];
        assert!(before_last.iter().all(|(_, why)| *why == Some(Flush::Size)));
        left.iter().map(|(packets, _)| packets.len()).collect()
    };
    let config = Config { max_segments: 3, max_datagrams: 2, ..Config::default() };
    assert_eq!(sizes(&config, &tcp), [3, 3, 1]);
    assert_eq!(sizes(&config, &udp), [2, 2, 2, 1]);
    let config = Config { max_segments: 0, max_datagrams: 0, ..Config::default() };
    assert_eq!(sizes(&config, &tcp), [1; 7]);
    assert_eq!(sizes(&config, &udp), [1; 7]);
    // Headers of IP and TCP are 40 bytes, of IP and UDP 28.
    for (bytes, segments, datagrams) in [(340, 3, 3), (339, 2, 3), (328, 2, 3), (327, 2, 2)] {
        let config = Config { max_bytes: bytes, ..Config::default() };
        assert_eq!(sizes(&config, &tcp)[0], segments, "{bytes}");
        assert_eq!(sizes(&config, &udp)[0], datagrams, "{bytes}");
    }
    // The default of 64 datagrams, and the length fields' limit, also when more is asked for.
    let many: Vec<Frame> = (0..100).map(|index| Frame::udp(index, 10)).collect();
    assert_eq!(sizes(&Config::default(), &many), [64, 36]);
    let bulk: Vec<Frame> = (0..60).map(|index| Frame::bulk(index, 1_455)).collect();
    // 40 + 45 · 1,455 = 65,515.
    assert_eq!(sizes(&Config::default(), &bulk), [45, 15]);
    // BIG TCP: 512 KiB are 524,288 bytes, and 40 + 360 · 1,455 = 523,840.
    let config = Config { max_bytes: usize::MAX, ..Config::default() };
    let big: Vec<Frame> = (0..370).map(|index| Frame::bulk(index, 1_455)).collect();
    assert_eq!(sizes(&config, &big), [360, 10]);
    let config = Config::default();
    let fitting: Vec<Frame> = (0..5).map(|index| Frame::bulk(index, 13_099)).collect();
    // 40 + 5 · 13,099 = 65,535 exactly.
    assert_eq!(sizes(&config, &fitting), [5]);
    let over: Vec<Frame> = (0..5).map(|index| Frame::bulk(index, 13_100)).collect();
    assert_eq!(sizes(&config, &over), [4, 1]);
}

/// Packets of a bulk transfer that fill 512 KiB and more; what leaves, in bytes from the outermost
/// header with a length on. Everything comes back.
fn longest(change: impl Fn(usize, &mut Frame)) -> Vec<usize> {
    let mut frames: Vec<Frame> = (0..60).map(|index| Frame::bulk(index, 9_000)).collect();
    frames.iter_mut().enumerate().for_each(|(index, frame)| change(index, frame));
    let config = Config { max_bytes: usize::MAX, max_tunnels: 3, ..Config::default() };
    let real = coalesce(config, &frames);
    check_round_trip(&real, &arrivals(&frames));
    let len = |(packet, _): &(Packet<_>, Exit)| {
        let outermost = packet.layout().layers().next().expect("it has headers");
        whole(packet).len() - usize::from(outermost.offset)
    };
    real.out.iter().map(len).collect()
}

/// BIG TCP: a length that does not fit into 16 bits is 0, which only TCP directly over IP can bear.
#[test]
fn big_tcp_is_bounded_and_comes_back() {
    assert_eq!(longest(|_, _| ())[0], 40 + 58 * 9_000);
    assert_eq!(longest(|_, frame| frame.v6 = true)[0], 60 + 58 * 9_000);
    assert_eq!(longest(|_, frame| frame.tags = vec![[0x81, 0, 0, 1]])[0], 40 + 58 * 9_000);
    // Behind extension headers, a payload length of 0 would not say so (RFC 2675 has an option).
    let extended = longest(|_, frame| {
        (frame.v6, frame.extensions) = (true, vec![(0, vec![0, 1, 4, 0, 0, 0, 0])]);
    });
    assert_eq!(extended[0], 40 + 8 + 20 + 7 * 9_000);
    assert!(longest(|_, frame| frame.protocol = UDP).iter().all(|len| *len <= 65_535));
}

/// A length of 0 is right only where the length does not fit. IPv6 does not count its own header, so
/// that some packets of more than 65,535 bytes have one that does: cut, they would get it. One
/// whose length does not fit cannot be made by the segmenter, and so does not merge either.
#[test]
fn a_length_that_fits_is_not_left_out() {
    for (len, sizes) in [(65_480, &[1, 1, 1][..]), (65_515, &[1, 1, 1]), (65_516, &[1, 1, 1])] {
        let mut arrivals =
            arrivals(&[0, 1, 2].map(|index| Frame { v6: true, ..Frame::bulk(index, len) }));
        arrivals.iter_mut().for_each(|arrival| arrival.bytes[18..20].fill(0));
        let mut real = Real::new(Config { max_bytes: usize::MAX, ..Config::default() });
        arrivals.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
        real.stop();
        check_round_trip(&real, &arrivals);
        let lens: Vec<usize> = real.outs().iter().map(|out| out.packets.len()).collect();
        assert_eq!(lens, sizes, "{len}");
    }
}

#[test]
fn tunnels_stay_within_their_length_fields() {
    for (kind, (name, _)) in each_kind(0).iter().enumerate() {
        for v6 in [false, true] {
            let lens = longest(|index, frame| {
                (frame.v6, frame.tunnel) = (v6, each_kind(index).remove(kind).1);
            });
            // MPLS on the link has no length of its own, and is not a tunnel in that sense.
            let limit = if *name == "MPLS" { 58 } else { 7 };
            let headers = lens[0] - limit * 9_000;
            assert!((40..320).contains(&headers), "{name}: {}", lens[0]);
        }
    }
}

#[test]
fn the_hold_budget_is_exact() {
    let config = Config { hold_budget: us(100), idle_floor: us(1_000), ..Config::default() };
    let (mut real, _) = timed(config.clone(), &[(0, of(1, 0)), (90, of(1, 1))]);
    assert_eq!(real.coalescer.next_wakeup(), Some(at_us(100)));
    real.advance(Instant::from_ns(99_999));
    assert_eq!(real.coalescer.held(), 2);
    real.advance(at_us(100));
    assert_eq!(left(&real), [(vec![0, 1], Some(Flush::Budget))]);
    // A packet that comes too late finds it gone.
    let (real, _) = timed(config, &[(0, of(1, 0)), (100, of(1, 1))]);
    assert_eq!(left(&real), [(vec![0], Some(Flush::Budget))]);
    // Budget zero: nothing is held past the next call.
    let none = Config { hold_budget: us(0), ..Config::default() };
    let (real, _) = timed(none, &[(5, of(1, 0)), (5, of(1, 1))]);
    assert_eq!((left(&real).len(), real.coalescer.held()), (1, 1));
}

#[test]
fn the_timer_adapts_and_has_a_floor() {
    let config = Config { hold_budget: us(10_000), idle_floor: us(20), ..Config::default() };
    // One packet: no interval is known, the budget counts.
    let (real, _) = timed(config.clone(), &[(0, of(1, 0))]);
    assert_eq!(real.coalescer.next_wakeup(), Some(at_us(10_000)));
    // A burst with one timestamp: the floor.
    let (mut real, _) = timed(config.clone(), &[(0, of(1, 0)), (0, of(1, 1))]);
    assert_eq!(real.coalescer.next_wakeup(), Some(at_us(20)));
    real.advance(at_us(20));
    assert_eq!(left(&real), [(vec![0, 1], Some(Flush::Idle))]);
    // Intervals of 10 and 30: averages of 10 and (10 + 30) / 2 = 20, ten times that from then on.
    let frames = [(0, of(1, 0)), (10, of(1, 1)), (40, of(1, 2))];
    let (real, _) = timed(config.clone(), &frames[..2]);
    assert_eq!(real.coalescer.next_wakeup(), Some(at_us(10 + 100)));
    let (mut real, _) = timed(config, &frames);
    // Woken for the earlier deadline, it sets the later one.
    real.advance(at_us(10 + 100));
    assert_eq!(real.coalescer.next_wakeup(), Some(at_us(40 + 200)));
    real.advance(Instant::from_ns(239_999));
    assert_eq!(real.coalescer.held(), 3);
    real.advance(at_us(240));
    assert_eq!(left(&real)[0].1, Some(Flush::Idle));
}

#[test]
fn a_batch_end_flushes_when_asked_to() {
    for (flush_at_batch_end, held) in [(true, 0), (false, BATCH)] {
        let mut real = Real::new(Config { flush_at_batch_end, ..Config::default() });
        let mut batch = Batch::new();
        for index in 0..BATCH {
            let arrival = arrival(&of(1 + (index % 2) as u16, index / 2), 0);
            assert!(batch.push(packet(index, &arrival)).is_ok());
        }
        real.push_batch(&mut batch, Instant::ZERO);
        assert!(batch.is_empty());
        assert_eq!(real.coalescer.held(), held);
        let reasons: Vec<_> = left(&real).into_iter().map(|(p, why)| (p.len(), why)).collect();
        let expected = vec![(BATCH / 2, Some(Flush::BatchEnd)); if held == 0 { 2 } else { 0 }];
        assert_eq!(reasons, expected);
    }
}

/// Pushes these flows' next packets as one batch.
fn batch_at(real: &mut Real, at: u64, frames: &[Frame]) {
    let mut batch = Batch::new();
    for (index, frame) in frames.iter().enumerate() {
        assert!(batch.push(packet(index, &arrival(frame, at))).is_ok());
    }
    real.push_batch(&mut batch, at_us(at));
}

/// The packets in each that left of one batch of which nothing is held.
fn whole_batch(restore_order: bool, frames: &[Frame]) -> Vec<Vec<usize>> {
    let config = Config { flush_at_batch_end: true, restore_order, ..Config::default() };
    let mut real = Real::new(config);
    batch_at(&mut real, 0, frames);
    check_counters(&real, &arrivals(frames));
    check_round_trip(&real, &arrivals(frames));
    left(&real).into_iter().map(|(packets, _)| packets).collect()
}

#[test]
fn a_late_packet_of_the_same_batch_is_put_in_its_place() {
    let frames = [0, 2, 3, 1, 4].map(|index| of(1, index));
    assert_eq!(whole_batch(true, &frames), [[0, 3, 1, 2, 4]]);
    assert_eq!(whole_batch(false, &frames), [vec![0], vec![1, 2], vec![3], vec![4]]);
    // Not over more than 32 packets, whatever they are.
    for (between, found) in [(31, true), (32, false)] {
        let others = (0..between).map(|port| of(100 + port, 0));
        let frames: Vec<Frame> =
            [of(1, 0), of(1, 2)].into_iter().chain(others).chain([of(1, 1)]).collect();
        assert_eq!(whole_batch(true, &frames)[0].len() == 3, found, "{between} between");
    }
}

/// Packets come in runs before one is late, so that the flows of the batch are not known yet.
#[test]
fn a_late_packet_of_a_run_is_put_in_its_place() {
    let of_one = |order: [usize; 6]| order.map(|index| of(1, index));
    for order in [[0, 1, 3, 2, 4, 5], [0, 1, 3, 4, 2, 5], [0, 1, 2, 4, 5, 3], [0, 1, 4, 3, 2, 5]] {
        let merged = whole_batch(true, &of_one(order));
        let mut sorted = [0, 1, 2, 3, 4, 5];
        sorted.sort_by_key(|at| order[*at]);
        assert_eq!(merged, [sorted], "{order:?}");
    }
    // None of it is lost, whatever else one of them is.
    let changes: [fn(&mut Frame); 6] = [
        |frame| frame.flags |= FIN,
        |frame| frame.payload.truncate(50),
        |frame| frame.field = Field::Bad,
        |frame| frame.window += 1,
        |frame| frame.ports.0 += 1,
        |frame| frame.flags_fragment = 0x2000,
    ];
    for (first, second) in (0..36).map(|pair| (pair / 6, pair % 6)) {
        for (at, change) in (0..6).flat_map(|at| changes.map(|change| (at, change))) {
            let mut order = [0, 1, 2, 3, 4, 5];
            order[2..].rotate_left(first % 4);
            order.swap(first, second);
            let mut frames = of_one(order);
            change(&mut frames[at]);
            for restore_order in [false, true] {
                whole_batch(restore_order, &frames);
            }
        }
    }
}

/// With a newer timestamp in front, a receiver discards those behind it as old (RFC 7323, section 5.3).
#[test]
fn a_late_packet_with_other_options_stays_where_it_is() {
    let stamped = |index, stamp: u8| {
        let options = vec![1, 1, 8, 10, 0, 0, 0, stamp, 0, 0, 0, 1];
        Frame { options, ..of(1, index) }
    };
    let frames = [stamped(0, 1), stamped(2, 1), stamped(1, 4)];
    assert_eq!(whole_batch(true, &frames), [[0], [1], [2]]);
    let reset = Frame { flags: RST | ACK, ..of(1, 1) };
    assert_eq!(whole_batch(true, &[of(1, 0), of(1, 2), reset])[1], [1]);
}

#[test]
fn packets_left_by_a_panic_do_not_enter_the_next_batch() {
    let config = Config { flush_at_batch_end: true, ..Config::default() };
    let mut coalescer = linecard::offload::coalesce::Coalescer::new(config);
    let mut frames: Vec<Vec<u8>> = (1..=3).map(|port| of(port, 0).bytes()).collect();
    fn input(frames: &mut Vec<Vec<u8>>) -> Input<'_, Vec<u8>> {
        Input::Frames(frames, LinkType::Ethernet, Meta::default())
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        coalescer.push_batch(input(&mut frames), Instant::ZERO, &mut |_, _| panic!("meant"));
    }));
    assert!(panicked.is_err());
    let mut left = 0;
    let mut frames = vec![of(4, 0).bytes()];
    coalescer.push_batch(input(&mut frames), Instant::ZERO, &mut |_, _| left += 1);
    assert_eq!(left, 1);
}

#[test]
fn a_batch_end_flushes_quiet_flows_and_holds_busy_ones() {
    let config = Config { flush_quiet_at_batch_end: true, ..Config::default() };
    let mut real = Real::new(config);
    // A lone packet leaves at once, its flow's next one 100 µs later too.
    for (count, at) in [(1, 0), (2, 100), (3, 200)] {
        batch_at(&mut real, at, &[of(1, count - 1)]);
        assert_eq!((left(&real).len(), real.coalescer.held()), (count, 0), "at {at} us");
    }
    assert!(left(&real).iter().all(|(_, why)| *why == Some(Flush::BatchEnd)));
    // Two of a batch are merged and held: more is to be expected. A lone one beside them is not.
    batch_at(&mut real, 1_000, &[of(2, 0), of(3, 0), of(2, 1)]);
    assert_eq!((left(&real).len(), real.coalescer.held()), (4, 2));
    // A busy flow's lone packet is held for its next one, until the flow has been quiet.
    real.advance(at_us(1_020));
    batch_at(&mut real, 1_020, &[of(2, 2)]);
    assert_eq!((left(&real).len(), real.coalescer.held()), (5, 1));
    real.advance(at_us(3_000));
    batch_at(&mut real, 3_000, &[of(2, 3)]);
    assert_eq!((left(&real).len(), real.coalescer.held()), (7, 0));
}

fn on_syn() -> Config {
    Config { creation: Creation::OnSyn, max_flows: 8, ..Config::default() }
}

fn control(port: u16, flags: u16) -> Frame {
    Frame { flags, payload: Vec::new(), ..of(port, 0) }
}

#[test]
fn flows_open_on_syn_and_close_on_fin_or_rst() {
    // Data of a connection whose SYN was not seen passes; UDP needs none.
    let udp = |index| Frame { protocol: UDP, ..of(7, index) };
    let real = coalesce(on_syn(), &[of(1, 0), of(1, 1), udp(0), udp(1)]);
    assert_eq!(real.out[0].1, Exit::Passed(Refusal::NoFlow));
    assert_eq!(left(&real)[2], (vec![2, 3], Some(Flush::Stop)));
    for flags in [SYN, SYN | ACK] {
        let real = coalesce(on_syn(), &[control(1, flags), of(1, 0), of(1, 1)]);
        assert_eq!(left(&real), [(vec![0], None), (vec![1, 2], Some(Flush::Stop))]);
        assert_eq!(real.coalescer.counters().flows_on_syn, 1);
        assert_eq!(real.coalescer.counters().flows_on_data, 0);
    }
    for end in [FIN, RST] {
        // At a control packet, and on the last data.
        let alone = [control(1, SYN), of(1, 0), control(1, ACK | end), of(1, 1)];
        let last = Frame { flags: ACK | end, ..of(1, 0) };
        let with_data = [control(1, SYN), last, of(1, 1), of(1, 2)];
        for frames in [&alone[..], &with_data] {
            let real = coalesce(on_syn(), frames);
            let counters = real.coalescer.counters();
            assert_eq!((real.coalescer.flows(), counters.flows_released), (0, 1));
            assert_eq!(real.out[3].1, Exit::Passed(Refusal::NoFlow));
            check_round_trip(&real, &arrivals(frames));
        }
    }
}

/// Packets with a wrong checksum open and close nothing.
#[test]
fn a_corrupt_syn_or_reset_is_not_believed() {
    let corrupt = |flags| Frame { field: Field::Bad, ..control(1, flags) };
    let real = coalesce(on_syn(), &[corrupt(SYN), of(1, 0)]);
    assert_eq!((real.coalescer.flows(), real.coalescer.counters().flows_on_syn), (0, 0));
    let real = coalesce(on_syn(), &[control(1, SYN), corrupt(RST), of(1, 0), of(1, 1)]);
    assert_eq!(left(&real).last(), Some(&(vec![2, 3], Some(Flush::Stop))));
}

/// A SYN that carries data (TCP Fast Open) is a SYN.
#[test]
fn a_syn_with_data_opens_a_flow() {
    let real = coalesce(on_syn(), &[Frame { flags: SYN, ..of(1, 0) }, of(1, 1), of(1, 2)]);
    assert_eq!(real.coalescer.counters().flows_on_syn, 1);
    assert_eq!(left(&real).last(), Some(&(vec![1, 2], Some(Flush::Stop))));
}

/// Promise (Offloads): Times that run backwards hold no packet longer than its budget.
#[test]
fn time_that_runs_backwards_holds_nothing_longer() {
    let config = Config { hold_budget: us(100), idle_floor: us(1_000), ..Config::default() };
    let (mut real, all) = timed(config, &[(500, of(1, 0)), (20, of(1, 1)), (0, of(2, 0))]);
    assert_eq!((real.coalescer.held(), real.coalescer.next_wakeup()), (3, Some(at_us(600))));
    real.advance(at_us(10));
    assert_eq!(real.coalescer.held(), 3);
    real.advance(at_us(600));
    assert_eq!(real.coalescer.held(), 0);
    check_round_trip(&real, &all);
}

#[test]
fn senseless_times_lose_nothing() {
    let times = [0, u64::MAX, 5, u64::MAX - 1, 0, 1 << 63, 7];
    for budget in [us(0), us(1_000), Duration::MAX] {
        let config = Config { hold_budget: budget, ..Config::default() };
        let mut real = Real::new(config);
        let all: Vec<Arrival> =
            (0..70).map(|index| arrival(&of(1, index), times[index % times.len()])).collect();
        all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
        real.advance(Instant::NEVER);
        assert_eq!(real.coalescer.held(), 0, "at the end of time nothing is held");
        // A new time line starts as if nothing had been.
        let out = &mut real.out;
        real.coalescer.restart_clock(at_us(1), &mut |p, e| out.push((p, e)));
        let more: Vec<Arrival> = (70..75).map(|index| arrival(&of(1, index), 1_000)).collect();
        more.iter().enumerate().for_each(|(number, arrival)| real.push(70 + number, arrival));
        let held = if budget.is_zero() { 1 } else { 5 };
        assert_eq!(real.coalescer.held(), held);
        real.stop();
        check_round_trip(&real, &[all, more].concat());
    }
}

/// After the clock was set back, flows of the old time line are the oldest.
#[test]
fn a_restarted_clock_evicts_what_was_there_before() {
    let mut real = Real::new(on_syn());
    for port in 1..=4 {
        real.push(0, &arrival(&control(port, SYN), 1_000_000_000));
    }
    let out = &mut real.out;
    real.coalescer.restart_clock(Instant::ZERO, &mut |p, e| out.push((p, e)));
    for port in 5..=9 {
        real.push(0, &arrival(&control(port, SYN), 1_000));
    }
    // The ninth connection took the place of one of the first four, not of one of the last.
    let fifth = &arrival(&of(5, 0), 2_000);
    real.push(0, fifth);
    assert_eq!(real.coalescer.held(), 1, "a live connection was evicted for a dead one");
}

/// UDP without checksum in a frame whose checksum the port calls partial: nothing is to complete.
#[test]
fn no_checksum_stays_none_when_called_partial() {
    let mut real = Real::new(Config::default());
    let all: Vec<Arrival> = (0..2)
        .map(|index| {
            let mut arrival = arrival(&Frame { field: Field::None, ..Frame::udp(index, 50) }, 0);
            arrival.meta.checksum = ChecksumState::Partial;
            arrival
        })
        .collect();
    all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    real.stop();
    check_round_trip(&real, &all);
}

/// A routing header with segments left: the checksum is over the final destination (RFC 8200,
/// section 8.1), so that nothing computed from the header in place is right.
#[test]
fn a_routing_header_on_its_way_is_given_back_when_vouched_for() {
    let frames: Vec<Frame> = (0..3)
        .map(|index| {
            let mut body = vec![2, 4, 1, 0, 0, 0, 0];
            body.extend([0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77]);
            let extensions = vec![(43, body)];
            let frame = Frame { v6: true, destination: 77, extensions, ..Frame::bulk(index, 100) };
            // Sent to the final destination, and seen on the way to the first stop.
            let mut bytes = frame.bytes();
            bytes[14 + 39] = 9;
            Frame { raw: Some(bytes), ..frame }
        })
        .collect();
    let mut real = Real::new(Config::default());
    let all: Vec<Arrival> = frames
        .iter()
        .map(|frame| {
            let mut arrival = arrival(frame, 0);
            arrival.meta.checksum = ChecksumState::Valid;
            arrival
        })
        .collect();
    all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    real.stop();
    check_round_trip(&real, &all);
}

#[test]
fn a_merged_packet_is_not_merged_again() {
    let real = coalesce(Config::default(), &[of(1, 0), of(1, 1)]);
    let large = real.out[0].0.clone();
    assert!(segment(&large, large.meta.gso.expect("merged")).is_ok());
    let mut again = Real::new(Config::default());
    let out = &mut again.out;
    again.coalescer.push(large, Instant::ZERO, &mut |p, e| out.push((p, e)));
    assert_eq!(again.out[0].1, Exit::Passed(Refusal::Unmergeable));
    let never = Meta { mark: Meta::NEVER, ..Meta::default() };
    let bytes = linecard_testkit::packets::runner::Buffer {
        link: of(1, 0).link,
        number: 0,
        bytes: of(1, 0).bytes(),
    };
    let out = &mut again.out;
    let packet = Packet::new(bytes, of(1, 0).link, never);
    again.coalescer.push(packet, Instant::ZERO, &mut |p, e| out.push((p, e)));
    assert_eq!(again.out[1].1, Exit::Passed(Refusal::Unmergeable));
}
