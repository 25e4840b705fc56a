//! Held packets in memory of fixed size, chained per flow.

use crate::packet::Packet;
use alloc::vec::Vec;

/// Place of a packet in the slab.
pub(super) type SlotId = u32;

#[derive(Debug)]
struct Slot<B> {
    packet: Option<Packet<B>>,
    next: SlotId,
}

/// Places for as many packets as given at construction.
#[derive(Debug)]
pub(super) struct Slab<B> {
    slots: Vec<Slot<B>>,
    /// Free places, the last used on top: it is the one most likely in the cache.
    free: Vec<SlotId>,
}

impl<B: AsRef<[u8]>> Slab<B> {
    pub(super) fn new(packets: usize) -> Self {
        let ids = 0..u32::try_from(packets).unwrap_or(u32::MAX);
        Self {
            slots: ids.clone().map(|_| Slot { packet: None, next: 0 }).collect(),
            free: ids.rev().collect(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Keeps a packet. The caller has made room; were there none, the slab would grow rather
    /// than lose a packet.
    pub(super) fn insert(&mut self, packet: Packet<B>) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { packet: None, next: 0 });
            (self.slots.len() - 1) as SlotId
        });
        self.slots[id as usize].packet = Some(packet);
        id
    }

    /// Chains `next` behind `id`.
    pub(super) fn link(&mut self, id: SlotId, next: SlotId) {
        self.slots[id as usize].next = next;
    }

    pub(super) fn get(&self, id: SlotId) -> Option<&Packet<B>> {
        self.slots[id as usize].packet.as_ref()
    }

    /// Takes the packet at `id`, and tells which one is chained behind it.
    pub(super) fn take(&mut self, id: SlotId) -> Option<(Packet<B>, SlotId)> {
        let slot = &mut self.slots[id as usize];
        let packet = slot.packet.take()?;
        self.free.push(id);
        Some((packet, slot.next))
    }
}
