//! Why streams are not watched, or have no figures.

use super::MAX_STREAMS;
use crate::Failure;
use crate::error::Kind;
use linecard_config::Duration;
use linecard_jitter::linux::journal::JournalError;
use linecard_jitter::linux::watch::Target;
use std::error::Error;

/// Arguments that do not fit each other, something that this host refuses, or no stream.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchingError {
    #[error("none: name where the stream arrives, as 239.0.0.1:5004")]
    NoAddress,
    #[error(
        "none: name where the stream arrives, as 239.0.0.1:5004, or an interface at which streams are looked for \
         (--interface)"
    )]
    NoPlace,
    #[error("{target} is given twice")]
    Twice { target: Target },
    #[error("{count} streams: at most {MAX_STREAMS} at once")]
    TooMany { count: usize },
    #[error("only a multicast group is received from one source, and none is given")]
    NoGroup,
    #[error("no stream has an interface: name one (--interface)")]
    NoInterface,
    #[error("--hardware-stamps: {0}")]
    Stamps(#[source] JournalError),
    #[error("--trace: {0}")]
    Trace(#[source] Box<dyn Error + Send + Sync>),
    #[error(
        "no stream was found at {interface} in {time}; a group that no program of this host has joined cannot be seen: \
         name it, as 239.0.0.1:5004"
    )]
    NothingFound { interface: String, time: Duration },
    #[error(
        "no packet of a stream arrived at {}: check address and port of the sender, a firewall, and for a group \
         --interface", streams.join(", ")
    )]
    NoPacket { streams: Vec<String> },
}

impl Kind for WatchingError {
    fn failure(&self) -> Failure {
        match self {
            Self::Stamps(_) | Self::Trace(_) => Failure::Attach,
            Self::NothingFound { .. } | Self::NoPacket { .. } => Failure::Withheld,
            _ => Failure::Usage,
        }
    }
}
