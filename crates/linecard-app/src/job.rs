//! The contract of a job.

use crate::Error;
use linecard::progress::Progress;
use linecard_config::{Config, ConfigError, Document};
use linecard_report::{Outcome, Page};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A task with a configuration and an outcome.
pub trait Job: 'static {
    /// As scenario files name it.
    const NAME: &'static str;
    /// The command that it belongs to, which reports name as their job.
    const COMMAND: &'static str = Self::NAME;
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

    /// Refuses values that do not fit each other, as far as that shows without a run and not by their ranges.
    ///
    /// # Errors
    ///
    /// The first such value, by its parameter.
    fn validate(config: &Self::Config) -> Result<(), ConfigError> {
        let _ = config;
        Ok(())
    }

    /// The title of its page.
    fn title(config: &Self::Config) -> String;

    /// Adds charts and tables of an outcome to its page.
    fn draw(outcome: &Self::Outcome, page: &mut Page) {
        let _ = (outcome, page);
    }

    /// Whether an outcome is a success. A failed one is shown, too.
    ///
    /// # Errors
    ///
    /// The error.
    fn check(outcome: &Self::Outcome) -> Result<(), Error> {
        let _ = outcome;
        Ok(())
    }
}

/// The environment of a job, besides its configuration.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Progress, in a unit of the job's own, and cancellation.
    pub progress: &'a Arc<Progress>,
    /// The document that the configuration was read from, if it was: paths in it are seen from its folder, and errors
    /// name its lines.
    pub document: Option<&'a Document>,
}

impl<'a> Context<'a> {
    /// Without a document.
    #[must_use]
    pub const fn new(progress: &'a Arc<Progress>) -> Self {
        Self { progress, document: None }
    }

    /// Refuses to continue once the job is cancelled.
    ///
    /// # Errors
    ///
    /// [`Failure::Stopped`](crate::Failure::Stopped).
    pub fn go_on(&self) -> Result<(), Error> {
        if self.progress.is_stopped() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Items of a run, until the job is cancelled. They are counted if [`Progress::expect`] was called before: threads of a
    /// sweep share their progress, and do not count into it.
    pub fn each<T>(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        let progress = Arc::clone(self.progress);
        let is_counted = progress.counts().1 > 0;
        items.map_while(move |item| {
            if is_counted {
                progress.advance(1);
            }
            (!progress.is_stopped()).then_some(item)
        })
    }

    /// An input that fails once the job is cancelled.
    pub fn input<R: Read>(&self, input: R) -> Cancellable<R> {
        Cancellable::new(input, Arc::clone(self.progress))
    }

    /// An input that ends once the job is cancelled, also while it is waited for.
    pub fn input_until_stopped<R: Read + AsFd>(&self, input: R) -> UntilStopped<R> {
        UntilStopped { input, progress: Arc::clone(self.progress) }
    }

    /// The configuration of the document, or the defaults.
    ///
    /// # Errors
    ///
    /// Values of the document that are refused.
    pub fn config<C: Config>(&self) -> Result<C, ConfigError> {
        self.document.map_or_else(|| Ok(C::default()), Document::config)
    }

    /// The file of the document.
    #[must_use]
    pub fn scenario(&self) -> &Path {
        self.document.map_or(Path::new(""), Document::path)
    }

    /// An error with its place in the document, where it is about a parameter.
    #[must_use]
    pub fn placed(&self, error: Error) -> Error {
        match (self.document, error) {
            (Some(document), Error::Config(error)) => Error::Config(document.placed(error)),
            (_, error) => error,
        }
    }

    /// The file that a parameter's value names.
    #[must_use]
    pub fn path_of(&self, parameter: &str, name: &str) -> PathBuf {
        self.document.map_or_else(|| name.into(), |document| document.path_of(parameter, name))
    }
}

/// An input that fails once its job is cancelled, so that nothing is left half written.
#[derive(Debug)]
pub struct Cancellable<R> {
    input: R,
    progress: Arc<Progress>,
}

impl<R: Read> Cancellable<R> {
    /// Reads `input` until `progress` is stopped.
    pub const fn new(input: R, progress: Arc<Progress>) -> Self {
        Self { input, progress }
    }
}

impl<R: Read> Read for Cancellable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.progress.is_stopped() {
            true => Err(io::Error::other("stopped")),
            false => self.input.read(buffer),
        }
    }
}

/// Time between two looks whether a job is cancelled that waits for its input.
const LOOK: Duration = Duration::from_millis(50);

/// An input that ends once its job is cancelled.
#[derive(Debug)]
pub struct UntilStopped<R> {
    input: R,
    progress: Arc<Progress>,
}

impl<R: Read + AsFd> Read for UntilStopped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.progress.is_stopped() {
            if linecard_tun::wait(&[self.input.as_fd()], LOOK)? {
                return self.input.read(buffer);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_waited_for_ends_once_its_job_is_cancelled() {
        let progress = Arc::new(Progress::new());
        let (mut writer, reader) = std::os::unix::net::UnixStream::pair().expect("two sockets");
        let mut input = Context::new(&progress).input_until_stopped(reader);
        io::Write::write_all(&mut writer, b"abc").expect("there is room");
        let mut bytes = [0; 8];
        assert!(input.read(&mut bytes).is_ok_and(|read| read == 3));
        progress.stop();
        assert!(input.read(&mut bytes).is_ok_and(|read| read == 0));
    }

    #[test]
    fn an_input_fails_once_its_job_is_cancelled() {
        let progress = Arc::new(Progress::new());
        let context = Context::new(&progress);
        let mut input = context.input(io::repeat(7));
        assert!(input.read(&mut [0; 4]).is_ok_and(|read| read == 4) && context.go_on().is_ok());
        progress.stop();
        assert!(input.read(&mut [0; 4]).is_err());
        assert_eq!(context.go_on().expect_err("cancelled").code(), 130);
    }

    #[test]
    fn items_end_when_the_job_is_cancelled_and_are_counted() {
        let progress = Arc::new(Progress::new());
        let context = Context::new(&progress);
        progress.expect(10);
        let stop = |item: &u32| {
            if *item == 3 {
                progress.stop();
            }
        };
        assert_eq!(context.each(0..10).inspect(stop).count(), 4);
        assert_eq!(progress.counts(), (5, 10));
        let other = Arc::new(Progress::new());
        assert_eq!(Context::new(&other).each(0..10).count(), 10);
        assert_eq!(other.counts(), (0, 0));
    }
}
