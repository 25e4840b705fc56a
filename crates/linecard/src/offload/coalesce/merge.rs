//! The merge rules: which header fields must be equal, and how IPv4 identifications continue.
//!
//! One comparison under a mask ([`Shape`](crate::packet::FlowHasher)) decides whether headers may
//! merge. This module finds *why* they may not, layer by layer, for the few packets that do not.

use super::aggregate::Grown;
use super::candidate::Derived;
use super::reason::Refusal;
use crate::packet::header::{self, IPV6_CLASS, Ipv4, Ipv6, PPPOE_LENGTH, Tcp, tcp_flags};
use crate::packet::{FlowHasher, Layer, LayerKind, Packet};

type Rule = Result<(), Refusal>;

/// `Ok` if `condition` holds, else the refusal.
fn require(condition: bool, refusal: Refusal) -> Rule {
    if condition { Ok(()) } else { Err(refusal) }
}

/// The reason that prevents a packet from joining the data that its flow holds, as far as a look at it and the first packet shows:
/// neither has to be verified then. `sequence` is the one expected.
#[inline]
pub(super) fn obstacle<A: AsRef<[u8]>, B: AsRef<[u8]>>(
    hasher: &mut FlowHasher,
    (first, sequence): (&Packet<A>, Option<u32>),
    next: &Packet<B>,
) -> Option<Refusal> {
    let (layout, bytes) = (next.layout(), next.bytes());
    let alike = first.layout().same_headers(layout) && first.meta.lane == next.meta.lane;
    let shape = hasher.shape(first.layout()).filter(|_| alike);
    if !shape.is_some_and(|shape| shape.mergeable(first.bytes(), bytes)) {
        return Some(difference(first, next).unwrap_or(Refusal::Envelope));
    }
    if let (Some(expected), Some(tcp)) = (sequence, layout.transport()) {
        match header::at::<Tcp>(bytes, tcp.at()).sequence.wrapping_sub(expected) {
            0 => {}
            1..0x8000_0000 => return Some(Refusal::SequenceGap),
            _ => return Some(Refusal::SequenceOld),
        }
    }
    if layout.payload_len() > first.layout().payload_len() {
        return Some(Refusal::Longer);
    }
    (first.meta.mark != next.meta.mark).then_some(Refusal::Mark)
}

/// Why two packets' headers do not merge; none if all fields that must be equal are.
#[cold]
pub(super) fn difference<A: AsRef<[u8]>, B: AsRef<[u8]>>(
    first: &Packet<A>,
    next: &Packet<B>,
) -> Option<Refusal> {
    same_headers(first, next).err()
}

fn same_headers<A: AsRef<[u8]>, B: AsRef<[u8]>>(first: &Packet<A>, next: &Packet<B>) -> Rule {
    let (a, b) = (first.layout(), next.layout());
    require(a.same_layers(b) && first.meta.lane == next.meta.lane, Refusal::Envelope)?;
    // Equal offsets but another header length: the TCP options differ in length.
    require(a.header_len() == b.header_len(), Refusal::Options)?;
    let (first, next) = (first.header(), next.header());
    let (mut compared, mut between) = (0, Refusal::Envelope);
    for layer in a.layers() {
        let at = layer.at();
        require(first[compared..at] == next[compared..at], between)?;
        compared = at + layer_rule(layer, first, next)?;
        if layer.kind == LayerKind::Tcp {
            between = Refusal::Options;
        }
    }
    require(first[compared..] == next[compared..], between)
}

/// The rule of one layer; returns the number of header bytes it has covered.
fn layer_rule(layer: Layer, first: &[u8], next: &[u8]) -> Result<usize, Refusal> {
    let at = layer.at();
    let equal = |len: usize| require(first[at..at + len] == next[at..at + len], Refusal::Envelope);
    match layer.kind {
        LayerKind::Ipv4 => {
            ipv4_rule(&header::at(first, at), &header::at(next, at)).map(|()| Ipv4::LEN)
        }
        LayerKind::Ipv6 => {
            ipv6_rule(&header::at(first, at), &header::at(next, at)).map(|()| Ipv6::LEN)
        }
        LayerKind::Tcp => {
            tcp_rule(&header::at(first, at), &header::at(next, at)).map(|()| Tcp::LEN)
        }
        LayerKind::Udp => equal(4).map(|()| 8),
        LayerKind::Gre => equal(header::GRE_CHECKSUM).map(|()| header::GRE_CHECKSUM + 2),
        LayerKind::Pppoe => equal(PPPOE_LENGTH).map(|()| PPPOE_LENGTH + 2),
    }
}

fn ipv4_rule(first: &Ipv4, next: &Ipv4) -> Rule {
    require(first.ttl == next.ttl, Refusal::TimeToLive)?;
    require(first.tos == next.tos, Refusal::TrafficClass)?;
    require(first.flags_fragment == next.flags_fragment, Refusal::DontFragment)?;
    let equal = first.version_ihl == next.version_ihl
        && first.protocol == next.protocol
        && first.source == next.source
        && first.destination == next.destination;
    require(equal, Refusal::Envelope)
}

fn ipv6_rule(first: &Ipv6, next: &Ipv6) -> Rule {
    require(first.hop_limit == next.hop_limit, Refusal::TimeToLive)?;
    let changed = first.version_class_label ^ next.version_class_label;
    require(changed & IPV6_CLASS == 0, Refusal::TrafficClass)?;
    let equal = changed == 0
        && first.next_header == next.next_header
        && first.source == next.source
        && first.destination == next.destination;
    require(equal, Refusal::Envelope)
}

/// Flags other than FIN and PSH have to be equal, and so have window and acknowledgment number. The
/// urgent pointer, which Linux does not compare, has to be equal too, because it could not be
/// restored.
fn tcp_rule(first: &Tcp, next: &Tcp) -> Rule {
    let changed = first.offset_flags ^ next.offset_flags;
    require(changed >> 12 == 0, Refusal::Options)?;
    require(changed & !(tcp_flags::FIN | tcp_flags::PSH) == 0, Refusal::Flags)?;
    require(first.acknowledgment == next.acknowledgment, Refusal::Acknowledgment)?;
    require(first.window == next.window, Refusal::Window)?;
    require(first.urgent == next.urgent, Refusal::Urgent)?;
    let ports = first.source == next.source && first.destination == next.destination;
    require(ports, Refusal::Envelope)
}

impl Grown {
    /// Which identifications are constant once `next` has joined: a bit for each IPv4 header,
    /// innermost lowest. At the first merge a difference of 0 makes it constant; afterwards it has
    /// to stay constant, or increase with each packet. DF does not matter. IPv6 has no
    /// identification.
    #[inline(always)]
    pub(super) fn follow_ids(&self, next: &Derived) -> Result<u8, Refusal> {
        let mut fixed = if self.count == 1 { 0 } else { self.fixed_ids };
        let count = usize::from(next.id_count);
        for ((first, next), index) in self.ids.iter().zip(&next.ids).take(count).zip(0..) {
            let difference = next.wrapping_sub(*first);
            let bit = 1 << index;
            if self.count == 1 && difference == 0 && self.may_fix & bit != 0 {
                fixed |= bit;
            }
            let expected = if fixed & bit != 0 { 0 } else { self.count };
            if difference != expected {
                return Err(Refusal::IpId);
            }
        }
        Ok(fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::*;
    use crate::packet::{LinkType, Meta};
    use alloc::vec::Vec;
    use core::ops::Range;

    /// A packet behind these headers, over any link; they need not be right in what is not compared.
    fn behind(headers: &[u8], traffic: Traffic) -> Vec<u8> {
        let packet = traffic.packet(0, 1);
        let datagram = &packet.bytes()[14 + 4 * traffic.tags..];
        [headers, datagram].concat()
    }

    /// For each of these bytes, the refusal of a packet that differs from another one in that.
    fn refusals(bytes: &[u8], link: LinkType, range: Range<usize>) -> Vec<Option<Refusal>> {
        let of = |bytes: &[u8]| Packet::new(bytes.to_vec(), link, Meta::default());
        let first = of(bytes);
        range
            .map(|at| {
                let mut other = bytes.to_vec();
                other[at] ^= 1;
                // As if it were parsed to the same layers.
                let other = Packet::with_layout(other, link, *first.layout(), first.meta);
                difference(&first, &other)
            })
            .collect()
    }

    /// Addresses, ports and what else names a flow.
    #[test]
    fn each_byte_that_names_a_flow_counts() {
        let envelope = Some(Refusal::Envelope);
        for traffic in each_traffic() {
            let bytes = behind(&[], traffic);
            let ranges = if traffic.v6 {
                [1..4, 6..7, 8..40, 40..44]
            } else {
                [0..1, 9..10, 12..20, 20..24]
            };
            for range in ranges {
                for (at, refusal) in range.clone().zip(refusals(&bytes, LinkType::Raw, range)) {
                    // The traffic class.
                    let is_class = traffic.v6 && at == 1;
                    assert!(refusal == envelope || is_class, "{traffic:?} {at} {refusal:?}");
                }
            }
            assert_eq!(refusals(&bytes, LinkType::Raw, 8..9) == [envelope], traffic.v6);
        }
    }

    #[test]
    fn what_lies_between_headers_is_compared() {
        let envelope = Some(Refusal::Envelope);
        let traffic = each_traffic().find(|traffic| traffic.tcp && !traffic.v6).expect("one");
        let inner = behind(&[], traffic);
        // GRE with a checksum, over IPv4: of its header, all but the checksum.
        let len = (20 + 8 + inner.len()) as u16;
        let mut gre = [&[0x45, 0][..], &len.to_be_bytes(), &[0, 0, 0x40, 0, 64, 47, 0, 0]].concat();
        gre.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        gre.extend([0x80, 0, 8, 0, 0, 0, 0, 0]);
        let bytes = [&gre[..], &inner].concat();
        let found = refusals(&bytes, LinkType::Raw, 20..28);
        let mut expected = [envelope; 8];
        expected[4..6].fill(None);
        assert_eq!(found, expected);

        // An extension header is not an option of TCP.
        let v6 = each_traffic().find(|traffic| traffic.tcp && traffic.v6).expect("one");
        let mut bytes = behind(&[], v6);
        let len = u16::from_be_bytes([bytes[4], bytes[5]]) + 8;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        bytes[6] = 60;
        bytes.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(refusals(&bytes, LinkType::Raw, 40..48), [envelope; 8]);
    }

    #[test]
    fn packets_of_two_lanes_are_never_alike() {
        let packet = each_traffic().next().expect("one").packet(0, 1);
        let mut other = packet.clone();
        let mut hasher = FlowHasher::new(1);
        assert_eq!(difference(&packet, &other), None);
        assert_eq!(obstacle(&mut hasher, (&packet, None), &other), None);
        other.meta.lane = 1;
        assert_eq!(difference(&packet, &other), Some(Refusal::Envelope));
        assert_eq!(obstacle(&mut hasher, (&packet, None), &other), Some(Refusal::Envelope));
    }
}
