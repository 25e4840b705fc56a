//! `linecard calibrate`.

use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::interrupt;
use crate::progress::{ROUNDS, shown};
use clap::{Args, ValueEnum};
use linecard_app::Context;
use linecard_app::calibrate::{self, Settings, calibrate};
use std::path::PathBuf;
use std::sync::Arc;

/// Stages of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// Of large sends and receives.
    Offload,
    /// Of transfers over lanes.
    Transfer,
}

impl From<Only> for calibrate::Only {
    fn from(only: Only) -> Self {
        match only {
            Only::Offload => Self::Offload,
            Only::Transfer => Self::Transfer,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct CalibrateArguments {
    /// File to write [default: linecard/calibration.json in `$XDG_STATE_HOME` or
    /// `~/.local/state`].
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Core to measure on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    core: usize,
    /// A second core, for what it costs to hand packets over [default: the one after or before].
    #[arg(long, value_name = "N")]
    other_core: Option<usize>,
    /// Measure stages of offloads, or of transfers, and keep what the file has of the others.
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    /// Measure for a second or two instead of some more, and no repair codes.
    #[arg(long)]
    quick: bool,
    /// Print the costs as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &CalibrateArguments) -> Result<(), Failure> {
    let &CalibrateArguments { ref file, core, other_core, only, quick, json } = arguments;
    interrupt::remove_incomplete_output()?;
    let only = only.map(Into::into);
    let settings = Settings { file: file.clone(), core, other_core, only, quick };
    let progress = Arc::default();
    let report = shown(ROUNDS, &progress, || calibrate(&settings, &Context::new(&progress)))?;
    account::print(&report, json, None)
}
