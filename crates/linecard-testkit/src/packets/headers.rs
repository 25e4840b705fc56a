//! Random fields that headers have inside and outside of tunnels: identifications and VLAN tags.

use super::{between, pick};
use linecard::packet::LinkType;
use linecard::rng::Rng;

/// How a sender sets identifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    Fixed,
    Counting,
    Random,
}

impl Ids {
    pub fn next(self, rng: &mut Rng, id: u16) -> u16 {
        match self {
            Self::Fixed => id,
            Self::Counting => id.wrapping_add(1),
            Self::Random => rng.next_u64() as u16,
        }
    }
}

pub fn tags(rng: &mut Rng, link: LinkType) -> Vec<[u8; 4]> {
    let tagged = matches!(link, LinkType::Ethernet | LinkType::LinuxSll | LinkType::LinuxSll2);
    if !tagged || rng.chance(0.5) {
        return Vec::new();
    }
    let outer = pick(rng, &[[0x88, 0xA8], [0x91, 0], [0x81, 0]]);
    let id = rng.below(3) as u8;
    let all = [[outer[0], outer[1], 0x20, id], [0x81, 0, 0, id], [0x81, 0, 0x60, 1]];
    let count = between(rng, 0, 3) as usize;
    all[3 - count..].to_vec()
}
