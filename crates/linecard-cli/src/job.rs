//! Commands that are one job of [`linecard_app`].

use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::interrupt;
use crate::page::{PageArguments, PageFile};
use crate::progress::{BYTES, Kind, ROUNDS, shown};
use crate::signals;
use clap::Args;
use linecard::progress::Progress;
use linecard_app::Error;
use linecard_app::{Finished, Job, finish};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The parameters of a job as options and arguments, and how its outcome is shown.
#[derive(Args)]
#[command(allow_negative_numbers = true, after_long_help = all_exit_codes())]
pub(crate) struct JobArguments<J: Job> {
    #[command(flatten)]
    flags: Flags<J::Config>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl<J: Job> fmt::Debug for JobArguments<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobArguments").field("flags", &self.flags).finish_non_exhaustive()
    }
}

/// The same, with a page.
#[derive(Debug, Args)]
pub(crate) struct PagedArguments<J: Job> {
    #[command(flatten)]
    job: JobArguments<J>,
    #[command(flatten)]
    page: PageArguments,
}

impl<J: Job> PagedArguments<J> {
    /// Runs a job that reads captures, and prints its outcome.
    pub(crate) fn of_captures(&self) -> Result<(), Error> {
        let inputs = ["input", "second"].into_iter().filter_map(|name| self.job.flags.value(name));
        let inputs: Vec<&Path> = inputs.map(Path::new).collect();
        let page = self.page.check(&inputs)?;
        interrupt::remove_incomplete_output()?;
        self.job.show(BYTES, &Arc::default(), &page)
    }

    /// Runs a job that a signal ends, with an outcome all the same.
    pub(crate) fn until_signal(&self) -> Result<(), Error> {
        let output: Vec<&Path> =
            self.job.flags.value("output").map(Path::new).into_iter().collect();
        self.job.until_signal(&self.page.check(&output)?)
    }
}

impl<J: Job> JobArguments<J> {
    /// Runs a job of some rounds, and prints its outcome.
    pub(crate) fn of_rounds(&self) -> Result<(), Error> {
        interrupt::remove_incomplete_output()?;
        self.show(ROUNDS, &Arc::default(), &PageFile::default())
    }

    /// Runs a job that a signal ends, with an outcome all the same.
    pub(crate) fn until_signal(&self, page: &PageFile) -> Result<(), Error> {
        self.show(ROUNDS, &signals::progress()?, page)
    }

    fn show(&self, bar: Kind, progress: &Arc<Progress>, page: &PageFile) -> Result<(), Error> {
        let finished = shown(bar, progress, || self.find(progress))?;
        account::show(finished, self.json, self.data(), page)
    }

    /// Runs the job.
    pub(crate) fn find(&self, progress: &Arc<Progress>) -> Result<Finished, Error> {
        finish::<J>(J::COMMAND, &self.flags.document()?, progress)
    }

    /// Where the job's data go, if that is stdout.
    fn data(&self) -> Option<&Path> {
        let output = self.flags.value("output").map(Path::new)?;
        linecard_app::captures::is_stdout(output).then_some(Path::new("-"))
    }
}
