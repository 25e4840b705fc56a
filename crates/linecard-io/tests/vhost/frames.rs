//! Packets from a guest, and for one.

use super::bench::{Bench, packet};
use super::guest::{BUFFERS, GUEST, Guest, INDIRECT, Ring, descriptor, feature};
use linecard::packet::{Batch, ChecksumState, Gso, Meta};
use linecard::time::Instant;
use linecard_io::port::LivePort;
use linecard_testkit::packets::frame::Frame;

/// A header that says nothing.
const PLAIN: [u8; 12] = [0; 12];

fn gso(size: u16, frame: &[u8]) -> Meta {
    let payload = frame.len() - 42;
    let segments = payload.div_ceil(size.into()) as u16;
    let gso = Some(Gso { size, segments, ..Gso::default() });
    Meta { gso, checksum: ChecksumState::Valid, ..Meta::default() }
}

/// All that the guest has received, without headers.
fn received(guest: &mut Guest) -> Vec<Vec<u8>> {
    let mut next = || guest.rx.next_packet(&guest.memory).map(|(_, frame)| frame);
    std::iter::from_fn(&mut next).collect()
}

#[test]
fn a_frame_arrives_however_its_descriptors_divide_it() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let frame = Frame::udp(0, 300).bytes();
    let bytes = [&PLAIN[..], &frame].concat();
    let at = GUEST + BUFFERS;
    guest.memory.write(BUFFERS, &bytes);
    let all = bytes.len() as u32;
    for cuts in [vec![all], vec![12, all - 12], vec![5, 7, 14, all - 26], vec![0, 13, 0, all - 13]]
    {
        let mut next = at;
        let parts = cuts.iter().map(|&len| {
            next += u64::from(len);
            (next - u64::from(len), len)
        });
        let parts: Vec<_> = parts.collect();
        let head = guest.tx.chain(&guest.memory, &parts, 0);
        let packets = bench.receive();
        assert_eq!(packets.len(), 1, "{cuts:?}");
        assert_eq!(packets[0].bytes(), frame, "{cuts:?}");
        assert_eq!(guest.tx.next_used(&guest.memory), Some((head, 0)));
    }
    // The same in a table of its own.
    let table: Vec<u8> = [descriptor(at, 20, 1, 1), descriptor(at + 20, all - 20, 0, 0)].concat();
    guest.memory.write(BUFFERS + 0x8000, &table);
    guest.tx.chain(&guest.memory, &[(GUEST + BUFFERS + 0x8000, 32)], INDIRECT);
    assert_eq!(bench.receive()[0].bytes(), frame);
    let counters = bench.counters();
    assert_eq!((counters.received, counters.dropped.total()), (5, 0));
}

#[test]
fn a_large_packet_of_the_guest_keeps_its_description() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let frame = Frame::udp(0, 3_000).bytes();
    // A checksum to be completed, UDP segments of 1,000 bytes.
    let header = [1, 5, 42, 0, 0xE8, 3, 34, 0, 6, 0, 0, 0];
    guest.send(&header, &frame);
    let packets = bench.receive();
    let meta = &packets[0].meta;
    assert_eq!(meta.gso.map(|gso| (gso.size, gso.segments)), Some((1_000, 3)));
    assert_eq!(meta.checksum, ChecksumState::Partial);
    assert_eq!(packets[0].bytes(), frame);
    // A header that contradicts the frame is refused.
    guest.send(&[1, 1, 42, 0, 0xE8, 3, 34, 0, 6, 0, 0, 0], &frame);
    assert!(bench.receive().is_empty());
    assert_eq!(bench.counters().dropped.bad_header, 1);
}

#[test]
fn a_large_packet_fills_several_buffers_of_the_guest() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let frame = Frame::udp(0, 60_000).bytes();
    guest.post(50, 1526);
    assert_eq!(bench.transmit(vec![packet(&frame, gso(1_000, &frame))]), 0);
    let (header, got) = guest.rx.next_packet(&guest.memory).expect("there");
    assert_eq!(header[..6], [1, 5, 42, 0, 0xE8, 3]);
    assert_eq!(header[10..], 40_u16.to_le_bytes());
    // The checksum is the guest's to complete.
    assert!(got[..40] == frame[..40] && got[42..] == frame[42..]);
    assert!(Ring::is_signalled(&guest.rx.call));
    assert_eq!((bench.counters().transmitted, bench.counters().cut), (1, 0));
}

#[test]
fn a_guest_without_offloads_receives_segments() {
    let features = feature::MRG_RXBUF | feature::VERSION_1 | feature::PROTOCOL;
    for features in
        [features, features | feature::GUEST_CSUM | feature::GUEST_TSO4, 0, feature::VERSION_1]
    {
        let mut bench = Bench::new();
        let mut guest = bench.guest(features);
        let frame = Frame::udp(0, 3_000).bytes();
        guest.post(10, 1526);
        assert_eq!(bench.transmit(vec![packet(&frame, gso(1_000, &frame))]), 0);
        let mut payload: Vec<u8> = Vec::new();
        for _ in 0..3 {
            let (_, len) = guest.rx.next_used(&guest.memory).expect("three");
            let at = (4 << 20) + 0x2000 * (payload.len() as u64 / 1_000);
            let header = if features == 0 { 10 } else { 12 };
            let bytes = guest.memory.read(at, len as usize);
            assert!(bytes[..10] == [0; 10] && bytes.len() == header + 1_042, "{features:#x}");
            payload.extend(&bytes[header + 42..]);
        }
        assert_eq!(payload, frame[42..], "{features:#x}");
        assert_eq!((bench.counters().transmitted, bench.counters().cut), (1, 1));
    }
}

#[test]
fn a_frame_longer_than_the_only_buffer_is_dropped() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::VERSION_1);
    guest.post(3, 1526);
    let frame = Frame::udp(0, 2_000).bytes();
    let short = Frame::udp(1, 100).bytes();
    let packets = vec![packet(&frame, Meta::default()), packet(&short, Meta::default())];
    assert_eq!(bench.transmit(packets), 0);
    assert_eq!(received(&mut guest), [short]);
    assert_eq!((bench.counters().dropped.above_mtu, bench.counters().transmitted), (1, 1));
}

#[test]
fn packets_wait_for_buffers_but_not_for_ever() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    guest.post(2, 1526);
    let frames: Vec<_> = (0..4).map(|index| Frame::udp(index, 100).bytes()).collect();
    let packets = || frames.iter().map(|frame| packet(frame, Meta::default())).collect();
    assert_eq!(bench.transmit(packets()), 2);
    assert_eq!(received(&mut guest), frames[..2]);
    assert_eq!(bench.counters().blocked, 1);
    // Paused: the other port is not held up.
    bench.after_ns(1_500_000_000);
    assert_eq!(bench.transmit(packets()), 0);
    assert_eq!(bench.counters().dropped.refused, 4);
    assert_eq!(bench.transmit(packets()), 0);
    guest.post(4, 1526);
    assert_eq!(bench.transmit(packets()), 0);
    assert_eq!(received(&mut guest), frames);
    guest.post(1, 1526);
    assert_eq!(bench.transmit(packets()), 3, "and they wait again");
}

#[test]
fn a_packet_half_segmented_continues_where_it_stopped() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::VERSION_1 | feature::MRG_RXBUF | feature::PROTOCOL);
    let frame = Frame::udp(0, 3_000).bytes();
    let mut batch = super::bench::batch(vec![packet(&frame, gso(1_000, &frame))]);
    let mut payload = Vec::new();
    for turn in 0..3 {
        guest.post(1, 1526);
        linecard::port::Port::transmit(&mut bench.port, &mut batch, bench.now);
        payload.extend(received(&mut guest).concat().split_off(42));
        assert_eq!(batch.len(), usize::from(turn < 2));
    }
    assert_eq!(payload, frame[42..]);
    assert_eq!((bench.counters().cut, bench.counters().dropped.total()), (1, 0));
}

#[test]
fn without_a_guest_packets_are_dropped() {
    let mut bench = Bench::new();
    let frame = Frame::udp(0, 100).bytes();
    assert_eq!(bench.transmit(vec![packet(&frame, Meta::default())]), 0);
    assert_eq!(bench.counters().dropped.refused, 1);
}

#[test]
fn a_disabled_queue_passes_nothing() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    for index in 0..2 {
        let body = super::guest::pair(index, 0);
        assert!(guest.front.send(super::guest::request::SET_VRING_ENABLE, &body, &[]));
    }
    bench.receive();
    guest.send(&PLAIN, &[7; 60]);
    guest.post(1, 1526);
    assert!(bench.receive().is_empty());
    assert!(guest.tx.next_used(&guest.memory).is_some(), "taken, and dropped");
    let frame = Frame::udp(0, 100).bytes();
    assert_eq!(bench.transmit(vec![packet(&frame, Meta::default())]), 0);
    assert_eq!((received(&mut guest).len(), bench.counters().dropped.refused), (0, 1));
}

/// Notifications of both sides, by flags and by the event index.
#[test]
fn who_is_awake_is_not_notified() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let frame = Frame::udp(0, 100).bytes();
    let send = |bench: &mut Bench| bench.transmit(vec![packet(&frame, Meta::default())]);
    guest.post(8, 1526);
    send(&mut bench);
    assert!(Ring::is_signalled(&guest.rx.call));
    guest.memory.write(guest.rx.available_at(), &1_u16.to_le_bytes());
    send(&mut bench);
    assert!(!Ring::is_signalled(&guest.rx.call));
    // The port wants kicks once it has found the ring empty.
    assert_eq!(guest.memory.read_u16(guest.tx.used_at()), 0);
    guest.send(&PLAIN, &frame);
    let mut batch = Batch::bounded(1);
    linecard::port::Port::receive(&mut bench.port, &mut batch, bench.now);
    assert_eq!((batch.len(), guest.memory.read_u16(guest.tx.used_at())), (1, 1));
    // Nor is it asked to kick as soon as there is nothing: more may come.
    linecard::port::Port::receive(&mut bench.port, &mut Batch::new(), bench.now);
    assert_eq!(guest.memory.read_u16(guest.tx.used_at()), 1);
    let again = LivePort::next_due(&bench.port).expect("it looks again");
    assert!(again.ns_since(bench.now) <= 50_000);
    assert!(bench.receive().is_empty());
    assert_eq!(guest.memory.read_u16(guest.tx.used_at()), 0);
    assert_eq!(LivePort::next_due(&bench.port), None);
}

#[test]
fn the_event_index_says_when_to_notify() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL | feature::EVENT_IDX);
    let frame = Frame::udp(0, 100).bytes();
    let send = |bench: &mut Bench| bench.transmit(vec![packet(&frame, Meta::default())]);
    guest.post(8, 1526);
    send(&mut bench);
    assert!(Ring::is_signalled(&guest.rx.call), "the first always");
    let event_at = guest.rx.available_at() + 4 + 2 * u64::from(super::guest::ENTRIES);
    guest.memory.write(event_at, &2_u16.to_le_bytes());
    send(&mut bench);
    assert!(!Ring::is_signalled(&guest.rx.call), "two are used, and the third is awaited");
    send(&mut bench);
    assert!(Ring::is_signalled(&guest.rx.call));
    // The port awaits the entry after those it has taken.
    guest.send(&PLAIN, &frame);
    assert_eq!(bench.receive().len(), 1);
    let event_at = guest.tx.used_at() + 4 + 8 * u64::from(super::guest::ENTRIES);
    assert_eq!(guest.memory.read_u16(event_at), 1);
}

#[test]
fn packets_have_the_time_of_their_reception() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    guest.send(&PLAIN, &[7; 60]);
    bench.now = Instant::from_ns(7_000_000_000);
    assert_eq!(bench.receive()[0].meta.timestamp, bench.now);
}
