//! What stages cost on this machine, and whether that says what they do together.
//!
//! [`measure`](fn@measure) times calls of anything; [`offload`] has the stages of the two offloads as they work in the
//! engine, and [`deployed`] runs them there, mapped on cores, to be held against a plan. What was found is
//! a [`Calibration`], which belongs to one processor ([`Identity`]).
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

pub use clock::first;
pub use identity::Identity;
pub use predict::predict;
pub use survey::{Survey, SurveyError, halves_seen};

use cost::StoredCost;
pub use measure::{Bench, Call, Circle, Effort, Entry, Measured, Series, measure, median};
use predict::halves;

use linecard::plan::{Cost, Token};
use serde::{Deserialize, Serialize};
use std::io;

/// The form that calibrations have: files of another are refused.
pub const VERSION: u32 = 1;

/// Costs of stages, and of what they were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// [`VERSION`].
    pub version: u32,
    /// Of which machine.
    pub identity: Identity,
    /// Stages by name.
    pub stages: Vec<StageCost>,
    /// What a cycle of a core costs besides its stages, nanoseconds.
    pub cycle_ns: f64,
    /// What a packet costs the giving and the taking core more when it goes to another core.
    pub crossings: Vec<Crossing>,
}

/// What a stage costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCost {
    /// Its name, as `segment@1500`.
    pub name: String,
    /// What a firing handles: packet, group or chunk.
    pub unit: String,
    /// What calls cost.
    #[serde(with = "StoredCost")]
    pub cost: Cost,
    /// The largest difference of a measurement to the fit, as a share of it.
    pub residual: f64,
}

/// What going to another core costs a packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// Bytes of the IP packet.
    pub packet: u32,
    /// The giving core, nanoseconds.
    pub giving_ns: f64,
    /// The taking core, nanoseconds.
    pub taking_ns: f64,
}

impl From<Measured> for StageCost {
    fn from(Measured { name, unit, cost, residual, .. }: Measured) -> Self {
        Self { name, unit: unit.to_string(), cost, residual }
    }
}

impl Calibration {
    /// The cost of a stage: under its name, or with `@packet` behind it.
    #[must_use]
    pub fn cost(&self, name: &str, packet: u32) -> Option<&Cost> {
        let sized = format!("{name}@{packet}");
        let found = |name: &str| self.stages.iter().find(|stage| stage.name == name);
        found(&sized).or_else(|| found(name)).map(|stage| &stage.cost)
    }

    /// What crossing costs packets of this size: that of the nearest size measured; nothing where none was.
    #[must_use]
    pub fn crossing_ns(&self, packet: u32) -> [f64; 2] {
        let nearest = self.crossings.iter().min_by_key(|crossing| crossing.packet.abs_diff(packet));
        nearest.map_or([0.0; 2], |crossing| [crossing.giving_ns, crossing.taking_ns])
    }
}

/// The kind of token by its name.
#[must_use]
pub fn token(name: &str) -> Option<Token> {
    [Token::Packet, Token::Group, Token::Chunk].into_iter().find(|token| token.to_string() == name)
}

/// Pins the calling thread to a core.
///
/// # Errors
///
/// When there is no such core, or it may not be used.
pub fn pin(core: usize) -> io::Result<()> {
    let mut cores = rustix::thread::CpuSet::new();
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).map_err(io::Error::from)
}

/// Does something on a core, and lets the calling thread go back to where it could be before.
///
/// # Errors
///
/// When there is no such core, or it may not be used, or not left.
pub fn on_core<T>(core: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = rustix::thread::sched_getaffinity(None)?;
    pin(core)?;
    let result = work();
    rustix::thread::sched_setaffinity(None, &before)?;
    Ok(result)
}
