//! `linecard jitter`: which cause makes each late packet, and what to change.

#[cfg(target_os = "linux")]
mod dummy;
#[cfg(target_os = "linux")]
mod figures;
#[cfg(target_os = "linux")]
mod placement;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod send;
#[cfg(target_os = "linux")]
mod sink;

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
    /// Run a busy loop that receives nothing: what this host does to a program on a core.
    ///
    /// Prints both how long laps took (gaps) and how late they were: a pause of 10 ms is one long gap, and
    /// more than a thousand late laps.
    #[cfg(target_os = "linux")]
    Dummy(dummy::DummyArguments),
    /// Send a stream of constant rate on an absolute schedule, and say how well it was kept.
    ///
    /// A packet that is late is sent at once; the schedule stays. Packets carry their number, when they
    /// were due and when they were sent, behind media headers.
    #[cfg(target_os = "linux")]
    Send(send::SendArguments),
    /// Receive a stream of `linecard jitter send`, and say when packets came and which did not.
    ///
    /// Ends when all came that are expected, when nothing comes any more, or with Ctrl-C.
    #[cfg(target_os = "linux")]
    Sink(sink::SinkArguments),
}

/// Runs the command.
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Failure> {
    match &arguments.command {
        #[cfg(target_os = "linux")]
        JitterCommand::Dummy(arguments) => dummy::command(arguments),
        #[cfg(target_os = "linux")]
        JitterCommand::Send(arguments) => send::command(arguments),
        #[cfg(target_os = "linux")]
        JitterCommand::Sink(arguments) => sink::command(arguments),
    }
}
