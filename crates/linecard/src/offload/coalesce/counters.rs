//! Counters of the coalescer.

use super::reason::{Flush, Flushes, Refusals};
use crate::stats::Histogram;

/// Counters of a [`Coalescer`](super::Coalescer). Every packet received was passed, is held, or has
/// left within a flushed packet: `received == passed + flushed segments + held`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// Packets that left, merged ones counted once.
    pub packets_out: u64,
    /// Bytes of frames that left.
    pub bytes_out: u64,
    /// Packets that left by [`Exit::Passed`](super::Exit::Passed).
    pub passed: u64,
    /// Why packets passed, or did not join the held data of their flow. Where nothing of a batch is
    /// held, one packet may count for both.
    pub refused: Refusals,
    /// Why held packets were flushed.
    pub flushed: Flushes,
    /// Packets merged into another: `packets_in − packets_out − held`.
    pub merged: u64,
    /// Packets per flushed packet: 1 for those merged with no other.
    pub segments: Histogram,
    /// How long flushed packets were held, in nanoseconds, counted from their first packet.
    pub hold_ns: Histogram,
    /// Flows created at their first data; none where nothing of a batch is held.
    pub flows_on_data: u64,
    /// Flows created at their SYN.
    pub flows_on_syn: u64,
    /// Flows removed at FIN or RST.
    pub flows_released: u64,
    /// Flows evicted for another.
    pub flows_evicted: u64,
}

impl Counters {
    /// Mean number of packets per flushed packet; 0 before the first flush.
    #[must_use]
    pub fn mean_aggregate(&self) -> f64 {
        self.segments.mean()
    }

    /// Adds the counters of another coalescer.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.passed += other.passed;
        self.refused.add(&other.refused);
        self.flushed.add(&other.flushed);
        self.merged += other.merged;
        self.segments.add(&other.segments);
        self.hold_ns.add(&other.hold_ns);
        self.flows_on_data += other.flows_on_data;
        self.flows_on_syn += other.flows_on_syn;
        self.flows_released += other.flows_released;
        self.flows_evicted += other.flows_evicted;
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.packets_in += 1;
        self.bytes_in += bytes as u64;
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.packets_out += 1;
        self.bytes_out += bytes as u64;
    }

    pub(super) fn flushed(&mut self, reason: Flush, segments: u16, held_ns: u64) {
        self.flushed.count(reason);
        self.merged += u64::from(segments) - 1;
        self.segments.record(u64::from(segments));
        self.hold_ns.record(held_ns);
    }
}
