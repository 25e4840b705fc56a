//! Data opened in the current batch. Most of it is flushed before the batch ends, so only the rest
//! is indexed by age and deadline.

use super::ids::SlotId;
use super::{Coalescer, Exit};
use crate::packet::{BATCH, Packet};
use alloc::vec::Vec;

/// Slots opened in this batch, oldest first; none for those flushed already.
#[derive(Debug)]
pub(super) struct Fresh {
    slots: Vec<Option<SlotId>>,
}

impl Fresh {
    pub(super) fn new() -> Self {
        Self { slots: Vec::with_capacity(BATCH) }
    }

    /// Adds the data at `slot`; returns its index, plus 1.
    #[inline(always)]
    pub(super) fn add(&mut self, slot: SlotId) -> u16 {
        self.slots.push(Some(slot));
        // At most as many as a batch has packets.
        self.slots.len() as u16
    }

    /// Whether there are as many as a batch has packets.
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= BATCH
    }

    /// Removes the entry at this index.
    #[inline(always)]
    pub(super) fn forget(&mut self, place: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(place).wrapping_sub(1)) {
            *slot = None;
        }
    }

    /// The entry at this index, if there is one.
    fn get(&self, place: usize) -> Option<Option<SlotId>> {
        self.slots.get(place).copied()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Indexes the opened data by age, and by deadline unless it is that of the hold budget. By address it is listed
    /// later; see [`Coalescer::list_ends`].
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if !self.fresh.slots.is_empty() {
            self.settle_all();
        }
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        for place in 0.. {
            let Some(slot) = self.fresh.get(place) else { break };
            let Some(slot) = slot else { continue };
            let idle = self.idle_at(slot);
            let entry = &mut self.held.get_mut(slot).entry;
            entry.fresh = 0;
            self.ages.insert(0, slot);
            if idle < entry.spent {
                entry.armed = idle;
                self.wheel.arm(slot, idle);
            }
        }
        self.fresh.slots.clear();
    }

    /// Flushes the data opened by quiet flows, oldest first.
    pub(super) fn flush_quiet<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        // Between nearby hosts, a request and its answer may arrive within the floor.
        let soon_ns = self.floor_ns / 2;
        for place in 0.. {
            let Some(slot) = self.fresh.get(place) else { break };
            let Some(slot) = slot else { continue };
            if self.table.is_quiet(self.held.get(slot).entry.flow, soon_ns) {
                self.flush(slot, super::Flush::BatchEnd, out);
            }
        }
    }

    /// Flushes the data opened in this batch, oldest first.
    pub(super) fn flush_fresh<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        reason: super::Flush,
        out: &mut F,
    ) {
        for place in 0.. {
            let Some(slot) = self.fresh.get(place) else { break };
            slot.into_iter().for_each(|slot| self.flush(slot, reason, out));
        }
        self.fresh.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_listed_than_a_batch_has() {
        let mut fresh = Fresh::new();
        for slot in 0..BATCH {
            assert!(!fresh.is_full());
            assert_eq!(usize::from(fresh.add(slot as SlotId)), slot + 1);
        }
        assert!(fresh.is_full());
    }
}
