//! Why a vhost-user port cannot be opened, or lost its front end; each is one line.

use std::io;
use std::path::PathBuf;

/// Why a vhost-user port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VhostError {
    /// Another process listens on the socket.
    #[error(
        "socket {} is in use: another process listens on it; end that, choose another path, or \
         connect to it (`vhost:{},client`)",
        path.display(),
        path.display()
    )]
    InUse {
        /// Where it is.
        path: PathBuf,
    },
    /// Something else has the name.
    #[error("{} exists and is not a socket: choose another path", path.display())]
    NotASocket {
        /// Where it is.
        path: PathBuf,
    },
    /// No socket can be made there.
    #[error(
        "cannot listen at {}: {source}; choose a path of at most 107 bytes, in a folder that exists and to \
         which this user may write",
        path.display()
    )]
    Listen {
        /// Where it was to be.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A setting is out of range.
    #[error("{what} is {value}: choose {range}")]
    Setting {
        /// Which.
        what: &'static str,
        /// The value given.
        value: usize,
        /// The values allowed.
        range: &'static str,
    },
    /// Any other error of the system.
    #[error("cannot {doing} {}: {source}", path.display())]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
