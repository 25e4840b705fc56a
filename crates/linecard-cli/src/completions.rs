//! `linecard completions`: what a shell needs to complete the command, from the same definition as its
//! parser.

use crate::failure::{EXIT_CODES, Failure};
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use std::io::{self, Write};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `whole`.
pub(crate) fn command(arguments: &CompletionsArguments, mut whole: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut whole, "linecard", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    Ok(out.flush()?)
}
