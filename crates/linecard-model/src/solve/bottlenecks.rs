//! Bottleneck analysis: what limits a design, and what limits it next when that is relieved.

use super::input::{SolveError, SolveInput};
use super::predict::Resource;
use crate::Clock;
use crate::transmit::Design;
use alloc::vec::Vec;

/// A design, its bottleneck, and the effect of relieving resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// The design.
    pub design: Design,
    /// Its throughput, in bits on the line per second.
    pub wire_bits_per_second: f64,
    /// The resource that limits it.
    pub limit: Resource,
    /// The effect of relieving each resource, the largest first.
    pub reliefs: Vec<Relief>,
}

/// One resource made faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relief {
    /// The resource.
    pub of: Resource,
    /// The factor by which the throughput increases, 1 and above.
    pub gain: f64,
}

/// Designs from the given one upwards: each relieves the bottleneck of the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct BottleneckAnalysis {
    /// The given design, and the design after one relief, two, and so on.
    pub steps: Vec<Bottleneck>,
    /// The resource that cannot be relieved any further, if the required rate is not reached for
    /// that reason: clocks, bus and number of cores are at their limits.
    pub infeasible: Option<Resource>,
}

/// Limits of the clocks. Beyond these an analysis widens the bus and adds cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockLimits {
    /// The cores' clock in Hz.
    pub core_hz: u64,
    /// The DMAs' clock in Hz.
    pub dma_hz: u64,
}

impl Default for ClockLimits {
    /// 3 GHz each: about what logic and memories of one clock run at; the published DMA has 2.115 GHz.
    fn default() -> Self {
        Self { core_hz: 3_000_000_000, dma_hz: 3_000_000_000 }
    }
}

impl ClockLimits {
    /// The same design with one resource relieved: a clock that is a quarter faster, up to its
    /// limit, then a bus twice as wide (for the DMA), then twice as many cores, each with a bus and
    /// a DMA. None if all are at their limits.
    fn relieve(self, design: &Design, what: Resource, order_bytes: u64) -> Option<Design> {
        let (clock, limit) = match what {
            Resource::Line => {
                let is_fastest =
                    design.line_bits_per_second == Some(Design::MAX_LINE_BITS_PER_SECOND);
                return (!is_fastest).then(|| relieve(design, what));
            }
            Resource::Core => (design.core, self.core_hz),
            Resource::Dma => (design.dma, self.dma_hz),
        };
        if clock.hz() < limit {
            let faster = relieve(design, what);
            let bounded =
                |clock: Clock| Clock::new(clock.hz().min(limit), crate::Ps::ZERO).unwrap_or(clock);
            return Some(match what {
                Resource::Core => Design { core: bounded(faster.core), ..faster },
                _ => Design { dma: bounded(faster.dma), ..faster },
            });
        }
        if what == Resource::Dma && design.bus_bits < MAX_BUS_BITS {
            return Some(Design { bus_bits: design.bus_bits * 2, ..design.clone() });
        }
        if design.cores >= Design::MAX_CORES {
            return None;
        }
        // Messages of several cores wait for their turn.
        let room = usize::try_from(order_bytes).unwrap_or(usize::MAX).min(MAX_BUFFER);
        let cores = (design.cores * 2).min(Design::MAX_CORES);
        Some(Design { cores, sbi_bytes: design.sbi_bytes.max(room), ..design.clone() })
    }
}

/// The factor of a relief, in quarters.
const RELIEF_QUARTERS: u64 = 5;
/// The widest bus and the largest buffer that a design may have.
const MAX_BUS_BITS: u32 = 1024;
const MAX_BUFFER: usize = 1 << 30;

impl SolveInput {
    /// The bottleneck of a design: the resource whose relief by a quarter has the largest effect.
    ///
    /// # Errors
    /// As [`SolveInput::predict`].
    pub fn limit(&self, design: &Design) -> Result<Bottleneck, SolveError> {
        let now = self.predict(design)?.wire_bits_per_second();
        let gain = |of| -> Result<Relief, SolveError> {
            let relieved = self.predict(&relieve(design, of))?.wire_bits_per_second();
            Ok(Relief { of, gain: relieved / now })
        };
        let all = [Resource::Line, Resource::Dma, Resource::Core];
        let mut reliefs = all.into_iter().map(gain).collect::<Result<Vec<_>, _>>()?;
        reliefs.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        let limit = reliefs.first().map_or(Resource::Core, |relief| relief.of);
        Ok(Bottleneck { design: design.clone(), wire_bits_per_second: now, limit, reliefs })
    }

    /// The bottleneck of this input's design, and of up to `steps` relieved ones; ends once the
    /// required line rate is reached, or nothing can be relieved within the limits.
    ///
    /// # Errors
    /// As [`SolveInput::predict`].
    pub fn bottlenecks(
        &self,
        steps: usize,
        limits: ClockLimits,
    ) -> Result<BottleneckAnalysis, SolveError> {
        let mut analysis = BottleneckAnalysis { steps: Vec::new(), infeasible: None };
        let mut design = self.design.clone();
        for _ in 0..steps {
            let step = self.limit(&design)?;
            let order_bytes = self.traffic.order_bytes(design.mtu);
            let relieved = limits.relieve(&design, step.limit, order_bytes);
            let enough = self.predict(&step.design)?.carries(self.bits_per_second)
                && step.design.line_bits_per_second.is_none_or(|line| line >= self.bits_per_second);
            let limit = step.limit;
            analysis.steps.push(step);
            match relieved {
                _ if enough => break,
                Some(relieved) => design = relieved,
                None => {
                    analysis.infeasible = Some(limit);
                    break;
                }
            }
        }
        Ok(analysis)
    }
}

/// The same design with one resource a quarter faster, or as fast as it may be.
#[must_use]
pub fn relieve(design: &Design, what: Resource) -> Design {
    let mut design = design.clone();
    let faster = |clock: Clock| {
        let hz = (clock.hz() / 4).saturating_mul(RELIEF_QUARTERS).min(Clock::MAX_HZ);
        Clock::new(hz, crate::Ps::ZERO).unwrap_or(clock)
    };
    match what {
        Resource::Core => design.core = faster(design.core),
        Resource::Dma => design.dma = faster(design.dma),
        Resource::Line => {
            let line = &mut design.line_bits_per_second;
            let faster = |rate: u64| (rate / 4).saturating_mul(RELIEF_QUARTERS);
            *line = line.map(|rate| faster(rate).min(Design::MAX_LINE_BITS_PER_SECOND));
        }
    }
    design
}
