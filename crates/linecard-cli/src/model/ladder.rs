//! `linecard model ladder`.

use super::ScenarioArguments;
use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::page::PageFile;
use clap::Args;
use linecard_app::Context;
use linecard_app::Error;
use linecard_app::model::ladder::{self, Options};
use linecard_app::model::transmit::TransmitModel;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct LadderArguments {
    #[command(flatten)]
    from: ScenarioArguments,
    #[command(flatten)]
    options: Flags<Options>,
    /// Print the statistics as JSON.
    #[arg(long)]
    json: bool,
}

/// Climbs.
pub(crate) fn command(arguments: &LadderArguments) -> Result<(), Error> {
    let options = arguments.options.document()?.config()?;
    let document = arguments.from.read()?.only::<TransmitModel>()?;
    let context = Context { progress: &Arc::default(), document: Some(&document) };
    account::show(ladder::finish(&options, &context)?, arguments.json, None, &PageFile::default())
}
