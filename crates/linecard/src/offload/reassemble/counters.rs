//! Counters of reassembly.

use super::reason::{GiveUps, Passes};
use crate::offload::counters::counters;
use crate::stats::Histogram;

counters! {
    frames
    /// Counters of a [`Reassembler`](super::Reassembler). Every packet received was passed, was
    /// dropped, has left in a complete datagram or with one that was given up, or is still held:
    /// `packets_in == passed.total() + dropped + joined + released + held`.
    Counters {
        /// Packets passed without being held, by reason.
        passed: Passes,
        /// Exact duplicates dropped, if that is configured.
        dropped: u64,
        /// Datagrams completed, atomic fragments included.
        reassembled: u64,
        /// Fragments that were a complete datagram (RFC 6946).
        atomic: u64,
        /// Fragments that became part of complete datagrams, atomic ones included.
        joined: u64,
        /// Why datagrams were given up.
        given_up: GiveUps,
        /// Fragments that left unchanged because their datagram was given up.
        released: u64,
        /// Fragments per completed datagram.
        fragments: Histogram,
        /// Time from the first fragment's arrival to the complete datagram, in nanoseconds.
        hold_ns: Histogram,
    }
}

impl Counters {
    pub(super) fn completed(&mut self, fragments: u16, held_ns: u64) {
        self.reassembled += 1;
        self.joined += u64::from(fragments);
        self.fragments.record(u64::from(fragments));
        self.hold_ns.record(held_ns);
    }
}
