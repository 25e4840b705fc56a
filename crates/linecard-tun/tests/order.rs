//! The effect of restoring order within a burst on the kernel's TCP: a sender in one namespace, a receiver in another,
//! and between them a forwarder that puts packets of a burst out of order, loses some, and merges the rest.
//!
//! It needs root; without it, it says so and passes. With `LINECARD_LONG=1` and `--nocapture` it makes the table of
//! docs/results/offload.md: ten times as many bytes, in five rounds.

use linecard::offload::burst::{Merger, Room};
use linecard::offload::coalesce::Config;
use linecard::offload::virtio::{self, Header};
use linecard::packet::LinkType;
use linecard::rng::Rng;
use linecard_testkit::lab::Namespace;
use linecard_testkit::{say, skip};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig, wait_each};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MTU: usize = 1_500;
/// Packets that wait for the forwarder at most.
const QUEUE: usize = 20_000;
/// Packets of a burst at most.
const BURST: usize = 64;
/// A late packet lies behind at most this many others.
const LATE_BY: u64 = 3;
const NEAR: &str = "198.51.100.1";
const FAR: &str = "198.51.100.2";
/// For one transfer; it takes less than a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of hundred packets, how many are late or lost; and whether the merger restores their order.
#[derive(Debug, Clone, Copy)]
struct Path {
    late: f64,
    lost: f64,
    restores: bool,
}

/// The measurements of a transfer.
#[derive(Debug)]
struct Transfer {
    took: Duration,
    /// Packets with data that the forwarder dropped, and packets per packet that it wrote.
    dropped: u64,
    merged: f64,
    /// The kernel's counters, of sender and receiver.
    sender: BTreeMap<String, u64>,
    receiver: BTreeMap<String, u64>,
}

impl Transfer {
    fn resent(&self) -> u64 {
        self.sender["RetransSegs"]
    }

    /// Packets that came out of order at the receiver's TCP.
    fn out_of_order(&self) -> u64 {
        self.receiver["TCPOFOQueue"]
    }

    /// Data that the receiver had already.
    fn needless(&self) -> u64 {
        self.sender["TCPDSACKRecv"]
    }
}

/// Two namespaces, a TUN device in each.
struct Lab {
    namespaces: [Namespace; 2],
    near: Device,
    far: Device,
}

impl Lab {
    fn new() -> Result<Self, String> {
        let namespaces = [Namespace::quiet()?, Namespace::quiet()?];
        // The sender's packets come as on a wire; the receiver's kernel takes merged ones.
        let configs = [
            DeviceConfig { offloads: false, ..DeviceConfig::tun("tun0") },
            DeviceConfig::tun("tun0"),
        ];
        let open = |namespace: &Namespace, config: &DeviceConfig, address: &str| {
            let device = namespace.inside(|| Device::open(config)).map_err(|e| e.to_string())?;
            namespace.ip(&["addr", "add", &format!("{address}/24"), "dev", "tun0"])?;
            // Longer than any window: nothing is lost but what the forwarder drops.
            let (mtu, queue) = (MTU.to_string(), QUEUE.to_string());
            namespace.ip(&["link", "set", "tun0", "mtu", &mtu, "txqueuelen", &queue, "up"])?;
            Ok::<_, String>(device)
        };
        let near = open(&namespaces[0], &configs[0], NEAR)?;
        let far = open(&namespaces[1], &configs[1], FAR)?;
        Ok(Self { namespaces, near, far })
    }

    /// Sends `amount` bytes over a path.
    fn transfer(&self, path: Path, amount: usize) -> Transfer {
        let address: SocketAddr = format!("{FAR}:5000").parse().expect("an address");
        let listener =
            self.namespaces[1].inside(|| TcpListener::bind(address)).expect("it is ours");
        let before = self.counters();
        let done = AtomicBool::new(false);
        let (took, (dropped, merged)) = thread::scope(|scope| {
            let forwarder = scope.spawn(|| self.forward(path, &done));
            let sender = scope.spawn(|| self.namespaces[0].inside(|| send(address, amount)));
            let begun = Instant::now();
            let received = receive(&listener, amount);
            let took = begun.elapsed();
            let sent = sender.join().expect("a sender");
            done.store(true, Ordering::Relaxed);
            let forwarded = forwarder.join().expect("a forwarder").expect("devices that are up");
            sent.and(received).expect("all bytes arrive, and in order");
            (took, forwarded)
        });
        let [sender, receiver] = self.counters();
        let since = |now: BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            now.into_iter()
                .map(|(name, value)| (name.clone(), value - then.get(&name).unwrap_or(&0)))
                .collect()
        };
        let (sender, receiver) = (since(sender, &before[0]), since(receiver, &before[1]));
        Transfer { took, dropped, merged, sender, receiver }
    }

    fn counters(&self) -> [BTreeMap<String, u64>; 2] {
        [0, 1].map(|end| self.namespaces[end].inside(counters))
    }

    /// Passes packets on until all is done; packets dropped, and packets for one written.
    fn forward(&self, path: Path, done: &AtomicBool) -> io::Result<(u64, f64)> {
        let device = virtio::Device { format: self.far.format(), ..virtio::Device::default() };
        let config =
            Config { device: Some(device), restore_order: path.restores, ..Config::burst() };
        let mut merger = Merger::new(LinkType::Raw, config);
        let (mut rng, mut buffer) = (Rng::new(5), vec![0; BURST * MTU]);
        let (mut dropped, mut read, mut written) = (0, 0_u64, 0_u64);
        let mut answer = Answer { frame: vec![0; BUFFER_LEN], out: vec![0; BUFFER_LEN + MTU] };
        while !done.load(Ordering::Relaxed) {
            wait_each([self.near.as_fd(), self.far.as_fd()], Duration::from_millis(10))?;
            let mut burst = self.read_burst(&mut buffer)?;
            burst.retain(|place| {
                // A lost packet without data would say nothing.
                let lost = place.len() > MTU / 2 && rng.chance(path.lost / 100.0);
                dropped += u64::from(lost);
                !lost
            });
            disorder(&mut burst, path.late / 100.0, &mut rng);
            read += burst.len() as u64;
            let merged = merger.merge_burst(&mut buffer, burst, &mut |packet| {
                written += u64::from(self.far.write(&packet).is_ok());
            });
            merged.expect("all lie in the buffer");
            self.answer(&mut answer)?;
        }
        Ok((dropped, read as f64 / written.max(1) as f64))
    }

    /// The packets that wait, by their places.
    fn read_burst(&self, buffer: &mut [u8]) -> io::Result<Vec<Range<usize>>> {
        let mut places = Vec::with_capacity(BURST);
        for at in (0..BURST).map(|number| number * MTU) {
            match self.near.read(&mut buffer[at..][..MTU]) {
                Ok(frame) => places.push(at..at + frame.bytes.len()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(places)
    }

    /// Forwards packets of the other direction: acknowledgments.
    fn answer(&self, Answer { frame, out }: &mut Answer) -> io::Result<()> {
        for _ in 0..BURST {
            let frame = match self.far.read(frame) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                read => read?,
            };
            let mut segments = frame.cut().expect("the kernel describes its packets");
            while let Some(run) = segments.write(Room::default(), out).expect("there is room") {
                for segment in run.bytes().chunks(run.size()) {
                    // A full queue loses packets, as any does.
                    let _lost = self.near.write_frame(&Header::default(), &[segment]);
                }
            }
        }
        Ok(())
    }
}

/// Memory for packets of the other direction.
struct Answer {
    frame: Vec<u8>,
    out: Vec<u8>,
}

/// Moves some packets of a burst behind up to [`LATE_BY`] others.
fn disorder(burst: &mut [Range<usize>], share: f64, rng: &mut Rng) {
    let mut at = 0;
    while at < burst.len() {
        let by = 1 + rng.below(LATE_BY) as usize;
        let end = (at + by).min(burst.len() - 1);
        if rng.chance(share) {
            burst[at..=end].rotate_left(1);
            at = end;
        }
        at += 1;
    }
}

fn send(address: SocketAddr, amount: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&content(amount))?;
    // Until the receiver has all of it.
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut [0])
}

fn receive(listener: &TcpListener, amount: usize) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut received = vec![0; amount];
    stream.read_exact(&mut received)?;
    stream.write_all(&[1])?;
    assert!(received == content(amount), "other bytes came");
    Ok(())
}

fn content(amount: usize) -> Vec<u8> {
    let mut bytes = vec![0; amount];
    Rng::new(3).fill(&mut bytes);
    bytes
}

/// The kernel's counters of TCP in the namespace of this thread.
fn counters() -> BTreeMap<String, u64> {
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let (snmp, netstat) = (read("snmp").expect("a file"), read("netstat").expect("a file"));
    let lines: Vec<&str> = snmp.lines().chain(netstat.lines()).collect();
    let tables = lines.chunks_exact(2).filter(|pair| pair[0].starts_with("Tcp"));
    let columns = tables.flat_map(|pair| pair[0].split(' ').zip(pair[1].split(' ')).skip(1));
    columns.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn row(path: Path, amount: usize, outcome: &Transfer) {
    let of = |name: &str| outcome.sender.get(name).copied().unwrap_or(0);
    say(&format!(
        "| late {} %, lost {} %, restored {} | {:.2} Gbit/s | merged {:.1} | dropped {} | resent {} | \
         out of order {} | DSACK {} | undone {} | reordering seen {} | recoveries {} | RTO {} |",
        path.late,
        path.lost,
        path.restores,
        amount as f64 * 8.0 / outcome.took.as_secs_f64() / 1e9,
        outcome.merged,
        outcome.dropped,
        outcome.resent(),
        outcome.out_of_order(),
        outcome.needless(),
        of("TCPFullUndo") + of("TCPPartialUndo") + of("TCPDSACKUndo"),
        of("TCPSACKReorder") + of("TCPTSReorder"),
        of("TCPSackRecovery"),
        of("TCPTimeouts"),
    ));
}

/// Promise (Offloads): Order that is restored within a burst does the kernel's TCP no harm: fewer of its packets come out
/// of order, what was lost is sent again, and all bytes arrive; packets late by up to three, one in a hundred lost or none.
#[test]
fn order_restored_in_a_burst_does_tcp_no_harm() {
    let is_long = std::env::var_os("LINECARD_LONG").is_some();
    let (amount, rounds) = if is_long { (320 << 20, 5) } else { (32 << 20, 1) };
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(why) => return skip("order that is restored, beside the kernel's TCP", why),
    };
    for _ in 0..rounds {
        for (late, lost) in [(0.0, 0.0), (0.0, 1.0), (10.0, 0.0), (10.0, 1.0)] {
            let [as_it_came, restored] = [false, true].map(|restores| {
                let path = Path { late, lost, restores };
                let outcome = lab.transfer(path, amount);
                row(path, amount, &outcome);
                assert!(outcome.resent() >= outcome.dropped, "a loss was hidden: {outcome:?}");
                outcome
            });
            if late > 0.0 && lost == 0.0 {
                let (before, after) = (as_it_came.out_of_order(), restored.out_of_order());
                assert!(before > 100, "nothing came out of order: {as_it_came:?}");
                assert!(after < before / 2, "{after} of {before} are out of order still");
            }
        }
    }
}
