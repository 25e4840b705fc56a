//! When a lane's socket is opened again.
//!
//! A TCP lane that breaks is connected again at once, and then every [`RETRY_NS`] until it works. A lane that
//! is silent without an error gets a new connection after [`SILENT_NS`]: a path that comes back carries a new
//! SYN at once, while TCP waits for seconds between retransmissions. A socket for datagrams is opened again
//! only if it could not be opened before, or is silent and has lost its address.

use crate::lane::LaneError;
use linecard::time::Instant;

/// The least time between two tries, in ns.
const RETRY_NS: u64 = 250_000_000;
/// The same at an address that the receiver has named and that has not answered yet, in ns.
const UNPROVEN_RETRY_NS: u64 = 1_000_000_000;
/// How long a connection that has carried packets may be silent before another is tried, in ns.
const SILENT_NS: u64 = 1_000_000_000;
/// How long a new connection may take until the peer has answered on it, in ns: three round trips of 1 s.
const CONNECT_NS: u64 = 3_000_000_000;

/// The connection of one lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    is_stream: bool,
    retry_ns: u64,
    /// There is no socket to use: when to open one.
    open_at: Option<Instant>,
    /// There is one: when to replace it, unless it works by then.
    replace_at: Instant,
    tried: Instant,
}

impl Connection {
    /// Of a lane whose socket has not been tried, to an address that is proven to be the receiver's or not.
    pub(super) const fn new(is_stream: bool, is_proven: bool) -> Self {
        Self {
            is_stream,
            retry_ns: if is_proven { RETRY_NS } else { UNPROVEN_RETRY_NS },
            open_at: None,
            replace_at: Instant::NEVER,
            tried: Instant::ZERO,
        }
    }

    /// Whether there is no socket to use now.
    pub(super) const fn is_pending(&self) -> bool {
        self.open_at.is_some()
    }

    /// Whether it will not be tried again.
    pub(super) fn is_given_up(&self) -> bool {
        self.open_at == Some(Instant::NEVER)
    }

    /// When [`Connection::is_due`] becomes true by itself.
    pub(super) fn next_try(&self) -> Instant {
        self.open_at.unwrap_or(self.replace_at)
    }

    /// Whether to open a socket now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next_try() <= now
    }

    /// A socket is opened.
    pub(super) fn tried(&mut self, now: Instant) {
        self.tried = now;
        self.open_at = None;
        self.replace_at = if self.is_stream { now.plus_ns(CONNECT_NS) } else { Instant::NEVER };
    }

    /// It could not be opened.
    pub(super) fn failed(&mut self, now: Instant) {
        self.open_at = Some(now.plus_ns(self.retry_ns));
    }

    /// The socket reported `error`. Later reports about the same socket do not postpone the next try.
    pub(super) fn broke(&mut self, error: &LaneError, now: Instant) {
        if self.is_stream && self.open_at.is_none() && !matches!(error, LaneError::TooLong { .. }) {
            self.open_at = Some(now.max(self.tried.plus_ns(self.retry_ns)));
        }
    }

    /// It will not be tried again.
    pub(super) fn give_up(&mut self) {
        self.open_at = Some(Instant::NEVER);
    }

    /// The peer has answered.
    pub(super) fn works(&mut self) {
        self.retry_ns = RETRY_NS;
        self.replace_at = Instant::NEVER;
    }

    /// The peer does not answer any more. A connection that was made in this turn has just begun.
    pub(super) fn is_silent(&mut self, now: Instant) {
        if self.tried != now {
            self.replace_at = now.plus_ns(SILENT_NS);
        }
    }

    /// Whether a socket is opened only if there is none that can work.
    pub(super) const fn lasts(&self) -> bool {
        !self.is_stream && !self.is_pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_000 * MS + ms * MS)
    }

    #[test]
    fn later_errors_do_not_postpone_the_next_try() {
        let mut connection = Connection::new(true, true);
        connection.broke(&LaneError::Closed, at(0));
        assert!(connection.is_due(at(0)));
        connection.tried(at(0));
        assert!(!connection.is_pending());
        for ms in [10, 100, 200] {
            connection.broke(&LaneError::Closed, at(ms));
            assert!(!connection.is_due(at(ms)));
        }
        assert!(connection.is_due(at(250)));
    }

    #[test]
    fn a_silent_connection_is_replaced_unless_it_works_again() {
        let mut connection = Connection::new(true, true);
        connection.is_silent(at(0));
        assert!(!connection.is_due(at(999)) && connection.is_due(at(1_000)));
        connection.works();
        assert_eq!(connection.next_try(), Instant::NEVER);
        let mut datagrams = Connection::new(false, true);
        datagrams.broke(&LaneError::Closed, at(0));
        assert_eq!(datagrams.next_try(), Instant::NEVER);
        datagrams.is_silent(at(0));
        assert!(datagrams.is_due(at(1_000)) && datagrams.lasts());
        datagrams.failed(at(1_000));
        assert!(datagrams.is_due(at(1_250)) && !datagrams.lasts());
    }
}
