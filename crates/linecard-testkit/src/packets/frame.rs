//! Frames built field by field, with plain checksums.

use super::ip::Ip;
use super::tunnel::{self, Carried, Wrap};
use linecard::packet::LinkType;

pub const FIN: u16 = 0x001;
pub const SYN: u16 = 0x002;
pub const RST: u16 = 0x004;
pub const PSH: u16 = 0x008;
pub const ACK: u16 = 0x010;
pub const URG: u16 = 0x020;
pub const ECE: u16 = 0x040;
pub const CWR: u16 = 0x080;
pub const AE: u16 = 0x100;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// Content of the transport checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The checksum that a sender computes.
    Good,
    /// The first payload bytes are chosen so that the checksum computes to 0.
    ComputesToZero,
    /// As before, and the field holds 0xFFFF: valid, for TCP not canonical.
    Ones,
    /// One bit is wrong.
    Bad,
    /// UDP without a checksum.
    None,
    /// The sum of the pseudo header, not complemented.
    Partial,
}

/// Content of the IPv4 header checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpField {
    Good,
    Bad,
    /// The identification is chosen so that the checksum computes to 0; the field holds 0.
    Zero,
    /// As before, and the field holds 0xFFFF.
    Ones,
}

/// Bytes behind the IP datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behind {
    Nothing,
    /// Zeros up to 60 bytes, for frames shorter than that.
    Padding,
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone)]
pub struct Frame {
    pub link: LinkType,
    /// Type and TCI of each VLAN tag.
    pub tags: Vec<[u8; 4]>,
    pub mac: u8,
    /// Tunnels around the datagram, outermost header first.
    pub tunnel: Vec<Wrap>,
    pub v6: bool,
    pub source: u8,
    pub destination: u8,
    pub tos: u8,
    pub ttl: u8,
    pub id: u16,
    pub flags_fragment: u16,
    pub label: u32,
    pub ip_options: Vec<u8>,
    /// Kind, and the bytes behind its "next header" byte.
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub protocol: u8,
    pub ports: (u16, u16),
    pub sequence: u32,
    pub acknowledgment: u32,
    /// Reserved bits and flags, 12 bits.
    pub flags: u16,
    pub window: u16,
    pub urgent: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub field: Field,
    pub ip_field: IpField,
    pub behind: Behind,
    /// Bytes kept, as with a snap length.
    pub keep: usize,
    /// The whole frame, whatever else is said.
    pub raw: Option<Vec<u8>>,
}

/// TCP over IPv4 over Ethernet with 4 bytes of payload that differ by sequence number.
impl Default for Frame {
    fn default() -> Self {
        Self {
            link: LinkType::Ethernet,
            tags: Vec::new(),
            mac: 1,
            tunnel: Vec::new(),
            v6: false,
            source: 1,
            destination: 2,
            tos: 0,
            ttl: 64,
            id: 0,
            flags_fragment: 0x4000,
            label: 0x1_2345,
            ip_options: Vec::new(),
            extensions: Vec::new(),
            protocol: TCP,
            ports: (1000, 2000),
            sequence: 1,
            acknowledgment: 7,
            flags: ACK,
            window: 500,
            urgent: 0,
            options: Vec::new(),
            payload: vec![0xA5; 100],
            field: Field::Good,
            ip_field: IpField::Good,
            behind: Behind::Nothing,
            keep: usize::MAX,
            raw: None,
        }
    }
}

impl Frame {
    /// The `index`th packet of a bulk transfer with `len` bytes in each.
    pub fn bulk(index: usize, len: usize) -> Self {
        Self {
            id: index as u16,
            sequence: 1 + (index * len) as u32,
            payload: (0..len).map(|at| (at + index * 7) as u8).collect(),
            ..Self::default()
        }
    }

    pub fn udp(index: usize, len: usize) -> Self {
        Self { protocol: UDP, ..Self::bulk(index, len) }
    }

    pub fn bytes(&self) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let ip = self.ip();
        let transport = self.transport();
        let header = ip.header(self.protocol, transport.len());
        let mut bytes = self.around([header, transport].concat());
        match &self.behind {
            Behind::Nothing => {}
            Behind::Padding => bytes.resize(bytes.len().max(60), 0),
            Behind::Bytes(more) => bytes.extend(more),
        }
        bytes.truncate(self.keep);
        bytes
    }

    /// A datagram of this version behind the headers of tunnels and link.
    pub fn around(&self, datagram: Vec<u8>) -> Vec<u8> {
        let kind = Carried::EtherType(if self.v6 { 0x86DD } else { 0x0800 });
        let wrapped = self
            .tunnel
            .iter()
            .rev()
            .fold((datagram, kind), |(inner, carried), wrap| wrap.around(&inner, carried));
        let mut bytes = self.link_header(tunnel::ether_type(wrapped.1));
        bytes.extend(wrapped.0);
        bytes
    }

    fn ip(&self) -> Ip {
        Ip {
            v6: self.v6,
            source: self.source,
            destination: self.destination,
            tos: self.tos,
            ttl: self.ttl,
            id: self.id,
            flags_fragment: self.flags_fragment,
            label: self.label,
            options: self.ip_options.clone(),
            extensions: self.extensions.clone(),
            field: self.ip_field,
        }
    }

    /// The link header of a packet of this EtherType.
    fn link_header(&self, kind: u16) -> Vec<u8> {
        let v6 = kind == 0x86DD;
        let kind = kind.to_be_bytes();
        let mut bytes = Vec::with_capacity(2048);
        match self.link {
            LinkType::Ethernet => {
                bytes.extend([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, self.mac]);
                bytes.extend(self.tags.concat());
                bytes.extend(kind);
            }
            LinkType::LinuxSll => {
                bytes.extend([0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, self.mac, 0, 0]);
                bytes.extend(self.tags.concat());
                bytes.extend(kind);
            }
            LinkType::LinuxSll2 => {
                // The type of the first tag comes first, the rest of it behind the header.
                let types = [&self.tags.concat()[..], &kind].concat();
                bytes.extend(&types[..2]);
                bytes.extend([0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, self.mac, 0, 0]);
                bytes.extend(&types[2..]);
            }
            LinkType::Loopback => {
                let family = match (v6, self.mac % 4) {
                    (false, _) => 2_u32,
                    (true, kind) => [24, 28, 30, 10][usize::from(kind)],
                };
                let little = self.mac.is_multiple_of(2);
                bytes.extend(if little { family.to_le_bytes() } else { family.to_be_bytes() });
            }
            LinkType::Raw | LinkType::Other => {}
        }
        bytes
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(80 + self.payload.len());
        let field = match self.protocol {
            TCP => {
                let header_len = 20 + self.options.len();
                bytes.extend(self.ports.0.to_be_bytes());
                bytes.extend(self.ports.1.to_be_bytes());
                bytes.extend(self.sequence.to_be_bytes());
                bytes.extend(self.acknowledgment.to_be_bytes());
                let offset = (header_len / 4) as u16 * 0x1000;
                bytes.extend((offset | self.flags).to_be_bytes());
                bytes.extend(self.window.to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(self.urgent.to_be_bytes());
                bytes.extend(&self.options);
                16
            }
            UDP => {
                bytes.extend(self.ports.0.to_be_bytes());
                bytes.extend(self.ports.1.to_be_bytes());
                bytes.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                bytes.extend([0, 0]);
                6
            }
            _ => {
                bytes.extend(&self.payload);
                return bytes;
            }
        };
        let payload = bytes.len();
        bytes.extend(&self.payload);
        let crafted = matches!(self.field, Field::ComputesToZero | Field::Ones);
        if crafted && self.payload.len() >= 2 {
            bytes[payload..payload + 2].fill(0);
            let rest = !self.full_sum(&bytes);
            bytes[payload..payload + 2].copy_from_slice(&rest.to_be_bytes());
        }
        let right = match (!self.full_sum(&bytes), self.protocol) {
            (0, UDP) => 0xFFFF,
            (checksum, _) => checksum,
        };
        let value = match self.field {
            Field::Good | Field::ComputesToZero => right,
            Field::Ones if self.payload.len() >= 2 => 0xFFFF,
            Field::Ones => right,
            // Never 0, which would mean "no checksum" in UDP.
            Field::Bad if right == 0x0400 => 0x0800,
            Field::Bad => right ^ 0x0400,
            Field::None => 0,
            Field::Partial => sum16(&self.pseudo(bytes.len())),
        };
        bytes[field..field + 2].copy_from_slice(&value.to_be_bytes());
        bytes
    }

    fn full_sum(&self, transport: &[u8]) -> u16 {
        add16(sum16(&self.pseudo(transport.len())), sum16(transport))
    }

    fn pseudo(&self, len: usize) -> Vec<u8> {
        pseudo(&self.ip().addresses(), self.protocol, len)
    }
}

/// The pseudo header of TCP and UDP (RFC 9293, section 3.1; RFC 8200, section 8.1).
pub fn pseudo(addresses: &[u8], protocol: u8, len: usize) -> Vec<u8> {
    let mut bytes = addresses.to_vec();
    bytes.extend((len as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes
}

/// The sum of 16-bit words in ones' complement, the plain way.
pub fn sum16(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    let pairs = bytes.chunks_exact(2);
    if let [last] = pairs.remainder() {
        sum += u64::from(*last) << 8;
    }
    for pair in pairs {
        sum += u64::from(pair[0]) << 8 | u64::from(pair[1]);
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

pub fn add16(a: u16, b: u16) -> u16 {
    let sum = u32::from(a) + u32::from(b);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
