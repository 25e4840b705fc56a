//! ACK coalescing, rule by rule, and against an obvious slow twin.

use core::time::Duration;
use linecard::offload::ack_filter::{AckFilter, Config, Exit, Pass, Release};
use linecard::packet::{Batch, Meta};
use linecard::rng::Rng;
use linecard::stage::Stage;
use linecard::stages;
use linecard::time::{Instant, ns};
use linecard_testkit::packets::frame::{
    ACK, AE, CWR, ECE, FIN, Field, Frame, PSH, RST, SYN, UDP, URG,
};
use linecard_testkit::packets::runner::{Buffer, arrival, packet};
use linecard_testkit::packets::{between, for_seeds, pick};
use std::collections::{BTreeSet, HashMap};

const FIRST: Exit = Exit::Passed(Pass::First);

fn kept(why: Release) -> Exit {
    Exit::Kept(why)
}

fn passed(why: Pass) -> Exit {
    Exit::Passed(why)
}

/// The `index`th acknowledgment of a bulk transfer, with timestamps.
fn ack(index: u32) -> Frame {
    Frame {
        id: index as u16,
        acknowledgment: 1 + 2_896 * index,
        payload: Vec::new(),
        options: timestamps(100 + index, 50 + index),
        ..Frame::default()
    }
}

fn timestamps(value: u32, echo: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
}

struct Real {
    filter: AckFilter<Buffer>,
    out: Vec<(usize, Exit)>,
    given: usize,
}

impl Real {
    fn new(config: Config) -> Self {
        Self { filter: AckFilter::new(config), out: Vec::new(), given: 0 }
    }

    fn push_at(&mut self, us: u64, frame: &Frame) {
        let arrival = arrival(frame, us * 1_000);
        let (out, packet) = (&mut self.out, packet(self.given, &arrival));
        self.filter.push(packet, arrival.now, &mut |p, exit| out.push((p.buffer().number, exit)));
        self.given += 1;
    }

    fn advance(&mut self, now: Instant) {
        let out = &mut self.out;
        self.filter.advance(now, &mut |p, exit| out.push((p.buffer().number, exit)));
    }

    fn stop(&mut self) {
        let out = &mut self.out;
        self.filter.flush_all(&mut |p, exit| out.push((p.buffer().number, exit)));
    }
}

fn left(config: Config, frames: &[Frame]) -> Vec<(usize, Exit)> {
    let mut real = Real::new(config);
    frames.iter().for_each(|frame| real.push_at(0, frame));
    real.stop();
    let counters = real.filter.counters();
    let left = real.out.len() as u64;
    assert_eq!(counters.packets_in, counters.packets_out + counters.dropped);
    assert_eq!(
        (counters.packets_out, counters.passed.total() + counters.kept.total()),
        (left, left)
    );
    real.out
}

#[test]
fn the_newest_stands_for_all() {
    let frames: Vec<Frame> = (0..6).map(ack).collect();
    assert_eq!(left(Config::default(), &frames), [(0, FIRST), (5, kept(Release::Stop))]);
    let mut real = Real::new(Config::default());
    frames.iter().for_each(|frame| real.push_at(0, frame));
    real.stop();
    assert_eq!((real.filter.counters().dropped, real.filter.counters().run.max()), (4, 5));
}

#[test]
fn what_says_more_than_its_number_passes_behind_what_is_held() {
    let empty = ack(3);
    let zero = Frame { window: 0, ..empty.clone() };
    let sack = [&[1, 1, 5, 10][..], &[0; 8]].concat();
    let flags = |flags: u16| Frame { flags: ACK | flags, ..empty.clone() };
    let cases = [
        (ack(2), Pass::Repeated),
        (Frame { window: 600, ..ack(2) }, Pass::Repeated),
        (ack(1), Pass::Old),
        (zero, Pass::ZeroWindow),
        (Frame { options: sack, ..empty.clone() }, Pass::Options),
        (
            Frame { options: [timestamps(9, 9), vec![5, 2, 1, 1]].concat(), ..empty.clone() },
            Pass::Options,
        ),
        (flags(ECE), Pass::Flags),
        (flags(CWR), Pass::Flags),
        (flags(AE), Pass::Flags),
        (flags(PSH), Pass::Flags),
        (flags(URG), Pass::Flags),
        (flags(FIN), Pass::Flags),
        (flags(SYN), Pass::Flags),
        (flags(RST), Pass::Flags),
        (flags(0x200), Pass::Flags),
        (Frame { payload: vec![1], ..empty.clone() }, Pass::Data),
        (Frame { tos: 3, ..empty.clone() }, Pass::Congestion),
        (Frame { field: Field::Bad, ..empty.clone() }, Pass::Checksum),
        (Frame { ip_options: vec![1; 4], ..empty.clone() }, Pass::NoFlow),
        (Frame { flags_fragment: 0x2000, ..empty.clone() }, Pass::NoFlow),
        (Frame { keep: 50, ..empty }, Pass::NoFlow),
    ];
    for (frame, why) in cases {
        let out = left(Config::default(), &[ack(0), ack(1), ack(2), frame.clone()]);
        assert_eq!(out[1..], [(2, kept(Release::Bypass)), (3, passed(why))], "{frame:?}");
    }
}

/// A duplicate is never dropped later on, nor is one that came before its like was held.
#[test]
fn every_duplicate_passes() {
    let frames = [ack(0), ack(1), ack(1), ack(1), ack(1), ack(2), ack(2)];
    let out = left(Config::default(), &frames);
    let numbers: Vec<usize> = out.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    // A number that data has carried has been seen.
    let data = Frame { payload: vec![1; 9], ..ack(1) };
    let out = left(Config::default(), &[ack(0), data, ack(1), ack(2)]);
    assert_eq!(out[2], (2, passed(Pass::Repeated)));
}

#[test]
fn what_an_older_one_says_beside_its_number_is_not_lost() {
    let differs = kept(Release::Differs);
    let cases = [
        Frame { window: 499, ..ack(2) },
        Frame { options: timestamps(100, 60), ..ack(2) },
        Frame { options: timestamps(110, 50), ..ack(2) },
        Frame { options: Vec::new(), ..ack(2) },
        Frame { sequence: 2, ..ack(2) },
        Frame { tos: 4, ..ack(2) },
    ];
    for frame in cases {
        let out = left(Config::default(), &[ack(0), ack(1), frame.clone()]);
        assert_eq!(out[1..], [(1, differs), (2, kept(Release::Stop))], "{frame:?}");
    }
    // A larger window, another TTL and another identification take nothing away.
    for frame in [Frame { window: 501, ..ack(2) }, Frame { ttl: 9, id: 77, ..ack(2) }] {
        assert_eq!(
            left(Config::default(), &[ack(0), ack(1), frame])[1..],
            [(2, kept(Release::Stop))]
        );
    }
}

#[test]
fn numbers_and_timestamps_wrap() {
    let frame = |index: u32| Frame {
        acknowledgment: 0_u32.wrapping_sub(5_000).wrapping_add(2_000 * index),
        options: timestamps((u32::MAX - 2).wrapping_add(index), (u32::MAX - 1).wrapping_add(index)),
        ..ack(0)
    };
    let frames: Vec<Frame> = (0..5).map(frame).collect();
    let wrapped = Frame { options: timestamps(3, 4), ..frame(5) };
    let frames = [&frames[..3], &[wrapped]].concat();
    assert_eq!(left(Config::default(), &frames)[1..], [(3, kept(Release::Stop))]);
}

#[test]
fn a_run_is_bounded() {
    let config = Config { max_run: 3, ..Config::default() };
    let frames: Vec<Frame> = (0..8).map(ack).collect();
    let (run, stop) = (kept(Release::Run), kept(Release::Stop));
    assert_eq!(left(config, &frames), [(0, FIRST), (3, run), (6, run), (7, stop)]);
    for max_run in [0, 1] {
        let config = Config { max_run, ..Config::default() };
        assert_eq!(left(config, &frames).len(), 8, "nothing is held");
    }
}

#[test]
fn nothing_is_held_beyond_the_budget_counted_from_the_first() {
    let mut real = Real::new(Config::default());
    [0, 10, 20, 59].iter().zip(0..).for_each(|(us, index)| real.push_at(*us, &ack(index)));
    assert_eq!(real.filter.next_wakeup(), Some(Instant::from_ns(60_000)));
    real.advance(Instant::from_ns(59_999));
    assert_eq!(real.filter.held(), 1);
    real.advance(Instant::from_ns(60_000));
    assert_eq!(real.out[1..], [(3, kept(Release::Budget))]);
    assert_eq!((real.filter.counters().hold_ns.max(), real.filter.next_wakeup()), (50_000, None));
}

#[test]
fn flows_are_bounded_and_the_idle_ones_go_first() {
    let of = |port: u16, index| Frame { ports: (port, 9), ..ack(index) };
    let mut real = Real::new(Config { max_flows: 8, ..Config::default() });
    (1..=8).for_each(|port| real.push_at(port.into(), &of(port, 0)));
    [1, 3, 4, 5, 6, 7, 8].iter().for_each(|port| real.push_at(20, &of(*port, 1)));
    real.push_at(21, &of(9, 0));
    assert_eq!((real.filter.held(), real.filter.counters().flows_evicted), (7, 1));
    real.push_at(22, &of(9, 1));
    real.push_at(23, &of(10, 0));
    assert!(real.out.contains(&(8, kept(Release::TableFull))));
    assert_eq!(real.filter.flows(), 8);
}

#[test]
fn another_connection_begins_anew() {
    let syn = Frame { flags: SYN, acknowledgment: 0, ..ack(0) };
    let low = Frame { acknowledgment: 0x9000_0000, ..ack(0) };
    let out = left(Config::default(), &[ack(0), ack(1), syn, low]);
    assert_eq!(out[2..], [(2, passed(Pass::Flags)), (3, FIRST)]);
    let out = left(Config::default(), &[Frame { flags: SYN | ACK, ..ack(0) }, ack(0), ack(1)]);
    assert_eq!(out[1..], [(1, passed(Pass::Repeated)), (2, kept(Release::Stop))]);
}

#[test]
fn what_the_port_needs_is_not_dropped() {
    let mut filter = AckFilter::new(Config::default());
    let mut out = 0;
    for index in 0..4 {
        let arrival = arrival(&ack(index), 0);
        let mut packet = packet(0, &arrival);
        packet.meta = Meta { mark: Meta::NEVER, ..packet.meta };
        filter.push(packet, Instant::ZERO, &mut |_, _| out += 1);
    }
    assert_eq!(out, 4);
}

#[test]
fn the_stage_shows_its_counters_and_gives_everything_back() {
    let mut stage = stages::AckFilter::new(Config::default());
    let (mut input, mut output) = (Batch::new(), Batch::new());
    for index in 0..5 {
        assert!(input.push(packet(index, &arrival(&ack(index as u32), 0))).is_ok());
    }
    stage.process(&mut input, Instant::ZERO, &mut output);
    assert_eq!((output.len(), Stage::held(&stage)), (1, 1));
    assert_eq!(Stage::next_wakeup(&stage), Some(Instant::from_ns(50_000)));
    Stage::stop(&mut stage);
    stage.process(&mut input, Instant::ZERO, &mut output);
    let mut shown = Vec::new();
    Stage::counters(&stage, &mut |name, value| shown.push((name, value)));
    let expected = [("packets_in", 5), ("packets_out", 2), ("kept", 1), ("dropped", 3)];
    assert_eq!((&shown[..], output.len()), (&expected[..], 2));
}

/// State of a flow in the twin: all that it may still drop, and the newest number.
#[derive(Debug, Default)]
struct Flow {
    newest: Option<u32>,
    held: Vec<usize>,
    /// Time and number of the first of them.
    since: (u64, usize),
}

/// The twin: whether a packet may go is judged on the frames that were sent, all of them.
struct Twin<'a> {
    frames: &'a [(u64, Frame)],
    config: Config,
    flows: HashMap<(u16, bool), Flow>,
    out: Vec<(usize, Exit)>,
}

impl Twin<'_> {
    fn next_wakeup(&self) -> Option<u64> {
        let holding = self.flows.values().filter(|flow| !flow.held.is_empty());
        holding.map(|flow| flow.since.0 + ns(self.config.hold_budget)).min()
    }

    fn advance(&mut self, now: u64) {
        while self.next_wakeup().is_some_and(|wakeup| wakeup <= now) {
            let holding = self.flows.iter().filter(|(_, flow)| !flow.held.is_empty());
            let key = holding.min_by_key(|(_, flow)| flow.since).map(|(key, _)| *key);
            self.release(key.expect("it wakes up"), Release::Budget);
        }
    }

    fn release(&mut self, key: (u16, bool), why: Release) {
        let held = self.flows.get_mut(&key).map(|flow| core::mem::take(&mut flow.held));
        if let Some(last) = held.and_then(|held| held.last().copied()) {
            self.out.push((last, Exit::Kept(why)));
        }
    }

    fn push(&mut self, number: usize) {
        let (now, frame) = &self.frames[number];
        self.advance(*now);
        let key = (frame.ports.0, frame.v6);
        if frame.protocol == UDP {
            return self.out.push((number, passed(Pass::NotTcp)));
        }
        if frame.field == Field::Bad {
            self.release(key, Release::Bypass);
            return self.out.push((number, passed(Pass::Checksum)));
        }
        let judged = judge(frame);
        let acks = frame.flags & ACK != 0;
        let ends = frame.flags & (RST | FIN) != 0;
        let newest = self.flows.get(&key).and_then(|flow| flow.newest);
        let Some(newest) = newest else {
            if acks && !ends {
                let newest = Some(frame.acknowledgment);
                self.flows.insert(key, Flow { newest, ..Flow::default() });
            }
            return self.out.push((number, passed(judged.unwrap_or(Pass::First))));
        };
        let step = frame.acknowledgment.wrapping_sub(newest) as i32;
        let flow = self.flows.get_mut(&key).expect("it has a number");
        if acks && (step > 0 || frame.flags & SYN != 0) {
            flow.newest = Some(frame.acknowledgment);
        }
        if judged.is_none() && step > 0 {
            let may = flow.held.last().is_some_and(|held| says_all(&self.frames[*held].1, frame));
            if !may {
                self.release(key, Release::Differs);
            }
            let flow = self.flows.get_mut(&key).expect("it has a number");
            if flow.held.is_empty() {
                flow.since = (*now, number);
            }
            flow.held.push(number);
            if flow.held.len() >= self.config.max_run.into() {
                self.release(key, Release::Run);
            }
            return;
        }
        self.release(key, Release::Bypass);
        if ends || frame.flags & SYN != 0 && !acks {
            self.flows.remove(&key);
        }
        let number_seen = if step == 0 { Pass::Repeated } else { Pass::Old };
        self.out.push((number, passed(judged.unwrap_or(number_seen))));
    }
}

fn judge(frame: &Frame) -> Option<Pass> {
    if !frame.payload.is_empty() {
        Some(Pass::Data)
    } else if frame.flags != ACK {
        Some(Pass::Flags)
    } else if !(frame.options.is_empty() || frame.options[..4] == [1, 1, 8, 10]) {
        Some(Pass::Options)
    } else if frame.window == 0 {
        Some(Pass::ZeroWindow)
    } else {
        (frame.tos & 3 == 3).then_some(Pass::Congestion)
    }
}

fn says_all(older: &Frame, newer: &Frame) -> bool {
    let word = |options: &[u8], at: usize| linecard_testkit::packets::frame::be32(options, at);
    let later = |at| word(&newer.options, at).wrapping_sub(word(&older.options, at)) as i32 >= 0;
    let timestamps = older.options.is_empty() || later(4) && later(8);
    newer.options.len() == older.options.len()
        && timestamps
        && newer.window >= older.window
        && (newer.sequence, newer.tos) == (older.sequence, older.tos)
}

fn random(rng: &mut Rng, packets: usize) -> Vec<(u64, Frame)> {
    let mut flows: Vec<Frame> = (0..4_u16)
        .map(|port| Frame {
            ports: (port, 9),
            v6: port % 2 == 1,
            options: if rng.chance(0.8) { timestamps(1, 1) } else { Vec::new() },
            acknowledgment: 0_u32.wrapping_sub(rng.below(300_000) as u32),
            ..ack(0)
        })
        .collect();
    let (mut now, odd) = (0, pick(rng, &[0.02, 0.2, 0.6]));
    (0..packets)
        .map(|_| {
            now += pick(rng, &[0, 0, 300, 4_000, 30_000]);
            let base = &mut flows[rng.below(4) as usize];
            base.acknowledgment = base.acknowledgment.wrapping_add(2_896);
            if let Some(last) = base.options.get_mut(7).filter(|_| rng.chance(0.3)) {
                *last = last.wrapping_add(1);
            }
            let mut frame = base.clone();
            if rng.chance(odd) {
                change(rng, base, &mut frame);
            }
            (now, frame)
        })
        .collect()
}

fn change(rng: &mut Rng, base: &mut Frame, frame: &mut Frame) {
    match rng.below(13) {
        0 => frame.acknowledgment = frame.acknowledgment.wrapping_sub(2_896),
        1 => frame.acknowledgment = frame.acknowledgment.wrapping_sub(9_000),
        2 => base.window = pick(rng, &[500, 499, 501, 0]),
        3 => frame.payload = vec![1; between(rng, 1, 20) as usize],
        4 => frame.flags |= pick(rng, &[SYN, FIN, RST, PSH, URG, ECE, CWR, AE]),
        5 => frame.options = [&[1, 1, 5, 10][..], &[7; 8]].concat(),
        6 => frame.field = Field::Bad,
        7 => frame.tos = pick(rng, &[1, 3, 4]),
        8 => frame.sequence += 1,
        9 => frame.protocol = UDP,
        10 => frame.flags = pick(rng, &[SYN, RST, FIN, 0]),
        11 => base.acknowledgment = base.acknowledgment.wrapping_sub(rng.below(9_000) as u32),
        _ if frame.options.is_empty() => frame.ttl = 9,
        _ => frame.options = timestamps(rng.next_u64() as u32, rng.next_u64() as u32),
    }
}

/// Promise (Offloads): A dropped acknowledgment says nothing that a newer one, which leaves, does
/// not say: 400,000 packets beside a naive filter, 70,226 dropped.
#[test]
fn keeps_and_drops_what_the_twin_does() {
    let (mut packets, mut dropped) = (0, 0);
    for_seeds(&[], 1, 400, |seed| {
        let rng = &mut Rng::new(seed);
        let frames = random(rng, 1_000);
        let config = Config {
            max_run: pick(rng, &[1, 2, 8, 100]),
            hold_budget: Duration::from_nanos(pick(rng, &[0, 1_000, 50_000, 1_000_000])),
            secret: rng.next_u64(),
            ..Config::default()
        };
        let mut real = Real::new(config.clone());
        let mut twin = Twin { frames: &frames, config, flows: HashMap::new(), out: Vec::new() };
        for (number, (now, frame)) in frames.iter().enumerate() {
            assert_eq!(real.filter.next_wakeup().map(Instant::as_ns), twin.next_wakeup());
            real.advance(Instant::from_ns(*now));
            let arrival = arrival(frame, *now);
            let out = &mut real.out;
            real.filter.push(packet(number, &arrival), arrival.now, &mut |p, e| {
                out.push((p.buffer().number, e));
            });
            twin.push(number);
            assert_eq!(real.out, twin.out);
        }
        real.stop();
        check_left(&real, &frames);
        packets += frames.len();
        dropped += real.filter.counters().dropped;
    });
    println!("{packets} packets compared, {dropped} dropped");
}

/// Whatever was dropped was a pure acknowledgment, and a newer one of its flow has left; nothing
/// of a flow is overtaken.
fn check_left(real: &Real, frames: &[(u64, Frame)]) {
    let left: BTreeSet<usize> = real.out.iter().map(|(number, _)| *number).collect();
    assert_eq!(left.len(), real.out.len(), "a packet left twice");
    for number in (0..frames.len()).filter(|number| !left.contains(number)) {
        let frame = &frames[number].1;
        assert_eq!(judge(frame), None, "{frame:?}");
        let newer = left.range(number..).map(|later| &frames[*later].1).any(|later| {
            later.ports == frame.ports
                && later.acknowledgment.wrapping_sub(frame.acknowledgment) as i32 > 0
        });
        assert!(newer, "{number} was the newest");
    }
    for port in 0..4 {
        let mut order =
            real.out.iter().filter(|(n, _)| frames[*n].1.ports.0 == port).map(|(n, _)| n);
        let udp = |number: &usize| frames[*number].1.protocol == UDP;
        assert!(order.by_ref().filter(|number| !udp(number)).is_sorted());
    }
}
