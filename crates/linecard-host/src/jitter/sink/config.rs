//! Where and how a sink receives.

use crate::jitter::placement::{Placement, PlacementError};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Packets whose times are kept, by default: 64 MiB.
pub const DEFAULT_CAPACITY: usize = 1 << 22;
/// Packets whose times can be kept, at most: 1.5 GiB.
pub const MAX_CAPACITY: usize = 100_000_000;
/// Bytes that may wait in a socket, at most: the kernel doubles it and takes 31 bits.
const MAX_ROOM: usize = 1 << 29;

/// How a sink waits for packets, and how many one call gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinkMode {
    /// Asks again and again (`recv` with `MSG_DONTWAIT`). The default.
    #[default]
    Poll,
    /// Sleeps in `recv`.
    Block,
}

impl SinkMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Poll, Self::Block];

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Block => "block",
        }
    }

    /// Whether the receiving thread never sleeps.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Self::Poll)
    }
}

/// A sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkConfig {
    /// Where it receives; port 0 takes any.
    pub address: SocketAddr,
    /// How. Default: [`SinkMode::Poll`].
    pub mode: SinkMode,
    /// Where the receiving thread runs, and before whom. Default: as it is.
    pub placement: Placement,
    /// Packets whose times are kept, 1 to [`MAX_CAPACITY`]; more are counted. Default:
    /// [`DEFAULT_CAPACITY`].
    pub capacity: usize,
    /// Bytes asked for what waits in the socket, 1 to 2^29; the kernel takes as much of it as it allows.
    /// Default: 8 MiB.
    pub room_bytes: usize,
    /// How long nothing comes, after the first packet, until it ends. Default: 500 ms.
    pub idle: Option<Duration>,
}

/// Why a sink does not receive.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Too few packets, or too many.
    #[error("the times of {0} packets cannot be kept: take 1 to {MAX_CAPACITY}")]
    Capacity(usize),
    /// Too little room, or too much.
    #[error("a socket cannot have {0} bytes of room: take 1 to {MAX_ROOM}")]
    Room(usize),
    /// It cannot stand there.
    #[error("cannot receive at {address}: {source}; name an address of this host and a free port")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The socket cannot be set up.
    #[error("cannot set the receiving socket up: {0}")]
    Socket(io::Error),
    /// Packets cannot be had.
    #[error("cannot receive: {0}")]
    Receive(io::Error),
    /// The thread cannot run as wished.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

impl SinkConfig {
    /// The default sink at `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            mode: SinkMode::default(),
            placement: Placement::default(),
            capacity: DEFAULT_CAPACITY,
            room_bytes: 8 << 20,
            idle: Some(Duration::from_millis(500)),
        }
    }

    pub(super) fn check(&self) -> Result<(), SinkError> {
        if !(1..=MAX_CAPACITY).contains(&self.capacity) {
            return Err(SinkError::Capacity(self.capacity));
        }
        if !(1..=MAX_ROOM).contains(&self.room_bytes) {
            return Err(SinkError::Room(self.room_bytes));
        }
        Ok(())
    }
}
