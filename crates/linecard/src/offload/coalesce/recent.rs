//! Recently opened data by ports: a guess at the data that the next packet continues, which needs
//! neither its layout nor its hash. The guess is verified in full, so a wrong one costs only a
//! little time.

use super::ids::SlotId;

/// Entries: somewhat more than the flows that usually share a link in turns.
const PLACES: usize = 64;

/// Recently opened slots by ports.
#[derive(Debug)]
pub(super) struct Recent {
    slots: [Option<SlotId>; PLACES],
    /// The port offset of the last entry: most packets have the same.
    ports: usize,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { slots: [None; PLACES], ports: 0 }
    }

    /// Records that data whose first packet has these bytes, with ports at this offset, is at
    /// `slot`. Nothing is recorded if the offset is 0, because such data cannot be predicted.
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

    /// The slot of the data that this packet may continue.
    #[inline(always)]
    pub(super) fn guess(&self, bytes: &[u8]) -> Option<SlotId> {
        self.slots[self.place(bytes)?]
    }

    #[inline(always)]
    fn place(&self, bytes: &[u8]) -> Option<usize> {
        // Fibonacci hashing: the upper bits depend on all bits.
        let hash = self.ports_of(bytes)?.wrapping_mul(0x9E37_79B9);
        Some((hash >> (u32::BITS - PLACES.ilog2())) as usize)
    }

    /// The bytes where most packets have their ports.
    #[inline(always)]
    pub(super) fn ports_of(&self, bytes: &[u8]) -> Option<u32> {
        Some(u32::from_ne_bytes(*bytes.get(self.ports..)?.first_chunk()?))
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
