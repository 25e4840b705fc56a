//! What is known of a packet beside its bytes.

use crate::time::Instant;

/// Metadata of a packet, set by the port that received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// When it arrived, in the caller's time.
    pub timestamp: Instant,
    /// The link, queue or interface it came by. Packets of different lanes never merge.
    pub lane: u32,
    /// A value of the port's choosing: packets of one flow with different marks never merge, and
    /// [`Meta::NEVER`] never merges at all.
    pub mark: u32,
    /// What is known of the transport checksum.
    pub checksum: ChecksumState,
    /// How it divides into segments; none for a plain packet.
    pub gso: Option<Gso>,
}

impl Meta {
    /// The mark of packets that the port could not give back if they were merged.
    pub const NEVER: u32 = u32::MAX;
}

/// What is known of a packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
// As wide as the gap behind it would be: a copy of `Meta` then goes word by word (3 ns less to
// pass a packet on).
#[repr(u64)]
pub enum ChecksumState {
    /// Nothing: the field has to be verified.
    #[default]
    Unknown,
    /// Somebody whom the port trusts has verified it.
    Valid,
    /// The field holds the sum of the pseudo header only: hardware was to complete it.
    Partial,
}

/// How a large packet divides into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gso {
    /// Payload bytes of every segment but the last, 1 … 65,535.
    pub size: u16,
    /// Number of segments.
    pub segments: u16,
    /// A bit for each IPv4 header, the innermost lowest: set where all segments carry the same
    /// identification; else it counts up by one.
    pub fixed_ids: u8,
    /// CWR is part of Accurate ECN's counter and goes on every segment (RFC 9768); else only the
    /// first segment carries it (RFC 3168).
    pub accecn: bool,
    /// Frames shorter than 60 bytes were padded to 60 with zeros.
    pub padded: bool,
}
