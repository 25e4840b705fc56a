//! A packet's headers as offsets: parsed once, at the port.
//!
//! A layout is the list of those headers whose fields change when packets are merged or cut:
//! the *layers*, outermost first. All other header bytes (link header, VLAN tags, extension
//! headers) must be equal to merge and are copied to cut, so they need no entry. The list leaves
//! room for outer headers: a tunnel adds layers, and nothing else changes.

use super::header::{self, Ipv4, Ipv6, Tcp, Udp, protocol};
use super::link::{LinkType, Version};
use core::ops::Range;

/// Layers of one packet: room for two tunnels around TCP over IP.
pub const MAX_LAYERS: usize = 6;
/// VLAN tags followed: one more than any standard stacks, so that a loop of tags is cut short.
pub const MAX_TAGS: usize = 4;
/// IPv6 extension headers followed: RFC 8200, section 4.1 names six kinds, one of them twice.
pub const MAX_EXTENSIONS: usize = 8;
/// Bytes before the payload in packets that are merged or cut: all plain headers with full TCP
/// options (14 + 16 + 40 + 60) plus 190 of extension or outer headers.
pub const MAX_HEADER_LEN: usize = 320;

/// A header with fields that change when packets are merged or cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayerKind {
    /// IPv4: length, identification, checksum.
    #[default]
    Ipv4,
    /// IPv6 with its extension headers: payload length.
    Ipv6,
    /// TCP: sequence, PSH and FIN, checksum.
    Tcp,
    /// UDP: length, checksum.
    Udp,
}

/// One layer and where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layer {
    /// Which header.
    pub kind: LayerKind,
    /// Bytes from the start of the frame.
    pub offset: u16,
}

/// How far the headers of a packet could be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// A whole TCP segment or UDP datagram.
    Datagram,
    /// One fragment of an IP datagram.
    Fragment,
    /// IP with another protocol than TCP and UDP.
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
    layers: [Layer; MAX_LAYERS],
    count: u8,
    form: Form,
    protocol: u8,
    /// End of all headers known.
    payload: u16,
    /// End of the IP datagram; what follows is padding or a trailer.
    end: u32,
}

impl Layout {
    /// Follows the headers of a frame. Any bytes give a layout; [`Layout::form`] says how far it
    /// came. Frames whose headers reach beyond 65,535 bytes are [`Form::Malformed`].
    #[must_use]
    #[inline(always)]
    pub fn parse(link: LinkType, bytes: &[u8]) -> Self {
        let mut layout =
            Self { end: u32::try_from(bytes.len()).unwrap_or(u32::MAX), ..Self::default() };
        layout.form = match link.network(bytes) {
            None => Form::NotIp,
            Some((offset, Version::V4)) => layout.ipv4(bytes, offset),
            Some((offset, Version::V6)) => layout.ipv6(bytes, offset),
        };
        layout
    }

    /// How far the headers could be followed.
    #[must_use]
    #[inline]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The layers found, outermost first.
    #[must_use]
    #[inline]
    pub fn layers(&self) -> &[Layer] {
        &self.layers[..usize::from(self.count)]
    }

    /// The innermost IP layer.
    #[must_use]
    #[inline]
    pub fn network(&self) -> Option<Layer> {
        let (last, before) = self.layers().split_last()?;
        match last.kind {
            LayerKind::Ipv4 | LayerKind::Ipv6 => Some(*last),
            // TCP and UDP stand behind IP.
            LayerKind::Tcp | LayerKind::Udp => before.last().copied(),
        }
    }

    /// The TCP or UDP layer of a [`Form::Datagram`].
    #[must_use]
    #[inline]
    pub fn transport(&self) -> Option<Layer> {
        let transport = |layer: &&Layer| matches!(layer.kind, LayerKind::Tcp | LayerKind::Udp);
        self.layers().last().filter(transport).copied()
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

    /// End of the IP datagram in the frame; bytes behind it are padding or a trailer.
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
    fn ipv4(&mut self, bytes: &[u8], offset: usize) -> Form {
        let Some(ip) = header::get::<Ipv4>(bytes, offset) else { return Form::CutShort };
        let (header_len, total) = (ip.header_len(), usize::from(ip.total_len.get()));
        if ip.version_ihl >> 4 != 4 || header_len < Ipv4::LEN {
            return Form::Malformed;
        }
        if bytes.len() < offset + header_len {
            return Form::CutShort;
        }
        self.protocol = ip.protocol;
        let fragment = ip.is_fragment();
        // Addresses are known from here on, whatever the length says: flows between them wait.
        if !self.push(LayerKind::Ipv4, offset, offset + header_len) || total < header_len {
            return Form::Malformed;
        }
        if bytes.len() < offset + total {
            return Form::CutShort;
        }
        self.end = (offset + total) as u32;
        if fragment { Form::Fragment } else { self.transport_at(bytes, offset + header_len) }
    }

    #[inline(always)]
    fn ipv6(&mut self, bytes: &[u8], offset: usize) -> Form {
        let Some(ip) = header::get::<Ipv6>(bytes, offset) else { return Form::CutShort };
        if ip.version_class_label.get() >> 28 != 6 {
            return Form::Malformed;
        }
        self.protocol = ip.next_header;
        let end = offset + Ipv6::LEN + usize::from(ip.payload_len.get());
        if !self.push(LayerKind::Ipv6, offset, offset + Ipv6::LEN) {
            return Form::Malformed;
        }
        if bytes.len() < end {
            return Form::CutShort;
        }
        self.end = end as u32;
        match self.extensions(&bytes[..end], offset + Ipv6::LEN) {
            Ok(transport) => self.transport_at(bytes, transport),
            Err(form) => form,
        }
    }

    /// Follows extension headers (RFC 8200, section 4) to the transport header.
    fn extensions(&mut self, datagram: &[u8], mut offset: usize) -> Result<usize, Form> {
        for _ in 0..=MAX_EXTENSIONS {
            match self.protocol {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => {}
                protocol::FRAGMENT => return Err(Form::Fragment),
                _ => return Ok(offset),
            }
            let Some([next, units, _, segments_left]) = datagram.get(offset..offset + 4) else {
                return Err(Form::Malformed);
            };
            let end = offset + (usize::from(*units) + 1) * 8;
            if end > datagram.len() {
                return Err(Form::Malformed);
            }
            // The transport checksum covers the final destination, which is not in the header as
            // long as segments are left (RFC 8200, section 8.1).
            if self.protocol == protocol::ROUTING && *segments_left > 0 {
                return Err(Form::OtherTransport);
            }
            (self.protocol, offset) = (*next, end);
        }
        Err(Form::OtherTransport)
    }

    #[inline(always)]
    fn transport_at(&mut self, bytes: &[u8], offset: usize) -> Form {
        let datagram = &bytes[..self.end()];
        let (kind, header_len) = match self.protocol {
            protocol::TCP => match header::get::<Tcp>(datagram, offset) {
                Some(tcp) if tcp.header_len() >= Tcp::LEN => (LayerKind::Tcp, tcp.header_len()),
                _ => return Form::Malformed,
            },
            protocol::UDP => match header::get::<Udp>(datagram, offset) {
                Some(udp) if offset + usize::from(udp.length.get()) == datagram.len() => {
                    (LayerKind::Udp, Udp::LEN)
                }
                _ => return Form::Malformed,
            },
            _ => return Form::OtherTransport,
        };
        let payload = offset + header_len;
        if payload > datagram.len() || !self.push(kind, offset, payload) {
            return Form::Malformed;
        }
        Form::Datagram
    }

    /// Adds a layer; false when there is no room or an offset does not fit.
    #[inline(always)]
    fn push(&mut self, kind: LayerKind, offset: usize, payload: usize) -> bool {
        let (Ok(offset), Ok(payload)) = (u16::try_from(offset), u16::try_from(payload)) else {
            return false;
        };
        let Some(place) = self.layers.get_mut(usize::from(self.count)) else { return false };
        *place = Layer { kind, offset };
        self.count += 1;
        self.payload = payload;
        true
    }
}
