//! Receives by `io_uring`, which waits for one packet and returns all that have arrived until then.
//! All get the time at which the ring was read.

use super::tally::Tally;
use super::{PATIENCE, Receive};
use crate::linux::clock::monotonic_ns;
use crate::linux::sys::uring::Uring;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

pub(super) struct Ring<'a>(Uring<'a>);

impl<'a> Ring<'a> {
    pub(super) fn new(socket: &'a UdpSocket) -> io::Result<Self> {
        Ok(Self(Uring::new(socket.as_fd())?))
    }
}

impl Receive for Ring<'_> {
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()> {
        self.0.wait(PATIENCE)?;
        let at_ns = monotonic_ns();
        let mut came = 0_u64;
        self.0.take(|payload, is_cut| {
            came += 1;
            tally.datagram(payload, at_ns);
            tally.cut(is_cut);
        })?;
        if came > 0 {
            tally.call();
        } else {
            tally.nothing();
        }
        Ok(())
    }
}
