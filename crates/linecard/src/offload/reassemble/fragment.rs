//! Examines a single fragment: the position of its data, and whether it is valid.

use super::reason::{GiveUp, Pass};
use crate::offload::MAX_LENGTH;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, IPV4_MF, IPV4_OFFSET, Ipv4, Ipv6, Tcp, Udp, protocol};
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Layout, MAX_HEADER_LEN, Meta, Packet};
use core::ops::Range;

/// Bytes of the IPv6 fragment header.
pub(super) const FRAGMENT_HEADER: usize = 8;
/// Fragment offsets count units of this many bytes.
const UNIT: usize = 8;
/// Bytes of the first fragment that are searched for its headers: those of any packet that can be
/// merged or segmented, and as many again for extension headers.
pub(super) const HEAD: usize = 512;
const _: () = assert!(HEAD >= MAX_HEADER_LEN + 60);

/// Header fields of a fragment of an IP datagram.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment {
    pub(super) v6: bool,
    /// Start of the IP header.
    pub(super) network: usize,
    /// End of the header that stays in the complete datagram. IPv6's fragment header follows it.
    pub(super) header_end: usize,
    /// Start of the data.
    pub(super) start: usize,
    /// Bytes of data.
    pub(super) len: usize,
    /// Position of the data within that of the datagram, in bytes.
    pub(super) offset: usize,
    pub(super) more: bool,
    pub(super) id: u32,
    /// Offset of the field with the type of the header after `header_end`; IPv6 only.
    pub(super) type_field: usize,
}

impl Fragment {
    /// Examines a packet's headers. Errors concern only the packet, not its datagram.
    pub(super) fn examine<B: AsRef<[u8]>>(packet: &Packet<B>) -> Result<Self, Pass> {
        let layout = packet.layout();
        let (Form::Fragment, Some(network)) = (layout.form(), layout.network()) else {
            return Err(Pass::NotAFragment);
        };
        let meta = &packet.meta;
        if packet.is_merged() || meta.gso.is_some() || meta.mark == Meta::NEVER {
            return Err(Pass::Unmergeable);
        }
        if meta.checksum == ChecksumState::Partial {
            return Err(Pass::PartialChecksum);
        }
        let datagram = &packet.bytes()[..layout.end()];
        layers(layout).try_for_each(|layer| examine_layer(datagram, layer))?;
        let fragment = match network.kind {
            LayerKind::Ipv4 => Self::v4(datagram, start(network)),
            _ => Self::v6(datagram, start(network)).ok_or(Pass::Malformed)?,
        };
        if fragment.header_end > MAX_HEADER_LEN {
            return Err(Pass::HeaderTooLong);
        }
        Ok(fragment)
    }

    fn v4(datagram: &[u8], network: usize) -> Self {
        let ip = header::at::<Ipv4>(datagram, network);
        let start = network + ip.header_len();
        let flags_fragment = ip.flags_fragment;
        Self {
            v6: false,
            network,
            header_end: start,
            start,
            len: datagram.len() - start,
            offset: usize::from(flags_fragment & IPV4_OFFSET) * UNIT,
            more: flags_fragment & IPV4_MF != 0,
            id: ip.id.into(),
            type_field: 0,
        }
    }

    /// RFC 8200, section 4.5: next header, reserved, offset (13 bits) and M flag, identification.
    fn v6(datagram: &[u8], network: usize) -> Option<Self> {
        let ip = header::get::<Ipv6>(datagram, network)?;
        let first = Next { kind: ip.next_header, field: network + 6, at: network + Ipv6::LEN };
        let Next { field, at, .. } =
            first.follow(datagram).filter(|next| next.kind == protocol::FRAGMENT)?;
        let [_, _, high, low, id @ ..] = *datagram.get(at..)?.first_chunk::<FRAGMENT_HEADER>()?;
        let word = u16::from_be_bytes([high, low]);
        let start = at + FRAGMENT_HEADER;
        Some(Self {
            v6: true,
            network,
            header_end: at,
            start,
            len: datagram.len() - start,
            // Units of 8 bytes, shifted left by three: bytes.
            offset: usize::from(word & 0xFFF8),
            more: word & 1 != 0,
            id: u32::from_be_bytes(id),
            type_field: field,
        })
    }

    /// The end of the data within that of the datagram.
    pub(super) fn end(&self) -> usize {
        self.offset + self.len
    }

    /// The range of the data in the packet.
    pub(super) fn data(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Whether it is a complete datagram nevertheless (RFC 6946). IPv4 has no atomic fragments.
    pub(super) fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// The fault that keeps the datagram of this fragment from ever being completed.
    pub(super) fn fault<B: AsRef<[u8]>>(&self, packet: &Packet<B>) -> Option<GiveUp> {
        let layout = packet.layout();
        if self.len == 0 {
            return Some(GiveUp::Empty);
        }
        // RFC 8200, section 4.5: the length must be a multiple of 8 octets, and the payload length
        // of the whole at most 65,535. The offsets of RFC 791, section 3.1 imply the same.
        if self.more && !self.len.is_multiple_of(UNIT) {
            return Some(GiveUp::Uneven);
        }
        if self.exceeds(layout, self.end()) {
            return Some(GiveUp::TooLong);
        }
        let datagram = &packet.bytes()[..layout.end()];
        (self.offset == 0 && !self.has_all_headers(datagram)).then_some(GiveUp::HeaderChain)
    }

    /// Whether a datagram with `data` bytes after this fragment's header exceeds a length field.
    /// The outermost IP header has the largest length.
    pub(super) fn exceeds(&self, layout: &Layout, data: usize) -> bool {
        let outermost = layers(layout).find(|layer| is_ip(layer.kind));
        let (from, most) = match outermost {
            Some(layer) if layer.kind == LayerKind::Ipv6 => (start(layer), MAX_LENGTH + Ipv6::LEN),
            Some(layer) => (start(layer), MAX_LENGTH),
            None => (self.network, MAX_LENGTH),
        };
        self.header_end - from + data > most
    }

    /// Whether a first fragment contains every header up to the transport's (RFC 8200, section 4.5;
    /// RFC 7112, section 5). For IPv4, RFC 1858, section 3 recommends the same for TCP.
    fn has_all_headers(&self, datagram: &[u8]) -> bool {
        let (kind, at) = if self.v6 {
            let kind = datagram[self.header_end];
            let first = Next { kind, field: self.header_end, at: self.start };
            let Some(Next { kind, at, .. }) = first.follow(datagram) else { return false };
            (kind, at)
        } else {
            (header::at::<Ipv4>(datagram, self.network).protocol, self.start)
        };
        let needed = match kind {
            protocol::TCP => match header::get::<Tcp>(datagram, at) {
                Some(tcp) => tcp.header_len().max(Tcp::LEN),
                None => return false,
            },
            protocol::UDP | ICMPV6 => Udp::LEN,
            NO_NEXT_HEADER => 0,
            // The length of an unknown header is unknown too.
            _ => 1,
        };
        let end = at + needed;
        end <= datagram.len() && end - self.start + self.header_end <= HEAD
    }
}

/// Protocol numbers (IANA).
const ICMPV6: u8 = 58;
const NO_NEXT_HEADER: u8 = 59;

/// A header of a chain: its type, the offset of that type, and the offset of the header.
#[derive(Debug, Clone, Copy)]
struct Next {
    kind: u8,
    field: usize,
    at: usize,
}

impl Next {
    /// The first header that is not an extension header (RFC 8200, section 4); none if the chain
    /// leaves the datagram.
    fn follow(mut self, datagram: &[u8]) -> Option<Self> {
        use protocol::{DESTINATION, HOP_BY_HOP, ROUTING};
        while matches!(self.kind, HOP_BY_HOP | ROUTING | DESTINATION) {
            let [kind, units] = *datagram.get(self.at..)?.first_chunk()?;
            let end = self.at + (usize::from(units) + 1) * 8;
            if end > datagram.len() {
                return None;
            }
            self = Self { kind, field: self.at, at: end };
        }
        Some(self)
    }
}

/// Headers must not contain anything that could not be corrected in the complete datagram: a wrong
/// header checksum would become valid, and an outer checksum covers data that is not read.
fn examine_layer(datagram: &[u8], layer: Layer) -> Result<(), Pass> {
    let at = start(layer);
    match layer.kind {
        LayerKind::Ipv4 => {
            let end = at + header::at::<Ipv4>(datagram, at).header_len();
            let valid = datagram.get(at..end).is_some_and(|ip| Sum::of(ip).is_valid());
            if valid { Ok(()) } else { Err(Pass::IpChecksum) }
        }
        LayerKind::Ipv6 | LayerKind::Pppoe => Ok(()),
        LayerKind::Udp if header::at::<Udp>(datagram, at).checksum == 0 => Ok(()),
        _ => Err(Pass::OuterChecksum),
    }
}

/// The layers of a packet, outermost first.
pub(super) fn layers(layout: &Layout) -> impl Iterator<Item = Layer> {
    layout.layers()
}

/// Where a layer starts.
pub(super) fn start(layer: Layer) -> usize {
    usize::from(layer.offset)
}

pub(super) fn is_ip(kind: LayerKind) -> bool {
    matches!(kind, LayerKind::Ipv4 | LayerKind::Ipv6)
}
