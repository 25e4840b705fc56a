//! A packet's headers as offsets: parsed once, at the port.
//!
//! A layout is the list of those headers whose fields change when packets are merged or cut:
//! the *layers*, outermost first. All other header bytes (link header, VLAN tags, MPLS labels,
//! extension headers, VXLAN and Geneve headers) must be equal to merge and are copied to cut, so
//! they need no entry. A tunnel adds layers, and nothing else changes.

use super::header;
use super::link::LinkType;
use super::parse::Parser;
use core::ops::Range;

/// Layers of one packet: three VXLAN tunnels around TCP over IP take eight.
pub const MAX_LAYERS: usize = 8;
/// VLAN tags followed: one more than any standard stacks, so that a loop of tags is cut short.
pub const MAX_TAGS: usize = 4;
/// MPLS labels followed: transport, service and entropy labels of two domains.
pub const MAX_LABELS: usize = 8;
/// Tunnels followed: IP headers in a packet, less one. Deeper packets are [`Form::OtherTransport`].
pub const MAX_TUNNELS: usize = 3;
/// IPv6 extension headers followed: RFC 8200, section 4.1 names six kinds, one of them twice.
pub const MAX_EXTENSIONS: usize = 8;
/// Bytes before the payload in packets that are merged or cut: all plain headers with full TCP
/// options (14 + 16 + 40 + 60) plus 190 of extension or outer headers.
pub const MAX_HEADER_LEN: usize = 320;

/// Offsets of layers have 13 bits.
const MAX_OFFSET: usize = 0x1FFF;
/// Bits of a layer in the list, and layers in each of its words.
const LAYER_BITS: usize = 16;
const PER_WORD: usize = 4;
const _: () = assert!(MAX_LAYERS == 2 * PER_WORD && MAX_HEADER_LEN <= MAX_OFFSET);

/// A header with fields that change when packets are merged or cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LayerKind {
    /// IPv4: length, identification, checksum.
    Ipv4 = 1,
    /// IPv6 with its extension headers: payload length.
    Ipv6 = 2,
    /// TCP: sequence, PSH and FIN, checksum.
    Tcp = 3,
    /// UDP, alone or around a tunnel: length, checksum.
    Udp = 4,
    /// GRE with a checksum (RFC 2784); without, nothing of it changes.
    Gre = 5,
    /// PPPoE (RFC 2516): length.
    Pppoe = 6,
}

impl LayerKind {
    /// Whether it is one of the two IP versions.
    #[must_use]
    #[inline]
    pub fn is_ip(self) -> bool {
        matches!(self, Self::Ipv4 | Self::Ipv6)
    }
}

/// One layer and where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Which header.
    pub kind: LayerKind,
    /// Bytes from the start of the frame.
    pub offset: u16,
}

impl Layer {
    /// Where it starts.
    #[inline]
    pub(crate) fn at(self) -> usize {
        usize::from(self.offset)
    }

    #[inline(always)]
    fn unpack(word: u64) -> Option<Self> {
        let kind = match word >> 13 & 7 {
            1 => LayerKind::Ipv4,
            2 => LayerKind::Ipv6,
            3 => LayerKind::Tcp,
            4 => LayerKind::Udp,
            5 => LayerKind::Gre,
            6 => LayerKind::Pppoe,
            _ => return None,
        };
        Some(Self { kind, offset: (word & MAX_OFFSET as u64) as u16 })
    }
}

#[inline(always)]
fn pack(kind: LayerKind, offset: usize) -> u64 {
    (kind as u64) << 13 | offset as u64
}

/// How far the headers of a packet could be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// A whole TCP segment or UDP datagram.
    Datagram,
    /// As [`Form::Datagram`], in a tunnel packet that goes on behind it.
    Padded,
    /// One fragment of an IP datagram.
    Fragment,
    /// IP with another protocol than TCP and UDP, or in more tunnels than are followed.
    OtherTransport,
    /// Not IP.
    #[default]
    NotIp,
    /// IP whose length goes beyond the bytes present, as in captures with a snap length.
    CutShort,
    /// A header contradicts itself or the bytes present.
    Malformed,
}

/// Offsets of a packet's layers and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// 16 bits each, the outermost lowest: kind (3) and offset (13).
    layers: [u64; 2],
    /// End of the innermost IP datagram; what follows is padding or a trailer.
    pub(super) end: u32,
    /// End of all headers known.
    pub(super) payload: u16,
    count: u8,
    pub(super) form: Form,
    pub(super) protocol: u8,
}

impl Layout {
    /// Follows the headers of a frame. Any bytes give a layout; [`Layout::form`] says how far it
    /// came.
    #[must_use]
    #[inline]
    pub fn parse(link: LinkType, bytes: &[u8]) -> Self {
        Parser::parse(link, bytes)
    }

    /// [`Layout::parse`] for a frame of `frame_len` bytes whose first are `head`, and whose others
    /// lie elsewhere. All headers have to be in `head`; one that ends behind it is
    /// [`Form::Malformed`] or [`Form::CutShort`].
    #[must_use]
    pub fn parse_head(link: LinkType, head: &[u8], frame_len: usize) -> Self {
        Parser::parse_head(link, head, frame_len.max(head.len()))
    }

    /// A [`Form::Datagram`] of two layers, with its end and protocol number.
    #[inline(always)]
    pub(super) fn plain(
        network: (LayerKind, usize),
        transport: (LayerKind, usize),
        payload: usize,
        (end, protocol): (usize, u8),
    ) -> Self {
        Self {
            layers: [pack(network.0, network.1) | pack(transport.0, transport.1) << LAYER_BITS, 0],
            end: end as u32,
            payload: payload as u16,
            count: 2,
            form: Form::Datagram,
            protocol,
        }
    }

    /// How far the headers could be followed.
    #[must_use]
    #[inline]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The layers found, outermost first.
    #[inline]
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = Layer> + Clone + use<> {
        let this = *self;
        (0..usize::from(self.count)).filter_map(move |index| this.layer(index))
    }

    /// Number of layers.
    #[must_use]
    #[inline]
    pub fn layer_count(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether the same headers lie at the same places in both packets.
    #[must_use]
    #[inline]
    pub fn same_headers(&self, other: &Self) -> bool {
        self.layers == other.layers && self.payload == other.payload
    }

    /// A number that differs for most layouts with other headers at other places.
    #[inline]
    pub(super) fn arrangement(&self) -> u64 {
        let words = self.layers[0] ^ self.layers[1].rotate_left(32) ^ u64::from(self.payload) << 48;
        words.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60
    }

    /// Whether the same layers lie at the same places in both packets.
    #[must_use]
    #[inline]
    pub fn same_layers(&self, other: &Self) -> bool {
        self.layers == other.layers
    }

    /// Tunnels around the innermost IP header.
    #[must_use]
    pub fn tunnels(&self) -> usize {
        self.layers().filter(|layer| layer.kind.is_ip()).count().saturating_sub(1)
    }

    /// The innermost IP layer.
    #[must_use]
    #[inline]
    pub fn network(&self) -> Option<Layer> {
        let last = self.last()?;
        if last.kind.is_ip() {
            return Some(last);
        }
        // What is not IP stands behind IP, or alone (PPPoE).
        self.layer(self.layer_count().checked_sub(2)?).filter(|layer| layer.kind.is_ip())
    }

    /// The outermost IP layer.
    #[must_use]
    pub fn outer_network(&self) -> Option<Layer> {
        self.layers().find(|layer| layer.kind.is_ip())
    }

    /// The TCP or UDP layer of a [`Form::Datagram`]; of other forms, the last layer if it is one.
    #[must_use]
    #[inline]
    pub fn transport(&self) -> Option<Layer> {
        self.last().filter(|layer| matches!(layer.kind, LayerKind::Tcp | LayerKind::Udp))
    }

    /// Protocol number behind the innermost IP header and its extension headers.
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Bytes before the payload.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.payload)
    }

    /// The payload: behind all headers known, up to the end of the IP datagram.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> Range<usize> {
        usize::from(self.payload)..self.end as usize
    }

    /// End of the innermost IP datagram in the frame; bytes behind it are padding or a trailer.
    #[must_use]
    #[inline]
    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// The same headers where the payload in the packet's first buffer ends at `end`, and goes on
    /// in pieces.
    #[must_use]
    pub(crate) fn ending_at(self, end: usize) -> Self {
        Self { end: u32::try_from(end).unwrap_or(u32::MAX), ..self }
    }

    #[inline(always)]
    fn layer(&self, index: usize) -> Option<Layer> {
        Layer::unpack(self.layers.get(index / PER_WORD)? >> (index % PER_WORD * LAYER_BITS))
    }

    #[inline(always)]
    fn last(&self) -> Option<Layer> {
        self.layer(self.layer_count().checked_sub(1)?)
    }

    /// Adds a layer and moves the end of all headers known; false when there is no room or an
    /// offset does not fit.
    #[inline(always)]
    pub(super) fn push(&mut self, kind: LayerKind, offset: usize, payload: usize) -> bool {
        let index = usize::from(self.count);
        if offset > MAX_OFFSET || payload > usize::from(u16::MAX) || index >= MAX_LAYERS {
            return false;
        }
        self.layers[index / PER_WORD] |= pack(kind, offset) << (index % PER_WORD * LAYER_BITS);
        self.count += 1;
        self.payload = payload as u16;
        true
    }

    /// Offsets of all checksum fields over payload, innermost header first.
    pub fn checksum_fields(&self) -> impl Iterator<Item = usize> + use<> {
        self.layers().rev().filter_map(Self::checksum_field)
    }

    /// Offset of the checksum field of a layer of these bytes, if it has one.
    #[must_use]
    #[inline]
    pub fn checksum_field(layer: Layer) -> Option<usize> {
        let field = match layer.kind {
            LayerKind::Tcp => header::Tcp::CHECKSUM,
            LayerKind::Udp => header::Udp::CHECKSUM,
            LayerKind::Gre => header::GRE_CHECKSUM,
            _ => return None,
        };
        Some(layer.at() + field)
    }
}
