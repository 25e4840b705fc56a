//! Why a job ends without success.

use linecard_config::{ConfigError, Problem};
use linecard_io::capture::CaptureError;
use linecard_report::ReportError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Exit codes of the command and their meanings: [`Error::code`] gives one for each error.
pub const EXIT_CODES: [(u8, &str); 19] = [
    (0, "done"),
    (1, "a file could not be read or written"),
    (2, "wrong arguments or a wrong scenario"),
    (3, "no packet was of a link type that is known: the output is a copy"),
    (
        4,
        "the input is damaged: the output has everything before the damage, and there is no output when nothing \
         could be read",
    ),
    (5, "run, model, send, recv: a byte was lost, wrong or out of place"),
    (
        6,
        "attach, jitter, send, recv: a port, a socket or an address could not be opened, or privileges are missing \
         or could not be dropped",
    ),
    (7, "attach: a port disappeared while it was in use"),
    (8, "attach: a thread has failed, which is a bug"),
    (9, "model: the firmware did what no core can do, loops, or refuses a message"),
    (10, "reproduce: a figure differs without a reason, or beyond its limit"),
    (11, "jitter: no verdict: what was measured is not good enough for one, and the text says why"),
    (12, "attach, jitter: a setting or an address could not be put back as it was"),
    (13, "plan, model solve: nothing fits; the text says why and what would help"),
    (
        14,
        "send, recv: the other end is not there, does not answer any more, was cut off, or is busy with other transfers",
    ),
    (15, "send, recv: the other end is not who it should be, or does not accept this one"),
    (16, "send, recv: the other end has refused or ended it, and the text says why"),
    (
        17,
        "send, recv: some files were not transferred or removed, all others were; the text says which",
    ),
    (
        130,
        "stopped by Ctrl-C, SIGTERM or SIGHUP before the end: send and recv keep what has arrived, other commands \
         remove the incomplete output (coalesce, segment: unless --keep-partial is given); attach ends by the first \
         signal with its statistics and 0, and by a second Ctrl-C with this code",
    ),
];

/// Exit codes after which `send` and `recv` resume.
pub const RESUMABLE: [u8; 5] = [1, 14, 16, 17, 130];

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
        /// The error of the capture.
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
    /// The input ends early.
    #[error("{input}: {damage}; the output has everything before it")]
    Damaged {
        /// The input as named by the user.
        input: String,
        /// Where and what.
        damage: Arc<CaptureError>,
    },
    /// Anything else: the kind of failure and its cause.
    #[error("{source}")]
    Failed {
        /// The kind of failure.
        failure: Failure,
        /// The error of the part that failed, or a sentence.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Kinds of failures, each with an exit code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Data to send cannot be read, or received data cannot be stored.
    Storage,
    /// Arguments that do not fit each other, or a value out of its range.
    Usage,
    /// Nothing in the capture could be followed.
    UnknownLink,
    /// Received data differs from the sent data.
    Wrong,
    /// A port cannot be opened, or not safely.
    Attach,
    /// A port disappeared.
    Gone,
    /// A thread has failed.
    Thread,
    /// The modelled firmware has failed.
    Firmware,
    /// A published figure differs from ours without a reason.
    Unexplained,
    /// The measurement gives no verdict.
    Withheld,
    /// The host is not as it was before.
    NotRestored,
    /// No plan fits, or no clock is fast enough.
    Infeasible,
    /// The peer of a transfer cannot be reached, or has stopped answering.
    Unreachable,
    /// The peer of a transfer cannot prove its identity, or rejects that of this end.
    Unauthenticated,
    /// The peer of a transfer refused or ended it.
    PeerRefused,
    /// Some files of a transfer are missing; all others arrived.
    Partial,
    /// The user stopped the job before its end.
    Stopped,
}

impl Failure {
    /// An error of this kind. Its text is that of `source`.
    #[must_use]
    pub fn with(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Failed { failure: self, source: source.into() }
    }

    /// Its code among [`EXIT_CODES`].
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Storage => 1,
            Self::Usage => 2,
            Self::UnknownLink => 3,
            Self::Wrong => 5,
            Self::Attach => 6,
            Self::Gone => 7,
            Self::Thread => 8,
            Self::Firmware => 9,
            Self::Unexplained => 10,
            Self::Withheld => 11,
            Self::NotRestored => 12,
            Self::Infeasible => 13,
            Self::Unreachable => 14,
            Self::Unauthenticated => 15,
            Self::PeerRefused => 16,
            Self::Partial => 17,
            Self::Stopped => 130,
        }
    }
}

/// Errors of a module, each of which is of a kind of failure.
pub(crate) trait Kind: std::error::Error + Send + Sync + 'static {
    /// The kind of this error.
    fn failure(&self) -> Failure;
}

impl<E: Kind> From<E> for Error {
    fn from(error: E) -> Self {
        error.failure().with(error)
    }
}

impl Error {
    /// The error of a job that was cancelled.
    #[must_use]
    pub fn cancelled() -> Self {
        Failure::Stopped.with("stopped")
    }

    /// An error of reading `input` or of writing the output, which is not a fault of the input.
    #[must_use]
    pub fn of_capture(input: &Path, source: CaptureError) -> Self {
        match source {
            CaptureError::SameFile { .. } | CaptureError::Ending { .. } => {
                Failure::Usage.with(source)
            }
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
            Self::Config(_) | Self::Page(ReportError::Name { .. }) => Failure::Usage.code(),
            _ if self.is_broken_pipe() => 0,
            Self::Capture { source, .. } if source.is_damage() => 4,
            Self::Open { .. }
            | Self::Capture { .. }
            | Self::Output { .. }
            | Self::Report(_)
            | Self::Page(_) => 1,
            Self::Damaged { .. } => 4,
            Self::Failed { failure, .. } => failure.code(),
        }
    }

    /// The kind of failure, where it is one of [`Failure`].
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let Self::Failed { failure, .. } = self else { return None };
        Some(*failure)
    }

    /// Whether the reader of the output has closed it, which is not an error.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        let (Self::Report(source) | Self::Output { source }) = self else { return false };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}

/// The remedy, where the system's reason does not say it.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => ": free some space, or write elsewhere",
        io::ErrorKind::NotFound => ": make its folder first",
        io::ErrorKind::IsADirectory => ": name a file in it",
        _ => "",
    }
}

/// Priority of a line for an operator, as of `syslog(3)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The end, or the end of a part.
    Error = 3,
    /// Something is missing or wrong, and work continues.
    Warning = 4,
    /// A change of state.
    Notice = 5,
    /// Anything else.
    Info = 6,
}

impl Level {
    /// The number of this priority.
    #[must_use]
    pub const fn priority(self) -> u8 {
        self as u8
    }
}
