//! `linecard jitter`: which cause makes each late packet, and what to change.

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
}

/// Runs the command. What an earlier one has left behind is put back first.
#[cfg(target_os = "linux")]
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Failure> {
    let store = linecard_host::jitter::journal::Store::of_user();
    recovery::begin(&store);
    match &arguments.command {
        JitterCommand::Audit(arguments) => audit::command(arguments, &store),
    }
}

/// Runs the command.
#[cfg(not(target_os = "linux"))]
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Failure> {
    match arguments.command {}
}
