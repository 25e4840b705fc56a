//! Frames built field by field, checksums by the obvious sum, tunnels as a list around the inside.
//!
//! It shares no code with the crates: an error there must not hide in what they are shown.

pub(crate) const FIN: u16 = 0x001;
pub(crate) const SYN: u16 = 0x002;
pub(crate) const RST: u16 = 0x004;
pub(crate) const PSH: u16 = 0x008;
pub(crate) const ACK: u16 = 0x010;
pub(crate) const URG: u16 = 0x020;
pub(crate) const ECE: u16 = 0x040;
pub(crate) const CWR: u16 = 0x080;
pub(crate) const AE: u16 = 0x100;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP: u8 = 1;

/// "Don't fragment" and "more fragments" of IPv4.
pub(crate) const DF: u16 = 0x4000;
pub(crate) const MF: u16 = 0x2000;

/// The content of a checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Good,
    Bad,
    /// The first two payload bytes make the checksum compute to 0.
    ComputesToZero,
    /// As before, and the field holds 0xFFFF: right, and not what a TCP sender writes.
    Ones,
    /// UDP without a checksum.
    None,
}

/// An IP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) v6: bool,
    /// Last bytes of source and destination.
    pub(crate) ends: (u8, u8),
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    pub(crate) flags_fragment: u16,
    pub(crate) label: u32,
    pub(crate) options: Vec<u8>,
    /// Kind, and the bytes behind its "next header" byte.
    pub(crate) extensions: Vec<(u8, Vec<u8>)>,
    pub(crate) good: bool,
}

impl Default for Ip {
    fn default() -> Self {
        Self {
            v6: false,
            ends: (1, 2),
            tos: 0,
            ttl: 64,
            id: 0,
            flags_fragment: DF,
            label: 0x1_2345,
            options: Vec::new(),
            extensions: Vec::new(),
            good: true,
        }
    }
}

/// The headers between an outer IP header and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tunnel {
    Ip,
    Gre,
    /// UDP (with or without a checksum), VXLAN and an Ethernet header.
    Vxlan {
        checksum: bool,
    },
    Geneve {
        checksum: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Type and TCI of each VLAN tag.
    pub(crate) tags: Vec<[u8; 4]>,
    /// Number of the PPPoE session (RFC 2516) that carries it, if one does.
    pub(crate) session: Option<u16>,
    /// Last byte of the source address of the link.
    pub(crate) mac: u8,
    /// Outermost first.
    pub(crate) outer: Vec<(Ip, Tunnel)>,
    pub(crate) ip: Ip,
    pub(crate) protocol: u8,
    pub(crate) ports: (u16, u16),
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    /// Reserved bits and flags, 12 bits.
    pub(crate) flags: u16,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) field: Field,
    /// Bytes that follow the datagram in its frame.
    pub(crate) behind: Vec<u8>,
    /// Zeros behind it up to 60 bytes of frame.
    pub(crate) padded: bool,
    /// Bytes kept of the whole.
    pub(crate) keep: usize,
}

/// TCP over IPv4 with 100 bytes.
impl Default for Frame {
    fn default() -> Self {
        Self {
            tags: Vec::new(),
            session: None,
            mac: 1,
            outer: Vec::new(),
            ip: Ip::default(),
            protocol: TCP,
            ports: (1000, 2000),
            sequence: 1,
            acknowledgment: 7,
            flags: ACK,
            window: 500,
            urgent: 0,
            options: Vec::new(),
            payload: content(0, 100),
            field: Field::Good,
            behind: Vec::new(),
            padded: false,
            keep: usize::MAX,
        }
    }
}

/// Payload that tells packets of a case apart.
pub(crate) fn content(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 3 + index * 37 + 11) as u8).collect()
}

impl Frame {
    /// The `index`th packet of a transfer with `len` bytes in each.
    pub(crate) fn bulk(index: usize, len: usize) -> Self {
        let ip = Ip { id: 100_u16.wrapping_add(index as u16), ..Ip::default() };
        let sequence = 1_u32.wrapping_add((index * len) as u32);
        Self { ip, sequence, payload: content(index, len), ..Self::default() }
    }

    /// Link, network and transport header, payload and the bytes behind it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut inside = self.transport();
        let mut protocol = self.protocol;
        inside = self.ip.wrap(protocol, inside);
        let mut v6 = self.ip.v6;
        for (ip, tunnel) in self.outer.iter().rev() {
            (protocol, inside) = tunnel.wrap(ip, v6, inside);
            inside = ip.wrap(protocol, inside);
            v6 = ip.v6;
        }
        let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, self.mac];
        bytes.extend(self.tags.concat());
        match self.session {
            Some(session) => bytes.extend(pppoe(session, v6, inside.len())),
            None => bytes.extend(ethertype(v6)),
        }
        bytes.extend(inside);
        bytes.extend(&self.behind);
        if self.padded {
            bytes.resize(bytes.len().max(60), 0);
        }
        bytes.truncate(self.keep);
        bytes
    }

    pub(crate) fn transport_header_len(&self) -> usize {
        match self.protocol {
            TCP => 20 + self.options.len(),
            UDP => 8,
            _ => 0,
        }
    }

    /// The sum over the pseudo header for a transport header with payload of `len` bytes.
    pub(crate) fn pseudo_sum(&self, len: usize) -> u16 {
        sum16(&self.ip.pseudo(self.protocol, len))
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(80 + self.payload.len());
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        let field = match self.protocol {
            TCP => {
                bytes.extend(self.sequence.to_be_bytes());
                bytes.extend(self.acknowledgment.to_be_bytes());
                let offset = (20 + self.options.len()) as u16 / 4 * 0x1000;
                bytes.extend((offset | self.flags).to_be_bytes());
                bytes.extend(self.window.to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(self.urgent.to_be_bytes());
                bytes.extend(&self.options);
                16
            }
            UDP => {
                bytes.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                bytes.extend([0, 0]);
                6
            }
            _ => return self.payload.clone(),
        };
        let payload = bytes.len();
        bytes.extend(&self.payload);
        if matches!(self.field, Field::ComputesToZero | Field::Ones) {
            bytes[payload..payload + 2].fill(0);
            let rest = !self.ip.transport_sum(self.protocol, &bytes);
            bytes[payload..payload + 2].copy_from_slice(&rest.to_be_bytes());
        }
        let right = match (!self.ip.transport_sum(self.protocol, &bytes), self.protocol) {
            (0, UDP) => 0xFFFF,
            (checksum, _) => checksum,
        };
        let value = match self.field {
            Field::Good | Field::ComputesToZero => right,
            Field::Bad => right ^ 0x0400,
            Field::Ones => 0xFFFF,
            Field::None => 0,
        };
        bytes[field..field + 2].copy_from_slice(&value.to_be_bytes());
        bytes
    }
}

fn ethertype(v6: bool) -> [u8; 2] {
    if v6 { [0x86, 0xDD] } else { [8, 0] }
}

/// Ethernet type, and header with the PPP protocol number.
fn pppoe(session: u16, v6: bool, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x88, 0x64, 0x11, 0];
    bytes.extend(session.to_be_bytes());
    bytes.extend((len as u16 + 2).to_be_bytes());
    bytes.extend(if v6 { [0, 0x57] } else { [0, 0x21] });
    bytes
}

impl Ip {
    fn wrap(&self, protocol: u8, inside: Vec<u8>) -> Vec<u8> {
        let mut bytes = if self.v6 {
            self.ipv6(protocol, inside.len())
        } else {
            self.ipv4(protocol, inside.len())
        };
        bytes.extend(inside);
        bytes
    }

    fn ipv4(&self, protocol: u8, len: usize) -> Vec<u8> {
        let header_len = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header_len / 4) as u8, self.tos];
        bytes.extend(((header_len + len) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.flags_fragment.to_be_bytes());
        bytes.extend([self.ttl, protocol, 0, 0]);
        bytes.extend(self.addresses());
        bytes.extend(&self.options);
        let checksum = !sum16(&bytes) ^ if self.good { 0 } else { 0x0100 };
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn ipv6(&self, protocol: u8, len: usize) -> Vec<u8> {
        let word = 6 << 28 | u32::from(self.tos) << 20 | self.label & 0xF_FFFF;
        let extensions: usize = self.extensions.iter().map(|(_, body)| body.len() + 1).sum();
        let mut kinds: Vec<u8> = self.extensions.iter().map(|(kind, _)| *kind).collect();
        kinds.push(protocol);
        let mut bytes = word.to_be_bytes().to_vec();
        bytes.extend(((extensions + len) as u16).to_be_bytes());
        bytes.extend([kinds[0], self.ttl]);
        bytes.extend(self.addresses());
        for ((_, body), next) in self.extensions.iter().zip(&kinds[1..]) {
            bytes.push(*next);
            bytes.extend(body);
        }
        bytes
    }

    /// Source and destination as they lie in the header: documentation addresses.
    fn addresses(&self) -> Vec<u8> {
        let one = |last: u8| {
            if self.v6 {
                vec![0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
            } else {
                vec![192, 0, 2, last]
            }
        };
        [one(self.ends.0), one(self.ends.1)].concat()
    }

    /// The sum over pseudo header and datagram.
    fn transport_sum(&self, protocol: u8, transport: &[u8]) -> u16 {
        let mut bytes = self.pseudo(protocol, transport.len());
        bytes.extend(transport);
        sum16(&bytes)
    }

    /// RFC 9293, section 3.1; RFC 8200, section 8.1.
    fn pseudo(&self, protocol: u8, len: usize) -> Vec<u8> {
        let mut bytes = self.addresses();
        bytes.extend((len as u32).to_be_bytes());
        bytes.extend([0, 0, 0, protocol]);
        bytes
    }
}

impl Tunnel {
    /// The protocol number behind the outer IP header, and what stands there.
    fn wrap(self, outer: &Ip, v6: bool, inside: Vec<u8>) -> (u8, Vec<u8>) {
        match self {
            Self::Ip => (if v6 { 41 } else { 4 }, inside),
            Self::Gre => (47, [&[0, 0], &ethertype(v6)[..], &inside].concat()),
            Self::Vxlan { checksum } => {
                let mut body = vec![8, 0, 0, 0, 0, 0, 5, 0, 2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 7];
                body.extend(ethertype(v6));
                body.extend(inside);
                (UDP, datagram(outer, 4789, checksum, &body))
            }
            Self::Geneve { checksum } => {
                let mut body = vec![0, 0];
                body.extend(ethertype(v6));
                body.extend([0, 0, 5, 0]);
                body.extend(inside);
                (UDP, datagram(outer, 6081, checksum, &body))
            }
        }
    }
}

fn datagram(ip: &Ip, port: u16, checksum: bool, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xC0, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend(((8 + body.len()) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(body);
    if checksum {
        let sum = match !ip.transport_sum(UDP, &bytes) {
            0 => 0xFFFF,
            sum => sum,
        };
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// The sum of 16-bit words in ones' complement, the plain way.
pub(crate) fn sum16(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}
