//! `linecard reproduce`: published figures beside ours.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "rows that may be off by per cents come with other figures")
)]
mod comparison;
#[cfg(target_os = "linux")]
mod lro_npu;
mod lso;

use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use clap::{Args, ValueEnum};
use linecard::report::Report;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReproduceArguments {
    /// What to reproduce.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) name: Option<Reproduction>,
    /// Reproduce all that needs no rights and little time, one after the other.
    #[arg(long, conflicts_with_all = ["name", "scenario"])]
    pub(crate) all: bool,
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
    /// Send offload on a RISC core: cycles of each class of packets, DMA five times as fast (table 1).
    /// This and all that begin with lso run real firmware on the modelled core, in seconds.
    LsoTable1,
    /// The same with the DMA at 2115 MHz (table 2).
    LsoTable2,
    /// The core clock that carries 40 and 100 Gbit/s (table 3), and that of our own firmware.
    LsoTable3,
    /// The core clock over the packet size (figures 9 and 11), and what the text says of clocks, rates
    /// and fragments.
    LsoClock,
    /// Receive offload on a network processor: throughput over connections (figure 13), starvation
    /// (section V.B), active acknowledgment (section V.C). Real traffic between two network
    /// namespaces; needs root, iperf3 and ethtool; four minutes.
    #[cfg(target_os = "linux")]
    LroNpu,
}

/// What a reproduction came to.
struct Reproduced {
    report: Report,
    /// Figures that differ, without a reason.
    unexplained: usize,
}

/// From a scenario, or from the one that comes with the command.
type Reproduce = fn(Option<&Path>) -> Result<Reproduced, Failure>;

/// Each with its function, and whether `--all` has it.
const TABLE: &[(Reproduction, Reproduce, bool)] = &[
    (Reproduction::LsoTable1, lso::table1, true),
    (Reproduction::LsoTable2, lso::table2, true),
    (Reproduction::LsoTable3, lso::table3, true),
    (Reproduction::LsoClock, lso::clock, true),
    #[cfg(target_os = "linux")]
    (Reproduction::LroNpu, live, false),
];

/// Runs the command.
pub(crate) fn command(arguments: &ReproduceArguments) -> Result<(), Failure> {
    if arguments.all {
        return all(arguments.json);
    }
    let chosen = TABLE.iter().find(|(name, ..)| Some(*name) == arguments.name);
    let Some((_, reproduce, _)) = chosen else { return Ok(()) };
    let Reproduced { report, unexplained } = reproduce(arguments.scenario.as_deref())?;
    account::print(&report, arguments.json, None)?;
    ending(unexplained)
}

/// All that are quick: as text one behind the other, as JSON by their names.
fn all(json: bool) -> Result<(), Failure> {
    let mut unexplained = 0;
    let mut reports = serde_json::Map::new();
    for (name, reproduce, is_quick) in TABLE {
        if !is_quick {
            continue;
        }
        let found = reproduce(None)?;
        unexplained += found.unexplained;
        if json {
            let value = name.to_possible_value();
            let name = value.as_ref().map_or("", |value| value.get_name()).to_owned();
            let report = serde_json::to_value(&found.report).map_err(std::io::Error::from)?;
            reports.insert(name, report);
        } else {
            account::print(&found.report, false, None)?;
        }
    }
    if json {
        account::print_json(&reports)?;
    }
    ending(unexplained)
}

fn ending(unexplained: usize) -> Result<(), Failure> {
    if unexplained == 0 {
        return Ok(());
    }
    let what = format!("{unexplained} figures differ, and it is not known why: see DIFFERS");
    Err(Failure::Unexplained(what))
}

/// Live traffic has no figures that must be met.
#[cfg(target_os = "linux")]
fn live(path: Option<&Path>) -> Result<Reproduced, Failure> {
    Ok(Reproduced { report: lro_npu::reproduce(path)?, unexplained: 0 })
}
