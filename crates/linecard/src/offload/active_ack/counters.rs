//! Counters of active acknowledgment.

use super::reason::{Answers, Silences};
use crate::offload::counters::counters;
use crate::stats::Histogram;

counters! {
    /// Counters of an [`ActiveAck`](super::ActiveAck): `data_in == sent + silent.total()`, and
    /// `answers_in == answers.total()`.
    Counters {
        /// Packets towards the receiver.
        data_in: u64,
        /// Acknowledgments sent on behalf of the receiver.
        sent: u64,
        /// Packets not acknowledged, by reason.
        silent: Silences,
        /// Packets from the receiver.
        answers_in: u64,
        /// Packets from the receiver, by what was done with them.
        answers: Answers,
        /// Bytes by which each acknowledgment sent was ahead of the receiver's own.
        ahead: Histogram,
        /// Connections created.
        connections_made: u64,
        /// Connections evicted for another.
        connections_evicted: u64,
    }
}
