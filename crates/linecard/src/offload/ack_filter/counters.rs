//! What the filter has done, in numbers.

use super::reason::{Passes, Release, Releases};
use crate::stats::Histogram;

/// Counters of an [`AckFilter`](super::AckFilter). Every packet received has been passed, kept or
/// dropped, or is held: `packets_in == passed.total() + kept.total() + dropped + held`.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Packets given on.
    pub packets_out: u64,
    /// Why packets went through without being held.
    pub passed: Passes,
    /// Acknowledgments that were held and have left, by reason.
    pub kept: Releases,
    /// Acknowledgments dropped: a newer one says all that they said.
    pub dropped: u64,
    /// Acknowledgments that each kept one stands for, itself included.
    pub run: Histogram,
    /// How late each kept one left, in nanoseconds, from the arrival of the first it stands for.
    pub hold_ns: Histogram,
    /// Flows made.
    pub flows_made: u64,
    /// Flows that gave their place to another.
    pub flows_evicted: u64,
}

impl Counters {
    /// Adds what another has counted.
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
