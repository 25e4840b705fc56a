//! Why a capture has no figures.

use crate::Failure;
use crate::error::Kind;
use linecard_jitter::media::st2022_6::UnknownFormat;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A capture without a stream that has figures, or arguments that name none.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnalyzeError {
    #[error("{0}, and auto")]
    Format(#[source] UnknownFormat),
    #[error("{} has {flows} UDP flows: choose 1 to that, or one of {}", input.display(), list(first))]
    NoFlow { input: PathBuf, flows: usize, first: Vec<SocketAddr> },
    #[error(
        "{}: link type {link} is not known; supported are 0, 1, 101, 108, 113, 228, 229, 276: loopback, Ethernet, raw \
         IP, Linux cooked", input.display()
    )]
    UnknownLink { input: PathBuf, link: u32 },
    #[error(
        "{}: no UDP flow among {packets} packets ({fragments} fragments, which are not reassembled)", input.display()
    )]
    NoUdp { input: PathBuf, packets: u64, fragments: u64 },
    #[error("{}: the flow {from} to {to} has {packets} packets: figures need at least 3", input.display())]
    FewPackets { input: PathBuf, from: SocketAddr, to: SocketAddr, packets: usize },
    #[error(
        "{}: no RTP stream, and the largest UDP flow, {from} to {to} with {packets} packets, has no constant rate, so \
         there is no schedule to compare its times with", input.display()
    )]
    NoSchedule { input: PathBuf, from: SocketAddr, to: SocketAddr, packets: usize },
    #[error(
        "{}: the flow {from} to {to} is no stream: {others} of its {packets} packets look like RTP with another source \
         (SSRC) than the first one", input.display()
    )]
    ManySources { input: PathBuf, from: SocketAddr, to: SocketAddr, packets: usize, others: usize },
    #[error("{}: no flow of {kind} to {to} or from the same source among its {flows} UDP flows", input.display())]
    NoCounterpart { input: PathBuf, kind: &'static str, to: SocketAddr, flows: usize },
    #[error(
        "{}: none of its {packets} packets is one of the {of_first} of the first capture: is it the same stream at the \
         same time?", input.display()
    )]
    NothingShared { input: PathBuf, packets: usize, of_first: usize },
}

impl Kind for AnalyzeError {
    fn failure(&self) -> Failure {
        match self {
            Self::Format(_) | Self::NoFlow { .. } => Failure::Usage,
            Self::UnknownLink { .. } => Failure::UnknownLink,
            _ => Failure::Withheld,
        }
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    if addresses.is_empty() {
        return "none".to_owned();
    }
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
