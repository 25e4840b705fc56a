//! `linecard jitter`: which cause makes each late packet, and what to change.

mod analyze;
#[cfg(target_os = "linux")]
mod audit;
#[cfg(target_os = "linux")]
pub(crate) mod recovery;
#[cfg(target_os = "linux")]
pub(crate) mod stop;

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
    /// Say what of this host makes packets late, and what to change; change it only with --apply.
    ///
    /// Reads the kernel's command line and configuration, interrupts, the interface, clocks and sleep,
    /// the scheduler and memory. What cannot be read is unknown. With --apply each setting is written to
    /// a journal before it is changed, read again after, and put back at the end, after a crash too.
    #[cfg(target_os = "linux")]
    Audit(audit::AuditArguments),
    /// Say of a stream in a capture how evenly it comes, and what it asks of buffers.
    ///
    /// Takes RTP (ST 2022-6, ST 2110-20, -30, -31, -40), streams of `linecard jitter send`, and other UDP.
    /// Of several flows the one with the most packets is taken, streams first. With a second capture of
    /// the same stream, as from the application's side: both side by side, and what each packet was
    /// delayed between them.
    Analyze(analyze::AnalyzeArguments),
}

/// Runs the command. What an earlier one has left behind is put back first.
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    let store = linecard_host::jitter::journal::Store::of_user();
    #[cfg(target_os = "linux")]
    recovery::begin(&store);
    match &arguments.command {
        #[cfg(target_os = "linux")]
        JitterCommand::Audit(arguments) => audit::command(arguments, &store),
        JitterCommand::Analyze(arguments) => analyze::command(arguments),
    }
}
