//! Lanes: parallel paths to a peer, over UDP and TCP.
//!
//! A lane carries datagrams to one peer and back. It never waits: datagrams without room stay with the caller, which
//! tries again when [`Lane::as_fd`] is writable. Datagrams go and come many by one call: on UDP as one large packet
//! that the kernel segments (GSO) and as merged ones that it gives (GRO), on TCP as frames of one stream.
//!
//! Bounds: [`MAX_SEND`] datagrams and [`MAX_DATAGRAM_BYTES`] by one call; received ones, by the area of
//! [`ReceiveBuffer`]. A lane keeps at most a part of one frame of its own.

mod absent;
mod buffer;
mod error;
mod open;
mod route;
mod spec;
mod sys;
mod tcp;
mod udp;

pub(crate) use absent::Absent;
pub use buffer::{Datagram, ReceiveBuffer};
pub use error::LaneError;
pub use open::{At, Listener, OpenError};
pub(crate) use route::{Own, Peer};
pub use spec::{LocalEnd, Spec, SpecError, SpecProblem};
pub use tcp::Tcp;
pub use udp::Udp;

use std::fmt::Debug;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Most datagrams of one [`Lane::send`]: the limit of the kernel (`UDP_MAX_SEGMENTS`).
pub const MAX_SEND: usize = 64;
/// The longest datagram, and the most bytes of one [`Lane::send`]: a UDP datagram over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// One of several parallel paths to a peer.
///
/// ```
/// use linecard_transfer_net::lane::{Datagrams, Lane, Listener, ReceiveBuffer, Spec};
/// let spec: Spec = "udp:127.0.0.1".parse()?;
/// let Listener::Udp(mut far) = spec.listen()? else { unreachable!("the lane is one of UDP") };
/// let mut near = spec.connect(far.local_addr()?)?;
/// let sent = near.send(&Datagrams { bytes: b"onetwothr", stride: 3 })?;
/// assert_eq!(sent, 3);
/// let mut received = ReceiveBuffer::new();
/// while far.receive(&mut received)? == 0 {}
/// let first = received.datagrams().next().map(|datagram| datagram.bytes.to_vec());
/// assert_eq!(first.as_deref(), Some(&b"one"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Lane: Debug + Send {
    /// Hands over datagrams, in order; how many were taken. Fewer than there are, or 0: there is no
    /// room now. Data that a stream has accepted may still wait for [`Lane::flush`].
    ///
    /// # Errors
    ///
    /// [`LaneError`]; what was taken before it in this call is lost or sent, and not counted.
    fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError>;

    /// Takes what has come into `received`, whose earlier contents are gone; how many datagrams. 0 when
    /// there is nothing now.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    fn receive(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError>;

    /// Whether the last call of [`Lane::receive`] took all that had come: there is no need for another one before the
    /// descriptor is readable.
    fn is_drained(&self) -> bool {
        false
    }

    /// Sends what was taken and still waits: a part of a frame. Call it once a turn, or when the
    /// descriptor is writable and [`Lane::is_flushed`] says no.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    fn flush(&mut self) -> Result<(), LaneError> {
        Ok(())
    }

    /// Whether nothing waits to be written.
    fn is_flushed(&self) -> bool {
        true
    }

    /// Where [`Lane::send`] goes from now on, if the lane is not connected: to a peer whose probe was
    /// answered.
    fn answer_to(&mut self, peer: SocketAddr) {
        let _unused = peer;
    }

    /// Readable when something has come, writable when there is room.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Kind, own end and peer, for messages.
    fn describe(&self) -> String;

    /// Whether it is a stream: nothing is lost while it lives, and it has a congestion control.
    fn is_stream(&self) -> bool;

    /// The longest datagram in bytes, as far as this host knows.
    fn max_datagram(&self) -> usize;

    /// Received packets dropped by this host for lack of room since it was opened: datagrams, and merged ones as
    /// one.
    fn dropped(&self) -> u64 {
        0
    }

    /// Buffers that this host did not grant, as one line for the user.
    fn note(&self) -> Option<&str> {
        None
    }
}

/// Opens the sending end of a lane, as often as it is needed.
pub(crate) trait Connect: Debug + Send {
    /// As [`Spec::connect`].
    fn connect(&self, peer: SocketAddr) -> Result<Box<dyn Lane>, OpenError>;
}

/// Accepts the connections of a lane.
pub(crate) trait Accept: Debug + Send {
    /// As [`Listener::accept`].
    fn accept(&self) -> Result<Option<Box<dyn Lane>>, LaneError>;

    /// Readable when a connection has come.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

/// Datagrams that lie one behind the other, all of the same length but the last, which may be shorter.
#[derive(Debug, Clone, Copy)]
pub struct Datagrams<'a> {
    /// All of them.
    pub bytes: &'a [u8],
    /// Bytes from the start of one to that of the next, at least 1.
    pub stride: usize,
}

impl<'a> Datagrams<'a> {
    /// One datagram.
    #[must_use]
    pub fn one(bytes: &'a [u8]) -> Self {
        Self { bytes, stride: bytes.len().max(1) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.stride.max(1))
    }

    /// Each by itself.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks(self.stride.max(1))
    }

    /// The first `count` of them.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        let end = self.bytes.len().min(count.saturating_mul(self.stride));
        Self { bytes: &self.bytes[..end], stride: self.stride }
    }

    /// All but the first `count`.
    #[must_use]
    pub fn after(&self, count: usize) -> Self {
        let start = self.bytes.len().min(count.saturating_mul(self.stride));
        Self { bytes: &self.bytes[start..], stride: self.stride }
    }

    /// As many as one call may have.
    fn bounded(&self, max_datagram: usize) -> Result<Self, LaneError> {
        let longest = self.stride.min(self.bytes.len());
        if longest > max_datagram {
            return Err(LaneError::TooLong { bytes: longest, limit: max_datagram });
        }
        let fitting = MAX_DATAGRAM_BYTES / self.stride.max(1);
        Ok(self.first(fitting.clamp(1, MAX_SEND)))
    }
}
