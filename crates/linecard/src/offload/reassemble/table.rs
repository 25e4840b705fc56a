//! Incomplete datagrams: by key, and by age both in total and per source.

use super::datagram::{Datagram, NONE};
use super::key::Key;
use crate::offload::lists::Lists;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Place of a datagram in the table.
pub(super) type Id = u32;

/// The least number of places, so that sources rarely share one even in a small table.
const MIN_PLACES: usize = 1_024;

/// Usage of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) datagrams: usize,
    pub(super) fragments: usize,
    pub(super) bytes: usize,
}

/// Datagrams in memory of fixed size.
#[derive(Debug)]
pub(super) struct Table {
    datagrams: Box<[Datagram]>,
    free: Vec<Id>,
    by_key: Lists,
    /// By version, and by whether given up: within each, all timeouts are equal, so the front is
    /// due first.
    by_age: Lists,
    by_share: Lists,
    uses: Box<[Use]>,
    /// Number of lists by key and of shares, minus 1.
    mask: usize,
    /// No deadline lies before this point.
    earliest: Instant,
}

impl Table {
    pub(super) fn new(datagrams: usize) -> Self {
        let places = datagrams.next_power_of_two().max(MIN_PLACES);
        Self {
            datagrams: vec![Datagram::default(); datagrams].into_boxed_slice(),
            free: (0..u32::try_from(datagrams).unwrap_or(NONE)).rev().collect(),
            by_key: Lists::new(places, datagrams),
            by_age: Lists::new(4, datagrams),
            by_share: Lists::new(2 * places, datagrams),
            uses: vec![Use::default(); places].into_boxed_slice(),
            mask: places - 1,
            earliest: Instant::NEVER,
        }
    }

    pub(super) fn used(&self) -> usize {
        self.datagrams.len() - self.free.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn get(&self, id: Id) -> &Datagram {
        &self.datagrams[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut Datagram {
        &mut self.datagrams[id as usize]
    }

    pub(super) fn find(&self, hash: u64, key: &Key) -> Option<Id> {
        self.by_key.members(hash as usize & self.mask).find(|id| self.get(*id).key == *key)
    }

    /// The usage counter of a source.
    pub(super) fn share_of(&self, source_hash: u64) -> usize {
        source_hash as usize & self.mask
    }

    pub(super) fn uses(&self, share: usize) -> Use {
        self.uses[share]
    }

    pub(super) fn uses_mut(&mut self, share: usize) -> &mut Use {
        &mut self.uses[share]
    }

    /// Stores a new datagram in a free place, of which there must be one.
    pub(super) fn open(&mut self, hash: u64, datagram: Datagram, deadline: Instant) -> Option<Id> {
        let id = self.free.pop()?;
        self.by_key.insert(hash as usize & self.mask, id);
        self.uses[datagram.share].datagrams += 1;
        *self.get_mut(id) = datagram;
        self.enqueue(id, deadline);
        Some(id)
    }

    /// Remembers until `deadline` that a datagram was given up; its fragments have been removed.
    pub(super) fn refuse(&mut self, id: Id, deadline: Instant) {
        *self.get_mut(id) = self.get(id).given_up();
        self.enqueue(id, deadline);
    }

    /// Removes a datagram whose fragments have been removed.
    pub(super) fn remove(&mut self, id: Id) {
        self.by_key.remove(id);
        self.by_age.remove(id);
        self.by_share.remove(id);
        let share = self.get(id).share;
        self.uses[share].datagrams -= 1;
        *self.get_mut(id) = Datagram::default();
        self.free.push(id);
    }

    /// The datagram that has been incomplete longest.
    pub(super) fn oldest(&self) -> Option<Id> {
        self.first_by(|datagram| datagram.opened, [LIVE, LIVE | V6])
    }

    /// The datagram to evict for another: one that was given up, else the oldest.
    pub(super) fn oldest_of_all(&self) -> Option<Id> {
        self.first_by(|datagram| datagram.deadline, [REFUSED, REFUSED | V6])
            .or_else(|| self.oldest())
    }

    /// The same among those of one source.
    pub(super) fn oldest_of_share(&self, share: usize) -> Option<Id> {
        self.by_share.first(2 * share + REFUSED).or_else(|| self.oldest_live_of_share(share))
    }

    pub(super) fn oldest_live_of_share(&self, share: usize) -> Option<Id> {
        self.by_share.first(2 * share + LIVE)
    }

    /// A datagram whose timeout has expired, the earliest first. Call until it returns none, and
    /// remove each.
    #[inline]
    pub(super) fn due(&mut self, now: Instant) -> Option<Id> {
        if now < self.earliest {
            return None;
        }
        let next = self.first_by(|datagram| datagram.deadline, 0..4);
        let deadline = next.map_or(Instant::NEVER, |id| self.get(id).deadline);
        self.earliest = deadline;
        next.filter(|_| deadline <= now)
    }

    /// The earliest deadline of a datagram that holds fragments.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let next = self.first_by(|datagram| datagram.deadline, [LIVE, LIVE | V6])?;
        Some(self.get(next).deadline)
    }

    /// Whether the sums match the entries; slow, for tests.
    pub(super) fn is_consistent(&self) -> bool {
        let mut uses = vec![Use::default(); self.uses.len()];
        for datagram in (0..4).flat_map(|list| self.by_age.members(list)).map(|id| self.get(id)) {
            let sum = &mut uses[datagram.share];
            sum.datagrams += 1;
            sum.fragments += usize::from(datagram.count);
            sum.bytes += datagram.bytes;
        }
        let used = uses.iter().map(|sum| sum.datagrams).sum::<usize>();
        *uses == *self.uses && used == self.used()
    }

    fn enqueue(&mut self, id: Id, deadline: Instant) {
        self.get_mut(id).deadline = deadline;
        self.earliest = self.earliest.min(deadline);
        let datagram = self.get(id);
        let (v6, share) = (usize::from(datagram.key.is_v6()) * V6, datagram.share);
        let state = if datagram.refused { REFUSED } else { LIVE };
        self.by_age.insert(v6 | state, id);
        self.by_share.insert(2 * share + state, id);
    }

    fn first_by(
        &self,
        time: impl Fn(&Datagram) -> Instant,
        lists: impl IntoIterator<Item = usize>,
    ) -> Option<Id> {
        let fronts = lists.into_iter().filter_map(|list| self.by_age.first(list));
        fronts.min_by_key(|id| time(self.get(*id)))
    }
}

/// Lists by age, and of one share.
const LIVE: usize = 0;
const REFUSED: usize = 1;
const V6: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_lost_is_inconsistent() {
        let mut table = Table::new(3);
        let opened = table.open(7, Datagram::default(), Instant::NEVER);
        assert!(opened.is_some() && table.is_consistent());
        let lost = table.free.pop();
        assert!(lost.is_some() && !table.is_consistent());
        // And one more that is used twice.
        table.free.extend([lost, opened].into_iter().flatten());
        assert!(!table.is_consistent());
    }
}
