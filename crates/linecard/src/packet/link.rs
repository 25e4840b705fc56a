//! Link types, and where the network layer starts.

use super::header::be16;

/// VLAN tags followed: one more than any standard stacks; longer stacks are not parsed.
pub const MAX_TAGS: usize = 4;

/// The link header that a frame starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
// As wide as the gap behind it in a packet would be; see `ChecksumState`.
#[repr(u32)]
pub enum LinkType {
    /// Ethernet, with up to four VLAN tags (802.1Q, 802.1ad).
    #[default]
    Ethernet,
    /// An IPv4 or IPv6 packet, distinguished by its version.
    Raw,
    /// BSD loopback: four bytes of address family in either byte order.
    Loopback,
    /// Linux cooked capture, version 1: 16 bytes, protocol last.
    LinuxSll,
    /// Linux cooked capture, version 2: 20 bytes, protocol first.
    LinuxSll2,
    /// Unknown: the packet passes unchanged.
    Other,
}

/// Protocol types of Ethernet (IEEE 802 numbers).
pub(super) mod ethertype {
    pub(in super::super) const IPV4: u16 = 0x0800;
    pub(in super::super) const IPV6: u16 = 0x86DD;
    /// An Ethernet frame, in GRE and Geneve.
    pub(in super::super) const BRIDGING: u16 = 0x6558;
    pub(in super::super) const MPLS: u16 = 0x8847;
    pub(in super::super) const MPLS_UPSTREAM: u16 = 0x8848;
    /// The session stage of PPPoE.
    pub(in super::super) const PPPOE: u16 = 0x8864;
    /// Tags of four bytes: 802.1Q, 802.1ad, and an older stacking value still in use.
    pub(super) const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];
}

/// Address families of IPv6 in BSD loopback headers: NetBSD, FreeBSD, macOS, Linux.
const LOOPBACK_IPV6: [u32; 4] = [24, 28, 30, 10];
const LOOPBACK_IPV4: u32 = 2;
/// Bytes of a cooked header, version 2.
const SLL2_LEN: usize = 20;

impl LinkType {
    /// The link type with this LINKTYPE number in capture files, [`LinkType::Other`] if it is
    /// unknown.
    #[must_use]
    pub fn from_capture(number: u32) -> Self {
        match number {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // 12 and 14 are raw IP on some BSDs, written by old programs.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            _ => Self::Other,
        }
    }

    /// The EtherType and offset of the header after the link header. For links without an
    /// EtherType, that of the IP version.
    #[inline(always)]
    pub(super) fn network(self, bytes: &[u8]) -> Option<(u16, usize)> {
        match self {
            Self::Ethernet => match be16(bytes, 12) {
                Some(ethertype::IPV4) => Some((ethertype::IPV4, 14)),
                Some(ethertype::IPV6) => Some((ethertype::IPV6, 14)),
                _ => tagged(bytes, 12),
            },
            other => other.network_elsewhere(bytes),
        }
    }

    #[inline(never)]
    fn network_elsewhere(self, bytes: &[u8]) -> Option<(u16, usize)> {
        match self {
            Self::Ethernet => tagged(bytes, 12),
            Self::LinuxSll => tagged(bytes, 14),
            Self::LinuxSll2 => sll2(bytes),
            Self::Loopback => loopback(bytes).map(|kind| (kind, 4)),
            Self::Raw => version(*bytes.first()?).map(|kind| (kind, 0)),
            Self::Other => None,
        }
    }
}

/// The type comes first; tags follow the 20-byte header.
fn sll2(bytes: &[u8]) -> Option<(u16, usize)> {
    let value = be16(bytes, 0)?;
    if ethertype::TAGS.contains(&value) {
        return tagged(bytes, SLL2_LEN + 2);
    }
    Some((value, SLL2_LEN))
}

/// Follows VLAN tags from the type field at `offset`.
#[inline(never)]
pub(super) fn tagged(bytes: &[u8], mut offset: usize) -> Option<(u16, usize)> {
    for _ in 0..=MAX_TAGS {
        let value = be16(bytes, offset)?;
        if !ethertype::TAGS.contains(&value) {
            return Some((value, offset + 2));
        }
        offset += 4;
    }
    None
}

/// The family is in the byte order of the capturing host: families are small numbers, so only
/// one order makes sense.
fn loopback(bytes: &[u8]) -> Option<u16> {
    let raw = u32::from_be_bytes(*bytes.first_chunk()?);
    let family = if raw > 0xFFFF { raw.swap_bytes() } else { raw };
    match family {
        LOOPBACK_IPV4 => Some(ethertype::IPV4),
        f if LOOPBACK_IPV6.contains(&f) => Some(ethertype::IPV6),
        _ => None,
    }
}

fn version(first: u8) -> Option<u16> {
    match first >> 4 {
        4 => Some(ethertype::IPV4),
        6 => Some(ethertype::IPV6),
        _ => None,
    }
}
