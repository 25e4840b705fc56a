//! Counters of the ACK filter.

use super::reason::{Passes, Release, Releases};
use crate::offload::counters::counters;
use crate::stats::Histogram;

counters! {
    /// Counters of an [`AckFilter`](super::AckFilter). Every packet received was passed, kept or
    /// dropped, or is still held: `packets_in == passed.total() + kept.total() + dropped + held`.
    Counters {
        /// Packets received.
        packets_in: u64,
        /// Packets that left.
        packets_out: u64,
        /// Packets passed without being held, by reason.
        passed: Passes,
        /// Acknowledgments that were held and have left, by reason.
        kept: Releases,
        /// Acknowledgments dropped because a newer one superseded them.
        dropped: u64,
        /// Acknowledgments that each kept one replaces, itself included.
        run: Histogram,
        /// Delay of each kept acknowledgment in nanoseconds, from the arrival of the first one it
        /// replaces.
        hold_ns: Histogram,
        /// Flows created.
        flows_made: u64,
        /// Flows evicted for another.
        flows_evicted: u64,
    }
}

impl Counters {
    pub(super) fn kept(&mut self, why: Release, run: u16, held_ns: u64) {
        self.packets_out += 1;
        self.kept.count(why);
        self.run.record(run.into());
        self.hold_ns.record(held_ns);
    }
}
