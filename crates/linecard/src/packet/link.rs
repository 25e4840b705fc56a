//! Link layers: where the network layer starts.

use super::header::be16;
use super::layout::MAX_TAGS;

/// What the bytes of a frame start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LinkType {
    /// Ethernet, with up to four VLAN tags (802.1Q, 802.1ad).
    #[default]
    Ethernet,
    /// An IPv4 or IPv6 packet, told apart by its version.
    Raw,
    /// BSD loopback: four bytes of address family in either byte order.
    Loopback,
    /// Linux cooked capture, version 1: 16 bytes, protocol last.
    LinuxSll,
    /// Linux cooked capture, version 2: 20 bytes, protocol first.
    LinuxSll2,
    /// Not known: the packet passes as it is.
    Other,
}

/// Protocol types of Ethernet (IEEE 802 numbers).
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
/// Tags of four bytes: 802.1Q, 802.1ad, and an older stacking value still in use.
const ETHERTYPE_TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

/// Address families of IPv6 in BSD loopback headers: NetBSD, FreeBSD, macOS, Linux.
const LOOPBACK_IPV6: [u32; 4] = [24, 28, 30, 10];
const LOOPBACK_IPV4: u32 = 2;
/// Bytes of a cooked header, version 2.
const SLL2_LEN: usize = 20;

/// IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

impl LinkType {
    /// The type with this number in capture files (LINKTYPE values), [`LinkType::Other`] if it is
    /// not known here.
    #[must_use]
    pub fn from_capture(number: u32) -> Self {
        match number {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // 12 and 14 are raw IP on some BSDs, written to files by old programs.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            _ => Self::Other,
        }
    }

    /// Where the IP header starts, and which version it should be.
    #[inline(always)]
    pub(super) fn network(self, bytes: &[u8]) -> Option<(usize, Version)> {
        match self {
            Self::Ethernet => match be16(bytes, 12) {
                Some(ETHERTYPE_IPV4) => Some((14, Version::V4)),
                Some(ETHERTYPE_IPV6) => Some((14, Version::V6)),
                _ => tagged(bytes, 12),
            },
            Self::LinuxSll => tagged(bytes, 14),
            Self::LinuxSll2 => sll2(bytes),
            Self::Loopback => loopback(bytes).map(|version| (4, version)),
            Self::Raw => version(*bytes.first()?).map(|version| (0, version)),
            Self::Other => None,
        }
    }
}

/// The type comes first; tags follow behind the header of 20 bytes.
fn sll2(bytes: &[u8]) -> Option<(usize, Version)> {
    let value = be16(bytes, 0)?;
    if ETHERTYPE_TAGS.contains(&value) {
        return tagged(bytes, SLL2_LEN + 2);
    }
    ethertype(value).map(|version| (SLL2_LEN, version))
}

/// Follows VLAN tags from the type field at `offset`.
fn tagged(bytes: &[u8], mut offset: usize) -> Option<(usize, Version)> {
    for _ in 0..=MAX_TAGS {
        let value = be16(bytes, offset)?;
        if !ETHERTYPE_TAGS.contains(&value) {
            return ethertype(value).map(|version| (offset + 2, version));
        }
        offset += 4;
    }
    None
}

#[inline]
fn ethertype(value: u16) -> Option<Version> {
    match value {
        ETHERTYPE_IPV4 => Some(Version::V4),
        ETHERTYPE_IPV6 => Some(Version::V6),
        _ => None,
    }
}

/// The family is in the byte order of the capturing host: families are small numbers, so only
/// one order makes sense.
fn loopback(bytes: &[u8]) -> Option<Version> {
    let raw = u32::from_be_bytes(*bytes.first_chunk()?);
    let family = if raw > 0xFFFF { raw.swap_bytes() } else { raw };
    match family {
        LOOPBACK_IPV4 => Some(Version::V4),
        f if LOOPBACK_IPV6.contains(&f) => Some(Version::V6),
        _ => None,
    }
}

fn version(first: u8) -> Option<Version> {
    match first >> 4 {
        4 => Some(Version::V4),
        6 => Some(Version::V6),
        _ => None,
    }
}
