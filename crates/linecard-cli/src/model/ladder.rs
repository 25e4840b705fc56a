//! `linecard model ladder`.

use super::ScenarioArguments;
use crate::failure::{EXIT_CODES, Failure};
use crate::flags::Flags;
use crate::found;
use crate::page::PageFile;
use crate::watch;
use clap::Args;
use linecard_app::model::ladder::{self, Options};
use linecard_app::model::transmit::TransmitModel;
use linecard_app::{Context, Finished};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct LadderArguments {
    #[command(flatten)]
    from: ScenarioArguments,
    #[command(flatten)]
    options: Flags<Options>,
    /// Print the account as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &LadderArguments) -> Result<(), Failure> {
    found::show(find(arguments)?, arguments.json, None, &PageFile::default())
}

/// Climbs.
pub(crate) fn find(arguments: &LadderArguments) -> Result<Finished, Failure> {
    let options = arguments.options.document()?.config()?;
    let document = arguments.from.read()?.only::<TransmitModel>()?;
    ladder::finish(&options, &Context { progress: &watch::any(), document: Some(&document) })
}
