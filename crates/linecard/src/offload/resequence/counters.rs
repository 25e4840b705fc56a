//! Counters of resequencing.

use super::reason::{Passes, Release, Releases};
use crate::stats::Histogram;

/// Counters of a [`Resequencer`](super::Resequencer). Every packet received was passed, released or
/// dropped, or is still held: `packets_in == passed.total() + released.total() + dropped + held`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Bytes of frames that left.
    pub bytes_out: u64,
    /// Packets passed without being held, by reason.
    pub passed: Passes,
    /// Packets released, by reason.
    pub released: Releases,
    /// Duplicates dropped, if that is configured.
    pub dropped: u64,
    /// How long packets were held, in nanoseconds.
    pub hold_ns: Histogram,
    /// Held packets passed over to find each packet's position, counted from the end.
    pub steps: Histogram,
    /// Flows created.
    pub flows_made: u64,
    /// Flows removed at FIN or RST.
    pub flows_removed: u64,
    /// Flows evicted for another.
    pub flows_evicted: u64,
    /// Flows whose expected sequence number was reset: two consecutive packets outside the window
    /// matched.
    pub restarts: u64,
}

impl Counters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.passed.add(&other.passed);
        self.released.add(&other.released);
        self.dropped += other.dropped;
        self.hold_ns.add(&other.hold_ns);
        self.steps.add(&other.steps);
        self.flows_made += other.flows_made;
        self.flows_removed += other.flows_removed;
        self.flows_evicted += other.flows_evicted;
        self.restarts += other.restarts;
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.packets_in += 1;
        self.bytes_in += bytes as u64;
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.packets_out += 1;
        self.bytes_out += bytes as u64;
    }

    pub(super) fn released(&mut self, why: Release, held_ns: u64) {
        self.released.count(why);
        self.hold_ns.record(held_ns);
    }
}
