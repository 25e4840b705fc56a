//! Header formats: structs of fields, read from bytes in network byte order and written to them.

/// A header of constant length, options not included.
pub trait Header: Sized {
    /// The header that `bytes` starts with; none if there are too few.
    #[must_use]
    fn read(bytes: &[u8]) -> Option<Self>;

    /// Writes the header to the front of `bytes`; returns whether there is room.
    #[must_use]
    fn write(&self, bytes: &mut [u8]) -> bool;
}

/// A field of a header.
trait Field: Sized {
    /// Moves `rest` behind the field.
    fn take(rest: &mut &[u8]) -> Option<Self>;
    fn put(&self, rest: &mut &mut [u8]) -> bool;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Field for $number {
            #[inline(always)]
            fn take(rest: &mut &[u8]) -> Option<Self> {
                Field::take(rest).map(Self::from_be_bytes)
            }

            #[inline(always)]
            fn put(&self, rest: &mut &mut [u8]) -> bool {
                self.to_be_bytes().put(rest)
            }
        }
    )*};
}

numbers!(u8 u16 u32);

impl<const LEN: usize> Field for [u8; LEN] {
    #[inline(always)]
    fn take(rest: &mut &[u8]) -> Option<Self> {
        let (field, others) = rest.split_first_chunk()?;
        *rest = others;
        Some(*field)
    }

    #[inline(always)]
    fn put(&self, rest: &mut &mut [u8]) -> bool {
        let Some((field, others)) = core::mem::take(rest).split_first_chunk_mut() else {
            return false;
        };
        *field = *self;
        *rest = others;
        true
    }
}

/// A struct whose fields follow each other in the header.
macro_rules! header {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Header for $name {
            #[inline(always)]
            fn read(bytes: &[u8]) -> Option<Self> {
                let mut rest = bytes.get(..Self::LEN)?;
                Some(Self { $($field: Field::take(&mut rest)?,)* })
            }

            #[inline(always)]
            fn write(&self, bytes: &mut [u8]) -> bool {
                let Some(mut rest) = bytes.get_mut(..Self::LEN) else { return false };
                $(self.$field.put(&mut rest))&&*
            }
        }
    };
}

header! {
    /// IPv4 header without options (RFC 791, section 3.1).
    pub struct Ipv4 {
        /// Version (4) and header length in 32-bit words.
        pub version_ihl: u8,
        /// Differentiated services and ECN.
        pub tos: u8,
        /// Bytes of header and data.
        pub total_len: u16,
        /// Identification.
        pub id: u16,
        /// Reserved, DF, MF, and the fragment offset in units of 8 bytes.
        pub flags_fragment: u16,
        /// Time to live.
        pub ttl: u8,
        /// Protocol of the data.
        pub protocol: u8,
        /// Header checksum.
        pub checksum: u16,
        /// Source address.
        pub source: [u8; 4],
        /// Destination address.
        pub destination: [u8; 4],
    }
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
    /// Offset of differentiated services and ECN.
    pub const TOS: usize = 1;
    /// Offset of the total length.
    pub const TOTAL_LEN: usize = 2;
    /// Offset of the identification.
    pub const ID: usize = 4;
    /// Offset of flags and fragment offset.
    pub const FLAGS_FRAGMENT: usize = 6;
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
        self.flags_fragment & (IPV4_MF | IPV4_OFFSET) != 0
    }

    /// Whether this is an atomic datagram: not a fragment, and "don't fragment" is set, so that its
    /// identification means nothing (RFC 6864, section 4).
    #[must_use]
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.flags_fragment & (IPV4_DF | IPV4_MF | IPV4_OFFSET) == IPV4_DF
    }
}

header! {
    /// IPv6 header (RFC 8200, section 3).
    pub struct Ipv6 {
        /// Version (6), traffic class, flow label.
        pub version_class_label: u32,
        /// Bytes behind this header, extension headers included.
        pub payload_len: u16,
        /// Type of the header that follows.
        pub next_header: u8,
        /// Hop limit.
        pub hop_limit: u8,
        /// Source address.
        pub source: [u8; 16],
        /// Destination address.
        pub destination: [u8; 16],
    }
}

/// Traffic class in [`Ipv6::version_class_label`].
pub const IPV6_CLASS: u32 = 0x0FF0_0000;

impl Ipv6 {
    /// Bytes of the fixed header.
    pub const LEN: usize = 40;
    /// Offset of the payload length.
    pub const PAYLOAD_LEN: usize = 4;
}

header! {
    /// TCP header without options (RFC 9293, section 3.1).
    pub struct Tcp {
        /// Source port.
        pub source: u16,
        /// Destination port.
        pub destination: u16,
        /// Sequence number of the first payload byte.
        pub sequence: u32,
        /// Next sequence number expected from the peer.
        pub acknowledgment: u32,
        /// Data offset (4 bits), reserved (3), AE, CWR, ECE, URG, ACK, PSH, RST, SYN, FIN.
        pub offset_flags: u16,
        /// Receive window, unscaled.
        pub window: u16,
        /// Checksum over pseudo header, header and payload.
        pub checksum: u16,
        /// Urgent pointer.
        pub urgent: u16,
    }
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
    /// Offset of the sequence number.
    pub const SEQUENCE: usize = 4;
    /// Offset of the acknowledgment number.
    pub const ACKNOWLEDGMENT: usize = 8;
    /// Offset of the window.
    pub const WINDOW: usize = 14;
    /// Offset of data offset and flags.
    pub const OFFSET_FLAGS: usize = 12;
    /// Offset of the lower eight flags.
    pub const FLAGS: usize = 13;

    /// Bytes of header, options included.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_flags >> 12) * 4
    }
}

header! {
    /// UDP header (RFC 768).
    pub struct Udp {
        /// Source port.
        pub source: u16,
        /// Destination port.
        pub destination: u16,
        /// Bytes of header and data.
        pub length: u16,
        /// Checksum, 0 for none (IPv4 only).
        pub checksum: u16,
    }
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = 8;
    /// Offset of the length field.
    pub const LENGTH: usize = 4;
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
#[inline(always)]
pub fn get<T: Header>(bytes: &[u8], offset: usize) -> Option<T> {
    T::read(bytes.get(offset..)?)
}

/// The header at an offset from a [`Layout`](super::Layout) of these bytes.
///
/// # Panics
///
/// If the buffer has become shorter since it was parsed, which is a bug of its owner.
#[must_use]
#[inline(always)]
pub fn at<T: Header>(bytes: &[u8], offset: usize) -> T {
    get(bytes, offset).expect(INSIDE)
}

/// Writes a header at an offset from a layout.
///
/// # Panics
///
/// As [`at`].
#[inline(always)]
pub fn put<T: Header>(bytes: &mut [u8], offset: usize, header: &T) {
    assert!(header.write(&mut bytes[offset..]), "{INSIDE}");
}

const INSIDE: &str = "a layout's offsets lie inside the packet it was parsed from";

/// Writes the 16-bit number at an offset from a layout.
///
/// # Panics
///
/// As [`at`].
#[inline(always)]
pub fn set_be16(bytes: &mut [u8], offset: usize, value: u16) {
    *chunk_mut(bytes, offset) = value.to_be_bytes();
}

/// Writes the 32-bit number at an offset from a layout.
///
/// # Panics
///
/// As [`at`].
#[inline(always)]
pub fn set_be32(bytes: &mut [u8], offset: usize, value: u32) {
    *chunk_mut(bytes, offset) = value.to_be_bytes();
}

/// The bytes at an offset from a layout: several fields that are set in them take one check of bounds.
///
/// # Panics
///
/// As [`at`].
#[inline(always)]
pub(crate) fn chunk_mut<const LEN: usize>(bytes: &mut [u8], offset: usize) -> &mut [u8; LEN] {
    bytes.get_mut(offset..offset + LEN).and_then(|chunk| chunk.first_chunk_mut()).expect(INSIDE)
}

/// The bytes at an offset from a layout.
///
/// # Panics
///
/// As [`at`].
#[inline(always)]
pub(crate) fn chunk<const LEN: usize>(bytes: &[u8], offset: usize) -> &[u8; LEN] {
    bytes.get(offset..offset + LEN).and_then(|chunk| chunk.first_chunk()).expect(INSIDE)
}

/// The 16-bit number at an offset from a layout.
#[inline]
pub(crate) fn be16_at(bytes: &[u8], offset: usize) -> u16 {
    be16(bytes, offset).expect(INSIDE)
}

/// The 16-bit number at `offset`.
#[inline]
pub(crate) fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}
