//! Why a sweep or its points were refused, or gave no result.

use super::axis::MAX_POINTS;
use super::parallel::MAX_THREADS;
use crate::error::Kind;
use crate::{Error, Failure};
use linecard_config::ConfigError;
use std::sync::Arc;

/// Arguments of a sweep, or points, that are refused or have failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    #[error("--vary {text}: {source}")]
    Axis { text: String, source: AxisError },
    #[error("--vary {key}: this key is varied twice")]
    AxisTwice { key: String },
    #[error("--vary: more than {MAX_POINTS} points: choose larger steps")]
    TooMany,
    #[error("--threads {threads}: choose 1 to {MAX_THREADS}")]
    Threads { threads: usize },
    #[error("{key}: this key is varied twice")]
    Twice { key: String },
    #[error("a point has {values} values for {keys} keys")]
    Values { values: usize, keys: usize },
    #[error("the firmware is wrong at {wrong} of {points} points")]
    Wrong { wrong: u64, points: u64 },
    #[error("the firmware is wrong: packets differ from the offload's output for the messages")]
    WrongPoint,
    #[error("{failed} of {points} points could not be run; the first: {first}")]
    Failed {
        failed: u64,
        points: u64,
        #[source]
        first: Arc<Error>,
    },
}

/// Values of a key that are refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum AxisError {
    #[error("write KEY=FROM..TO:STEP or KEY=A,B,C")]
    NoValues,
    #[error("write FROM..TO:STEP, as 100..500:10 or 40G..400G:40G")]
    Form,
    #[error("write the same unit behind FROM, TO and STEP")]
    Units,
    #[error("FROM must be at most TO, and STEP above 0")]
    Order,
    #[error("more than {MAX_POINTS} values: choose a larger STEP")]
    TooMany,
    #[error("{}", .0.problem)]
    Value(#[source] ConfigError),
}

impl Kind for SweepError {
    fn failure(&self) -> Failure {
        match self {
            Self::Wrong { .. } | Self::WrongPoint => Failure::Wrong,
            Self::Failed { .. } => Failure::Firmware,
            _ => Failure::Usage,
        }
    }
}
