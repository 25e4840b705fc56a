//! The lanes of the receiving end: sockets that anybody can send to, and who has shown to be the sender.

use super::ReceiveError;
use crate::control::Control;
use crate::end::Carrier;
use crate::lane::{Datagrams, Lane, Listener, OpenError, Received, Spec, Trouble};
use linecard::time::Instant;
use linecard_transfer::control::Suite;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// A connection on which nothing came for so long may be replaced, in ns.
const QUIET_NS: u64 = 1_000_000_000;

/// One lane: its carrier, and for TCP what accepts connections.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) carrier: Carrier,
    listener: Option<Listener>,
    /// Where the sender was when it last answered a challenge.
    pub(super) validated: Option<SocketAddr>,
    /// Where the packets come from.
    pub(super) from: Option<SocketAddr>,
    /// There is no connection.
    pub(super) is_down: bool,
    /// When a packet of the sender's last came.
    pub(super) heard: Instant,
    number: u16,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) all: Vec<Incoming>,
    addresses: Vec<SocketAddr>,
}

impl Lanes {
    pub(super) fn open(
        specs: &[Spec],
        control: &mut Control,
        (suite, connection): (Suite, u32),
    ) -> Result<Self, ReceiveError> {
        let (_, peer) = control.addresses()?;
        let mut lanes = Self { all: Vec::new(), addresses: Vec::new() };
        for (number, spec) in specs.iter().enumerate() {
            let number = number as u16;
            let keys = control.lane(suite, connection, number)?;
            let listener = spec.listen()?;
            lanes.addresses.push(listener.address_for(&spec.place, peer.ip())?);
            let (lane, listener): (Box<dyn Lane>, _) = match listener {
                Listener::Udp(lane) => (Box::new(lane), None),
                tcp @ Listener::Tcp(_) => (Box::new(NotYet), Some(tcp)),
            };
            lanes.all.push(Incoming {
                carrier: Carrier::new(lane, keys),
                is_down: listener.is_some(),
                listener,
                heard: Instant::ZERO,
                validated: None,
                from: None,
                number,
            });
        }
        Ok(lanes)
    }

    pub(super) fn addresses(&self) -> Result<Vec<SocketAddr>, OpenError> {
        Ok(self.addresses.clone())
    }

    /// Takes connections that have come: the newest of a lane is it, but not in place of one on which the
    /// sender has just been heard. So nobody who only connects can take a lane away.
    pub(super) fn accept(&mut self, now: Instant) {
        for lane in &mut self.all {
            let Some(listener) = &lane.listener else { continue };
            while let Ok(Some(connection)) = listener.accept() {
                if lane.is_down || now.ns_since(lane.heard) > QUIET_NS {
                    lane.carrier.replace(Box::new(connection));
                    lane.is_down = false;
                }
            }
        }
    }
}

impl Incoming {
    pub(super) const fn number(&self) -> usize {
        self.number as usize
    }

    /// What to wait for.
    pub(super) fn readable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let lane = (!self.is_down).then(|| self.carrier.lane().as_fd());
        [lane, self.listener.as_ref().map(Listener::as_fd)].into_iter().flatten()
    }

    /// Where the sender is: it has shown that it receives there.
    pub(super) fn validate(&mut self) {
        if let Some(from) = self.from {
            self.validated = Some(from);
            self.carrier.answer_to(from);
        }
    }

    /// Packets come from elsewhere than where the sender was.
    pub(super) fn has_moved(&self) -> bool {
        self.validated.is_some() && self.from != self.validated
    }
}

/// A connection that has not come yet.
#[derive(Debug)]
struct NotYet;

impl Lane for NotYet {
    fn send(&mut self, _datagrams: &Datagrams<'_>) -> Result<usize, Trouble> {
        Ok(0)
    }

    fn receive(&mut self, _received: &mut Received) -> Result<usize, Trouble> {
        Ok(0)
    }

    fn flush(&mut self, _now: Instant) -> Result<Option<Instant>, Trouble> {
        Ok(None)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        // Never waited for: the lane is down. The standard input is there in any case.
        rustix::stdio::stdin()
    }

    fn describe(&self) -> String {
        "a connection that has not come".into()
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn max_datagram(&self) -> usize {
        crate::lane::MAX_DATAGRAM_BYTES
    }
}
