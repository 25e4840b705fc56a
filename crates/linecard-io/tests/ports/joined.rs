//! Ports of different kinds, joined: what one receives another sends.

use crate::lab::{self, PATIENCE, cable, frame, inside, packet, receive, send};
use linecard::packet::{Batch, LinkType, Meta, Packet};
use linecard::port::Port;
use linecard::time::Instant;
use linecard_io::attach::{Attached, Prepared, Settings};
use linecard_io::port::{
    Buffer, LivePort, LocalPool, PacketConfig, PacketSocket, SharedBuffer, SharedPool,
};
use linecard_tun::{DeviceConfig, DeviceKind, Tap, interface};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Moves packets between two ports until this many have gone from the first to the second.
fn forward(ports: &mut [Box<dyn LivePort<Buffer>>; 2], count: u64) {
    let (start, mut batch) = (std::time::Instant::now(), Batch::new());
    let [from, to] = ports;
    while to.counters().transmitted < count {
        assert!(start.elapsed() < PATIENCE, "{:?} {:?}", from.counters(), to.counters());
        from.receive(&mut batch, Instant::ZERO);
        to.transmit(&mut batch, Instant::ZERO);
        let waiting: Vec<_> = from.descriptor().into_iter().collect();
        linecard_tun::wait(&waiting, Duration::from_millis(1)).expect("one descriptor");
    }
}

#[test]
fn what_a_packet_socket_receives_a_tap_sends() {
    inside("a packet socket joined to a TAP device", || {
        cable();
        let tap = Tap::open(&DeviceConfig::tap("lc0"), LocalPool(lab::pool())).expect("root may");
        interface::set_up("lc0", true).expect("it was just made");
        let config = PacketConfig { receive_buffer: 2 << 20, ..PacketConfig::new("vb") };
        let socket = PacketSocket::open(&config, LocalPool(lab::pool())).expect("root may");
        // The far ends of both.
        let (mut a, mut kernel) = (lab::open("va", |_| ()), lab::open("lc0", |_| ()));
        let pool = lab::pool();
        let frames: Vec<_> = (0..200).map(|at| frame(60 + at * 7, None, 1, at as u16)).collect();
        let packets = || frames.iter().map(|bytes| packet(&pool, bytes, Meta::default()));
        let mut ports: [Box<dyn LivePort<Buffer>>; 2] = [Box::new(socket), Box::new(tap)];
        send(&mut a, packets().collect());
        forward(&mut ports, 200);
        let came = receive(&mut kernel, frames.len());
        assert!(came.iter().map(|packet| packet.bytes()).eq(&frames));
        drop(came);
        ports.reverse();
        send(&mut kernel, packets().collect());
        forward(&mut ports, 200);
        let came = receive(&mut a, frames.len());
        assert!(came.iter().map(|packet| packet.bytes()).eq(&frames));
        for counters in ports.each_mut().map(|port| port.counters()) {
            assert_eq!((counters.received, counters.transmitted), (200, 200));
            assert_eq!(counters.dropped.total(), 0, "{counters:?}");
        }
    });
}

/// A port whose buffers may go to other threads.
fn shared(interface: &str, pool: &SharedPool) -> PacketSocket<SharedPool> {
    let config = PacketConfig { receive_buffer: 2 << 20, ..PacketConfig::new(interface) };
    PacketSocket::open(&config, pool.clone()).expect("root may")
}

#[test]
fn packets_go_through_another_thread_and_their_buffers_come_back() {
    const COUNT: u64 = 2_000;
    inside("packets through another thread", || {
        cable();
        let pool = SharedPool::new(64, linecard_tun::BUFFER_LEN);
        let (mut a, mut b) = (lab::open("va", |_| ()), shared("vb", &pool));
        let frames: Vec<_> = (0..COUNT).map(|at| frame(100, None, 1, at as u16)).collect();
        thread::scope(|scope| {
            let (out, worker) = mpsc::channel::<Packet<SharedBuffer>>();
            let (done, back) = mpsc::channel();
            // Each other packet ends there.
            scope.spawn(move || {
                for (at, packet) in worker.into_iter().enumerate() {
                    if at % 2 == 0 {
                        done.send(packet).expect("somebody waits");
                    }
                }
            });
            let (mut batch, mut ready) = (Batch::new(), Batch::new());
            for part in frames.chunks(50) {
                let begin = std::time::Instant::now();
                let local = lab::pool();
                let packets = part.iter().map(|bytes| packet(&local, bytes, Meta::default()));
                send(&mut a, packets.collect());
                let before = b.counters().received;
                while b.counters().received < before + part.len() as u64 {
                    assert!(begin.elapsed() < PATIENCE, "{:?}", b.counters());
                    b.receive(&mut batch, Instant::ZERO);
                    batch.drain().for_each(|packet| out.send(packet).expect("it takes all"));
                }
                for _ in 0..part.len() / 2 {
                    let packet = back.recv_timeout(PATIENCE).expect("it comes back");
                    ready.push(packet).expect("there is room");
                }
                b.transmit(&mut ready, Instant::ZERO);
                let halves = part.iter().step_by(2);
                let came = receive(&mut a, part.len() / 2);
                assert!(came.iter().map(|packet| packet.bytes()).eq(halves));
            }
        });
        let counters = b.counters();
        assert_eq!((counters.received, counters.transmitted), (COUNT, COUNT / 2));
        assert_eq!(counters.dropped.total(), 0, "{counters:?}");
        drop(b);
        assert_eq!(pool.free(), 64);
    });
}

/// Ports attached with these settings, changed as asked.
fn attached(near: &str, far: &str, change: impl FnOnce(&mut Settings)) -> Attached {
    let spec = |text: &str| text.parse().expect("a port");
    // The harness goes on to need its rights.
    let mut settings = Settings { keep_rights: true, ..Settings::new(spec(near), spec(far)) };
    change(&mut settings);
    Prepared::new(settings).expect("root may").start()
}

#[test]
fn both_ends_can_be_packet_sockets_of_several_workers() {
    inside("two packet sockets of two workers", || {
        cable();
        let attached = attached("packet:va,mirror", "packet:vb,mirror", |settings| {
            settings.engine.workers = 2;
        });
        attached.stop();
        assert!(attached.finish().1.is_empty());
    });
}

/// As the kernel merges them (GRO) before any socket sees them.
#[test]
fn large_packets_come_through_a_near_packet_socket() {
    inside("large packets at a near packet socket", || {
        cable();
        for name in ["va", "vb"] {
            interface::set_mtu(name, 40_000).expect("root may");
        }
        let attached = attached("packet:vb,mirror", "tap:lc0", |_| ());
        let (mut a, pool) = (lab::open("va", |_| ()), lab::pool());
        send(&mut a, vec![packet(&pool, &frame(30_000, None, 1, 1), Meta::default())]);
        let begun = std::time::Instant::now();
        while attached.stats().near[0].received == 0 && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        attached.stop();
        let (account, failures) = attached.finish();
        assert!(failures.is_empty());
        assert_eq!((account.near[0].received, account.near[0].dropped.total()), (1, 0));
        assert_eq!(account.far[0].transmitted, 1);
    });
}

#[test]
fn a_packet_socket_on_a_tun_gives_and_takes_ip() {
    inside("a packet socket on a TUN device", || {
        let config = DeviceConfig { kind: DeviceKind::Tun, ..DeviceConfig::tap("lc0") };
        let mut tun = Tap::open(&config, lab::pool()).expect("root may");
        interface::set_up("lc0", true).expect("it was just made");
        let mut port = lab::open("lc0", |_| ());
        assert_eq!(port.link(), LinkType::Raw);
        let (pool, datagram) = (lab::pool(), &frame(500, None, 1, 1)[14..]);
        let ip_packet = || {
            let (buffer, _) = packet(&pool, datagram, Meta::default()).into_parts();
            vec![Packet::new(buffer, LinkType::Raw, Meta::default())]
        };
        send(&mut port, ip_packet());
        assert_eq!(receive(&mut tun, 1)[0].bytes(), datagram);
        send(&mut tun, ip_packet());
        assert_eq!(receive(&mut port, 1)[0].bytes(), datagram);
    });
}

/// A device that stands for a wire gets what could be on one.
#[test]
fn without_offloads_large_packets_are_cut() {
    inside("large packets to a TAP device without offloads", || {
        let config = DeviceConfig { offloads: false, ..DeviceConfig::tap("lc0") };
        let mut tap = Tap::open(&config, lab::pool()).expect("root may");
        interface::set_up("lc0", true).expect("it was just made");
        let mut witness = lab::open("lc0", |config| config.offloads = false);
        let (bytes, gso, segments) = crate::packet::large();
        let pool = lab::pool();
        send(&mut tap, vec![packet(&pool, &bytes, Meta { gso: Some(gso), ..Meta::default() })]);
        let came = receive(&mut witness, segments.len());
        assert!(came.iter().map(|packet| packet.bytes()).eq(&segments));
        assert_eq!((tap.counters().cut, tap.counters().transmitted), (1, 1));
    });
}
