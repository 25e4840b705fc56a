//! Measurements of a run.

use super::bus::Transfer;
use crate::Ps;
use alloc::vec::Vec;

/// Where frames went, from the beginning on: received = delivered + dropped + held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Frames that reached the adapter.
    pub received: u64,
    /// Whose data the application has.
    pub delivered: u64,
    /// For which the FIFO had no room; they are sent again.
    pub dropped: u64,
    /// In the FIFO, on the bus, in a buffer or a queue when the run ended.
    pub held: u64,
}

/// Measurements after the warm-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PciResults {
    /// How long was measured.
    pub duration: Ps,
    /// All frames, the warm-up included.
    pub frames: Frames,
    /// Bytes of file data that the application got.
    pub delivered_bytes: u64,
    /// Frames over the bus, and what they took.
    pub transfers: u64,
    /// Sums over these transfers.
    pub bus: Transfer,
    /// Clocks of writes that return buffers.
    pub requeue_clocks: u64,
    /// Clocks in which the bus did nothing.
    pub idle_clocks: u64,
    /// Stretches of 100 µs and more among them, in which no frame came.
    pub pauses: u64,
    /// Clocks of these.
    pub pause_clocks: u64,
    /// Stretches of deferred calls without a frame between them.
    pub phases: u64,
    /// Frames handled.
    pub handled: u64,
    /// Times at which the interrupt handler had caught up with the frames.
    pub runs: u64,
    /// Time in the interrupt handler.
    pub handler_time: Ps,
    /// Time in protocol work.
    pub protocol_time: Ps,
    /// How long each processor was busy.
    pub busy: Vec<Ps>,
}

impl PciResults {
    /// File data in Mbit/s.
    #[must_use]
    pub fn mbps(&self) -> f64 {
        self.delivered_bytes as f64 * 8.0 / self.duration.as_secs_f64() / 1e6
    }

    /// Frames handled between two stretches of deferred calls.
    #[must_use]
    pub fn burst_frames(&self) -> f64 {
        ratio(self.handled, self.phases)
    }

    /// Frames that the interrupt handler takes without a break.
    #[must_use]
    pub fn run_frames(&self) -> f64 {
        ratio(self.handled, self.runs)
    }

    /// Clocks that the bus waits for the next frame, pauses left out.
    #[must_use]
    pub fn refill_clocks(&self) -> f64 {
        self.per_transfer(self.idle_clocks - self.pause_clocks)
    }

    /// Mean of `clocks`, a sum over all transfers, for one of them.
    #[must_use]
    pub fn per_transfer(&self, clocks: u64) -> f64 {
        ratio(clocks, self.transfers)
    }

    /// The share of the time that a processor was busy, 0 … 1.
    #[must_use]
    pub fn utilisation(&self, cpu: usize) -> f64 {
        ratio(self.busy.get(cpu).map_or(0, |busy| busy.0), self.duration.0)
    }
}

fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}
