//! Sleeps in `recv`: each packet wakes the thread, which then has to be scheduled on its core.
//!
//! A call times out after 50 ms, so that a stop is noticed; each sleep arms a timer for that. With
//! busy polling enabled, the same call polls first.

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
