//! What has been opened in the batch under way. Most of it is let go before the batch is over, so
//! only what is still there then is listed by age, ends and deadline.

use super::slab::SlotId;
use super::{Coalescer, Exit};
use crate::packet::{BATCH, Packet};
use alloc::vec::Vec;

/// Opened in this batch, oldest first; none for those let go again.
#[derive(Debug)]
pub(super) struct Fresh {
    slots: Vec<Option<SlotId>>,
}

impl Fresh {
    pub(super) fn new() -> Self {
        Self { slots: Vec::with_capacity(BATCH) }
    }

    /// Adds what is held at `slot`; gives its place, plus 1.
    #[inline(always)]
    pub(super) fn add(&mut self, slot: SlotId) -> u16 {
        self.slots.push(Some(slot));
        // At most as many as a batch has packets.
        self.slots.len() as u16
    }

    /// Forgets what is at this place.
    #[inline(always)]
    pub(super) fn forget(&mut self, place: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(place).wrapping_sub(1)) {
            *slot = None;
        }
    }

    /// What is at this place, if there is such a place.
    fn get(&self, place: usize) -> Option<Option<SlotId>> {
        self.slots.get(place).copied()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Lists what has been opened, to be found by age, ends and deadline.
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
            self.held.get_mut(slot).aggregate.fresh = 0;
            self.ages.insert(0, slot);
            if let Some(packet) = &self.held.get(slot).packet {
                self.ends.enter(&self.hasher, packet, slot);
            }
            self.wheel.arm(slot, self.deadline(slot));
        }
        self.fresh.slots.clear();
    }

    /// Lets go what quiet flows have opened, oldest first.
    pub(super) fn flush_quiet<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        // A request and its answer may take no longer than the floor where both ends are near.
        let soon_ns = self.floor_ns / 2;
        for place in 0.. {
            let Some(slot) = self.fresh.get(place) else { break };
            let Some(slot) = slot else { continue };
            if self.table.is_quiet(self.held.get(slot).aggregate.flow, soon_ns) {
                self.flush(slot, super::Flush::BatchEnd, out);
            }
        }
    }

    /// Lets go what has been opened, oldest first.
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
