//! A timer wheel: one deadline per flow, none of them missed, O(1) to set.

use super::lists::Lists;
use crate::time::{Instant, ns};
use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

/// Slots of the wheel: about a microsecond each with the default budget.
const SLOTS: usize = 1024;
/// A hold budget spans at most this many slots, so that none holds deadlines of two turns.
const SPAN: u64 = SLOTS as u64 - 2;

/// Deadlines of flows, each at most the hold budget ahead.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Lists,
    occupied: [u64; SLOTS / 64],
    deadlines: Box<[Instant]>,
    /// log₂ of the nanoseconds of a slot.
    shift: u32,
    /// No deadline lies before this slot, counted from time zero.
    tick: u64,
    /// No deadline lies before this point.
    earliest: Instant,
}

impl Wheel {
    pub(super) fn new(budget: Duration, flows: usize) -> Self {
        let mut shift = 0;
        while ns(budget) >> shift >= SPAN {
            shift += 1;
        }
        Self {
            slots: Lists::new(SLOTS, flows),
            occupied: [0; SLOTS / 64],
            deadlines: vec![Instant::NEVER; flows].into_boxed_slice(),
            shift,
            tick: 0,
            earliest: Instant::NEVER,
        }
    }

    /// Sets the deadline of `flow`, at most the budget ahead of the time last given to
    /// [`Wheel::due`].
    #[inline]
    pub(super) fn arm(&mut self, flow: u32, deadline: Instant) {
        self.deadlines[flow as usize] = deadline;
        self.earliest = self.earliest.min(deadline);
        let slot = (deadline.as_ns() >> self.shift) as usize % SLOTS;
        let old = self.slots.list_of(flow);
        if old != Some(slot) {
            self.slots.insert(slot, flow);
            self.occupied[slot / 64] |= 1 << (slot % 64);
            old.into_iter().for_each(|old| self.clear_if_empty(old));
        }
    }

    /// Forgets the deadline of `flow`.
    #[inline]
    pub(super) fn disarm(&mut self, flow: u32) {
        if let Some(slot) = self.slots.list_of(flow) {
            self.slots.remove(flow);
            self.clear_if_empty(slot);
        }
    }

    /// The deadline that was set last for `flow`, which has one.
    #[inline(always)]
    pub(super) fn deadline(&self, flow: u32) -> Instant {
        self.deadlines[flow as usize]
    }

    /// Some flow whose deadline has come. Call until there is none, and disarm each.
    #[inline]
    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        if now >= self.earliest {
            let due = self.next_occupied().and_then(|slot| self.due_in(slot, now));
            if due.is_some() {
                return due;
            }
            self.earliest = self.next_deadline().unwrap_or(Instant::NEVER);
        }
        self.tick = self.tick.max(now.as_ns() >> self.shift);
        None
    }

    /// Starts a new time line; no deadline may be set.
    pub(super) fn restart(&mut self, now: Instant) {
        self.tick = now.as_ns() >> self.shift;
        self.earliest = Instant::NEVER;
    }

    /// The earliest deadline, exact.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let slot = self.next_occupied()?;
        self.slots.members(slot).map(|flow| self.deadlines[flow as usize]).min()
    }

    fn due_in(&self, slot: usize, now: Instant) -> Option<u32> {
        self.slots.members(slot).find(|flow| self.deadlines[*flow as usize] <= now)
    }

    /// The first slot with deadlines in the order of time: from the wheel's position around.
    fn next_occupied(&self) -> Option<usize> {
        let start = self.tick as usize % SLOTS;
        let words = SLOTS / 64;
        for turn in 0..=words {
            let word = (start / 64 + turn) % words;
            let mut bits = self.occupied[word];
            if turn == 0 {
                bits &= u64::MAX << (start % 64);
            } else if turn == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
        }
        None
    }

    fn clear_if_empty(&mut self, slot: usize) {
        if self.slots.first(slot).is_none() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    /// Against the obvious twin, a map that is searched: no deadline is early, late or lost.
    #[test]
    fn fires_as_a_sorted_map_does() {
        for (seed, budget_ns) in [(1, 1), (2, 1_000), (3, 1_000_000), (4, u64::MAX >> 20)] {
            let mut rng = Rng::new(seed);
            let mut wheel = Wheel::new(Duration::from_nanos(budget_ns), 64);
            let mut twin: BTreeMap<u32, Instant> = BTreeMap::new();
            let mut now = Instant::from_ns(rng.below(1 << 60));
            for _ in 0..20_000 {
                now = now.plus_ns(rng.below(budget_ns.saturating_mul(2) / 50 + 2));
                if rng.chance(0.001) {
                    now = now.plus_ns(budget_ns.saturating_mul(rng.below(5)));
                }
                while let Some(flow) = wheel.due(now) {
                    let deadline = twin.remove(&flow).expect("armed");
                    assert!(deadline <= now, "fired early");
                    wheel.disarm(flow);
                }
                assert!(twin.values().all(|deadline| *deadline > now), "fired late");
                assert_eq!(wheel.next_deadline(), twin.values().min().copied());
                let flow = rng.below(64) as u32;
                if rng.chance(0.1) {
                    wheel.disarm(flow);
                    twin.remove(&flow);
                } else {
                    let deadline = now.plus_ns(rng.below(budget_ns) + 1);
                    wheel.arm(flow, deadline);
                    twin.insert(flow, deadline);
                }
            }
        }
    }
}
