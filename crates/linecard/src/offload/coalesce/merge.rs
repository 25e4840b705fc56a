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
    let equal = |from: usize, to: usize| {
        require(first[at + from..at + to] == next[at + from..at + to], Refusal::Envelope)
    };
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
        LayerKind::Udp => equal(0, 4).map(|()| 8),
        LayerKind::Gre => equal(0, header::GRE_CHECKSUM).map(|()| header::GRE_CHECKSUM + 2),
        LayerKind::Pppoe => equal(0, PPPOE_LENGTH).map(|()| PPPOE_LENGTH + 2),
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
