//! `linecard model trace`.

use super::{ScenarioArguments, help};
use crate::flags::Flags;
use crate::units;
use clap::Args;
use linecard_app::Context;
use linecard_app::Error;
use linecard_app::model::trace::{self, Options};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = help::transmit())]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// File to write; - is stdout.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    options: Flags<Options>,
}

/// Runs the command.
pub(crate) fn command(arguments: &TraceArguments) -> Result<(), Error> {
    let options = arguments.options.document()?.config()?;
    let document = arguments.scenario.transmit()?;
    let output = units::output(arguments.output.clone());
    trace::run(&options, &output, &Context { progress: &Arc::default(), document: Some(&document) })
}
