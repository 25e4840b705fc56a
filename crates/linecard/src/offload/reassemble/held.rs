//! Held fragments in memory of fixed size: those of one datagram are linked twice, in data order
//! and in order of arrival.

use super::datagram::{Datagram, NONE, Slot};
use super::ecn::Ecn;
use super::fragment::Fragment;
use super::reason::GiveUp;
use crate::packet::Packet;
use alloc::vec::Vec;

/// A fragment that is held.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) packet: Packet<B>,
    pub(super) fragment: Fragment,
    /// The next by data, and the next by arrival.
    behind: Slot,
    later: Slot,
}

/// Why a fragment does not join its datagram.
#[derive(Debug)]
pub(super) enum Misfit {
    /// It is held already, and is otherwise valid.
    Duplicate,
    /// The datagram cannot be completed.
    Fault(GiveUp),
}

/// Places for as many fragments as given at construction.
#[derive(Debug)]
pub(super) struct Fragments<B> {
    slots: Vec<Option<Held<B>>>,
    /// Free places; the last used, which is most likely cached, is on top.
    free: Vec<Slot>,
}

impl<B: AsRef<[u8]>> Fragments<B> {
    pub(super) fn new(fragments: usize) -> Self {
        let slots = 0..u32::try_from(fragments).unwrap_or(NONE);
        Self { slots: slots.clone().map(|_| None).collect(), free: slots.rev().collect() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Held<B>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Held<B>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The data of a datagram from the fragment at `slot` on, in order.
    pub(super) fn data(&self, mut slot: Slot) -> impl Iterator<Item = &[u8]> {
        core::iter::from_fn(move || {
            let held = self.get(slot)?;
            slot = held.behind;
            Some(&held.packet.bytes()[held.fragment.data()])
        })
    }

    /// The position of a fragment among those of its datagram: after the returned slot. Data is
    /// read only if a held fragment covers exactly the same range.
    pub(super) fn fits(
        &self,
        datagram: &Datagram,
        packet: &Packet<B>,
        fragment: &Fragment,
        most: u16,
    ) -> Result<Slot, Misfit> {
        let ahead = self.ahead(datagram, fragment.offset);
        if self.get(ahead).is_some_and(|held| is_duplicate(held, packet, fragment)) {
            return Err(Misfit::Duplicate);
        }
        if datagram.contradicts_end(fragment) {
            return Err(Misfit::Fault(GiveUp::End));
        }
        // RFC 8200, section 4.5 (from RFC 5722): any overlap invalidates the datagram. RFC 791
        // would let the later one win, which can be used to evade filters (RFC 1858).
        if self.overlaps(ahead, datagram, fragment) {
            return Err(Misfit::Fault(GiveUp::Overlap));
        }
        if datagram.count >= most.max(2) {
            return Err(Misfit::Fault(GiveUp::TooMany));
        }
        if datagram.ecn.or(Ecn::of(packet.bytes(), packet.layout())).is_mixed() {
            return Err(Misfit::Fault(GiveUp::Ecn));
        }
        Ok(ahead)
    }

    /// Stores a fragment after `ahead`. The caller has made room; if it has not, the memory grows,
    /// so that no packet is lost.
    pub(super) fn insert(
        &mut self,
        datagram: &mut Datagram,
        ahead: Slot,
        packet: Packet<B>,
        fragment: Fragment,
    ) {
        let behind = self.get(ahead).map_or(datagram.first, |held| held.behind);
        datagram.joins(&fragment, packet.bytes().len());
        datagram.ecn = datagram.ecn.or(Ecn::of(packet.bytes(), packet.layout()));
        let slot = self.put(Held { packet, fragment, behind, later: NONE });
        match self.get_mut(ahead) {
            Some(held) => held.behind = slot,
            None => datagram.first = slot,
        }
        if behind == NONE {
            datagram.last = slot;
        }
        match self.get_mut(datagram.latest) {
            Some(held) => held.later = slot,
            None => datagram.earliest = slot,
        }
        datagram.latest = slot;
    }

    /// Removes the fragment at `slot`; returns the next one in data order too.
    pub(super) fn take(&mut self, slot: Slot) -> Option<(Held<B>, Slot)> {
        let held = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        let behind = held.behind;
        Some((held, behind))
    }

    /// Removes the fragment at `slot`; returns the next one in order of arrival too.
    pub(super) fn release(&mut self, slot: Slot) -> Option<(Packet<B>, Slot)> {
        let later = self.get(slot)?.later;
        self.take(slot).map(|(held, _)| (held.packet, later))
    }

    /// The last fragment whose data starts at or before `offset`. For fragments in order or in
    /// reverse order it is found at once; else in at most as many steps as a datagram may have
    /// fragments.
    fn ahead(&self, datagram: &Datagram, offset: usize) -> Slot {
        let starts = |slot| self.get(slot).is_some_and(|held| held.fragment.offset <= offset);
        if starts(datagram.last) {
            return datagram.last;
        }
        let (mut ahead, mut next) = (NONE, datagram.first);
        while starts(next) {
            (ahead, next) = (next, self.get(next).map_or(NONE, |held| held.behind));
        }
        ahead
    }

    fn overlaps(&self, ahead: Slot, datagram: &Datagram, fragment: &Fragment) -> bool {
        let before = self.get(ahead);
        let behind = self.get(before.map_or(datagram.first, |held| held.behind));
        before.is_some_and(|held| held.fragment.end() > fragment.offset)
            || behind.is_some_and(|held| held.fragment.offset < fragment.end())
    }

    fn put(&mut self, held: Held<B>) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        self.slots[slot as usize] = Some(held);
        slot
    }
}

fn is_duplicate<B: AsRef<[u8]>>(held: &Held<B>, packet: &Packet<B>, fragment: &Fragment) -> bool {
    let place = |f: &Fragment| (f.offset, f.len, f.more);
    place(&held.fragment) == place(fragment)
        && held.packet.bytes()[held.fragment.data()] == packet.bytes()[fragment.data()]
}
