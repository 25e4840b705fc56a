//! Sleeps in `epoll_wait`, as servers with many sockets do: two calls for a single packet.

use super::tally::Tally;
use super::{PATIENCE, Receive, poll};
use rustix::event::{Timespec, epoll};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

/// Packets taken after one sleep, so that a stop is noticed in a flood.
const TAKEN: u64 = 64;

pub(super) struct Epoll<'a> {
    receiver: poll::Poll<'a>,
    epoll: OwnedFd,
    events: [epoll::Event; 1],
}

impl<'a> Epoll<'a> {
    pub(super) fn new(socket: &'a UdpSocket) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, socket, data, epoll::EventFlags::IN)?;
        let events = [epoll::Event { flags: epoll::EventFlags::empty(), data }];
        Ok(Self { receiver: poll::Poll::new(socket)?, epoll, events })
    }
}

impl Receive for Epoll<'_> {
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()> {
        let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
        match epoll::wait(&self.epoll, &mut self.events[..], Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => tally.nothing(),
            Ok(_) => {
                tally.call();
                self.take(tally)?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Epoll<'_> {
    /// Receives packets until there are none.
    fn take(&mut self, tally: &mut Tally) -> io::Result<()> {
        for _ in 0..TAKEN {
            let empty = tally.empty_calls();
            self.receiver.receive(tally)?;
            if tally.is_done() || tally.empty_calls() > empty {
                break;
            }
        }
        Ok(())
    }
}
