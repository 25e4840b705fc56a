//! Why a lane cannot continue.

use std::io;

/// Why a lane does not carry what it was given. None of them ends a transfer that has another lane.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// There is no receiver at the other end, or no route to it. It may come back: probe it; a stream
    /// has to be reopened.
    #[error("the lane is down: {0}")]
    Dead(#[source] io::Error),
    /// The peer has closed its end of a stream.
    #[error("the peer has closed the lane")]
    Closed,
    /// Longer than the interface carries in one packet; nothing was sent.
    #[error(
        "a datagram of {bytes} bytes does not fit: the lane carries {limit}; use smaller packets, or \
         a larger MTU"
    )]
    TooLong {
        /// Bytes of the datagram.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The peer announced an impossible frame. The stream cannot continue.
    #[error("a frame of {0} bytes is not 1 to {max}: this is not a lane of ours", max = super::MAX_DATAGRAM_BYTES)]
    Frame(usize),
    /// Any other error of the operating system.
    #[error("the lane fails: {0}")]
    System(#[source] io::Error),
}

impl LaneError {
    /// Meaning of an error of a socket; none if the buffer is full, or no data waits, at the moment.
    pub(super) fn of(error: io::Error) -> Option<Self> {
        let code = error.raw_os_error().unwrap_or(0);
        match code {
            libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM => None,
            libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::ECONNABORTED
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::ENETRESET
            | libc::ENODEV
            | libc::ENXIO
            | libc::ENONET
            | libc::ETIMEDOUT
            | libc::EPIPE
            | libc::ENOTCONN
            | libc::EADDRNOTAVAIL
            // A filter of this host: the way is closed, as it may be opened again.
            | libc::EPERM
            | libc::EACCES => Some(Self::Dead(error)),
            _ => Some(Self::System(error)),
        }
    }

    /// Whether probing the lane again makes sense.
    #[must_use]
    pub const fn may_recover(&self) -> bool {
        matches!(self, Self::Dead(_))
    }
}

/// A count of datagrams, none while the buffer is full.
pub(super) fn or_none(error: io::Error) -> Result<usize, LaneError> {
    LaneError::of(error).map_or(Ok(0), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_sockets_mean_wait_dead_or_broken() {
        let of = |code| LaneError::of(io::Error::from_raw_os_error(code));
        for code in [libc::EAGAIN, libc::ENOBUFS, libc::EINTR] {
            assert!(of(code).is_none(), "{code}");
        }
        for code in [libc::ECONNREFUSED, libc::ENETUNREACH, libc::ENETDOWN, libc::EPIPE] {
            assert!(of(code).is_some_and(|error| error.may_recover()), "{code}");
        }
        assert!(matches!(of(libc::EBADF), Some(LaneError::System(_))));
    }
}
