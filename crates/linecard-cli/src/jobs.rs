//! What the command does, for other faces of it than the command line: arguments, or a scenario's text, go
//! in; reports come out. Nothing is printed.

use crate::args::{Arguments, Command};
use crate::failure::Failure;
use crate::jitter::{JitterArguments, JitterCommand};
use crate::model::{self, ModelArguments, ModelCommand};
use crate::{captures, usage, watch};
use clap::Parser;
use linecard::watch::Watch;
use linecard_app::Finished;
use linecard_app::model::{Scenario, sweep};
use linecard_report::{Page, Report};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

pub use linecard_app::Cancellable as Watched;
pub use sweep::Row;

/// Why a job did not come to its end, or not to a good one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// One line: what, which value, what to do.
    pub text: String,
    /// The exit code that the command has for it: `linecard --help` lists them.
    pub code: u8,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { text: failure.to_string(), code: failure.code() }
    }
}

/// What a job has found.
#[derive(Debug)]
pub struct Done {
    /// All figures.
    pub report: Report,
    /// The same for a browser.
    pub page: Page,
    /// Set where the job failed at the end, with what it had found until then.
    pub refused: Option<Refused>,
}

impl From<Finished> for Done {
    fn from(found: Finished) -> Self {
        let Finished { report, page, failure, .. } = found;
        Self { report, page, refused: failure.map(Refused::from) }
    }
}

/// Runs a job: the arguments of a command behind its name, as `["model", "solve", "--rate", "100G"]`. Of
/// coalesce, segment, run, plan, model run, solve and ladder, and jitter analyze. `watch` sees how far it is,
/// in bytes of a capture, messages, chunks or virtual time; when it is stopped, the job ends soon, without any
/// output.
///
/// # Errors
///
/// What the command refuses, with its exit code.
pub fn job(
    arguments: impl IntoIterator<Item = OsString>,
    watch: &Arc<Watch>,
) -> Result<Done, Refused> {
    let arguments = std::iter::once(OsString::from("linecard")).chain(arguments);
    let arguments = Arguments::try_parse_from(arguments).map_err(|error| {
        let text = usage::of(&error);
        Refused { text, code: 2 }
    })?;
    watch::during(watch, || {
        let found = find(&arguments.command)?;
        // What was ended early has found nothing.
        watch::go_on()?;
        Ok(Done::from(found))
    })
}

fn find(command: &Command) -> Result<Finished, Refused> {
    Ok(match command {
        Command::Coalesce(arguments) => captures::find_coalesced(arguments, &watch::any())?,
        Command::Segment(arguments) => captures::find_segmented(arguments, &watch::any())?,
        Command::Run(arguments) => crate::run::find(arguments, &watch::any())?,
        Command::Model(ModelArguments { command }) => match command {
            ModelCommand::Run(arguments) => model::run(arguments)?,
            ModelCommand::Solve(arguments) => model::solve(arguments)?,
            ModelCommand::Ladder(arguments) => model::ladder(arguments)?,
            ModelCommand::Trace(_) | ModelCommand::Sweep(_) => return Err(no_report()),
        },
        Command::Jitter(JitterArguments {
            command: Some(JitterCommand::Analyze(arguments)),
            ..
        }) => arguments.find(&watch::any())?,
        #[cfg(target_os = "linux")]
        Command::Plan(arguments) => match &arguments.scenario {
            Some(path) => crate::plan::find(arguments, path)?,
            None => return Err(no_report()),
        },
        _ => return Err(no_report()),
    })
}

fn no_report() -> Refused {
    let text = "this command is for the command line only".to_owned();
    Refused { text, code: 2 }
}

/// A model's scenario, and the keys of it that points have values for.
#[derive(Debug)]
pub struct Points(sweep::Points);

impl Points {
    /// Takes the text of a scenario file, which would be at `path`: errors name it, and paths in it are seen
    /// from its folder. `sets` are values as `KEY=VALUE` that count for all points; `keys` are what points
    /// differ in. `predict` computes points of "transmit" in place of running them.
    ///
    /// # Errors
    ///
    /// What `linecard model run` refuses.
    pub fn new(
        path: &Path,
        text: &str,
        sets: &[String],
        keys: &[String],
        predict: bool,
    ) -> Result<Self, Refused> {
        let scenario = Scenario::of_text(path, text, sets)?;
        Ok(Self(sweep::Points::new(&scenario, keys, predict)?))
    }

    /// What points came to, in their order, on so many threads; or why one could not be run. A point has a
    /// value for each key. When `watch` is stopped, those that run come to their end early, others are not run.
    ///
    /// # Errors
    ///
    /// Points with too many values or too few; firmware that is not there.
    pub fn run(
        &self,
        points: &[Vec<String>],
        threads: usize,
        watch: &Arc<Watch>,
    ) -> Result<Vec<Result<Row, String>>, Refused> {
        Ok(self.0.run(points, threads, watch)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_job(line: &str) -> Result<Done, Refused> {
        job(line.split(' ').map(OsString::from), &Arc::default())
    }

    #[test]
    fn a_job_is_what_the_command_does() {
        let done = run_job("model solve --rate 100G --mtu 1500").expect("an answer");
        assert!(done.refused.is_none() && done.report.to_string().contains("smallest"));
        let refused = run_job("model solve --rate 100").expect_err("too little");
        assert!(refused.code == 2 && refused.text.contains("100"), "{refused:?}");
        let refused = run_job("ports").expect_err("no report");
        assert_eq!(refused.text, "this command is for the command line only");
    }
}
