use super::*;
use crate::wire::Range;
use alloc::vec;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_ns(1_000 * MS + ms * MS)
}

fn lanes(count: usize) -> Vec<LaneSettings> {
    let lane = LaneSettings {
        rate_bits_per_second: 100_000_000,
        datagram_bytes: 1_040,
        ..LaneSettings::default()
    };
    vec![lane; count]
}

/// A sender whose lanes have all been answered on.
fn sender(count: usize, settings: SendSettings) -> Sender {
    windowed(count, SendSettings { window_end: 100, ..settings })
}

fn windowed(count: usize, settings: SendSettings) -> Sender {
    let settings = SendSettings { payload_bytes: 1_000, ..settings };
    let mut sender = Sender::new(settings, &lanes(count), 3);
    for lane in 0..count {
        answer(&mut sender, lane, at(0));
    }
    sender
}

fn poll(sender: &mut Sender, lane: usize, now: Instant) -> Vec<Transmit> {
    let mut out = Vec::new();
    sender.poll(lane, now, 1_000, &mut out);
    out
}

/// Answers the probe that `lane` sends.
fn answer(sender: &mut Sender, lane: usize, now: Instant) {
    let out = poll(sender, lane, now);
    let Some(Content::Probe { probe, .. }) = out.first().map(|transmit| transmit.body) else {
        panic!("lane {lane} does not probe");
    };
    give_probe(sender, lane, probe.challenge, now.plus_ns(MS));
}

fn give_probe(sender: &mut Sender, lane: usize, response: Option<u64>, now: Instant) {
    let mut body = Vec::new();
    Probe { challenge: None, response }.write(&mut body, 0);
    let header = sender.header(Kind::Probe, lane, 0);
    sender.receive(&header, &body, now);
}

fn give_ack(sender: &mut Sender, lane: u16, ranges: Vec<Range>, done_below: u32, now: Instant) {
    let ack = Ack { lane, window_end: 100, done_below, done: 0, delay_us: 0, ranges };
    let mut body = Vec::new();
    ack.write(&mut body);
    let header = sender.header(Kind::Ack, usize::from(lane), 0);
    sender.receive(&header, &body, now);
}

fn data(out: &[Transmit]) -> Vec<(u32, u32)> {
    let data = out.iter().filter(|transmit| transmit.header.kind == Kind::Data);
    data.map(|transmit| (transmit.header.chunk, transmit.header.index)).collect()
}

/// All that `lane` sends until it has to wait for acknowledgments.
fn drain(sender: &mut Sender, lane: usize, from: Instant) -> Vec<Transmit> {
    let mut all = Vec::new();
    for step in 0..200 {
        all.extend(poll(sender, lane, from.plus_ns(step * MS / 10)));
    }
    all
}

#[test]
fn no_lane_is_used_before_it_has_answered_and_nobody_can_guess_the_answer() {
    let mut sender = Sender::new(SendSettings::default(), &lanes(1), 3);
    sender.offer(0, 10_000).unwrap();
    let out = poll(&mut sender, 0, at(0));
    assert_eq!((out.len(), out[0].header.kind), (1, Kind::Probe));
    for guess in [None, Some(0), Some(u64::MAX)] {
        give_probe(&mut sender, 0, guess, at(1));
    }
    assert!(data(&poll(&mut sender, 0, at(2))).is_empty());
    assert_eq!(sender.lane(0).map(|lane| lane.counters.forged), Some(2));
}

#[test]
fn stable_gives_each_lane_chunks_of_its_own_and_low_latency_shares_them() {
    let settings = SendSettings { mode: Mode::Stable, window_end: 4, ..SendSettings::default() };
    let mut stable = windowed(2, settings);
    let settings = SendSettings { mode: Mode::LowLatency, under_way: 1, ..settings };
    let mut low = windowed(2, settings);
    for chunk in 0..6 {
        stable.offer(chunk, 5_000).unwrap();
        low.offer(chunk, 5_000).unwrap();
    }
    let chunks = |sender: &mut Sender, lane| {
        let mut chunks: Vec<u32> =
            data(&drain(sender, lane, at(2))).into_iter().map(|(chunk, _)| chunk).collect();
        chunks.dedup();
        chunks
    };
    assert_eq!((chunks(&mut stable, 0), chunks(&mut stable, 1)), (vec![0, 1], vec![2, 3]));
    assert_eq!((chunks(&mut low, 0), chunks(&mut low, 1)), (vec![0], vec![]));
    give_ack(&mut low, 0, vec![Range { first: 0, last: 5 }], 1, at(30));
    assert_eq!(chunks(&mut low, 1), [1]);
}

/// Until what was sent should have left the lane's queue; then the lane is woken for it.
#[test]
fn low_latency_waits_for_queues() {
    let settings = SendSettings { mode: Mode::LowLatency, ..SendSettings::default() };
    let mut sender = sender(1, settings);
    sender.offer(0, 1_000).unwrap();
    assert_eq!(data(&poll(&mut sender, 0, at(2))), [(0, 0)]);
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 1 }], 1, at(42));
    let queued_ns = sender.lane(0).unwrap().rtt().queued_ns();
    assert!(queued_ns > MS, "{queued_ns}");
    sender.offer(1, 1_000).unwrap();
    sender.offer(2, 1_000).unwrap();
    assert_eq!(data(&poll(&mut sender, 0, at(50))), [(1, 0)]);
    let clear = at(50).plus_ns(queued_ns);
    assert_eq!(sender.next_wakeup(0), Some(clear));
    assert!(poll(&mut sender, 0, at(50).plus_ns(queued_ns - 1)).is_empty());
    assert_eq!(data(&poll(&mut sender, 0, clear)), [(2, 0)]);
}

/// Two for each lane, then more for lanes that have room.
#[test]
fn a_lane_leaves_two_chunks_to_others() {
    let settings = SendSettings { mode: Mode::Stable, under_way: 5, ..SendSettings::default() };
    let mut sender = sender(2, settings);
    for chunk in 0..6 {
        sender.offer(chunk, 1_000).unwrap();
    }
    let chunks = |sender: &mut Sender, lane| -> Vec<u32> {
        data(&drain(sender, lane, at(2))).into_iter().map(|(chunk, _)| chunk).collect()
    };
    assert_eq!(chunks(&mut sender, 0), [0, 1, 2]);
    assert_eq!(chunks(&mut sender, 1), [3, 4]);
}

#[test]
fn a_window_that_is_closed_is_asked_about() {
    let settings = SendSettings { payload_bytes: 1_000, window_end: 0, ..SendSettings::default() };
    let mut sender = Sender::new(settings, &lanes(1), 3);
    sender.offer(0, 5_000).unwrap();
    answer(&mut sender, 0, at(0));
    assert!(poll(&mut sender, 0, at(2)).is_empty());
    let due = sender.next_wakeup(0).unwrap();
    assert!(due > at(2) && due < at(1_000));
    let out = poll(&mut sender, 0, due);
    assert_eq!(out.iter().map(|transmit| transmit.header.kind).collect::<Vec<_>>(), [Kind::Probe]);
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 0 }], 0, due);
    assert_eq!(data(&drain(&mut sender, 0, due)).len(), 5);
}

#[test]
fn what_a_silent_lane_had_goes_over_another() {
    let mut sender = sender(2, SendSettings { mode: Mode::Stable, ..SendSettings::default() });
    sender.offer(0, 8_000).unwrap();
    assert_eq!(data(&drain(&mut sender, 0, at(2))).len(), 8);
    sender.offer(1, 8_000).unwrap();
    sender.finish();
    assert_eq!(data(&drain(&mut sender, 1, at(2))).len(), 8);
    give_ack(&mut sender, 1, vec![Range { first: 0, last: 8 }], 0, at(25));
    sender.tick(at(60));
    let events: Vec<SendEvent> = core::iter::from_fn(|| sender.next_event()).collect();
    assert!(events.contains(&SendEvent::Down(0)), "{events:?}");
    let moved = data(&drain(&mut sender, 1, at(60)));
    assert_eq!(moved, (0..8).map(|index| (0, index)).collect::<Vec<_>>());
    // It was not dead, only late: what had come is not sent a third time. But it may have broken since.
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 8 }], 0, at(62));
    assert_eq!(sender.lane(0).map(LaneSender::state), Some(LaneState::Suspect));
    answer(&mut sender, 0, at(63));
    assert_eq!(sender.lane(0).map(LaneSender::state), Some(LaneState::Alive));
    give_ack(&mut sender, 1, vec![Range { first: 0, last: 16 }], 2, at(80));
    assert!(sender.is_done());
}

#[test]
fn forged_acknowledgments_change_nothing() {
    let mut sender = sender(1, SendSettings::default());
    sender.offer(0, 3_000).unwrap();
    assert_eq!(data(&drain(&mut sender, 0, at(2))).len(), 3);
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 1 << 40 }], 0, at(3));
    give_ack(&mut sender, 9, vec![Range { first: 0, last: 1 }], 0, at(3));
    let header = sender.header(Kind::Ack, 0, 0);
    sender.receive(&header, &[1; 7], at(3));
    sender.receive(&Header { kind: Kind::Data, ..header }, &[], at(3));
    sender.receive(&Header { lane: 7, ..header }, &[], at(3));
    assert_eq!(sender.lane(0).map(LaneSender::in_flight), Some(3 * 1_040));
    assert_eq!(sender.counters().refused, 4);
    assert_eq!(sender.lane(0).map(|lane| lane.counters.forged), Some(1));
}

#[test]
fn modes_switch_without_losing_a_chunk() {
    let mut sender = sender(2, SendSettings { mode: Mode::Stable, ..SendSettings::default() });
    for chunk in 0..3 {
        sender.offer(chunk, 4_000).unwrap();
    }
    let mut all = data(&poll(&mut sender, 0, at(2)));
    sender.set_mode(Mode::LowLatency);
    sender.finish();
    for step in 0..400 {
        let now = at(2).plus_ns(step * MS / 10);
        for lane in [1, 0] {
            all.extend(data(&poll(&mut sender, lane, now)));
        }
        if step == 200 {
            give_ack(&mut sender, 0, vec![Range { first: 0, last: 0 }], 1, now);
        }
    }
    all.sort_unstable();
    all.dedup();
    let mut should: Vec<(u32, u32)> =
        (0..3).flat_map(|chunk| (0..4).map(move |index| (chunk, index))).collect();
    should.sort_unstable();
    assert_eq!(all[..8], should[..8]);
}

/// Addresses named by the other end may belong to anybody: until somebody answers there, probes are
/// short and few.
#[test]
fn an_address_that_has_not_answered_gets_few_short_probes_and_no_data() {
    let settings = SendSettings { payload_bytes: 1_000, window_end: 100, ..Default::default() };
    let mut lane = lanes(1);
    lane[0].unproven = true;
    let mut sender = Sender::new(settings, &lane, 3);
    sender.offer(0, 5_000).unwrap();
    let all: Vec<Transmit> = (0..30_000).flat_map(|ms| poll(&mut sender, 0, at(ms))).collect();
    let is_short = |transmit: &Transmit| transmit.on_wire() < 64;
    assert!(all.len() < 40 && all.iter().all(is_short), "{} {:?}", all.len(), all.first());
    let Content::Probe { probe, .. } = all[0].body else { panic!("{:?}", all[0]) };
    // It answers: the next probe asks whether full packets pass, and data wait for that answer.
    give_probe(&mut sender, 0, probe.challenge, at(30_000));
    let out = poll(&mut sender, 0, at(30_001));
    let [Transmit { body: Content::Probe { probe, bytes: 1_000 }, .. }] = out[..] else {
        panic!("{out:?}")
    };
    give_probe(&mut sender, 0, probe.challenge, at(30_002));
    assert_eq!(data(&drain(&mut sender, 0, at(30_002))).len(), 5);
}

/// The window is closed for a second, as it is while the receiver writes many small files: a lane with nothing in
/// flight probes the other end, but an answer is not a reason to ask again at once.
#[test]
fn a_lane_that_waits_for_the_window_probes_seldom_though_each_probe_is_answered() {
    let settings = SendSettings { mode: Mode::Stable, window_end: 1, ..SendSettings::default() };
    let mut sender = windowed(1, settings);
    sender.offer(0, 1_000).unwrap();
    sender.offer(1, 1_000).unwrap();
    let sent = data(&poll(&mut sender, 0, at(2)));
    assert_eq!(sent, [(0, 0)]);
    let ack = |sender: &mut Sender, window_end, largest, now| {
        let ranges = vec![Range { first: 0, last: largest }];
        let ack = Ack { lane: 0, window_end, done_below: 1, done: 0, delay_us: 0, ranges };
        let mut body = Vec::new();
        ack.write(&mut body);
        let header = sender.header(Kind::Ack, 0, 0);
        sender.receive(&header, &body, now);
    };
    ack(&mut sender, 1, 1, at(3));
    let mut probes = Vec::new();
    // The answer takes a tenth of a millisecond.
    for step in 0..10_000_u64 {
        let now = at(3).plus_ns(step * MS / 10);
        sender.tick(now);
        for transmit in poll(&mut sender, 0, now) {
            let Content::Probe { probe, .. } = transmit.body else { panic!("{transmit:?}") };
            probes.push(now);
            give_probe(&mut sender, 0, probe.challenge, now.plus_ns(MS / 10));
            ack(&mut sender, 1, transmit.header.packet_number, now.plus_ns(MS / 10));
        }
    }
    // A lost window update is repeated soon, and a lane that has died is found.
    assert!(probes[0] < at(60), "{probes:?}");
    assert!((5..=12).contains(&probes.len()), "{} probes", probes.len());
    assert!(probes.windows(2).all(|two| two[1].ns_since(two[0]) <= 250 * MS), "{probes:?}");
    let last = sender.lane(0).unwrap();
    assert_eq!((last.state(), last.counters.deaths), (LaneState::Alive, 0));
    ack(&mut sender, 2, 1, at(1_100));
    assert_eq!(data(&poll(&mut sender, 0, at(1_100))), [(1, 0)]);
}

/// Each lane is under one limit at a time; a shortage is named by its reason.
#[test]
fn the_limits_of_lanes_are_told_apart() {
    let mut sender = windowed(1, SendSettings { window_end: 1, ..SendSettings::default() });
    // Nothing has been read.
    poll(&mut sender, 0, at(10));
    poll(&mut sender, 0, at(20));
    assert_eq!(sender.limits().reading_ns, 10 * MS);
    // One chunk fits into the receiver, the next does not.
    sender.offer(0, 10_000).unwrap();
    sender.offer(1, 10_000).unwrap();
    poll(&mut sender, 0, at(30));
    poll(&mut sender, 0, at(35));
    let times = sender.limits();
    assert_eq!((times.reading_ns, times.receiver_ns + times.lane_ns), (20 * MS, 5 * MS));
    for step in 0..20 {
        poll(&mut sender, 0, at(35 + step));
    }
    assert!(sender.limits().receiver_ns > 10 * MS, "{:?}", sender.limits());
    // A lane that is full is its own limit.
    let mut sender = sender_of_much();
    poll(&mut sender, 0, at(10));
    poll(&mut sender, 0, at(14));
    assert_eq!(sender.limits().lane_ns, 4 * MS);
}

fn sender_of_much() -> Sender {
    let mut sender = sender(1, SendSettings::default());
    sender.offer(0, 1 << 20).unwrap();
    sender
}
