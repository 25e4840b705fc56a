//! A timer wheel with one deadline per flow: setting a deadline takes O(1), and expiring or
//! cancelling one O(log n) amortised for the n deadlines that share a slot.

use super::heaps::Heaps;
use crate::time::{Instant, ns};
use core::time::Duration;

/// Slots of the wheel: about a microsecond each with the default budget.
const SLOTS: usize = 1024;
/// A hold budget spans at most this many slots, so that no slot holds deadlines of two rotations.
const SPAN: u64 = SLOTS as u64 - 2;

/// Deadlines of flows, each at most the hold budget ahead. The deadlines of a slot form a heap,
/// which keeps the earliest at hand.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Heaps,
    occupied: [u64; SLOTS / 64],
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
            slots: Heaps::new(SLOTS, flows),
            occupied: [0; SLOTS / 64],
            shift,
            tick: 0,
            earliest: Instant::NEVER,
        }
    }

    /// Sets the deadline of `flow`, at most the budget ahead of the time last given to
    /// [`Wheel::due`].
    #[inline]
    pub(super) fn arm(&mut self, flow: u32, deadline: Instant) {
        self.earliest = self.earliest.min(deadline);
        let slot = (deadline.as_ns() >> self.shift) as usize % SLOTS;
        let old = self.slots.heap_of(flow).filter(|old| *old != slot);
        self.slots.insert(slot, flow, deadline);
        self.occupied[slot / 64] |= 1 << (slot % 64);
        old.into_iter().for_each(|old| self.clear_if_empty(old));
    }

    /// Cancels the deadline of `flow`.
    #[inline]
    pub(super) fn disarm(&mut self, flow: u32) {
        if let Some(slot) = self.slots.heap_of(flow) {
            self.slots.remove(flow);
            self.clear_if_empty(slot);
        }
    }

    /// The current deadline of `flow`, which has one.
    #[inline(always)]
    pub(super) fn deadline(&self, flow: u32) -> Instant {
        self.slots.key(flow)
    }

    /// The flow with the earliest deadline if it has expired; of equal deadlines, the one set
    /// first. Call until it returns none, and disarm each.
    #[inline]
    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        if now >= self.earliest {
            let first = self.first();
            let due = first.filter(|flow| self.deadline(*flow) <= now);
            if due.is_some() {
                return due;
            }
            self.earliest = first.map_or(Instant::NEVER, |flow| self.deadline(flow));
        }
        self.tick = self.tick.max(now.as_ns() >> self.shift);
        None
    }

    /// Starts a new timeline; no deadline may be set.
    pub(super) fn restart(&mut self, now: Instant) {
        self.tick = now.as_ns() >> self.shift;
        self.earliest = Instant::NEVER;
    }

    /// The earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.first().map(|flow| self.deadline(flow))
    }

    fn first(&self) -> Option<u32> {
        self.next_occupied().and_then(|slot| self.slots.first(slot))
    }

    /// The first slot with deadlines, starting at the current position of the wheel.
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

    /// A budget of a second makes slots of a millisecond, and with flows that begin together nearly
    /// all deadlines lie in one. Expiring looks at some of them only, not at all for each.
    #[test]
    fn flows_that_share_a_slot_expire_in_a_bounded_number_of_steps() {
        for flows in [64_u32, 1_024, 16_384] {
            let mut wheel = Wheel::new(Duration::from_secs(1), flows as usize);
            let mut rng = Rng::new(u64::from(flows));
            let base = 1 << 40;
            for flow in 0..flows {
                wheel.arm(flow, Instant::from_ns(base + rng.below(1 << wheel.shift)));
            }
            let armed = wheel.slots.comparisons;
            assert!(armed < u64::from(flows), "one comparison each");
            // An advance for every deadline and for the time before it.
            let (mut expired, mut advances) = (0, 0);
            while let Some(next) = wheel.next_deadline() {
                let before = wheel.slots.comparisons;
                assert_eq!(wheel.due(Instant::from_ns(next.as_ns() - 1)), None);
                assert_eq!(wheel.slots.comparisons, before, "nothing was due");
                while let Some(flow) = wheel.due(next) {
                    assert_eq!(wheel.deadline(flow), next);
                    wheel.disarm(flow);
                    expired += 1;
                }
                advances += 1;
            }
            let all = wheel.slots.comparisons - armed;
            let bound = 2 * u64::from(flows) * u64::from(flows.ilog2() + 1);
            println!("{flows} flows: {all} comparisons in {advances} advances, at most {bound}");
            assert!(expired == flows && all <= bound, "{all} comparisons for {flows} flows");
        }
    }
}
