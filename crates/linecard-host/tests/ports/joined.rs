//! Ports of different kinds, joined: what one receives another sends.

use crate::lab::{self, PATIENCE, cable, frame, inside, packet, receive, send};
use linecard::packet::{Batch, Meta};
use linecard::time::Instant;
use linecard_host::port::{
    self, Buffer, LivePort, LocalPool, PacketConfig, PacketSocket, Tap, TapConfig, interface,
};
use std::time::Duration;

/// Moves packets between two ports until so many have gone from the first to the second.
fn forward(ports: &mut [Box<dyn LivePort<Buffer>>; 2], count: u64) {
    let (start, mut batch) = (std::time::Instant::now(), Batch::new());
    let [from, to] = ports;
    while to.counters().transmitted < count {
        assert!(start.elapsed() < PATIENCE, "{:?} {:?}", from.counters(), to.counters());
        from.receive(&mut batch, Instant::ZERO);
        to.transmit(&mut batch, Instant::ZERO);
        let waiting: Vec<_> = from.descriptor().into_iter().collect();
        port::wait(&waiting, Duration::from_millis(1)).expect("one descriptor");
    }
}

#[test]
fn what_a_packet_socket_receives_a_tap_sends() {
    inside("a packet socket joined to a TAP device", || {
        cable();
        let tap = Tap::open(&TapConfig::new("lc0"), LocalPool(lab::pool())).expect("root may");
        interface::set_up("lc0", true).expect("it was just made");
        let config = PacketConfig { blocks: 8, ..PacketConfig::new("vb") };
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
