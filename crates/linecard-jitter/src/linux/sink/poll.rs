//! One packet by each call of `recv`.
//!
//! Polling, no call sleeps: no wakeup latency, but the core is busy. Blocking, each packet wakes the
//! thread, which then has to be scheduled on its core; a call times out after 50 ms, so that a stop is
//! noticed, and each sleep arms a timer for that. With busy polling enabled, the same call polls first.

use super::tally::Tally;
use super::{LONGEST, PATIENCE, Receive, is_nothing};
use crate::linux::clock::monotonic_ns;
use std::io;
use std::net::UdpSocket;

pub(super) struct Poll<'a> {
    socket: &'a UdpSocket,
    buffer: Vec<u8>,
}

impl<'a> Poll<'a> {
    pub(super) fn new(socket: &'a UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, buffer: vec![1; LONGEST] })
    }

    pub(super) fn blocking(socket: &'a UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, buffer: vec![1; LONGEST] })
    }
}

impl Receive for Poll<'_> {
    #[inline]
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()> {
        match self.socket.recv(&mut self.buffer) {
            Ok(len) => {
                let at_ns = monotonic_ns();
                tally.call();
                tally.datagram(&self.buffer[..len], at_ns);
            }
            Err(error) if is_nothing(&error) => tally.nothing(),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
