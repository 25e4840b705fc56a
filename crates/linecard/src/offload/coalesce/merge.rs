//! The merge rules: whether a packet continues the held data of its flow.
//!
//! Rules are per layer, and bytes that belong to no layer must be equal. So whatever is not
//! compared here is derived when segmenting, and the result can be given back byte for byte.

use super::reason::Refusal;
use crate::packet::header::{self, IPV6_CLASS, Ipv4, Ipv6, Tcp, Udp, tcp_flags};
use crate::packet::{Layer, LayerKind, Packet};

type Rule = Result<(), Refusal>;

/// Holds when `condition` does, else is refused with `refusal`.
#[inline]
fn require(condition: bool, refusal: Refusal) -> Rule {
    if condition { Ok(()) } else { Err(refusal) }
}

/// All header fields that must be equal are equal in both packets.
pub(super) fn same_headers<B: AsRef<[u8]>>(first: &Packet<B>, next: &Packet<B>) -> Rule {
    let (a, b) = (first.layout(), next.layout());
    require(a.layers() == b.layers(), Refusal::Envelope)?;
    // Equal offsets and another header length: TCP options take another space.
    require(a.header_len() == b.header_len(), Refusal::Options)?;
    let (first, next) = (first.header(), next.header());
    let (mut compared, mut between) = (0, Refusal::Envelope);
    for layer in a.layers() {
        let offset = usize::from(layer.offset);
        require(equal(&first[compared..offset], &next[compared..offset]), between)?;
        compared = offset + layer_rule(*layer, first, next)?;
        if layer.kind == LayerKind::Tcp {
            between = Refusal::Options;
        }
    }
    require(equal(&first[compared..], &next[compared..]), between)
}

/// The rule of one layer; gives the bytes of header it has covered.
#[inline]
fn layer_rule(layer: Layer, first: &[u8], next: &[u8]) -> Result<usize, Refusal> {
    let at = usize::from(layer.offset);
    match layer.kind {
        LayerKind::Ipv4 => {
            ipv4_rule(header::at(first, at), header::at(next, at)).map(|()| Ipv4::LEN)
        }
        LayerKind::Ipv6 => {
            ipv6_rule(header::at(first, at), header::at(next, at)).map(|()| Ipv6::LEN)
        }
        LayerKind::Tcp => tcp_rule(header::at(first, at), header::at(next, at)).map(|()| Tcp::LEN),
        LayerKind::Udp => {
            require(first[at..at + 4] == next[at..at + 4], Refusal::Envelope).map(|()| Udp::LEN)
        }
    }
}

#[inline]
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

#[inline]
fn ipv6_rule(first: &Ipv6, next: &Ipv6) -> Rule {
    require(first.hop_limit == next.hop_limit, Refusal::TimeToLive)?;
    let changed = first.version_class_label.get() ^ next.version_class_label.get();
    require(changed & IPV6_CLASS == 0, Refusal::TrafficClass)?;
    let equal = changed == 0
        && first.next_header == next.next_header
        && first.source == next.source
        && first.destination == next.destination;
    require(equal, Refusal::Envelope)
}

/// The flag word is equal outside FIN and PSH, and so are window and acknowledgment. The urgent
/// pointer, which Linux does not compare, must be equal too: it could not be given back.
#[inline]
fn tcp_rule(first: &Tcp, next: &Tcp) -> Rule {
    let changed = first.offset_flags.get() ^ next.offset_flags.get();
    require(changed >> 12 == 0, Refusal::Options)?;
    require(changed & !(tcp_flags::FIN | tcp_flags::PSH) == 0, Refusal::Flags)?;
    require(first.acknowledgment == next.acknowledgment, Refusal::Acknowledgment)?;
    require(first.window == next.window, Refusal::Window)?;
    require(first.urgent == next.urgent, Refusal::Urgent)?;
    let ports = first.source == next.source && first.destination == next.destination;
    require(ports, Refusal::Envelope)
}

/// How the IPv4 identification goes on within a merged packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum IdRule {
    /// One packet so far.
    #[default]
    Open,
    /// It stands still.
    Fixed,
    /// It counts up by one.
    Counting,
}

impl IdRule {
    /// The rule after `next` has followed `count` packets of which the first is `first`. DF does
    /// not matter. IPv6 has no identification.
    pub(super) fn follow<B: AsRef<[u8]>>(
        self,
        first: &Packet<B>,
        next: &Packet<B>,
        count: u16,
    ) -> Result<Self, Refusal> {
        let Some(network) = first.layout().network() else { return Err(Refusal::Envelope) };
        if network.kind != LayerKind::Ipv4 {
            return Ok(self);
        }
        let id = |packet: &Packet<B>| {
            header::at::<Ipv4>(packet.bytes(), usize::from(network.offset)).id.get()
        };
        let difference = id(next).wrapping_sub(id(first));
        match (self, difference) {
            (Self::Open, 0) => Ok(Self::Fixed),
            (Self::Open, 1) => Ok(Self::Counting),
            (Self::Fixed, 0) => Ok(self),
            (Self::Counting, difference) if difference == count => Ok(self),
            _ => Err(Refusal::IpId),
        }
    }
}

/// Whether a few bytes are equal, without a call.
#[inline]
fn equal(a: &[u8], b: &[u8]) -> bool {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    a.len() == b.len()
        && a_rest.len() == b_rest.len()
        && a.iter().zip(b).all(|(a, b)| u32::from_ne_bytes(*a) == u32::from_ne_bytes(*b))
        && a_rest.iter().zip(b_rest).all(|(a, b)| a == b)
}
