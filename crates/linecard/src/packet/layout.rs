//! A packet's headers as offsets, parsed once at their first use.
//!
//! A layout is the list of those headers whose fields change when packets are merged or segmented:
//! the *layers*, outermost first. All other header bytes (link header, VLAN tags, MPLS labels,
//! extension headers, VXLAN and Geneve headers) must be equal to merge and are copied to segment,
//! so they need no entry. A tunnel only adds layers.

use super::header;
use core::num::NonZeroU64;
use core::ops::Range;

/// Layers of one packet: three VXLAN tunnels around TCP over IP take eight.
pub const MAX_LAYERS: usize = 8;
/// MPLS labels followed: transport, service and entropy labels of two domains.
pub const MAX_LABELS: usize = 8;
/// Tunnels followed: IP headers in a packet, less one. Deeper packets are [`Form::OtherTransport`].
pub const MAX_TUNNELS: usize = 3;
/// IPv6 extension headers followed: RFC 8200, section 4.1 names six kinds, one of them twice.
pub const MAX_EXTENSIONS: usize = 8;
/// Header bytes of packets that are merged or segmented: all plain headers with full TCP options
/// (14 + 16 + 40 + 60) plus 190 of extension or outer headers.
pub const MAX_HEADER_LEN: usize = 320;

/// Offsets of layers have 13 bits.
const MAX_OFFSET: usize = 0x1FFF;
/// Bits of a layer in the list, and layers in each of its words.
const LAYER_BITS: usize = 16;
const PER_WORD: usize = 4;
const _: () = assert!(MAX_LAYERS == 2 * PER_WORD && MAX_HEADER_LEN <= MAX_OFFSET);

/// A header with fields that change when packets are merged or segmented.
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
    /// GRE with a checksum (RFC 2784); without one, none of its fields changes.
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
    /// Its offset as an index.
    #[must_use]
    #[inline]
    pub fn at(self) -> usize {
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
#[repr(u8)]
pub enum Form {
    /// Not IP.
    #[default]
    NotIp = 0,
    /// A whole TCP segment or UDP datagram.
    Datagram = 1,
    /// As [`Form::Datagram`], inside a tunnel packet with further bytes after it.
    Padded = 2,
    /// One fragment of an IP datagram.
    Fragment = 3,
    /// IP with a protocol other than TCP and UDP, or in more tunnels than are followed.
    OtherTransport = 4,
    /// IP whose length exceeds the bytes present, as in captures with a snap length.
    CutShort = 5,
    /// A header contradicts itself or the bytes present.
    Malformed = 6,
}

/// Offsets of a packet's layers and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Layers of 16 bits each, the outermost lowest: kind (3) and offset (13).
    outer: u64,
    /// The layers after the first four.
    inner: u64,
    /// The rest in one word, so that a layout is copied and compared as three words; lowest first:
    /// end of the innermost IP datagram (32 bits), end of all known headers (16), protocol (8),
    /// number of layers (4), form (3), and a bit that is always set, so that `Option<Layout>` has
    /// the same size.
    rest: NonZeroU64,
}

const PAYLOAD: u32 = 32;
const PROTOCOL: u32 = 48;
const COUNT: u32 = 56;
const FORM: u32 = 60;
const FORMS: u64 = 7;
const THERE: NonZeroU64 = NonZeroU64::new(1 << 63).expect("a bit is set");

impl Default for Layout {
    /// The layout of a frame without any known header.
    fn default() -> Self {
        Self::from_words(0, 0, THERE)
    }
}

impl Layout {
    /// A [`Form::Datagram`] of two layers, with its end and protocol number.
    #[inline(always)]
    pub(super) fn plain(
        network: (LayerKind, usize),
        transport: (LayerKind, usize),
        payload: usize,
        (end, protocol): (usize, u8),
    ) -> Self {
        Self {
            outer: pack(network.0, network.1) | pack(transport.0, transport.1) << LAYER_BITS,
            inner: 0,
            rest: THERE
                | end as u64
                | (payload as u64) << PAYLOAD
                | u64::from(protocol) << PROTOCOL
                | 2 << COUNT
                | (Form::Datagram as u64) << FORM,
        }
    }

    #[inline(always)]
    pub(super) fn words(self) -> (u64, u64, NonZeroU64) {
        (self.outer, self.inner, self.rest)
    }

    #[inline(always)]
    pub(super) fn from_words(outer: u64, inner: u64, rest: NonZeroU64) -> Self {
        Self { outer, inner, rest }
    }

    #[inline(always)]
    fn rest(&self) -> u64 {
        self.rest.get()
    }

    /// How far the headers could be followed.
    #[must_use]
    #[inline]
    pub fn form(&self) -> Form {
        match self.rest() >> FORM & FORMS {
            0 => Form::NotIp,
            1 => Form::Datagram,
            2 => Form::Padded,
            3 => Form::Fragment,
            4 => Form::OtherTransport,
            5 => Form::CutShort,
            _ => Form::Malformed,
        }
    }

    /// The layers found, outermost first.
    #[inline]
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = Layer> + Clone + use<> {
        let this = *self;
        (0..self.layer_count()).filter_map(move |index| this.layer(index))
    }

    /// Number of layers.
    #[must_use]
    #[inline]
    pub fn layer_count(&self) -> usize {
        (self.rest() >> COUNT & 0xF) as usize
    }

    /// Whether both packets have the same headers at the same offsets.
    #[must_use]
    #[inline]
    pub fn same_headers(&self, other: &Self) -> bool {
        self.same_layers(other) && (self.rest() ^ other.rest()) >> PAYLOAD & 0xFFFF == 0
    }

    /// A number that differs for most layouts with other headers or offsets.
    #[inline]
    pub(super) fn arrangement(&self) -> u64 {
        let words = self.outer ^ self.inner.rotate_left(32) ^ (self.header_len() as u64) << 48;
        words.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60
    }

    /// Whether both packets have the same layers at the same offsets.
    #[must_use]
    #[inline]
    pub fn same_layers(&self, other: &Self) -> bool {
        (self.outer, self.inner) == (other.outer, other.inner)
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
        let last = self.layer_count().checked_sub(1)?;
        let innermost = |index| self.layer(index).filter(|layer| layer.kind.is_ip());
        // Usually followed directly by a transport header. Other headers may be inside of it if
        // something else is amiss.
        let near = innermost(last).or_else(|| innermost(last.checked_sub(1)?));
        near.or_else(|| (0..last).rev().find_map(innermost))
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
        (self.rest() >> PROTOCOL) as u8
    }

    /// Bytes before the payload.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        (self.rest() >> PAYLOAD) as usize & 0xFFFF
    }

    /// The payload: from the end of all known headers to the end of the IP datagram.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> Range<usize> {
        self.header_len()..self.end()
    }

    /// Whether it is a [`Form::Datagram`] outside of tunnels that carries no data.
    #[inline(always)]
    pub(crate) fn has_no_payload(&self) -> bool {
        let is_plain = self.rest() >> COUNT & 0x7F == 2 | (Form::Datagram as u64) << (FORM - COUNT);
        is_plain & (self.payload_len() == 0)
    }

    /// Bytes of the payload, of which there are less than 4 GiB.
    #[inline(always)]
    pub(crate) fn payload_len(&self) -> u32 {
        (self.rest() as u32).wrapping_sub(self.header_len() as u32)
    }

    /// End of the innermost IP datagram in the frame; later bytes are padding or a trailer.
    #[must_use]
    #[inline]
    pub fn end(&self) -> usize {
        self.rest() as u32 as usize
    }

    /// The same headers with payload that ends at `end` in the packet's first buffer, and continues
    /// in pieces.
    #[must_use]
    pub(crate) fn ending_at(self, end: usize) -> Self {
        let mut layout = self;
        layout.set_end(end);
        layout
    }

    /// Whether the layout alone shows that the only IP header has no options, as that of most packets: the
    /// transport header begins where it ends.
    #[inline(always)]
    pub(crate) fn has_no_ip_options(&self) -> bool {
        let offset = |layer: usize| self.outer >> (layer * LAYER_BITS) & MAX_OFFSET as u64;
        let is_ipv6 = self.outer >> 13 & 7 == LayerKind::Ipv6 as u64;
        self.layer_count() == 2 && (is_ipv6 || offset(1) - offset(0) == header::Ipv4::LEN as u64)
    }

    /// The IP header of a packet that has no other headers than those of most packets: TCP or UDP right behind IP
    /// without options or extension headers.
    #[inline(always)]
    pub(super) fn usual_network(&self) -> Option<Layer> {
        self.usual_network_in(Form::Datagram)
    }

    /// The same, of a packet of this form.
    #[inline(always)]
    pub(super) fn usual_network_in(&self, form: Form) -> Option<Layer> {
        let is_pair = self.rest() >> COUNT & 0x7F == 2 | (form as u64) << (FORM - COUNT);
        let network = Layer::unpack(self.outer).filter(|_| is_pair)?;
        let len = match network.kind {
            LayerKind::Ipv4 => header::Ipv4::LEN,
            LayerKind::Ipv6 => header::Ipv6::LEN,
            _ => return None,
        };
        let offset = |layer: usize| self.outer >> (layer * LAYER_BITS) & MAX_OFFSET as u64;
        (offset(1) - offset(0) == len as u64).then_some(network)
    }

    /// IP and transport layer of such a packet.
    #[inline(always)]
    pub(crate) fn usual_layers(&self) -> Option<(Layer, Layer)> {
        self.usual_network().zip(self.layer(1))
    }

    /// Offset of the ports of a TCP segment or UDP datagram, and whether it is TCP, without a branch; anything of other
    /// packets.
    #[inline(always)]
    pub(crate) fn ports(&self) -> (usize, bool) {
        let index = self.layer_count().wrapping_sub(1) % MAX_LAYERS;
        let word = if index < PER_WORD { self.outer } else { self.inner };
        let layer = word >> (index % PER_WORD * LAYER_BITS);
        ((layer & MAX_OFFSET as u64) as usize, layer >> 13 & 7 == LayerKind::Tcp as u64)
    }

    /// The layer with `index` before it.
    #[inline(always)]
    pub(crate) fn layer(&self, index: usize) -> Option<Layer> {
        let word = if index < PER_WORD { self.outer } else { self.inner };
        Layer::unpack(word >> (index % PER_WORD * LAYER_BITS))
    }

    #[inline(always)]
    fn last(&self) -> Option<Layer> {
        self.layer(self.layer_count().checked_sub(1)?)
    }

    /// Adds a layer and moves the end of all known headers; false if the layout is full or an offset
    /// does not fit.
    #[inline(always)]
    pub(super) fn push(&mut self, kind: LayerKind, offset: usize, payload: usize) -> bool {
        let index = self.layer_count();
        if offset > MAX_OFFSET || payload > usize::from(u16::MAX) || index >= MAX_LAYERS {
            return false;
        }
        let word = if index < PER_WORD { &mut self.outer } else { &mut self.inner };
        *word |= pack(kind, offset) << (index % PER_WORD * LAYER_BITS);
        let rest = (self.rest() + (1 << COUNT)) & !(0xFFFF << PAYLOAD);
        self.rest = THERE | rest | (payload as u64) << PAYLOAD;
        true
    }

    pub(super) fn set_form(&mut self, form: Form) {
        self.rest = THERE | self.rest() & !(FORMS << FORM) | (form as u64) << FORM;
    }

    pub(super) fn set_protocol(&mut self, protocol: u8) {
        self.rest = THERE | self.rest() & !(0xFF << PROTOCOL) | u64::from(protocol) << PROTOCOL;
    }

    pub(super) fn set_end(&mut self, end: usize) {
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        self.rest = THERE | self.rest() & !0xFFFF_FFFF | u64::from(end);
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
