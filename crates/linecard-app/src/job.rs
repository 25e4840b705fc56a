//! What a job is.

use linecard::watch::Watch;
use linecard_config::{Config, ConfigError, Document};
use linecard_report::{Chart, Outcome};
use std::path::PathBuf;

/// A task with a configuration and an outcome.
pub trait Job {
    /// As scenario files name it.
    const NAME: &'static str;
    /// The command that it belongs to, which reports name as their job.
    const COMMAND: &'static str;
    /// Its parameters.
    type Config: Config;
    /// Its result.
    type Outcome: Outcome;

    /// Runs it.
    ///
    /// # Errors
    ///
    /// A configuration whose values do not fit each other; resources that cannot be had; cancellation.
    fn run(config: &Self::Config, context: &Context<'_>) -> Result<Self::Outcome, Error>;

    /// Charts of an outcome, for its page.
    fn charts(outcome: &Self::Outcome) -> Vec<Chart> {
        let _ = outcome;
        Vec::new()
    }

    /// Whether an outcome is a success: what is not is shown all the same.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    fn check(outcome: &Self::Outcome) -> Result<(), Error> {
        let _ = outcome;
        Ok(())
    }
}

/// What a job needs besides its configuration.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Progress, in a unit of the job's own, and cancellation.
    pub progress: &'a Watch,
    /// The document that the configuration was read from, if it was: paths in it are seen from its folder, and errors
    /// name its lines.
    pub document: Option<&'a Document>,
}

impl<'a> Context<'a> {
    /// Without a document.
    #[must_use]
    pub const fn new(progress: &'a Watch) -> Self {
        Self { progress, document: None }
    }

    /// Refuses to go on once the job is cancelled.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`].
    pub fn go_on(&self) -> Result<(), Error> {
        if self.progress.is_stopped() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// The file that a parameter's value names.
    #[must_use]
    pub fn path_of(&self, parameter: &str, name: &str) -> PathBuf {
        self.document.map_or_else(|| name.into(), |document| document.path_of(parameter, name))
    }
}

/// Why a job did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The outcome is wrong: a fault of what was modelled or measured, or of this program.
    #[error("{0}")]
    Wrong(String),
    /// It was cancelled.
    #[error("stopped")]
    Cancelled,
}
