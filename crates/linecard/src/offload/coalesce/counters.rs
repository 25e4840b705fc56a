//! Counters of the coalescer.

use super::reason::{Flush, Flushes, Refusals};
use crate::offload::counters::counters;
use crate::stats::Histogram;

counters! {
    frames
    /// Counters of a [`Coalescer`](super::Coalescer). Every packet received was passed, is held, or has
    /// left within a flushed packet: `received == passed + flushed segments + held`.
    Counters {
        /// Packets that left by [`Exit::Passed`](super::Exit::Passed).
        passed: u64,
        /// Why packets passed, or did not join the held data of their flow. Where nothing of a batch is
        /// held, one packet may count for both.
        refused: Refusals,
        /// Why held packets were flushed.
        flushed: Flushes,
        /// Packets merged into another: `packets_in − packets_out − held`.
        merged: u64,
        /// Packets per flushed packet: 1 for those merged with no other.
        segments: Histogram,
        /// How long flushed packets were held, in nanoseconds, counted from their first packet.
        hold_ns: Histogram,
        /// Flows created at their first data; none where nothing of a batch is held.
        flows_on_data: u64,
        /// Flows created at their SYN.
        flows_on_syn: u64,
        /// Flows removed at FIN or RST.
        flows_released: u64,
        /// Flows evicted for another.
        flows_evicted: u64,
    }
}

impl Counters {
    /// Mean number of packets per flushed packet; 0 before the first flush.
    #[must_use]
    pub fn mean_aggregate(&self) -> f64 {
        self.segments.mean()
    }

    pub(super) fn flushed(&mut self, reason: Flush, segments: u16, held_ns: u64) {
        self.left(reason, segments);
        self.hold_ns.record(held_ns);
    }

    /// The same, if how long packets were held is counted later.
    #[inline]
    pub(super) fn left(&mut self, reason: Flush, segments: u16) {
        self.flushed.count(reason);
        self.merged += u64::from(segments) - 1;
        self.segments.record(u64::from(segments));
    }
}
