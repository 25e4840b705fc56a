//! What flows hold, in memory of fixed size: merged packets as they grow.
//!
//! Every packet lands here first, at a free place, and is looked at where it lies: the first of a
//! merged packet then stays, and is moved no more until it leaves.

use super::aggregate::Aggregate;
use crate::packet::Packet;
use alloc::vec::Vec;

/// Place of a merged packet in the slab.
pub(super) type SlotId = u32;

/// A merged packet while it grows, in as few cache lines as it fits in.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Held<B> {
    /// The first packet, with those behind it as its chain.
    pub(super) packet: Option<Packet<B>>,
    pub(super) aggregate: Aggregate,
}

/// Places for as many merged packets as given at construction, and one to land on.
#[derive(Debug)]
pub(super) struct Slab<B> {
    slots: Vec<Held<B>>,
    /// Free places, the last used on top: it is the one most likely in the cache.
    free: Vec<SlotId>,
    landing: SlotId,
}

impl<B> Slab<B> {
    pub(super) fn new(places: usize) -> Self {
        let last = u32::try_from(places).unwrap_or(u32::MAX - 1);
        let empty = |_| Held { packet: None, aggregate: Aggregate::default() };
        Self {
            slots: (0..=last).map(empty).collect(),
            free: (0..last).rev().collect(),
            landing: last,
        }
    }

    /// Ids that there are.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Puts a packet where the next one lands.
    #[inline(always)]
    pub(super) fn land(&mut self, packet: Packet<B>) {
        self.slots[self.landing as usize].packet = Some(packet);
    }

    /// The packet that has landed.
    #[inline(always)]
    pub(super) fn landed(&self) -> Option<&Packet<B>> {
        self.slots[self.landing as usize].packet.as_ref()
    }

    /// Takes the packet that has landed away.
    #[inline(always)]
    pub(super) fn take_landed(&mut self) -> Option<Packet<B>> {
        self.slots[self.landing as usize].packet.take()
    }

    /// Keeps the packet that has landed as the first of a merged one. The caller has made room;
    /// else there is no place.
    #[inline(always)]
    pub(super) fn open(&mut self) -> Option<(SlotId, &mut Held<B>)> {
        let slot = core::mem::replace(&mut self.landing, self.free.pop()?);
        Some((slot, &mut self.slots[slot as usize]))
    }

    #[inline(always)]
    pub(super) fn get(&self, id: SlotId) -> &Held<B> {
        &self.slots[id as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: SlotId) -> &mut Held<B> {
        &mut self.slots[id as usize]
    }

    /// The packet that has landed, and a place that it may join.
    #[inline(always)]
    pub(super) fn landed_and(&mut self, id: SlotId) -> (Option<Packet<B>>, &mut Held<B>) {
        (self.take_landed(), &mut self.slots[id as usize])
    }

    /// Takes the packet at `id`, whose place becomes free.
    #[inline]
    pub(super) fn take(&mut self, id: SlotId) -> Option<Packet<B>> {
        let packet = self.slots[id as usize].packet.take()?;
        self.free.push(id);
        Some(packet)
    }
}
