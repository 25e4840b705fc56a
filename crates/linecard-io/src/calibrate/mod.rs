//! The cost of stages on this machine, and whether it predicts their joint throughput.
//!
//! [`measure`](fn@measure) times calls of anything; [`offload`] has the stages of the two offloads
//! as they run in the engine, and [`deployed`] runs them there, mapped to cores, for comparison
//! with a plan. The result is a [`Calibration`], which is valid for one processor ([`Identity`]).
//!
//! Stages of another crate are added by giving more [`Entry`]s.

mod clock;
mod cost;
pub mod deployed;
mod identity;
mod measure;
pub mod offload;
mod predict;
mod survey;

pub use clock::raise_priority;
pub use identity::Identity;
pub use predict::predict;
pub use survey::{Survey, SurveyError, measure_halves};

use crate::placement;
use cost::StoredCost;
pub use measure::{
    Bench, Call, Entry, MeasureConfig, Measured, Series, StageLoop, measure, median,
};
use predict::halves;

use linecard_plan::Cost;
use serde::{Deserialize, Serialize};
use std::io;

/// The version of the file format: files of another version are refused.
pub const VERSION: u32 = 1;

/// Costs of stages, and the machine they were measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// [`VERSION`].
    pub version: u32,
    /// The machine.
    pub identity: Identity,
    /// Stages by name.
    pub stages: Vec<StageCost>,
    /// The cost of a cycle besides its stages, nanoseconds.
    pub cycle_ns: f64,
    /// The additional cost of a packet that goes to another core, for the sending and the receiving
    /// core.
    pub crossings: Vec<Crossing>,
}

/// The cost of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCost {
    /// Its name, as `segment@1500`.
    pub name: String,
    /// The unit of a firing: packet, group or chunk.
    pub unit: String,
    /// The cost of calls.
    #[serde(with = "StoredCost")]
    pub cost: Cost,
    /// The largest relative deviation of a measurement from the fit.
    pub residual: f64,
}

/// The additional cost of a packet that goes to another core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// Bytes of the IP packet.
    pub packet: u32,
    /// On the sending core, nanoseconds.
    pub giving_ns: f64,
    /// On the receiving core, nanoseconds.
    pub taking_ns: f64,
}

impl From<Measured> for StageCost {
    fn from(Measured { name, unit, cost, residual, .. }: Measured) -> Self {
        Self { name, unit: unit.to_string(), cost, residual }
    }
}

impl Calibration {
    /// The cost of a stage, under its name or with `@packet` appended.
    #[must_use]
    pub fn cost(&self, name: &str, packet: u32) -> Option<&Cost> {
        let sized = format!("{name}@{packet}");
        let found = |name: &str| self.stages.iter().find(|stage| stage.name == name);
        found(&sized).or_else(|| found(name)).map(|stage| &stage.cost)
    }

    /// The crossing cost for packets of the nearest size measured; 0 if none was.
    #[must_use]
    pub fn crossing_ns(&self, packet: u32) -> [f64; 2] {
        let nearest = self.crossings.iter().min_by_key(|crossing| crossing.packet.abs_diff(packet));
        nearest.map_or([0.0; 2], |crossing| [crossing.giving_ns, crossing.taking_ns])
    }
}

/// Pins the calling thread to a core.
///
/// # Errors
///
/// If the core does not exist, or may not be used.
pub fn pin(core: usize) -> io::Result<()> {
    placement::pin(core).map(drop)
}

/// Runs `work` on a core, and restores the calling thread's set of cores.
///
/// # Errors
///
/// If the core does not exist, may not be used, or the previous set cannot be restored.
pub fn on_core<T>(core: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = placement::pin(core)?;
    let result = work();
    rustix::thread::sched_setaffinity(None, &before)?;
    Ok(result)
}
