//! A flow table of fixed size: eight places per bucket, so that a lookup is bounded whatever
//! addresses peers choose.
//!
//! A flow is identified by its keyed 64-bit hash ([`crate::packet::FlowHasher`]). Each offload
//! defines its own state `T` per flow.

use alloc::boxed::Box;
use alloc::vec;

/// Places per bucket: a cache line of tags.
const WAYS: usize = 8;
/// The tag of a free place.
const FREE: u64 = 0;

/// Place of a flow in the table.
pub(super) type FlowId = u32;

/// Where a new flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Free(FlowId),
    /// The place of a flow that has to be evicted.
    Occupied(FlowId),
}

/// Flow states by hash.
#[derive(Debug)]
pub(super) struct Flows<T> {
    tags: Box<[[u64; WAYS]]>,
    states: Box<[T]>,
    mask: usize,
    used: usize,
}

impl<T: Clone + Default> Flows<T> {
    /// A table of at least `flows` places.
    pub(super) fn new(flows: usize) -> Self {
        let buckets = flows.div_ceil(WAYS).next_power_of_two();
        Self {
            tags: vec![[FREE; WAYS]; buckets].into_boxed_slice(),
            states: vec![T::default(); buckets * WAYS].into_boxed_slice(),
            mask: buckets - 1,
            used: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.states.len()
    }

    /// Flows inside.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The place of the flow with this hash, if it is in the table.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<FlowId> {
        let (bucket, tag) = self.locate(hash);
        let way = self.tags[bucket].iter().position(|other| *other == tag)?;
        Some((bucket * WAYS + way) as FlowId)
    }

    #[inline]
    pub(super) fn get(&self, id: FlowId) -> &T {
        &self.states[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: FlowId) -> &mut T {
        &mut self.states[id as usize]
    }

    /// The states of all flows, free places included.
    pub(super) fn states_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.states.iter_mut()
    }

    /// A place for a flow that is not in the table: a free one, or else the place of the flow with
    /// the lowest `worth`.
    pub(super) fn place<K: Ord>(&self, hash: u64, worth: impl Fn(FlowId, &T) -> K) -> Placement {
        let (bucket, _) = self.locate(hash);
        let first = bucket * WAYS;
        if let Some(way) = self.tags[bucket].iter().position(|tag| *tag == FREE) {
            return Placement::Free((first + way) as FlowId);
        }
        let ids = (first..first + WAYS).map(|index| index as FlowId);
        let least = ids.min_by_key(|id| worth(*id, self.get(*id)));
        Placement::Occupied(least.unwrap_or(first as FlowId))
    }

    /// Stores a flow in the place returned by [`Flows::place`].
    pub(super) fn occupy(&mut self, id: FlowId, hash: u64, state: T) {
        let (bucket, tag) = self.locate(hash);
        let place = &mut self.tags[bucket][id as usize % WAYS];
        self.used += usize::from(*place == FREE);
        *place = tag;
        *self.get_mut(id) = state;
    }

    /// Removes a flow.
    pub(super) fn release(&mut self, id: FlowId) {
        let tag = &mut self.tags[id as usize / WAYS][id as usize % WAYS];
        self.used -= usize::from(*tag != FREE);
        *tag = FREE;
    }

    #[inline]
    fn locate(&self, hash: u64) -> (usize, u64) {
        // The lowest bit is not part of the bucket number, and is set so that a tag is never
        // [`FREE`].
        ((hash >> 1) as usize & self.mask, hash | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    /// Against the obvious twin, a map, as long as there are places; then the least gives way.
    #[test]
    fn finds_what_was_put_in() {
        let (mut rng, mut flows) = (Rng::new(9), Flows::new(60));
        assert_eq!(flows.capacity(), 64);
        let mut twin: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 1..20_000_u64 {
            let hash = rng.below(100).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            match (flows.find(hash), twin.contains_key(&hash)) {
                (Some(id), true) => {
                    assert_eq!(Some(flows.get(id)), twin.get(&hash));
                    if rng.chance(0.3) {
                        flows.release(id);
                        twin.remove(&hash);
                    }
                }
                (None, false) => {
                    let id = match flows.place(hash, |_, state| *state) {
                        Placement::Free(id) => id,
                        Placement::Occupied(id) => {
                            let gone = *flows.get(id);
                            twin.retain(|_, state| *state != gone);
                            id
                        }
                    };
                    flows.occupy(id, hash, step);
                    twin.insert(hash, step);
                }
                (found, kept) => panic!("{found:?}, and the twin has it: {kept}"),
            }
            assert_eq!(flows.used(), twin.len());
        }
    }
}
