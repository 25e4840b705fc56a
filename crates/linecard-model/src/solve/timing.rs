//! Two unrelated clocks: how many core cycles a transfer takes on average.

use crate::Ps;
use crate::transmit::Design;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relative position of the clocks' edges when a transfer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// the DMA has an edge when the core starts it, as the published tables assume
    Best,
    /// random
    #[default]
    Typical,
    /// the core has just missed an edge
    Worst,
}

/// Clocks of a design. Means are in units of 1 / core Hz of a cycle, so that all is whole numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    core_hz: u128,
    dma_hz: u128,
    /// From the core's edge to the DMA's, in the same units, where it is always the same.
    fixed: Option<u128>,
    /// That at the core's edge 0.
    offset: u128,
}

/// Beyond this ratio of clocks a mean is taken for the sum: it differs by less than a cycle of hundreds.
const MANY_STEPS: u128 = 64;

impl Timing {
    pub(super) fn new(design: &Design, phase: Phase) -> Self {
        let (core_hz, dma_hz) = (u128::from(design.core.hz()), u128::from(design.dma.hz()));
        // The core's edge 0 on the DMA's clock: how far behind an edge, in 1 / second of a cycle.
        let second = u128::from(Ps::SECOND.0);
        let core_phase = u128::from(design.core.edge(0).0);
        let dma_phase = u128::from(design.dma.edge(0).0);
        let behind = (core_phase * dma_hz + second * dma_hz - dma_phase * dma_hz) % second;
        let offset = (second - behind) % second * core_hz / second;
        let fixed = match phase {
            Phase::Best => Some(0),
            Phase::Worst => Some(core_hz - 1),
            Phase::Typical => (dma_hz % core_hz == 0).then_some(offset),
        };
        Self { core_hz, dma_hz, fixed, offset }
    }

    /// The mean of max(transfer, `floor`) in core cycles, for a transfer of `cycles` DMA cycles.
    pub(super) fn mean(&self, cycles: u64, floor: u64) -> u128 {
        let (core, dma, floor) = (self.core_hz, self.dma_hz, u128::from(floor));
        let base = u128::from(cycles) * core;
        if let Some(late) = self.fixed {
            return (base + late).div_ceil(dma).max(floor) * core;
        }
        if core > MANY_STEPS * dma {
            return ((2 * base + core) * core / (2 * dma) + core / 2).max(floor * core);
        }
        // The transfer takes n cycles for all positions up to n · dma − base, of `core` in all.
        let (mut n, mut before, mut sum) = (base.div_ceil(dma), 0, 0);
        while before < core {
            let to = (n * dma - base).min(core);
            sum += n.max(floor) * (to - before);
            (before, n) = (to, n + 1);
        }
        sum
    }

    /// Whether positions differ from transfer to transfer.
    pub(super) fn is_free(&self) -> bool {
        self.fixed.is_none()
    }

    /// A walk over the positions, from the core's cycle 0.
    pub(super) fn walk(&self) -> Walk {
        Walk { core_hz: self.core_hz as u64, dma_hz: self.dma_hz as u64, late: self.offset as u64 }
    }
}

/// Positions one by one, as transfers come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    core_hz: u64,
    dma_hz: u64,
    /// From the core's edge to the DMA's, in units of 1 / core Hz of a DMA cycle.
    late: u64,
}

impl Walk {
    /// Core cycles that pass.
    pub(super) fn pass(&mut self, cycles: u64) {
        let moved = match (cycles % self.core_hz).checked_mul(self.dma_hz) {
            Some(moved) => moved % self.core_hz,
            None => {
                (u128::from(cycles) * u128::from(self.dma_hz) % u128::from(self.core_hz)) as u64
            }
        };
        self.late = (self.late + self.core_hz - moved) % self.core_hz;
    }

    /// Core cycles of a transfer that starts here.
    pub(super) fn transfer(&self, cycles: u64) -> u64 {
        // At most 2²⁰ cycles of at most 10¹¹ Hz.
        (cycles * self.core_hz + self.late).div_ceil(self.dma_hz)
    }
}
