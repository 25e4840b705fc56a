//! `linecard model solve`.

use crate::failure::{EXIT_CODES, Failure};
use crate::flags::Flags;
use crate::found;
use crate::page::PageArguments;
use crate::watch;
use clap::Args;
use linecard_app::model::solve::{self, Config};
use linecard_app::{Context, Finished};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SolveArguments {
    #[command(flatten)]
    options: Flags<Config>,
    #[command(flatten)]
    page: PageArguments,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &SolveArguments) -> Result<(), Failure> {
    let page = arguments.page.check(&[])?;
    found::show(find(arguments)?, arguments.json, None, &page)
}

/// Looks for what is not given.
pub(crate) fn find(arguments: &SolveArguments) -> Result<Finished, Failure> {
    let document = arguments.options.document()?;
    let context = Context { progress: &watch::any(), document: Some(&document) };
    solve::run(&context.config()?, &context)
}
