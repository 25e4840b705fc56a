//! Why a scenario is not planned, or its plan not measured.

use super::measured::KNOWN;
use crate::Failure;
use crate::error::Kind;
use linecard_io::calibrate::deployed::Deployment;
use linecard_plan::MAX_STAGES;
use linecard_transfer_net::stages::Stage;

/// A scenario that is refused, or a measurement that is wrong or has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanningError {
    #[error("{count} stages: name 1 to {MAX_STAGES} as [[stage]]")]
    Stages { count: usize },
    #[error("give a cost in time, in cycles, or by its name in the calibration: one of them")]
    SeveralCosts,
    #[error("cycles need a clock: give clock_mhz in [machine]")]
    NoClock,
    #[error(
        "the calibration has neither {name}@{packet} nor {name}: give fixed and each, or another packet size in \
         [demand], or calibrate again if it is older than the stage"
    )]
    NotCalibrated { name: String, packet: u32 },
    #[error("there is no stage \"{name}\"")]
    NoStage { name: String },
    #[error("--measure: the engine can run these stages: {}", KNOWN.map(|(_, names)| names.join(", ")).join("; or "))]
    OtherStages,
    #[error("--measure: packets of {bytes} bytes: choose 576, 1500 or 9000")]
    Packet { bytes: u32 },
    #[error("--measure: {planned} cores are planned, and the engine can use {available} here")]
    Cores { planned: usize, available: usize },
    #[error(
        "--measure: the engine can have application, segment and wire on one core, and take, coalesce and verify on \
         the other: put them beside each other"
    )]
    Halves,
    #[error(
        "--measure: stage {stage} fires {firings} times for a packet, and in the engine {expected}: it has {group} \
         packets of {packet} bytes in a large one"
    )]
    Firings { stage: String, firings: f64, expected: f64, group: u32, packet: u32 },
    #[error("{wrong} packets failed verification: {deployment:?}")]
    Wrong { wrong: u64, deployment: Deployment },
    #[error("the plan does not know whether {share} of the most fits")]
    Unsure { share: f64 },
    #[error("{transfer}: not measured: {}", missing.iter().map(|stage| stage.name()).collect::<Vec<_>>().join(", "))]
    NotMeasured { transfer: String, missing: Vec<Stage> },
}

impl Kind for PlanningError {
    fn failure(&self) -> Failure {
        match self {
            Self::Wrong { .. } | Self::Unsure { .. } => Failure::Wrong,
            Self::NotMeasured { .. } => Failure::Thread,
            _ => Failure::Usage,
        }
    }
}
