//! The key of a fragment's datagram.

use super::fragment::{Fragment, layers, start};
use crate::packet::header::{self, Ipv4, Ipv6};
use crate::packet::{FlowHasher, Layer, LayerKind, LinkType, Packet};
use core::ops::Range;

/// Common fields of the fragments of one datagram: source, destination and identification; for IPv4
/// the protocol too (RFC 791, section 3.2; RFC 8200, section 4.5). In addition, lane, mark, VLAN
/// tags, tunnels and everything else before the IP header have to be equal.
///
/// MAC addresses are ignored, because fragments may come by different routers, and so are those
/// fields of outer headers that differ from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Key {
    /// Source, then destination; those of IPv4 fill the first 8 bytes.
    addresses: [u8; 32],
    id: u32,
    lane: u32,
    mark: u32,
    v6: bool,
    /// Protocol, 0 for IPv6, whose fragments may differ in it.
    protocol: u8,
    /// Fingerprint of what lies before the IP header.
    envelope: u64,
}

impl Key {
    pub(super) fn of<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        fragment: &Fragment,
        link: LinkType,
        hasher: &FlowHasher,
    ) -> Self {
        let bytes = packet.bytes();
        let mut addresses = [0; 32];
        let mut protocol = 0;
        if fragment.v6 {
            let ip = header::at::<Ipv6>(bytes, fragment.network);
            addresses[..16].copy_from_slice(&ip.source);
            addresses[16..].copy_from_slice(&ip.destination);
        } else {
            let ip = header::at::<Ipv4>(bytes, fragment.network);
            addresses[..4].copy_from_slice(&ip.source);
            addresses[4..8].copy_from_slice(&ip.destination);
            protocol = ip.protocol;
        }
        let outer = layers(packet.layout()).filter(|layer| start(*layer) < fragment.network);
        let before = stations(link).min(fragment.network)..fragment.network;
        Self {
            addresses,
            id: fragment.id,
            lane: packet.meta.lane,
            mark: packet.meta.mark,
            v6: fragment.v6,
            protocol,
            envelope: envelope(bytes, before, outer, hasher),
        }
    }

    pub(super) fn is_v6(&self) -> bool {
        self.v6
    }

    /// The hash that selects the datagram's place in a table.
    pub(super) fn hash(&self, hasher: &FlowHasher) -> u64 {
        let hash = hasher.bytes(self.envelope, &self.addresses);
        let hash = hasher.pair(hash, u64::from(self.id) << 32 | u64::from(self.lane));
        let kind = u64::from(self.protocol) << 1 | u64::from(self.v6);
        hasher.pair(hash, u64::from(self.mark) << 32 | kind)
    }

    /// The hash of the datagram's source: an IPv4 address or an IPv6 /64, because the owner of one
    /// address of such a network has all of them.
    pub(super) fn source_hash(&self, hasher: &FlowHasher) -> u64 {
        let source = if self.v6 { &self.addresses[..8] } else { &self.addresses[..4] };
        hasher.bytes(u64::from(self.lane), source)
    }
}

/// Bytes of the link header before its type field: addresses and their types.
fn stations(link: LinkType) -> usize {
    match link {
        LinkType::Ethernet => 12,
        LinkType::LinuxSll => 14,
        // The type comes first and only repeats the IP version. Tags follow the header.
        LinkType::LinuxSll2 => 20,
        LinkType::Raw | LinkType::Loopback | LinkType::Other => 0,
    }
}

/// Fingerprint of the bytes in `range`, without those that vary.
fn envelope(
    bytes: &[u8],
    range: Range<usize>,
    outer: impl Iterator<Item = Layer>,
    hasher: &FlowHasher,
) -> u64 {
    let (mut hash, mut at) = (0, range.start);
    for layer in outer {
        for field in varying(layer.kind) {
            let fixed = at..start(layer) + field.start;
            hash = hasher.bytes(hash, bytes.get(fixed).unwrap_or_default());
            at = start(layer) + field.end;
        }
    }
    hasher.bytes(hash, bytes.get(at..range.end).unwrap_or_default())
}

/// Fields of an outer header that differ between the fragments that it carries, in order.
fn varying(kind: LayerKind) -> &'static [Range<usize>] {
    match kind {
        // Traffic class, length and identification; TTL; checksum.
        LayerKind::Ipv4 => &[1..6, 8..9, 10..12],
        // Traffic class, flow label (a hash of the inner flow: RFC 6438) and length; hop limit.
        LayerKind::Ipv6 => &[0..6, 7..8],
        // Source port (a hash of the inner flow: RFC 7348, section 5); length and checksum.
        LayerKind::Udp => &[0..2, 4..8],
        // Checksum; length.
        LayerKind::Gre | LayerKind::Pppoe => &[4..5, 5..6],
        LayerKind::Tcp => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// Datagrams that differ in one field spread, or one source could make lookups long.
    #[test]
    fn neighbouring_datagrams_spread() {
        let hasher = FlowHasher::new(1);
        let zero = Key::default();
        let keys = (0..1_000).flat_map(|n| {
            let mut other = zero;
            other.addresses[31] = n as u8;
            other.addresses[30] = (n >> 8) as u8;
            [other, Key { id: n, ..zero }, Key { lane: n, ..zero }, Key { mark: n, ..zero }]
        });
        let protocols = (0..=255).map(|protocol| Key { protocol, ..zero });
        let places: BTreeSet<u64> =
            keys.chain(protocols).map(|key| key.hash(&hasher) & 0xF_FFFF).collect();
        // 4,252 keys in a million places: 9 meet another by chance.
        assert!(places.len() > 4_252 - 30, "{}", places.len());
    }

    /// Each byte of outer headers tells datagrams apart, except those that vary by themselves.
    #[test]
    fn outer_fields_that_vary_do_not_count() {
        let hasher = FlowHasher::new(1);
        let layers = [(LayerKind::Ipv4, 14), (LayerKind::Udp, 34), (LayerKind::Ipv6, 50)]
            .map(|(kind, offset)| Layer { kind, offset });
        let mut bytes = [0; 100];
        let fingerprint = |bytes: &[u8]| envelope(bytes, 12..98, layers.into_iter(), &hasher);
        let before = fingerprint(&bytes);
        let vary: [Range<usize>; 8] =
            [0..12, 15..20, 22..23, 24..26, 34..36, 38..42, 50..56, 57..58];
        for at in 0..98 {
            bytes[at] = 1;
            let varies = vary.iter().any(|range| range.contains(&at));
            assert_eq!(fingerprint(&bytes) == before, varies, "byte {at}");
            bytes[at] = 0;
        }
    }
}
