//! What limits now, and what limits next when that is relieved.

use super::predict::Resource;
use super::question::{Question, SolveError};
use crate::Clock;
use crate::transmit::Design;
use alloc::vec::Vec;

/// A design, what limits it, and what relieving that gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The design at this step.
    pub design: Design,
    /// What it carries, in bits on the line per second.
    pub wire_bits_per_second: f64,
    /// What limits it.
    pub limit: Resource,
    /// What each relief would give, the most first.
    pub reliefs: Vec<Relief>,
}

/// One resource made faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relief {
    /// Which.
    pub of: Resource,
    /// What is carried then, as a share of what is carried now, 1 and above.
    pub gain: f64,
}

/// Steps from a design upwards: each has the one before relieved of its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// The design as it is, and relieved once, twice, ….
    pub steps: Vec<Step>,
}

/// By how much a resource is relieved, in quarters.
const RELIEF_QUARTERS: u64 = 5;

impl Question {
    /// What limits a design: the resource that gives most when it is made a quarter faster.
    ///
    /// # Errors
    /// As [`Question::predict`].
    pub fn limit(&self, design: &Design) -> Result<Step, SolveError> {
        let now = self.predict(design)?.wire_bits_per_second();
        let gain = |of| -> Result<Relief, SolveError> {
            let relieved = self.predict(&relieve(design, of))?.wire_bits_per_second();
            Ok(Relief { of, gain: relieved / now })
        };
        let all = [Resource::Line, Resource::Dma, Resource::Core];
        let mut reliefs = all.into_iter().map(gain).collect::<Result<Vec<_>, _>>()?;
        reliefs.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        let limit = reliefs.first().map_or(Resource::Core, |relief| relief.of);
        Ok(Step { design: design.clone(), wire_bits_per_second: now, limit, reliefs })
    }

    /// What limits this question's design, and what next, `steps` times; it ends when the line rate
    /// that is asked for is carried.
    ///
    /// # Errors
    /// As [`Question::predict`].
    pub fn ladder(&self, steps: usize) -> Result<Ladder, SolveError> {
        let mut ladder = Ladder { steps: Vec::new() };
        let mut design = self.design.clone();
        for _ in 0..steps {
            let step = self.limit(&design)?;
            design = relieve(&design, step.limit);
            let enough = self.predict(&step.design)?.carries(self.bits_per_second)
                && step.design.line_bits_per_second.is_none_or(|line| line >= self.bits_per_second);
            ladder.steps.push(step);
            if enough {
                break;
            }
        }
        Ok(ladder)
    }
}

/// The same design with one resource a quarter faster.
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
            *line = line.map(|rate| (rate / 4).saturating_mul(RELIEF_QUARTERS));
        }
    }
    design
}
