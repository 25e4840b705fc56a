//! The structs of the interface as C sees them, and conversions of their numbers to types.

use crate::error::Error;
use linecard::offload::coalesce::{self, ChecksumPolicy, Creation};
use linecard::offload::virtio::{Format, Identifications};
use linecard::packet::{self, ChecksumState, LinkType};
use std::ffi::c_void;
use std::time::Duration;

/// Version of this interface. It changes when programs have to be recompiled.
pub const LINECARD_ABI_VERSION: u32 = 1;

/// Ethernet, with up to four VLAN tags.
pub const LINECARD_LINK_ETHERNET: u8 = 0;
/// IPv4 or IPv6 without a link header, as on a TUN device.
pub const LINECARD_LINK_RAW: u8 = 1;

/// The state of the transport checksum is unknown. Segments get complete ones.
pub const LINECARD_CHECKSUM_UNKNOWN: u8 = 0;
/// A trusted party has verified it.
pub const LINECARD_CHECKSUM_VALID: u8 = 1;
/// It holds the pseudo header's sum, and hardware completes it. Segments have the same.
pub const LINECARD_CHECKSUM_PARTIAL: u8 = 2;

/// The packet cannot merge; `reason` is why it passed.
pub const LINECARD_EXIT_PASSED: u8 = 0;
/// The packet was held, alone or with others; `reason` is why it was flushed.
pub const LINECARD_EXIT_FLUSHED: u8 = 1;

/// The only segment of its packet.
pub const LINECARD_CLASS_SINGLE: u8 = 0;
/// The first of several.
pub const LINECARD_CLASS_BEGINNING: u8 = 1;
/// Neither first nor last.
pub const LINECARD_CLASS_CONTINUATION: u8 = 2;
/// The last of several.
pub const LINECARD_CLASS_END: u8 = 3;

/// Bytes of the longest virtio-net header.
pub const LINECARD_VIRTIO_MAX: usize = 24;

/// A byte range, laid out as POSIX's `struct iovec`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Slice {
    /// Its first byte.
    pub data: *mut u8,
    /// Its length.
    pub len: usize,
}

/// A received packet: a frame in a buffer of the caller's.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Frame {
    /// The frame. It is read, and its header may be written, until it is given back.
    pub data: *mut u8,
    /// Bytes of the frame, at least 1.
    pub len: usize,
    /// Given back with the frame; the library does not interpret it.
    pub token: *mut c_void,
    /// Packets of different lanes never merge.
    pub lane: u32,
    /// Packets of one flow with different marks never merge; UINT32_MAX never merges at all.
    pub mark: u32,
    /// LINECARD_LINK_*.
    pub link: u8,
    /// LINECARD_CHECKSUM_*.
    pub checksum: u8,
}

/// How a large packet divides into segments.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Gso {
    /// Payload bytes of every segment but the last; 0 for a packet that is not segmented.
    pub size: u16,
    /// Number of segments; not needed for segmenting.
    pub segments: u16,
    /// A bit per IPv4 header, the lowest for the innermost: set if all segments carry the same
    /// identification; otherwise it increments.
    pub fixed_ids: u8,
    /// Not 0: CWR goes on every segment (RFC 9768), not only on the first (RFC 3168).
    pub accecn: u8,
    /// Not 0: segments shorter than 60 bytes are padded to 60 with zeros.
    pub padded: u8,
}

/// A packet that leaves a coalescer: one received packet, or several in order.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Merged {
    /// Header and payload of the first packet, then the others' payload.
    pub slices: *const Slice,
    /// The token of the packet that each slice is part of.
    pub tokens: *const *mut c_void,
    /// Number of slices, and so of packets.
    pub count: usize,
    /// Bytes of all slices.
    pub len: usize,
    /// How it divides into the received packets.
    pub gso: Gso,
    /// LINECARD_CHECKSUM_*: state of the checksum, or whether it is left to hardware.
    pub checksum: u8,
    /// LINECARD_EXIT_*.
    pub exit: u8,
    /// Number of the reason: see `linecard_reason_name`.
    pub reason: u8,
    /// Bytes of the virtio header: as configured, or 0 if no header can describe how to segment the
    /// packet, so that its segments have to be sent one by one.
    pub virtio_len: u8,
    /// The virtio header, to be sent before the slices; little endian.
    pub virtio: [u8; LINECARD_VIRTIO_MAX],
}

/// The packets that left a coalescer in one call.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Output {
    /// The packets, in the order in which they left.
    pub packets: *const Merged,
    /// Their number.
    pub count: usize,
}

/// Configuration of a coalescer. Set by `linecard_config_default`, then changed.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Config {
    /// Size of this struct in the program that was compiled.
    pub size: usize,
    /// No packet is held longer than this. Default: 1 ms.
    pub hold_budget_ns: u64,
    /// A flow is idle when no packet arrives for ten times its average interval, but for at least
    /// this long. Default: 20 µs.
    pub idle_floor_ns: u64,
    /// Key of the flow hash: use a random number if peers are not trusted.
    pub secret: u64,
    /// Bytes of a merged packet from its outermost IP header on: up to 524,288 for TCP directly over IP
    /// that a coalescer merges (beyond 65,535 its length field is 0), else up to 65,535. Default: 65,535.
    pub max_bytes: usize,
    /// Flows in the table, at most 16 Mi. Default: 4,096.
    pub max_flows: usize,
    /// Maximum packets held in total, at most 1 Mi. Default: 16,384.
    pub max_held_packets: usize,
    /// Maximum bytes held in total. Default: 32 MiB.
    pub max_held_bytes: usize,
    /// Packets in a merged TCP packet. Default: 1,024.
    pub max_segments: u16,
    /// Packets in a merged UDP packet. Default: 64.
    pub max_datagrams: u16,
    /// Tunnels around merged packets, at most 3. Default: 2.
    pub max_tunnels: u8,
    /// Not 0: no checksum is computed, because hardware has verified them all. Default: 0.
    pub trust_checksums: u8,
    /// Not 0: TCP flows are created at their SYN, not at their first data. Default: 0.
    pub on_syn: u8,
    /// Not 0: every call of `linecard_coalescer_push` flushes all packets at its end. Packets are then examined
    /// only to join each other: one that meets no other packet of its flow in the call leaves as it came,
    /// whatever its checksum. Default: 0.
    pub flush_at_end: u8,
    /// Bytes of the virtio header that leaves with each packet: 10, 12 or 24; 0 for none. Default:
    /// 0. With it, the checksum of merged packets is left to the reader of the header.
    pub virtio_len: u8,
    /// IPv4 identifications after segmentation by the virtio header, which increments them. 0:
    /// constant ones may become incrementing ones if "don't fragment" is set, which makes them
    /// meaningless (RFC 6864). Not 0: exactly as received, so packets with constant identifications
    /// leave without a virtio header. Default: 0.
    pub exact_ids: u8,
    /// Not 0: the packets of a burst keep their order within a flow. 0: a late packet of TCP that lies in
    /// the same burst is put in its place, if it merges there. Default: 0.
    pub as_arrived: u8,
}

/// Counters of a coalescer.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// Packets sent, merged ones counted once.
    pub packets_out: u64,
    /// Bytes of frames sent.
    pub bytes_out: u64,
    /// Packets that passed because they cannot merge.
    pub passed: u64,
    /// Packets merged into another.
    pub merged: u64,
    /// Packets held now.
    pub held: u64,
    /// Flows in the table now.
    pub flows: u64,
    /// Flows that were evicted for another.
    pub flows_evicted: u64,
}

/// A large packet to segment: a frame, or its headers followed by payload in pieces.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Large {
    /// The frame, or its first part with all headers. Lengths in the headers are those of the whole
    /// packet.
    pub head: *const u8,
    /// Bytes at `head`.
    pub head_len: usize,
    /// Payload that follows. May be NULL when there is none.
    pub pieces: *const Slice,
    /// Number of pieces.
    pub piece_count: usize,
    /// How to segment it.
    pub gso: Gso,
    /// LINECARD_LINK_*.
    pub link: u8,
    /// LINECARD_CHECKSUM_*: with PARTIAL, checksums of segments are left to hardware.
    pub checksum: u8,
}

/// The segments of a packet, and the memory they need.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Plan {
    /// Number of segments.
    pub segments: usize,
    /// Bytes of all segments together.
    pub bytes: usize,
    /// Bytes of all headers together.
    pub header_bytes: usize,
    /// Maximum slices: each segment has one for its header, and those of its payload.
    pub slices: usize,
    /// Maximum bytes of a segment.
    pub longest: usize,
}

/// One segment.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Segment {
    /// Its start: an offset in the buffer, or an index in the array of slices.
    pub start: usize,
    /// Number of its slices; 0 if it was written to a buffer.
    pub slices: usize,
    /// Bytes of the frame.
    pub len: usize,
    /// LINECARD_CLASS_*.
    pub position: u8,
}

/// An array for segments.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Segments {
    /// The array.
    pub list: *mut Segment,
    /// Its length.
    pub room: usize,
    /// Set to the number of segments.
    pub count: usize,
}

/// An array for the slices of segments.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Slices {
    /// The array.
    pub list: *mut Slice,
    /// Its length.
    pub room: usize,
}

/// Bytes of a buffer.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Range {
    /// Its first byte, counted from the start of the buffer.
    pub offset: usize,
    /// Its length.
    pub len: usize,
}

/// A packet of a burst: several merged, or one as it came.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BurstPacket {
    /// The arguments of `writev`: the virtio header, all zeros for a packet that stayed alone; headers and
    /// payload of the first packet; then the others' payload. The bytes of the virtio header may be
    /// changed, for example to set num_buffers, all others only read.
    pub slices: *const Slice,
    /// Number of slices: that of packets, and the virtio header.
    pub count: usize,
    /// Bytes of all slices, with those of the virtio header.
    pub len: usize,
    /// Its first packet, counted from 0 in the burst.
    pub first: usize,
    /// Number of packets in it.
    pub packets: usize,
    /// Which packets of the burst they are, in the order of their bytes: as many numbers.
    pub numbers: *const usize,
}

/// Segments one behind the other, each with the bytes before and after it, so that they can be sent
/// as they are by one call with UDP_SEGMENT.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Run {
    /// The first byte before the first segment. All bytes may be changed.
    pub data: *mut u8,
    /// Bytes in all.
    pub len: usize,
    /// Bytes of each segment with those before and after it; the last of a frame may be shorter.
    pub size: usize,
    /// Number of segments.
    pub count: usize,
}

/// Maximum flows and held packets, which bound the memory of a coalescer.
const MAX_FLOWS: usize = 16 << 20;
const MAX_HELD: usize = 1 << 20;

pub(crate) fn link(number: u8) -> Result<LinkType, Error> {
    match number {
        LINECARD_LINK_ETHERNET => Ok(LinkType::Ethernet),
        LINECARD_LINK_RAW => Ok(LinkType::Raw),
        _ => Err(Error::Invalid),
    }
}

pub(crate) fn checksum(number: u8) -> Result<ChecksumState, Error> {
    match number {
        LINECARD_CHECKSUM_UNKNOWN => Ok(ChecksumState::Unknown),
        LINECARD_CHECKSUM_VALID => Ok(ChecksumState::Valid),
        LINECARD_CHECKSUM_PARTIAL => Ok(ChecksumState::Partial),
        _ => Err(Error::Invalid),
    }
}

pub(crate) fn checksum_number(state: ChecksumState) -> u8 {
    match state {
        ChecksumState::Unknown => LINECARD_CHECKSUM_UNKNOWN,
        ChecksumState::Valid => LINECARD_CHECKSUM_VALID,
        ChecksumState::Partial => LINECARD_CHECKSUM_PARTIAL,
    }
}

impl From<packet::Gso> for Gso {
    fn from(gso: packet::Gso) -> Self {
        Self {
            size: gso.size,
            segments: gso.segments,
            fixed_ids: gso.fixed_ids,
            accecn: gso.accecn.into(),
            padded: gso.padded.into(),
        }
    }
}

impl From<Gso> for packet::Gso {
    fn from(gso: Gso) -> Self {
        Self {
            size: gso.size,
            segments: gso.segments,
            fixed_ids: gso.fixed_ids,
            accecn: gso.accecn != 0,
            padded: gso.padded != 0,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::of(&coalesce::Config::default())
    }
}

impl Config {
    /// The defaults for programs that receive in bursts.
    pub(crate) fn burst() -> Self {
        let config = coalesce::Config::burst();
        let format = config.device.unwrap_or_default().format;
        Self { virtio_len: format.header_len() as u8, flush_at_end: 1, ..Self::of(&config) }
    }

    fn of(config: &coalesce::Config) -> Self {
        Self {
            size: size_of::<Self>(),
            hold_budget_ns: linecard::time::ns(config.hold_budget),
            idle_floor_ns: linecard::time::ns(config.idle_floor),
            secret: config.secret,
            max_bytes: config.max_bytes,
            max_flows: config.max_flows,
            max_held_packets: config.max_held_packets,
            max_held_bytes: config.max_held_bytes,
            max_segments: config.max_segments,
            max_datagrams: config.max_datagrams,
            max_tunnels: config.max_tunnels as u8,
            trust_checksums: 0,
            on_syn: 0,
            flush_at_end: 0,
            virtio_len: 0,
            exact_ids: 0,
            as_arrived: 0,
        }
    }

    /// The typed configuration, if all numbers are in range.
    pub(crate) fn checked(&self) -> Result<coalesce::Config, Error> {
        let flags =
            [self.trust_checksums, self.on_syn, self.flush_at_end, self.exact_ids, self.as_arrived];
        let tunnels = usize::from(self.max_tunnels);
        let held = (1..=MAX_HELD).contains(&self.max_held_packets);
        let valid = self.max_flows <= MAX_FLOWS && held && tunnels <= packet::MAX_TUNNELS;
        if !valid || flags.iter().any(|flag| *flag > 1) {
            return Err(Error::Invalid);
        }
        Ok(coalesce::Config {
            checksum: match self.trust_checksums {
                0 => ChecksumPolicy::Verify,
                _ => ChecksumPolicy::Trust,
            },
            verify_alone: false,
            creation: if self.on_syn == 0 { Creation::OnData } else { Creation::OnSyn },
            hold_budget: Duration::from_nanos(self.hold_budget_ns),
            idle_floor: Duration::from_nanos(self.idle_floor_ns),
            flush_at_batch_end: self.flush_at_end != 0,
            restore_order: self.as_arrived == 0,
            flush_quiet_at_batch_end: false,
            // Packets that cannot be described leave without a header, and can be segmented.
            device: None,
            max_bytes: self.max_bytes,
            max_segments: self.max_segments,
            max_datagrams: self.max_datagrams,
            max_tunnels: tunnels,
            max_flows: self.max_flows,
            max_held_packets: self.max_held_packets,
            max_held_bytes: self.max_held_bytes,
            secret: self.secret,
        })
    }

    /// Identifications that a segmenting device writes.
    pub(crate) fn identifications(&self) -> Identifications {
        if self.exact_ids == 0 { Identifications::Rfc6864 } else { Identifications::Exact }
    }

    /// The form of the virtio header, if one is asked for.
    pub(crate) fn virtio(&self) -> Result<Option<Format>, Error> {
        match self.virtio_len {
            0 => Ok(None),
            len => Format::of_len(len.into()).map(Some).ok_or(Error::Invalid),
        }
    }
}
