//! Why there is no calibration.

use crate::Failure;
use crate::error::Kind;
use linecard_io::calibrate::VERSION;
use linecard_transfer_net::stages::LineError;
use std::io;
use std::path::PathBuf;

/// Arguments or a file that give no calibration, or a transfer that has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CalibrateError {
    #[error("--other-core {core}: that is the core that --core names: choose another")]
    SameCore { core: usize },
    #[error("cannot run on core {core}: {source}")]
    Core { core: usize, source: io::Error },
    #[error("there is neither $XDG_STATE_HOME nor $HOME: name a file by --file or --calibration")]
    NoFolder,
    #[error(
        "there is no calibration {}: make one by `linecard calibrate`, or give stages their costs", path.display()
    )]
    Missing { path: PathBuf },
    #[error("{}: this is not a calibration ({source}): make one again", path.display())]
    Invalid { path: PathBuf, source: serde_json::Error },
    #[error("{}: its version is {version}, and {VERSION} is known: make it again", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("{}: this is the calibration of another machine: {difference}; make one here", path.display())]
    Machine { path: PathBuf, difference: String },
    #[error("a transfer over loopback: {0}")]
    Line(#[from] LineError),
}

impl Kind for CalibrateError {
    fn failure(&self) -> Failure {
        if matches!(self, Self::Line(_)) { Failure::Thread } else { Failure::Usage }
    }
}
