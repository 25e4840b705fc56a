//! Large packets leave as segments, and checksums left open are completed.

use crate::cable::{Cable, frame, nothing_leaks, now, transmit, until, with_cable};
use crate::tcp::{self, KINDS, Kind};
use linecard::packet::{Batch, ChecksumState, Gso, LinkType, Meta, Packet, Piece};
use linecard::time::Instant;
use linecard_io::port::LivePort;
use linecard_io::port::xdp::{Config, Mode, XdpBuffer};

const MODES: [Mode; 2] = [Mode::Native, Mode::Generic];
const STATES: [ChecksumState; 3] =
    [ChecksumState::Unknown, ChecksumState::Valid, ChecksumState::Partial];

fn meta(size: u16, checksum: ChecksumState) -> Meta {
    Meta { gso: Some(Gso { size, ..Gso::default() }), checksum, ..Meta::default() }
}

/// A large packet in one buffer.
fn large(kind: Kind, number: u32, len: usize, meta: Meta) -> Packet<XdpBuffer> {
    Packet::new(tcp::packet(kind, number, len).into(), LinkType::Ethernet, meta)
}

/// The same in pieces, as merged ones are.
fn merged(kind: Kind, number: u32, len: usize, meta: Meta) -> Packet<XdpBuffer> {
    let bytes = tcp::packet(kind, number, len);
    let (head, rest) = bytes.split_at(kind.header_len() + 1_001);
    let piece = |bytes: &[u8]| {
        Piece::new(XdpBuffer::from(bytes.to_vec()), 0..bytes.len(), Instant::ZERO).expect("inside")
    };
    let pieces = rest.chunks(1_001).map(piece).collect();
    Packet::gather(head.to_vec().into(), pieces, LinkType::Ethernet, meta).expect("a datagram")
}

/// Takes the segments of a packet off the cable; how many there were.
fn take(cable: &mut Cable, kind: Kind, number: u32, whole: usize) -> usize {
    let (mut start, mut count) = (0, 0);
    while start < whole {
        start += tcp::check(&cable.next(), kind, (number, start), whole);
        count += 1;
    }
    count
}

#[test]
fn large_packets_leave_as_segments() {
    const LEN: usize = 20_000;
    with_cable("large packets cut", "1500", |cable| {
        for mode in MODES {
            let config = Config::default();
            let mut port = cable.port(mode, &config);
            let mut number = 0;
            for (kind, state) in KINDS.iter().flat_map(|kind| STATES.map(|state| (*kind, state))) {
                for make in [large, merged] {
                    let mut batch = Batch::new();
                    batch.push(make(kind, number, LEN, meta(1_400, state))).expect("room");
                    transmit(&mut port, &mut batch);
                    assert_eq!(take(cable, kind, number, LEN), 15, "{mode:?}, {state:?}");
                    number += 1;
                }
            }
            nothing_leaks(&mut port, &config);
            let counters = LivePort::<XdpBuffer>::counters(&mut port);
            assert_eq!((counters.transmitted, counters.cut), (18, 18), "{counters:?}");
            let lens = KINDS.iter().map(|kind| kind.header_len() + LEN).sum::<usize>() * 6;
            assert_eq!(counters.transmitted_bytes, lens as u64);
            assert_eq!(counters.dropped.total(), 0, "{counters:?}");
        }
    });
}

#[test]
fn an_open_checksum_is_completed() {
    const LEN: usize = 1_000;
    with_cable("open checksums", "1500", |cable| {
        let config = Config::default();
        let mut port = cable.port(Mode::Native, &config);
        for kind in KINDS {
            let open = Meta { checksum: ChecksumState::Partial, ..Meta::default() };
            let bytes = tcp::packet(kind, 7, LEN);
            let mut own = port.buffer(bytes.len()).expect("one is free");
            own.as_mut().copy_from_slice(&bytes);
            let packets = [
                large(kind, 7, LEN, open),
                Packet::new(own, LinkType::Ethernet, open),
                // A segment size that divides nothing.
                large(kind, 7, LEN, meta(1_400, ChecksumState::Partial)),
            ];
            let mut batch = Batch::new();
            packets.into_iter().for_each(|packet| batch.push(packet).expect("there is room"));
            transmit(&mut port, &mut batch);
            (0..3).for_each(|_| assert_eq!(take(cable, kind, 7, LEN), 1));
        }
        nothing_leaks(&mut port, &config);
        let counters = port.detailed_counters();
        assert_eq!((counters.sent, counters.sent_in_place, counters.cut), (9, 3, 0));
    });
}

/// Promise (Live interfaces): AF_XDP ports lose and repeat no segment when their ring is full: 120
/// packets of 60,000 bytes through 64 slots, and with 5 free frames.
#[test]
fn segments_that_have_no_room_come_again_in_order_and_once() {
    const PACKETS: u32 = 120;
    const LEN: usize = 60_000;
    with_cable("large packets and a small ring", "1500", |cable| {
        for (mode, free) in MODES.into_iter().flat_map(|mode| [(mode, None), (mode, Some(5))]) {
            let config =
                Config { rx_slots: 64, tx_slots: 64, spare_frames: 64, ..Config::default() };
            let mut port = cable.port(mode, &config);
            // Either the ring is full first, or no frame is free.
            let mut held = Vec::new();
            while free.is_some_and(|free| port.frames().free > free) {
                held.extend(port.buffer(1));
            }
            let (mut pushed, mut came) = (0, 0);
            let (mut batch, mut start) = (Batch::new(), 0);
            until("all segments come", || {
                while pushed < PACKETS && pushed - came < 8 {
                    let state = STATES[pushed as usize % 3];
                    let make = if pushed % 2 == 0 { large } else { merged };
                    let packet = make(Kind::Ipv4, pushed, LEN, meta(1_400, state));
                    batch.push(packet).expect("there is room for eight");
                    pushed += 1;
                }
                port.send(&mut batch, now());
                let gone = pushed - batch.len() as u32;
                while came < gone {
                    start += tcp::check(&cable.next(), Kind::Ipv4, (came, start), LEN);
                    (came, start) = if start == LEN { (came + 1, 0) } else { (came, start) };
                }
                came == PACKETS
            });
            drop(held);
            nothing_leaks(&mut port, &config);
            let counters = port.detailed_counters();
            assert!(counters.blocked >= 30, "{mode:?}: {counters:?}");
            assert_eq!((counters.sent, counters.cut), (PACKETS.into(), PACKETS.into()));
            assert_eq!((counters.send_dropped, counters.unsendable), (0, 0));
        }
    });
}

#[test]
fn segments_longer_than_a_frame_take_several() {
    const LEN: usize = 30_000;
    with_cable("jumbo segments", "9000", |cable| {
        for mode in MODES {
            let config = Config { tx_slots: 64, ..Config::default() };
            let mut port = cable.port(mode, &config);
            if !port.binding().multi_buffer {
                return crate::around::skipped("jumbo segments", "no multi-buffer");
            }
            let (mut batch, mut number) = (Batch::new(), 0);
            for (kind, state) in KINDS.iter().flat_map(|kind| STATES.map(|state| (*kind, state))) {
                let make = if number % 2 == 0 { large } else { merged };
                batch.push(make(kind, number, LEN, meta(8_900, state))).expect("there is room");
                number += 1;
            }
            transmit(&mut port, &mut batch);
            for (number, kind) in (0..).zip(KINDS.into_iter().flat_map(|kind| [kind; 3])) {
                assert_eq!(take(cable, kind, number, LEN), 4, "{mode:?}");
            }
            nothing_leaks(&mut port, &config);
            assert_eq!(port.detailed_counters().cut, 9);
        }
    });
}

#[test]
fn what_cannot_be_cut_or_carried_is_dropped_and_counted() {
    with_cable("large packets dropped", "1500", |cable| {
        let config = Config::default();
        let mut port = cable.port(Mode::Native, &config);
        let mut batch = Batch::new();
        // Five segments above the MTU, four of them again in a frame; the last one fits.
        for size in [1_900, 4_000] {
            let packet = large(Kind::Ipv4, 1, 8_100, meta(size, ChecksumState::Partial));
            batch.push(packet).expect("there is room");
        }
        let strange = XdpBuffer::from(frame(1, 3_000));
        let partial = meta(1_000, ChecksumState::Partial);
        batch.push(Packet::new(strange, LinkType::Ethernet, partial)).expect("there is room");
        batch.push(large(Kind::Ipv4, 2, 700, Meta::default())).expect("there is room");
        transmit(&mut port, &mut batch);
        for start in [7_600, 8_000] {
            assert_eq!(tcp::check(&cable.next(), Kind::Ipv4, (1, start), 8_100), 8_100 - start);
        }
        assert!(cable.next() == tcp::packet(Kind::Ipv4, 2, 700));
        nothing_leaks(&mut port, &config);
        let counters = LivePort::<XdpBuffer>::counters(&mut port);
        // A packet that has lost segments is lost, once.
        assert_eq!((counters.dropped.above_mtu, counters.dropped.unsendable), (2, 1));
        assert_eq!((counters.dropped.total(), counters.transmitted, counters.cut), (3, 1, 0));
    });
}
