//! The limits that keep lanes from sending more.

use super::*;

#[test]
fn chunks_count_as_offered_until_they_are_started() {
    let mut sender = windowed(1, SendSettings { window_end: 1, ..SendSettings::default() });
    for chunk in 0..8 {
        sender.offer(chunk, 64 << 10).unwrap();
    }
    assert_eq!(sender.room(), 0);
    assert!(!poll(&mut sender, 0, at(10)).is_empty(), "the first one is started");
    assert_eq!(sender.room(), 0, "seven are too many, still");
}

/// Each lane is under one limit at a time; a shortage is named by its reason.
#[test]
fn the_limits_of_lanes_are_told_apart() {
    let mut sender = windowed(1, SendSettings { window_end: 1, ..SendSettings::default() });
    // Nothing has been read.
    poll(&mut sender, 0, at(10));
    poll(&mut sender, 0, at(20));
    assert_eq!(sender.limits().reading_ns, 10 * MS);
    // It cannot be, before the receiver answers.
    let mut waiting = windowed(1, SendSettings { window_end: 1, ..SendSettings::default() });
    waiting.await_receiver(true);
    poll(&mut waiting, 0, at(10));
    waiting.await_receiver(false);
    poll(&mut waiting, 0, at(15));
    poll(&mut waiting, 0, at(22));
    let times = waiting.limits();
    assert_eq!((times.receiver_ns, times.reading_ns), (5 * MS, 7 * MS));
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

/// A slow reader behind the receiver was no limit: the time after the last packet did not count.
#[test]
fn what_has_arrived_waits_for_the_receiver() {
    let mut sender = sender(1, SendSettings { mode: Mode::Stable, ..SendSettings::default() });
    sender.offer(0, 1_000).unwrap();
    sender.finish();
    poll(&mut sender, 0, at(10));
    // On its way.
    poll(&mut sender, 0, at(20));
    assert_eq!(sender.limits().receiver_ns, 0);
    give_ack(&mut sender, 0, vec![Range { first: 0, last: 1 }], 1, at(20));
    assert!(sender.is_done());
    poll(&mut sender, 0, at(20));
    poll(&mut sender, 0, at(90));
    assert_eq!(sender.limits().receiver_ns, 70 * MS);
}

/// A lane that never answered, of three, had a rate of 0 among those that limit; of two, it was the limit.
#[test]
fn a_lane_that_is_not_reached_while_others_work_is_no_limit() {
    let lanes = lanes(2);
    let mut sender = Sender::new(SendSettings::default(), &lanes, 3);
    for lane in 0..2 {
        poll(&mut sender, lane, at(0));
    }
    for lane in 0..2 {
        poll(&mut sender, lane, at(5));
    }
    assert_eq!(sender.limits().down_ns, 10 * MS, "neither is reached yet");
    answer(&mut sender, 0, at(300));
    let before = sender.limits().down_ns;
    poll(&mut sender, 1, at(310));
    poll(&mut sender, 1, at(900));
    assert!(sender.limits().down_ns - before <= 310 * MS, "{:?}", sender.limits());
}

#[test]
fn a_lane_without_chunks_is_under_the_limit_that_keeps_it_from_starting_one() {
    let settings = SendSettings { mode: Mode::Stable, under_way: 1, ..SendSettings::default() };
    let mut one = sender(1, settings);
    one.offer(0, 1_000).unwrap();
    one.offer(1, 1_000).unwrap();
    poll(&mut one, 0, at(10));
    poll(&mut one, 0, at(20));
    assert_eq!((one.limits().in_flight_ns, one.limits().receiver_ns), (10 * MS, 0));
    give_ack(&mut one, 0, vec![Range { first: 0, last: 1 }], 1, at(20));
    poll(&mut one, 0, at(20));
    one.finish();
    poll(&mut one, 0, at(25));
    poll(&mut one, 0, at(30));
    // Until nothing was to be read any more.
    let times = one.limits();
    assert_eq!((times.in_flight_ns, times.reading_ns), (10 * MS, 5 * MS));
    // It keeps room for another lane.
    let mut two = sender(2, SendSettings { under_way: 5, ..settings });
    for chunk in 0..6 {
        two.offer(chunk, 1_000).unwrap();
    }
    poll(&mut two, 0, at(10));
    let before = two.limits();
    poll(&mut two, 0, at(20));
    assert_eq!(two.limits(), LimitTimes { lane_ns: before.lane_ns + 10 * MS, ..before });
}
