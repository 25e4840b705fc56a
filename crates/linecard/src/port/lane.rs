//! Lanes: one of several parallel paths.

use super::{Port, PortState};
use crate::packet::Batch;
use crate::time::Instant;

/// One of several parallel paths: a link, a queue, a core's ring. It marks packets that it receives
/// with its number and counts both directions.
#[derive(Debug)]
pub struct Lane<P> {
    /// The number that received packets are marked with.
    pub id: u32,
    /// The underlying port.
    pub port: P,
    counters: LaneCounters,
}

/// Counters of a [`Lane`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneCounters {
    /// Packets received.
    pub received: u64,
    /// Packets transmitted.
    pub transmitted: u64,
}

impl<P> Lane<P> {
    /// Lane number `id` over `port`.
    pub fn new(id: u32, port: P) -> Self {
        Self { id, port, counters: LaneCounters::default() }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> LaneCounters {
        self.counters
    }
}

impl<B, P: Port<B>> Port<B> for Lane<P> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        let before = batch.len();
        let state = self.port.receive(batch, now);
        for packet in batch.iter_mut().skip(before) {
            packet.meta.lane = self.id;
            self.counters.received += 1;
        }
        state
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        let before = batch.len();
        self.port.transmit(batch, now);
        self.counters.transmitted += (before - batch.len()) as u64;
    }
}
