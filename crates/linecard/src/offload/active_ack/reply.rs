//! Builds the acknowledgment that is sent on behalf of the receiver.

use super::key::{MACS, Plain};
use crate::offload::set_ipv4_checksum;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, IPV4_DF, Ipv4, Ipv6, Tcp, protocol, tcp_flags};
use crate::packet::{Layer, LayerKind, MAX_TAGS, pseudo_sum};

/// Ethernet with all tags, IPv6, TCP with timestamps.
const ROOM: usize = MACS + 4 * MAX_TAGS + 2 + Ipv6::LEN + Tcp::LEN + TIMESTAMPS;
/// Bytes of the timestamps option, with the usual padding.
const TIMESTAMPS: usize = 12;
/// Hop limit of acknowledgments: the recommended initial value (RFC 1340, and IANA since).
const HOPS: u8 = 64;

/// A frame that acknowledges data to its sender.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    bytes: [u8; ROOM],
    len: usize,
}

impl AsRef<[u8]> for Reply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The contents of an acknowledgment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Say {
    pub(super) sequence: u32,
    pub(super) number: u32,
    pub(super) window: u16,
    pub(super) timestamps: Option<(u32, u32)>,
}

impl Reply {
    /// Bytes of the longest one.
    pub const MAX_LEN: usize = ROOM;

    /// Acknowledges a data packet: addresses and ports are exchanged, and only tags and DSCP are
    /// copied. (Pure acknowledgments are not ECN-capable: RFC 3168, section 6.1.4.)
    pub(super) fn to(data: &[u8], plain: &Plain, say: &Say) -> Self {
        let Plain { v6, network, .. } = *plain;
        let transport = network + if v6 { Ipv6::LEN } else { Ipv4::LEN };
        let tcp_len = Tcp::LEN + if say.timestamps.is_some() { TIMESTAMPS } else { 0 };
        let mut reply = Self { bytes: [0; ROOM], len: transport + tcp_len };
        let bytes = &mut reply.bytes[..transport + tcp_len];
        bytes[..network].copy_from_slice(&data[..network]);
        if network > 0 {
            let (to, from) = bytes[..MACS].split_at_mut(MACS / 2);
            to.swap_with_slice(from);
        }
        if v6 {
            answer_ipv6(bytes, data, network, tcp_len);
        } else {
            answer_ipv4(bytes, data, network, tcp_len);
        }
        answer_tcp(bytes, &header::at(data, plain.transport), transport, say);
        let kind = if v6 { LayerKind::Ipv6 } else { LayerKind::Ipv4 };
        // Offsets of plain headers are far below 2¹⁶.
        let layer = Layer { kind, offset: network as u16 };
        set_tcp_checksum(bytes, layer, transport);
        reply
    }
}

fn answer_ipv4(bytes: &mut [u8], data: &[u8], network: usize, tcp_len: usize) {
    let asked = header::at::<Ipv4>(data, network);
    let ip = Ipv4 {
        version_ihl: 0x45,
        tos: asked.tos & !3,
        total_len: (Ipv4::LEN + tcp_len) as u16,
        id: 0,
        flags_fragment: IPV4_DF,
        ttl: HOPS,
        protocol: protocol::TCP,
        checksum: 0,
        source: asked.destination,
        destination: asked.source,
    };
    header::put(bytes, network, &ip);
    set_ipv4_checksum(bytes, network);
}

fn answer_ipv6(bytes: &mut [u8], data: &[u8], network: usize, tcp_len: usize) {
    let asked = header::at::<Ipv6>(data, network);
    let class = asked.version_class_label & 0x0FC0_0000;
    let ip = Ipv6 {
        version_class_label: 6 << 28 | class,
        payload_len: tcp_len as u16,
        next_header: protocol::TCP,
        hop_limit: HOPS,
        source: asked.destination,
        destination: asked.source,
    };
    header::put(bytes, network, &ip);
}

fn answer_tcp(bytes: &mut [u8], asked: &Tcp, transport: usize, say: &Say) {
    let words = (bytes.len() - transport) as u16 / 4;
    let tcp = Tcp {
        source: asked.destination,
        destination: asked.source,
        sequence: say.sequence,
        acknowledgment: say.number,
        offset_flags: words << 12 | tcp_flags::ACK,
        window: say.window,
        checksum: 0,
        urgent: 0,
    };
    header::put(bytes, transport, &tcp);
    if let Some((value, echo)) = say.timestamps {
        let option = &mut bytes[transport + Tcp::LEN..];
        option[..4].copy_from_slice(&[1, 1, 8, 10]);
        option[4..8].copy_from_slice(&value.to_be_bytes());
        option[8..12].copy_from_slice(&echo.to_be_bytes());
    }
}

/// Recomputes the checksum of a TCP segment that extends to the end of `bytes`.
pub(super) fn set_tcp_checksum(bytes: &mut [u8], network: Layer, transport: usize) {
    header::set_be16(bytes, transport + Tcp::CHECKSUM, 0);
    let pseudo = pseudo_sum(bytes, network, protocol::TCP, bytes.len() - transport);
    let checksum = Sum::of(&bytes[transport..]).plus(pseudo).checksum();
    header::set_be16(bytes, transport + Tcp::CHECKSUM, checksum);
}
