//! A keyed hash that identifies the flow of a packet.

use super::header::{self, Ipv4, Ipv6, be16};
use super::layout::{Form, Layer, LayerKind, MAX_HEADER_LEN, MAX_TUNNELS};
use super::link::ethertype;
use super::parse::{Plain, plain_ipv4, plain_ipv6};
use super::shape::{Shape, Shapes};
use super::{Layout, LinkType, Packet};
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

/// Fields of a frame with the headers of most packets.
pub(crate) struct Glance {
    pub(crate) layout: Layout,
    /// Of its flow.
    pub(crate) hash: u64,
    /// It carries no data.
    pub(crate) is_empty: bool,
    /// None of UDP.
    pub(crate) tcp_flags: u16,
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
        self.usual_flow_of(packet.bytes(), packet.layout(), packet.meta.lane)
    }

    /// [`FlowHasher::flow`] for packets with other headers than most.
    #[inline]
    fn flow_of(&mut self, bytes: &[u8], layout: &Layout, lane: u32) -> Option<u64> {
        let Self { keys, last, shapes } = self;
        if !matches!(layout.form(), Form::Datagram | Form::Padded) {
            return None;
        }
        let shape = shapes.of(layout)?;
        Some(hash((keys, last), shape, bytes, lane))
    }

    /// Fields of a frame if it has the headers of most packets, with a hash as in
    /// [`FlowHasher::usual_flow_of`].
    #[inline(always)]
    pub(crate) fn glance(&self, link: LinkType, bytes: &[u8], lane: u32) -> Option<Glance> {
        let (plain, hash) = self.plain(link, bytes, lane)?;
        let is_empty = plain.payload_len() == 0;
        Some(Glance { layout: plain.layout(), hash, is_empty, tcp_flags: plain.flags })
    }

    #[inline(always)]
    fn plain(&self, link: LinkType, bytes: &[u8], lane: u32) -> Option<(Plain, u64)> {
        const ETHERNET: usize = 14;
        match link {
            LinkType::Ethernet => match be16(bytes, ETHERNET - 2)? {
                ethertype::IPV4 => Some((
                    plain_ipv4::<ETHERNET>(bytes)?,
                    self.usual_ipv4::<ETHERNET, 38>(bytes, lane)?,
                )),
                ethertype::IPV6 => Some((
                    plain_ipv6::<ETHERNET>(bytes)?,
                    self.usual_ipv6::<ETHERNET, 58>(bytes, lane)?,
                )),
                _ => None,
            },
            LinkType::Raw => match bytes.first()? >> 4 {
                4 => Some((plain_ipv4::<0>(bytes)?, self.usual_ipv4::<0, 24>(bytes, lane)?)),
                6 => Some((plain_ipv6::<0>(bytes)?, self.usual_ipv6::<0, 44>(bytes, lane)?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// [`FlowHasher::flow`] for bytes with this layout. It is fast for the headers of most packets: TCP or UDP over IP
    /// without options, extension headers, tags or tunnels.
    #[inline(always)]
    pub(crate) fn usual_flow_of(
        &mut self,
        bytes: &[u8],
        layout: &Layout,
        lane: u32,
    ) -> Option<u64> {
        const ETHERNET: u16 = 14;
        // Bytes behind a datagram do not make another flow of it.
        let network = layout.usual_network().or_else(|| layout.usual_network_in(Form::Padded));
        match network.map(|layer| (layer.kind, layer.offset)) {
            Some((LayerKind::Ipv4, ETHERNET)) => self.usual_ipv4::<14, 38>(bytes, lane),
            Some((LayerKind::Ipv6, ETHERNET)) => self.usual_ipv6::<14, 58>(bytes, lane),
            Some((LayerKind::Ipv4, 0)) => self.usual_ipv4::<0, 24>(bytes, lane),
            Some((LayerKind::Ipv6, 0)) => self.usual_ipv6::<0, 44>(bytes, lane),
            _ => self.flow_of(bytes, layout, lane),
        }
    }

    /// With IP from `AT` on, and ports that end at `END`.
    #[inline(always)]
    fn usual_ipv4<const AT: usize, const END: usize>(
        &self,
        bytes: &[u8],
        lane: u32,
    ) -> Option<u64> {
        let bytes = bytes.first_chunk::<END>()?;
        let ports = four(bytes, AT + 20);
        let transport = bytes[AT + 9];
        let ends = [eight(bytes, AT + 12), u64::from(transport) << 32 | u64::from(ports)];
        Some(self.usual_hash::<AT>(bytes, lane, &[ends]))
    }

    #[inline(always)]
    fn usual_ipv6<const AT: usize, const END: usize>(
        &self,
        bytes: &[u8],
        lane: u32,
    ) -> Option<u64> {
        let bytes = bytes.first_chunk::<END>()?;
        let ports = four(bytes, AT + 40);
        let transport = bytes[AT + 6];
        // Version and flow label, without the traffic class between them.
        let label = u32::from_be(four(bytes, AT)) & 0xF00F_FFFF;
        let label = u64::from(transport) << 32 | u64::from(label);
        let words = [
            [eight(bytes, AT + 8), eight(bytes, AT + 16)],
            [eight(bytes, AT + 24), eight(bytes, AT + 32)],
            [label, u64::from(ports)],
        ];
        Some(self.usual_hash::<AT>(bytes, lane, &words))
    }

    /// NH as in [`hash`], over the link header, if there is one, and these words.
    #[inline(always)]
    fn usual_hash<const AT: usize>(&self, bytes: &[u8], lane: u32, words: &[[u64; 2]]) -> u64 {
        let pair = |[a, b]: [u64; 2], [c, d]: [u64; 2]| {
            u128::from(a.wrapping_add(c)) * u128::from(b.wrapping_add(d))
        };
        let (keys, last) = (self.keys.as_chunks().0, &self.last);
        let mut sum = 0_u128;
        if AT > 0 {
            sum = pair([eight(bytes, 0), eight(bytes, AT - 8)], keys[0]);
        }
        for (words, keys) in words.iter().zip(&keys[1..]) {
            sum = sum.wrapping_add(pair(*words, *keys));
        }
        let place = u64::from(lane) << 32 | words.len() as u64;
        fold(sum as u64 ^ last[1], (sum >> 64) as u64 ^ place ^ last[2])
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
fn four(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::header::Tcp;
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

    /// A frame of few possible flows, which may have options, a tag, a tunnel's port, or be a fragment.
    fn any(rng: &mut Rng) -> (LinkType, Vec<u8>) {
        let mut below = |limit: u64| rng.below(limit) as u8;
        let ethernet = below(2) == 0;
        let (ipv4, transport) = (below(2) == 0, if below(2) == 0 { 6 } else { 17 });
        let mut bytes = Vec::new();
        if ethernet {
            bytes.extend([2, 0, 0, 0, 0, below(2), 2, 0, 0, 0, 0, 9]);
            if below(5) == 0 {
                bytes.extend([0x81, 0, 0, below(2)]);
            }
            bytes.extend(if ipv4 { [8, 0] } else { [0x86, 0xDD] });
        }
        let len = 20 + below(4);
        if ipv4 {
            let options = 4 * u8::from(below(5) == 0);
            let fragment = u8::from(below(5) == 0);
            bytes.extend([0x45 + options / 4, below(2), 0, 20 + options + len, 0, below(9)]);
            bytes.extend([0x40 * below(2), fragment, 60 + below(2), transport, 0, 0]);
            bytes.extend([10, 0, 0, below(2), 10, 0, 0, 7]);
            bytes.extend(core::iter::repeat_n(1, options.into()));
        } else {
            bytes.extend([0x60, 0x10 * below(2), 0, below(2), 0, len, transport, 60 + below(2)]);
            bytes.extend([0; 15]);
            bytes.push(below(2));
            bytes.extend([1; 16]);
        }
        let port: u16 = [7, 8, 4789, 8472][usize::from(below(4))];
        bytes.extend([0, below(2)]);
        bytes.extend(port.to_be_bytes());
        // Some datagrams end before their IP packet does.
        let rest: &[u8] = if transport == 6 {
            &[0, 0, 0, 9, 0, 0, 0, 0, 0x50]
        } else {
            &[0, len - u8::from(below(4) == 0)]
        };
        bytes.extend(rest);
        bytes.resize(bytes.len() + usize::from(len) - 4 - rest.len(), 0x66);
        (if ethernet { LinkType::Ethernet } else { LinkType::Raw }, bytes)
    }

    /// Both hashes tell flows apart alike.
    #[test]
    fn usual_packets_have_the_flows_that_others_would_have() {
        let (mut rng, mut hasher) = (Rng::new(3), FlowHasher::new(4));
        let mut usual_ones = 0;
        let all: Vec<_> = (0..3_000)
            .map(|_| {
                let (link, bytes) = any(&mut rng);
                let lane = rng.below(2) as u32;
                let layout = Layout::parse(link, &bytes);
                usual_ones += usize::from(layout.usual_network().is_some());
                let flow = hasher.flow_of(&bytes, &layout, lane);
                let usual = hasher.usual_flow_of(&bytes, &layout, lane);
                if let Some(glance) = hasher.glance(link, &bytes, lane) {
                    let Glance { layout: parsed, hash, is_empty, tcp_flags } = glance;
                    assert_eq!((parsed, Some(hash)), (layout, usual));
                    assert_eq!(is_empty, layout.payload().is_empty());
                    let tcp = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp);
                    let word = tcp.map(|tcp| header::at::<Tcp>(&bytes, tcp.at()).offset_flags);
                    assert_eq!(tcp_flags, word.unwrap_or_default() & 0x01FF);
                }
                (link, flow, usual)
            })
            .collect();
        assert!((500..2_500).contains(&usual_ones), "{usual_ones}");
        for (link, flow, usual) in &all {
            assert_eq!(flow.is_some(), usual.is_some());
            for (_, other, also) in all.iter().filter(|(of, ..)| of == link) {
                assert_eq!(flow == other, usual == also);
            }
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
