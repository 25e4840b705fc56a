//! What resequencing has done, in numbers.

use super::reason::{Passes, Release, Releases};
use crate::stats::Histogram;

/// Counters of a [`Resequencer`](super::Resequencer). Every packet received has been passed, let go
/// or dropped, or is held: `packets_in == passed.total() + released.total() + dropped + held`.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// Packets given on.
    pub packets_out: u64,
    /// Bytes of frames given on.
    pub bytes_out: u64,
    /// Why packets went through without being held.
    pub passed: Passes,
    /// Why held packets were let go.
    pub released: Releases,
    /// Duplicates dropped, which only happens when asked for.
    pub dropped: u64,
    /// How long packets were held, in nanoseconds.
    pub hold_ns: Histogram,
    /// Packets that each held packet was put before, from the end on: the price of its place.
    pub steps: Histogram,
    /// Flows made.
    pub flows_made: u64,
    /// Flows removed at FIN or RST.
    pub flows_removed: u64,
    /// Flows that gave their place to another.
    pub flows_evicted: u64,
    /// Flows that went on elsewhere in sequence: two packets in a row, outside the window, agreed.
    pub restarts: u64,
}

impl Counters {
    /// Adds what another has counted.
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
