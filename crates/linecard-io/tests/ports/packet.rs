//! Packet sockets on a cable between two devices.

use crate::lab::{self, MOMENT, cable, frame, inside, ip, open, packet, receive, send};
use crate::witness;
use linecard::offload::segment::segment;
use linecard::packet::{Batch, ChecksumState, Gso, LinkType, Meta, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_io::port::{self, Fanout, FanoutBy};
use linecard_testkit::say;
use linecard_tun::PortError;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes from the shortest to the longest frame of an MTU of 1,500.
const LENS: [usize; 10] = [60, 61, 64, 65, 127, 128, 590, 1_000, 1_513, 1_514];

fn all_frames() -> Vec<Vec<u8>> {
    let plain = LENS.iter().map(|len| frame(*len, None, 1, *len as u16));
    let tagged = LENS.iter().map(|len| frame(len + 4, Some(0xA005), 2, *len as u16));
    plain.chain(tagged).collect()
}

/// Promise (Live interfaces): Packet sockets deliver frames as they were on the wire, both ways: 20
/// frames of 60 to 1,518 bytes with VLAN tags, on veth with Linux 6.18, as root.
#[test]
fn frames_come_out_as_they_went_in() {
    inside("frames through packet sockets", || {
        cable();
        for offloads in [true, false] {
            let mut a = open("va", |config| config.offloads = offloads);
            let mut b = open("vb", |config| config.offloads = offloads);
            let virtio = a.offloads();
            say(&format!("packet socket: virtio headers {virtio}"));
            let (frames, pool) = (all_frames(), lab::pool());
            let packets =
                || frames.iter().map(|bytes| packet(&pool, bytes, Meta::default())).collect();
            send(&mut a, packets());
            let there = receive(&mut b, frames.len());
            assert!(there.iter().map(|packet| packet.bytes()).eq(&frames));
            drop(there);
            send(&mut b, packets());
            let back = receive(&mut a, frames.len());
            assert!(back.iter().map(|packet| packet.bytes()).eq(&frames));
            let (count, bytes) = (frames.len() as u64, frames.concat().len() as u64);
            for counters in [a.counters(), b.counters()] {
                assert_eq!((counters.received, counters.received_bytes), (count, bytes));
                assert_eq!((counters.transmitted, counters.transmitted_bytes), (count, bytes));
                // To the kernel, and from it; with virtio headers without a ring, else into that and out of it.
                assert_eq!(counters.copied_bytes, if virtio { 2 } else { 3 } * bytes);
                assert_eq!((counters.dropped.total(), counters.gone), (0, 0));
            }
        }
    });
}

#[test]
fn another_socket_sees_the_same() {
    inside("frames beside another packet socket", || {
        cable();
        let index = witness::interface("vb").expect("made before");
        let mut other = witness::PacketSocket::receiver(index).expect("root may");
        let sender = witness::PacketSocket::sender(index, 0).expect("root may");
        let (mut a, frames, pool) = (open("va", |_| ()), all_frames(), lab::pool());
        for bytes in &frames {
            sender.send(bytes).expect("a frame is sent");
        }
        let came = receive(&mut a, frames.len());
        assert!(came.iter().map(|packet| packet.bytes()).eq(&frames));
        // The other one also receives packets that it has sent itself.
        while other.wait(MOMENT).expect("open") {
            other.receive().expect("open");
        }
        let packets = frames.iter().map(|bytes| packet(&pool, bytes, Meta::default()));
        send(&mut a, packets.collect());
        for bytes in &frames {
            assert!(other.wait(lab::PATIENCE).expect("open"), "a frame is missing");
            assert_eq!(other.receive().expect("open").map(|it| it.frame).as_ref(), Some(bytes));
        }
    });
}

/// A datagram that is to be cut, 20,000 bytes of payload or so, and its segments.
pub(crate) fn large() -> (Vec<u8>, Gso, Vec<Vec<u8>>) {
    let (bytes, gso) = (frame(20_042, None, 3, 4), Gso { size: 1_000, ..Gso::default() });
    let packet = Packet::new(bytes.clone(), LinkType::Ethernet, Meta::default());
    let mut segments = segment(&packet, gso).expect("UDP");
    let (mut room, mut frames) = (vec![0; segments.max_len()], Vec::new());
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        frames.push(room[..written.len].to_vec());
    }
    assert_eq!(frames.len(), 20);
    (bytes, Gso { segments: 20, ..gso }, frames)
}

#[test]
fn large_packets_go_whole_where_the_kernel_takes_them() {
    inside("large packets through packet sockets", || {
        cable();
        let (bytes, gso, segments) = large();
        let meta = Meta { gso: Some(gso), ..Meta::default() };
        let mut whole = open("va", |_| ());
        let mut cutting = open("va", |config| config.offloads = false);
        let (mut b, pool) = (open("vb", |_| ()), lab::pool());
        assert!(!cutting.offloads());
        if whole.offloads() {
            send(&mut whole, vec![packet(&pool, &bytes, meta)]);
            let mut came = receive(&mut b, 1).remove(0);
            assert_eq!(came.meta.checksum, ChecksumState::Partial);
            assert_eq!(came.meta.gso.map(|gso| (gso.size, gso.segments)), Some((1_000, 20)));
            linecard::offload::complete_checksum(&mut came);
            assert_eq!(came.bytes(), bytes);
            assert_eq!((whole.counters().transmitted, whole.counters().cut), (1, 0));
        }
        send(&mut cutting, vec![packet(&pool, &bytes, meta)]);
        let came = receive(&mut b, segments.len());
        assert!(came.iter().map(|packet| packet.bytes()).eq(&segments));
        assert_eq!((cutting.counters().transmitted, cutting.counters().cut), (1, 1));
        assert_eq!(cutting.counters().dropped.total(), 0);
    });
}

/// Past the queueing discipline the kernel would lose them and say "no buffers", time and again.
#[test]
fn large_packets_go_where_the_interface_cannot_cut_them() {
    inside("large packets on an interface that cannot cut", || {
        cable();
        ip("link set va gso_max_size 8000");
        let (bytes, gso, segments) = large();
        let meta = Meta { gso: Some(gso), ..Meta::default() };
        let (mut a, mut b, pool) = (open("va", |_| ()), open("vb", |_| ()), lab::pool());
        send(&mut a, vec![packet(&pool, &bytes, meta)]);
        let mut came = receive(&mut b, 1);
        if came[0].meta.gso.is_some() {
            return linecard_testkit::skip(
                "large packets on an interface that cannot cut",
                "before Linux 6.8",
            );
        }
        let missing = segments.len() - came.len();
        came.extend(receive(&mut b, missing));
        for packet in came.iter_mut().filter(|came| came.meta.checksum == ChecksumState::Partial) {
            linecard::offload::complete_checksum(packet);
        }
        assert!(came.iter().map(|packet| packet.bytes()).eq(&segments));
        assert_eq!(a.counters().blocked, 0);
    });
}

#[test]
fn a_frame_above_the_mtu_is_counted_and_the_others_go() {
    inside("frames above the MTU", || {
        cable();
        assert_eq!(linecard_tun::interface::mtu("va").expect("it is there"), 1_500);
        let (mut a, mut b, pool) = (open("va", |_| ()), open("vb", |_| ()), lab::pool());
        let frames = [60, 1_515, 1_514].map(|len| frame(len, None, 1, 1));
        let packets = frames.iter().map(|bytes| packet(&pool, bytes, Meta::default()));
        send(&mut a, packets.collect());
        let came = receive(&mut b, 2);
        assert!(came.iter().map(|packet| packet.bytes()).eq([&frames[0], &frames[2]]));
        assert_eq!((a.counters().dropped.above_mtu, a.counters().transmitted), (1, 2));
    });
}

/// Promise (Live interfaces): A fanout of packet sockets gives each of 64 flows to one port.
#[test]
fn a_fanout_gives_each_flow_to_one_port() {
    const FLOWS: u16 = 64;
    const EACH: u16 = 20;
    inside("fanout over two ports", || {
        cable();
        let fanout = Some(Fanout { group: 77, by: FanoutBy::Hash });
        let mut ports = [0, 1].map(|_| open("vb", |config| config.fanout = fanout));
        let (mut a, pool) = (open("va", |_| ()), lab::pool());
        let mut places = BTreeMap::<u16, [u16; 2]>::new();
        for number in 0..EACH {
            let frames = (0..FLOWS).map(|flow| frame(100, None, flow, number));
            let packets = frames.map(|bytes| packet(&pool, &bytes, Meta::default()));
            send(&mut a, packets.collect());
            let (mut count, begin) = (0, std::time::Instant::now());
            while count < FLOWS {
                for (place, port) in ports.iter_mut().enumerate() {
                    for packet in lab::receive_within(port, Duration::from_millis(5)) {
                        let flow = u16::from_be_bytes([packet.bytes()[34], packet.bytes()[35]]);
                        places.entry(flow).or_default()[place] += 1;
                        count += 1;
                    }
                }
                assert!(begin.elapsed() < lab::PATIENCE, "{count} of {FLOWS} came");
            }
        }
        assert_eq!(places.len(), usize::from(FLOWS));
        assert!(places.values().all(|count| matches!(count, [EACH, 0] | [0, EACH])), "{places:?}");
        let both = (0..2).all(|place| places.values().any(|count| count[place] > 0));
        assert!(both, "all flows went to one port: {places:?}");
        // Packets that a member of the group sends reach none of them.
        send(&mut ports[0], vec![packet(&pool, &frame(60, None, 0, 0), Meta::default())]);
        assert_eq!(receive(&mut a, 1).len(), 1);
        assert!(ports.iter_mut().all(|port| lab::receive_within(port, MOMENT).is_empty()));
        let error = port::PacketSocket::open(
            &port::PacketConfig {
                fanout: Some(Fanout { group: 77, by: FanoutBy::Cpu }),
                ..port::PacketConfig::new("vb")
            },
            lab::pool(),
        );
        assert!(matches!(error, Err(PortError::Fanout { group: 77 })), "{error:?}");
    });
}

#[test]
fn a_port_ends_with_its_interface() {
    inside("an interface removed", || {
        cable();
        let (mut a, mut b, pool) = (open("va", |_| ()), open("vb", |_| ()), lab::pool());
        // Down is not gone.
        linecard_tun::interface::set_up("vb", false).expect("it is there");
        assert!(lab::receive_within(&mut a, MOMENT).is_empty());
        assert!(lab::receive_within(&mut b, MOMENT).is_empty());
        linecard_tun::interface::set_up("vb", true).expect("it is there");
        ip("link del va");
        for port in [&mut a, &mut b] {
            let started = std::time::Instant::now();
            let mut batch = Batch::new();
            while port.receive(&mut batch, Instant::ZERO) == PortState::Open {
                assert!(started.elapsed() < lab::PATIENCE, "it does not end");
                linecard_tun::wait(&[port.as_fd()], Duration::from_millis(5))
                    .expect("one descriptor");
            }
            assert_eq!(port.counters().gone, 1);
            send(port, vec![packet(&pool, &frame(60, None, 0, 0), Meta::default())]);
            assert_eq!(port.counters().dropped.refused, 1);
        }
    });
}

#[test]
fn a_full_pool_leaves_frames_in_the_kernel() {
    inside("a full pool", || {
        cable();
        let (mut a, mut b, pool) = (open("va", |_| ()), open("vb", |_| ()), lab::pool());
        let frames: Vec<_> = (0..300).map(|number| frame(100, None, 1, number)).collect();
        for part in frames.chunks(100) {
            let packets = part.iter().map(|bytes| packet(&pool, bytes, Meta::default()));
            send(&mut a, packets.collect());
        }
        // The pool of `b` has 256.
        let mut came = receive(&mut b, 256);
        assert!(lab::receive_within(&mut b, MOMENT).is_empty());
        assert!(b.counters().no_buffer > 0);
        assert!(came.drain(..).map(|packet| packet.bytes().to_vec()).eq(frames[..256].to_vec()));
        let rest = receive(&mut b, 44);
        assert!(rest.iter().map(|packet| packet.bytes()).eq(&frames[256..]));
    });
}

#[test]
fn times_are_those_of_arrival_in_the_caller_s_time() {
    inside("times of arrival", || {
        cable();
        let (mut a, mut b, pool) = (open("va", |_| ()), open("vb", |_| ()), lab::pool());
        send(&mut a, vec![packet(&pool, &frame(60, None, 0, 0), Meta::default())]);
        std::thread::sleep(Duration::from_millis(200));
        let (mut batch, now) = (Batch::new(), Instant::from_ns(100_000_000_000));
        assert_eq!(b.receive(&mut batch, now), PortState::Open);
        let age = batch.pop().map(|packet| now.since(packet.meta.timestamp));
        let age = age.expect("it has come by now");
        assert!(age >= Duration::from_millis(200) && age < lab::PATIENCE, "{age:?}");
    });
}

#[test]
fn promiscuous_ends_with_the_port() {
    inside("promiscuous ports", || {
        cable();
        let is_promiscuous = || {
            let mut show = std::process::Command::new("ip");
            let shown = show.args(["-d", "link", "show", "vb"]).output().expect("`ip` is there");
            String::from_utf8_lossy(&shown.stdout).contains("promiscuity 1")
        };
        let plain = open("vb", |_| ());
        assert!(!is_promiscuous());
        let port = open("vb", |config| config.promiscuous = true);
        assert!(is_promiscuous());
        drop(port);
        assert!(!is_promiscuous());
        drop(plain);
    });
}

/// Figures, to be run in a release build: `cargo test --release --test ports -- --ignored`.
#[test]
#[ignore = "a measurement"]
fn packets_per_second() {
    inside("packets per second", || {
        cable();
        let mut a = open("va", |_| ());
        let mut b = open("vb", |config| config.receive_buffer = 16 << 20);
        let (pool, bytes) = (lab::pool(), frame(60, None, 1, 1));
        let (mut batch, mut out, mut calls) = (Batch::new(), Batch::new(), Duration::ZERO);
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            while batch.room() > 0 {
                assert!(batch.push(packet(&pool, &bytes, Meta::default())).is_ok());
            }
            a.transmit(&mut batch, Instant::ZERO);
            let before = std::time::Instant::now();
            b.receive(&mut out, Instant::ZERO);
            calls += before.elapsed();
            out.drain().for_each(drop);
        }
        let (seconds, sent, came) = (start.elapsed().as_secs_f64(), a.counters(), b.counters());
        let rate = |count: u64| count as f64 / seconds / 1e6;
        say(&format!(
            "60 B over a cable, one thread: {:.2} M/s sent, {:.2} M/s received, {} ns each to \
             receive, {} lost in the ring",
            rate(sent.transmitted),
            rate(came.received),
            calls.as_nanos() as u64 / came.received.max(1),
            came.dropped.ring_full
        ));
    });
}
