//! IP headers built field by field, inner and outer ones alike.

use super::frame::{IpField, sum16};

/// An IP header; its length and what follows it are given when it is written.
#[derive(Debug, Clone)]
pub struct Ip {
    pub v6: bool,
    pub source: u8,
    pub destination: u8,
    pub tos: u8,
    pub ttl: u8,
    pub id: u16,
    pub flags_fragment: u16,
    pub label: u32,
    pub options: Vec<u8>,
    /// Kind, and the bytes behind its "next header" byte.
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub field: IpField,
}

/// An outer header; its addresses are not those of any [`Frame`](super::frame::Frame).
impl Default for Ip {
    fn default() -> Self {
        Self {
            v6: false,
            source: 101,
            destination: 102,
            tos: 0,
            ttl: 64,
            id: 0,
            flags_fragment: 0x4000,
            label: 0x5_4321,
            options: Vec::new(),
            extensions: Vec::new(),
            field: IpField::Good,
        }
    }
}

impl Ip {
    /// The header of a datagram with `len` bytes behind it, the first header there being `protocol`.
    pub fn header(&self, protocol: u8, len: usize) -> Vec<u8> {
        if self.v6 { self.v6(protocol, len) } else { self.v4(protocol, len) }
    }

    fn v4(&self, protocol: u8, len: usize) -> Vec<u8> {
        let header_len = 20 + self.options.len();
        let mut header = vec![0x40 | (header_len / 4) as u8, self.tos];
        header.extend(((header_len + len) as u16).to_be_bytes());
        header.extend(self.id.to_be_bytes());
        header.extend(self.flags_fragment.to_be_bytes());
        header.extend([self.ttl, protocol, 0, 0]);
        header.extend(self.addresses());
        header.extend(&self.options);
        if matches!(self.field, IpField::Zero | IpField::Ones) {
            header[4..6].fill(0);
            let id = !sum16(&header);
            header[4..6].copy_from_slice(&id.to_be_bytes());
        }
        let checksum = match self.field {
            IpField::Good | IpField::Zero => !sum16(&header),
            IpField::Bad => !sum16(&header) ^ 0x0100,
            IpField::Ones => 0xFFFF,
        };
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn v6(&self, protocol: u8, len: usize) -> Vec<u8> {
        let word = 6 << 28 | u32::from(self.tos) << 20 | self.label & 0xF_FFFF;
        let extensions: usize = self.extensions.iter().map(|(_, body)| body.len() + 1).sum();
        let mut header = word.to_be_bytes().to_vec();
        header.extend(((extensions + len) as u16).to_be_bytes());
        let kinds = self.extensions.iter().map(|(kind, _)| *kind).chain([protocol]);
        let kinds: Vec<u8> = kinds.collect();
        header.extend([kinds[0], self.ttl]);
        header.extend(self.addresses());
        for ((_, body), next) in self.extensions.iter().zip(&kinds[1..]) {
            header.push(*next);
            header.extend(body);
        }
        header
    }

    /// Source and destination as they lie in the header.
    pub fn addresses(&self) -> Vec<u8> {
        let one = |last: u8| {
            if self.v6 {
                vec![0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
            } else {
                vec![192, 0, 2, last]
            }
        };
        [one(self.source), one(self.destination)].concat()
    }
}
