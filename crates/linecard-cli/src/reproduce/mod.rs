//! `linecard reproduce`: published figures beside ours.

mod comparison;
mod gigabit;
mod lro_npu;
mod zero_copy;

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
    /// A gigabit adapter on PCI, modelled: throughput over clients, sessions, processors and their
    /// clock (figures 2 to 5).
    GigabitThroughput,
    /// What Ethernet and TCP/IP add to data (figures 6 and 7).
    GigabitOverhead,
    /// A frame over the PCI bus and through the server, modelled (figures 8 and 9), and what the paper
    /// suggests.
    GigabitBus,
    /// An adapter whose device fetches payload from host memory, beside one that stores and forwards
    /// it, modelled.
    ZeroCopy,
}

/// Runs the command.
pub(crate) fn command(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let scenario = arguments.scenario.as_deref();
    let report = match arguments.name {
        Reproduction::LroNpu => lro_npu::reproduce(scenario)?,
        Reproduction::GigabitThroughput => gigabit::throughput(scenario)?,
        Reproduction::GigabitOverhead => gigabit::overhead(scenario)?,
        Reproduction::GigabitBus => gigabit::bus(scenario)?,
        Reproduction::ZeroCopy => zero_copy::reproduce(scenario)?,
    };
    account::print(&report, arguments.json, None)
}
