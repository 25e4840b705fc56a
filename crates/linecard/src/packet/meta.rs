//! Metadata of a packet.

use crate::time::Instant;

/// Metadata of a packet, set by the port that received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// Arrival time, in the caller's timeline.
    pub timestamp: Instant,
    /// The link, queue or interface on which it arrived. Packets of different lanes never merge.
    pub lane: u32,
    /// A value chosen by the port: packets of one flow with different marks never merge, and
    /// packets marked [`Meta::NEVER`] never merge at all.
    pub mark: u32,
    /// State of the transport checksum.
    pub checksum: ChecksumState,
    /// How it is to be segmented; none for a plain packet.
    pub gso: Option<Gso>,
}

impl Meta {
    /// The mark of packets that the port could not restore if they were merged.
    pub const NEVER: u32 = u32::MAX;
}

/// State of a packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
// As wide as the padding after it would be: a copy of `Meta` then goes word by word (3 ns less per
// packet).
#[repr(u64)]
pub enum ChecksumState {
    /// Unknown: the checksum has to be verified.
    #[default]
    Unknown,
    /// Verified by hardware or software that the port trusts.
    Valid,
    /// The field holds only the sum of the pseudo header: hardware is to complete it.
    Partial,
}

/// How a large packet is divided into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gso {
    /// Payload bytes of every segment but the last, 1 … 65,535.
    pub size: u16,
    /// Number of segments.
    pub segments: u16,
    /// A bit for each IPv4 header, the innermost lowest: set if all segments carry the same
    /// identification; otherwise it increases by one.
    pub fixed_ids: u8,
    /// CWR is part of Accurate ECN's counter and set in every segment (RFC 9768); otherwise only in
    /// the first (RFC 3168).
    pub accecn: bool,
    /// Frames shorter than 60 bytes were padded to 60 with zeros.
    pub padded: bool,
}
