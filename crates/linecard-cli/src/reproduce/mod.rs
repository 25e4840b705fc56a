//! `linecard reproduce`: published figures beside ours.

mod comparison;
mod lro_npu;

use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReproduceArguments {
    /// What to reproduce.
    #[arg(value_name = "NAME")]
    pub(crate) name: Reproduction,
    /// Scenario to use instead of the one that comes with the command.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Only the model: no real traffic, no rights.
    #[arg(long)]
    pub(crate) modelled: bool,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reproduction {
    /// Receive offload on a network processor: throughput over connections (figure 13), starvation
    /// (section V.B), active acknowledgment (section V.C). First in a model of the processor, which
    /// takes seconds; then with real traffic between two network namespaces, which needs root, iperf3
    /// and ethtool, takes four minutes, and is left out where those are missing.
    LroNpu,
}

/// Runs the command.
pub(crate) fn command(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let report = match arguments.name {
        Reproduction::LroNpu => {
            lro_npu::reproduce(arguments.scenario.as_deref(), arguments.modelled)?
        }
    };
    account::print(&report, arguments.json, None)
}
