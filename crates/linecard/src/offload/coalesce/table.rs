//! The flow table: eight places per hash value, so that a lookup has a bound whoever chose the
//! addresses, and memory of fixed size.

use super::aggregate::Aggregate;
use crate::packet::FlowKey;
use crate::time::{Instant, ns};
use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

/// Places per bucket: their tags fill 16 bytes, read at once.
const WAYS: usize = 8;

/// Place of a flow in the table.
pub(super) type FlowId = u32;

/// What is kept of a flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) aggregate: Option<Aggregate>,
    last_arrival: Instant,
    /// Average interval of arrivals, none before the second packet.
    interval_ns: Option<u64>,
    /// The time line that the last arrival belongs to.
    era: u32,
}

impl Flow {
    /// Takes note of an arrival: average ← (average + delta) / 2 (papers/lro-npu.txt, IV.E).
    #[inline]
    fn arrived(&mut self, now: Instant) {
        let delta = now.ns_since(self.last_arrival);
        self.interval_ns = Some(self.interval_ns.map_or(delta, |i| i.midpoint(delta)));
        self.last_arrival = now;
    }

    /// When the flow counts as paused: ten times its average interval from now.
    #[inline]
    pub(super) fn idle_at(&self, now: Instant, floor: Duration) -> Instant {
        match self.interval_ns {
            None => Instant::NEVER,
            Some(interval) => now.plus_ns(interval.saturating_mul(10).max(ns(floor))),
        }
    }
}

/// Where a new flow goes.
pub(super) enum Place {
    Free(FlowId),
    /// The place of this flow, to be flushed first.
    Occupied(FlowId),
}

/// Flows by key.
#[derive(Debug)]
pub(super) struct Table {
    tags: Box<[[u16; WAYS]]>,
    flows: Box<[Flow]>,
    mask: usize,
    used: usize,
    /// Counts the time lines: arrivals of different ones cannot be compared.
    era: u32,
}

impl Table {
    /// A table of at least `flows` places.
    pub(super) fn new(flows: usize) -> Self {
        let buckets = flows.div_ceil(WAYS).next_power_of_two();
        Self {
            tags: vec![[0; WAYS]; buckets].into_boxed_slice(),
            flows: vec![Flow::default(); buckets * WAYS].into_boxed_slice(),
            mask: buckets - 1,
            used: 0,
            era: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.flows.len()
    }

    /// Flows inside.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    #[inline]
    pub(super) fn get(&self, id: FlowId) -> &Flow {
        &self.flows[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id as usize]
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, key: &FlowKey) -> Option<FlowId> {
        let (bucket, tag) = self.locate(hash);
        let tags = &self.tags[bucket];
        (0..WAYS)
            .map(|way| (way, bucket * WAYS + way))
            .find(|(way, index)| tags[*way] == tag && self.flows[*index].key == *key)
            .map(|(_, index)| index as FlowId)
    }

    /// A place for a flow that is not in the table: a free one, else that of the flow that has
    /// been idle longest, else that of the flow that has held data longest.
    pub(super) fn place(&self, hash: u64) -> Place {
        let (bucket, _) = self.locate(hash);
        if let Some(way) = self.tags[bucket].iter().position(|tag| *tag == 0) {
            return Place::Free((bucket * WAYS + way) as FlowId);
        }
        let age = |index: &usize| {
            let flow = &self.flows[*index];
            let opened = flow.aggregate.as_ref().map(|aggregate| aggregate.opened);
            (opened.is_some(), flow.era == self.era, opened.unwrap_or(flow.last_arrival))
        };
        let oldest = (bucket * WAYS..(bucket + 1) * WAYS).min_by_key(age);
        Place::Occupied(oldest.unwrap_or(bucket * WAYS) as FlowId)
    }

    /// Puts a new flow into a place that is free or has been flushed.
    pub(super) fn occupy(&mut self, id: FlowId, hash: u64, key: FlowKey, now: Instant) {
        let (bucket, tag) = self.locate(hash);
        let way = id as usize % WAYS;
        self.used += usize::from(self.tags[bucket][way] == 0);
        self.tags[bucket][way] = tag;
        self.flows[id as usize] = Flow { key, last_arrival: now, era: self.era, ..Flow::default() };
    }

    /// Takes note that a packet of a flow has arrived.
    pub(super) fn arrived(&mut self, id: FlowId, now: Instant) {
        let flow = &mut self.flows[id as usize];
        if flow.era == self.era {
            flow.arrived(now);
        } else {
            (flow.era, flow.last_arrival, flow.interval_ns) = (self.era, now, None);
        }
    }

    /// A new time line begins: arrivals so far are older than all that come.
    pub(super) fn restart_clock(&mut self) {
        self.era = self.era.wrapping_add(1);
    }

    /// Removes a flow.
    pub(super) fn release(&mut self, id: FlowId) {
        let tag = &mut self.tags[id as usize / WAYS][id as usize % WAYS];
        self.used -= usize::from(*tag != 0);
        *tag = 0;
        self.flows[id as usize] = Flow::default();
    }

    #[inline]
    fn locate(&self, hash: u64) -> (usize, u16) {
        // Tag and bucket come from different bits; tag 0 means free.
        (hash as usize & self.mask, (hash >> 48) as u16 | 1)
    }
}
