//! Front ends that connect and disconnect, and their messages.

use super::bench::{Bench, is_broken, packet};
use super::guest::{FrontEnd, Guest, MEMORY_LEN, Memory, feature, pair, request};
use linecard::offload::coalesce::Refusal;
use linecard::packet::Meta;
use linecard_io::attach::{AttachStats, Attached, Prepared, Settings};
use linecard_io::port::vhost::{VhostConfig, VhostDevice, VhostError};
use linecard_testkit::packets::frame::Frame;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn features_are_offered_as_documented() {
    for (offloads, pairs) in [(true, 1), (false, 1), (true, 4)] {
        let mut bench = Bench::with(|config| {
            (config.offloads, config.pairs) = (offloads, pairs);
        });
        let mut front = FrontEnd::connect(&bench.path);
        assert!(front.send(request::GET_FEATURES, &[], &[]));
        let offered = bench.reply(&mut front);
        let has = |bits| offered & bits == bits;
        assert!(has(feature::VERSION_1 | feature::MRG_RXBUF | feature::EVENT_IDX));
        assert_eq!(has(feature::CSUM | feature::GUEST_TSO4 | feature::GUEST_USO), offloads);
        assert_eq!(has(feature::MQ), pairs > 1);
        assert!(offered & feature::LOG_ALL == 0, "no migration");
        assert!(front.send(request::GET_PROTOCOL_FEATURES, &[], &[]));
        assert_eq!(bench.reply(&mut front), 9, "several queues, replies");
        assert!(front.send(request::SET_PROTOCOL_FEATURES, &9_u64.to_ne_bytes(), &[]));
        assert!(front.send(request::GET_QUEUE_NUM, &[], &[]));
        assert_eq!(bench.reply(&mut front), pairs as u64);
    }
}

/// QEMU enables rings before it accepts features.
#[test]
fn a_ring_may_be_enabled_first() {
    let mut bench = Bench::new();
    let mut front = FrontEnd::connect(&bench.path);
    assert!(front.send(request::SET_VRING_ENABLE, &pair(0, 1), &[]));
    assert!(front.send(request::SET_VRING_ENABLE, &pair(1, 1), &[]));
    assert!(front.send(request::GET_FEATURES, &[], &[]));
    assert_ne!(bench.reply(&mut front), 0);
    // With a reply, and of a ring that does not exist.
    let enable = |ring: u32| [request::SET_VRING_ENABLE, 9, 8, ring, 1].map(u32::to_ne_bytes);
    front.send_raw(enable(1).as_flattened());
    assert_eq!(bench.reply(&mut front), 0);
    front.send_raw(enable(2).as_flattened());
    assert_eq!(bench.reply(&mut front), 1);
    assert!(front.is_closed());
}

#[test]
fn a_guest_comes_back() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        assert!(bench.works());
        assert!(!bench.has_ended());
        // Its front end is gone: packets sent now are lost.
        bench.receive();
        assert_eq!(bench.transmit(vec![packet(&[8; 60], Meta::default())]), 0);
    }
    assert_eq!((bench.counters().dropped.refused, bench.counters().gone), (3, 0));
}

#[test]
fn a_port_ends_with_its_guest_if_it_is_to() {
    let mut bench = Bench::with(|config| config.once = true);
    let guest = bench.guest(feature::USUAL);
    assert!(!bench.has_ended());
    drop(guest);
    bench.receive();
    assert!(bench.has_ended());
    assert_eq!(bench.counters().gone, 1);
}

#[test]
fn a_second_front_end_waits_for_the_first_to_leave() {
    let mut bench = Bench::new();
    let first = bench.guest(feature::USUAL);
    let mut second = FrontEnd::connect(&bench.path);
    assert!(second.send(request::GET_FEATURES, &[], &[]));
    bench.receive();
    assert_eq!(second.reply(), None);
    drop(first);
    assert_ne!(bench.reply(&mut second), 0);
}

#[test]
fn a_stopped_ring_says_where_it_stopped() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    for _ in 0..5 {
        guest.send(&[0; 12], &[7; 60]);
    }
    assert_eq!(bench.receive().len(), 5);
    assert!(guest.front.send(request::GET_VRING_BASE, &pair(1, 0), &[]));
    assert_eq!(bench.reply(&mut guest.front) >> 32, 5);
    // Paused, and resumed.
    guest.send(&[0; 12], &[7; 60]);
    assert!(bench.receive().is_empty());
    guest.configure(feature::USUAL);
    assert!(guest.front.send(request::SET_VRING_BASE, &pair(1, 5), &[]));
    let index = 1_u64.to_ne_bytes();
    assert!(guest.front.send(request::SET_VRING_KICK, &index, &[guest.tx.kick.as_fd()]));
    assert_eq!(bench.receive().len(), 1);
}

/// As a front end does that adds memory to its guest, or takes it away.
#[test]
fn memory_may_be_replaced_while_packets_pass() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let replace = |guest: &Guest, memory: &Memory, len| {
        let table = Memory::table(len);
        assert!(guest.front.send(request::SET_MEM_TABLE, &table, &[memory.file.as_fd()]));
    };
    for turn in 0..20 {
        let other = guest.memory.copy();
        replace(&guest, &other, MEMORY_LEN);
        bench.receive();
        // An access to the old one would end the process now.
        guest.memory.file.set_len(0).expect("a file");
        guest.memory = other;
        guest.send(&[0; 12], &[turn; 60]);
        guest.post(1, 2_048);
        let received = bench.receive();
        assert_eq!(received.iter().map(|one| one.bytes()).collect::<Vec<_>>(), [[turn; 60]]);
        assert_eq!(bench.transmit(vec![packet(&[!turn; 60], Meta::default())]), 0);
        let (_, frame) = guest.rx.next_packet(&guest.memory).expect("there");
        assert_eq!(frame, [!turn; 60]);
    }
    assert_eq!(bench.counters().dropped.total(), 0);
    // Rings that are not in it stop.
    replace(&guest, &guest.memory, 0x1000);
    guest.send(&[0; 12], &[7; 60]);
    assert!(bench.receive().is_empty() && !bench.port.has_guest());
    assert!(is_broken(&guest.rx) && is_broken(&guest.tx));
    drop(guest);
    bench.receive();
    assert!(bench.works());
}

#[test]
fn what_a_front_end_may_not_say_ends_its_connection_and_nothing_else() {
    let mut bench = Bench::new();
    type Attack = fn(&mut Guest);
    let attacks: [(&str, Attack); 14] = [
        ("bytes", |guest| guest.front.send_raw(&[0xFF; 64])),
        ("a huge message", |guest| {
            let header = [2_u32, 1, u32::MAX].map(u32::to_ne_bytes).concat();
            guest.front.send_raw(&[header, vec![0; 100]].concat());
        }),
        ("features not offered", |guest| send(guest, request::SET_FEATURES, &(1_u64 << 26))),
        ("the dirty log", |guest| send(guest, request::SET_LOG_BASE, &0)),
        ("a ring that does not exist", |guest| {
            guest.front.send(request::SET_VRING_NUM, &pair(2, 256), &[]);
        }),
        ("a ring of 100 entries", |guest| {
            guest.front.send(request::SET_VRING_NUM, &pair(1, 100), &[]);
        }),
        ("a ring of no entries", |guest| {
            guest.front.send(request::SET_VRING_NUM, &pair(1, 0), &[]);
        }),
        ("a ring elsewhere", |guest| {
            let numbers = [1_u64, 0x1000, 0x2000, 0x3000, 0];
            let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            guest.front.send(request::SET_VRING_ADDR, &body, &[]);
        }),
        ("a ring that is not aligned", |guest| {
            let mut body = guest.tx.addresses();
            body[8] |= 1;
            guest.front.send(request::SET_VRING_ADDR, &body, &[]);
        }),
        ("a ring that ends outside", |guest| {
            let end = super::guest::USER + MEMORY_LEN - 16;
            let numbers = [1_u64, end, end, end, 0];
            let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            guest.front.send(request::SET_VRING_ADDR, &body, &[]);
            let index = 1_u64.to_ne_bytes();
            guest.front.send(request::SET_VRING_KICK, &index, &[guest.tx.kick.as_fd()]);
        }),
        ("memory beyond its file", |guest| {
            let table = Memory::table(MEMORY_LEN * 2);
            guest.front.send(request::SET_MEM_TABLE, &table, &[guest.memory.file.as_fd()]);
        }),
        ("memory without a file", |guest| {
            guest.front.send(request::SET_MEM_TABLE, &Memory::table(MEMORY_LEN), &[]);
        }),
        ("a kick by a file", |guest| {
            let index = 1_u64.to_ne_bytes();
            guest.front.send(request::SET_VRING_KICK, &index, &[guest.memory.file.as_fd()]);
        }),
        ("an unknown request", |guest| send(guest, 4_000, &0)),
    ];
    for (what, attack) in attacks {
        let mut guest = bench.guest(feature::USUAL);
        attack(&mut guest);
        bench.receive();
        assert!(guest.front.is_closed(), "{what}");
        assert!(bench.works(), "after {what}");
        bench.receive();
    }
}

fn send(guest: &Guest, code: u32, number: &u64) {
    guest.front.send(code, &number.to_ne_bytes(), &[]);
}

#[test]
fn half_a_message_blocks_nothing_and_is_not_awaited_for_long() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    let header = [request::SET_FEATURES, 1, 8].map(u32::to_ne_bytes).concat();
    guest.front.send_raw(&header);
    guest.send(&[0; 12], &[7; 60]);
    assert_eq!(bench.receive().len(), 1);
    bench.after_ns(900_000_000);
    guest.front.send_raw(&feature::USUAL.to_ne_bytes());
    bench.receive();
    assert!(!guest.front.is_closed(), "in time");
    guest.front.send_raw(&header[..5]);
    bench.receive();
    bench.after_ns(1_500_000_000);
    bench.receive();
    assert!(guest.front.is_closed());
    assert!(bench.works());
}

/// Unread replies fill the socket; the port continues.
#[test]
fn a_front_end_that_does_not_read_blocks_nothing() {
    let mut bench = Bench::new();
    let mut guest = bench.guest(feature::USUAL);
    for _ in 0..700 {
        guest.front.send(request::GET_FEATURES, &[], &[]);
        bench.receive();
    }
    guest.send(&[0; 12], &[7; 60]);
    assert_eq!(bench.receive().len(), 1);
    bench.after_ns(1_500_000_000);
    bench.receive();
    drop(guest);
    bench.receive();
    assert!(bench.works());
}

#[test]
fn a_client_connects_when_somebody_listens() {
    let mut bench = Bench::with(|config| config.client = true);
    assert!(bench.receive().is_empty());
    let listener = UnixListener::bind(&bench.path).expect("free");
    for _ in 0..2 {
        bench.after_ns(200_000_000);
        bench.receive();
        let (stream, _) = listener.accept().expect("connected");
        stream.set_nonblocking(true).expect("a socket");
        let mut front = FrontEnd { stream };
        assert!(front.send(request::GET_FEATURES, &[], &[]));
        assert_ne!(bench.reply(&mut front), 0);
        drop(front);
        bench.receive();
    }
}

#[test]
fn the_socket_is_this_users_and_removed_at_the_end() {
    let bench = Bench::new();
    let path = bench.path.clone();
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let Bench { port, _folder, .. } = bench;
    drop(port);
    assert!(!path.exists());
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vm.sock");
    let config = VhostConfig::new(&path);
    drop(UnixListener::bind(&path).expect("free"));
    assert!(path.exists(), "stale");
    let device = VhostDevice::open(&config).expect("replaced");
    let error = VhostDevice::open(&config).expect_err("in use");
    assert!(matches!(error, VhostError::InUse { .. }), "{error}");
    assert!(path.exists(), "the first one's");
    drop(device);
    assert!(!path.exists());
    fs::write(&path, "precious").expect("room");
    let error = VhostDevice::open(&config).expect_err("a file");
    assert!(matches!(error, VhostError::NotASocket { .. }), "{error}");
    let nowhere = VhostConfig::new(folder.path().join("no/vm.sock"));
    let error = VhostDevice::open(&nowhere).expect_err("no folder").to_string();
    assert!(error.starts_with("cannot listen at /") && !error.contains('\n'), "{error}");
    let long = VhostConfig::new(folder.path().join("x".repeat(120)));
    assert!(VhostDevice::open(&long).is_err());
}

/// How long threads may take to notice what a front end has said.
const PATIENCE: Duration = Duration::from_secs(60);

fn refused(attached: &Attached) -> u64 {
    AttachStats::merged(&attached.stats().ingress).refused.of(Refusal::NotTaken)
}

/// Sends datagrams that may merge until `is_done`; returns the lengths of the frames that arrived.
fn exchange(near: &mut Guest, far: &mut Guest, mut is_done: impl FnMut(&[usize]) -> bool) {
    let (begun, mut lens, mut waiting) = (Instant::now(), Vec::new(), 0);
    while !is_done(&lens) {
        assert!(begun.elapsed() < PATIENCE, "{lens:?}");
        while waiting > 0 && near.tx.next_used(&near.memory).is_some() {
            waiting -= 1;
        }
        if waiting == 0 {
            (0..4).for_each(|number| near.send(&[0; 12], &Frame::udp(number, 1_000).bytes()));
            waiting = 4;
        }
        thread::sleep(Duration::from_millis(1));
        while let Some((_, frame)) = far.rx.next_packet(&far.memory) {
            lens.push(frame.len());
            far.post(1, 0x2000);
        }
    }
}

/// Promise (Live interfaces): Packets are merged only into large ones that the other port takes whole: towards a virtual
/// machine, as far as its driver accepts them, also when another one connects.
#[test]
fn packets_merge_as_far_as_the_other_guest_takes_large_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let spec = |path: &Path| format!("vhost:{}", path.display()).parse().expect("a port");
    let mut settings = Settings::new(spec(&a), spec(&b));
    settings.keep_rights = true;
    let attached = Prepared::new(settings).expect("sockets").start();
    let mut near = Guest::start(&a, feature::USUAL);
    let without = |bits: u64| feature::USUAL & !bits;
    let guests = [
        (feature::USUAL, true),
        (without(feature::GUEST_USO), false),
        (feature::USUAL, true),
        (without(feature::GUEST_TSO4 | feature::GUEST_USO), false),
        (without(feature::GUEST_CSUM), false),
    ];
    for (features, merges) in guests {
        let mut far = Guest::start(&b, features);
        far.post(100, 0x2000);
        if merges {
            exchange(&mut near, &mut far, |lens| lens.iter().any(|len| *len > 2_000));
            continue;
        }
        // The second time also what was merged before is counted.
        for _ in 0..2 {
            let before = refused(&attached);
            exchange(&mut near, &mut far, |_| refused(&attached) > before);
        }
        let cut = attached.stats().far[0].cut;
        let before = refused(&attached);
        exchange(&mut near, &mut far, |_| refused(&attached) > before);
        assert_eq!(attached.stats().far[0].cut, cut, "{features:#x}: merged, and segmented again");
    }
    attached.stop();
    let (_, failures) = attached.finish();
    assert!(failures.is_empty(), "{failures:?}");
}
