//! Packet sockets without offloads, which receive from a ring of slots.

use crate::lab::{self, MOMENT, cable, frame, inside, open, packet, receive, receive_within, send};
use linecard::packet::{Batch, Gso, Meta, Packet, PoolBuffer};
use linecard::port::Port;
use linecard::time::Instant;
use linecard_io::port::PacketSocket;
use std::time::Duration;

fn plain(receive_buffer: usize) -> PacketSocket {
    open("vb", |config| {
        (config.offloads, config.receive_buffer) = (false, receive_buffer);
    })
}

fn packets(frames: &[Vec<u8>]) -> Vec<Packet<PoolBuffer>> {
    let pool = lab::pool();
    frames.iter().map(|bytes| packet(&pool, bytes, Meta::default())).collect()
}

#[test]
fn frames_longer_than_a_slot_keep_their_place() {
    inside("frames longer than a slot", || {
        cable();
        let (mut a, mut b, pool) = (open("va", |_| ()), plain(2 << 20), lab::pool());
        if !a.offloads() {
            return linecard_testkit::skip("frames longer than a slot", "no virtio headers");
        }
        let lens = [60, 20_042, 1_514, 2_042, 3_042, 100, 60_042, 60];
        for number in 0..40_u16 {
            let len = lens[usize::from(number) % lens.len()];
            let gso = (len > 1_514).then_some(Gso { size: 1_000, ..Gso::default() });
            let bytes = frame(len, None, 3, number);
            send(&mut a, vec![packet(&pool, &bytes, Meta { gso, ..Meta::default() })]);
        }
        for (number, came) in (0..40_u16).zip(receive(&mut b, 40)) {
            let bytes = came.bytes();
            assert_eq!(bytes.len(), lens[usize::from(number) % lens.len()], "{number}");
            let expected = frame(bytes.len(), None, 3, number);
            // The checksums of large packets are open.
            assert_eq!(bytes[42..], expected[42..], "{number}");
            assert_eq!(bytes[..24], expected[..24], "{number}");
        }
        let counters = b.counters();
        assert_eq!((counters.received, counters.dropped.total()), (40, 0));
    });
}

#[test]
fn a_full_ring_counts_what_it_has_no_room_for() {
    inside("a full ring", || {
        cable();
        // 32 slots.
        let (mut a, mut b) = (open("va", |_| ()), plain(64 << 10));
        for round in 0..5 {
            let frames: Vec<_> = (0..40).map(|number| frame(1_514, None, round, number)).collect();
            send(&mut a, packets(&frames));
            let mut came = receive(&mut b, 32);
            came.extend(receive_within(&mut b, MOMENT));
            assert!(came.iter().map(|packet| packet.bytes()).eq(&frames[..32]), "{round}");
        }
        let counters = b.counters();
        assert_eq!((counters.received, counters.dropped.ring_full), (5 * 32, 5 * 8));
        assert_eq!(counters.dropped.total(), 5 * 8);
    });
}

#[test]
fn a_full_pool_leaves_frames_in_the_ring() {
    inside("a full pool before a ring", || {
        cable();
        let (mut a, mut b) = (open("va", |_| ()), plain(2 << 20));
        let frames: Vec<_> = (0..300).map(|number| frame(100, None, 1, number)).collect();
        for part in frames.chunks(100) {
            send(&mut a, packets(part));
        }
        // The pool of `b` has 256.
        let mut came = receive(&mut b, 256);
        assert!(receive_within(&mut b, MOMENT).is_empty());
        assert!(b.counters().no_buffer > 0);
        assert!(came.drain(..).map(|packet| packet.bytes().to_vec()).eq(frames[..256].to_vec()));
        let rest = receive(&mut b, 44);
        assert!(rest.iter().map(|packet| packet.bytes()).eq(&frames[256..]));
    });
}

#[test]
fn the_time_of_a_frame_is_that_of_its_arrival_in_the_ring() {
    inside("times of arrival in a ring", || {
        cable();
        let (mut a, mut b) = (open("va", |_| ()), plain(2 << 20));
        send(&mut a, packets(&[frame(60, None, 0, 0)]));
        std::thread::sleep(Duration::from_millis(200));
        let (mut batch, now) = (Batch::new(), Instant::from_ns(100_000_000_000));
        b.receive(&mut batch, now);
        let age = batch.pop().map(|packet| now.since(packet.meta.timestamp));
        let age = age.expect("it has come by now");
        assert!(age >= Duration::from_millis(200) && age < lab::PATIENCE, "{age:?}");
    });
}
