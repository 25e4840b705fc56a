//! `linecard jitter`: which cause makes each late packet, and what to change.

mod analyze;

use crate::failure::{EXIT_CODES, Failure};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct JitterArguments {
    #[command(subcommand)]
    command: JitterCommand,
}

#[derive(Debug, Subcommand)]
enum JitterCommand {
    /// Say of a stream in a capture how evenly it comes, and what it asks of buffers.
    ///
    /// Takes RTP (ST 2022-6, ST 2110-20, -30, -31, -40), streams of `linecard jitter send`, and other UDP.
    /// Of several flows the one with the most packets is taken, streams first. With a second capture of
    /// the same stream, as from the application's side: both side by side, and what each packet was
    /// delayed between them.
    Analyze(analyze::AnalyzeArguments),
}

/// Runs the command.
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Failure> {
    match &arguments.command {
        JitterCommand::Analyze(arguments) => analyze::command(arguments),
    }
}
