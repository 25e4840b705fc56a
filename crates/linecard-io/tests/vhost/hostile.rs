//! Rings written by a hostile guest, and messages of a hostile front end.

use super::bench::{Bench, CALLS, is_broken, packet};
use super::guest::{
    BUFFERS, ENTRIES, GUEST, Guest, INDIRECT, MEMORY_LEN, Memory, NEXT, Ring, WRITE, descriptor,
    feature, request,
};
use linecard::packet::Meta;
use linecard::rng::Rng;
use std::os::fd::AsFd;

const AT: u64 = GUEST + BUFFERS;

/// Writes bytes that are not a frame.
type Attack = fn(&mut Guest);

/// Chains that are refused, while the ring continues.
const REFUSED: [(&str, Attack); 16] = [
    ("a loop of one", |guest| {
        guest.tx.describe(&guest.memory, 7, AT, 100, NEXT, 7);
        guest.tx.provide(&guest.memory, 7);
    }),
    ("a loop of two", |guest| {
        guest.tx.describe(&guest.memory, 7, AT, 0, NEXT, 8);
        guest.tx.describe(&guest.memory, 8, AT, 0, NEXT, 7);
        guest.tx.provide(&guest.memory, 7);
    }),
    ("a next one beyond the ring", |guest| {
        guest.tx.describe(&guest.memory, 7, AT, 100, NEXT, ENTRIES);
        guest.tx.provide(&guest.memory, 7);
    }),
    ("memory that is not the guest's", |guest| {
        guest.tx.chain(&guest.memory, &[(GUEST - 0x1000, 100)], 0);
    }),
    ("memory that ends too early", |guest| {
        guest.tx.chain(&guest.memory, &[(GUEST + MEMORY_LEN - 50, 100)], 0);
    }),
    ("an address that overflows", |guest| {
        guest.tx.chain(&guest.memory, &[(u64::MAX - 50, 100)], 0);
    }),
    ("a buffer to be written", |guest| {
        guest.tx.chain(&guest.memory, &[(AT, 100)], WRITE);
    }),
    ("less than a header", |guest| {
        guest.tx.chain(&guest.memory, &[(AT, 11)], 0);
    }),
    ("less than an Ethernet header", |guest| {
        guest.tx.chain(&guest.memory, &[(AT, 25)], 0);
    }),
    ("a table in a table", |guest| {
        guest.memory.write(BUFFERS, &descriptor(AT, 16, INDIRECT, 0));
        guest.tx.chain(&guest.memory, &[(AT, 16)], INDIRECT);
    }),
    ("a table of half a descriptor", |guest| {
        guest.tx.chain(&guest.memory, &[(AT, 24)], INDIRECT);
    }),
    ("a table elsewhere", |guest| {
        guest.tx.chain(&guest.memory, &[(GUEST + MEMORY_LEN, 32)], INDIRECT);
    }),
    ("an empty table", |guest| {
        guest.tx.chain(&guest.memory, &[(AT, 0)], INDIRECT);
    }),
    ("a table that loops", |guest| {
        let table = [descriptor(AT, 10, NEXT, 1), descriptor(AT, 10, NEXT, 0)].concat();
        guest.memory.write(BUFFERS, &table);
        guest.tx.chain(&guest.memory, &[(AT, 32)], INDIRECT);
    }),
    ("nothing but empty parts", |guest| {
        guest.tx.chain(&guest.memory, &[(AT, 0), (AT, 0), (0, 0)], 0);
    }),
    ("more descriptors than a packet may have", |guest| {
        let table: Vec<u8> = (1..=2_000).flat_map(|next| descriptor(AT, 10, NEXT, next)).collect();
        guest.memory.write(BUFFERS, &table);
        guest.tx.chain(&guest.memory, &[(AT, table.len() as u32)], INDIRECT);
    }),
];

#[test]
fn a_chain_that_makes_no_sense_is_refused_and_counted() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let mut count = 0;
    for (what, attack) in REFUSED {
        attack(&mut guest);
        assert!(bench.receive().is_empty(), "{what}");
        count += 1;
        assert_eq!(bench.counters().dropped.bad_descriptors, count, "{what}");
        assert!(guest.tx.next_used(&guest.memory).is_some(), "{what}: it comes back");
        guest.send(&[0; 12], &[7; 60]);
        assert_eq!(bench.receive().len(), 1, "{what}: the next one passes");
        guest.tx.next_used(&guest.memory);
    }
    assert_eq!(bench.counters().dropped.total(), count);
}

/// Regions that follow each other are one memory to the guest.
#[test]
fn a_frame_may_lie_in_two_regions_but_not_in_a_gap() {
    for gap in [0, 0x1000] {
        let mut bench = Bench::new();
        let mut guest = bench.guest(feature::USUAL);
        let file = guest.memory.file.as_fd();
        guest.front.send(request::SET_MEM_TABLE, &Memory::halves(gap), &[file, file]);
        bench.receive();
        let at = MEMORY_LEN / 2 - 40;
        let frame = [7; 60];
        guest.memory.write(at, &[&[0; 12], &frame[..]].concat());
        guest.tx.chain(&guest.memory, &[(GUEST + at, 72)], 0);
        let received: Vec<Vec<u8>> = bench.receive().iter().map(|one| one.bytes().into()).collect();
        let expected = if gap == 0 { vec![frame.to_vec()] } else { vec![] };
        assert_eq!(received, expected);
        assert_eq!(bench.counters().dropped.bad_descriptors, u64::from(gap > 0));
        guest.rx.post(&guest.memory, at, 2_000);
        assert_eq!(bench.transmit(vec![packet(&[8; 60], Meta::default())]), 0);
        let received = guest.rx.next_packet(&guest.memory).map(|(_, frame)| frame);
        assert_eq!(received, (gap == 0).then(|| vec![8; 60]));
        assert_eq!(is_broken(&guest.rx), gap > 0);
    }
}

#[test]
fn a_frame_longer_than_any_is_refused() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    guest.tx.chain(&guest.memory, &[(AT, 70_000)], 0);
    // As long as all lengths together can be.
    let parts = [(AT, u32::MAX - 1), (AT, 1)];
    guest.tx.chain(&guest.memory, &parts, 0);
    assert!(bench.receive().is_empty());
    assert_eq!(bench.counters().dropped.too_long, 2);
    guest.tx.chain(&guest.memory, &[(AT, u32::MAX), (AT, u32::MAX)], 0);
    assert!(bench.receive().is_empty());
    assert_eq!(bench.counters().dropped.bad_descriptors, 1);
}

/// Rings that are not what they have to be.
const BROKEN: [(&str, Attack); 3] = [
    ("an available index far ahead", |guest| {
        guest.memory.write(guest.tx.available_at() + 2, &(ENTRIES + 1).to_le_bytes());
    }),
    ("an available index behind", |guest| {
        guest.memory.write(guest.tx.available_at() + 2, &u16::MAX.to_le_bytes());
    }),
    ("a chain beyond the ring", |guest| guest.tx.provide(&guest.memory, ENTRIES)),
];

#[test]
fn a_broken_ring_stops_until_it_is_started_again() {
    for (what, attack) in BROKEN {
        let mut bench = Bench::new();
        let mut guest = bench.guest(feature::USUAL);
        attack(&mut guest);
        assert!(bench.receive().is_empty() && is_broken(&guest.tx), "{what}");
        assert_eq!(bench.counters().dropped.bad_descriptors, 1, "{what}: once, however long");
        // The other ring is not affected.
        guest.post(1, 1526);
        assert_eq!(bench.transmit(vec![packet(&[8; 60], Meta::default())]), 0);
        assert!(guest.rx.next_packet(&guest.memory).is_some(), "{what}");
        // As after a reset by the guest.
        (guest.rx, guest.tx) = (Ring::new(0), Ring::new(1));
        for ring in [&guest.rx, &guest.tx] {
            guest.memory.write(ring.available_at(), &[0; 4]);
            guest.memory.write(ring.used_at(), &[0; 4]);
        }
        guest.configure(feature::USUAL);
        bench.receive();
        guest.send(&[0; 12], &[7; 60]);
        assert_eq!(bench.receive().len(), 1, "{what}");
    }
}

#[test]
fn buffers_that_make_no_sense_break_the_ring_and_nothing_is_written() {
    let attacks: [(&str, Attack); 5] = [
        ("a buffer to be read", |guest| {
            guest.rx.chain(&guest.memory, &[(AT, 2_000)], 0);
        }),
        ("a loop", |guest| {
            guest.rx.describe(&guest.memory, 7, AT, 10, NEXT | WRITE, 7);
            guest.rx.provide(&guest.memory, 7);
        }),
        ("memory elsewhere", |guest| {
            guest.rx.chain(&guest.memory, &[(GUEST + MEMORY_LEN - 10, 2_000)], WRITE);
        }),
        ("an address that overflows", |guest| {
            guest.rx.chain(&guest.memory, &[(u64::MAX - 10, 2_000)], WRITE);
        }),
        ("a chain beyond the ring", |guest| guest.rx.provide(&guest.memory, ENTRIES)),
    ];
    for (what, attack) in attacks {
        let mut bench = Bench::new();
        let mut guest = bench.guest(feature::USUAL);
        attack(&mut guest);
        let packets = vec![packet(&[8; 60], Meta::default()), packet(&[9; 60], Meta::default())];
        assert_eq!(bench.transmit(packets), 0, "{what}");
        assert!(is_broken(&guest.rx), "{what}");
        assert_eq!(bench.counters().dropped.refused, 2, "{what}");
        assert_eq!(guest.rx.next_used(&guest.memory), None, "{what}");
        assert!(!bench.port.has_guest(), "{what}");
    }
}

/// Buffers of no bytes would be searched without end.
#[test]
fn empty_buffers_are_no_endless_work() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    for _ in 0..ENTRIES {
        guest.rx.chain(&guest.memory, &[(AT, 0)], WRITE);
    }
    assert_eq!(bench.transmit(vec![packet(&[8; 60], Meta::default())]), 1);
    bench.after_ns(2_000_000_000);
    assert_eq!(bench.transmit(vec![packet(&[8; 60], Meta::default())]), 0);
}

/// Random bytes in rings and tables, while packets pass both ways.
///
/// Promise (Live interfaces): Whatever a virtual machine writes into its rings, its port neither panics nor takes more than
/// one batch in a turn: 10,000 turns over random rings.
#[test]
fn random_rings_are_survived() {
    linecard_testkit::packets::seeds(&[], 1, 1).into_iter().for_each(random_rings);
}

fn random_rings(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL | feature::EVENT_IDX);
    for turn in 0..10_000_u32 {
        for _ in 0..rng.below(4) {
            scribble(&guest, &mut rng);
        }
        guest.tx.provide(&guest.memory, rng.below(u64::from(ENTRIES) + 2) as u16);
        guest.rx.provide(&guest.memory, rng.below(u64::from(ENTRIES) + 2) as u16);
        let taken = bench.receive();
        assert!(taken.len() <= 64 * CALLS, "seed {seed}, turn {turn}");
        let left = bench.transmit(vec![packet(&[8; 1_000], Meta::default())]);
        assert!(left <= 1);
        if is_broken(&guest.tx) || is_broken(&guest.rx) {
            guest.configure(feature::USUAL | feature::EVENT_IDX);
        }
    }
    assert!(bench.counters().dropped.bad_descriptors > 1_000);
}

/// Writes a descriptor that is nearly right, or bytes that are not.
fn scribble(guest: &Guest, rng: &mut Rng) {
    let ring = if rng.below(2) == 0 { &guest.tx } else { &guest.rx };
    let lens = [0, 1, 12, 60, 1_000, 70_000, u64::from(u32::MAX)];
    let places = [AT, AT + 1, GUEST, GUEST + MEMORY_LEN - 64, GUEST - 1, u64::MAX - 9, 0];
    let any = |rng: &mut Rng, from: &[u64]| from[rng.below(from.len() as u64) as usize];
    let (at, len) = (any(rng, &places), any(rng, &lens) as u32);
    let (flags, next) = (rng.below(8) as u16, rng.below(u64::from(ENTRIES) + 2) as u16);
    match rng.below(8) {
        0 => guest.memory.write(ring.available_at() + 2, &(rng.next_u64() as u16).to_le_bytes()),
        1 => guest.memory.write(BUFFERS + rng.below(64) * 16, &descriptor(at, len, flags, next)),
        _ => {
            let number = rng.below(u64::from(ENTRIES)) as u16;
            ring.describe(&guest.memory, number, at, len, flags, next);
        }
    }
}
