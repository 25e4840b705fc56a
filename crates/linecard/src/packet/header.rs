//! Header formats in network byte order, as they are in memory.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// IPv4 header without options (RFC 791, section 3.1).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv4 {
    /// Version (4) and header length in 32-bit words.
    pub version_ihl: u8,
    /// Differentiated services and ECN.
    pub tos: u8,
    /// Bytes of header and data.
    pub total_len: U16,
    /// Identification.
    pub id: U16,
    /// Reserved, DF, MF, and the fragment offset in units of 8 bytes.
    pub flags_fragment: U16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the data.
    pub protocol: u8,
    /// Header checksum.
    pub checksum: U16,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
}

/// "Don't fragment" in [`Ipv4::flags_fragment`].
pub const IPV4_DF: u16 = 0x4000;
/// "More fragments" in [`Ipv4::flags_fragment`].
pub const IPV4_MF: u16 = 0x2000;
/// Fragment offset in [`Ipv4::flags_fragment`], units of 8 bytes.
pub const IPV4_OFFSET: u16 = 0x1FFF;

impl Ipv4 {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;
    /// Offset of the total length.
    pub const TOTAL_LEN: usize = 2;
    /// Offset of the identification.
    pub const ID: usize = 4;
    /// Offset of the checksum.
    pub const CHECKSUM: usize = 10;

    /// Bytes of header, options included.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0x0F) * 4
    }

    /// Whether this is one fragment of several.
    #[must_use]
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment.get() & (IPV4_MF | IPV4_OFFSET) != 0
    }

    /// Whether this is an atomic datagram: not a fragment, and "don't fragment" is set, so that its
    /// identification means nothing (RFC 6864, section 4).
    #[must_use]
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.flags_fragment.get() & (IPV4_DF | IPV4_MF | IPV4_OFFSET) == IPV4_DF
    }
}

/// IPv6 header (RFC 8200, section 3).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv6 {
    /// Version (6), traffic class, flow label.
    pub version_class_label: U32,
    /// Bytes behind this header, extension headers included.
    pub payload_len: U16,
    /// Type of the header that follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

/// Traffic class in [`Ipv6::version_class_label`].
pub const IPV6_CLASS: u32 = 0x0FF0_0000;

impl Ipv6 {
    /// Bytes of the fixed header.
    pub const LEN: usize = 40;
}

/// TCP header without options (RFC 9293, section 3.1).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Tcp {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Sequence number of the first payload byte.
    pub sequence: U32,
    /// Next sequence number expected from the peer.
    pub acknowledgment: U32,
    /// Data offset (4 bits), reserved (3), AE, CWR, ECE, URG, ACK, PSH, RST, SYN, FIN.
    pub offset_flags: U16,
    /// Receive window, unscaled.
    pub window: U16,
    /// Checksum over pseudo header, header and payload.
    pub checksum: U16,
    /// Urgent pointer.
    pub urgent: U16,
}

/// Flags of [`Tcp::offset_flags`].
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u16 = 0x0001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x0002;
    /// Reset the connection.
    pub const RST: u16 = 0x0004;
    /// Push.
    pub const PSH: u16 = 0x0008;
    /// The acknowledgment number counts.
    pub const ACK: u16 = 0x0010;
    /// The urgent pointer counts.
    pub const URG: u16 = 0x0020;
    /// Congestion window reduced (RFC 3168); an ACE bit with Accurate ECN (RFC 9768).
    pub const CWR: u16 = 0x0080;
}

impl Tcp {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;
    /// Offset of the checksum field.
    pub const CHECKSUM: usize = 16;
    /// Offset of the lower eight flags.
    pub const FLAGS: usize = 13;

    /// Bytes of header, options included.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_flags.get() >> 12) * 4
    }
}

/// UDP header (RFC 768).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Udp {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Bytes of header and data.
    pub length: U16,
    /// Checksum, 0 for none (IPv4 only).
    pub checksum: U16,
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = 8;
    /// Offset of the checksum field.
    pub const CHECKSUM: usize = 6;
}

/// Checksum present, in the first 16 bits of a GRE header (RFC 2784, section 2).
pub const GRE_HAS_CHECKSUM: u16 = 0x8000;
/// Key present (RFC 2890, section 2).
pub const GRE_HAS_KEY: u16 = 0x2000;
/// Offset of the checksum in a GRE header that has one.
pub const GRE_CHECKSUM: usize = 4;
/// Offset of the length field in a PPPoE header (RFC 2516, section 4).
pub const PPPOE_LENGTH: usize = 4;
/// Bytes of a PPPoE header that its length field does not count.
pub const PPPOE_LEN: usize = 6;

/// Protocol numbers (IANA).
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 in IP (RFC 2473, RFC 4213).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Generic routing encapsulation (RFC 2784).
    pub const GRE: u8 = 47;
    /// IPv6 destination options.
    pub const DESTINATION: u8 = 60;
    /// MPLS in IP (RFC 4023).
    pub const MPLS: u8 = 137;
}

/// The header at `offset`; none if it does not lie inside `bytes`.
#[must_use]
#[inline]
pub fn get<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
    offset: usize,
) -> Option<&T> {
    T::ref_from_prefix(bytes.get(offset..)?).ok().map(|(header, _)| header)
}

/// The header at an offset from a [`Layout`](super::Layout) of these bytes.
///
/// # Panics
///
/// If the buffer has become shorter since it was parsed, which is a bug of its owner.
#[must_use]
#[inline]
pub fn at<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8], offset: usize) -> &T {
    get(bytes, offset).expect("a layout's offsets lie inside the packet it was parsed from")
}

/// [`at`] for writing.
///
/// # Panics
///
/// As [`at`].
#[inline]
pub fn at_mut<T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &mut [u8],
    offset: usize,
) -> &mut T {
    bytes
        .get_mut(offset..offset + size_of::<T>())
        .and_then(|header| T::mut_from_bytes(header).ok())
        .expect("a layout's offsets lie inside the packet it was parsed from")
}

/// The 16-bit number at an offset from a layout.
#[inline]
pub(crate) fn be16_at(bytes: &[u8], offset: usize) -> u16 {
    at::<U16>(bytes, offset).get()
}

/// The 16-bit number at `offset`.
#[inline]
pub(crate) fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}
