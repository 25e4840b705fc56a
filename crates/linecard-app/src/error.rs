//! Why a job ends without success.

use linecard_config::{ConfigError, Problem};
use linecard_io::capture::CaptureError;
use linecard_report::ReportError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Exit codes of the command: [`Error::code`] gives one for each error.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  a file could not be read or written
  2  wrong arguments or a wrong scenario
  3  no packet was of a link type that is known: the output is a copy
  4  the input is damaged: the output has everything before the damage, and
     there is no output when nothing could be read
  5  run, model: a byte was lost, wrong or out of place
  6  attach, jitter: a port, a socket or the address for metrics could not be
     opened, or rights are lacking or could not be given up
  7  attach: a port has gone while it was in use
  8  attach: a thread has failed, which is a bug
  9  model: the firmware did what no core can do, loops, or refuses a message
  10  reproduce: a figure differs without a reason, or beyond its limit
  11  jitter: no verdict: what was measured is not good enough for one, and the
      text says why
  12  jitter: a setting could not be put back as it was
  13  plan, model solve: nothing fits; the text says why and what would help
  14  send, recv: the other end is not there, does not answer any more, or was
      cut off
  15  send, recv: the other end is not who it should be, or does not accept
      this one
  16  send, recv: the other end has refused or ended it, and the text says why
  17  send, recv: some files were not transferred, all others were; the text
      says which
  130  stopped by Ctrl-C, SIGTERM or SIGHUP before the end: send and recv keep
       what has arrived, other commands remove the incomplete output (coalesce,
       segment: unless --keep-partial is given)

After 1, 14, 16, 17 and 130, send and recv go on from there: what has arrived
is kept";

/// One line for the user: what, which value, what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file as named by the user.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading or writing a capture failed.
    #[error("{input}: {source}")]
    Capture {
        /// The input as named by the user.
        input: String,
        /// What happened.
        source: CaptureError,
    },
    /// Writing the output failed.
    #[error("cannot write {source}{}", advice(source))]
    Output {
        /// The file as named by the user, and the system's reason.
        source: io::Error,
    },
    /// The results cannot be printed.
    #[error("cannot write the report: {0}")]
    Report(#[from] io::Error),
    /// The page of `--report` cannot be written.
    #[error("--report: {0}")]
    Page(#[from] ReportError),
    /// A value of the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Arguments that do not fit each other, or a value out of its range.
    #[error("{0}")]
    Usage(String),
    /// Nothing in the capture could be followed.
    #[error("{0}")]
    UnknownLink(String),
    /// The input ends early.
    #[error("{input}: {damage}; the output has everything before it")]
    Damaged {
        /// The input as named by the user.
        input: String,
        /// Where and what.
        damage: Arc<CaptureError>,
    },
    /// What arrived is not what was sent.
    #[error("{0}")]
    Wrong(String),
    /// A port cannot be opened, or not safely.
    #[error("{0}")]
    Attach(String),
    /// A port is there no more.
    #[error("{0}")]
    Gone(String),
    /// A thread has failed.
    #[error("{0}")]
    Thread(String),
    /// The modelled firmware has failed.
    #[error("{0}")]
    Firmware(String),
    /// A published figure is not ours, without a reason.
    #[error("{0}")]
    Unexplained(String),
    /// What was measured gives no verdict.
    #[error("{0}")]
    Withheld(String),
    /// The host is not as it was.
    #[error("{0}")]
    NotRestored(String),
    /// No plan fits, or no clock is enough.
    #[error("{0}")]
    Infeasible(String),
    /// What is sent cannot be read, or what is received not be stored.
    #[error("{0}")]
    Storage(String),
    /// The peer of a transfer cannot be reached, or has stopped answering.
    #[error("{0}")]
    Unreachable(String),
    /// The peer of a transfer cannot prove its identity, or rejects that of this end.
    #[error("{0}")]
    Unauthenticated(String),
    /// The peer of a transfer refused or ended it.
    #[error("{0}")]
    PeerRefused(String),
    /// Some files of a transfer are not there, all others are.
    #[error("{0}")]
    Partial(String),
    /// The user has ended it before its time.
    #[error("{0}")]
    Stopped(String),
}

impl Error {
    /// The error of a job that was cancelled.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::Stopped("stopped".to_owned())
    }

    /// The exit code of a job that a signal ended.
    pub const STOPPED: u8 = 130;

    /// An error of reading `input` or of writing the output, which is not a fault of the input.
    #[must_use]
    pub fn of_capture(input: &Path, source: CaptureError) -> Self {
        match source {
            CaptureError::SameFile { .. } => Self::Usage(source.to_string()),
            CaptureError::Write { source } => Self::Output { source },
            CaptureError::Output { path, source } => {
                let text = format!("{}: {source}", path.display());
                Self::Output { source: io::Error::new(source.kind(), text) }
            }
            source => Self::Capture { input: input.display().to_string(), source },
        }
    }

    /// The exit code of the command, as [`EXIT_CODES`] documents it.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Config(error) if matches!(*error.problem, Problem::Unreadable(_)) => 1,
            Self::Config(_) | Self::Usage(_) | Self::Page(ReportError::Name { .. }) => 2,
            _ if self.is_broken_pipe() => 0,
            Self::Capture { source, .. } if source.is_damage() => 4,
            Self::Open { .. }
            | Self::Capture { .. }
            | Self::Output { .. }
            | Self::Report(_)
            | Self::Page(_)
            | Self::Storage(_) => 1,
            Self::UnknownLink(_) => 3,
            Self::Damaged { .. } => 4,
            Self::Wrong(_) => 5,
            Self::Attach(_) => 6,
            Self::Gone(_) => 7,
            Self::Thread(_) => 8,
            Self::Firmware(_) => 9,
            Self::Unexplained(_) => 10,
            Self::Withheld(_) => 11,
            Self::NotRestored(_) => 12,
            Self::Infeasible(_) => 13,
            Self::Unreachable(_) => 14,
            Self::Unauthenticated(_) => 15,
            Self::PeerRefused(_) => 16,
            Self::Partial(_) => 17,
            Self::Stopped(_) => Self::STOPPED,
        }
    }

    /// Whether the reader of the output has closed it, which is not an error.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        let (Self::Report(source) | Self::Output { source }) = self else { return false };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}

/// What to do, where the system's reason does not say it.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => ": free some space, or write elsewhere",
        io::ErrorKind::NotFound => ": make its folder first",
        io::ErrorKind::IsADirectory => ": name a file in it",
        _ => "",
    }
}
