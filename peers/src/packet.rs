//! Packets as Linux sends them, field by field: headers whose checksums are right.

/// Addresses and protocol of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp4,
    /// TCP without the timestamp option.
    Bare4,
    Tcp6,
    Udp4,
}

impl Kind {
    /// Bytes of the IP header.
    pub fn ip_len(self) -> usize {
        if self == Self::Tcp6 { 40 } else { 20 }
    }

    /// Bytes of the TCP or UDP header.
    pub fn transport_len(self) -> usize {
        match self {
            Self::Udp4 => 8,
            Self::Bare4 => 20,
            Self::Tcp4 | Self::Tcp6 => 32,
        }
    }

    /// Bytes of all headers of a frame.
    pub fn headers(self) -> usize {
        ETHERNET + self.ip_len() + self.transport_len()
    }

    fn protocol(self) -> u8 {
        if self == Self::Udp4 { 17 } else { 6 }
    }
}

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// The fields that differ between the packets of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    pub kind: Kind,
    /// The flow: addresses and ports come from it.
    pub flow: u32,
    /// From the server, that is with addresses and ports exchanged.
    pub back: bool,
    pub id: u16,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: u8,
}

/// The headers of a frame before `len` bytes of payload that sum to `sum`.
pub fn header(fields: &Fields, len: usize, sum: u16) -> Vec<u8> {
    let mut transport = transport(fields, len);
    let (ip, addresses) = network(fields, transport.len() + len);
    let pseudo = (transport.len() + len) as u64 + u64::from(fields.kind.protocol());
    let total = u64::from(sum) + pseudo + words(&addresses) + words(&transport);
    let mut checksum = !fold(total);
    let field = if fields.kind == Kind::Udp4 { 6 } else { 16 };
    if fields.kind == Kind::Udp4 && checksum == 0 {
        checksum = 0xFFFF; // RFC 768: zero says that there is none
    }
    transport[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    let ethertype = if fields.kind == Kind::Tcp6 { [0x86, 0xDD] } else { [8, 0] };
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ethertype, &ip, &transport].concat()
}

/// The IP header, and its two addresses.
fn network(fields: &Fields, len: usize) -> (Vec<u8>, Vec<u8>) {
    let [a, b, c, d] = fields.flow.to_be_bytes();
    if fields.kind == Kind::Tcp6 {
        let client = [0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d];
        let server = [0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
        let addresses = order(fields.back, &client, &server);
        let start = [0x60, 0, 0, d, (len >> 8) as u8, len as u8, 6, 64];
        return ([&start[..], &addresses].concat(), addresses);
    }
    let addresses = order(fields.back, &[10, b, c, d], &[192, 0, 2, 1]);
    let [len, id] = [(len + 20) as u16, fields.id].map(u16::to_be_bytes);
    let start = [0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, fields.kind.protocol(), 0, 0];
    let mut ip = [&start[..], &addresses].concat();
    let checksum = !fold(words(&ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    (ip, addresses)
}

/// The TCP or UDP header, its checksum zero.
fn transport(fields: &Fields, len: usize) -> Vec<u8> {
    let client = 32_768 + (fields.flow % 28_000) as u16;
    let mut bytes = order(fields.back, &client.to_be_bytes(), &5201_u16.to_be_bytes());
    if fields.kind == Kind::Udp4 {
        bytes.extend((len as u16 + 8).to_be_bytes());
        bytes.extend([0, 0]);
        return bytes;
    }
    bytes.extend(fields.sequence.to_be_bytes());
    bytes.extend(fields.acknowledgment.to_be_bytes());
    let words = fields.kind.transport_len() as u8 / 4;
    bytes.extend([words << 4, fields.flags, 1, 0xF5, 0, 0, 0, 0]);
    if words == 8 {
        // Two no-operations and the timestamps (RFC 7323, appendix A).
        bytes.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    bytes
}

fn order(back: bool, client: &[u8], server: &[u8]) -> Vec<u8> {
    if back { [server, client].concat() } else { [client, server].concat() }
}

/// The sum of 16-bit words, an odd byte at the end counting as a word's first.
fn words(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

/// Adds the carries (RFC 1071).
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The sums of all beginnings of some bytes, so that packets that share payload cost nothing.
#[derive(Debug)]
pub struct Sums(Vec<u16>);

impl Sums {
    pub fn of(bytes: &[u8]) -> Self {
        let mut total = 0_u64;
        let mut sums = vec![0];
        for (place, byte) in bytes.iter().enumerate() {
            total += u64::from(*byte) << if place % 2 == 0 { 8 } else { 0 };
            sums.push(fold(total));
        }
        Self(sums)
    }

    /// The sum of the first `len` bytes.
    pub fn first(&self, len: usize) -> u16 {
        self.0[len]
    }
}
