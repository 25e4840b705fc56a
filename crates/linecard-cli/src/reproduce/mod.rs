//! `linecard reproduce`: published figures beside ours.

#[cfg(target_os = "linux")]
mod end2end100;
#[cfg(target_os = "linux")]
mod iperf3;
#[cfg(target_os = "linux")]
mod linux_jitter;
#[cfg(target_os = "linux")]
mod lro_npu;
mod lso;
mod lso_receive;

use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::watch;
use clap::{Args, ValueEnum};
use linecard_app::Context;
use linecard_app::reproduce::{Reproduced, comparison, reproduce};
use linecard_report::Report;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReproduceArguments {
    /// What to reproduce.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) name: Option<Reproduction>,
    /// Reproduce all, one after the other, with models only: half a minute.
    #[arg(long, conflicts_with_all = ["name", "scenario"])]
    pub(crate) all: bool,
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
    /// (section V.B), active acknowledgment (section V.C). First in a model of the processor, which
    /// takes seconds; then with real traffic between two network namespaces, which needs root, iperf3
    /// and ethtool, takes four minutes, and is left out where those are missing.
    #[cfg(target_os = "linux")]
    LroNpu,
    /// Sources of jitter from the wire to the application (figures 5 to 11). First formulae and a model of
    /// the way, then experiments E0 to E8 on this host, each tagged real, emulated or not testable here: half
    /// a minute, in two network namespaces with root, over the loopback interface without.
    LinuxJitter,
    /// Receiving with a RISC core and a CAM: idle cycles (figure 8), and what the remedies that the paper
    /// weighs would give. Real firmware on the modelled core, in a second.
    LsoReceive,
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
    /// Bulk transfer over one to eight lanes of 10 Gbit/s in virtual time: throughput, overhead and
    /// latency of a chunk in both modes, without FEC and with it, in some seconds; then, where this
    /// process may make namespaces, over eight real lanes of 200 Mbit/s beside TCP: a minute.
    End2end100,
}

/// From a scenario, or from the one that comes with the command.
type Reproduce = fn(Option<&Path>) -> Result<Reproduced, Failure>;

/// Each with its function; `--all` has them all.
const TABLE: &[(Reproduction, Reproduce)] = &[
    (Reproduction::LsoTable1, lso::table1),
    (Reproduction::LsoTable2, lso::table2),
    (Reproduction::LsoTable3, lso::table3),
    (Reproduction::LsoClock, lso::clock),
    (Reproduction::LsoReceive, lso_receive::reproduce),
    #[cfg(target_os = "linux")]
    (Reproduction::LroNpu, |path| from_paper("lro-npu", path)),
    (Reproduction::LinuxJitter, |path| from_paper("linux-jitter", path)),
    (Reproduction::GigabitThroughput, |path| from_paper("gigabit-throughput", path)),
    (Reproduction::GigabitOverhead, |path| from_paper("gigabit-overhead", path)),
    (Reproduction::GigabitBus, |path| from_paper("gigabit-bus", path)),
    (Reproduction::ZeroCopy, |path| from_paper("zero-copy", path)),
    (Reproduction::End2end100, |path| from_paper("end2end100", path)),
];

/// What this host gives, where it can.
#[cfg(target_os = "linux")]
fn add_live(
    name: Option<Reproduction>,
    own: Option<&Path>,
    report: &mut Report,
) -> Result<(), Failure> {
    match name {
        Some(Reproduction::LroNpu) => lro_npu::add(own, report),
        Some(Reproduction::LinuxJitter) => linux_jitter::add(report),
        Some(Reproduction::End2end100) => end2end100::add(report),
        _ => Ok(()),
    }
}

fn from_paper(name: &str, own: Option<&Path>) -> Result<Reproduced, Failure> {
    reproduce(name, own, &Context::new(&watch::any()))
}

/// Runs the command.
pub(crate) fn command(arguments: &ReproduceArguments) -> Result<(), Failure> {
    if arguments.all {
        return all(arguments.json);
    }
    let chosen = TABLE.iter().find(|(name, _)| Some(*name) == arguments.name);
    let Some((_, reproduce)) = chosen else { return Ok(()) };
    let own = arguments.scenario.as_deref();
    #[cfg(target_os = "linux")]
    if arguments.name == Some(Reproduction::LroNpu) && !arguments.modelled {
        // What is wrong is said before anything runs.
        lro_npu::check(own)?;
    }
    let mut reproduced = reproduce(own)?;
    #[cfg(target_os = "linux")]
    if !arguments.modelled {
        add_live(arguments.name, own, &mut reproduced.report)?;
    }
    let Reproduced { report, unexplained } = reproduced;
    account::print(&report, arguments.json, None)?;
    ending(unexplained)
}

/// All: as text one behind the other, as JSON by their names.
fn all(json: bool) -> Result<(), Failure> {
    let mut unexplained = 0;
    let mut reports = serde_json::Map::new();
    for (name, reproduce) in TABLE {
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
    let what =
        format!("{unexplained} figures differ without a reason, or beyond its limit: see DIFFERS");
    Err(Failure::Unexplained(what))
}
