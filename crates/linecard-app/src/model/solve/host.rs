//! The link to the host that carries packets of a size both ways, of each generation of PCI Express.

use super::super::core::ETHERNET;
use super::{HostLink, Slot, Solving};
use linecard_model::pcie::{Generation, Link, Nic, ethernet_needs_bits_per_second};
use linecard_model::solve::SolveInput;
use linecard_report::{BitRate, Named, Share};

/// Widths that slots and interfaces have. The specification has x32 too, which nobody builds.
const WIDTHS: [u32; 5] = [1, 2, 4, 8, 16];
const WIDEST: u32 = 16;
/// Slots that an interface may take beside each other, each with an equal part of the packets.
const MAX_SLOTS: u32 = 4;
/// Ethernet's check sequence, which stays in the interface.
const CHECK_SEQUENCE: u64 = 4;

impl Solving {
    /// The narrowest links that carry the packets of the line both ways.
    pub(super) fn host_link(&self) -> HostLink {
        let SolveInput { design, bits_per_second, .. } = &self.question;
        let frame = u64::from(design.mtu) + ETHERNET.get();
        let needed = ethernet_needs_bits_per_second(*bits_per_second, frame);
        let with_margin = needed * (1.0 + f64::from(self.margin) / 100.0);
        let slot = |generation: Generation| {
            let carries = |lanes: u32| {
                let link = Link::new(generation, lanes);
                let bytes = frame.saturating_sub(CHECK_SEQUENCE);
                link.map_or(0.0, |link| Nic::Polled.bps(&link, bytes))
            };
            (format!("gen{}", generation as u8 + 1), narrowest(needed, with_margin, carries))
        };
        let generations = Named(Generation::ALL.into_iter().map(slot).collect());
        HostLink { needed: BitRate(needed), generations, margin: self.margin }
    }
}

/// The narrowest link that carries a rate with its margin; else the fewest slots of the widest.
fn narrowest(needed: f64, with_margin: f64, carries: impl Fn(u32) -> f64) -> Slot {
    let one = WIDTHS.into_iter().map(|lanes| (1, lanes));
    let several = (2..=MAX_SLOTS).map(|slots| (slots, WIDEST));
    let rate = |(slots, lanes): (u32, u32)| f64::from(slots) * carries(lanes);
    let found = one.chain(several).find(|slot| rate(*slot) >= with_margin);
    let nearest = found.unwrap_or((MAX_SLOTS, WIDEST));
    Slot {
        slots: nearest.0,
        lanes: found.map(|(_, lanes)| lanes),
        nearest_lanes: nearest.1,
        carries_bits_per_second: BitRate(rate(nearest)),
        headroom: Share(rate(nearest) / needed - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::narrowest;

    /// A lane that carries 10: for 160, one x16; for more, several; for more than four of them, none.
    #[test]
    fn a_link_is_as_wide_as_it_must_be() {
        for (needed, slots, lanes) in [
            (10.0, 1, Some(1)),
            (41.0, 1, Some(8)),
            (160.0, 1, Some(16)),
            (161.0, 2, Some(16)),
            (640.0, 4, Some(16)),
            (641.0, 4, None),
        ] {
            let slot = narrowest(needed, needed, |lanes| 10.0 * f64::from(lanes));
            assert_eq!((slot.slots, slot.lanes), (slots, lanes), "{needed}: {slot:?}");
        }
    }
}
