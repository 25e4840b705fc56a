//! `linecard reproduce`: published figures beside ours.

#[cfg_attr(not(test), expect(dead_code, reason = "its first user comes with the next commit"))]
mod comparison;
mod lro_npu;
mod lso_receive;

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
    /// Print the comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reproduction {
    /// Receive offload on a network processor: throughput over connections (figure 13), starvation
    /// (section V.B), active acknowledgment (section V.C). Real traffic between two network
    /// namespaces; needs root, iperf3 and ethtool; four minutes.
    LroNpu,
    /// Receiving with a RISC core and a CAM: idle cycles (figure 8), and what the remedies that the paper
    /// weighs would give. Real firmware on the modelled core, in a second.
    LsoReceive,
}

/// Runs the command.
pub(crate) fn command(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let report = match arguments.name {
        Reproduction::LroNpu => lro_npu::reproduce(arguments.scenario.as_deref())?,
        Reproduction::LsoReceive => lso_receive::reproduce(arguments.scenario.as_deref())?,
    };
    account::print(&report, arguments.json, None)
}
