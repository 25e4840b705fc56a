//! Why a transfer ended early, on the sending side.

use super::LaneProblem;
use crate::control::ControlError;
use crate::file::FileError;
use crate::lane::{OpenError, Spec};
use crate::seal::SealError;
use linecard_transfer::control::{LaneKind, Refuse, WelcomeError};
use linecard_transfer::layout::LayoutError;
use std::io;
use std::time::Duration;

/// Why nothing, or not everything, was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The data to send cannot be read, or has changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The receiver is not there, not who it should be, or gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The receiver will not take it.
    #[error("the receiver refuses: {0}")]
    Refused(#[from] Refuse),
    /// There is no folder to remove anything from.
    #[error("--delete is for folders, and none is sent: leave it out")]
    NoFolder,
    /// A receiver without a facility that was asked for.
    #[error(
        "the receiver has an older linecard, which has no {0}: install a newer one there, or send without it"
    )]
    Older(&'static str),
    /// The receiver answers what was not asked.
    #[error("the receiver is broken: {0}")]
    Welcome(#[from] WelcomeError),
    /// The receiver says something else than it should.
    #[error("the receiver is broken: it sent {0} out of turn")]
    Unexpected(&'static str),
    /// A lane does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// None of the lanes can be used.
    #[error("no lane can be used: {}", joined(.0, "; "))]
    NoLane(Vec<LaneProblem>),
    /// Chunks that cannot be divided into packets.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// More lanes than there may be.
    #[error("{0} lanes are more than {most}", most = linecard_transfer::wire::MAX_LANES)]
    Lanes(usize),
    /// The receiver has ended it, and said why.
    #[error("the receiver has ended the transfer: {0}")]
    Ended(String),
    /// No lane is answered any more, and the receiver has ended it over the control connection.
    #[error(
        "no lane is answered any more (links, firewalls), and the receiver has ended the transfer: {0}; send again to resume: \
         stored data is skipped (a pipe starts over)"
    )]
    LanesLost(String),
    /// The receiver knows this end, and does not say whether it takes anything.
    #[error(
        "the receiver has not answered for {0:?}, though it has connected: it may be busy; give a longer --patience"
    )]
    NoWelcome(Duration),
    /// No lane carries anything.
    #[error(
        "nothing has arrived for {0:?}: the receiver stands still, or no lane reaches it (addresses, ports, firewalls); \
         then send again to resume: stored data is skipped (a pipe starts over)"
    )]
    Silent(Duration),
    /// All lanes are closed: by the receiver, or because of errors of their sockets.
    #[error(
        "no lane can be used any more, and the receiver has closed at least one; send again to resume: \
         stored data is skipped (a pipe starts over)"
    )]
    Unusable,
    /// No lane over UDP has ever carried anything, though the control connection does.
    #[error(
        "nothing has come back on any lane for {patience:?}: a firewall may block UDP; start recv again if it \
         has ended, and try over TCP: {}",
        tcp_lanes(.lanes)
    )]
    NeverReached {
        /// How long was waited.
        patience: Duration,
        /// The lanes.
        lanes: Vec<Spec>,
    },
    /// Neither the control connection nor a lane brings news of the receiver.
    #[error(
        "the receiver has not confirmed anything for {patience:?}, neither over the control connection \
         nor over a lane; it has verified and named {stored} of {objects} files and folders; send again \
         to resume: stored data is skipped (a pipe starts over)"
    )]
    Unconfirmed {
        /// How long.
        patience: Duration,
        /// Objects that are in their places.
        stored: usize,
        /// All objects.
        objects: usize,
    },
    /// The user ended it.
    #[error("stopped; send again to resume: stored data is skipped (a pipe starts over)")]
    Stopped,
    /// A fault in here.
    #[error("a bug in linecard: {0}")]
    Seal(#[from] SealError),
    /// The error of the operating system.
    #[error("this host: {0}")]
    Wait(#[from] io::Error),
}

impl SendError {
    /// Whether the receiver has ended it, or the connection to it has ended.
    #[must_use]
    pub const fn is_of_other_end(&self) -> bool {
        matches!(self, Self::Control(_) | Self::Ended(_) | Self::LanesLost(_))
    }
}

/// The same lanes over TCP, as arguments.
fn tcp_lanes(lanes: &[Spec]) -> String {
    let over_tcp = |lane: &Spec| format!("--lane {}", Spec { kind: LaneKind::Tcp, ..lane.clone() });
    let all: Vec<String> = lanes.iter().map(over_tcp).collect();
    joined(&all, " ")
}

fn joined(all: &[impl ToString], between: &str) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
