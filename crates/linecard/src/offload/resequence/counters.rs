//! Counters of resequencing.

use super::reason::{Passes, Release, Releases};
use crate::offload::counters::counters;
use crate::stats::Histogram;

counters! {
    frames
    /// Counters of a [`Resequencer`](super::Resequencer). Every packet received was passed, released or
    /// dropped, or is still held: `packets_in == passed.total() + released.total() + dropped + held`.
    Counters {
        /// Packets passed without being held, by reason.
        passed: Passes,
        /// Packets released, by reason.
        released: Releases,
        /// Duplicates dropped, if that is configured.
        dropped: u64,
        /// How long packets were held, in nanoseconds.
        hold_ns: Histogram,
        /// Held packets passed over to find each packet's position, counted from the end.
        steps: Histogram,
        /// Flows created.
        flows_made: u64,
        /// Flows removed at FIN or RST.
        flows_removed: u64,
        /// Flows evicted for another.
        flows_evicted: u64,
        /// Flows whose expected sequence number was reset: two consecutive packets outside the window
        /// matched.
        restarts: u64,
    }
}

impl Counters {
    pub(super) fn released(&mut self, why: Release, held_ns: u64) {
        self.released.count(why);
        self.hold_ns.record(held_ns);
    }
}
