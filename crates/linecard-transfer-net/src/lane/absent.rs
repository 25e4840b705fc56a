//! A lane without a socket: a connection that has not arrived, or a route that is missing.

use super::{Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES, ReceiveBuffer};
use std::os::fd::BorrowedFd;

/// Takes nothing and gives nothing.
#[derive(Debug)]
pub(crate) struct Absent {
    name: String,
    is_stream: bool,
}

impl Absent {
    /// `name` describes the missing lane.
    pub(crate) const fn new(name: String, is_stream: bool) -> Self {
        Self { name, is_stream }
    }
}

impl Lane for Absent {
    fn send(&mut self, _datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
        Ok(0)
    }

    fn receive(&mut self, _received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        Ok(0)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        // Callers do not wait for an absent lane. Standard input always has a descriptor.
        rustix::stdio::stdin()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn is_stream(&self) -> bool {
        self.is_stream
    }

    fn max_datagram(&self) -> usize {
        MAX_DATAGRAM_BYTES
    }
}
