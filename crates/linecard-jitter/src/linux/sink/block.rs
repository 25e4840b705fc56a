//! Sleeping in `recv`: each packet wakes the thread, which has to come back to its core first.
//!
//! A call gives up after 50 ms, so that a stop is seen; the timer for that is armed by every sleep.
//! With busy polling asked for, the same call polls first.

use super::tally::Tally;
use super::{PATIENCE, Receive, poll};
use std::io;
use std::net::UdpSocket;

pub(super) struct Block<'a>(poll::Poll<'a>);

impl<'a> Block<'a> {
    pub(super) fn new(socket: &'a UdpSocket) -> io::Result<Self> {
        let receiver = poll::Poll::new(socket)?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(receiver))
    }
}

impl Receive for Block<'_> {
    #[inline]
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()> {
        self.0.receive(tally)
    }
}
