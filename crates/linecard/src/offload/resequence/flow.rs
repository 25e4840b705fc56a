//! State of a flow: the expected sequence number, and the interval of arrivals.

use crate::offload::tcp::{Segment, distance};
use crate::time::Instant;

/// The interval before the second packet.
const UNKNOWN: u32 = u32::MAX;
/// A contiguous range is not tracked beyond this length: duplicates are not detected any farther
/// back.
const MAX_RUN: u32 = 1 << 30;

/// Place of a held packet in the store.
pub(super) type Slot = u32;
/// No place.
pub(super) const NONE: Slot = Slot::MAX;

/// State of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// The sequence number after all data that has left.
    pub(super) next: u32,
    /// Bytes before `next` that have all left.
    run: u32,
    /// The end of the previous packet, if that was outside the window.
    pub(super) strayed: Option<u32>,
    /// Held packets in sequence order: first and last.
    pub(super) first: Slot,
    pub(super) last: Slot,
    pub(super) count: usize,
    /// Bytes of frames held.
    pub(super) bytes: usize,
    /// The last arrival of data, and the average interval of arrivals, at most 4.29 s.
    pub(super) last_arrival: Instant,
    interval_ns: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            next: 0,
            run: 0,
            strayed: None,
            first: NONE,
            last: NONE,
            count: 0,
            bytes: 0,
            last_arrival: Instant::ZERO,
            interval_ns: UNKNOWN,
        }
    }
}

impl Flow {
    /// A flow that continues after its first segment.
    pub(super) fn new(first: &Segment, now: Instant) -> Self {
        let mut flow = Self { last_arrival: now, ..Self::default() };
        flow.restart(first);
        flow
    }

    /// Sets the expected sequence number to the end of this segment.
    pub(super) fn restart(&mut self, segment: &Segment) {
        self.next = segment.end();
        self.run = segment.len;
        self.strayed = None;
    }

    /// The distance from the expected sequence number to the segment.
    pub(super) fn ahead(&self, segment: &Segment) -> i32 {
        distance(self.next, segment.sequence)
    }

    /// Records that a segment without a gap before it has left.
    pub(super) fn advance(&mut self, end: u32) {
        let step = distance(self.next, end);
        if step > 0 {
            self.next = end;
            self.run = self.run.saturating_add(step as u32).min(MAX_RUN);
        }
    }

    /// Skips missing data before `sequence`.
    pub(super) fn skip_to(&mut self, sequence: u32) {
        if distance(self.next, sequence) > 0 {
            self.next = sequence;
            self.run = 0;
        }
    }

    /// Whether every byte of a segment has left already.
    pub(super) fn has_given_on(&self, segment: &Segment) -> bool {
        let start = distance(segment.sequence, self.next);
        let end = distance(segment.end(), self.next);
        start >= 0 && end >= 0 && start as u32 <= self.run
    }

    /// Records an arrival of data: average ← (average + delta) / 2 (Li, Chen, Su, IV.E).
    pub(super) fn arrived(&mut self, now: Instant) {
        let delta = now.ns_since(self.last_arrival).min(u64::from(UNKNOWN - 1)) as u32;
        self.interval_ns =
            if self.interval_ns == UNKNOWN { delta } else { self.interval_ns.midpoint(delta) };
        self.last_arrival = now;
    }

    /// Discards the times of previous arrivals, which cannot be compared with later ones.
    pub(super) fn forget_times(&mut self, now: Instant) {
        self.last_arrival = now;
        self.interval_ns = UNKNOWN;
    }

    /// How long a gap is waited for: ten times the average interval if that is known.
    pub(super) fn patience_ns(&self, floor_ns: u64, budget_ns: u64) -> u64 {
        match self.interval_ns {
            UNKNOWN => budget_ns,
            interval => (u64::from(interval) * 10).max(floor_ns).min(budget_ns),
        }
    }
}
