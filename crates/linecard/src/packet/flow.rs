//! Which flow a packet belongs to, and a keyed hash of it.

use super::header::{self, IPV6_CLASS, Ipv4, Ipv6};
use super::{Layer, LayerKind, Packet};
use crate::rng::Rng;

/// What the packets of one flow have in common.
///
/// Lane, addresses, ports and transport are held as they are. The link header with its VLAN
/// tags, the IPv6 flow label and extension headers enter as a keyed 64-bit fingerprint: before
/// packets merge, those bytes are compared as they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowKey {
    source: [u64; 2],
    destination: [u64; 2],
    ports: u32,
    lane: u32,
    envelope: u64,
    kind: u8,
}

impl FlowKey {
    /// The flow of a packet with a transport header; none for other packets.
    #[must_use]
    #[inline(always)]
    pub fn of<B: AsRef<[u8]>>(packet: &Packet<B>, hasher: &FlowHasher) -> Option<Self> {
        let transport = packet.layout().transport()?;
        let network = packet.layout().network()?;
        let bytes = packet.bytes();
        let ports = *bytes.get(usize::from(transport.offset)..)?.first_chunk()?;
        let (source, destination) = addresses(bytes, network);
        Some(Self {
            source,
            destination,
            ports: u32::from_be_bytes(ports),
            lane: packet.meta.lane,
            envelope: envelope(bytes, network, transport, hasher),
            kind: transport.kind as u8 | (network.kind as u8) << 4,
        })
    }

    /// Whether the two ends are those of `packet`, ports aside, on the same lane.
    #[must_use]
    pub fn same_ends<B: AsRef<[u8]>>(&self, packet: &Packet<B>) -> bool {
        packet.layout().network().is_some_and(|network| {
            addresses(packet.bytes(), network) == (self.source, self.destination)
                && packet.meta.lane == self.lane
        })
    }
}

/// Addresses as four words; an IPv4 address fills the first half of its pair and the second tells
/// it from IPv6.
#[inline]
fn addresses(bytes: &[u8], network: Layer) -> ([u64; 2], [u64; 2]) {
    let offset = usize::from(network.offset);
    if network.kind == LayerKind::Ipv4 {
        let ip = header::at::<Ipv4>(bytes, offset);
        let word = |a: [u8; 4]| [u64::from(u32::from_be_bytes(a)), 4 << 32];
        (word(ip.source), word(ip.destination))
    } else {
        let ip = header::at::<Ipv6>(bytes, offset);
        let words = |a: [u8; 16]| {
            let both = u128::from_be_bytes(a);
            [(both >> 64) as u64, both as u64]
        };
        (words(ip.source), words(ip.destination))
    }
}

#[inline]
fn envelope(bytes: &[u8], network: Layer, transport: Layer, hasher: &FlowHasher) -> u64 {
    let start = usize::from(network.offset);
    let mut hash = hasher.bytes(hasher.keys[1], &bytes[..start]);
    if network.kind == LayerKind::Ipv6 {
        let label = header::at::<Ipv6>(bytes, start).version_class_label.get() & !IPV6_CLASS;
        hash = hasher.pair(hash, u64::from(label));
        let extensions = &bytes[start + Ipv6::LEN..usize::from(transport.offset)];
        hash = hasher.bytes(hash, extensions);
    }
    hash
}

/// A keyed hash for flow tables.
///
/// It folds 128-bit products of words mixed with a secret key: fast, and not to be guessed
/// without the key. It is no cryptographic hash; the tables that use it bound what a collision
/// can cost.
#[derive(Debug, Clone)]
pub struct FlowHasher {
    keys: [u64; 4],
}

impl FlowHasher {
    /// A hash keyed by `secret`: from the operating system's random source where peers are not
    /// trusted, a constant where runs have to be equal.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        let mut rng = Rng::new(secret);
        Self { keys: core::array::from_fn(|_| rng.next_u64() | 1) }
    }

    /// The hash of a flow.
    #[must_use]
    #[inline]
    pub fn flow(&self, key: &FlowKey) -> u64 {
        let ports_lane = u64::from(key.ports) << 32 | u64::from(key.lane);
        let hash = self.ends_of(key);
        let hash = fold(hash ^ ports_lane, self.keys[2]);
        fold(hash ^ key.envelope, self.keys[3] ^ u64::from(key.kind))
    }

    /// The hash of a flow's two ends, equal for all its ports.
    #[must_use]
    #[inline]
    pub fn ends(&self, key: &FlowKey) -> u64 {
        fold(self.ends_of(key) ^ u64::from(key.lane), self.keys[2])
    }

    /// [`FlowHasher::ends`] of the flow that `packet` would belong to; none without an IP header.
    #[must_use]
    pub fn ends_of_packet<B: AsRef<[u8]>>(&self, packet: &Packet<B>) -> Option<u64> {
        let network = packet.layout().network()?;
        let (source, destination) = addresses(packet.bytes(), network);
        let lane = packet.meta.lane;
        Some(self.ends(&FlowKey { source, destination, lane, ..FlowKey::default() }))
    }

    #[inline]
    fn ends_of(&self, key: &FlowKey) -> u64 {
        let source = fold(key.source[0] ^ self.keys[0], key.source[1] ^ self.keys[1]);
        let destination =
            fold(key.destination[0] ^ self.keys[2], key.destination[1] ^ self.keys[3]);
        fold(source ^ self.keys[1], destination ^ self.keys[0])
    }

    /// Mixes bytes into a hash.
    #[inline]
    pub(crate) fn bytes(&self, mut hash: u64, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = self.pair(hash, u64::from_le_bytes(*word));
        }
        let mut last = 0;
        for byte in rest.iter().rev() {
            last = last << 8 | u64::from(*byte);
        }
        self.pair(hash ^ bytes.len() as u64, last)
    }

    /// Mixes a word into a hash.
    #[inline]
    pub(crate) fn pair(&self, hash: u64, word: u64) -> u64 {
        fold(hash ^ self.keys[0], word ^ self.keys[3])
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{LinkType, Meta};
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    fn udp(port: u16) -> Packet<Vec<u8>> {
        let mut bytes =
            [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2].to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 53, 0, 8, 0, 0]);
        Packet::new(bytes, LinkType::Raw, Meta::default())
    }

    #[test]
    fn neighbouring_flows_spread_evenly() {
        let hasher = FlowHasher::new(1);
        let hashes: Vec<u64> = (0..4096)
            .map(|port| hasher.flow(&FlowKey::of(&udp(port), &hasher).expect("a UDP flow")))
            .collect();
        let distinct: BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), 4096);
        let mut buckets = [0; 64];
        hashes.iter().for_each(|h| buckets[(h & 63) as usize] += 1);
        // 64 expected in each; five standard deviations.
        assert!(buckets.iter().all(|n| (24..104).contains(n)), "{buckets:?}");
    }

    #[test]
    fn ends_do_not_depend_on_ports() {
        let hasher = FlowHasher::new(2);
        let (a, b) = (udp(1), udp(2));
        let key = FlowKey::of(&a, &hasher).expect("a UDP flow");
        assert_eq!(Some(hasher.ends(&key)), hasher.ends_of_packet(&b));
        assert!(key.same_ends(&b));
        assert_ne!(hasher.flow(&key), hasher.flow(&FlowKey::of(&b, &hasher).expect("UDP")));
    }
}
