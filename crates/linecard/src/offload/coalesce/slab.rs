//! Memory of fixed size for held data: packets, and those merged into them.
//!
//! Every packet is first stored ("lands") in a free place and looked at there. The first packet of a
//! merged one stays there and is not moved until it leaves.

use super::aggregate::Aggregate;
use super::ids::{FlowId, SlotId};
use super::successor::Successor;
use crate::packet::Packet;
use crate::time::Instant;
use alloc::vec::Vec;

/// Held data. Of a packet that stays alone, only the first part and the packet are written.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Held<B> {
    pub(super) entry: Entry,
    /// The first packet; those merged into it are its chain.
    pub(super) packet: Option<Packet<B>>,
    /// Valid if the packet has been examined.
    pub(super) aggregate: Aggregate,
}

/// When and where data is held, and what may join it: a cache line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) flow: FlowId,
    /// Its index among those opened in this batch, plus 1; see [`super::fresh`].
    pub(super) fresh: u16,
    /// Whether it is listed by its addresses.
    pub(super) listed: bool,
    /// Whether its first packet has been examined, its checksums verified.
    pub(super) examined: bool,
    pub(super) successor: Successor,
    pub(super) opened: Instant,
    /// When its hold budget is used up.
    pub(super) spent: Instant,
    /// The deadline that its timer is set to; never if it is not set, because the budget ends before.
    pub(super) armed: Instant,
}

const _: () = assert!(size_of::<Entry>() <= 64);

impl Entry {
    /// Of a packet that has not been examined.
    #[inline(always)]
    pub(super) fn new<B: AsRef<[u8]>>(
        (flow, packet): (FlowId, &Packet<B>),
        opened: Instant,
        spent: Instant,
    ) -> Self {
        let successor = Successor::of((packet.layout(), packet.bytes()));
        let (fresh, listed, examined, armed) = (0, false, false, Instant::NEVER);
        Self { flow, fresh, listed, examined, successor, opened, spent, armed }
    }

    const UNUSED: Self = Self {
        flow: 0,
        fresh: 0,
        listed: false,
        examined: false,
        successor: Successor::NONE,
        opened: Instant::ZERO,
        spent: Instant::ZERO,
        armed: Instant::NEVER,
    };
}

/// As many places for merged packets as given at construction, and one to land on.
#[derive(Debug)]
pub(super) struct Slab<B> {
    slots: Vec<Held<B>>,
    /// Free places; the last used, which is most likely cached, is on top.
    free: Vec<SlotId>,
    landing: SlotId,
}

impl<B> Slab<B> {
    pub(super) fn new(places: usize) -> Self {
        let last = u32::try_from(places).unwrap_or(u32::MAX - 1);
        let empty =
            |_| Held { entry: Entry::UNUSED, packet: None, aggregate: Aggregate::default() };
        Self {
            slots: (0..=last).map(empty).collect(),
            free: (0..last).rev().collect(),
            landing: last,
        }
    }

    /// Number of slot ids.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Stores a packet in the landing place.
    #[inline(always)]
    pub(super) fn land(&mut self, packet: Packet<B>) {
        self.slots[self.landing as usize].packet = Some(packet);
    }

    /// The packet that has landed.
    #[inline(always)]
    pub(super) fn landed(&self) -> Option<&Packet<B>> {
        self.slots[self.landing as usize].packet.as_ref()
    }

    /// Removes the packet that has landed.
    #[inline(always)]
    pub(super) fn take_landed(&mut self) -> Option<Packet<B>> {
        self.slots[self.landing as usize].packet.take()
    }

    /// Keeps the packet that has landed as the first of a merged one. None if no place is free,
    /// which the caller has to prevent.
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

    /// The packet that has landed, and a place whose data it may join.
    #[inline(always)]
    pub(super) fn landed_and(&mut self, id: SlotId) -> (Option<Packet<B>>, &mut Held<B>) {
        (self.take_landed(), &mut self.slots[id as usize])
    }

    /// Removes the packet at `id` and frees its place.
    #[inline]
    pub(super) fn take(&mut self, id: SlotId) -> Option<Packet<B>> {
        let packet = self.slots[id as usize].packet.take()?;
        self.free.push(id);
        Some(packet)
    }
}
