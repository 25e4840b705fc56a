//! What flows hold, in memory of fixed size: merged packets as they grow.

use super::aggregate::Aggregate;
use crate::packet::Packet;
use alloc::vec::Vec;

/// Place of a merged packet in the slab.
pub(super) type SlotId = u32;

/// A merged packet while it grows.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) aggregate: Aggregate,
    /// The first packet, with those behind it as its chain.
    pub(super) packet: Option<Packet<B>>,
}

/// Places for as many merged packets as given at construction.
#[derive(Debug)]
pub(super) struct Slab<B> {
    slots: Vec<Held<B>>,
    /// Free places, the last used on top: it is the one most likely in the cache.
    free: Vec<SlotId>,
}

impl<B> Slab<B> {
    pub(super) fn new(places: usize) -> Self {
        let ids = 0..u32::try_from(places).unwrap_or(u32::MAX);
        let empty = |_| Held { aggregate: Aggregate::default(), packet: None };
        Self { slots: ids.clone().map(empty).collect(), free: ids.rev().collect() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Keeps a packet as the first of a merged one. The caller has made room; else it comes back.
    #[inline]
    pub(super) fn open(
        &mut self,
        packet: Packet<B>,
        aggregate: Aggregate,
    ) -> Result<SlotId, Packet<B>> {
        let Some(id) = self.free.pop() else { return Err(packet) };
        let slot = &mut self.slots[id as usize];
        slot.packet = Some(packet);
        slot.aggregate = aggregate;
        Ok(id)
    }

    #[inline(always)]
    pub(super) fn get(&self, id: SlotId) -> &Held<B> {
        &self.slots[id as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: SlotId) -> &mut Held<B> {
        &mut self.slots[id as usize]
    }

    /// Takes the packet at `id`, whose place becomes free.
    #[inline]
    pub(super) fn take(&mut self, id: SlotId) -> Option<Packet<B>> {
        let packet = self.slots[id as usize].packet.take()?;
        self.free.push(id);
        Some(packet)
    }
}
