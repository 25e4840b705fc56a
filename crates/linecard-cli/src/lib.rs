//! The `linecard` command: arguments, files and texts around the library. It is a library, so that it is compiled in
//! parallel with the crates that it needs; a program would wait for them.

mod account;
mod args;
#[cfg(target_os = "linux")]
mod attach;
#[cfg(target_os = "linux")]
mod captures;
mod codes;
mod completions;
mod flags;
mod interrupt;
mod jitter;
mod job;
mod log;
mod man;
mod model;
mod page;
#[cfg(target_os = "linux")]
mod plan;
mod progress;
#[cfg(all(test, target_os = "linux"))]
mod reference;
mod reproduce;
mod run;
mod schema;
mod signals;
#[cfg(target_os = "linux")]
mod transfer;
mod units;
mod usage;

use args::{Arguments, Command};
use clap::{CommandFactory, Parser};
use linecard_app::{Error, Level};
use std::process::ExitCode;

/// The command, with the arguments of this process; its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::refuse(&error),
    };
    for (former, today) in flags::former_names(&Arguments::command(), std::env::args_os().skip(1)) {
        log::write(Level::Warning, &format!("{former} is now called {today}"));
    }
    let result = match arguments.command {
        Command::Run(arguments) => run::command(&arguments),
        Command::Coalesce(arguments) => captures::coalesce(&arguments),
        #[cfg(target_os = "linux")]
        Command::Attach(arguments) => attach::command(&arguments),
        Command::Jitter(arguments) => jitter::command(&arguments),
        Command::Model(arguments) => model::command(&arguments),
        Command::Segment(arguments) => captures::segment(&arguments),
        Command::Reproduce(arguments) => reproduce::command(&arguments),
        #[cfg(target_os = "linux")]
        Command::Calibrate(arguments) => arguments.of_rounds(),
        #[cfg(target_os = "linux")]
        Command::Plan(arguments) => plan::command(&arguments),
        #[cfg(target_os = "linux")]
        Command::Ports(arguments) => ports(arguments.json),
        #[cfg(target_os = "linux")]
        Command::Send(arguments) => transfer::send(&arguments),
        #[cfg(target_os = "linux")]
        Command::Recv(arguments) => transfer::recv(&arguments),
        #[cfg(target_os = "linux")]
        Command::Keys(arguments) => transfer::keys(&arguments),
        Command::Completions(arguments) => completions::command(&arguments, Arguments::command()),
        Command::Man(arguments) => man::command(&arguments, Arguments::command()),
        Command::Schema(arguments) => schema::command(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_broken_pipe() {
                log::write(Level::Error, &failure.to_string());
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Prints what this host can do.
#[cfg(target_os = "linux")]
fn ports(json: bool) -> Result<(), Error> {
    use linecard_app::{finish, ports::Ports};
    let document = linecard_config::Document::of_text("", "")?;
    let finished = finish::<Ports>("ports", &document, &Default::default())?;
    account::print(&finished.report, json, None)
}

/// A line on stderr.
fn say(line: &str) {
    log::write(Level::Notice, line);
}
