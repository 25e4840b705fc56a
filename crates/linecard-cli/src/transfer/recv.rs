//! `linecard recv`: what another host sends, into a folder or a pipe.

use super::bar::Bar;
use crate::account;
use crate::codes::exit_codes;
use crate::flags::Flags;
use crate::say;
use crate::signals;
use crate::units;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use linecard_app::transfer::receive::{Config, ReceiveJob, ReceiveOutcome, Receiver};
use linecard_app::transfer::{Failed, Log};
use linecard_app::{Context, Job, finished_with};
use linecard_app::{Error, Failure};
use linecard_report::Report;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_long_help = exit_codes(&[0, 1, 2, 5, 6, 14, 15, 16, 17, 130]))]
pub(crate) struct RecvArguments {
    /// The folder for received files, created if it is missing; - is stdout, for one file or pipe.
    #[arg(value_name = "DIR", value_parser = PathBufValueParser::new().map(units::output))]
    folder: PathBuf,
    #[command(flatten)]
    flags: Flags<Config>,
    /// Receive from one sender after the other, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Print the statistics of each transfer as JSON, also if it is incomplete; on stderr if the
    /// data goes to stdout.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &RecvArguments) -> Result<(), Error> {
    let document = arguments.flags.document()?;
    let config = Config { folder: arguments.folder.clone(), ..document.config()? };
    if arguments.keep && config.is_pipe() {
        return Err(Failure::Usage.with("--keep is for a folder: stdout takes one file or pipe"));
    }
    let progress = signals::progress()?;
    let context = Context { progress: &progress, document: Some(&document) };
    let bar = Arc::new(Bar::new());
    let above = Arc::clone(&bar);
    let log: Log = Arc::new(move |line| above.say(line));
    let report = |outcome: &ReceiveOutcome| {
        finished_with::<ReceiveJob>(ReceiveJob::COMMAND, &config, &context, outcome).report
    };
    let receiver =
        Receiver::listen(&config, &context, &log).map_err(|error| context.placed(error))?;
    loop {
        let result = receiver.receive(&mut |progress| {
            let total = (progress.total_bytes > 0).then_some(progress.total_bytes);
            bar.show(progress.done_bytes, total, std::iter::empty());
        });
        bar.done();
        match result {
            Ok(outcome) => match arguments.received(&outcome, &report(&outcome)) {
                Err(error) if arguments.keep && error.failure() == Some(Failure::Partial) => {
                    say(&error.to_string());
                }
                result => result?,
            },
            Err(Failed { error, outcome: None })
                if arguments.keep && error.failure() == Some(Failure::Stopped) =>
            {
                return Ok(());
            }
            Err(failed) => arguments.failed(failed, report)?,
        }
        if !arguments.keep || progress.is_stopped() {
            return Ok(());
        }
    }
}

impl RecvArguments {
    fn received(&self, outcome: &ReceiveOutcome, report: &Report) -> Result<(), Error> {
        self.print(report)?;
        outcome.missing().iter().for_each(|line| say(line));
        ReceiveJob::check(outcome)
    }

    /// A transfer has ended early; the next may come if there is to be one.
    fn failed(
        &self,
        Failed { error, outcome }: Failed<ReceiveOutcome>,
        report: impl Fn(&ReceiveOutcome) -> Report,
    ) -> Result<(), Error> {
        if let Some(outcome) = outcome.filter(|_| self.json) {
            self.print(&report(&outcome))?;
        }
        if !self.keep || error.failure() == Some(Failure::Stopped) {
            return Err(error);
        }
        say(&error.to_string());
        Ok(())
    }

    /// Beside the data, if that goes to stdout.
    fn print(&self, report: &Report) -> Result<(), Error> {
        let output = (self.folder == Path::new("-")).then_some(&*self.folder);
        account::print(report, self.json, output)
    }
}
