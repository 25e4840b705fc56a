//! Counters of the ACK filter.

use super::reason::{Passes, Release, Releases};
use crate::stats::Histogram;

/// Counters of an [`AckFilter`](super::AckFilter). Every packet received was passed, kept or
/// dropped, or is still held: `packets_in == passed.total() + kept.total() + dropped + held`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Packets passed without being held, by reason.
    pub passed: Passes,
    /// Acknowledgments that were held and have left, by reason.
    pub kept: Releases,
    /// Acknowledgments dropped because a newer one superseded them.
    pub dropped: u64,
    /// Acknowledgments that each kept one replaces, itself included.
    pub run: Histogram,
    /// Delay of each kept acknowledgment in nanoseconds, from the arrival of the first one it
    /// replaces.
    pub hold_ns: Histogram,
    /// Flows created.
    pub flows_made: u64,
    /// Flows evicted for another.
    pub flows_evicted: u64,
}

impl Counters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.packets_out += other.packets_out;
        self.passed.add(&other.passed);
        self.kept.add(&other.kept);
        self.dropped += other.dropped;
        self.run.add(&other.run);
        self.hold_ns.add(&other.hold_ns);
        self.flows_made += other.flows_made;
        self.flows_evicted += other.flows_evicted;
    }

    pub(super) fn kept(&mut self, why: Release, run: u16, held_ns: u64) {
        self.packets_out += 1;
        self.kept.count(why);
        self.run.record(run.into());
        self.hold_ns.record(held_ns);
    }
}
