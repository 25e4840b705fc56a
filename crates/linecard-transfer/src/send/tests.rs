mod limits;

use super::*;
use crate::wire::Range;
use alloc::vec;

const MS: u64 = 1_000_000;

pub(super) fn at(ms: u64) -> Instant {
    Instant::from_ns(1_000 * MS + ms * MS)
}

pub(super) fn lanes(count: usize) -> Vec<LaneSettings> {
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
    over(&lanes(count), settings)
}

pub(super) fn over(lanes: &[LaneSettings], settings: SendSettings) -> Sender {
    let settings = SendSettings { payload_bytes: 1_000, ..settings };
    let mut sender = Sender::new(settings, lanes, 3);
    for lane in 0..lanes.len() {
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
    let ack = Ack { lane, window_end: 100, done_below, done: [0; 4], delay_us: 0, ranges };
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
    // It would open the window to 100, and complete chunk 0.
    sender.window_end = 4;
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 1 << 40 }], 1, at(3));
    assert_eq!((sender.window_end, sender.chunks.len(), sender.is_done()), (4, 1, false));
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
    let last = all.last().unwrap();
    let Content::Probe { probe, .. } = last.body else { panic!("{last:?}") };
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
        let ack = Ack { lane: 0, window_end, done_below: 1, done: [0; 4], delay_us: 0, ranges };
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

#[test]
fn the_time_of_all_lanes_is_that_of_all_limits() {
    let times = LimitTimes {
        lane_ns: 1,
        reading_ns: 20,
        receiver_ns: 300,
        in_flight_ns: 4_000,
        down_ns: 50_000,
    };
    assert_eq!(times.sum_ns(), 54_321);
}

fn sender_of_much() -> Sender {
    let mut sender = sender(1, SendSettings::default());
    sender.offer(0, 1 << 20).unwrap();
    sender
}

fn events(sender: &mut Sender) -> Vec<SendEvent> {
    core::iter::from_fn(|| sender.next_event()).collect()
}

/// At most this many packets of `lane`.
fn poll_most(sender: &mut Sender, lane: usize, now: Instant, most: usize) -> Vec<Transmit> {
    let mut out = Vec::new();
    sender.poll(lane, now, most, &mut out);
    out
}

#[test]
fn one_more_chunk_than_lanes_may_be_offered() {
    let mut sender = windowed(2, SendSettings { window_end: 0, ..SendSettings::default() });
    for room in [3, 2, 1, 0] {
        assert_eq!(sender.room(), room);
        sender.offer(3 - room as u32, 100_000).unwrap();
    }
    assert_eq!(sender.room(), 0);
}

/// They are sent as soon as they may, and leave room for others.
#[test]
fn many_small_chunks_may_be_offered() {
    for (bytes, most) in [(100, MAX_OFFERED), (64 << 10, 4), (1 << 20, 2)] {
        let mut sender = sender(1, SendSettings::default());
        let mut offered = 0;
        while sender.room() > 0 {
            sender.offer(offered, bytes).unwrap();
            offered += 1;
        }
        assert_eq!(offered as usize, most, "{bytes} bytes");
        while !poll(&mut sender, 0, at(2)).is_empty() {}
        assert!(sender.room() > 0, "{bytes} bytes");
    }
}

#[test]
fn a_transfer_is_done_when_all_that_was_offered_has_arrived_and_no_more_comes() {
    let mut sender = sender(1, SendSettings::default());
    assert!(!sender.is_done());
    sender.offer(0, 3_000).unwrap();
    sender.finish();
    assert!(!sender.is_done());
    let sent = poll(&mut sender, 0, at(2));
    assert_eq!(sent.iter().map(Transmit::on_wire).collect::<Vec<_>>(), [1_040; 3]);
    assert!(!sender.is_done());
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 2 }], 0, at(5));
    assert_eq!((sender.last_progress(), sender.is_done()), (at(5), false));
    // Nothing new in it.
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 2 }], 0, at(6));
    assert_eq!(sender.last_progress(), at(5));
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 3 }], 1, at(9));
    assert!(sender.is_done());
    let done = SendEvent::Done { chunk: 0, latency_ns: 7 * MS };
    assert_eq!(events(&mut sender), [SendEvent::Up(0), done]);
    assert_eq!(sender.counters().chunks, 1);
    assert_eq!(sender.lane_counters().map(|lane| lane.packets).collect::<Vec<_>>(), [3]);
}

/// The other end answers the last packet for the time being at once, and others when it likes.
#[test]
fn the_last_packet_for_the_time_being_asks_for_an_acknowledgment() {
    let asks = |out: &[Transmit]| -> Vec<bool> {
        out.iter().map(|transmit| transmit.header.ack_now).collect()
    };
    let settings = SendSettings { under_way: 1, mode: Mode::Stable, ..SendSettings::default() };
    let mut one = sender(1, settings);
    one.offer(0, 5_000).unwrap();
    one.offer(1, 1_000).unwrap();
    assert_eq!(asks(&poll_most(&mut one, 0, at(2), 3)), [false; 3]);
    assert_eq!(asks(&poll_most(&mut one, 0, at(3), 3)), [false, true]);
    // Alone, a probe does not.
    one.validate_lanes();
    assert_eq!(asks(&poll(&mut one, 0, at(4))), [false]);
    // Another chunk may follow, and then the same lane's next poll sends it.
    let mut two = sender(1, SendSettings { under_way: 2, ..settings });
    two.offer(0, 2_000).unwrap();
    two.offer(1, 1_000).unwrap();
    assert_eq!(asks(&poll_most(&mut two, 0, at(2), 2)), [false; 2]);
    assert_eq!(asks(&poll_most(&mut two, 0, at(3), 2)), [true]);
}

/// Small chunks are bounded by their bytes, not by what full ones would take.
#[test]
fn no_more_chunks_are_in_flight_than_there_is_memory_for() {
    let settings = SendSettings { mode: Mode::Stable, memory_bytes: 3_500, ..Default::default() };
    let mut one = sender(1, SendSettings { window_end: 9, ..settings });
    for (chunk, bytes) in [(0, 5_000), (1, 1_000), (2, 2_000), (3, 500), (4, 1)] {
        one.offer(chunk, bytes).unwrap();
    }
    drain(&mut one, 0, at(2));
    assert_eq!((one.chunks.len(), one.held_bytes), (1, 5_000), "one is sent in any case");
    let acknowledge = |sender: &mut Sender, last, done_below, time| {
        give_ack(sender, 0, vec![Range { first: 0, last }], done_below, at(time));
        drain(sender, 0, at(time));
    };
    acknowledge(&mut one, 3, 1, 3);
    assert_eq!((one.chunks.len(), one.held_bytes), (3, 3_500));
    assert_eq!(one.shortage(), Limit::InFlight);
    acknowledge(&mut one, 6, 3, 4);
    assert_eq!((one.chunks.len(), one.held_bytes, one.offered.len()), (2, 501, 0));
}

#[test]
fn no_more_is_in_flight_than_the_window_of_a_lane() {
    for rate in 0..100 {
        let mut lane = lanes(1);
        lane[0].rate_bits_per_second = 20_000_000 + rate * 100_000;
        let settings = SendSettings { payload_bytes: 1_000, window_end: 9, ..Default::default() };
        let mut sender = Sender::new(settings, &lane, 3);
        answer(&mut sender, 0, at(0));
        sender.offer(0, 1 << 20).unwrap();
        drain(&mut sender, 0, at(2));
        let found = sender.lane(0).unwrap();
        let window = crate::lane::Control::new(&lane[0]).window(&lane[0], found.rtt());
        let room = window - found.in_flight();
        assert!(room < 1_040, "{rate}: {room} of {window} left");
    }
}

#[test]
fn what_makes_no_sense_is_counted() {
    let mut sender = sender(1, SendSettings::default());
    let header = sender.header(Kind::Probe, 0, 0);
    sender.receive(&header, &[1; 3], at(3));
    let ack = Ack {
        lane: 9,
        window_end: 100,
        done_below: 0,
        done: [0; 4],
        delay_us: 0,
        ranges: vec![Range { first: 0, last: 0 }],
    };
    let mut body = Vec::new();
    ack.write(&mut body);
    sender.receive(&sender.header(Kind::Ack, 0, 0), &body, at(3));
    assert_eq!(sender.counters().refused, 2);
}

#[test]
fn a_lane_whose_socket_fails_leaves_its_packets_to_others_and_is_probed() {
    let mut sender = sender(2, SendSettings { mode: Mode::Stable, ..SendSettings::default() });
    sender.offer(0, 3_000).unwrap();
    assert_eq!(data(&poll(&mut sender, 0, at(2))).len(), 3);
    let state = |sender: &Sender, lane| sender.lane(lane).map(LaneSender::state).unwrap();
    assert_eq!(events(&mut sender), [SendEvent::Up(0), SendEvent::Up(1)]);
    sender.fail(0, at(3));
    sender.fail(0, at(3));
    sender.fail(7, at(3));
    assert_eq!(state(&sender, 0), LaneState::Suspect);
    assert_eq!(events(&mut sender), [SendEvent::Down(0)]);
    assert_eq!(sender.control_header(0, at(3)), None);
    assert_eq!(data(&poll(&mut sender, 1, at(4))), [(0, 0), (0, 1), (0, 2)]);
    assert_eq!(sender.counters().resent, 3);
    // It is probed once, and with its new connection at once again.
    let probe = |sender: &mut Sender, now| match poll(sender, 0, now)[..] {
        [Transmit { body: Content::Probe { probe, .. }, .. }] => probe.challenge,
        _ => None,
    };
    let first = probe(&mut sender, at(4)).unwrap();
    assert_eq!(probe(&mut sender, at(5)), None);
    sender.probe_now(0);
    let second = probe(&mut sender, at(6)).unwrap();
    assert_ne!(first, second);
    give_probe(&mut sender, 0, Some(second), at(7));
    assert_eq!(events(&mut sender), [SendEvent::Up(0)]);
    // The other end closes it: that is no failure, and for good.
    sender.receive(&sender.header(Kind::Close, 0, 0), &[], at(8));
    assert_eq!((state(&sender, 0), state(&sender, 1)), (LaneState::Closed, LaneState::Alive));
    assert_eq!(events(&mut sender), [SendEvent::Down(0)]);
    assert!(poll(&mut sender, 0, at(5_000)).is_empty());
    assert_eq!(sender.lane(0).map(|lane| lane.counters.deaths), Some(1));
}

#[test]
fn lanes_that_seem_to_work_are_probed_when_the_other_end_is_not_heard() {
    let mut sender = sender(3, SendSettings::default());
    sender.close(1, at(1));
    sender.fail(2, at(1));
    assert!(poll(&mut sender, 0, at(2)).is_empty());
    assert_eq!(poll(&mut sender, 2, at(2)).len(), 1);
    sender.validate_lanes();
    let probes = [0, 1, 2].map(|lane| poll(&mut sender, lane, at(3)).len());
    assert_eq!(probes, [1, 0, 0]);
}

#[test]
fn control_messages_have_numbers_of_their_lane() {
    let settings = SendSettings { connection: 5, ..SendSettings::default() };
    let mut unanswered = Sender::new(settings, &lanes(1), 3);
    assert_eq!(unanswered.control_header(0, at(1)), None);
    let mut sender = sender(2, settings);
    let header = sender.control_header(1, at(1)).unwrap();
    assert_eq!(header, Header::without_chunk(Kind::Control, 1, 5, 1));
    assert_eq!(sender.control_header(2, at(1)), None);
}

#[test]
fn counters_are_those_of_all_chunks() {
    let mut sender = sender(1, SendSettings::default());
    let layout = Layout::new(1_000, 1_000, crate::fec::Scheme::NONE).unwrap();
    for id in 0..2 {
        let mut chunk = Chunk::new(id, layout, Default::default(), 1, at(1));
        (chunk.resent, chunk.duplicates, chunk.repair) = (1, 2, 3);
        (chunk.repaired, chunk.exposed) = (4, 5);
        sender.held_bytes += 1_000;
        sender.chunks.push(chunk);
    }
    poll(&mut sender, 0, at(2));
    // One is complete, the other counts while it is in flight.
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 0 }], 1, at(3));
    let counters = SendCounters {
        chunks: 1,
        resent: 2,
        duplicates: 4,
        repair: 6,
        repaired: 8,
        exposed: 10,
        refused: 0,
    };
    assert_eq!((sender.chunks.len(), sender.counters()), (1, counters));
    assert_eq!(sender.held_bytes, 1_000);
}

/// With as many chunks as lanes each lane takes its own; with fewer, they share.
#[test]
fn the_automatic_mode_shares_chunks_that_are_fewer_than_the_working_lanes() {
    let spread = |chunks: u32, broken: Option<usize>| {
        let mut sender = sender(2, SendSettings { mode: Mode::Auto, ..SendSettings::default() });
        broken.into_iter().for_each(|lane| sender.fail(lane, at(1)));
        (0..chunks).for_each(|chunk| sender.offer(chunk, 5_000).unwrap());
        poll_most(&mut sender, 0, at(2), 1);
        sender.chunks[0].spread
    };
    assert_eq!(spread(1, None), chunk::Spread::All);
    assert_eq!(spread(2, None), chunk::Spread::One(0));
    assert_eq!(spread(3, None), chunk::Spread::One(0));
    assert_eq!(spread(1, Some(1)), chunk::Spread::One(0));
}

#[test]
fn a_change_of_the_mode_counts_for_the_next_chunk() {
    let mut sender = sender(2, SendSettings { mode: Mode::Stable, ..SendSettings::default() });
    sender.offer(0, 5_000).unwrap();
    sender.offer(1, 5_000).unwrap();
    poll_most(&mut sender, 0, at(2), 1);
    sender.set_mode(Mode::LowLatency);
    poll_most(&mut sender, 1, at(2), 1);
    let spreads: Vec<chunk::Spread> = sender.chunks.iter().map(|chunk| chunk.spread).collect();
    assert_eq!(spreads, [chunk::Spread::One(0), chunk::Spread::All]);
}

#[test]
fn nothing_is_left_to_lanes_that_do_not_work() {
    let settings = SendSettings { mode: Mode::Stable, under_way: 3, ..SendSettings::default() };
    let mut sender = sender(2, settings);
    sender.fail(1, at(1));
    for chunk in 0..3 {
        sender.offer(chunk, 1_000).unwrap();
    }
    assert_eq!(data(&drain(&mut sender, 0, at(2))), [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn a_lane_without_chunks_helps_with_those_of_another_when_no_more_come() {
    let mut sender = sender(2, SendSettings { mode: Mode::Stable, ..SendSettings::default() });
    sender.offer(0, 5_000).unwrap();
    assert_eq!(data(&poll_most(&mut sender, 0, at(2), 2)), [(0, 0), (0, 1)]);
    assert!(sender.has_work(1));
    assert_eq!(sender.next_wakeup(1).map(|due| due <= at(2)), Some(true));
    assert_eq!(data(&poll_most(&mut sender, 1, at(2), 2)), [(0, 2), (0, 3)]);
    assert_eq!(data(&poll_most(&mut sender, 0, at(3), 2)), [(0, 4)]);
    assert!(!sender.has_work(0) && !sender.has_work(1));
}

/// Packets of a slow or silent lane are sent again by one that is idle, but no more than are allowed for the chunk.
#[test]
fn an_idle_lane_sends_again_what_another_would_bring_late() {
    let late = |permille, mode| {
        let settings = SendSettings { duplicates_permille: permille, mode, ..Default::default() };
        let mut sender = sender(2, settings);
        sender.offer(0, 10_000).unwrap();
        assert_eq!(data(&poll(&mut sender, 0, at(2))).len(), 10);
        // It is not late yet, and on its own lane never.
        assert!(data(&poll(&mut sender, 1, at(4))).is_empty());
        assert!(data(&poll(&mut sender, 0, at(12))).is_empty());
        let again = data(&poll(&mut sender, 1, at(12)));
        assert_eq!(sender.counters().duplicates, again.len() as u64);
        assert!(again.iter().zip(0..).all(|(found, index)| *found == (0, index)), "{again:?}");
        again.len()
    };
    assert_eq!(late(300, Mode::LowLatency), 3);
    assert_eq!(late(99, Mode::LowLatency), 0);
    assert_eq!(late(1_000, Mode::LowLatency), 10);
    assert_eq!(late(1_000, Mode::Stable), 0);
}

/// Only a working lane that waits, with nothing in flight and nothing to send, asks the other end for news.
#[test]
fn a_lane_asks_for_news_only_while_it_waits_for_some() {
    let settings = SendSettings { mode: Mode::Stable, window_end: 1, ..SendSettings::default() };
    let mut sender = windowed(3, settings);
    let asks = |sender: &Sender| [0, 1, 2].map(|lane| sender.quiet_due(lane).is_some());
    assert_eq!(asks(&sender), [false; 3]);
    // Any of them may start the chunk.
    sender.offer(0, 2_000).unwrap();
    assert_eq!(asks(&sender), [false; 3]);
    // One has sent a part, and the others may help.
    poll_most(&mut sender, 0, at(2), 1);
    assert_eq!(asks(&sender), [false; 3]);
    // One has it in flight, another has failed; the third waits for its completion.
    poll_most(&mut sender, 0, at(3), 1);
    sender.fail(1, at(3));
    assert_eq!(asks(&sender), [false, false, true]);
    // The window is closed for the next one.
    sender.offer(1, 2_000).unwrap();
    assert_eq!(asks(&sender), [false, false, true]);
    let quiet = sender.lane(2).unwrap().quiet_until();
    assert!(!sender.quiet_lane(2, at(1)) && sender.quiet_lane(2, quiet));
    assert_eq!(sender.next_wakeup(2), Some(quiet));
}
