//! The `linecard` command: arguments, files and texts around the library.

mod account;
mod args;
mod coalesce;
mod explain;
mod failure;
mod progress;
mod run;
mod segment;
mod units;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Run(arguments) => run::command(&arguments),
        Command::Coalesce(arguments) => coalesce::command(&arguments),
        Command::Segment(arguments) => segment::command(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_broken_pipe() {
                eprintln!("linecard: {failure}");
            }
            failure.exit_code()
        }
    }
}
