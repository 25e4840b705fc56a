//! Plans a pipeline for many cores: from requirements to replicas, core mapping, queues and
//! predictions.
//!
//! A protocol is a [`Graph`] of stages whose edges carry tokens at fixed rates. The [`Demand`]
//! determines how often each stage has to fire; the [`Cost`] of its calls determines how often a
//! core can fire it. [`plan`] chooses replicas, cores, batches and rings, and predicts throughput,
//! latency and the fraction of cycles that are too long; or it returns why no plan fits and what
//! would help ([`Infeasible`]).
//!
//! Its parts can be used by themselves: [`fit`] for measured costs, [`round_robin`] for one core,
//! [`Distribution`] for sums of times, [`Arrival`] and [`Service`] for queues, [`Problem`] for mappings.
//!
//! Bounds: [`MAX_STAGES`], [`MAX_EDGES`], [`MAX_CORES`], [`MAX_PARTS`], [`MAX_BATCH`], [`MAX_RING`].
//! Formulae and a worked example: <https://github.com/linecard/linecard/blob/main/docs/design/plan.md>.
//! Source: Büchner et al., 2017 (design, analysis, adaptation, mapping of protocol stages on many cores).
#![no_std]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc)]

extern crate alloc;

mod advice;
mod cost;
mod curve;
mod design;
mod distribution;
mod graph;
mod mapping;
mod parts;
mod ratio;
mod saturation;
mod schedule;
mod stage;

pub use advice::{Infeasible, Remedy, plan};
pub use cost::{Cost, CostError, Fit, MAX_POINTS, Spread, fit};
pub use curve::{Arrival, MAX_RING, Service};
pub use design::{CorePlan, Plan, Reason, RingPlan, StagePlan};
pub use distribution::Distribution;
pub use graph::{Edge, Graph, GraphError, MAX_EDGES, MAX_STAGES, Port, Token};
pub use mapping::{Flow, Mapping, Problem, Score};
pub use parts::{MAX_PARTS, PlanInput};
pub use saturation::saturation;
pub use schedule::{Cycle, Load, Overrun, round_robin};
pub use stage::{Demand, MAX_BATCH, MAX_CORES, Machine, Objective, PlanError, StageSpec, State};

/// The smallest integer that is not below `x`, except for rounding errors in `x`, which is not
/// negative.
fn ceil(x: f64) -> u64 {
    let exact = x * (1.0 - 1e-9);
    let whole = exact as u64;
    whole.saturating_add(u64::from((whole as f64) < exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_stay_as_they_are() {
        for (x, whole) in [(0.0, 0), (0.2, 1), (1.0, 1), (8.000_000_001, 8), (8.1, 9)] {
            assert_eq!(ceil(x), whole, "{x}");
        }
        assert_eq!((ceil(f64::INFINITY), ceil(f64::NAN)), (u64::MAX, 0));
    }
}
