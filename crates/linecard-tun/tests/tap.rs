//! TAP devices: the kernel's own TCP between two namespaces, carried by two ports. Each test makes its
//! own network namespace; without root it says so and passes.

use linecard::offload::burst::Merger;
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::offload::virtio::{Format, Header};
use linecard::packet::{Batch, ChecksumState, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Segment};
use linecard::time::Instant;
use linecard_testkit::lab::{inside, ip, new_network};
use linecard_testkit::say;
use linecard_tun::{
    BUFFER_LEN, Counters, Device, DeviceConfig, DeviceKind, PortError, Tap, interface,
};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

/// How long a step may take, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are carried.
const BYTES: usize = 8 << 20;

fn pool() -> Pool {
    Pool::new(256, BUFFER_LEN)
}

fn open(kind: DeviceKind, address: &str) -> Tap {
    let config = DeviceConfig { kind, ..DeviceConfig::tap("lc%d") };
    let tap = Tap::open(&config, pool()).expect("root may");
    assert_eq!(tap.name(), "lc0");
    ip(&format!("addr add {address}/24 dev lc0"));
    interface::set_up("lc0", true).expect("it was just made");
    tap
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ at >> 9) as u8).collect()
}

/// The treatment of packets on their way to the server.
#[derive(Debug)]
enum Way {
    /// Nothing.
    Whole,
    /// Cut into segments of the wire.
    Cut,
    /// Cut, and merged again.
    Merged,
}

/// The stages of a way, and their batches.
struct Bridge {
    segment: Segment,
    coalesce: Coalesce<PoolBuffer>,
    input: Batch<PoolBuffer>,
    middle: Batch<PoolBuffer>,
    output: Batch<PoolBuffer>,
    back: Batch<PoolBuffer>,
    /// Bytes of the longest packet that came, and of the longest that was to go on.
    longest: (usize, usize),
    gso: usize,
}

impl Bridge {
    fn new(link: LinkType) -> Self {
        let config = Config { flush_at_batch_end: true, ..Config::default() };
        Self {
            segment: Segment::new(link, Pool::new(1_024, 2_048)),
            coalesce: Coalesce::new(config),
            input: Batch::new(),
            middle: Batch::new(),
            output: Batch::new(),
            back: Batch::new(),
            longest: (0, 0),
            gso: 0,
        }
    }

    /// One turn in both directions.
    fn turn(&mut self, (a, b): (&mut Tap, &mut Tap), way: &Way, now: Instant) {
        let before = self.input.len();
        assert_eq!(a.receive(&mut self.input, now), PortState::Open);
        for packet in self.input.iter_mut().skip(before) {
            self.longest.0 = self.longest.0.max(packet.bytes().len());
            self.gso += usize::from(packet.meta.gso.is_some());
            if !matches!(way, Way::Whole) && packet.meta.gso.is_some() {
                // The segmenter completes the checksums.
                packet.meta.checksum = ChecksumState::Unknown;
            }
        }
        match way {
            Way::Whole => b.transmit(&mut self.input, now),
            Way::Cut => {
                self.segment.process(&mut self.input, now, &mut self.middle);
                self.note(true);
                b.transmit(&mut self.middle, now);
            }
            Way::Merged => {
                self.segment.process(&mut self.input, now, &mut self.middle);
                self.coalesce.process(&mut self.middle, now, &mut self.output);
                self.note(false);
                b.transmit(&mut self.output, now);
            }
        }
        assert_eq!(b.receive(&mut self.back, now), PortState::Open);
        a.transmit(&mut self.back, now);
    }

    fn note(&mut self, middle: bool) {
        let batch = if middle { &self.middle } else { &self.output };
        let longest = batch.iter().map(|packet| packet.datagram_len()).max().unwrap_or(0);
        self.longest.1 = self.longest.1.max(longest);
    }
}

/// Carries this many bytes of the kernel's TCP from one namespace to another.
fn carry(kind: DeviceKind, way: &Way, bytes: usize) -> (Bridge, Counters, Counters) {
    let mut a = open(kind, "10.9.0.1");
    let (start, started) = std::sync::mpsc::channel::<()>();
    // Threads are in the namespace in which they were started.
    let client = thread::spawn(move || {
        started.recv().expect("the server listens");
        let address = "10.9.0.2:7000".parse().expect("an address");
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it answers");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(&content(bytes)).expect("all is taken");
    });
    let _far = new_network();
    let mut b = open(kind, "10.9.0.2");
    let listener = TcpListener::bind("10.9.0.2:7000").expect("nobody else is here");
    start.send(()).expect("the client waits");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client comes");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it ends");
        bytes
    });
    let link = if kind == DeviceKind::Tun { LinkType::Raw } else { LinkType::Ethernet };
    let (mut bridge, begin) = (Bridge::new(link), std::time::Instant::now());
    while !server.is_finished() {
        assert!(begin.elapsed() < PATIENCE * 3, "{:?} {:?}", a.counters(), b.counters());
        let now = Instant::from_ns(begin.elapsed().as_nanos() as u64);
        bridge.turn((&mut a, &mut b), way, now);
        let waiting = bridge.input.len() + bridge.middle.len() + bridge.output.len();
        if waiting + bridge.back.len() == 0 {
            linecard_tun::wait(&[a.as_fd(), b.as_fd()], Duration::from_millis(5))
                .expect("two of them");
        }
    }
    let rate = bytes as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e9;
    client.join().expect("the client has sent all");
    assert!(server.join().expect("the server has all") == content(bytes), "other bytes came");
    say(&format!("{kind:?}, {way:?}, header of {}: {rate:.1} Gbit/s", a.format().header_len()));
    let counters = (a.counters(), b.counters());
    (bridge, counters.0, counters.1)
}

/// Promise (Live interfaces): 8 MiB of the kernel's TCP pass two TAP devices in large packets,
/// whole; further tests segment them and merge them again.
#[test]
fn large_packets_of_the_kernel_go_whole() {
    inside("TCP through TAP devices", |_| {
        for kind in [DeviceKind::Tap, DeviceKind::Tun] {
            let _near = new_network();
            let (bridge, a, b) = carry(kind, &Way::Whole, BYTES);
            assert!(bridge.gso > 0 && bridge.longest.0 > 10_000, "{:?}", bridge.longest);
            assert_eq!((a.dropped.total(), b.dropped.total(), b.cut), (0, 0, 0), "{a:?} {b:?}");
        }
    });
}

#[test]
fn large_packets_of_the_kernel_are_cut_right() {
    inside("TCP cut behind a TAP device", |_| {
        let (bridge, a, b) = carry(DeviceKind::Tap, &Way::Cut, BYTES);
        assert!(bridge.gso > 0 && bridge.longest.0 > 10_000, "{:?}", bridge.longest);
        assert!(bridge.longest.1 <= 1_514, "{:?}", bridge.longest);
        assert_eq!((a.dropped.total(), b.dropped.total()), (0, 0), "{a:?} {b:?}");
        assert!(b.transmitted > a.received);
    });
}

#[test]
fn merged_packets_are_received_whole() {
    inside("merged packets into a TAP device", |_| {
        let (bridge, a, b) = carry(DeviceKind::Tap, &Way::Merged, BYTES);
        assert!(bridge.longest.1 > 10_000, "{:?}", bridge.longest);
        assert_eq!((a.dropped.total(), b.dropped.total(), b.cut), (0, 0, 0), "{a:?} {b:?}");
    });
}

/// Figures, to be run in a release build: `cargo test --release -p linecard-tun --test tap -- --ignored`.
#[test]
#[ignore = "a measurement"]
fn bits_per_second() {
    inside("bits per second", |_| {
        for way in [Way::Whole, Way::Cut, Way::Merged] {
            let _near = new_network();
            carry(DeviceKind::Tap, &way, 256 << 20);
        }
    });
}

#[test]
fn queues_share_flows_and_split_none() {
    inside("flows over several queues", |_| {
        let many = DeviceConfig { multi_queue: true, ..DeviceConfig::tap("lc0") };
        let mut queues = [0, 1].map(|_| Tap::open(&many, pool()).expect("root may"));
        ip("addr add 10.9.0.1/24 dev lc0");
        interface::set_up("lc0", true).expect("it was just made");
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev lc0");
        let sockets: Vec<_> =
            (0..64).map(|_| UdpSocket::bind("10.9.0.1:0").expect("the address is ours")).collect();
        let mut places = BTreeMap::<u16, [usize; 2]>::new();
        for _ in 0..3 {
            for socket in &sockets {
                socket.send_to(b"linecard", "10.9.0.2:9").expect("there is a neighbour");
            }
            let (mut count, mut batch, begin) = (0, Batch::new(), std::time::Instant::now());
            while count < sockets.len() {
                for (place, queue) in queues.iter_mut().enumerate() {
                    linecard_tun::wait(&[queue.as_fd()], Duration::from_millis(5)).expect("one");
                    assert_eq!(queue.receive(&mut batch, Instant::ZERO), PortState::Open);
                    for packet in batch.drain() {
                        let flow = u16::from_be_bytes([packet.bytes()[34], packet.bytes()[35]]);
                        places.entry(flow).or_default()[place] += 1;
                        count += 1;
                    }
                }
                assert!(begin.elapsed() < PATIENCE, "{count} of {} came", sockets.len());
            }
        }
        let whole = places.values().all(|count| matches!(count, [3, 0] | [0, 3]));
        assert!(places.len() == sockets.len() && whole, "{places:?}");
        let both = (0..2).all(|place| places.values().any(|count| count[place] > 0));
        assert!(both, "all flows went to one queue: {places:?}");
    });
}

#[test]
fn queues_of_one_device_share_its_name() {
    inside("several queues of a TAP device", |_| {
        let many = DeviceConfig { multi_queue: true, ..DeviceConfig::tap("lcq") };
        let first = Tap::open(&many, pool()).expect("root may");
        let second = Tap::open(&many, pool()).expect("a second queue");
        assert_eq!((first.name(), second.name()), ("lcq", "lcq"));
        assert_eq!((first.format(), first.offloads()), (second.format(), second.offloads()));
        assert!(matches!(first.format(), Format::V1 | Format::Tunnel));
        say(&format!("TAP: {:?}, offloads {:#x}", first.format(), first.offloads()));
        let one = Tap::open(&DeviceConfig::tap("lcq"), pool()).expect_err("one of several");
        assert!(matches!(one, PortError::OtherKind { .. }), "{one}");
        let alone = Tap::open(&DeviceConfig::tap("lcone"), pool()).expect("root may");
        let again = Tap::open(&DeviceConfig::tap("lcone"), pool()).expect_err("in use");
        assert!(matches!(again, PortError::InUse { .. }), "{again}");
        drop(alone);
        let short = Tap::open(&many, Pool::new(1, 2_048)).expect_err("64 KiB do not fit");
        assert!(matches!(short, PortError::ShortBuffers { given: 2_048, .. }), "{short}");
    });
}

#[test]
fn a_tap_ends_with_its_device() {
    inside("a TAP device removed", |_| {
        let mut tap = open(DeviceKind::Tap, "10.9.0.1");
        // An interface that is down still exists; packets sent then are lost.
        interface::set_up("lc0", false).expect("it is there");
        let pool = pool();
        let send = |tap: &mut Tap| {
            let (mut batch, mut frame) = (Batch::new(), pool.take().expect("one is free"));
            frame.truncate(60);
            let packet = Packet::new(frame, LinkType::Ethernet, Meta::default());
            assert!(batch.push(packet).is_ok());
            tap.transmit(&mut batch, Instant::ZERO);
            assert!(batch.is_empty());
        };
        send(&mut tap);
        assert_eq!(tap.counters().dropped.refused, 1);
        ip("link del lc0");
        let (mut batch, begin) = (Batch::new(), std::time::Instant::now());
        while tap.receive(&mut batch, Instant::ZERO) == PortState::Open {
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            linecard_tun::wait(&[tap.as_fd()], Duration::from_millis(5)).expect("one descriptor");
        }
        send(&mut tap);
        assert_eq!((tap.counters().gone, tap.counters().dropped.refused), (1, 2));
    });
}

#[test]
fn a_frame_in_more_slices_than_a_call_takes_is_refused() {
    inside("a frame in many slices", |_| {
        let device = Device::open(&DeviceConfig::tun("lc%d")).expect("root may");
        assert_eq!(device.format(), Format::V1, "tunnels are not asked for");
        interface::set_up(device.name(), true).expect("it was just made");
        let slices = [&[0x45_u8][..]; 1_024];
        let error = device.write_frame(&Header::default(), &slices).expect_err("one too many");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1024 slices: at most 1023"), "{error}");
    });
}

#[test]
fn names_that_no_device_can_have_are_refused_as_such() {
    inside("names of devices", |_| {
        for name in ["all", "default", ".", "..", "a%", "%s", "a%d%d"] {
            let error = Device::open(&DeviceConfig::tun(name)).expect_err(name);
            assert!(matches!(error, PortError::BadName { .. }), "{error}");
        }
        let error = Device::open(&DeviceConfig::tun("lo")).expect_err("a loopback interface");
        assert!(matches!(error, PortError::OtherKind { .. }), "{error}");
        assert_eq!(Device::open(&DeviceConfig::tun("t%dx")).expect("root may").name(), "t0x");
    });
}

#[test]
fn errors_of_a_device_say_what_to_do() {
    inside("errors of a device", |_| {
        let device = Device::open(&DeviceConfig::tun("lc0")).expect("root may");
        interface::set_up("lc0", true).expect("it was just made");
        ip("addr add 10.9.0.1/24 dev lc0");
        let socket = UdpSocket::bind("10.9.0.1:0").expect("the address is ours");
        socket.send_to(&[0; 100], "10.9.0.2:9").expect("the device is up");
        let begin = std::time::Instant::now();
        let error = loop {
            match device.read(&mut [0; 16]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(begin.elapsed() < PATIENCE, "nothing comes");
                    let wait = linecard_tun::wait(&[device.as_fd()], Duration::from_millis(50));
                    wait.expect("one descriptor");
                }
                read => break read.expect_err("the buffer is too short"),
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let text = error.to_string();
        assert!(text.contains("16 bytes") && text.contains("BUFFER_LEN (65"), "{text}");
        ip("link del lc0");
        let read = device.read(&mut [0; 16]).map(|_| ()).expect_err("it is gone");
        let write = device.write_frame(&Header::default(), &[&[0x45]]).expect_err("it is gone");
        for error in [read, write] {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert_eq!(error.to_string(), "the device was removed");
        }
    });
}

#[test]
fn a_merger_may_differ_in_what_does_not_concern_the_device() {
    inside("the configuration of a merger", |_| {
        let offloads = Device::open(&DeviceConfig::tun("lc0")).expect("root may");
        let config = DeviceConfig { offloads: false, ..DeviceConfig::tun("lc1") };
        let plain = Device::open(&config).expect("root may");
        assert_eq!(plain.merger_config().max_segments, 1, "nothing large is accepted");
        // Two segments of TCP behind each other, with checksums that are wrong.
        let segment = |sequence: u8| {
            let mut frame = vec![0x45, 0, 0, 44, 0, sequence / 4, 0x40, 0, 64, 6, 0, 0];
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 0, 0, sequence, 0, 0, 0, 2]);
            frame.extend([0x50, 0x10, 1, 0, 1, 2, 0, 0, 1, 2, 3, 4]);
            let sum = frame[..20].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
            let sum = sum.sum::<u32>();
            frame[10..12].copy_from_slice(&(!((sum >> 16) + sum) as u16).to_be_bytes());
            frame
        };
        let count = |checksum: ChecksumPolicy| {
            let config = Config { checksum, ..offloads.merger_config() };
            let mut bytes = [segment(0), segment(4)].concat();
            let mut packets = 0;
            let mut merger = Merger::new(offloads.link(), config);
            let merged =
                merger.merge_burst(&mut bytes, [0..44, 44..88], &mut |_packet| packets += 1);
            merged.expect("they are inside");
            packets
        };
        assert_eq!((count(ChecksumPolicy::Verify), count(ChecksumPolicy::Trust)), (2, 1));
    });
}
