//! A stream over a cable into an AF_XDP sink, beside other traffic.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "what is measured takes its time")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../linecard/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use linecard_io::lab::{CABLE, Cable, Host, Lab};
use linecard_jitter::linux::generator::{Generator, GeneratorConfig};
use linecard_jitter::linux::sink::{Received, Sink, SinkConfig, SinkError, SinkMode};
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 5004;

/// A lab whose hosts know each other's hardware addresses, or why there is none.
fn lab() -> Result<Lab, String> {
    let lab = Lab::new(Cable::default()).map_err(|error| error.to_string())?;
    lab.add_address(Host::Own, CABLE).map_err(|error| error.to_string())?;
    Ok(lab)
}

/// Where the sink is.
fn ipv4() -> SocketAddr {
    (Host::Own.address(), PORT).into()
}

/// The same over IPv6, once the hosts have such addresses.
fn ipv6(lab: &Lab) -> Option<SocketAddr> {
    for (host, address) in [(Host::Own, "fd77::2/64"), (Host::Peer, "fd77::1/64")] {
        let add = ["address", "add", address, "dev", CABLE, "nodad"];
        let output = lab.command(host, "ip").args(add).output().unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            linecard_testkit::skip("AF_XDP over IPv6", why);
            return None;
        }
    }
    Some((Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 0, 2), PORT).into())
}

fn open(lab: &Lab, address: SocketAddr) -> Result<Sink, SinkError> {
    let mut config = SinkConfig::new(address);
    (config.mode, config.capacity) = (SinkMode::AfXdp, 10_000);
    config.interface = Some(CABLE.to_owned());
    lab.enter(Host::Own, || Sink::open(config)).unwrap()
}

/// Bytes that wait in the kernel's sockets of the port.
fn waiting(lab: &Lab) -> u64 {
    let read = |name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
    let sockets = lab.enter(Host::Own, || read("udp") + &read("udp6")).unwrap();
    let queued = sockets.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields.get(1)?.ends_with(&format!(":{PORT:04X}"));
        let (_, received) = fields.get(4)?.split_once(':')?;
        is_ours.then(|| u64::from_str_radix(received, 16).unwrap())
    });
    queued.sum()
}

/// Sends this many packets to a sink that runs on a thread outside of the lab; gives what it
/// received, with how often it took memory.
fn stream(lab: &Lab, target: SocketAddr, count: u64) -> Option<(Received, u64)> {
    let sink = match open(lab, target) {
        Ok(sink) => sink,
        Err(error) => {
            linecard_testkit::skip("AF_XDP", error);
            return None;
        }
    };
    let stop = AtomicBool::new(false);
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
        let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let other = lab.enter(Host::Peer, || UdpSocket::bind(any).unwrap()).unwrap();
        other.send_to(b"for another port", (target.ip(), PORT + 1)).unwrap();
        // The other thread opens the ring. Until then the kernel's socket has packets sent to the port.
        let is_by_kernel = || {
            let before = waiting(lab);
            other.send_to(b"no probe", target).unwrap();
            let sent = Instant::now();
            while waiting(lab) == before {
                if sent.elapsed() > Duration::from_millis(300) {
                    return false;
                }
                thread::sleep(Duration::from_millis(1));
            }
            true
        };
        let begun = Instant::now();
        while is_by_kernel() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the ring is not opened");
            thread::sleep(Duration::from_millis(10));
        }
        lab.enter(Host::Peer, || {
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

/// Promise (Jitter): An AF_XDP sink takes the packets of its port and leaves all others to the
/// kernel.
#[test]
fn packets_of_the_port_come_by_af_xdp_and_others_by_the_kernel() {
    let lab = match lab() {
        Ok(lab) => lab,
        Err(why) => return linecard_testkit::skip("AF_XDP beside the kernel", why),
    };
    let other =
        lab.enter(Host::Own, || UdpSocket::bind((Host::Own.address(), PORT + 1)).unwrap()).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let Some((received, _)) = stream(&lab, ipv4(), 1) else { return };
    assert_eq!(received.arrivals.len(), 1);
    let [few, many] = [20, 2_000].map(|count| {
        let (received, taken) = stream(&lab, ipv4(), count).unwrap();
        let sequences = received.arrivals.iter().map(|arrival| arrival.sequence);
        assert!(sequences.eq(0..count), "{received:?}");
        assert!(received.arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
        assert_eq!((received.foreign, received.overflowed), (1, 0));
        taken
    });
    assert_eq!(many, few, "memory was taken per packet");
    let mut buffer = [0; 100];
    for _ in 0..3 {
        assert_eq!(other.recv(&mut buffer).unwrap(), 16, "the kernel did not get its own packets");
    }
    // A lab takes a second, and there is one at a time in a process.
    if let Some(target) = ipv6(&lab) {
        let (received, _) = stream(&lab, target, 100).unwrap();
        let sequences = received.arrivals.iter().map(|arrival| arrival.sequence);
        assert!(sequences.eq(0..100), "{received:?}");
        assert_eq!((received.foreign, received.overflowed), (1, 0));
    }
}
