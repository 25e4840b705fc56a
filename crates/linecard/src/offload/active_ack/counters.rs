//! Counters of active acknowledgment.

use super::reason::{Answers, Silences};
use crate::stats::Histogram;

/// Counters of an [`ActiveAck`](super::ActiveAck): `data_in == sent + silent.total()`, and
/// `answers_in == answers.total()`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets towards the receiver.
    pub data_in: u64,
    /// Acknowledgments sent on behalf of the receiver.
    pub sent: u64,
    /// Packets not acknowledged, by reason.
    pub silent: Silences,
    /// Packets from the receiver.
    pub answers_in: u64,
    /// Packets from the receiver, by what was done with them.
    pub answers: Answers,
    /// Bytes by which each acknowledgment sent was ahead of the receiver's own.
    pub ahead: Histogram,
    /// Connections created.
    pub connections_made: u64,
    /// Connections evicted for another.
    pub connections_evicted: u64,
}

impl Counters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.data_in += other.data_in;
        self.sent += other.sent;
        self.silent.add(&other.silent);
        self.answers_in += other.answers_in;
        self.answers.add(&other.answers);
        self.ahead.add(&other.ahead);
        self.connections_made += other.connections_made;
        self.connections_evicted += other.connections_evicted;
    }
}
