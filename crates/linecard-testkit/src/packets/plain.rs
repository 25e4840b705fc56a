//! The parse twin: a plain parser that reads one header after the other.

use super::frame::{TCP, UDP, be16};
use linecard::packet::{Form, LayerKind, LinkType, Meta, Packet};

/// Parsed properties of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub form: Form,
    /// Headers whose fields change when packets merge, and where they start; outermost first.
    pub layers: Vec<(LayerKind, usize)>,
    /// Offset of the innermost IP header, when its addresses could be read.
    pub ip: Option<usize>,
    pub v6: bool,
    /// Protocol behind the headers followed.
    pub protocol: u8,
    /// Offset of the TCP or UDP header of a whole datagram.
    pub transport: usize,
    pub payload: usize,
    /// End of the headers in the list; extension headers are none of it.
    pub headers: usize,
    /// End of the innermost IP datagram.
    pub end: usize,
    /// IP headers, those that are too many included.
    depth: usize,
    /// A header with a length has been read.
    measured: bool,
    /// Some datagram ends before the one around it.
    slack: bool,
}

impl View {
    pub fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    pub fn payload_len(&self) -> usize {
        self.end - self.payload
    }

    /// Whether it shows ports.
    pub fn is_datagram(&self) -> bool {
        matches!(self.form, Form::Datagram | Form::Padded)
    }

    /// Source and destination address of the innermost IP header.
    pub fn addresses<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        Some(addresses(frame, self.ip?, self.v6))
    }

    /// Offset of the transport checksum.
    pub fn field(&self) -> usize {
        self.transport + if self.is_tcp() { 16 } else { 6 }
    }

    /// Layers of a kind, outermost first.
    pub fn all(&self, kind: LayerKind) -> impl DoubleEndedIterator<Item = usize> {
        self.layers.iter().filter(move |layer| layer.0 == kind).map(|layer| layer.1)
    }

    /// The IP headers and whether each is of version 6, outermost first.
    pub fn networks(&self) -> impl DoubleEndedIterator<Item = (usize, bool)> {
        let ip = self.layers.iter().filter(|(kind, _)| is_ip(*kind));
        ip.map(|(kind, at)| (*at, *kind == LayerKind::Ipv6))
    }

    /// The IP header before `at`.
    pub fn network_before(&self, at: usize) -> (usize, bool) {
        self.networks().take_while(|(ip, _)| *ip < at).last().expect("behind IP")
    }

    /// Enters a header into the list; eight are the most, within the first 8 KiB.
    fn push(&mut self, kind: LayerKind, at: usize, end: usize) -> bool {
        let room = self.layers.len() < 8 && at < 8192;
        if room {
            self.layers.push((kind, at));
            self.headers = end;
        }
        room
    }

    /// Enters an IP header; four are the most.
    fn push_ip(&mut self, kind: LayerKind, at: usize, end: usize, protocol: u8) -> bool {
        self.depth += 1;
        if self.depth > 4 || !self.push(kind, at, end) {
            return false;
        }
        (self.ip, self.v6, self.protocol) = (Some(at), kind == LayerKind::Ipv6, protocol);
        true
    }

    /// A header says that what it is part of ends at `end`.
    fn ends<'a>(&mut self, bytes: &'a [u8], end: usize) -> Result<&'a [u8], Form> {
        if end > bytes.len() {
            return Err(self.missing());
        }
        // Behind the outermost there may be padding; inside of another, all has to be filled.
        self.slack |= self.measured && end < bytes.len();
        self.measured = true;
        self.end = end;
        Ok(&bytes[..end])
    }

    /// Bytes are missing: the capture's fault if the outermost header says so.
    fn missing(&self) -> Form {
        if self.measured { Form::Malformed } else { Form::CutShort }
    }

    /// Unknown headers: not IP, or behind IP.
    fn unknown(&self) -> Form {
        if self.depth == 0 { Form::NotIp } else { Form::OtherTransport }
    }
}

pub fn is_ip(kind: LayerKind) -> bool {
    matches!(kind, LayerKind::Ipv4 | LayerKind::Ipv6)
}

pub fn addresses(frame: &[u8], ip: usize, v6: bool) -> &[u8] {
    if v6 { &frame[ip + 8..ip + 40] } else { &frame[ip + 12..ip + 20] }
}

pub fn view(link: LinkType, frame: &[u8]) -> View {
    let mut view = View {
        form: Form::NotIp,
        layers: Vec::new(),
        ip: None,
        v6: false,
        protocol: 0,
        transport: 0,
        payload: 0,
        headers: 0,
        end: frame.len(),
        depth: 0,
        measured: false,
        slack: false,
    };
    if let Some((kind, at)) = network(link, frame) {
        view.form = behind(&mut view, frame, kind, at);
    }
    view
}

/// EtherType and start of the bytes behind the link header.
fn network(link: LinkType, frame: &[u8]) -> Option<(u16, usize)> {
    match link {
        LinkType::Ethernet => tags(frame, 12),
        LinkType::LinuxSll => tags(frame, 14),
        LinkType::LinuxSll2 => match frame {
            [0x81, 0, ..] | [0x88, 0xA8, ..] | [0x91, 0, ..] => tags(frame, 22),
            [high, low, ..] => Some((u16::from_be_bytes([*high, *low]), 20)),
            _ => None,
        },
        LinkType::Loopback => match frame {
            [2, 0, 0, 0, ..] | [0, 0, 0, 2, ..] => Some((0x0800, 4)),
            [24 | 28 | 30 | 10, 0, 0, 0, ..] | [0, 0, 0, 24 | 28 | 30 | 10, ..] => {
                Some((0x86DD, 4))
            }
            _ => None,
        },
        LinkType::Raw => match frame.first()? >> 4 {
            4 => Some((0x0800, 0)),
            6 => Some((0x86DD, 0)),
            _ => None,
        },
        LinkType::Other => None,
    }
}

/// The type behind at most four VLAN tags, the first type standing at `at`.
fn tags(frame: &[u8], mut at: usize) -> Option<(u16, usize)> {
    let mut tags = 0;
    loop {
        if frame.len() < at + 2 {
            return None;
        }
        match be16(frame, at) {
            0x8100 | 0x88A8 | 0x9100 if tags < 4 => tags += 1,
            0x8100 | 0x88A8 | 0x9100 => return None,
            kind => return Some((kind, at + 2)),
        }
        at += 4;
    }
}

/// The header at `at`, by EtherType. `bytes` ends where the header around says it does.
fn behind(view: &mut View, bytes: &[u8], kind: u16, at: usize) -> Form {
    match kind {
        0x0800 => ipv4(view, bytes, at),
        0x86DD => ipv6(view, bytes, at),
        0x8847 | 0x8848 => mpls(view, bytes, at),
        0x8864 => pppoe(view, bytes, at),
        _ => view.unknown(),
    }
}

/// The same inside a tunnel, where it may be an Ethernet frame.
fn inside(view: &mut View, bytes: &[u8], kind: u16, at: usize) -> Form {
    if kind != 0x6558 {
        return behind(view, bytes, kind, at);
    }
    match tags(bytes, at + 12) {
        Some((kind, at)) => behind(view, bytes, kind, at),
        None => Form::OtherTransport,
    }
}

/// RFC 791, section 3.1.
fn ipv4(view: &mut View, bytes: &[u8], ip: usize) -> Form {
    if bytes.len() < ip + 20 {
        return view.missing();
    }
    let header_len = usize::from(bytes[ip] & 15) * 4;
    if bytes[ip] >> 4 != 4 || header_len < 20 {
        return Form::Malformed;
    }
    if bytes.len() < ip + header_len {
        return view.missing();
    }
    if !view.push_ip(LayerKind::Ipv4, ip, ip + header_len, bytes[ip + 9]) {
        return Form::OtherTransport;
    }
    let mut total = usize::from(be16(bytes, ip + 2));
    // BIG TCP: a length that has no room in its field is 0.
    if total == 0 && !view.measured && bytes.len() - ip > 65_535 {
        total = bytes.len() - ip;
    }
    if total < header_len {
        return Form::Malformed;
    }
    match view.ends(bytes, ip + total) {
        Err(form) => form,
        Ok(_) if be16(bytes, ip + 6) & 0x3FFF != 0 => Form::Fragment,
        Ok(datagram) => transport(view, datagram, ip + header_len),
    }
}

/// RFC 8200, section 3 and 4.
fn ipv6(view: &mut View, bytes: &[u8], ip: usize) -> Form {
    if bytes.len() < ip + 40 {
        return view.missing();
    }
    if bytes[ip] >> 4 != 6 {
        return Form::Malformed;
    }
    let protocol = bytes[ip + 6];
    if !view.push_ip(LayerKind::Ipv6, ip, ip + 40, protocol) {
        return Form::OtherTransport;
    }
    let mut total = 40 + usize::from(be16(bytes, ip + 4));
    if total == 40 && protocol == TCP && !view.measured && bytes.len() - ip - 40 > 65_535 {
        total = bytes.len() - ip;
    }
    let datagram = match view.ends(bytes, ip + total) {
        Ok(datagram) => datagram,
        Err(form) => return form,
    };
    let mut at = ip + 40;
    // A header chain longer than eight is not followed.
    for _ in 0..=8 {
        if view.protocol == 44 {
            return Form::Fragment;
        }
        if ![0, 43, 60].contains(&view.protocol) {
            return transport(view, datagram, at);
        }
        // An extension header that does not lie in the datagram contradicts the bytes present.
        if datagram.len() < at + 4 {
            return Form::Malformed;
        }
        let next = at + (usize::from(datagram[at + 1]) + 1) * 8;
        if datagram.len() < next {
            return Form::Malformed;
        }
        // With segments left the final destination, which the checksum covers, is not the header's.
        if view.protocol == 43 && datagram[at + 3] != 0 {
            return Form::OtherTransport;
        }
        view.protocol = datagram[at];
        at = next;
    }
    Form::OtherTransport
}

/// The header at `at`, by protocol number.
fn transport(view: &mut View, datagram: &[u8], at: usize) -> Form {
    let left = datagram.len() - at;
    match view.protocol {
        4 => behind(view, datagram, 0x0800, at),
        41 => behind(view, datagram, 0x86DD, at),
        47 => gre(view, datagram, at),
        137 => behind(view, datagram, 0x8847, at),
        TCP if left >= 20 => {
            let header_len = usize::from(datagram[at + 12] >> 4) * 4;
            if header_len < 20 || header_len > left {
                return Form::Malformed;
            }
            end_of_headers(view, LayerKind::Tcp, at, at + header_len)
        }
        UDP if left >= 8 && usize::from(be16(datagram, at + 4)) == left => udp(view, datagram, at),
        TCP | UDP => Form::Malformed,
        _ => Form::OtherTransport,
    }
}

fn end_of_headers(view: &mut View, kind: LayerKind, at: usize, payload: usize) -> Form {
    if !view.push(kind, at, payload) {
        return Form::OtherTransport;
    }
    (view.transport, view.payload) = (at, payload);
    if view.slack { Form::Padded } else { Form::Datagram }
}

/// UDP is the end, unless its destination port is that of a tunnel and its header is complete.
fn udp(view: &mut View, datagram: &[u8], at: usize) -> Form {
    let form = end_of_headers(view, LayerKind::Udp, at, at + 8);
    let (inner, left) = (at + 8, datagram.len() - at - 8);
    if form != Form::Datagram {
        return form;
    }
    match be16(datagram, at + 2) {
        // It ends within its tunnel's header: the rest is unknown.
        4789 | 8472 | 6081 if left < 8 => Form::OtherTransport,
        // RFC 7348, section 5: the I flag, all other flags and the last byte zero.
        4789 | 8472 => match datagram[inner..inner + 8] {
            [8, 0, _, _, _, _, _, 0] => inside(view, datagram, 0x6558, inner + 8),
            _ => form,
        },
        // RFC 8926, section 3.4: version 0, no control packet.
        6081 if datagram[inner] < 64 && datagram[inner + 1] < 128 => {
            let end = inner + 8 + usize::from(datagram[inner]) * 4;
            if end > datagram.len() {
                return Form::OtherTransport;
            }
            inside(view, datagram, be16(datagram, inner + 2), end)
        }
        // RFC 7510.
        6635 => mpls(view, datagram, inner),
        _ => form,
    }
}

/// RFC 2784 and RFC 2890, without the sequence number.
fn gre(view: &mut View, datagram: &[u8], at: usize) -> Form {
    if datagram.len() < at + 4 {
        return Form::Malformed;
    }
    let (checksum, key) = (datagram[at] & 0x80 != 0, datagram[at] & 0x20 != 0);
    if datagram[at] & !0xA0 != 0 || datagram[at + 1] != 0 {
        return Form::OtherTransport;
    }
    let end = at + 4 + 4 * usize::from(checksum) + 4 * usize::from(key);
    if datagram.len() < end {
        return Form::Malformed;
    }
    if checksum && !view.push(LayerKind::Gre, at, end) {
        return Form::OtherTransport;
    }
    inside(view, datagram, be16(datagram, at + 2), end)
}

/// RFC 3032: at most eight labels, the last marked; the version tells the next protocol.
fn mpls(view: &mut View, bytes: &[u8], at: usize) -> Form {
    for label in 0..8 {
        let next = at + 4 * label + 4;
        if bytes.len() < next {
            break;
        }
        if bytes[next - 2] & 1 == 1 {
            return match bytes.get(next).map(|first| first >> 4) {
                Some(4) => ipv4(view, bytes, next),
                Some(6) => ipv6(view, bytes, next),
                _ => view.unknown(),
            };
        }
    }
    view.unknown()
}

/// RFC 2516, section 4: version and type 1, a session's packet; PPP's protocol is IP (RFC 1332,
/// RFC 5072).
fn pppoe(view: &mut View, bytes: &[u8], at: usize) -> Form {
    if bytes.len() < at + 8 || bytes[at..at + 2] != [0x11, 0] {
        return view.unknown();
    }
    let kind = match be16(bytes, at + 6) {
        0x0021 => 0x0800,
        0x0057 => 0x86DD,
        _ => return view.unknown(),
    };
    if !view.push(LayerKind::Pppoe, at, at + 8) {
        return view.unknown();
    }
    let len = usize::from(be16(bytes, at + 4));
    if len < 2 {
        return Form::Malformed;
    }
    match view.ends(bytes, at + 6 + len) {
        Ok(bytes) => behind(view, bytes, kind, at + 8),
        Err(form) => form,
    }
}

/// The definition of "the same flow": link header with tags, and of every header what does not
/// change from packet to packet: addresses, flow label, next header, extension headers, ports,
/// labels, keys. None for frames that show no ports.
pub fn flow_key(frame: &[u8], view: &View, lane: u32) -> Option<Vec<u8>> {
    if !view.is_datagram() {
        return None;
    }
    let mut key = lane.to_be_bytes().to_vec();
    key.extend(view.layers[0].1.to_be_bytes());
    let mut done = 0;
    for (kind, at) in &view.layers {
        let layer = &frame[*at..];
        key.extend(&frame[done..*at]);
        key.push(*kind as u8);
        let (kept, len) = match kind {
            // Options are left out: they come and go.
            LayerKind::Ipv4 => (layer[9..10].to_vec(), usize::from(layer[0] & 15) * 4),
            // The class lies across the first two bytes.
            LayerKind::Ipv6 => (vec![layer[1] & 15, layer[2], layer[3], layer[6]], 40),
            LayerKind::Tcp | LayerKind::Udp => (layer[..4].to_vec(), 8),
            LayerKind::Gre => (layer[..4].to_vec(), 6),
            LayerKind::Pppoe => (layer[..4].to_vec(), 6),
        };
        key.extend(kept);
        if is_ip(*kind) {
            key.extend(addresses(frame, *at, *kind == LayerKind::Ipv6));
        }
        done = at + len;
    }
    Some(key)
}

/// The ends of a frame: its lane, and pairs of addresses from the outermost IP header to the
/// innermost it shows. Empty when there is no IP.
pub fn ends(frame: &[u8], view: &View, lane: u32) -> Vec<Vec<u8>> {
    let pair = |(ip, v6)| [&lane.to_be_bytes(), addresses(frame, ip, v6)].concat();
    view.networks().map(pair).collect()
}

/// Whether TCP or UDP may be behind this protocol number: not behind ICMP, for example.
pub fn is_carrier(protocol: u8) -> bool {
    [TCP, UDP, 0, 43, 44, 60, 4, 41, 47, 137].contains(&protocol)
}

/// The parser's layout against the plain one.
pub fn same_layout(link: LinkType, bytes: &[u8]) {
    let packet = Packet::new(bytes, link, Meta::default());
    let (layout, view) = (packet.layout(), view(link, bytes));
    assert_eq!(layout.form(), view.form, "{link:?} {bytes:02x?}");
    assert_eq!(layout.network().map(|layer| usize::from(layer.offset)), view.ip, "{bytes:02x?}");
    assert!(layout.header_len() <= layout.end() && layout.end() <= bytes.len());
    let layers: Vec<_> = layout.layers().map(|l| (l.kind, usize::from(l.offset))).collect();
    assert_eq!(layers, view.layers, "{bytes:02x?}");
    assert_eq!((layout.protocol(), layout.end()), (view.protocol, view.end), "{bytes:02x?}");
    assert_eq!(layout.header_len(), view.headers, "{bytes:02x?}");
    if view.is_datagram() {
        let kind = if view.is_tcp() { LayerKind::Tcp } else { LayerKind::Udp };
        let transport = layout.transport().expect("a datagram has one");
        assert_eq!((transport.kind, usize::from(transport.offset)), (kind, view.transport));
        assert_eq!(layout.payload(), view.payload..view.end);
        assert_eq!(layout.checksum_offset(), Some(view.field()));
    }
}
