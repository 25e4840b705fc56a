//! `linecard jitter`: which cause makes each late packet, and what to change.

use crate::failure::{EXIT_CODES, Failure};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct JitterArguments {
    #[command(subcommand)]
    command: JitterCommand,
}

#[derive(Debug, Subcommand)]
enum JitterCommand {}

/// Runs the command.
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Failure> {
    match arguments.command {}
}
