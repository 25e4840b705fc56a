//! Congestion marks of a datagram's fragments (RFC 3168, section 5.3).

use super::fragment::{is_ip, layers, start};
use crate::packet::header::{self, Ipv4, Ipv6};
use crate::packet::{Layer, LayerKind, Layout, MAX_LAYERS};

/// Congestion experienced.
const CE: u8 = 3;
/// Of one layer: the codepoint Not-ECT alone, and CE.
const NOT_ECT: u32 = 1;
const MARKED: u32 = 1 << CE;

/// The set of codepoints of the fragments, four bits per layer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ecn(u32);

const _: () = assert!(MAX_LAYERS * 4 <= 32);

impl Ecn {
    /// The codepoints of one packet.
    pub(super) fn of(bytes: &[u8], layout: &Layout) -> Self {
        let ip = layers(layout).enumerate().filter(|(_, layer)| is_ip(layer.kind));
        Self(ip.fold(0, |seen, (index, layer)| seen | 1 << (4 * index as u32 + code(bytes, layer))))
    }

    /// The codepoints of both.
    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether Not-ECT occurs together with others. With CE the datagram must not be completed, and
    /// without it no conforming sender produces it (Linux gives up both).
    pub(super) fn is_mixed(self) -> bool {
        let layers = (0..MAX_LAYERS).map(|index| self.layer(index));
        layers.into_iter().any(|seen| seen & NOT_ECT != 0 && seen != NOT_ECT)
    }

    /// Marks the headers of the first fragment if any fragment was marked: no mark may be lost.
    pub(super) fn mark(self, bytes: &mut [u8], layout: &Layout) {
        for (index, layer) in layers(layout).enumerate() {
            if self.layer(index) & MARKED != 0 {
                set_marked(bytes, layer);
            }
        }
    }

    fn layer(self, index: usize) -> u32 {
        self.0 >> (4 * index) & 0xF
    }
}

fn code(bytes: &[u8], layer: Layer) -> u32 {
    match layer.kind {
        LayerKind::Ipv4 => u32::from(header::at::<Ipv4>(bytes, start(layer)).tos & CE),
        _ => header::at::<Ipv6>(bytes, start(layer)).version_class_label >> 20 & u32::from(CE),
    }
}

fn set_marked(bytes: &mut [u8], layer: Layer) {
    match layer.kind {
        LayerKind::Ipv4 => bytes[start(layer) + Ipv4::TOS] |= CE,
        LayerKind::Ipv6 => {
            let word = header::at::<Ipv6>(bytes, start(layer)).version_class_label;
            header::set_be32(bytes, start(layer), word | u32::from(CE) << 20);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3168, section 5.3, for every set of codepoints, in any layer.
    #[test]
    fn not_ect_stands_alone() {
        for layer in 0..MAX_LAYERS {
            for seen in 1..16_u32 {
                let ecn = Ecn(seen << (4 * layer));
                assert_eq!(ecn.is_mixed(), seen & 1 == 1 && seen != 1, "{seen:04b}");
                assert_eq!(ecn.layer(layer) & MARKED != 0, seen >= 8);
            }
        }
        assert!(!Ecn(0x12).is_mixed(), "layers are judged apart");
        assert!(Ecn(1).or(Ecn(8)).is_mixed());
    }
}
