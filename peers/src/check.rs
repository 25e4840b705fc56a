//! Verifies the output: each byte of payload once, at its place in its flow.

use crate::chance::mix;
use std::collections::HashMap;

/// The output of a receiver.
#[derive(Debug, Default)]
pub struct Account {
    pub packets_in: u64,
    /// Packets that left, merged ones counted once.
    pub packets_out: u64,
    /// Only in the round that checks: reading all bytes takes longer than what is timed.
    pub digest: Option<Digest>,
}

impl Account {
    /// One that checks.
    pub fn checking() -> Self {
        Self { digest: Some(Digest::default()), ..Self::default() }
    }

    /// Counts a packet that leaves: its bytes from the IP header to at least the end of all
    /// headers, and those behind them.
    pub fn leaves<'b>(&mut self, first: &'b [u8], more: impl Iterator<Item = &'b [u8]>) {
        self.packets_out += 1;
        if let Some(digest) = &mut self.digest {
            digest.add(first, more);
        }
    }

    /// Packets in for one out.
    pub fn aggregate(&self) -> f64 {
        self.packets_in as f64 / self.packets_out.max(1) as f64
    }
}

/// A sum over all payload bytes of a number made of flow, place and byte: it does not depend on how
/// the bytes were divided into packets, and a byte lost, doubled, changed or moved within its flow
/// changes it. The place is the sequence number; UDP has none, its bytes are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    pub bytes: u64,
    sum: u64,
    datagrams: HashMap<u64, u64>,
}

impl Digest {
    pub fn add<'b>(&mut self, first: &'b [u8], more: impl Iterator<Item = &'b [u8]>) {
        let Some(headers) = Headers::parse(first) else { return };
        let mut left = headers.payload_len;
        let mut place = match headers.sequence {
            Some(sequence) => u64::from(sequence),
            None => *self.datagrams.entry(headers.flow).or_default(),
        };
        for piece in core::iter::once(&first[headers.len..]).chain(more) {
            // Bytes behind the IP length are padding.
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            self.sum = self.sum.wrapping_add(stretch(headers.flow, place, piece));
            self.bytes += piece.len() as u64;
            place += piece.len() as u64;
        }
        if headers.sequence.is_none() {
            self.datagrams.insert(headers.flow, place);
        }
    }
}

/// TCP packets that came after one of their flow that was sent later: what merges depends on it, and
/// a busy machine's captures have more of them.
#[derive(Debug, Default)]
pub struct Late {
    pub packets: usize,
    next: HashMap<u64, u32>,
}

impl Late {
    pub fn see(&mut self, ip: &[u8]) {
        let Some(headers) = Headers::parse(ip) else { return };
        let Some(sequence) = headers.sequence else { return };
        let end = sequence.wrapping_add(headers.payload_len as u32);
        let next = self.next.entry(headers.flow).or_insert(sequence);
        // Sequence numbers are compared as RFC 9293 does, modulo 2^32.
        if (sequence.wrapping_sub(*next) as i32) < 0 {
            self.packets += 1;
        } else {
            *next = end;
        }
    }
}

/// The sum over one run of bytes.
fn stretch(flow: u64, place: u64, bytes: &[u8]) -> u64 {
    let one = |(index, byte): (usize, &u8)| {
        // Sequence numbers wrap, wherever packets end.
        let place = u64::from((place + index as u64) as u32);
        let spread = (flow ^ place).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread ^ (spread >> 29)).wrapping_mul(u64::from(*byte) + 1)
    };
    bytes.iter().enumerate().map(one).fold(0, u64::wrapping_add)
}

/// The headers before the payload of a TCP or UDP packet without extension headers.
#[derive(Debug)]
pub struct Headers {
    flow: u64,
    sequence: Option<u32>,
    /// Bytes of the IP and the transport header.
    len: usize,
    payload_len: usize,
}

impl Headers {
    /// `None` for packets of other protocols: they are not looked at.
    pub fn parse(ip: &[u8]) -> Option<Self> {
        let (ip_len, protocol) = (ip_len(ip), if ip[0] >> 4 == 4 { ip[9] } else { ip[6] });
        let transport = &ip[ip_len..];
        let (sequence, transport_len) = match protocol {
            6 => (Some(word(&transport[4..])), usize::from(transport[12] >> 4) * 4),
            17 => (None, 8),
            _ => return None,
        };
        let addresses = if ip_len == 40 { &ip[8..40] } else { &ip[12..20] };
        let start = u64::from(protocol) << 32 | u64::from(word(transport));
        let join = |flow: u64, part: &[u8]| mix(flow ^ u64::from(word(part)));
        let flow = addresses.chunks(4).fold(mix(start), join);
        let len = ip_len + transport_len;
        Some(Self { flow, sequence, len, payload_len: total_len(ip).checked_sub(len)? })
    }
}

fn ip_len(ip: &[u8]) -> usize {
    if ip[0] >> 4 == 4 { usize::from(ip[0] & 0x0F) * 4 } else { 40 }
}

/// Bytes of an IP packet, as its header says.
pub fn total_len(ip: &[u8]) -> usize {
    if ip[0] >> 4 == 4 {
        usize::from(u16::from_be_bytes([ip[2], ip[3]]))
    } else {
        40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]))
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{ACK, ETHERNET, Fields, Kind, header};

    /// An IP packet of a flow with these bytes at this place.
    fn packet(sequence: u32, payload: &[u8]) -> Vec<u8> {
        let kind = Kind::Tcp4;
        let fields =
            Fields { kind, flow: 1, back: false, id: 0, sequence, acknowledgment: 1, flags: ACK };
        [&header(&fields, payload.len(), 0)[ETHERNET..], payload].concat()
    }

    fn digest(packets: &[Vec<u8>]) -> Digest {
        let mut digest = Digest::default();
        packets.iter().for_each(|packet| digest.add(packet, core::iter::empty()));
        digest
    }

    #[test]
    fn does_not_depend_on_how_bytes_are_divided() {
        let whole = packet(u32::MAX - 2, b"linecard");
        let parts = [packet(u32::MAX - 2, b"line"), packet(1, b"card")];
        assert_eq!(digest(&[whole.clone()]), digest(&parts));
        let (headers, payload) = whole.split_at(52);
        let mut sliced = Digest::default();
        sliced.add(headers, payload.chunks(3));
        assert_eq!(sliced, digest(&parts));
    }

    #[test]
    fn sees_bytes_changed_moved_lost_and_doubled() {
        let right = digest(&[packet(5, b"linecard")]);
        for wrong in [
            vec![packet(5, b"lineCard")],
            vec![packet(5, b"cardline")],
            vec![packet(6, b"linecard")],
            vec![packet(5, b"linecar")],
            vec![packet(5, b"line"), packet(5, b"card")],
            vec![packet(5, b"linecard"), packet(5, b"l")],
        ] {
            assert_ne!(digest(&wrong), right);
        }
    }

    #[test]
    fn leaves_padding_out() {
        let padded = [packet(5, b"line"), vec![0; 6]].concat();
        assert_eq!(digest(&[padded]), digest(&[packet(5, b"line")]));
    }
}
