//! The differences between the sending and the receiving end in the turns of the driver.

use super::SealedSocket;
use super::endpoint::Endpoint;
use crate::control::ControlError;
use crate::lane::LaneError;
use crate::seal::SealError;
use linecard::time::Instant;
use linecard_transfer::control::Message;
use linecard_transfer::wire::Header;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// One of the two ends.
pub(crate) trait Role {
    /// Why the transfer ends early.
    type Error: From<ControlError> + From<SealError> + From<io::Error> + Display;

    /// Wakeups are rounded up to multiples of this, in ns: lanes that are due at about the same time share a turn.
    const GRID_NS: u64;

    /// Whether nothing is left to be done.
    fn is_over(&self, endpoint: &Endpoint, now: Instant) -> bool;

    /// The user has stopped the transfer.
    fn stopped(&self) -> Result<(), Self::Error>;

    /// Whether the other end knows of an error already.
    fn is_known_there(error: &Self::Error) -> bool;

    /// Takes a control message.
    fn message(
        &mut self,
        endpoint: &mut Endpoint,
        message: Message,
        now: Instant,
    ) -> Result<(), Self::Error>;

    /// The control connection has failed, and lanes do not carry messages in its place.
    fn disconnected(&mut self, error: ControlError) -> Result<(), Self::Error>;

    /// Takes what the files' thread has done.
    fn take_results(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), Self::Error>;

    /// Whether a result of the files' thread could be taken now for which there was no room before the packets left.
    fn has_results(&self) -> bool {
        false
    }

    /// Whether a lane has a socket to read from.
    fn is_up(&self, lane: usize) -> bool;

    /// Takes a packet; whether it is one with control messages that is new.
    fn packet(&mut self, packet: &Packet<'_>, now: Instant) -> bool;

    /// After the packets of a lane were taken.
    fn after_packets(&mut self, endpoint: &mut Endpoint, lane: usize, now: Instant) {
        let _ = (endpoint, lane, now);
    }

    /// A lane's socket has failed.
    fn lane_failed(
        &mut self,
        lane: usize,
        error: &LaneError,
        now: Instant,
    ) -> Result<(), Self::Error>;

    /// The other end has not answered over lanes that seem to work: their addresses may have changed.
    fn doubt_lanes(&mut self) {}

    /// After the packets of all lanes were taken.
    fn process(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), Self::Error>;

    /// The header of a packet with control messages; nothing where the lane must not carry one.
    fn control_header(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        now: Instant,
    ) -> Option<Header>;

    /// Adds the due packets of a lane.
    fn fill(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        now: Instant,
    ) -> Result<(), SealError>;

    /// After sending: events, and whether the other end has been silent for too long.
    fn check(&mut self, endpoint: &Endpoint, now: Instant) -> Result<(), Self::Error>;

    /// Shows progress: some times a second.
    fn show(&mut self, endpoint: &Endpoint, now: Instant);

    /// Shows it for the last time.
    fn ended(&mut self, endpoint: &Endpoint, is_ok: bool, now: Instant) {
        let _ = is_ok;
        self.show(endpoint, now);
    }

    /// How long packets may gather before the next wait.
    fn moderation(&mut self, now: Instant) -> Duration {
        let _ = now;
        Duration::ZERO
    }

    /// When a lane wants a turn by itself; `is_idle` if all that was sealed has left.
    fn next_wakeup(&self, lane: usize, is_idle: bool) -> Instant;

    /// Descriptors of a lane, beside its socket's, to be waited for until they can be read.
    fn other_fds(&self, lane: usize) -> impl Iterator<Item = BorrowedFd<'_>>;
}

/// A packet that was opened.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) lane: usize,
    pub(crate) header: &'a Header,
    pub(crate) body: &'a [u8],
    /// Its source address, as the network reports it.
    pub(crate) from: Option<SocketAddr>,
}
