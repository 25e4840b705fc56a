//! Parses packets: which of them the line interface accepts, and where they belong in a message.

use super::cam::Key;
use linecard::packet::header::{self, IPV4_MF, IPV4_OFFSET, Ipv4, Tcp};

/// Flags that end a message: FIN and PSH.
const ENDS: u16 = 0x0009;

/// A packet's position in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) key: Key,
    /// Offset of its payload in the packet.
    pub(super) payload_at: usize,
    /// Number of its first payload byte: the sequence number, or an offset.
    pub(super) first: u32,
    /// That of the byte after its last.
    pub(super) end: u32,
    /// Whether it ends the message.
    pub(super) is_last: bool,
}

/// Whether these bytes are a complete IPv4 packet without options, with a complete TCP or fragment
/// header.
pub(super) fn is_sound(bytes: &[u8]) -> bool {
    if bytes.len() < Ipv4::LEN || bytes[0] != 0x45 {
        return false;
    }
    let ip = header::at::<Ipv4>(bytes, 0);
    if usize::from(ip.total_len) != bytes.len() {
        return false;
    }
    let payload = bytes.len() - Ipv4::LEN;
    let field = ip.flags_fragment;
    if ip.is_fragment() {
        let end = usize::from(field & IPV4_OFFSET) * 8 + payload;
        let whole = field & IPV4_MF == 0 || payload.is_multiple_of(8);
        return payload > 0 && whole && end <= 65_515;
    }
    ip.protocol != 6
        || (payload >= Tcp::LEN && tcp_len(bytes) >= Tcp::LEN && tcp_len(bytes) <= payload)
}

/// The position of a sound packet, if it has one.
pub(super) fn position(bytes: &[u8]) -> Option<Position> {
    let ip = header::at::<Ipv4>(bytes, 0);
    let word =
        |at: usize| bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let (source, destination) = (word(12), word(16));
    if ip.is_fragment() {
        let field = ip.flags_fragment;
        let first = u32::from(field & IPV4_OFFSET) * 8;
        let id = ip.id.into();
        return Some(Position {
            key: Key::Datagram([source, destination, ip.protocol.into(), id]),
            payload_at: Ipv4::LEN,
            first,
            end: first + (bytes.len() - Ipv4::LEN) as u32,
            is_last: field & IPV4_MF == 0,
        });
    }
    let payload_at = Ipv4::LEN + tcp_len(bytes);
    (ip.protocol == 6).then(|| Position {
        key: Key::Connection([source, destination, word(20)]),
        payload_at,
        first: word(24),
        end: word(24).wrapping_add((bytes.len() - payload_at) as u32),
        is_last: header::at::<Tcp>(bytes, Ipv4::LEN).offset_flags & ENDS != 0,
    })
}

/// Bytes of the TCP header.
fn tcp_len(bytes: &[u8]) -> usize {
    usize::from(bytes[Ipv4::LEN + 12] >> 4) * 4
}
