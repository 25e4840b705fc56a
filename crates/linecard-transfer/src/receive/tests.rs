use super::*;
use crate::store::Store;
use crate::wire::OVERHEAD_BYTES;
use alloc::vec;
use linecard::rng::Rng;

fn settings(window: u32, fec: Scheme) -> ReceiveSettings {
    ReceiveSettings {
        connection: 9,
        lanes: 2,
        payload_bytes: 1_000,
        chunk_bytes: 4_096,
        fec,
        window,
        memory_bytes: u64::MAX,
        ack: AckSettings::default(),
    }
}

fn receiver(window: u32, fec: &str) -> Receiver {
    Receiver::new(settings(window, fec.parse().unwrap()), &[], 1).unwrap()
}

fn data(packet_number: u64, chunk: u32, index: u32) -> Header {
    Header {
        kind: Kind::Data,
        key_phase: false,
        ack_now: false,
        lane: 0,
        connection: 9,
        packet_number,
        chunk,
        index,
    }
}

const FULL: [u8; 1_000] = [0; 1_000];
const LAST: [u8; 96] = [0; 96];

fn put(receiver: &mut Receiver, header: &Header, body: &[u8]) -> Arrival {
    receiver.receive(header, body, Instant::from_ns(1_000))
}

/// Sends a whole chunk of 4,096 bytes; packet numbers from `number` on.
fn whole(receiver: &mut Receiver, chunk: u32, number: u64) {
    for index in 0..5 {
        let body = if index == 4 { &LAST[..] } else { &FULL[..] };
        let arrival = put(receiver, &data(number + u64::from(index), chunk, index), body);
        assert_eq!(arrival, Arrival::Data { chunk, offset: index * 1_000, of: 4_096 });
    }
}

fn ack(receiver: &mut Receiver) -> Option<Ack> {
    ack_at(receiver, Instant::from_ns(10_000_000))
}

fn ack_at(receiver: &mut Receiver, now: Instant) -> Option<Ack> {
    match receiver.poll(0, now) {
        Some((Reply::Ack(ack), None)) => Some(ack),
        _ => None,
    }
}

/// Attempts of a hostile or broken sender: all of it is counted, and nothing is kept for it.
#[test]
fn what_cannot_be_is_refused_and_counted() {
    let mut receiver = receiver(2, "rs:4,2");
    receiver.announce(0, 4_096).unwrap();
    let repair = |number, index| Header { kind: Kind::Repair, ..data(number, 0, index) };
    let tries = [
        (Header { lane: 2, ..data(0, 0, 0) }, &FULL[..], Refusal::Unknown),
        (Header { connection: 8, ..data(0, 0, 0) }, &FULL, Refusal::Unknown),
        (Header { kind: Kind::Ack, ..data(0, 0, 0) }, &FULL, Refusal::Unknown),
        (data(1, 2, 0), &FULL, Refusal::Window),
        (data(2, u32::MAX, 0), &FULL, Refusal::Window),
        (data(3, 0, 5), &FULL, Refusal::Place),
        (data(4, 0, u32::MAX), &FULL, Refusal::Place),
        (repair(5, 2 << 8), &FULL, Refusal::Place),
        (repair(6, 2), &FULL, Refusal::Place),
        (data(7, 0, 0), &LAST, Refusal::Length),
        (data(8, 0, 4), &FULL, Refusal::Length),
        (repair(9, 0), &LAST, Refusal::Length),
        (data(10, 0, 0), &[], Refusal::Length),
        (data(10, 0, 0), &FULL, Refusal::Replayed),
    ];
    for (header, body, why) in tries {
        assert_eq!(put(&mut receiver, &header, body), Arrival::Refused(why), "{header:?}");
    }
    let counters = receiver.counters();
    let counted = [counters.stranger, counters.window, counters.place, counters.length];
    assert_eq!((counted, counters.replayed, counters.taken), ([3, 2, 4, 4], 1, 0));
    assert_eq!(receiver.window.len(), 1, "what was refused has no place");
    assert_eq!(
        put(&mut receiver, &data(11, 0, 0), &FULL),
        Arrival::Data { chunk: 0, offset: 0, of: 4_096 }
    );
    let again = put(&mut receiver, &data(12, 0, 0), &FULL);
    assert_eq!(again, Arrival::Refused(Refusal::Repeated));
}

#[test]
fn lengths_that_contradict_what_came_end_the_transfer() {
    let contradiction = Err(AnnounceError::Contradiction(0));
    let mut one = receiver(2, "none");
    put(&mut one, &data(0, 0, 3), &FULL);
    assert_eq!(one.announce(0, 2_000), contradiction);
    let mut two = receiver(2, "none");
    put(&mut two, &data(0, 0, 1), &LAST);
    assert_eq!(two.announce(0, 1_097), contradiction);
    let mut three = receiver(2, "none");
    put(&mut three, &data(0, 0, 0), &FULL);
    assert_eq!(three.announce(0, 999), contradiction);
    let mut four = receiver(2, "none");
    four.announce(0, 999).unwrap();
    assert_eq!(four.announce(0, 998), contradiction);
    assert_eq!(four.announce(0, 999), Ok(()));
    let too_long = AnnounceError::TooLong { chunk: 1, bytes: 4_097, most: 4_096 };
    assert_eq!(four.announce(1, 4_097), Err(too_long));
    assert_eq!(four.announce(2, 1), Err(AnnounceError::Window(2)));
    assert!(matches!(four.announce(1, 0), Err(AnnounceError::Layout(_))));
}

#[test]
fn a_chunk_is_whole_when_its_length_is_known_whichever_comes_first() {
    let mut receiver = receiver(4, "none");
    whole(&mut receiver, 1, 0);
    assert_eq!(receiver.next_event(), None);
    receiver.announce(1, 4_096).unwrap();
    assert_eq!(receiver.next_event(), Some(ReceiveEvent::Whole { chunk: 1, bytes: 4_096 }));
    receiver.announce(0, 4_096).unwrap();
    whole(&mut receiver, 0, 5);
    assert_eq!(receiver.next_event(), Some(ReceiveEvent::Whole { chunk: 0, bytes: 4_096 }));
}

#[test]
fn the_window_moves_when_chunks_are_taken() {
    let mut receiver = receiver(2, "none");
    for chunk in [1, 0] {
        receiver.announce(chunk, 4_096).unwrap();
        whole(&mut receiver, chunk, u64::from(1 - chunk) * 5);
    }
    let told = ack(&mut receiver).unwrap();
    assert_eq!((told.window_end, told.done_below), (2, 2));
    assert_eq!(put(&mut receiver, &data(10, 2, 0), &FULL), Arrival::Refused(Refusal::Window));
    receiver.taken(1);
    assert_eq!(receiver.window_end(), 2);
    receiver.taken(0);
    assert_eq!(receiver.window_end(), 4);
    // The sender waits for that: it is told at once.
    assert_eq!(ack(&mut receiver).map(|ack| ack.window_end), Some(4));
    assert_eq!(
        put(&mut receiver, &data(11, 2, 0), &FULL),
        Arrival::Data { chunk: 2, offset: 0, of: 4_096 }
    );
}

#[test]
fn chunks_that_are_there_do_not_come() {
    let mut receiver = receiver(2, "none");
    receiver.skip(0..3);
    assert_eq!((receiver.taken_below(), receiver.window_end()), (3, 5));
    receiver.skip(4..6);
    assert_eq!(put(&mut receiver, &data(0, 4, 0), &FULL), Arrival::Refused(Refusal::Repeated));
    receiver.announce(3, 4_096).unwrap();
    whole(&mut receiver, 3, 1);
    receiver.taken(3);
    assert_eq!(receiver.taken_below(), 6);
}

/// A sender gives up an object while others behind it are known already.
#[test]
fn chunks_that_do_not_come_may_be_told_of_in_any_order() {
    let mut receiver = receiver(4, "none");
    for chunk in 0..4 {
        receiver.announce(chunk, 4_096).unwrap();
    }
    receiver.skip(3..4);
    assert_eq!(
        put(&mut receiver, &data(0, 1, 0), &FULL),
        Arrival::Data { chunk: 1, offset: 0, of: 4_096 }
    );
    receiver.skip(1..2);
    assert_eq!(put(&mut receiver, &data(1, 1, 1), &FULL), Arrival::Refused(Refusal::Repeated));
    whole(&mut receiver, 0, 2);
    receiver.taken(0);
    assert_eq!(receiver.taken_below(), 2);
    whole(&mut receiver, 2, 7);
    receiver.taken(2);
    assert_eq!(receiver.taken_below(), 4);
}

#[test]
fn a_group_is_repaired_once_and_says_what_was_missing() {
    let mut receiver = receiver(2, "rs:4,2");
    receiver.announce(0, 4_096).unwrap();
    for (number, index) in [(0, 0), (1, 2)] {
        put(&mut receiver, &data(number, 0, index), &FULL);
    }
    for row in 0..2 {
        let header = Header { kind: Kind::Repair, ..data(2 + u64::from(row), 0, row) };
        let arrival = put(&mut receiver, &header, &FULL);
        assert_eq!(arrival, Arrival::Repair { chunk: 0, group: 0, row });
    }
    let missing = [0b1010, 0, 0, 0];
    let repair = ReceiveEvent::Repair { chunk: 0, group: 0, bytes: 4_096, missing };
    assert_eq!(receiver.next_event(), Some(repair));
    let late = put(&mut receiver, &data(4, 0, 1), &FULL);
    assert_eq!(late, Arrival::Refused(Refusal::Repeated));
    put(&mut receiver, &data(5, 0, 4), &LAST);
    assert_eq!(receiver.next_event(), Some(ReceiveEvent::Whole { chunk: 0, bytes: 4_096 }));
    assert_eq!(receiver.counters().repaired, 1);
}

/// An acknowledgment that waits neither for more packets nor for time.
fn ack_at_once(receiver: &mut Receiver) -> Option<Ack> {
    ack_at(receiver, Instant::from_ns(1_000))
}

#[test]
fn what_is_known_of_a_chunk_can_be_asked_while_it_comes() {
    let mut receiver = receiver(4, "none");
    assert_eq!((receiver.connection(), receiver.lane(1).is_some()), (9, true));
    assert!(receiver.lane(2).is_none() && receiver.layout(0).is_none() && !receiver.has(0, 0));
    receiver.announce(0, 2_096).unwrap();
    put(&mut receiver, &data(0, 0, 1), &FULL);
    assert_eq!(receiver.layout(0).map(Layout::bytes), Some(2_096));
    assert_eq!([0, 1, 2, 64].map(|index| receiver.has(0, index)), [false, true, false, false]);
    put(&mut receiver, &data(1, 0, 0), &FULL);
    put(&mut receiver, &data(2, 0, 2), &LAST);
    assert_eq!((receiver.layout(0), receiver.has(0, 1)), (None, false));
    assert_eq!((receiver.counters().taken, receiver.counters().chunks), (3, 1));
    receiver.taken(0);
    assert_eq!((receiver.layout(0), receiver.has(0, 1)), (None, false));
}

#[test]
fn acknowledgments_name_the_chunks_that_are_complete() {
    let mut receiver = receiver(64, "none");
    for (place, chunk) in [0, 2, 5, 63].into_iter().enumerate() {
        receiver.announce(chunk, 4_096).unwrap();
        whole(&mut receiver, chunk, place as u64 * 5);
    }
    let told = ack(&mut receiver).unwrap();
    assert_eq!((told.done_below, told.done), (1, [1 | 1 << 3 | 1 << 61, 0, 0, 0]));
    receiver.taken(0);
    receiver.announce(64, 4_096).unwrap();
    whole(&mut receiver, 64, 20);
    receiver.announce(1, 4_096).unwrap();
    whole(&mut receiver, 1, 25);
    let told = ack(&mut receiver).unwrap();
    assert_eq!((told.done_below, told.done), (3, [1 << 1 | 1 << 59 | 1 << 60, 0, 0, 0]));
    assert_eq!(receiver.counters().acks, 2);
}

/// Senders before version 4 of the messages read one word of completed chunks.
#[test]
fn older_senders_get_a_window_that_one_word_reports() {
    let windows = [1, 3, 4, 5].map(max_window);
    assert_eq!(windows, [64, 64, MAX_WINDOW, MAX_WINDOW]);
}

#[test]
fn chunks_far_above_the_oldest_are_named_by_further_words() {
    let mut receiver = receiver(MAX_WINDOW, "none");
    for (place, chunk) in [65, 66, 130, 255].into_iter().enumerate() {
        receiver.announce(chunk, 4_096).unwrap();
        whole(&mut receiver, chunk, place as u64 * 5);
    }
    let told = ack(&mut receiver).unwrap();
    assert_eq!((told.done_below, told.done), (0, [0, 1 << 0 | 1 << 1, 1 << 1, 1 << 62]));
    assert_eq!(put(&mut receiver, &data(30, 256, 0), &FULL), Arrival::Refused(Refusal::Window));
}

/// Chunks count with their lengths as soon as these are known: many small ones fit where two full ones do.
#[test]
fn the_window_ends_where_the_memory_does() {
    let settings = ReceiveSettings { memory_bytes: 8_192, ..settings(64, "none".parse().unwrap()) };
    let mut receiver = Receiver::new(settings, &[], 1).unwrap();
    assert_eq!((receiver.window_end(), receiver.announce_end()), (2, 64));
    receiver.announce(1, 1_096).unwrap();
    assert_eq!(receiver.window_end(), 2, "a third full one does not fit");
    receiver.announce(0, 3_000).unwrap();
    assert_eq!(receiver.window_end(), 3);
    for chunk in 2..30 {
        receiver.announce(chunk, 100).unwrap();
    }
    // 4,096 bytes of chunks 0 and 1, 2,800 of those behind them; chunk 30 may be a full one.
    assert_eq!(receiver.window_end(), 30);
    assert_eq!(put(&mut receiver, &data(0, 30, 0), &FULL), Arrival::Refused(Refusal::Window));
    receiver.announce(30, 1_297).unwrap();
    assert_eq!(receiver.window_end(), 30, "it is a byte too long");
    assert_eq!(receiver.announce(64, 1), Err(AnnounceError::Window(64)));
    receiver.skip(0..1);
    assert_eq!((receiver.taken_below(), receiver.window_end()), (1, 31));
    receiver.skip(3..30);
    assert_eq!(receiver.window_end(), 32);
    // The caller may hold a chunk until its turn: it takes memory until all before it have been taken.
    assert!(matches!(put(&mut receiver, &data(1, 30, 0), &FULL), Arrival::Data { .. }));
    assert!(matches!(put(&mut receiver, &data(2, 30, 1), &FULL[..297]), Arrival::Data { .. }));
    receiver.taken(30);
    assert_eq!((receiver.taken_below(), receiver.window_end()), (1, 32));
}

/// Promise (Transfer): Whatever packets a sender with the right keys sends, whatever it announces and gives up, what the
/// receiver holds of its chunks, repair included, fits into the memory of the transfer, or is one chunk.
#[test]
fn whatever_comes_no_more_is_held_than_the_memory() {
    let schemes = ["none", "xor:5", "rs:4,2", "rs:3,24", "duplicate"];
    let (mut refused, mut held_most) = (0, 0);
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let fec: Scheme = schemes[rng.below(5) as usize].parse().unwrap();
        let memory_bytes = rng.below(60_000);
        let settings = ReceiveSettings { memory_bytes, ..settings(1 + rng.below(99) as u32, fec) };
        let mut receiver = Receiver::new(settings, &[], seed).unwrap();
        let mut store = Store::new(4_096, 1_000, fec);
        let full = Layout::new(4_096, 1_000, fec).unwrap();
        for number in 0..300 {
            let chunk = receiver.taken_below() + rng.below(12) as u32;
            match rng.below(20) {
                0 => {
                    let bytes = 1 + rng.below(4_096) as u32;
                    if receiver.announce(chunk, bytes).is_ok() {
                        store.announce(chunk, bytes);
                    }
                }
                1 if !receiver.is_had(chunk) => {
                    store.discard(chunk..chunk + 1);
                    receiver.skip(chunk..chunk + 1);
                }
                _ => {}
            }
            let place = full.place(rng.below(u64::from(full.slots())) as u32);
            let kind =
                if matches!(place, PacketRole::Data { .. }) { Kind::Data } else { Kind::Repair };
            let header = Header { kind, index: place.to_index(), ..data(number, chunk, 0) };
            let bytes =
                if rng.chance(0.8) { full.place_bytes(place) } else { 1 + rng.below(999) as u32 };
            let arrival = put(&mut receiver, &header, &FULL[..bytes as usize]);
            refused += u32::from(matches!(arrival, Arrival::Refused(_)));
            store.put(arrival, &FULL[..bytes as usize]);
            let most = memory_bytes.max(full.memory_bytes());
            assert!(store.held_bytes() <= most, "seed {seed}: {} of {most}", store.held_bytes());
            held_most = held_most.max(store.held_bytes() * 100 / most);
            while let Some(event) = receiver.next_event() {
                match event {
                    ReceiveEvent::Whole { chunk, bytes } => {
                        assert!(store.take(chunk).unwrap().len() >= bytes as usize);
                        receiver.taken(chunk);
                    }
                    ReceiveEvent::Repair { chunk, group, bytes, missing } => {
                        let _consistent = store.repair(chunk, group, bytes, &missing);
                    }
                }
            }
        }
    }
    assert!(refused > 50_000 && held_most > 90, "{refused}, {held_most} %");
}

#[test]
fn one_chunk_comes_whatever_the_memory() {
    let settings = ReceiveSettings { memory_bytes: 0, ..settings(9, "none".parse().unwrap()) };
    let mut receiver = Receiver::new(settings, &[], 1).unwrap();
    assert_eq!(receiver.window_end(), 1);
    receiver.announce(0, 4_096).unwrap();
    whole(&mut receiver, 0, 0);
    receiver.taken(0);
    assert_eq!(receiver.window_end(), 2);
}

/// A chunk that is complete, one that comes again, and a window that moves: the sender waits for each.
#[test]
fn the_sender_is_told_at_once_of_what_it_waits_for() {
    let mut receiver = receiver(4, "none");
    put(&mut receiver, &data(0, 0, 0), &FULL);
    assert_eq!((ack_at_once(&mut receiver), receiver.next_wakeup(1)), (None, None));
    let due = receiver.next_wakeup(0).unwrap();
    assert!(due > Instant::from_ns(1_000) && due <= Instant::from_ns(2_000_000), "{due:?}");
    assert!(receiver.poll(0, due).is_some());
    // It has come already, but its chunk is not complete.
    put(&mut receiver, &data(1, 0, 0), &FULL);
    assert_eq!(ack_at_once(&mut receiver), None);
    for chunk in 1..3 {
        receiver.announce(chunk, 4_096).unwrap();
        whole(&mut receiver, chunk, u64::from(chunk) * 5 - 3);
        assert!(ack_at_once(&mut receiver).is_some());
    }
    put(&mut receiver, &data(12, 2, 0), &FULL);
    assert!(ack_at_once(&mut receiver).is_some());
    receiver.taken(1);
    assert_eq!(ack_at_once(&mut receiver), None);
    receiver.skip(0..1);
    assert_eq!(ack_at_once(&mut receiver).map(|ack| ack.window_end), Some(6));
    receiver.taken(2);
    assert_eq!(ack_at_once(&mut receiver).map(|ack| ack.window_end), Some(7));
    // Nothing new: chunks that are not wanted already, and none.
    for chunks in [0..3, 1..2, 3..3, 5..5] {
        receiver.skip(chunks);
        assert_eq!(ack_at_once(&mut receiver), None);
    }
}

#[test]
fn chunks_that_do_not_come_are_known_wherever_they_are() {
    let mut receiver = receiver(2, "none");
    [0..1, 4..5, 6..7, 9..12].into_iter().for_each(|chunks| receiver.skip(chunks));
    assert_eq!((receiver.taken_below(), receiver.window_end()), (1, 3));
    // Behind the window, too: the sender may tell of any.
    for chunk in [0, 4, 6, 9, 11] {
        assert_eq!(receiver.announce(chunk, 4_096), Ok(()), "{chunk}");
    }
    for chunk in [3, 5, 7, 12] {
        assert_eq!(receiver.announce(chunk, 4_096), Err(AnnounceError::Window(chunk)));
    }
    let mut number = 0;
    for (chunk, next) in [(1, 2), (2, 3), (3, 5), (5, 7)] {
        receiver.announce(chunk, 4_096).unwrap();
        whole(&mut receiver, chunk, number);
        number += 5;
        receiver.taken(chunk);
        assert_eq!(receiver.taken_below(), next);
    }
    assert_eq!(put(&mut receiver, &data(number, 6, 0), &FULL), Arrival::Refused(Refusal::Repeated));
}

/// Before a chunk is announced, its last packet is the one that is shorter, and so are the repair packets of its last
/// group.
#[test]
fn repair_that_contradicts_the_length_is_noticed() {
    let repair = |number, index| Header { kind: Kind::Repair, ..data(number, 0, index) };
    let contradiction = Err(AnnounceError::Contradiction(0));
    // Of a second group, of which there is none.
    let mut one = receiver(2, "rs:2,1");
    put(&mut one, &repair(0, 1 << 8), &FULL);
    assert_eq!(one.announce(0, 2_000), contradiction);
    // As long as a full packet, longer than the only one.
    let mut two = receiver(2, "rs:4,2");
    put(&mut two, &repair(0, 0), &FULL);
    assert_eq!(two.announce(0, 96), contradiction);
    // Shorter than others of the group, or than those of the group before it.
    let mut three = receiver(2, "rs:4,2");
    let short = |row| Arrival::Repair { chunk: 0, group: 0, row };
    assert_eq!(put(&mut three, &repair(0, 0), &LAST), short(0));
    assert_eq!(put(&mut three, &repair(1, 1), &LAST[1..]), Arrival::Refused(Refusal::Length));
    assert_eq!(put(&mut three, &repair(2, 1), &LAST), short(1));
    assert_eq!(put(&mut three, &repair(3, 1 << 8), &LAST[1..]), Arrival::Refused(Refusal::Length));
    assert_eq!(three.announce(0, 97), contradiction);
    assert_eq!(three.announce(0, 96), Ok(()));
    let missing = [1, 0, 0, 0];
    let event = ReceiveEvent::Repair { chunk: 0, group: 0, bytes: 96, missing };
    assert_eq!(three.next_event(), Some(event));
}

#[test]
fn only_one_packet_and_the_repair_of_one_group_are_shorter_than_the_others() {
    let repair = |number, index| Header { kind: Kind::Repair, ..data(number, 0, index) };
    let refused = Arrival::Refused(Refusal::Length);
    // As long as in a full chunk, but it is not one: a packet before it was the last.
    let mut data_only = receiver(2, "none");
    assert_eq!(
        put(&mut data_only, &data(0, 0, 1), &LAST),
        Arrival::Data { chunk: 0, offset: 1_000, of: 4_096 }
    );
    assert_eq!(put(&mut data_only, &data(1, 0, 4), &LAST), refused);
    assert_eq!(put(&mut data_only, &data(2, 0, 1), &LAST), Arrival::Refused(Refusal::Repeated));
    assert_eq!(data_only.announce(0, 4_096), Err(AnnounceError::Contradiction(0)));
    assert_eq!(data_only.announce(0, 1_096), Ok(()));
    let mut repaired = receiver(2, "rs:4,2");
    put(&mut repaired, &repair(0, 0), &LAST);
    assert_eq!(put(&mut repaired, &repair(1, 1 << 8), &LAST), refused);
    assert_eq!(repaired.announce(0, 4_096), Err(AnnounceError::Contradiction(0)));
}

/// No packet makes it panic, and each one is counted.
#[test]
fn random_packets_are_survived() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let scheme = ["none", "rs:4,2", "xor:3", "duplicate"][rng.below(4) as usize];
        let mut receiver = receiver(1 + rng.below(5) as u32, scheme);
        let bodies = vec![0; 1_500 + OVERHEAD_BYTES];
        for packet in 0..500 {
            let kinds = [Kind::Data, Kind::Data, Kind::Repair, Kind::Probe, Kind::Ack, Kind::Close];
            let header = Header {
                kind: kinds[rng.below(6) as usize],
                lane: rng.below(3) as u16,
                ack_now: rng.chance(0.1),
                ..data(rng.below(packet + 1), rng.below(12) as u32, rng.below(600) as u32)
            };
            let lengths = [1_000, 96, rng.below(1_500) as usize];
            let body = &bodies[..lengths[rng.below(3) as usize]];
            receiver.receive(&header, body, Instant::from_ns(packet * 1_000));
            if rng.chance(0.05) {
                let _refused = receiver.announce(rng.below(12) as u32, rng.below(5_000) as u32);
            }
            if rng.chance(0.1) {
                receiver.taken(rng.below(12) as u32);
            }
            while receiver.poll(rng.below(2) as usize, Instant::from_ns(packet * 1_000)).is_some() {
            }
            while receiver.next_event().is_some() {}
            assert!(receiver.window.len() <= 5);
        }
    }
}
