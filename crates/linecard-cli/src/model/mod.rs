//! `linecard model`: hardware in virtual time, from a scenario.

mod bottlenecks;
mod help;
mod run;
mod solve;
mod sweep;
mod trace;

use crate::{interrupt, say};
use clap::{Args, Subcommand};
use linecard_app::Error;
use linecard_app::model::Scenario;
use linecard_app::model::transmit::TransmitModel;
use linecard_config::Document;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Run a scenario once: cycles of each class of packets, rates, and the bottleneck.
    ///
    /// The file names its model by `model = "…"`. In "transmit", the sending side, real firmware moves
    /// real bytes, and every packet that leaves is compared with what `linecard segment` makes of the
    /// message. The other models report what came in, went out, was dropped and is held, rates, and what
    /// limits them. Time is virtual: equal scenarios give equal results on every machine.
    Run(run::RunArguments),
    /// Write a timeline of cores, DMA, bus and line, for a trace viewer.
    ///
    /// Takes scenarios of "transmit". Chrome's trace format opens in Perfetto (ui.perfetto.dev) and at `chrome://tracing`, VCD in
    /// wave viewers.
    Trace(trace::TraceArguments),
    /// Run a scenario over a grid of values, with a row for each point.
    ///
    /// Takes scenarios of "transmit". Points run on several threads; rows are in the order of the grid, the last key changes fastest.
    Sweep(sweep::SweepArguments),
    /// Find the smallest clocks, bus width and number of cores that carry a line rate.
    ///
    /// Given values are fixed. Omitted ones are computed in closed form, from cycles counted in runs of the firmware,
    /// and confirmed by runs just below and just above.
    Solve(solve::SolveArguments),
    /// Find the bottleneck of a scenario, and the next one when that is relieved.
    ///
    /// Takes scenarios of "transmit". Each step makes one resource a quarter faster; the resulting rate is computed,
    /// and confirmed by a run.
    #[command(alias = "ladder")]
    Bottlenecks(bottlenecks::BottlenecksArguments),
}

/// Arguments of all jobs.
#[derive(Debug, Args)]
pub(crate) struct ScenarioArguments {
    /// Scenario file (TOML); scenarios/model-*.toml are examples.
    pub(crate) scenario: PathBuf,
    /// Set a value of the scenario, as `core.mhz=423`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

impl ScenarioArguments {
    fn read(&self) -> Result<Scenario, Error> {
        Scenario::read(&self.scenario, &self.sets)
    }

    /// The document of a scenario of the sending side, for jobs whose output has no place for warnings.
    fn transmit(&self) -> Result<Document, Error> {
        let scenario = self.read()?;
        let warnings = scenario.former_names();
        let document = scenario.only::<TransmitModel>()?;
        warnings.iter().for_each(|warning| say(warning));
        Ok(document)
    }
}

/// Runs the command.
pub(crate) fn command(arguments: &ModelArguments) -> Result<(), Error> {
    interrupt::remove_incomplete_output()?;
    match &arguments.command {
        ModelCommand::Run(arguments) => run::command(arguments),
        ModelCommand::Trace(arguments) => trace::command(arguments),
        ModelCommand::Sweep(arguments) => sweep::command(arguments),
        ModelCommand::Solve(arguments) => solve::command(arguments),
        ModelCommand::Bottlenecks(arguments) => bottlenecks::command(arguments),
    }
}
