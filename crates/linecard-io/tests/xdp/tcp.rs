//! TCP packets of any size, and properties of their segments, checked without the segmenter.

/// The headers before TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ipv4,
    Ipv6,
    /// A VLAN tag, then IPv4.
    Tagged,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Ipv4, Kind::Ipv6, Kind::Tagged];

impl Kind {
    /// Bytes before the payload.
    pub(crate) fn header_len(self) -> usize {
        self.ip_at() + self.ip_len() + 20
    }

    fn ip_at(self) -> usize {
        if self == Self::Tagged { 18 } else { 14 }
    }

    fn ip_len(self) -> usize {
        if self == Self::Ipv6 { 40 } else { 20 }
    }
}

/// The payload of packet `number`.
pub(crate) fn payload(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32 ^ (at as u32) >> 8).wrapping_add(number) as u8).collect()
}

/// The sequence number at which the packet starts.
pub(crate) fn sequence(number: u32) -> u32 {
    number.wrapping_mul(1_000_003)
}

/// A packet with PSH and ACK, its TCP checksum wrong.
pub(crate) fn packet(kind: Kind, number: u32, payload_len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
    if kind == Kind::Tagged {
        bytes.extend([0x81, 0, 0xA0, 5]);
    }
    let len = |headers: usize| ((headers + payload_len) as u16).to_be_bytes();
    if kind == Kind::Ipv6 {
        bytes.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
        bytes.extend(len(20));
        bytes.extend([6, 64]);
        bytes.extend([0xFD; 31]);
        bytes.push(2);
    } else {
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend(len(40));
        bytes.extend((number as u16).to_be_bytes());
        bytes.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = sum16(&bytes[kind.ip_at()..]);
        let field = kind.ip_at() + 10;
        bytes[field..field + 2].copy_from_slice(&(!sum).to_be_bytes());
    }
    bytes.extend([0x1F, 0x40, 0x1F, 0x41]);
    bytes.extend(sequence(number).to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0xBE, 0xEF, 0, 0]);
    bytes.extend(payload(number, payload_len));
    bytes
}

/// Checks a frame to be the segment of packet `number` that begins at `start`, with right lengths
/// and checksums; gives how many bytes of payload it has.
pub(crate) fn check(
    frame: &[u8],
    kind: Kind,
    (number, start): (u32, usize),
    whole: usize,
) -> usize {
    let about = format!("{kind:?}, packet {number} from {start}");
    let ip = &frame[kind.ip_at()..];
    let tcp = &ip[kind.ip_len()..];
    let be16 = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    let addresses = if kind == Kind::Ipv6 {
        assert_eq!(be16(4), tcp.len(), "{about}");
        &ip[8..40]
    } else {
        assert_eq!((be16(2), sum16(&ip[..20])), (ip.len(), 0xFFFF), "{about}");
        &ip[12..20]
    };
    let pseudo = [addresses, &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
    assert_eq!(sum16(&[&pseudo, tcp].concat()), 0xFFFF, "{about}");
    let wanted = sequence(number).wrapping_add(start as u32).to_be_bytes();
    assert_eq!(tcp[4..8], wanted, "{about}");
    let part = &tcp[20..];
    let flags = if start + part.len() == whole { 0x18 } else { 0x10 };
    assert_eq!(tcp[13], flags, "{about}");
    assert!(part == &payload(number, whole)[start..start + part.len()], "{about}");
    part.len()
}

fn sum16(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}
