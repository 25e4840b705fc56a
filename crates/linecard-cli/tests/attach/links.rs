//! Ports of different link types, and captures of them.

use crate::command::{attach_only, count, refused};
use crate::lab::{Lab, with_lab};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ETHERNET: u32 = 1;
const RAW: u32 = 101;

/// An IPv4 header and a UDP datagram of 8 bytes, for 10.9.0.2.
fn datagram() -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 36, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    bytes.extend([0, 7, 0, 9, 0, 16, 0, 0]);
    bytes.extend([7; 8]);
    bytes
}

fn frame() -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    bytes.extend(datagram());
    bytes
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut padded = body.to_vec();
    padded.resize(body.len().next_multiple_of(4), 0);
    let len = (12 + padded.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &padded, &len].concat()
}

/// A pcapng with an interface for each link type, and packets by their interface.
fn capture(folder: &Path, name: &str, links: &[u32], packets: &[(u32, Vec<u8>)]) -> PathBuf {
    let mut bytes = block(
        0x0A0D_0D0A,
        &[&0x1A2B_3C4D_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat(),
    );
    for link in links {
        bytes.extend(block(1, &[&link.to_le_bytes()[..], &[0; 4]].concat()));
    }
    for (interface, packet) in packets {
        let len = (packet.len() as u32).to_le_bytes();
        let body = [&interface.to_le_bytes()[..], &[0; 8], &len, &len, packet].concat();
        bytes.extend(block(6, &body));
    }
    let path = folder.join(name);
    fs::write(&path, bytes).expect("there is room");
    path
}

#[test]
fn ports_of_different_link_types_are_refused() {
    with_lab("link types", |lab| {
        let folder = tempfile::tempdir().expect("there is room");
        let ethernet = capture(folder.path(), "e.pcapng", &[ETHERNET], &vec![(0, frame()); 9]);
        let raw = capture(folder.path(), "r.pcapng", &[RAW], &vec![(0, datagram()); 9]);
        let (ethernet, raw) = (ethernet.display(), raw.display());
        let cases = [
            ("packet:lcw tun:lc0".to_owned(), "use tap:lc0 instead of tun:lc0"),
            ("tun:lc0 packet:lcw".to_owned(), "use tap:lc0 instead of tun:lc0"),
            ("xdp:lcw tun:lc0".to_owned(), "use tap:lc0 instead of tun:lc0"),
            (format!("file:{ethernet} tun:lc0"), "use tap:lc0 instead of tun:lc0"),
            (format!("file:{raw} tap:lc0"), "use tun:lc0 instead of tap:lc0"),
            (format!("file:{raw} packet:lcw"), "use ports of one link type"),
        ];
        for (arguments, advice) in cases {
            let ended = refused(lab, &arguments);
            let mut parts: Vec<&str> = arguments.split(' ').collect();
            parts.extend(["Ethernet frames", "bare IP packets", advice]);
            ended.is(6, &parts);
            assert!(!lab.host.has("lc0"), "{ended:?}");
        }
    });
}

#[test]
fn packets_of_another_link_type_are_counted_as_such() {
    with_lab("mixed captures", |lab| {
        let folder = tempfile::tempdir().expect("there is room");
        let mut packets = vec![(1, frame()); 5];
        packets.extend(vec![(0, datagram()); 3]);
        // The interface of the first packet counts, not the first interface.
        let mixed = capture(folder.path(), "m.pcapng", &[RAW, ETHERNET], &packets);
        for far in ["tap:lc0", "packet:lcw"] {
            let ended = refused(lab, &format!("file:{} {far}", mixed.display()));
            assert_eq!(ended.status.code(), Some(0), "{ended:?}");
            let far = |key| count(&ended.account, "far", key);
            assert_eq!((far("other_link"), far("refused")), (3, 0), "{:#}", ended.account);
            assert!(
                ended.account["notes"].to_string().contains("another link type"),
                "{:#}",
                ended.account
            );
            assert_eq!(
                count(&ended.account, "check", "unaccounted_ingress"),
                0,
                "{:#}",
                ended.account
            );
        }
    });
}

#[test]
fn a_capture_of_which_nothing_could_be_sent_is_an_error() {
    with_lab("nothing sent", |lab| {
        let folder = tempfile::tempdir().expect("there is room");
        let good = capture(folder.path(), "e.pcapng", &[ETHERNET], &vec![(0, frame()); 9]);
        // An interface that is there stays as it is: down.
        lab.host.run("ip link set lcw down");
        refused(lab, &format!("file:{} packet:lcw", good.display()))
            .is(7, &["packet:lcw", "none of", "down or gone"]);
        lab.host.run("ip tuntap add lc0 mode tap");
        // Shorter than an Ethernet header: the kernel calls it invalid.
        let short = capture(folder.path(), "s.pcapng", &[ETHERNET], &vec![(0, vec![1; 10]); 9]);
        refused(lab, &format!("file:{} tap:lc0", short.display()))
            .is(7, &["tap:lc0", "none of", "no frame that the kernel takes"]);
        lab.host.run("ip link del lc0");
    });
}

/// The times of packets in a pcap of nanoseconds.
fn times(capture: &[u8]) -> Vec<Duration> {
    assert_eq!(capture[..4], 0xA1B2_3C4D_u32.to_ne_bytes(), "pcap with nanoseconds");
    let number = |at: usize| u32::from_ne_bytes(*capture[at..].first_chunk().expect("it is whole"));
    let (mut at, mut times) = (24, Vec::new());
    while at < capture.len() {
        times.push(Duration::new(number(at).into(), number(at + 4)));
        at += 16 + number(at + 8) as usize;
    }
    times
}

/// A connection between peer and host, with data one way.
fn connection(lab: &Lab) {
    let listener =
        lab.host.inside(|| TcpListener::bind("10.9.0.3:0")).expect("the address is ours");
    let address = listener.local_addr().expect("it is bound");
    let mut stream = lab.peer.inside(|| TcpStream::connect(address)).expect("it listens");
    let (mut other, _) = listener.accept().expect("it has connected");
    for _ in 0..5 {
        stream.write_all(&[7; 500]).expect("it is open");
        other.read_exact(&mut [0; 500]).expect("it comes");
    }
}

#[test]
fn packets_of_a_mirror_have_times_within_the_run() {
    for deployment in ["inline", "shared", "dedicated"] {
        with_lab("times in a mirror", |lab| {
            lab.host.run("ip addr add 10.9.0.3/24 dev lcw");
            lab.host.set("ipv4/conf/lcw/arp_ignore", "0");
            let folder = tempfile::tempdir().expect("there is room");
            let path = folder.path().join("m.pcap");
            let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
            let begun = since_1970();
            let arguments = format!(
                "packet:lcw,mirror file:{} --keep-rights --merge none --deployment {deployment}",
                path.display()
            );
            let running = attach_only(lab, &arguments);
            connection(lab);
            connection(lab);
            running.signal(libc::SIGTERM);
            let ended = running.wait();
            assert!(ended.status.success(), "{ended:?}");
            let (ended, times) = (since_1970(), times(&fs::read(&path).expect("it is complete")));
            assert!(times.len() >= 14, "{times:?}");
            // Packets that come while the port is read have the time of that look, so some may be equal.
            assert!(times.first() < times.last(), "{times:?}");
            let within = times.iter().all(|time| (begun..=ended).contains(time));
            assert!(within && times.is_sorted(), "{begun:?} {ended:?} {times:?}");
        });
    }
}
