//! Why a quantity is not measured on this host.

use crate::Failure;
use crate::error::Kind;
use linecard_jitter::linux::session::{NotTraced, SessionError};
use std::error::Error;
use std::io;
use std::time::Duration;

/// A measurement that has failed or cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    #[error("TCP split: {0}")]
    Split(#[source] Box<dyn Error + Send + Sync>),
    #[error("real lanes: {0}")]
    Lanes(#[source] Box<dyn Error + Send + Sync>),
    #[error("`iperf3` cannot be run ({0}): install the package iperf3")]
    NotRun(#[source] io::Error),
    #[error("`iperf3` does not listen after two seconds")]
    NotListening,
    #[error("`iperf3` has not ended after {time:?}")]
    NotEnded { time: Duration },
    #[error("the output of `iperf3` was not read")]
    NotRead,
    #[error("the output of `iperf3` cannot be parsed: {0}")]
    Output(#[source] serde_json::Error),
    #[error("`iperf3` failed: {}", said.as_deref().unwrap_or("no result"))]
    Failed { said: Option<String> },
    #[error("the kernel does not report retransmissions")]
    NoRetransmissions,
    #[error("it has no stream")]
    NoStream,
    #[error("no packet arrived")]
    NoPacket,
    #[error("no packet was followed from end to end")]
    NotFollowed,
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Trace(#[from] NotTraced),
}

impl Kind for LiveError {
    fn failure(&self) -> Failure {
        if matches!(self, Self::Split(_) | Self::Lanes(_)) {
            Failure::Storage
        } else {
            Failure::Attach
        }
    }
}
