//! Some established flows and very many flows of one packet each. Every frame follows from its
//! number, so that it can be made again when it comes out.

use linecard::packet::{FlowHasher, LinkType, Meta, Packet};
use linecard::rng::Rng;

pub(crate) const FLOWS: usize = 64;
/// Packets of an established flow in sequence, then hostile ones: twice as many.
const RUN: usize = 2;
const HOSTILE: usize = 4;
const GROUP: usize = RUN + HOSTILE;
/// Packets of an established flow from PSH to PSH, as of a send of 60,000 bytes.
pub(crate) const SEND: usize = 41;
/// One in this many hostile packets is a fragment between the ends of an established flow.
const TARGETED: usize = 1_000;

const PAYLOAD: usize = 256;
const VICTIM: [u8; 4] = [192, 0, 2, 1];
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Whose packet this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Established { flow: usize, index: usize },
    Hostile(usize),
}

/// Kinds of hostile packets.
pub(crate) enum Attack {
    /// Everything that an attacker without the key may try.
    Mixed,
    /// TCP from these sources in turn, chosen with the key.
    Chosen(Vec<u64>),
}

/// Packets in all when there are `hostile` hostile ones.
pub(crate) fn packets(hostile: usize) -> usize {
    hostile / HOSTILE * GROUP
}

pub(crate) fn who(number: usize) -> Who {
    let (group, place) = (number / GROUP, number % GROUP);
    match place.checked_sub(RUN) {
        None => Who::Established { flow: group % FLOWS, index: group / FLOWS * RUN + place },
        Some(place) => Who::Hostile(group * HOSTILE + place),
    }
}

/// Whether a packet ends what its flow has sent at once.
fn pushes(index: usize) -> bool {
    index % SEND == SEND - 1
}

/// Whether a hostile packet lies between the ends of an established flow.
pub(crate) fn is_targeted(hostile: usize) -> bool {
    hostile % TARGETED == TARGETED - 1
}

impl Attack {
    /// Sources of TCP flows that share a place in the table with established flow `flow`, for an
    /// attacker who knows the key and the size of the table.
    pub(crate) fn on(flow: usize, count: usize, secret: u64, buckets: u64) -> Self {
        let mut hasher = FlowHasher::new(secret);
        let target = bucket_of_flow(&mut hasher, flow, buckets);
        let mut frame = Vec::new();
        let mut collides = |seed: &u64| {
            hostile_tcp(&mut frame, *seed);
            bucket(&mut hasher, &frame, buckets) == target
        };
        Self::Chosen((0..).filter(|seed| collides(seed)).take(count).collect())
    }

    /// Writes packet `number`.
    pub(crate) fn write(&self, number: usize, to: &mut Vec<u8>) {
        to.clear();
        match (who(number), self) {
            (Who::Established { flow, index }, _) => established(to, flow, index),
            (Who::Hostile(hostile), Self::Chosen(seeds)) => {
                hostile_tcp(to, seeds[hostile % seeds.len()]);
            }
            (Who::Hostile(hostile), Self::Mixed) => mixed(to, hostile),
        }
    }
}

/// The bucket of an established flow in a table of this many buckets.
pub(crate) fn bucket_of_flow(hasher: &mut FlowHasher, flow: usize, buckets: u64) -> u64 {
    let mut frame = Vec::new();
    established(&mut frame, flow, 0);
    bucket(hasher, &frame, buckets)
}

fn bucket(hasher: &mut FlowHasher, frame: &[u8], buckets: u64) -> u64 {
    let packet = Packet::new(frame, LinkType::Ethernet, Meta::default());
    hasher.flow(&packet).expect("a flow with ports") % buckets
}

fn established(to: &mut Vec<u8>, flow: usize, index: usize) {
    let flags = if pushes(index) { ACK | PSH } else { ACK };
    let ports = [1_000 + flow as u16, 443];
    ethernet(to, [8, 0]);
    let addresses = ipv4(to, source_of(flow), (index as u16, 0x4000), (6, 20 + PAYLOAD));
    tcp(to, addresses, (ports, (index * PAYLOAD) as u32, flags), (index as u8, PAYLOAD));
}

fn source_of(flow: usize) -> [u8; 4] {
    [10, 1, 0, flow as u8]
}

/// The only packet of its flow.
fn hostile_tcp(to: &mut Vec<u8>, seed: u64) {
    to.clear();
    let [a, b, c, d, ports @ ..] = Rng::new(seed).next_u64().to_be_bytes();
    ethernet(to, [8, 0]);
    let addresses = ipv4(to, [20 | a & 3, b, c, d], (1, 0x4000), (6, 30));
    tcp(to, addresses, (pair(ports), 1, ACK), (a, 10));
}

fn mixed(to: &mut Vec<u8>, number: usize) {
    let [a, b, c, d, ports @ ..] = Rng::new(1 << 40 | number as u64).next_u64().to_be_bytes();
    let (source, ports) = ([30 | a & 1, b, c, d], pair(ports));
    let frame = (number as u16, 0x4000);
    match number % 8 {
        0 | 1 => hostile_tcp(to, number as u64),
        2 => {
            ethernet(to, [8, 0]);
            let addresses = ipv4(to, source, frame, (6, 20));
            tcp(to, addresses, (ports, 1, SYN), (0, 0));
        }
        // A datagram of one byte, and one of many.
        kind @ (3 | 4) => {
            let len = if kind == 3 { 1 } else { 64 };
            ethernet(to, [8, 0]);
            let addresses = ipv4(to, source, frame, (17, 8 + len));
            udp(to, addresses, ports, (b, len));
        }
        5 => vxlan(to, source, ports),
        6 => {
            ethernet(to, [0x86, 0xDD]);
            let addresses = ipv6(to, source, 30);
            tcp(to, addresses, (ports, 1, ACK), (a, 10));
        }
        _ => {
            let flow = usize::from(d) % FLOWS;
            let ends = if is_targeted(number) { source_of(flow) } else { source };
            ethernet(to, [8, 0]);
            // More fragments follow; never from offset 0 on, so no ports are shown.
            ipv4(to, ends, (number as u16, 0x2010), (6, 16));
            to.extend([a; 16]);
        }
    }
}

fn pair([a, b, c, d]: [u8; 4]) -> [u16; 2] {
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

fn ethernet(to: &mut Vec<u8>, kind: [u8; 2]) {
    to.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    to.extend(kind);
}

/// Gives what the pseudo header adds to a checksum, but for the length.
fn ipv4(
    to: &mut Vec<u8>,
    source: [u8; 4],
    (id, fragment): (u16, u16),
    (protocol, len): (u8, usize),
) -> u64 {
    let at = to.len();
    to.extend([0x45, 0]);
    to.extend((20 + len as u16).to_be_bytes());
    to.extend(id.to_be_bytes());
    to.extend(fragment.to_be_bytes());
    to.extend([64, protocol, 0, 0]);
    to.extend(source);
    to.extend(VICTIM);
    let checksum = checksum(words(&to[at..]));
    to[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
    words(&to[at + 12..]) + u64::from(protocol)
}

fn ipv6(to: &mut Vec<u8>, source: [u8; 4], len: u16) -> u64 {
    let at = to.len();
    to.extend([0x60, 0, 0, 0]);
    to.extend(len.to_be_bytes());
    to.extend([6, 64]);
    to.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0]);
    to.extend(source);
    to.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    words(&to[at + 8..]) + 6
}

/// A segment with `len` bytes of payload that begin with `first` and go up.
fn tcp(
    to: &mut Vec<u8>,
    pseudo: u64,
    ([source, destination], sequence, flags): ([u16; 2], u32, u8),
    (first, len): (u8, usize),
) {
    let at = to.len();
    to.extend(source.to_be_bytes());
    to.extend(destination.to_be_bytes());
    to.extend(sequence.to_be_bytes());
    to.extend([0, 0, 0, 1, 0x50, flags, 1, 0xF5, 0, 0, 0, 0]);
    to.extend((0..len).map(|at| first.wrapping_add(at as u8)));
    let checksum = transport_sum(&to[at..], pseudo);
    to[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
}

fn udp(to: &mut Vec<u8>, pseudo: u64, ports: [u16; 2], (first, len): (u8, usize)) {
    let at = to.len();
    to.extend(ports[0].to_be_bytes());
    to.extend(ports[1].to_be_bytes());
    to.extend((8 + len as u16).to_be_bytes());
    to.extend([0, 0]);
    to.extend((0..len).map(|at| first.wrapping_add(at as u8)));
    // A checksum of 0 would say that there is none (RFC 768).
    let checksum = transport_sum(&to[at..], pseudo);
    let checksum = if checksum == 0 { 0xFFFF } else { checksum };
    to[at + 6..at + 8].copy_from_slice(&checksum.to_be_bytes());
}

/// TCP in VXLAN: the outer ends are always the same, the inner source is anybody.
fn vxlan(to: &mut Vec<u8>, source: [u8; 4], ports: [u16; 2]) {
    ethernet(to, [8, 0]);
    let inner = 14 + 20 + 30;
    ipv4(to, [10, 2, 0, 1], (1, 0x4000), (17, 16 + inner));
    to.extend([0xC0, 1, 0x12, 0xB5, 0, 16 + inner as u8, 0, 0]);
    to.extend([8, 0, 0, 0, 0, 0, 7, 0]);
    ethernet(to, [8, 0]);
    let addresses = ipv4(to, source, (1, 0x4000), (6, 30));
    tcp(to, addresses, (ports, 1, ACK), (1, 10));
}

/// The checksum of a transport header and its payload, as far as it is in place.
fn transport_sum(transport: &[u8], pseudo: u64) -> u16 {
    checksum(words(transport) + pseudo + transport.len() as u64)
}

fn words(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    pairs.map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |last| u64::from(*last))).sum()
}

fn checksum(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}
