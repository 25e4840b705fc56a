//! `linecard model run`.

use super::{ScenarioArguments, help};
use crate::account;
use crate::flags::Flags;
use crate::page::PageArguments;
use crate::units;
use clap::Args;
use linecard_app::Error;
use linecard_app::model::{self, transmit};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = help::all())]
pub(crate) struct RunArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    options: Flags<transmit::Options>,
    #[command(flatten)]
    page: PageArguments,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs a scenario of any model.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Error> {
    let RunArguments { scenario, options, page, json } = arguments;
    let capture = options.value("capture").map(|path| units::output(path.into()));
    let others = [Some(scenario.scenario.as_path()), capture.as_deref()];
    let page = page.check(&others.into_iter().flatten().collect::<Vec<_>>())?;
    let found = model::run(&scenario.read()?, &options.document()?, &Arc::default())?;
    account::show(found, *json, capture.as_deref(), &page)
}
