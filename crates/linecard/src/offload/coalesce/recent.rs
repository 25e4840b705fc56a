//! What was opened last, by its ports: a guess at what the next packet continues that needs neither
//! its layout nor its hash. Whether it does is compared in full, so that a wrong guess costs a
//! little time and nothing else.

use super::slab::SlotId;

/// Places: some more than flows that share a link in turns most often.
const PLACES: usize = 64;

/// Places of what was opened last, by ports.
#[derive(Debug)]
pub(super) struct Recent {
    slots: [Option<SlotId>; PLACES],
    /// Where the last one had its ports: most have them there.
    ports: usize,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { slots: [None; PLACES], ports: 0 }
    }

    /// Notes that what begins with these bytes, and has its ports there, is at `slot`. With its
    /// ports at 0 it cannot be predicted, and nothing is noted.
    #[inline(always)]
    pub(super) fn note(&mut self, bytes: &[u8], ports: usize, slot: SlotId) {
        if ports == 0 {
            return;
        }
        self.ports = ports;
        if let Some(place) = self.place(bytes) {
            self.slots[place] = Some(slot);
        }
    }

    /// Where what this packet continues may be.
    #[inline(always)]
    pub(super) fn guess(&self, bytes: &[u8]) -> Option<SlotId> {
        self.slots[self.place(bytes)?]
    }

    #[inline(always)]
    fn place(&self, bytes: &[u8]) -> Option<usize> {
        let ports = u32::from_ne_bytes(*bytes.get(self.ports..)?.first_chunk()?);
        // Fibonacci hashing: the upper bits depend on all.
        Some((ports.wrapping_mul(0x9E37_79B9) >> (u32::BITS - PLACES.ilog2())) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_predicted_leaves_other_guesses_alone() {
        let (one, other) = ([1_u8; 40], [2_u8; 40]);
        let mut recent = Recent::new();
        recent.note(&one, 34, 7);
        recent.note(&other, 0, 8);
        assert_eq!(recent.guess(&one), Some(7));
        assert_eq!(recent.guess(&other[..37]), None);
    }
}
