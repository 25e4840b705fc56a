//! Sinks, the generator and the watcher take no memory per packet: many packets take as often as few.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../linecard/tests/counting/mod.rs"]
mod counting;

use counting::{allocations, memory};
use linecard_jitter::linux::generator::{Generator, GeneratorConfig};
use linecard_jitter::linux::sink::{Sink, SinkConfig, SinkError, SinkMode};
use linecard_jitter::media::live::{Arrival, Watched};
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
        // The first run of all may fill tables that are kept.
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

/// Promise (Jitter): A stream of 24 hours, 4,320,000 packets of a voice call, is watched in the memory of its second
/// hour, with every packet counted and judged against the sender's clock, which differs by 50 ppm.
#[test]
fn a_day_is_watched_in_the_memory_of_an_hour() {
    const HOUR: u64 = 180_000;
    let mut watched = Watched::new(1_000_000, 10);
    let mut hour = |hour: u64| {
        let started = allocations();
        for n in hour * HOUR..(hour + 1) * HOUR {
            let mut payload = [0; 172];
            payload[0] = 0x80;
            payload[2..4].copy_from_slice(&(n as u16).to_be_bytes());
            payload[4..8].copy_from_slice(&(n as u32).wrapping_mul(160).to_be_bytes());
            // Once in ten minutes a packet is 5 ms late.
            let late_ns = if n % 30_000 == 29_999 { 5_000_000 } else { n % 7 * 1_000 };
            let at_ns = 1_000_000_000 + n * 20_001_000 + late_ns;
            let read_ns = at_ns + 9_000;
            let arrival = Arrival { at_ns, read_ns, wire: None, payload: &payload, len: 172 };
            assert!(watched.push(&arrival, |_| ()));
        }
        (allocations() - started, memory().1)
    };
    let (taken, bytes): (Vec<u64>, Vec<i64>) = (0..24).map(&mut hour).unzip();
    // Memory of the learning phase in the first minutes is freed; from then on, the same is kept.
    assert!(bytes[1..].iter().all(|kept| *kept == bytes[1]), "{bytes:?}");
    assert!(taken[2..].iter().all(|again| again.abs_diff(taken[1]) < taken[1] / 100), "{taken:?}");
    let counts = &watched.counts;
    assert_eq!((counts.packets, counts.order.lost(), counts.late), (24 * HOUR, 0, 24 * 6));
    assert!(counts.before_socket.quantile(0.99) < 20_000, "{:?}", counts.before_socket);
    assert_eq!((watched.worst().len(), counts.pauses, counts.restarts), (10, 0, 0));
}
