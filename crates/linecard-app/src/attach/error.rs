//! Errors of connecting ports, and of connected ports.

use crate::Failure;
use crate::error::Kind;
use linecard_io::attach::{PortKind, PortSpec};
use linecard_io::engine;
use linecard_io::rights::Account;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments that do not fit this host or each other, or a port that is gone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("{far} cannot be joined to {near}, which is the same: name two ports")]
    SamePort { near: PortSpec, far: PortSpec },
    #[error(
        "--ready-fd {number}: {source}; the caller has to open it, as a shell does by {number}>FILE"
    )]
    Ready { number: u32, source: io::Error },
    #[error("--metrics {address}: {source}; choose another address")]
    MetricsAddress { address: SocketAddr, source: io::Error },
    #[error("--metrics: {0}")]
    Metrics(#[source] io::Error),
    #[error("--cores: {0}")]
    Cores(#[source] engine::Failure),
    #[error("--scheduling: {0}")]
    Scheduling(#[source] engine::Failure),
    #[error(
        "{capture} could not be completed: only root may write there, and privileges are dropped. Choose a folder of \
         another user, or take --keep-rights"
    )]
    Capture { capture: PortSpec },
    #[error(
        "{} could not be written at the end: privileges are dropped, and only another user may write there. Choose a \
         folder of {}, or take --keep-rights",
        file.display(),
        owner.map_or("another user than root".to_owned(), |owner| format!("user {}", owner.uid()))
    )]
    Page { file: PathBuf, owner: Option<Account> },
    #[error("{port}: the virtual machine has left")]
    GuestLeft { port: PortSpec },
    #[error(
        "{port} is gone: its interface was removed, or moved to another namespace; held packets have been flushed"
    )]
    Gone { port: PortSpec },
    #[error("{far} took none of {packets} packets of {near} ({reason}); {}", match far.kind {
        PortKind::Vhost(_) => "no virtual machine took them: start it first",
        _ => "check it with `ip link`",
    })]
    NothingSent { near: PortSpec, far: PortSpec, packets: u64, reason: &'static str },
}

impl Kind for JoinError {
    fn failure(&self) -> Failure {
        match self {
            Self::SamePort { .. } | Self::Ready { .. } | Self::Cores(_) => Failure::Usage,
            Self::GuestLeft { .. } | Self::Gone { .. } | Self::NothingSent { .. } => Failure::Gone,
            _ => Failure::Attach,
        }
    }
}
