//! The flow table, of fixed size: eight places per bucket, so that a lookup is bounded whatever
//! addresses peers choose.
//!
//! A flow is identified by its hash ([`crate::packet::FlowHasher`]). A bucket is one cache line:
//! eight tags, and the slot that each flow holds. So a lookup touches one line, and a second one
//! for the flow's clock, regardless of the number of flows.

use super::ids::{FlowId, SlotId};
use crate::packet::prefetch_line;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec;

/// Places per bucket.
const WAYS: usize = 8;
/// A flow that holds nothing.
const NOTHING: SlotId = SlotId::MAX;
/// The interval before the second packet.
const UNKNOWN: u32 = u32::MAX;
/// Average intervals without an arrival after which a flow is idle (Li, Chen, Su, IV.E).
const IDLE_INTERVALS: u64 = 10;

#[derive(Debug, Clone)]
#[repr(align(64))]
struct Bucket {
    /// Upper bits of the hash; 0 for a free place.
    tags: [u32; WAYS],
    held: [SlotId; WAYS],
}

const EMPTY: Bucket = Bucket { tags: [0; WAYS], held: [NOTHING; WAYS] };
const _: () = assert!(size_of::<Bucket>() == 64);

/// When a flow's packets arrive.
#[derive(Debug, Clone, Copy)]
struct Clock {
    last_arrival: Instant,
    /// Average interval of arrivals, at most 4.29 s.
    interval_ns: u32,
    /// The timeline of the last arrival.
    era: u32,
}

/// Where a new flow goes.
pub(super) enum Place {
    Free(FlowId),
    /// The place of a flow that has to be evicted, and the slot that it holds.
    Occupied(FlowId, Option<SlotId>),
}

/// Flows by hash.
#[derive(Debug)]
pub(super) struct Table {
    buckets: Box<[Bucket]>,
    clocks: Box<[Clock]>,
    mask: usize,
    used: usize,
    /// The number of the current timeline: arrivals of different timelines cannot be compared.
    era: u32,
}

impl Table {
    /// A table of at least `flows` places.
    pub(super) fn new(flows: usize) -> Self {
        let buckets = flows.div_ceil(WAYS).next_power_of_two();
        let unused = Clock { last_arrival: Instant::ZERO, interval_ns: UNKNOWN, era: 0 };
        Self {
            buckets: vec![EMPTY; buckets].into_boxed_slice(),
            clocks: vec![unused; buckets * WAYS].into_boxed_slice(),
            mask: buckets - 1,
            used: 0,
            era: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.clocks.len()
    }

    /// Flows inside.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The place of the flow with this hash, if it is in the table.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<FlowId> {
        let (bucket, tag) = self.locate(hash);
        self.first_with(bucket, tag)
    }

    /// The first place in a bucket that has this tag.
    #[inline(always)]
    fn first_with(&self, bucket: usize, tag: u32) -> Option<FlowId> {
        let tags = &self.buckets[bucket].tags;
        // All tags at once, a byte for each.
        let hits = u64::from_le_bytes(tags.map(|other| u8::from(other == tag)));
        (hits != 0).then(|| (bucket * WAYS) as FlowId + hits.trailing_zeros() / u8::BITS)
    }

    /// [`Table::find`], given the place where the flow was last.
    #[inline(always)]
    pub(super) fn find_near(&self, hash: u64, place: Option<FlowId>) -> Option<FlowId> {
        let (bucket, tag) = self.locate(hash);
        let is_at = |id: &FlowId| {
            let id = *id as usize;
            id / WAYS == bucket && self.buckets[bucket].tags[id % WAYS] == tag
        };
        place.filter(is_at).or_else(|| self.find(hash))
    }

    /// Prefetches the lines that a lookup touches.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        let (bucket, _) = self.locate(hash);
        prefetch_line(&self.buckets[bucket]);
        // Four clocks share a line.
        prefetch_line(&self.clocks[bucket * WAYS]);
        prefetch_line(&self.clocks[bucket * WAYS + WAYS / 2]);
    }

    /// The slot that a flow holds.
    #[inline(always)]
    pub(super) fn held(&self, id: FlowId) -> Option<SlotId> {
        let slot = self.buckets[id as usize / WAYS].held[id as usize % WAYS];
        (slot != NOTHING).then_some(slot)
    }

    /// Sets the slot that a flow holds.
    #[inline]
    pub(super) fn set_held(&mut self, id: FlowId, slot: Option<SlotId>) {
        self.buckets[id as usize / WAYS].held[id as usize % WAYS] = slot.unwrap_or(NOTHING);
    }

    /// A place for a flow that is not in the table: a free one; else that of the flow that has been
    /// idle longest; else that of the flow that has held data longest, according to `opened`.
    pub(super) fn place(&self, hash: u64, opened: impl Fn(SlotId) -> Instant) -> Place {
        let (bucket, _) = self.locate(hash);
        if let Some(free) = self.first_with(bucket, 0) {
            return Place::Free(free);
        }
        let first = bucket * WAYS;
        // One number for each, so that they are compared without a branch.
        let rank = |(clock, held): (&Clock, &SlotId)| {
            let is_held = *held != NOTHING;
            let since = if is_held { opened(*held) } else { clock.last_arrival };
            let order = u128::from(is_held) << 1 | u128::from(clock.era == self.era);
            order << u64::BITS | u128::from(since.as_ns())
        };
        let clocks = &self.clocks[first..first + WAYS];
        let ranks = clocks.iter().zip(&self.buckets[bucket].held).map(rank);
        let oldest = ranks.zip(first as FlowId..).min().map_or(first as FlowId, |(_, id)| id);
        Place::Occupied(oldest, self.held(oldest))
    }

    /// Stores a new flow in a place that is free or whose flow holds nothing.
    pub(super) fn occupy(&mut self, id: FlowId, hash: u64, now: Instant) {
        let (bucket, tag) = self.locate(hash);
        let way = id as usize % WAYS;
        self.used += usize::from(self.buckets[bucket].tags[way] == 0);
        self.buckets[bucket].tags[way] = tag;
        self.buckets[bucket].held[way] = NOTHING;
        self.clocks[id as usize] = Clock { last_arrival: now, interval_ns: UNKNOWN, era: self.era };
    }

    /// Records an arrival of a flow: average ← (average + delta) / 2 (Li, Chen, Su, IV.E).
    #[inline(always)]
    pub(super) fn arrived(&mut self, id: FlowId, now: Instant) {
        let clock = &mut self.clocks[id as usize];
        if clock.era != self.era {
            *clock = Clock { last_arrival: now, interval_ns: UNKNOWN, era: self.era };
            return;
        }
        let delta = now.ns_since(clock.last_arrival).min(u64::from(UNKNOWN - 1)) as u32;
        clock.interval_ns =
            if clock.interval_ns == UNKNOWN { delta } else { clock.interval_ns.midpoint(delta) };
        clock.last_arrival = now;
    }

    /// [`Table::arrived`] for several packets that arrive at once.
    #[inline(always)]
    pub(super) fn arrived_together(&mut self, id: FlowId, now: Instant, packets: usize) {
        self.arrived(id, now);
        let clock = &mut self.clocks[id as usize];
        // Each packet after the first has an interval of 0, and halves the average.
        let halved = packets.saturating_sub(1) as u32;
        if halved > 0 {
            let known = Some(clock.interval_ns).filter(|interval| *interval != UNKNOWN);
            let interval = known.and_then(|interval| interval.checked_shr(halved));
            clock.interval_ns = interval.unwrap_or(0);
        }
    }

    /// When the flow counts as idle: [`IDLE_INTERVALS`] after its last arrival.
    #[inline(always)]
    pub(super) fn idle_at(&self, id: FlowId, floor_ns: u64) -> Instant {
        let clock = &self.clocks[id as usize];
        if clock.interval_ns == UNKNOWN {
            return Instant::NEVER;
        }
        clock.last_arrival.plus_ns((u64::from(clock.interval_ns) * IDLE_INTERVALS).max(floor_ns))
    }

    /// Whether no packet of the flow is expected within `soon_ns`.
    #[inline]
    pub(super) fn is_quiet(&self, id: FlowId, soon_ns: u64) -> bool {
        // An unknown interval is the longest possible.
        u64::from(self.clocks[id as usize].interval_ns) > soon_ns
    }

    /// Starts a new timeline: previous arrivals are older than all later ones.
    pub(super) fn restart_clock(&mut self) {
        self.era = self.era.wrapping_add(1);
    }

    /// Removes a flow that holds nothing.
    pub(super) fn release(&mut self, id: FlowId) {
        let tag = &mut self.buckets[id as usize / WAYS].tags[id as usize % WAYS];
        self.used -= usize::from(*tag != 0);
        *tag = 0;
    }

    #[inline(always)]
    fn locate(&self, hash: u64) -> (usize, u32) {
        // Tag and bucket come from different bits; tag 0 means free.
        (hash as usize & self.mask, (hash >> 32) as u32 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_at_one_time_arrive_together_as_one_by_one() {
        let table = || {
            let mut table = Table::new(8);
            table.occupy(0, 0, Instant::ZERO);
            table
        };
        for delta in [0, 1, 1_000, u64::from(UNKNOWN - 1), u64::MAX] {
            for packets in [1, 2, 3, 30, 31, 32, 33, 34, 64, 1_000] {
                let (mut together, mut one_by_one) = (table(), table());
                for second in [1, 2, 3, 4] {
                    if second == 4 {
                        // The first packets of another timeline.
                        together.restart_clock();
                        one_by_one.restart_clock();
                    }
                    let now = Instant::from_ns(delta.saturating_mul(second));
                    together.arrived_together(0, now, packets);
                    (0..packets).for_each(|_| one_by_one.arrived(0, now));
                    let intervals = [&together, &one_by_one].map(|t| t.clocks[0].interval_ns);
                    assert_eq!(intervals[0], intervals[1], "{packets} packets after {delta} ns");
                }
            }
        }
    }

    #[test]
    fn a_flow_is_found_only_where_it_is() {
        let mut table = Table::new(128);
        let hash = |tag: u64, bucket: u64| tag << 33 | 1 << 32 | bucket;
        let all = || [2, 8].into_iter().flat_map(|bucket| (0..8).map(move |way| (bucket, way)));
        for (bucket, way) in all() {
            table.occupy(bucket * 8 + way, hash(way.into(), bucket.into()), Instant::ZERO);
        }
        for hint in (0..128).map(Some).chain([None]) {
            for (bucket, way) in all() {
                let found = table.find_near(hash(way.into(), bucket.into()), hint);
                assert_eq!(found, Some(bucket * 8 + way), "{hint:?}");
            }
            assert_eq!(table.find_near(hash(4, 0), hint), None, "{hint:?}");
            assert_eq!(table.find_near(hash(9, 2), hint), None, "{hint:?}");
        }
        assert_eq!(table.used(), 16);
        table.release(19);
        assert_eq!((table.find(hash(3, 2)), table.used()), (None, 15));
    }

    /// Whatever its hash is.
    #[test]
    fn the_place_of_a_flow_is_not_free() {
        for upper in 0..4 {
            let mut table = Table::new(8);
            table.occupy(0, upper << 32, Instant::ZERO);
            let place = table.place(7 << 32, |_| Instant::ZERO);
            assert!(matches!(place, Place::Free(1)), "{upper}");
        }
    }

    #[test]
    fn the_longest_interval_is_known() {
        let mut table = Table::new(8);
        table.occupy(0, 0, Instant::ZERO);
        assert_eq!(table.idle_at(0, 1), Instant::NEVER);
        table.arrived(0, Instant::from_ns(u64::from(UNKNOWN) * 3));
        assert_ne!(table.idle_at(0, 1), Instant::NEVER);
    }
}
