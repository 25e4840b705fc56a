//! A keyed hash that identifies the flow of a packet.

use super::header::{self, Ipv4, Ipv6};
use super::layout::{Form, Layer, LayerKind, MAX_HEADER_LEN, MAX_TUNNELS};
use super::shape::{Shape, Shapes};
use super::{Layout, Packet};
use crate::rng::Rng;

/// IP headers in one packet.
const MAX_ENDS: usize = MAX_TUNNELS + 1;
/// A key for each word of a header, and two for a last word that may overlap.
const WORD_KEYS: usize = MAX_HEADER_LEN / 8 + 2;

/// A keyed hash for flow tables.
///
/// It covers what a flow's packets have in common: lane, link header with VLAN tags and labels,
/// addresses, flow label, extension headers, ports, and the same fields of every outer header.
///
/// The construction is NH, the universal hash of UMAC (RFC 4418, section 5.2), on 64-bit words:
/// without the key, peers cannot choose packets that collide, and two flows collide with a
/// probability of about 2⁻⁶⁴. So the hash alone identifies a flow; in case of a collision two flows
/// share a table entry, but their packets never merge.
///
/// ```
/// use linecard::packet::{FlowHasher, LinkType, Meta, Packet};
/// let mut bytes = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2].to_vec();
/// bytes.extend([0, 7, 0, 53, 0, 8, 0, 0]);
/// let mut hasher = FlowHasher::new(1);
/// let first = hasher.flow(&Packet::new(bytes.clone(), LinkType::Raw, Meta::default()));
/// bytes[8] = 63; // Another TTL is the same flow, another port is not.
/// assert_eq!(hasher.flow(&Packet::new(bytes.clone(), LinkType::Raw, Meta::default())), first);
/// bytes[23] = 54;
/// assert_ne!(hasher.flow(&Packet::new(bytes, LinkType::Raw, Meta::default())), first);
/// ```
#[derive(Debug, Clone)]
pub struct FlowHasher {
    keys: [u64; WORD_KEYS],
    last: [u64; 4],
    shapes: Shapes,
}

impl FlowHasher {
    /// A hash keyed by `secret`: take it from the operating system's random source if peers are not
    /// trusted, or use a constant for reproducible runs.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        let mut rng = Rng::new(secret);
        Self {
            keys: core::array::from_fn(|_| rng.next_u64()),
            last: core::array::from_fn(|_| rng.next_u64() | 1),
            shapes: Shapes::new(),
        }
    }

    /// The hash of a packet's flow; none for packets whose ports are not visible or lie after more
    /// than [`MAX_HEADER_LEN`] bytes of headers.
    #[must_use]
    pub fn flow<B: AsRef<[u8]>>(&mut self, packet: &Packet<B>) -> Option<u64> {
        self.flow_of(packet.bytes(), packet.layout(), packet.meta.lane)
    }

    /// [`FlowHasher::flow`] for bytes with this layout.
    #[inline]
    pub(crate) fn flow_of(&mut self, bytes: &[u8], layout: &Layout, lane: u32) -> Option<u64> {
        let Self { keys, last, shapes } = self;
        if !matches!(layout.form(), Form::Datagram | Form::Padded) {
            return None;
        }
        let shape = shapes.of(layout)?;
        Some(hash((keys, last), shape, bytes, lane))
    }

    /// The shape of a packet.
    #[inline(always)]
    pub(crate) fn shape(&mut self, layout: &Layout) -> Option<&Shape> {
        self.shapes.of(layout)
    }

    /// Mixes bytes into a hash.
    #[inline]
    pub(crate) fn bytes(&self, mut hash: u64, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = self.pair(hash, u64::from_le_bytes(*word));
        }
        let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
        self.pair(hash ^ bytes.len() as u64, last)
    }

    /// Mixes a word into a hash.
    #[inline]
    pub(crate) fn pair(&self, hash: u64, word: u64) -> u64 {
        fold(hash ^ self.last[0], word ^ self.last[3])
    }

    /// Hashes of the address pairs of a packet: of the outermost pair, of that and the next one,
    /// and so on. Equal for all ports.
    pub(crate) fn ends<B: AsRef<[u8]>>(&self, packet: &Packet<B>) -> impl Iterator<Item = u64> {
        let bytes = packet.bytes();
        let start = fold(u64::from(packet.meta.lane) ^ self.last[0], self.last[1]);
        let networks = packet.layout().layers().filter(|layer| layer.kind.is_ip());
        networks.take(MAX_ENDS).scan(start, move |hash, layer| {
            let [a, b, c, d] = addresses(bytes, layer);
            let source = fold(a ^ self.last[2], b ^ self.last[3]);
            let destination = fold(c ^ self.last[3], d ^ self.last[0]);
            *hash = fold(*hash ^ source ^ self.last[1], destination ^ self.last[2]);
            Some(*hash)
        })
    }
}

/// NH over the masked words of the header, two at a time, and a final step with lane and length.
#[inline(always)]
fn hash(
    (keys, last): (&[u64; WORD_KEYS], &[u64; 4]),
    shape: &Shape,
    bytes: &[u8],
    lane: u32,
) -> u64 {
    let (header, mask) = shape.identity(bytes);
    let pair = |header: &[u8; 16], mask: &[u8; 16], keys: [u64; 2]| {
        let words = u128::from_le_bytes(*header) & u128::from_le_bytes(*mask);
        let low = (words as u64).wrapping_add(keys[0]);
        let high = ((words >> 64) as u64).wrapping_add(keys[1]);
        u128::from(low) * u128::from(high)
    };
    let mut sum = 0_u128;
    let pairs = header.as_chunks().0.iter().zip(mask.as_chunks().0).zip(keys.as_chunks().0);
    for ((header, mask), keys) in pairs {
        sum = sum.wrapping_add(pair(header, mask, *keys));
    }
    if let (Some(header), Some(mask)) = (header.last_chunk(), mask.last_chunk()) {
        sum = sum.wrapping_add(pair(header, mask, [last[2], last[3]]));
    }
    let place = u64::from(lane) << 32 | header.len() as u64;
    let folded = fold(sum as u64 ^ last[0], (sum >> 64) as u64 ^ place);
    fold(folded ^ last[1], sum as u64 ^ last[2])
}

/// Whether `packet` has the same addresses as the packet `of` a flow, from the outermost IP header
/// to the innermost that it has, and the same lane.
pub(crate) fn same_ends<A: AsRef<[u8]>, B: AsRef<[u8]>>(
    of: &Packet<A>,
    packet: &Packet<B>,
) -> bool {
    let ip = |layout: &Layout| layout.layers().filter(|layer| layer.kind.is_ip());
    let mut theirs = ip(of.layout());
    of.meta.lane == packet.meta.lane
        && ip(packet.layout()).all(|layer| {
            theirs.next().is_some_and(|their| {
                addresses(of.bytes(), their) == addresses(packet.bytes(), layer)
            })
        })
}

/// Addresses as four words; an IPv4 address fills the first word of its pair, and the second
/// distinguishes it from IPv6.
#[inline]
fn addresses(bytes: &[u8], network: Layer) -> [u64; 4] {
    if network.kind == LayerKind::Ipv4 {
        let ip = header::at::<Ipv4>(bytes, network.at());
        let word = |a: [u8; 4]| u64::from(u32::from_be_bytes(a));
        [word(ip.source), 4 << 32, word(ip.destination), 4 << 32]
    } else {
        let ip = header::at::<Ipv6>(bytes, network.at());
        let words = |a: [u8; 16]| {
            let both = u128::from_be_bytes(a);
            [(both >> 64) as u64, both as u64]
        };
        let ([a, b], [c, d]) = (words(ip.source), words(ip.destination));
        [a, b, c, d]
    }
}

#[inline(always)]
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
        let mut hasher = FlowHasher::new(1);
        let hashes: Vec<u64> =
            (0..4096).map(|port| hasher.flow(&udp(port)).expect("a UDP flow")).collect();
        for shift in [0, 16, 32, 48] {
            let distinct: BTreeSet<_> = hashes.iter().collect();
            assert_eq!(distinct.len(), 4096);
            let mut buckets = [0; 64];
            hashes.iter().for_each(|h| buckets[(h >> shift & 63) as usize] += 1);
            // 64 expected in each; five standard deviations.
            assert!(buckets.iter().all(|n| (24..104).contains(n)), "{buckets:?}");
        }
    }

    #[test]
    fn ends_do_not_depend_on_ports() {
        let hasher = FlowHasher::new(2);
        let (a, b) = (udp(1), udp(2));
        assert!(hasher.ends(&a).eq(hasher.ends(&b)));
        assert_eq!(hasher.ends(&a).count(), 1);
        assert!(same_ends(&a, &b));
    }
}
