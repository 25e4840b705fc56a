//! `linecard model run`.

use super::{ScenarioArguments, help};
use crate::failure::{EXIT_CODES, Failure};
use crate::found;
use crate::page::PageArguments;
use crate::units;
use crate::watch;
use clap::Args;
use linecard_app::model::transmit::{Options, TransmitModel, run};
use linecard_app::{Context, Finished, Job, finished};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_help = EXIT_CODES, after_long_help = help::all())]
pub(crate) struct RunArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Of "transmit" only: phases of the DMA's clock to try, evenly over its period, 1 to 1000. The
    /// first is the scenario's own, which all other figures are of [default: 8].
    #[arg(long, value_name = "N", value_parser = units::count)]
    phases: Option<u64>,
    /// Of "transmit" only: write the packets that left, with their virtual times, to a capture of raw IP packets. Names
    /// ending in .pcap give pcap, all others pcapng; - is stdout.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Of "transmit" only: show for each line of the firmware's source how many cycles it was busy, waited, and lost behind
    /// branches.
    #[arg(long)]
    annotate: bool,
    #[command(flatten)]
    page: PageArguments,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Failure> {
    let output = arguments.output();
    let others = [Some(arguments.scenario.scenario.as_path()), output.as_deref()];
    let page = arguments.page.check(&others.into_iter().flatten().collect::<Vec<_>>())?;
    found::show(find(arguments)?, arguments.json, output.as_deref(), &page)
}

impl RunArguments {
    fn output(&self) -> Option<PathBuf> {
        self.capture.as_deref().map(|path| units::output(path.into()))
    }
}

/// Runs a scenario of any model.
pub(crate) fn find(arguments: &RunArguments) -> Result<Finished, Failure> {
    let scenario = arguments.scenario.read()?;
    let progress = watch::any();
    if scenario.model.name == TransmitModel::NAME {
        let context = Context { progress: &progress, document: Some(&scenario.document) };
        let config = context.config()?;
        let defaults = Options::default();
        let options = Options {
            phases: arguments.phases.unwrap_or(defaults.phases),
            capture: arguments.output(),
            annotate: arguments.annotate,
        };
        let outcome = run(&config, &options, &context).map_err(|error| context.placed(error))?;
        return Ok(finished::<TransmitModel>("model", TransmitModel::title(&config), &outcome));
    }
    for (option, is_given) in [
        ("--phases", arguments.phases.is_some()),
        ("--capture", arguments.capture.is_some()),
        ("--annotate", arguments.annotate),
    ] {
        if is_given {
            let what = format!("{option} is for \"{}\" only: leave it out", TransmitModel::NAME);
            return Err(scenario.refuse(what));
        }
    }
    scenario.model.run(&scenario.document, &progress)
}
