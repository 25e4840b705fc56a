//! The first packet of a run that is not what the offload of this project makes of the message.

use alloc::vec::Vec;
use core::fmt;
use linecard::packet::header::Ipv4;

/// A packet that is wrong: which one, where, and what should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Its number in the order in which packets left, from 0 as in a trace.
    pub packet: u64,
    /// The number of its message, from 0.
    pub message: u64,
    /// The error.
    pub what: Difference,
}

/// The error of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A field of a header, the first that differs.
    Field {
        /// Its name.
        name: &'static str,
        /// As a number of the network's byte order.
        expected: u32,
        /// As it left.
        got: u32,
    },
    /// A byte of the payload, the first that differs.
    Payload {
        /// Its place in the packet's payload.
        at: usize,
        /// As in the message.
        expected: u8,
        /// As it left.
        got: u8,
    },
    /// The packet has another length, and is right as far as it goes.
    Length {
        /// Bytes, from the IP header on.
        expected: usize,
        /// Bytes that left.
        got: usize,
    },
    /// All of the message had left.
    Unexpected,
    /// This many packets of the message never left.
    Missing(u64),
}

/// Fields of headers: name, offset, bytes.
type Field = (&'static str, usize, usize);

const IPV4: [Field; 10] = [
    ("IPv4 version and header length", 0, 1),
    ("IPv4 type of service", 1, 1),
    ("IPv4 total length", 2, 2),
    ("IPv4 identification", 4, 2),
    ("IPv4 flags and fragment offset", 6, 2),
    ("IPv4 time to live", 8, 1),
    ("IPv4 protocol", 9, 1),
    ("IPv4 header checksum", 10, 2),
    ("IPv4 source address", 12, 4),
    ("IPv4 destination address", 16, 4),
];
const TCP: [Field; 8] = [
    ("TCP source port", 0, 2),
    ("TCP destination port", 2, 2),
    ("TCP sequence number", 4, 4),
    ("TCP acknowledgment number", 8, 4),
    ("TCP data offset and flags", 12, 2),
    ("TCP window", 14, 2),
    ("TCP checksum", 16, 2),
    ("TCP urgent pointer", 18, 2),
];
const UDP: [Field; 4] = [
    ("UDP source port", 0, 2),
    ("UDP destination port", 2, 2),
    ("UDP length", 4, 2),
    ("UDP checksum", 6, 2),
];

impl Difference {
    /// The first difference between a packet and the header and payload that it should have.
    pub(super) fn between(header: &[u8], payload: &[u8], packet: &[u8]) -> Self {
        let expected: Vec<u8> = header.iter().chain(payload).copied().collect();
        let at = expected.iter().zip(packet).position(|(a, b)| a != b);
        match at {
            None => Self::Length { expected: expected.len(), got: packet.len() },
            Some(at) if at < header.len() => field(&expected[..header.len()], packet, at),
            Some(at) => Self::Payload {
                at: at - header.len(),
                expected: expected[at],
                got: packet.get(at).copied().unwrap_or(0),
            },
        }
    }
}

/// The field of a header that has the byte at `at`.
fn field(header: &[u8], packet: &[u8], at: usize) -> Difference {
    // A first fragment of a datagram has the header of UDP, the others end behind IPv4's.
    let transport: &[Field] = match header.get(9) {
        Some(6) => &TCP,
        Some(17) => &UDP,
        _ => &[],
    };
    let transport = transport.iter().map(|(name, from, len)| (*name, from + Ipv4::LEN, *len));
    let all = IPV4.into_iter().chain(transport);
    let known = all.into_iter().find(|(_, from, len)| (*from..from + len).contains(&at));
    let (name, from, len) = known.unwrap_or(("TCP options", at, 1));
    let number = |bytes: &[u8]| {
        let bytes = bytes.iter().skip(from).take(len);
        bytes.fold(0, |number, byte| number << 8 | u32::from(*byte))
    };
    Difference::Field { name, expected: number(header), got: number(packet) }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, message, what } = self;
        if let Difference::Missing(count) = what {
            return write!(
                f,
                "message {message}: {count} packets never left, from packet {packet} on"
            );
        }
        write!(f, "packet {packet} (message {message}): ")?;
        match what {
            Difference::Field { name, expected, got } => {
                write!(f, "{name}: expected {expected:#x}, got {got:#x}")
            }
            Difference::Payload { at, expected, got } => {
                write!(f, "byte {at} of the payload: expected {expected:#04x}, got {got:#04x}")
            }
            Difference::Length { expected, got } => {
                write!(f, "length: expected {expected} bytes, got {got}")
            }
            Difference::Unexpected => f.write_str("expected none: all of the message had left"),
            Difference::Missing(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn the_first_field_that_differs_is_named_with_both_values() {
        let mut header = [0_u8; 40];
        (header[0], header[9]) = (0x45, 6);
        let payload = [7_u8; 4];
        let right = [&header[..], &payload].concat();
        let text = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = right.clone();
            change(&mut packet);
            let what = Difference::between(&header, &payload, &packet);
            Mismatch { packet: 3, message: 1, what }.to_string()
        };
        for (change, said) in [
            (&|p: &mut Vec<u8>| p[5] = 9, "IPv4 identification: expected 0x0, got 0x9"),
            (&|p: &mut Vec<u8>| p[26] = 1, "TCP sequence number: expected 0x0, got 0x100"),
            (&|p: &mut Vec<u8>| p[42] = 0, "byte 2 of the payload: expected 0x07, got 0x00"),
            (&|p: &mut Vec<u8>| p.truncate(43), "length: expected 44 bytes, got 43"),
            (&|p: &mut Vec<u8>| p.push(0), "length: expected 44 bytes, got 45"),
        ] as [(&dyn Fn(&mut Vec<u8>), &str); 5]
        {
            assert_eq!(text(change), alloc::format!("packet 3 (message 1): {said}"));
        }
    }
}
