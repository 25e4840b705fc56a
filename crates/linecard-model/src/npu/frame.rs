//! Frames of the two hosts: real bytes, IPv4 and TCP without options, with valid checksums.

use alloc::vec::Vec;
use linecard::packet::checksum::Sum;
use linecard::packet::header::{self, IPV4_DF, Ipv4, Tcp, protocol};

const MACS: usize = 12;
const ETHERNET: usize = MACS + 2;
const TRANSPORT: usize = ETHERNET + Ipv4::LEN;
/// Bytes of all headers.
pub(super) const HEADERS: usize = TRANSPORT + Tcp::LEN;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const SERVER_PORT: u16 = 5_001;
const HOPS: u8 = 64;
/// Preamble, frame check sequence and the gap between frames, in bytes.
const AROUND: usize = 8 + 4 + 12;
/// The shortest frame without its check sequence, in bytes.
const MIN_FRAME: usize = 60;

/// The direction of a frame and its connection, identified by the client's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer(u16),
    ToClient(u16),
}

/// The contents of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) flags: u16,
    pub(super) window: u16,
}

/// A frame with this segment and payload.
pub(super) fn build(direction: Direction, header: &SegmentHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADERS + payload.len());
    bytes.resize(HEADERS, 0);
    let (from, to, source, destination, macs) = match direction {
        Direction::ToServer(port) => (CLIENT, SERVER, port, SERVER_PORT, [2, 1]),
        Direction::ToClient(port) => (SERVER, CLIENT, SERVER_PORT, port, [1, 2]),
    };
    (bytes[0], bytes[5], bytes[6], bytes[11]) = (2, macs[0], 2, macs[1]);
    bytes[MACS] = 8;
    let segment_len = Tcp::LEN + payload.len();
    // RFC 6864, section 4: whole datagrams need no identification.
    let ip = Ipv4 {
        version_ihl: 0x45,
        tos: 0,
        total_len: (Ipv4::LEN + segment_len) as u16,
        id: 0,
        flags_fragment: IPV4_DF,
        ttl: HOPS,
        protocol: protocol::TCP,
        checksum: 0,
        source: from,
        destination: to,
    };
    header::put(&mut bytes, ETHERNET, &ip);
    let checksum = Sum::of(&bytes[ETHERNET..TRANSPORT]).checksum();
    header::set_be16(&mut bytes, ETHERNET + Ipv4::CHECKSUM, checksum);
    let tcp = Tcp {
        source,
        destination,
        sequence: header.sequence,
        acknowledgment: header.acknowledgment,
        offset_flags: 5 << 12 | header.flags,
        window: header.window,
        checksum: 0,
        urgent: 0,
    };
    header::put(&mut bytes, TRANSPORT, &tcp);
    bytes.extend_from_slice(payload);
    let pseudo = Sum::of(&from).plus(Sum::of(&to)).plus(Sum::word(protocol::TCP.into()));
    let pseudo = pseudo.plus(Sum::word(segment_len as u16));
    let checksum = Sum::of(&bytes[TRANSPORT..]).plus(pseudo).checksum();
    header::set_be16(&mut bytes, TRANSPORT + Tcp::CHECKSUM, checksum);
    bytes
}

/// The connection and contents of a frame; none if it is too short.
pub(super) fn read(bytes: &[u8]) -> Option<(Direction, SegmentHeader)> {
    let tcp = header::get::<Tcp>(bytes, TRANSPORT)?;
    let header = SegmentHeader {
        sequence: tcp.sequence,
        acknowledgment: tcp.acknowledgment,
        flags: tcp.offset_flags & 0x01FF,
        window: tcp.window,
    };
    let way = if tcp.destination == SERVER_PORT {
        Direction::ToServer(tcp.source)
    } else {
        Direction::ToClient(tcp.destination)
    };
    Some((way, header))
}

/// Bits that a frame of `len` bytes takes on the wire.
pub(super) fn wire_bits(len: usize) -> u64 {
    8 * (len.max(MIN_FRAME) + AROUND) as u64
}
