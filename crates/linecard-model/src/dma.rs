//! Transfers over the local bus, and bus arbitration.

use super::{Clock, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arbitration of the local bus during a transfer (Elbeshti et al., section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BusPolicy {
    /// the DMA holds the bus until the end of the transfer, as published
    #[default]
    Hold,
    /// the core gets the bus between two words and delays the remaining ones
    Interleave,
    /// memories have two ports: neither waits
    DualPort,
}

/// The DMA's timing: its own clock and the core's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dma {
    /// The core's clock.
    pub(super) core: Clock,
    /// Its own.
    pub(super) clock: Clock,
    pub(super) cycles_per_word: u64,
    pub(super) policy: BusPolicy,
}

/// A transfer in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    /// The DMA's edge at which the next word begins.
    from: u64,
    /// DMA cycles of the words left from there on.
    left: u64,
    /// When the last word has been moved, unless the core interrupts.
    pub(super) end: Ps,
    /// The first core cycle in which the transfer is complete.
    pub(super) end_cycle: u64,
}

impl Dma {
    /// Begins a transfer of `cycles` DMA cycles at the first edge at `time` or later.
    pub(super) fn begin(&self, time: Ps, cycles: u64) -> Transfer {
        self.transfer(self.clock.at_or_after(time), cycles)
    }

    /// When the transfer moves its first word.
    pub(super) fn start(&self, transfer: &Transfer) -> Ps {
        self.clock.edge(transfer.from)
    }

    fn transfer(&self, from: u64, left: u64) -> Transfer {
        let end = self.clock.edge(from + left);
        Transfer { from, left, end, end_cycle: self.core.at_or_after(end) }
    }

    /// The core requests the bus in `cycle`: returns the cycle in which it gets it.
    pub(super) fn access(&self, transfer: &mut Transfer, cycle: u64) -> u64 {
        match self.policy {
            BusPolicy::DualPort => cycle,
            BusPolicy::Hold => cycle.max(transfer.end_cycle),
            BusPolicy::Interleave if cycle >= transfer.end_cycle => cycle,
            BusPolicy::Interleave => self.come_between(transfer, cycle),
        }
    }

    /// The word in progress is completed; the following ones wait for the core's cycle.
    fn come_between(&self, transfer: &mut Transfer, cycle: u64) -> u64 {
        let now = self.clock.at_or_after(self.core.edge(cycle));
        let words = now.saturating_sub(transfer.from).div_ceil(self.cycles_per_word);
        let moved = (words * self.cycles_per_word).min(transfer.left);
        let from = transfer.from + moved;
        let granted = match moved {
            // No word is being moved: the bus is free.
            0 => cycle,
            _ => self.core.at_or_after(self.clock.edge(from)).max(cycle),
        };
        *transfer = match transfer.left - moved {
            0 => self.transfer(from, 0),
            left => {
                let next = self.clock.at_or_after(self.core.edge(granted + 1));
                self.transfer(next.max(from), left)
            }
        };
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::{BusPolicy, Clock, Dma, Ps};

    /// A DMA whose edges are 50 core cycles apart: from START to its first edge nothing moves.
    #[test]
    fn who_comes_between_waits_for_a_word_that_is_moved_only() {
        let clock = |hz| Clock::new(hz, Ps::ZERO).expect("a clock");
        let policy = BusPolicy::Interleave;
        let (core, slow) = (clock(100_000_000), clock(2_000_000));
        let dma = Dma { core, clock: slow, cycles_per_word: 1, policy };
        let mut transfer = dma.begin(core.edge(1), 4);
        assert_eq!((transfer.from, transfer.end_cycle), (1, 250));
        // Before the first word: at once, and the DMA loses nothing by it.
        assert_eq!((dma.access(&mut transfer, 10), transfer.end_cycle), (10, 250));
        // In the first word: behind it, and the second begins with the edge behind that cycle.
        assert_eq!((dma.access(&mut transfer, 60), transfer.end_cycle), (100, 300));
        assert_eq!((dma.access(&mut transfer, 101), transfer.end_cycle), (101, 300));
        // In a cycle in which a word would begin: the core first.
        assert_eq!((dma.access(&mut transfer, 150), transfer.end_cycle), (150, 350));
    }
}
