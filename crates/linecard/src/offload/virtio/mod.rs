//! The virtio-net header, which tells a kernel, a virtual machine or a device that a frame is to be
//! segmented, or that its checksum is partial.
//!
//! It stands before each frame on TUN and TAP devices (`IFF_VNET_HDR`), packet sockets
//! (`PACKET_VNET_HDR`) and virtio queues. Format: virtio 1.3, section 5.1.6; the tunnel form as in
//! Linux 6.17, `struct virtio_net_hdr_v1_hash_tunnel`.
//!
//! [`Header::read`] and [`Header::write`] convert between bytes and fields. [`Header::check`]
//! validates the fields against the frame: none of them is trusted. [`Header::of`] describes a
//! packet, or returns why no header can, so that its segments are sent one by one.

mod check;
mod describe;

pub use check::{FieldError, Offload};
pub(super) use describe::Frame;
pub use describe::{Device, Identifications, Undescribable};

use crate::packet::checksum::Sum;
use crate::packet::header::Udp;

/// Offset of the checksum in a UDP header.
const UDP_FIELD: usize = Udp::CHECKSUM;

/// Bits of [`Header::flags`].
pub mod flag {
    /// The checksum at [`csum_start`](super::Header::csum_start) is to be completed.
    pub const NEEDS_CSUM: u8 = 1;
    /// The outermost checksum has been verified.
    pub const DATA_VALID: u8 = 2;
    /// The checksum fields of the header hold something else (receive segment coalescing).
    pub const RSC_INFO: u8 = 4;
    /// The tunnel's own UDP header carries a checksum, too.
    pub const UDP_TUNNEL_CSUM: u8 = 8;
}

/// Values of [`Header::gso_type`], and bits that go with them.
pub mod gso_type {
    /// Not to be segmented.
    pub const NONE: u8 = 0;
    /// TCP over IPv4.
    pub const TCPV4: u8 = 1;
    /// UDP, to be divided into IP fragments: an obsolete type that is neither read nor written
    /// here.
    pub const UDP_FRAGMENTS: u8 = 3;
    /// TCP over IPv6.
    pub const TCPV6: u8 = 4;
    /// UDP, to be segmented into datagrams.
    pub const UDP_L4: u8 = 5;
    /// In a UDP tunnel over IPv4.
    pub const UDP_TUNNEL_IPV4: u8 = 0x20;
    /// In a UDP tunnel over IPv6.
    pub const UDP_TUNNEL_IPV6: u8 = 0x40;
    /// CWR is set, and belongs only in the first segment (RFC 3168).
    pub const ECN: u8 = 0x80;
    /// Both tunnel bits.
    pub const TUNNELS: u8 = UDP_TUNNEL_IPV4 | UDP_TUNNEL_IPV6;
}

/// The format of the header that both sides have agreed on; on a TAP, by `TUNSETVNETHDRSZ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 10 bytes: `struct virtio_net_hdr`.
    Legacy,
    /// 12 bytes: with the number of buffers, `struct virtio_net_hdr_v1`.
    V1,
    /// 24 bytes: with hash and tunnel offsets, `struct virtio_net_hdr_v1_hash_tunnel`.
    Tunnel,
}

impl Format {
    /// Bytes of the longest format.
    pub const MAX_LEN: usize = 24;

    /// Bytes of the header.
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            Self::Legacy => 10,
            Self::V1 => 12,
            Self::Tunnel => Self::MAX_LEN,
        }
    }

    /// The format with `len` bytes.
    #[must_use]
    pub const fn of_len(len: usize) -> Option<Self> {
        match len {
            10 => Some(Self::Legacy),
            12 => Some(Self::V1),
            24 => Some(Self::Tunnel),
            _ => None,
        }
    }
}

/// Byte order of the header's numbers. Virtio since 1.0 has little endian; before, and on TAPs
/// without `TUNSETVNETLE`, it is the machine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

impl Endian {
    /// This machine's own.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    fn decode(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    fn encode(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

/// The fields of the header. Offsets count from the start of the frame.
///
/// ```
/// use linecard::offload::virtio::{Endian, Format, Header, flag, gso_type};
/// use linecard::packet::{ChecksumState, Layout, LinkType};
/// // As a TUN gives it: 4 bytes of payload over UDP, to be segmented by 3; checksum left to us.
/// let mut frame = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// frame.extend([0, 7, 0, 9, 0, 12, 1, 2, 1, 2, 3, 4]);
/// let bytes = [flag::NEEDS_CSUM, gso_type::UDP_L4, 28, 0, 3, 0, 20, 0, 6, 0];
///
/// let header = Header::read(&bytes, Format::Legacy, Endian::Little).expect("ten bytes");
/// let offload = header.check(&frame, &Layout::parse(LinkType::Raw, &frame))?;
/// assert_eq!(offload.checksum, ChecksumState::Partial);
/// assert_eq!(offload.gso.map(|gso| (gso.size, gso.segments)), Some((3, 2)));
/// # Ok::<(), linecard::offload::virtio::FieldError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Bits of [`flag`].
    pub flags: u8,
    /// One of [`gso_type`], with its bits.
    pub gso_type: u8,
    /// Bytes before the payload: a hint that many senders set wrongly.
    pub hdr_len: u16,
    /// Payload bytes of every segment but the last.
    pub gso_size: u16,
    /// Start of the bytes that the checksum to be completed covers.
    pub csum_start: u16,
    /// Offset of the checksum field from there.
    pub csum_offset: u16,
    /// Buffers that hold the frame: 0 from a driver, 1 or more from a device (section 5.1.6.4).
    /// The frame given to this module is always whole.
    pub num_buffers: u16,
    /// Start of the tunnel's own UDP header.
    pub outer_th_offset: u16,
    /// Start of the IP header inside the tunnel.
    pub inner_nh_offset: u16,
}

impl Header {
    /// The header at the front of `bytes`; none if there are too few.
    #[must_use]
    pub fn read(bytes: &[u8], format: Format, endian: Endian) -> Option<Self> {
        let bytes = bytes.get(..format.header_len())?;
        let at = |offset: usize| {
            bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |pair| endian.decode(*pair))
        };
        Some(Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: at(2),
            gso_size: at(4),
            csum_start: at(6),
            csum_offset: at(8),
            num_buffers: at(10),
            // The hash and its type, 8 bytes, are skipped.
            outer_th_offset: at(20),
            inner_nh_offset: at(22),
        })
    }

    /// Writes the header to the front of `out`; returns its length, or none if `out` is too short or
    /// the format cannot describe a tunnel. The hash is 0, "none".
    #[must_use]
    pub fn write(&self, out: &mut [u8], format: Format, endian: Endian) -> Option<usize> {
        if format != Format::Tunnel && self.gso_type & gso_type::TUNNELS != 0 {
            return None;
        }
        let out = out.get_mut(..format.header_len())?;
        out.fill(0);
        out[..2].copy_from_slice(&[self.flags, self.gso_type]);
        let fields = [
            (2, self.hdr_len),
            (4, self.gso_size),
            (6, self.csum_start),
            (8, self.csum_offset),
            (10, self.num_buffers),
            (20, self.outer_th_offset),
            (22, self.inner_nh_offset),
        ];
        for (offset, value) in fields {
            if let Some(place) = out.get_mut(offset..offset + 2) {
                place.copy_from_slice(&endian.encode(value));
            }
        }
        Some(format.header_len())
    }

    /// Completes the checksum that [`flag::NEEDS_CSUM`] asks for, as a device does, without parsing
    /// protocols: it sums from [`Header::csum_start`] to the end. For frames that are not to be
    /// segmented and whose checksum is not that of a
    /// [`Form::Datagram`](crate::packet::Form::Datagram), for example in an unknown tunnel.
    ///
    /// # Errors
    ///
    /// If the fields point outside of the frame.
    pub fn complete_checksum(&self, frame: &mut [u8]) -> Result<(), FieldError> {
        if let Some((at, checksum)) = self.whole_checksum(frame, core::iter::empty())? {
            frame[at..at + 2].copy_from_slice(&checksum);
        }
        Ok(())
    }

    /// The place and value of the checksum that [`flag::NEEDS_CSUM`] asks for, for a frame that
    /// continues in pieces; the checksum field has to be in the first part.
    pub(super) fn whole_checksum<'a>(
        &self,
        frame: &[u8],
        rest: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Option<(usize, [u8; 2])>, FieldError> {
        if self.flags & flag::NEEDS_CSUM == 0 {
            return Ok(None);
        }
        let (start, offset) = (usize::from(self.csum_start), usize::from(self.csum_offset));
        let covered = frame.get(start..).ok_or(FieldError::CsumStart(self.csum_start))?;
        let (mut sum, mut odd) = (Sum::of(covered), covered.len() % 2 == 1);
        for piece in rest {
            let next = Sum::of(piece);
            sum = sum.plus(if odd { next.swapped() } else { next });
            odd ^= piece.len() % 2 == 1;
        }
        let checksum = sum.checksum();
        let field = covered.get(offset..offset + 2);
        field.ok_or(FieldError::CsumOffset(self.csum_offset))?;
        // 0 would mean "no checksum" in UDP (RFC 768), whose checksum is at this offset.
        let checksum = if checksum == 0 && offset == UDP_FIELD { 0xFFFF } else { checksum };
        Ok(Some((start + offset, checksum.to_be_bytes())))
    }
}
