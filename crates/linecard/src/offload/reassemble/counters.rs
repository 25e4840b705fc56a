//! Counters of reassembly.

use super::reason::{GiveUps, Passes};
use crate::stats::Histogram;

/// Counters of a [`Reassembler`](super::Reassembler). Every packet received was passed, was
/// dropped, has left in a complete datagram or with one that was given up, or is still held:
/// `packets_in == passed.total() + dropped + joined + released + held`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// Packets that left, complete datagrams counted once.
    pub packets_out: u64,
    /// Bytes of frames that left.
    pub bytes_out: u64,
    /// Packets passed without being held, by reason.
    pub passed: Passes,
    /// Exact duplicates dropped, if that is configured.
    pub dropped: u64,
    /// Datagrams completed, atomic fragments included.
    pub reassembled: u64,
    /// Fragments that were a complete datagram (RFC 6946).
    pub atomic: u64,
    /// Fragments that became part of complete datagrams, atomic ones included.
    pub joined: u64,
    /// Why datagrams were given up.
    pub given_up: GiveUps,
    /// Fragments that left unchanged because their datagram was given up.
    pub released: u64,
    /// Fragments per completed datagram.
    pub fragments: Histogram,
    /// Time from the first fragment's arrival to the complete datagram, in nanoseconds.
    pub hold_ns: Histogram,
}

impl Counters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.passed.add(&other.passed);
        self.dropped += other.dropped;
        self.reassembled += other.reassembled;
        self.atomic += other.atomic;
        self.joined += other.joined;
        self.given_up.add(&other.given_up);
        self.released += other.released;
        self.fragments.add(&other.fragments);
        self.hold_ns.add(&other.hold_ns);
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.packets_in += 1;
        self.bytes_in += bytes as u64;
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.packets_out += 1;
        self.bytes_out += bytes as u64;
    }

    pub(super) fn completed(&mut self, fragments: u16, held_ns: u64) {
        self.reassembled += 1;
        self.joined += u64::from(fragments);
        self.fragments.record(u64::from(fragments));
        self.hold_ns.record(held_ns);
    }
}
