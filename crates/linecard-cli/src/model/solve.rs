//! `linecard model solve`.

use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::page::PageArguments;
use clap::Args;
use linecard_app::Context;
use linecard_app::Error;
use linecard_app::model::solve::{self, Config};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = all_exit_codes())]
pub(crate) struct SolveArguments {
    #[command(flatten)]
    options: Flags<Config>,
    #[command(flatten)]
    page: PageArguments,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Looks for the clocks that are not given.
pub(crate) fn command(arguments: &SolveArguments) -> Result<(), Error> {
    let page = arguments.page.check(&[])?;
    let document = arguments.options.document()?;
    let context = Context { progress: &Arc::default(), document: Some(&document) };
    account::show(solve::finish(&context.config()?, &context)?, arguments.json, None, &page)
}
