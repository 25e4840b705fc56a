//! Properties of the capture that a writer's records are from.

use super::{Endianness, Format};

/// libpcap's largest snapshot length.
pub(super) const LARGE_SNAPLEN: u32 = 262_144;

/// The description of an input, taken by [`Reader::source`](super::Reader::source), that a
/// [`Writer`](super::Writer) starts from.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub(super) format: Format,
    pub(super) endianness: Endianness,
    /// The file header, of use if the format is pcap.
    pub(super) header: PcapHeader,
    pub(super) sizes_change: bool,
}

impl Source {
    /// A capture that does not come from a file: little endian pcap 2.4. Its packets are written
    /// with [`Writer::write_packet`](super::Writer::write_packet) like `Record::default()`.
    pub fn pcap(link_type: u16, nanoseconds: bool, snaplen: u32) -> Self {
        let endianness = Endianness::Little;
        Self {
            format: Format::Pcap,
            endianness,
            header: PcapHeader::new(endianness, link_type, nanoseconds, snaplen),
            sizes_change: false,
        }
    }

    /// A pcapng file, whose sections and interfaces come as records.
    pub(super) fn pcapng(endianness: Endianness) -> Self {
        Self { format: Format::PcapNg, ..Self::pcap(0, false, 0).with(endianness) }
    }

    fn with(mut self, endianness: Endianness) -> Self {
        self.endianness = endianness;
        self
    }

    /// Says that packets will be written longer or shorter than they were read. The section
    /// lengths of pcapng are then written as "not known", and snapshot lengths below 262,144 as
    /// 262,144, because readers built on libpcap cut or refuse longer packets.
    #[must_use]
    pub fn sizes_will_change(mut self) -> Self {
        self.sizes_change = true;
        self
    }

    /// The input's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The input's byte order (of its first section, if pcapng).
    pub fn endianness(&self) -> Endianness {
        self.endianness
    }
}

/// The 24 bytes at the start of a pcap file, kept as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PcapHeader(pub(super) [u8; Self::LENGTH]);

impl PcapHeader {
    pub(super) const LENGTH: usize = 24;

    pub(super) fn new(
        endianness: Endianness,
        link_type: u16,
        nanoseconds: bool,
        snaplen: u32,
    ) -> Self {
        let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&endianness.bytes32(magic));
        bytes[4..6].copy_from_slice(&endianness.bytes16(2));
        bytes[6..8].copy_from_slice(&endianness.bytes16(4));
        bytes[16..20].copy_from_slice(&endianness.bytes32(snaplen));
        bytes[20..].copy_from_slice(&endianness.bytes32(u32::from(link_type)));
        Self(bytes)
    }

    /// Byte order and whether timestamps are nanoseconds; none if this is not a pcap file.
    pub(super) fn kind(start: [u8; 4]) -> Option<(Endianness, bool)> {
        match u32::from_be_bytes(start) {
            0xa1b2_c3d4 => Some((Endianness::Big, false)),
            0xa1b2_3c4d => Some((Endianness::Big, true)),
            0xd4c3_b2a1 => Some((Endianness::Little, false)),
            0x4d3c_b2a1 => Some((Endianness::Little, true)),
            _ => None,
        }
    }

    pub(super) fn nanoseconds(self) -> bool {
        let [a, b, c, d, ..] = self.0;
        matches!(Self::kind([a, b, c, d]), Some((_, true)))
    }

    pub(super) fn version(self, endianness: Endianness) -> (u16, u16) {
        let field = |at| endianness.u16_at(&self.0, at).unwrap_or(0);
        (field(4), field(6))
    }

    pub(super) fn snaplen(self, endianness: Endianness) -> u32 {
        endianness.u32_at(&self.0, 16).unwrap_or(0)
    }

    pub(super) fn set_snaplen(&mut self, endianness: Endianness, snaplen: u32) {
        self.0[16..20].copy_from_slice(&endianness.bytes32(snaplen));
    }

    /// LINKTYPE value: the field's upper half may say how long the frame check sequences are.
    pub(super) fn link_type(self, endianness: Endianness) -> u16 {
        endianness.u32_at(&self.0, 20).unwrap_or(0) as u16
    }
}

/// The snapshot length to write when packets may become longer; 0 means no limit.
pub(super) fn widened(snaplen: u32) -> u32 {
    if snaplen == 0 { 0 } else { snaplen.max(LARGE_SNAPLEN) }
}
