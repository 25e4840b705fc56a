//! Where and how a sink receives.

use linecard_io::placement::{Placement, PlacementError};
use linecard_io::port::xdp::XdpError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Packets whose times are kept, by default: 64 MiB.
pub const DEFAULT_CAPACITY: usize = 1 << 22;
/// Packets whose times can be kept, at most: 1.5 GiB.
pub const MAX_CAPACITY: usize = 100_000_000;
/// Bytes that may wait in a socket, at most: the kernel doubles it and takes 31 bits.
const MAX_ROOM: usize = 1 << 29;

/// The longest that the kernel polls a device in one call, in microseconds.
const MAX_BUSY_POLL_US: u32 = 1_000_000;

/// How a sink waits for packets, and how many one call gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinkMode {
    /// Asks again and again (`recv` with `MSG_DONTWAIT`). The default.
    #[default]
    Poll,
    /// Sleeps in `recv`.
    Block,
    /// `recv`, in which the kernel polls the device itself before it sleeps (`SO_BUSY_POLL`). Takes a
    /// device with NAPI, which loopback and plain veth are not: [`Received::busy_polled`](super::Received)
    /// says whether it was so.
    BusyPoll,
    /// Sleeps in `epoll_wait`, then takes waiting packets by `recv`.
    Epoll,
    /// `recvmmsg`: waits for one packet, then takes up to 64 by one call. Each gets the time after
    /// that call.
    Recvmmsg,
    /// `io_uring` with one request for many packets (Linux 6.0; one for each from 5.19). Each gets the
    /// time at which the ring was looked at.
    IoUring,
    /// AF_XDP: past the kernel's protocols, from a ring of frames that is looked at again and again. Takes
    /// [`SinkConfig::interface`] and root; nobody checks checksums.
    AfXdp,
}

impl SinkMode {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Poll,
        Self::Block,
        Self::BusyPoll,
        Self::Epoll,
        Self::Recvmmsg,
        Self::IoUring,
        Self::AfXdp,
    ];

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Block => "block",
            Self::BusyPoll => "busy-poll",
            Self::Epoll => "epoll",
            Self::Recvmmsg => "recvmmsg",
            Self::IoUring => "io-uring",
            Self::AfXdp => "af-xdp",
        }
    }

    /// Whether the receiving thread never sleeps.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Self::Poll | Self::BusyPoll | Self::AfXdp)
    }
}

/// No such way to receive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is not a way to receive: take one of {}", SinkMode::ALL.map(SinkMode::name).join(", "))]
pub struct UnknownMode {
    /// The name given.
    pub name: String,
}

impl FromStr for SinkMode {
    type Err = UnknownMode;

    /// Its name; `_` stands for `-` too.
    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let wanted = name.replace('_', "-");
        let found = Self::ALL.into_iter().find(|mode| mode.name() == wanted);
        found.ok_or_else(|| UnknownMode { name: name.to_owned() })
    }
}

impl fmt::Display for SinkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkConfig {
    /// Where it receives; port 0 takes any.
    pub address: SocketAddr,
    /// How. Default: [`SinkMode::Poll`].
    pub mode: SinkMode,
    /// The interface that packets arrive on, for [`SinkMode::AfXdp`], which receives from its queue 0: a card with more
    /// has to steer the stream there (`ethtool -L IF combined 1`). Default: none.
    pub interface: Option<String>,
    /// Where the receiving thread runs, and before whom. Default: as it is.
    pub placement: Placement,
    /// Packets whose times are kept, 1 to [`MAX_CAPACITY`]; more are counted. Default:
    /// [`DEFAULT_CAPACITY`].
    pub capacity: usize,
    /// Requested receive buffer of the socket in bytes, 1 to 2^29; the kernel takes as much of it as it allows.
    /// Default: 8 MiB.
    pub room_bytes: usize,
    /// Microseconds for which the kernel polls the device before a call sleeps, in
    /// [`SinkMode::BusyPoll`], 1 to 1,000,000. Default: 50.
    pub busy_poll_us: u32,
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
        /// The error of the operating system.
        source: io::Error,
    },
    /// The socket cannot be set up.
    #[error("cannot set the receiving socket up: {0}")]
    Socket(io::Error),
    /// Too short, or too long.
    #[error("the kernel cannot poll for {0} µs: take 1 to {MAX_BUSY_POLL_US}")]
    BusyPollTime(u32),
    /// The kernel does not poll devices for sockets.
    #[error(
        "busy-poll is refused ({0}): it takes a kernel with CONFIG_NET_RX_BUSY_POLL, and for older ones \
         root or CAP_NET_ADMIN; take another mode"
    )]
    BusyPoll(io::Error),
    /// There is no `io_uring`.
    #[error(
        "io_uring is refused ({0}): it takes Linux 5.19, `sysctl kernel.io_uring_disabled` at 0 (or 1 \
         and CAP_SYS_ADMIN), and no filter of system calls (as containers have); take another mode"
    )]
    IoUring(io::Error),
    /// No interface was given.
    #[error("af-xdp receives from an interface, not from an address: name one")]
    NoInterface,
    /// The interface cannot be had.
    #[error(transparent)]
    Xdp(#[from] XdpError),
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
            interface: None,
            placement: Placement::default(),
            capacity: DEFAULT_CAPACITY,
            room_bytes: 8 << 20,
            busy_poll_us: 50,
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
        if !(1..=MAX_BUSY_POLL_US).contains(&self.busy_poll_us) {
            return Err(SinkError::BusyPollTime(self.busy_poll_us));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_two_spellings() {
        assert_eq!("io_uring".parse(), Ok(SinkMode::IoUring));
        assert_eq!("busy-poll".parse(), Ok(SinkMode::BusyPoll));
        let refused = "smell".parse::<SinkMode>().expect_err("no mode");
        assert!(refused.to_string().contains("recvmmsg"), "{refused}");
    }
}
