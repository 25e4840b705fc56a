//! Receive side scaling: the Toeplitz hash with which network hardware distributes flows over
//! queues.

use super::header::{self, Ipv4};
use super::layout::{Layer, LayerKind};
use super::{Layout, Packet};
use alloc::boxed::Box;
use alloc::vec;

/// Bytes of a key: enough for two IPv6 addresses and two ports.
pub const RSS_KEY_LEN: usize = 40;
/// The most bytes that are hashed.
const INPUT_LEN: usize = 36;

/// The hash of Microsoft's "RSS hashing functions", which most hardware implements: of addresses and
/// ports, source first.
///
/// A packet is hashed by its outermost IP header, and by the ports if TCP or UDP directly follows
/// that header: fragments, other protocols and packets with IPv6 extension headers are hashed by
/// their addresses alone. Packets other than IP hash to 0.
///
/// ```
/// use linecard::packet::{LinkType, Meta, Packet, Toeplitz};
/// let toeplitz = Toeplitz::new(&Toeplitz::MICROSOFT);
/// // From 66.9.149.187, port 2794, to 161.142.100.80, port 1766: the first published example.
/// let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
/// bytes.extend([66, 9, 149, 187, 161, 142, 100, 80]);
/// bytes.extend([0x0A, 0xEA, 0x06, 0xE6, 0, 8, 0, 0]);
/// let packet = Packet::new(bytes, LinkType::Raw, Meta::default());
/// assert_eq!(toeplitz.of(&packet), 0x51CC_C178);
/// ```
#[derive(Debug, Clone)]
pub struct Toeplitz {
    /// The contribution of each half byte of the input.
    tables: Box<[[u32; 16]]>,
}

impl Toeplitz {
    /// The key of the published examples, the default of much hardware.
    pub const MICROSOFT: [u8; RSS_KEY_LEN] = [
        0x6D, 0x5A, 0x56, 0xDA, 0x25, 0x5B, 0x0E, 0xC2, 0x41, 0x67, 0x25, 0x3D, 0x43, 0xA3, 0x8F,
        0xB0, 0xD0, 0xCA, 0x2B, 0xCB, 0xAE, 0x7B, 0x30, 0xB4, 0x77, 0xCB, 0x2D, 0xA3, 0x80, 0x30,
        0xF2, 0x0C, 0x6A, 0x42, 0xB7, 0x3B, 0xBE, 0xAC, 0x01, 0xFA,
    ];

    /// A key under which both directions of a connection have the same hash: it repeats every 16
    /// bits, so that swapping addresses and ports changes nothing. Any such key works; a secret one
    /// keeps peers from choosing the queue.
    pub const SYMMETRIC: [u8; RSS_KEY_LEN] = {
        let mut key = [0x6D; RSS_KEY_LEN];
        let mut index = 1;
        while index < RSS_KEY_LEN {
            key[index] = 0x5A;
            index += 2;
        }
        key
    };

    /// The hash under this key.
    #[must_use]
    pub fn new(key: &[u8; RSS_KEY_LEN]) -> Self {
        let mut tables = vec![[0; 16]; INPUT_LEN * 2].into_boxed_slice();
        for (nibble, table) in tables.iter_mut().enumerate() {
            for (value, sum) in table.iter_mut().enumerate() {
                let bits = (0..4).filter(|bit| value >> (3 - bit) & 1 == 1);
                *sum = bits.fold(0, |sum, bit| sum ^ window(key, nibble * 4 + bit));
            }
        }
        Self { tables }
    }

    /// The hash of up to 36 bytes; later bytes are ignored.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let pairs = input.iter().zip(self.tables.as_chunks::<2>().0);
        pairs.fold(0, |sum, (byte, [upper, lower])| {
            sum ^ upper[usize::from(byte >> 4)] ^ lower[usize::from(byte & 15)]
        })
    }

    /// The hash of a packet.
    #[must_use]
    pub fn of<B: AsRef<[u8]>>(&self, packet: &Packet<B>) -> u32 {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let Some((network, ports)) = fields(layout, bytes) else { return 0 };
        let addresses = match network.kind {
            LayerKind::Ipv4 => network.at() + 12..network.at() + 20,
            _ => network.at() + 8..network.at() + 40,
        };
        let mut input = [0; INPUT_LEN];
        let len = addresses.len();
        input[..len].copy_from_slice(&bytes[addresses]);
        let Some(at) = ports else { return self.hash(&input[..len]) };
        input[len..len + 4].copy_from_slice(&bytes[at..at + 4]);
        self.hash(&input[..len + 4])
    }
}

/// The outermost IP header, and the offset of the ports if they directly follow it.
fn fields(layout: &Layout, bytes: &[u8]) -> Option<(Layer, Option<usize>)> {
    let mut layers = layout.layers().skip_while(|layer| !layer.kind.is_ip());
    let network = layers.next()?;
    let end = network.at()
        + match network.kind {
            LayerKind::Ipv4 => header::at::<Ipv4>(bytes, network.at()).header_len(),
            _ => header::Ipv6::LEN,
        };
    let transport = layers
        .next()
        .filter(|layer| matches!(layer.kind, LayerKind::Tcp | LayerKind::Udp) && layer.at() == end);
    Some((network, transport.map(Layer::at)))
}

/// The 32 bits of the key that start at `bit`.
fn window(key: &[u8; RSS_KEY_LEN], bit: usize) -> u32 {
    let byte = |index: usize| u64::from(key.get(bit / 8 + index).copied().unwrap_or(0));
    let bits = (0..5).fold(0, |bits, index| bits << 8 | byte(index));
    (bits >> (8 - bit % 8)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{LinkType, Meta};
    use alloc::vec::Vec;
    use core::net::IpAddr;

    /// The published verification suite: destination and source with ports, the hash of addresses,
    /// and the hash of both.
    const PUBLISHED: [(&str, u16, &str, u16, u32, u32); 8] = [
        ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323E_8FC2, 0x51CC_C178),
        ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xD718_262A, 0xC626_B0EA),
        ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xD2D0_A5DE, 0x5C2B_394A),
        ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xAFC7_327F),
        ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5D18_09C5, 0x10E8_28A2),
        ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2CC1_8CD5, 0x4020_7D3D),
        ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0F0C_461C, 0xDDE5_1BBF),
        (
            "fe80::200:f8ff:fe21:67cf",
            38024,
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            0x4B61_E985,
            0x02D1_FEEF,
        ),
    ];

    fn octets(address: &str) -> Vec<u8> {
        match address.parse().expect("an address") {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }

    fn packet(protocol: u8, source: (&str, u16), destination: (&str, u16)) -> Packet<Vec<u8>> {
        let (from, to) = (octets(source.0), octets(destination.0));
        let mut bytes = if from.len() == 4 {
            vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0]
        } else {
            vec![0x60, 0, 0, 0, 0, 8, protocol, 64]
        };
        bytes.extend([from, to].concat());
        bytes
            .extend([source.1.to_be_bytes(), destination.1.to_be_bytes(), [0, 8], [0, 0]].concat());
        Packet::new(bytes, LinkType::Raw, Meta::default())
    }

    /// Promise (Offloads): Flows are steered as network hardware does (Toeplitz): 8 published
    /// examples, IPv4 and IPv6, with and without ports.
    #[test]
    fn equals_the_published_examples() {
        let toeplitz = Toeplitz::new(&Toeplitz::MICROSOFT);
        for (to, to_port, from, from_port, addresses, both) in PUBLISHED {
            let (from, to) = ((from, from_port), (to, to_port));
            assert_eq!(toeplitz.of(&packet(17, from, to)), both, "{from:?}");
            // ICMP shows no ports.
            assert_eq!(toeplitz.of(&packet(1, from, to)), addresses, "{from:?}");
        }
    }

    #[test]
    fn is_symmetric_under_a_symmetric_key() {
        let toeplitz = Toeplitz::new(&Toeplitz::SYMMETRIC);
        for (to, to_port, from, from_port, ..) in PUBLISHED {
            let (from, to) = ((from, from_port), (to, to_port));
            let hash = toeplitz.of(&packet(17, from, to));
            assert_eq!(hash, toeplitz.of(&packet(17, to, from)));
            assert_ne!(hash, 0);
        }
    }

    /// Bit by bit, as the definition has it.
    #[test]
    fn equals_the_definition() {
        let mut rng = crate::rng::Rng::new(11);
        for len in 0..=INPUT_LEN + 4 {
            let (mut key, mut input) = ([0; RSS_KEY_LEN], vec![0; len]);
            rng.fill(&mut key);
            rng.fill(&mut input);
            let bit = |at: usize| input[at / 8] >> (7 - at % 8) & 1 == 1;
            let bits = (0..len.min(INPUT_LEN) * 8).filter(|at| bit(*at));
            let expected = bits.fold(0, |sum, at| sum ^ window(&key, at));
            assert_eq!(Toeplitz::new(&key).hash(&input), expected, "{len}");
        }
    }

    #[test]
    fn what_is_not_ip_hashes_to_nothing() {
        let toeplitz = Toeplitz::new(&Toeplitz::MICROSOFT);
        assert_eq!(toeplitz.of(&Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default())), 0);
        assert_eq!(toeplitz.of(&Packet::new([0_u8; 0], LinkType::Raw, Meta::default())), 0);
    }
}
