//! Others that reach the ports of a transfer.

use super::{STEADY, Storm, Underway};
use linecard::rng::Rng;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};

/// Silent connections, and how many where a process may have few files: this one has those of all tests.
const SILENT: usize = 1_000;
const FEW_SILENT: usize = 300;
const MANY_FILES: usize = 8_192;
/// Datagrams, and connections, with noise to each port.
const NOISES: usize = 200;
/// By which strangers may make the receiver larger.
const GROWTH_BYTES: u64 = 24 << 20;
/// Beginnings that look like something: TLS records, HTTP, and the first bytes of a lane's packets.
const BEGINNINGS: [&[u8]; 6] = [
    b"",
    &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3],
    &[0x17, 3, 3, 0x40, 0],
    b"GET / HTTP/1.1\r\n",
    &[0; 16],
    &[1],
];

/// Ports of a process by /proc, those of TCP that listen and all of UDP.
fn ports(process: u32, protocol: &str) -> Vec<u16> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: Vec<String> = links
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{process}/net/{protocol}")).unwrap();
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let own = rows.filter(|row| sockets.iter().any(|inode| inode == row[9]));
    // 0A listens; a socket of UDP has 07, or 01 when it is connected.
    own.filter(|row| protocol == "udp" || row[3] == "0A")
        .map(|row| u16::from_str_radix(row[1].split(':').nth(1).unwrap(), 16).unwrap())
        .collect()
}

/// The most memory that a process has had.
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// How many files this process may have.
fn files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}

/// Does something to a transfer that then completes, and whose receiver does not grow.
fn withstands(fault: impl FnOnce(&Underway<'_>)) {
    let storm = Storm::new();
    let underway = storm.start(&STEADY);
    let before = peak_bytes(underway.receiver.id());
    fault(&underway);
    underway.assert_goes_on();
    let after = peak_bytes(underway.receiver.id());
    storm.assert_complete(&underway.end());
    assert!(after - before <= GROWTH_BYTES, "{before} bytes became {after}");
    eprintln!("peak {before} became {after}");
}

/// A thread for each: those for which the receiver has no room wait until the transfer is over, and are refused then.
#[test]
fn silent_connections() {
    let storm = Storm::new();
    let underway = storm.start(&STEADY);
    let receiver = underway.receiver.id();
    let (before, address) = (peak_bytes(receiver), underway.receiver.address.clone());
    let (sender, held) = std::sync::mpsc::channel();
    let silent = silent();
    for _ in 0..silent {
        let (address, sender) = (address.clone(), sender.clone());
        let connect = move || sender.send(TcpStream::connect(address));
        std::thread::Builder::new().stack_size(64 << 10).spawn(connect).unwrap();
    }
    drop(sender);
    let all: Vec<_> = held.iter().filter_map(Result::ok).collect();
    underway.assert_goes_on();
    let after = peak_bytes(receiver);
    storm.assert_complete(&underway.end());
    assert!(after - before <= GROWTH_BYTES, "{before} bytes became {after}");
    assert_eq!(all.len(), silent, "silent connections, while the transfer ran");
    eprintln!("{silent} connected; peak {before} became {after}");
}

/// Connections that this process may open.
fn silent() -> usize {
    let files = files();
    if files >= MANY_FILES {
        return SILENT;
    }
    linecard_testkit::skip(
        format!("{} of {SILENT} silent connections", SILENT - FEW_SILENT),
        format!("a process may have {files} files only: ulimit -n {MANY_FILES}"),
    );
    FEW_SILENT
}

fn noise(rng: &mut Rng) -> Vec<u8> {
    let beginning = BEGINNINGS[rng.below(BEGINNINGS.len() as u64) as usize];
    let mut bytes = vec![0; rng.below(1_400) as usize];
    rng.fill(&mut bytes);
    [beginning, &bytes].concat()
}

/// To the ports of both ends; no stranger at a UDP port gets an answer.
#[test]
fn noise_at_all_ports() {
    let mut rng = Rng::new(super::seed());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    withstands(|underway| {
        let ends = [underway.receiver.id(), underway.sender.id()];
        let of = |protocol: &str| ends.map(|end| ports(end, protocol)).concat();
        let (udp, tcp) = (of("udp"), of("tcp"));
        assert_eq!((udp.len(), tcp.len()), (4, 1), "two lanes and the control connection");
        for _ in 0..NOISES {
            for port in &udp {
                let _sent = socket.send_to(&noise(&mut rng), ("127.0.0.1", *port));
            }
            for port in &tcp {
                let mut stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
                // It may be closed already.
                let _sent = stream.write_all(&noise(&mut rng));
            }
        }
    });
    let answer = socket.recv_from(&mut [0; 2_048]).map_err(|error| error.kind());
    assert_eq!(answer, Err(ErrorKind::WouldBlock), "a stranger was answered");
}

/// Lanes over TCP have listening ports, too: a stranger there gets no byte.
#[test]
fn noise_at_lanes_over_tcp() {
    let mut rng = Rng::new(super::seed());
    let mut storm = Storm::new();
    storm.send = vec!["--lane", "tcp:127.0.0.1", "--lane", "tcp:127.0.0.1"];
    let underway = storm.start(&STEADY);
    let control: u16 = underway.receiver.address.rsplit(':').next().unwrap().parse().unwrap();
    let lanes: Vec<u16> =
        ports(underway.receiver.id(), "tcp").into_iter().filter(|port| *port != control).collect();
    assert_eq!(lanes.len(), 2, "they listen for lanes that come back");
    let mut strangers = Vec::new();
    for _ in 0..NOISES / 4 {
        for port in &lanes {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
            let _sent = stream.write_all(&noise(&mut rng));
            strangers.push(stream);
        }
    }
    storm.assert_complete(&underway.end());
    for mut stream in strangers {
        assert!(!stream.read(&mut [0]).is_ok_and(|bytes| bytes > 0), "a stranger was answered");
    }
}
