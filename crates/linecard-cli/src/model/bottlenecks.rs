//! `linecard model bottlenecks`.

use super::ScenarioArguments;
use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::page::PageArguments;
use clap::Args;
use linecard_app::Context;
use linecard_app::Error;
use linecard_app::model::bottlenecks::{self, Options};
use linecard_app::model::transmit::TransmitModel;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = all_exit_codes())]
pub(crate) struct BottlenecksArguments {
    #[command(flatten)]
    from: ScenarioArguments,
    #[command(flatten)]
    options: Flags<Options>,
    #[command(flatten)]
    page: PageArguments,
    /// Print the statistics as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &BottlenecksArguments) -> Result<(), Error> {
    let page = arguments.page.check(&[&arguments.from.scenario])?;
    let options = arguments.options.document()?.config()?;
    let document = arguments.from.read()?.only::<TransmitModel>()?;
    let context = Context { progress: &Arc::default(), document: Some(&document) };
    account::show(bottlenecks::finish(&options, &context)?, arguments.json, None, &page)
}
