//! The parser: follows headers from the link layer to the innermost TCP or UDP header.
//!
//! Bounds: [`MAX_TAGS`](link::MAX_TAGS), [`MAX_LABELS`], [`MAX_TUNNELS`], [`MAX_EXTENSIONS`] and
//! [`MAX_LAYERS`](super::MAX_LAYERS); nothing recurses.

use super::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Tcp, Udp, be16, protocol};
use super::layout::{Form, LayerKind, Layout, MAX_EXTENSIONS, MAX_LABELS, MAX_TUNNELS};
use super::link::{self, LinkType, ethertype};
use core::hint::select_unpredictable;

/// Bytes of tunnel headers.
const LABEL_LEN: usize = 4;
/// VXLAN's, and Geneve's without options.
const TUNNEL_LEN: usize = 8;
const ETHERNET_LEN: usize = 14;

/// UDP destination ports of tunnels: RFC 7348, and Linux's default from before it; RFC 8926;
/// RFC 7510.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;
const MPLS_PORT: u16 = 6635;

/// The part that follows a header.
enum Next {
    /// A header of this EtherType at this offset.
    Header(u16, usize),
    /// No header that is followed.
    End(Form),
}

use Next::{End, Header};

impl Layout {
    /// Parses the headers of a frame. Any bytes give a layout; [`Layout::form`] tells how far
    /// parsing came.
    #[must_use]
    #[inline]
    pub fn parse(link: LinkType, bytes: &[u8]) -> Self {
        Parser::parse(link, bytes)
    }

    /// [`Layout::parse`] for a frame of `frame_len` bytes that starts with `head` and continues
    /// elsewhere. All headers have to be in `head`; a header that exceeds it makes the frame
    /// [`Form::Malformed`] or [`Form::CutShort`]. Of a datagram to the UDP port of a tunnel, also the 8
    /// bytes behind its header, which may be the tunnel's; otherwise it is [`Form::OtherTransport`].
    #[must_use]
    pub fn parse_head(link: LinkType, head: &[u8], frame_len: usize) -> Self {
        Parser::parse_head(link, head, frame_len.max(head.len()))
    }
}

/// The fast path for plain frames: Ethernet or none, IP without options or extension headers, TCP or
/// UDP. None for all others and for malformed frames.
#[inline(always)]
fn plain(link: LinkType, bytes: &[u8]) -> Option<Layout> {
    let plain = match link {
        LinkType::Ethernet => match be16(bytes, ETHERNET_LEN - 2)? {
            ethertype::IPV4 => plain_ipv4::<ETHERNET_LEN>(bytes),
            ethertype::IPV6 => plain_ipv6::<ETHERNET_LEN>(bytes),
            _ => None,
        },
        LinkType::Raw => match bytes.first()? >> 4 {
            4 => plain_ipv4::<0>(bytes),
            6 => plain_ipv6::<0>(bytes),
            _ => None,
        },
        _ => None,
    };
    plain.map(|plain| plain.layout())
}

/// Fields of the headers of a plain frame.
pub(super) struct Plain {
    network: (LayerKind, usize),
    transport: (LayerKind, usize),
    /// Start and end.
    payload: (usize, usize),
    protocol: u8,
    /// TCP's; none of UDP.
    pub(super) flags: u16,
}

impl Plain {
    #[inline(always)]
    pub(super) fn layout(&self) -> Layout {
        let (start, end) = self.payload;
        Layout::plain(self.network, self.transport, start, (end, self.protocol))
    }

    /// Bytes of payload.
    #[inline(always)]
    pub(super) fn payload_len(&self) -> usize {
        self.payload.1 - self.payload.0
    }
}

#[inline(always)]
pub(super) fn plain_ipv4<const AT: usize>(bytes: &[u8]) -> Option<Plain> {
    let ip = header::get::<Ipv4>(bytes, AT)?;
    let plain = ip.version_ihl == 0x45 && !ip.is_fragment();
    let end = AT + usize::from(ip.total_len);
    if !plain || end > bytes.len() {
        return None;
    }
    plain_transport((bytes, end, AT), LayerKind::Ipv4, AT + Ipv4::LEN, ip.protocol)
}

#[inline(always)]
pub(super) fn plain_ipv6<const AT: usize>(bytes: &[u8]) -> Option<Plain> {
    let ip = header::get::<Ipv6>(bytes, AT)?;
    let plain = ip.version_class_label >> 28 == 6 && ip.payload_len != 0;
    let end = AT + Ipv6::LEN + usize::from(ip.payload_len);
    if !plain || end > bytes.len() {
        return None;
    }
    plain_transport((bytes, end, AT), LayerKind::Ipv6, AT + Ipv6::LEN, ip.next_header)
}

/// TCP and UDP are told apart without a branch, which could hardly be predicted.
#[inline(always)]
fn plain_transport(
    (bytes, end, at): (&[u8], usize, usize),
    network: LayerKind,
    offset: usize,
    protocol: u8,
) -> Option<Plain> {
    // With a UDP header, the bytes of the longer TCP header are at hand in all but the shortest frames.
    let header = bytes.get(offset..)?.first_chunk::<{ Tcp::LEN }>()?;
    let (tcp, udp) = (header::at::<Tcp>(header, 0), header::at::<Udp>(header, 0));
    let is_tcp = protocol == protocol::TCP;
    let header_len = select_unpredictable(is_tcp, tcp.header_len(), Udp::LEN);
    let is_whole = offset + usize::from(udp.length) == end;
    let is_udp = (protocol == protocol::UDP) & is_whole & !is_tunnel(udp.destination);
    let payload = offset + header_len;
    let fits = (payload <= end) & (header_len >= Udp::LEN);
    let is_plain = (is_tcp & (header_len >= Tcp::LEN) | is_udp) & fits;
    let kind = select_unpredictable(is_tcp, LayerKind::Tcp, LayerKind::Udp);
    let flags = tcp.offset_flags & select_unpredictable(is_tcp, 0x01FF, 0);
    is_plain.then_some(Plain {
        network: (network, at),
        transport: (kind, offset),
        payload: (payload, end),
        protocol,
        flags,
    })
}

/// The state of one parse.
struct Parser<'a> {
    /// The frame, or its first bytes.
    bytes: &'a [u8],
    /// Bytes of the whole frame.
    len: usize,
    layout: Layout,
    /// The end of the packet according to the innermost header with a length.
    bound: usize,
    /// IP headers so far.
    depth: usize,
    /// Some datagram ends before the one around it.
    slack: bool,
    /// The bound comes from a header, not from the bytes present.
    inside: bool,
}

impl<'a> Parser<'a> {
    #[inline(always)]
    fn parse(link: LinkType, bytes: &'a [u8]) -> Layout {
        // Word by word, so that the common case stays in registers: copying the layout as a whole
        // would go through memory and stall on its parts.
        let (outer, inner, rest) = match plain(link, bytes) {
            Some(layout) => layout.words(),
            None => Self::parse_head(link, bytes, bytes.len()).words(),
        };
        Layout::from_words(outer, inner, rest)
    }

    /// Parses a frame of `len` bytes of which `bytes` are the first.
    #[inline(never)]
    fn parse_head(link: LinkType, bytes: &'a [u8], len: usize) -> Layout {
        let mut layout = Layout::default();
        layout.set_end(len);
        let bound = layout.end();
        let mut parser =
            Parser { bytes, len, layout, bound, depth: 0, slack: false, inside: false };
        let form = match link.network(bytes) {
            Some((kind, offset)) => parser.follow(kind, offset),
            None => Form::NotIp,
        };
        parser.layout.set_form(form);
        parser.layout
    }

    fn follow(&mut self, mut kind: u16, mut offset: usize) -> Form {
        // Each iteration adds a layer or reads labels, both of which are bounded.
        loop {
            let next = match kind {
                ethertype::IPV4 => self.ipv4(offset),
                ethertype::IPV6 => self.ipv6(offset),
                ethertype::PPPOE => self.pppoe(offset),
                ethertype::MPLS | ethertype::MPLS_UPSTREAM => self.mpls(offset),
                _ => End(self.unknown()),
            };
            match next {
                Header(k, o) => (kind, offset) = (k, o),
                End(form) => return form,
            }
        }
    }

    /// The form of a packet whose innermost header is unknown.
    fn unknown(&self) -> Form {
        if self.depth == 0 { Form::NotIp } else { Form::OtherTransport }
    }

    fn ipv4(&mut self, offset: usize) -> Next {
        let Some(ip) = header::get::<Ipv4>(self.bytes, offset) else { return End(self.cut()) };
        let (header_len, mut total) = (ip.header_len(), usize::from(ip.total_len));
        if ip.version_ihl >> 4 != 4 || header_len < Ipv4::LEN {
            return End(Form::Malformed);
        }
        if self.datagram_bytes().len() < offset + header_len {
            return End(self.cut());
        }
        let (fragment, inner) = (ip.is_fragment(), ip.protocol);
        if total == 0 {
            total = self.beyond_16_bits(offset);
        }
        // Addresses are known from here on, whatever the length says, so flows between them have to
        // wait.
        if !self.enter(LayerKind::Ipv4, offset, offset + header_len) {
            return End(Form::OtherTransport);
        }
        self.layout.set_protocol(inner);
        if total < header_len {
            return End(Form::Malformed);
        }
        match self.ends_at(offset + total) {
            Err(form) => End(form),
            Ok(()) if fragment => End(Form::Fragment),
            Ok(()) => self.transport(offset + header_len),
        }
    }

    fn ipv6(&mut self, offset: usize) -> Next {
        let Some(ip) = header::get::<Ipv6>(self.datagram_bytes(), offset) else {
            return End(self.cut());
        };
        if ip.version_class_label >> 28 != 6 {
            return End(Form::Malformed);
        }
        let (mut total, inner) = (Ipv6::LEN + usize::from(ip.payload_len), ip.next_header);
        if total == Ipv6::LEN && inner == protocol::TCP {
            total += self.beyond_16_bits(offset + Ipv6::LEN);
        }
        if !self.enter(LayerKind::Ipv6, offset, offset + Ipv6::LEN) {
            return End(Form::OtherTransport);
        }
        self.layout.set_protocol(inner);
        if let Err(form) = self.ends_at(offset + total) {
            return End(form);
        }
        if matches!(inner, protocol::TCP | protocol::UDP) {
            return self.transport(offset + Ipv6::LEN);
        }
        match self.extensions(offset + Ipv6::LEN) {
            Ok(transport) => self.transport(transport),
            Err(form) => End(form),
        }
    }

    /// Adds an IP layer if there is room.
    fn enter(&mut self, kind: LayerKind, offset: usize, end: usize) -> bool {
        self.depth += 1;
        self.depth <= MAX_TUNNELS + 1 && self.layout.push(kind, offset, end)
    }

    /// The length of an outermost IP packet, from `offset` on, whose length field is 0 because the
    /// length does not fit ("BIG TCP" in Linux).
    fn beyond_16_bits(&self, offset: usize) -> usize {
        let len = self.len - offset;
        if self.inside || len <= usize::from(u16::MAX) { 0 } else { len }
    }

    /// Checks the end of an IP datagram against that of the datagram around it.
    fn ends_at(&mut self, end: usize) -> Result<(), Form> {
        if self.bound < end {
            return Err(self.cut());
        }
        self.slack |= self.inside && end != self.bound;
        self.bound = end;
        self.inside = true;
        self.layout.set_end(end);
        Ok(())
    }

    /// The form of a packet with missing bytes: in the capture, or in the packet around it.
    fn cut(&self) -> Form {
        if self.inside { Form::Malformed } else { Form::CutShort }
    }

    /// Follows extension headers (RFC 8200, section 4) to the transport header.
    fn extensions(&mut self, mut offset: usize) -> Result<usize, Form> {
        let datagram = self.datagram_bytes();
        for _ in 0..=MAX_EXTENSIONS {
            match self.layout.protocol() {
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
            if self.layout.protocol() == protocol::ROUTING && *segments_left > 0 {
                return Err(Form::OtherTransport);
            }
            self.layout.set_protocol(*next);
            offset = end;
        }
        Err(Form::OtherTransport)
    }

    /// The part that follows an IP header.
    fn transport(&mut self, offset: usize) -> Next {
        match self.layout.protocol() {
            protocol::TCP => End(self.tcp(offset)),
            protocol::UDP => self.udp(offset),
            number => self.tunnel(number, offset),
        }
    }

    fn tcp(&mut self, offset: usize) -> Form {
        let datagram = self.datagram_bytes();
        let Some(tcp) = header::get::<Tcp>(datagram, offset) else { return Form::Malformed };
        let payload = offset + tcp.header_len();
        if tcp.header_len() < Tcp::LEN || payload > datagram.len() {
            return Form::Malformed;
        }
        self.datagram(LayerKind::Tcp, offset, payload)
    }

    fn udp(&mut self, offset: usize) -> Next {
        let datagram = self.datagram_bytes();
        let Some(udp) = header::get::<Udp>(datagram, offset) else { return End(Form::Malformed) };
        if offset + usize::from(udp.length) != self.bound {
            return End(Form::Malformed);
        }
        let port = udp.destination;
        let form = self.datagram(LayerKind::Udp, offset, offset + Udp::LEN);
        if form != Form::Datagram || !is_tunnel(port) {
            return End(form);
        }
        self.udp_tunnel(port, offset + Udp::LEN).unwrap_or(End(form))
    }

    fn datagram(&mut self, kind: LayerKind, offset: usize, payload: usize) -> Form {
        if !self.layout.push(kind, offset, payload) {
            Form::OtherTransport
        } else if self.slack {
            Form::Padded
        } else {
            Form::Datagram
        }
    }

    /// IP in IP (RFC 2003, 2473, 4213), MPLS in IP (RFC 4023), GRE.
    fn tunnel(&mut self, number: u8, offset: usize) -> Next {
        match number {
            protocol::IPV4 => Header(ethertype::IPV4, offset),
            protocol::IPV6 => Header(ethertype::IPV6, offset),
            protocol::MPLS => Header(ethertype::MPLS, offset),
            protocol::GRE => self.gre(offset),
            _ => End(Form::OtherTransport),
        }
    }

    /// GRE (RFC 2784) with an optional key (RFC 2890). Tunnels with sequence numbers, which differ
    /// from packet to packet, are not followed.
    fn gre(&mut self, offset: usize) -> Next {
        let Some(flags) = be16(self.datagram_bytes(), offset) else { return End(Form::Malformed) };
        let Some(kind) = be16(self.datagram_bytes(), offset + 2) else {
            return End(Form::Malformed);
        };
        if flags & !(header::GRE_HAS_CHECKSUM | header::GRE_HAS_KEY) != 0 {
            return End(Form::OtherTransport);
        }
        let has = |flag| if flags & flag == 0 { 0 } else { 4 };
        let end = offset + 4 + has(header::GRE_HAS_CHECKSUM) + has(header::GRE_HAS_KEY);
        if end > self.datagram_bytes().len() {
            return End(Form::Malformed);
        }
        let summed = flags & header::GRE_HAS_CHECKSUM != 0;
        if summed && !self.layout.push(LayerKind::Gre, offset, end) {
            return End(Form::OtherTransport);
        }
        self.inner(kind, end)
    }

    /// The contents of a UDP tunnel; none if the datagram does not match its port. A datagram, or the
    /// head of one, that ends within the tunnel's header is not followed: merged with another, it
    /// would look complete.
    fn udp_tunnel(&mut self, port: u16, offset: usize) -> Option<Next> {
        if port == MPLS_PORT {
            return Some(Header(ethertype::MPLS, offset));
        }
        let bytes = self.datagram_bytes();
        // A truncated tunnel header is not a plain datagram: merged with others, it would look like
        // a tunnel.
        let Some(header) = bytes.get(offset..).and_then(<[u8]>::first_chunk::<TUNNEL_LEN>) else {
            return Some(End(Form::OtherTransport));
        };
        let [first, second, third, fourth, .., last] = *header;
        if VXLAN_PORTS.contains(&port) {
            // RFC 7348, section 5: the I flag set, all reserved bits zero.
            let valid = (first, second, last) == (8, 0, 0);
            return valid.then(|| self.inner(ethertype::BRIDGING, offset + TUNNEL_LEN));
        }
        // RFC 8926, section 3.4: version, length of options in words; no control packet.
        if first >> 6 != 0 || second & 0x80 != 0 {
            return None;
        }
        let end = offset + TUNNEL_LEN + usize::from(first & 0x3F) * 4;
        if end > bytes.len() {
            return Some(End(Form::OtherTransport));
        }
        Some(self.inner(u16::from_be_bytes([third, fourth]), end))
    }

    /// A header after a tunnel's own, which may be an Ethernet frame.
    fn inner(&mut self, kind: u16, offset: usize) -> Next {
        if kind != ethertype::BRIDGING {
            return Header(kind, offset);
        }
        match link::tagged(self.datagram_bytes(), offset + ETHERNET_LEN - 2) {
            Some((kind, offset)) => Header(kind, offset),
            None => End(Form::OtherTransport),
        }
    }

    /// A PPPoE session packet (RFC 2516, section 4) with IP inside (RFC 1332, 5072).
    fn pppoe(&mut self, offset: usize) -> Next {
        let bytes = self.datagram_bytes();
        let (Some(0x1100), Some(len), Some(ppp)) = (
            be16(bytes, offset),
            be16(bytes, offset + PPPOE_LENGTH),
            be16(bytes, offset + PPPOE_LEN),
        ) else {
            return End(self.unknown());
        };
        let kind = match ppp {
            0x0021 => ethertype::IPV4,
            0x0057 => ethertype::IPV6,
            _ => return End(self.unknown()),
        };
        if !self.layout.push(LayerKind::Pppoe, offset, offset + PPPOE_LEN + 2) {
            return End(self.unknown());
        }
        // The length includes the protocol field.
        if len < 2 {
            return End(Form::Malformed);
        }
        match self.ends_at(offset + PPPOE_LEN + usize::from(len)) {
            Ok(()) => Header(kind, offset + PPPOE_LEN + 2),
            Err(form) => End(form),
        }
    }

    /// A stack of MPLS labels (RFC 3032); the header after the last is recognised by its version.
    fn mpls(&mut self, mut offset: usize) -> Next {
        let bytes = self.datagram_bytes();
        for _ in 0..MAX_LABELS {
            let Some([_, _, bottom, _]) = bytes.get(offset..offset + LABEL_LEN) else {
                return End(self.unknown());
            };
            offset += LABEL_LEN;
            if bottom & 1 != 0 {
                return match bytes.get(offset).map(|first| first >> 4) {
                    Some(4) => Header(ethertype::IPV4, offset),
                    Some(6) => Header(ethertype::IPV6, offset),
                    _ => End(self.unknown()),
                };
            }
        }
        End(self.unknown())
    }

    /// The bytes present of the innermost datagram and everything before it.
    fn datagram_bytes(&self) -> &'a [u8] {
        &self.bytes[..self.bound.min(self.bytes.len())]
    }
}

#[inline(always)]
pub(crate) fn is_tunnel(port: u16) -> bool {
    VXLAN_PORTS.contains(&port) || port == GENEVE_PORT || port == MPLS_PORT
}
