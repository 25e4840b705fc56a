//! Receives many packets in one call, which waits for the first one only. All get the time after
//! the call; all but the last arrived earlier.

use super::tally::Tally;
use super::{PATIENCE, Receive, is_nothing};
use crate::linux::clock::monotonic_ns;
use crate::linux::sys::receive::Batch;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

pub(super) struct Recvmmsg<'a> {
    socket: &'a UdpSocket,
    batch: Batch,
}

impl<'a> Recvmmsg<'a> {
    pub(super) fn new(socket: &'a UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, batch: Batch::new() })
    }
}

impl Receive for Recvmmsg<'_> {
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()> {
        match self.batch.receive(self.socket.as_fd()) {
            Ok(came) => {
                let at_ns = monotonic_ns();
                tally.call();
                for (payload, is_cut) in self.batch.datagrams(came) {
                    tally.datagram(payload, at_ns);
                    tally.cut(is_cut);
                }
            }
            Err(error) if is_nothing(&error) => tally.nothing(),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
