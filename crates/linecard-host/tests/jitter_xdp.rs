//! A stream over a cable into an AF_XDP sink, beside traffic that is none of its own.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../linecard/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use linecard_host::jitter::generator::{Generator, GeneratorConfig};
use linecard_host::jitter::sink::{Received, Sink, SinkConfig, SinkError, SinkMode};
use linecard_host::lab::{CABLE, Cable, Host, Lab};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5004;

/// A lab whose hosts know each other's hardware addresses, or why there is none.
fn lab() -> Result<Lab, String> {
    let lab = Lab::new(Cable::default()).map_err(|error| error.to_string())?;
    lab.give_address(Host::Own, CABLE).map_err(|error| error.to_string())?;
    Ok(lab)
}

fn open(lab: &Lab) -> Result<Sink, SinkError> {
    let mut config = SinkConfig::new((Host::Own.address(), PORT).into());
    (config.mode, config.capacity) = (SinkMode::AfXdp, 10_000);
    config.interface = Some(CABLE.to_owned());
    lab.enter(Host::Own, || Sink::open(config)).unwrap()
}

/// Sends so many packets, and what a sink got of them that runs on a thread outside of the lab, with how
/// often it took memory.
fn stream(lab: &Lab, count: u64) -> Option<(Received, u64)> {
    let sink = match open(lab) {
        Ok(sink) => sink,
        Err(error) => {
            eprintln!("SKIPPED: no AF_XDP: {error}");
            return None;
        }
    };
    let stop = AtomicBool::new(false);
    let target = SocketAddr::from((Host::Own.address(), PORT));
    let mut config = GeneratorConfig::new(target);
    (config.count, config.period_ps) = (count, 50_000_000);
    thread::scope(|scope| {
        let (ready, started) = std::sync::mpsc::channel();
        let receiving = scope.spawn({
            let stop = &stop;
            move || {
                ready.send(()).unwrap();
                let before = allocations();
                (sink.run(stop, Some(count)).unwrap(), allocations() - before)
            }
        });
        started.recv().unwrap();
        // The ring is opened by the other thread.
        thread::sleep(Duration::from_millis(100));
        lab.enter(Host::Peer, || {
            let other = UdpSocket::bind("0.0.0.0:0").unwrap();
            other.send_to(b"for another port", (Host::Own.address(), PORT + 1)).unwrap();
            other.send_to(b"no probe", target).unwrap();
            let departures = Generator::open(config).unwrap().run(&stop).unwrap();
            assert_eq!(departures.refused, 0);
        })
        .unwrap();
        // Should a packet be lost, the sink ends by itself; should the first, it does not.
        thread::sleep(Duration::from_millis(700));
        stop.store(true, Ordering::Relaxed);
        Some(receiving.join().unwrap())
    })
}

#[test]
fn packets_of_the_port_come_by_af_xdp_and_others_by_the_kernel() {
    let lab = match lab() {
        Ok(lab) => lab,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let other =
        lab.enter(Host::Own, || UdpSocket::bind((Host::Own.address(), PORT + 1)).unwrap()).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let Some((received, _)) = stream(&lab, 1) else { return };
    assert_eq!(received.arrivals.len(), 1);
    let [few, many] = [20, 2_000].map(|count| {
        let (received, taken) = stream(&lab, count).unwrap();
        let sequences = received.arrivals.iter().map(|arrival| arrival.sequence);
        assert!(sequences.eq(0..count), "{received:?}");
        assert!(received.arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
        assert_eq!((received.foreign, received.overflowed), (1, 0));
        taken
    });
    assert_eq!(few, many, "memory was taken per packet");
    let mut buffer = [0; 100];
    for _ in 0..3 {
        assert_eq!(other.recv(&mut buffer).unwrap(), 16, "the kernel did not get what is its own");
    }
}
