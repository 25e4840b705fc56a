//! `linecard recv`: what another host sends, into a folder or a pipe.

use super::bar::Bar;
use super::printer::Printer;
use crate::account;
use crate::codes::exit_codes;
use crate::flags::Flags;
use crate::say;
use crate::signals;
use crate::units;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use linecard_app::transfer::receive::{Config, Reach, ReceiveJob, ReceiveOutcome, Receiver};
use linecard_app::transfer::{Failed, Log};
use linecard_app::{Context, Job, finished_with};
use linecard_app::{Error, Failure};
use linecard_report::Report;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

#[derive(Debug, Args)]
#[command(after_long_help = exit_codes(&[0, 1, 2, 5, 6, 14, 15, 16, 17, 130]))]
pub(crate) struct RecvArguments {
    /// The folder for received files, created if it is missing; - is stdout, for one file or pipe; `s3://BUCKET/PREFIX` an
    /// object store.
    #[arg(value_name = "DIR", value_parser = PathBufValueParser::new().map(units::output))]
    folder: PathBuf,
    #[command(flatten)]
    flags: Flags<Config>,
    /// Receive from one sender after the other, or several at once (see --at-once), until Ctrl-C.
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
    if config.started && (arguments.keep || arguments.json || config.is_pipe()) {
        return Err(
            Failure::Usage.with("--started is for one transfer into a folder, without statistics")
        );
    }
    if !arguments.keep && config.at_once.is_some() {
        return Err(
            Failure::Usage.with("--at-once is for a receiver that goes on: give --keep, too")
        );
    }
    let config = if arguments.keep { config.kept() } else { config };
    let progress = signals::progress()?;
    let context = Context { progress: &progress, document: Some(&document) };
    let bar = Arc::new(Bar::new());
    let above = Arc::clone(&bar);
    let log: Log = Arc::new(move |line| above.say(line));
    let receiver = Receiver::listen(&config, &context, &log, Reach::OwnFolders)
        .map_err(|error| context.placed(error))?;
    if config.started {
        account::print_text(&receiver.ready())?;
    }
    let one = Receiving {
        arguments,
        config: &config,
        context: &context,
        bar: &bar,
        printing: Mutex::default(),
        printer: None,
    };
    if !arguments.keep {
        return one.receive_one(&receiver).map(drop);
    }
    let (printer, printing) = Printer::start(arguments.json)?;
    let one = Receiving { printer: Some(printer), ..one };
    let ends = thread::scope(|scope| {
        let threads: Vec<_> = (0..config.at_once.unwrap_or(1))
            .map(|_| scope.spawn(|| one.receive_all(&receiver).inspect_err(|_| progress.stop())))
            .collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    drop(one);
    printing.end();
    let mut result = Ok(());
    for end in ends {
        result = result.and(end.unwrap_or_else(|panic| resume_unwind(panic)));
    }
    result
}

/// One of the threads that receive.
struct Receiving<'a> {
    arguments: &'a RecvArguments,
    config: &'a Config,
    context: &'a Context<'a>,
    bar: &'a Bar,
    /// Statistics of one transfer at a time.
    printing: Mutex<()>,
    /// Of a receiver that goes on.
    printer: Option<Printer>,
}

impl Receiving<'_> {
    /// Until the user ends it.
    fn receive_all(&self, receiver: &Receiver<'_>) -> Result<(), Error> {
        while self.receive_one(receiver)? && !self.context.progress.is_stopped() {}
        Ok(())
    }

    /// False if the user has ended it before any sender connected.
    fn receive_one(&self, receiver: &Receiver<'_>) -> Result<bool, Error> {
        let is_alone = self.config.at_once.unwrap_or(1) == 1;
        let result = receiver.receive(&mut |progress| {
            let total = (progress.total_bytes > 0).then_some(progress.total_bytes);
            // Several would draw over each other.
            if is_alone {
                self.bar.show(progress.done_bytes, total, std::iter::empty());
            }
        });
        let _printing = self.printing.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.done();
        let report = |outcome: &ReceiveOutcome| {
            finished_with::<ReceiveJob>(ReceiveJob::COMMAND, self.config, self.context, outcome)
                .report
        };
        let arguments = self.arguments;
        match result {
            // Its sender has all of that.
            Ok(_) if self.config.started => {}
            Ok(outcome) => match self.received(&outcome, report(&outcome)) {
                Err(error) if arguments.keep && error.failure() == Some(Failure::Partial) => {
                    arguments.say(Some(&outcome), &error.to_string());
                }
                result => result?,
            },
            // The sender that has started it has ended, and has said why.
            Err(Failed { error, outcome: None })
                if (arguments.keep || self.config.started)
                    && error.failure() == Some(Failure::Stopped) =>
            {
                return Ok(false);
            }
            Err(failed) => self.failed(failed, report)?,
        }
        Ok(true)
    }

    fn received(&self, outcome: &ReceiveOutcome, report: Report) -> Result<(), Error> {
        self.print(report)?;
        outcome.missing().iter().for_each(|line| self.arguments.say(Some(outcome), line));
        ReceiveJob::check(outcome)
    }

    /// A transfer has ended early; the next may come if there is to be one.
    fn failed(
        &self,
        Failed { error, outcome }: Failed<ReceiveOutcome>,
        report: impl Fn(&ReceiveOutcome) -> Report,
    ) -> Result<(), Error> {
        if let Some(outcome) = outcome.as_deref().filter(|_| self.arguments.json) {
            self.print(report(outcome))?;
        }
        if !self.arguments.keep || error.failure() == Some(Failure::Stopped) {
            return Err(error);
        }
        self.arguments.say(outcome.as_deref(), &error.to_string());
        Ok(())
    }

    /// Beside the data, if that goes to stdout.
    fn print(&self, report: Report) -> Result<(), Error> {
        if let Some(printer) = &self.printer {
            printer.print(report);
            return Ok(());
        }
        let RecvArguments { folder, json, .. } = self.arguments;
        let output = (folder == Path::new("-")).then_some(&**folder);
        account::print(&report, *json, output)
    }
}

impl RecvArguments {
    /// A line about a transfer; of a receiver that is kept it names the sender.
    fn say(&self, outcome: Option<&ReceiveOutcome>, line: &str) {
        match outcome.and_then(|outcome| outcome.transfer.from.as_ref()).filter(|_| self.keep) {
            Some(from) => say(&format!("from {from}: {line}")),
            None => say(line),
        }
    }
}
