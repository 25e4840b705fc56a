//! Sinks and the generator take no memory per packet: many packets take as often as few.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../linecard/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use linecard_jitter::linux::generator::{Generator, GeneratorConfig};
use linecard_jitter::linux::sink::{Sink, SinkConfig, SinkError, SinkMode};
use linecard_jitter::stream::probe::{MIN_LEN, Probe};
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;

/// The number of allocations of a sink for this many packets that wait for it, and as many that are
/// not of the stream.
fn taken_by_sink(mode: SinkMode, packets: u64) -> Option<u64> {
    let config = SinkConfig::new("127.0.0.1:0".parse().unwrap());
    let sink = match Sink::open(SinkConfig { mode, capacity: 2_000, ..config }) {
        Ok(sink) => sink,
        // Has an interface of its own in the tests of AF_XDP.
        Err(SinkError::NoInterface) => return None,
        Err(error) => {
            linecard_testkit::skip(mode.name(), error);
            return None;
        }
    };
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = sink.address().unwrap();
    for sequence in 0..packets {
        let mut payload = [0; MIN_LEN];
        sender.send_to(&payload, address).unwrap();
        Probe { sequence, due_ns: 1, sent_ns: 1 }.write(&mut payload);
        sender.send_to(&payload, address).unwrap();
    }
    let started = allocations();
    let received = sink.run(&AtomicBool::new(false), Some(packets)).unwrap();
    let taken = allocations() - started;
    assert_eq!(received.arrivals.len() as u64, packets, "{}", mode.name());
    Some(taken)
}

/// Promise (Jitter): Sinks allocate as much memory for 1,000 packets as for 2, in all ways to
/// receive.
#[test]
fn sinks_take_no_memory_per_packet() {
    for mode in SinkMode::ALL {
        // The first run of all may fill what is kept for good.
        let _first = taken_by_sink(mode, 1);
        let (few, many) = (taken_by_sink(mode, 2), taken_by_sink(mode, 1_000));
        assert_eq!(few, many, "{}", mode.name());
    }
}

/// Promise (Jitter): The generator allocates as much memory for 2,000 packets as for 2.
#[test]
fn the_generator_takes_no_memory_per_packet() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = |count| {
        let mut config = GeneratorConfig::new(sink.local_addr().unwrap());
        (config.count, config.period_ps) = (count, 1_000_000);
        let generator = Generator::open(config).unwrap();
        let started = allocations();
        generator.run(&AtomicBool::new(false)).unwrap();
        allocations() - started
    };
    let _first = taken(1);
    assert_eq!(taken(2), taken(2_000));
}
