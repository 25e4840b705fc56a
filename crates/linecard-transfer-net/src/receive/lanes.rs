//! The lanes of the receiving end: sockets that any host can send to, and the authenticated sender.
//!
//! A TCP lane has a listener. Any host that reaches its port may connect, so a connection is a candidate until
//! a packet on it opens with the keys of the lane; only then does it replace the connection before it.
//! Candidates are bounded in number, in time, and in bytes: [`MAX_CANDIDATES`] of a lane, each for
//! [`CANDIDATE_NS`], each until its first whole frame, of 64 KiB at most.

use super::ReceiveError;
use crate::control::Control;
use crate::end::{SealedSocket, Verdict};
use crate::lane::{Absent, Accept, Lane, Listener, Own, Spec};
use linecard::time::Instant;
use linecard_transfer::control::{Hello, Suite};
use linecard_transfer::wire::{Header, Kind};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Connections of a lane on which no packet has opened yet. When another comes, the oldest is closed: the
/// sender's first packet is on its way when its connection is accepted.
const MAX_CANDIDATES: usize = 8;
/// How long a connection may wait for its first packet, in ns: a round trip of the slowest path.
const CANDIDATE_NS: u64 = 5_000_000_000;
/// Connections that are accepted in one turn, for all that is open meanwhile to have its turn.
const MAX_ACCEPTED: usize = 16;

/// The address of a lane that there is not.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// One lane, beside its socket: for TCP what accepts connections.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Of a TCP lane.
    listener: Option<Box<dyn Accept>>,
    pub(super) candidates: VecDeque<Candidate>,
    /// There is no connection.
    pub(super) is_down: bool,
    /// The number of the next packet.
    number: u64,
}

/// A connection on which no packet has opened yet.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) lane: Box<dyn Lane>,
    since: Instant,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) all: Vec<Incoming>,
    /// Where each is reached.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Lanes {
    /// Opens the lanes, with a socket for each that there is.
    pub(super) fn open(
        specs: &[Option<Spec>],
        control: &mut Control,
        (suite, connection): (Suite, u32),
    ) -> Result<(Self, Vec<SealedSocket>), ReceiveError> {
        let (_, peer) = control.addresses();
        let mut lanes = Self { all: Vec::new(), addresses: Vec::new() };
        let mut sockets = Vec::with_capacity(specs.len());
        for (number, spec) in specs.iter().enumerate() {
            let number = number as u16;
            let keys = control.lane(suite, connection, number)?;
            let Some(spec) = spec else {
                lanes.addresses.push(NOWHERE);
                let absent = Absent::new(String::new(), false);
                sockets.push(SealedSocket::new(Box::new(absent), keys));
                lanes.all.push(Incoming { is_down: true, ..Incoming::default() });
                continue;
            };
            let listener = spec.listen()?;
            lanes.addresses.push(listener.address_for(&spec.local, peer.ip())?);
            let (lane, incoming): (Box<dyn Lane>, _) = match listener {
                Listener::Udp(lane) => (Box::new(lane), Incoming::default()),
                tcp @ Listener::Tcp(_) => {
                    let name = "a connection that has not arrived".into();
                    (Box::new(Absent::new(name, true)), Incoming::at(Box::new(tcp)))
                }
            };
            sockets.push(SealedSocket::new(lane, keys));
            lanes.all.push(incoming);
        }
        Ok((lanes, sockets))
    }

    /// Whether the sender was given an address of a lane.
    pub(super) fn is_there(&self, lane: usize) -> bool {
        self.addresses.get(lane) != Some(&NOWHERE)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        (0..self.all.len()).filter(|lane| self.is_there(*lane)).count()
    }

    /// The header of the next packet on a lane: its number is taken.
    pub(super) fn header(&mut self, kind: Kind, lane: usize, connection: u32) -> Header {
        let packet_number = self.all[lane].number;
        self.all[lane].number += 1;
        Header::without_chunk(kind, lane as u16, connection, packet_number)
    }
}

/// This end's address of each lane of `hello`, where the user has named none. `control` has the addresses of
/// both ends of the control connection. A lane from another address than that connection is answered by the
/// address that this host uses towards it, if this end listens at all of its addresses (`is_anywhere`) and no
/// translation of addresses lies between. Spare lanes are answered by addresses of interfaces that no other lane
/// uses, as long as there are some, and by none if the user has named lanes (`are_named`).
pub(super) fn places(
    hello: &Hello,
    control: (IpAddr, IpAddr),
    (is_anywhere, are_named): (bool, bool),
) -> Vec<Option<IpAddr>> {
    let (_, peer) = control;
    let sources = match hello.sources.split_first() {
        Some((own, sources)) if *own == peer && is_anywhere => sources,
        _ => &[],
    };
    let own = Own::now();
    let towards = |lane| {
        let source = sources.get(lane);
        source.map_or(control, |source| (own.towards(*source, control), *source))
    };
    let usual = hello.lanes.len() - hello.spares;
    let mut used = vec![control];
    used.extend((0..usual).map(towards));
    let has_spares = !sources.is_empty() && !are_named;
    let others = if has_spares { own.beside(&used, peer) } else { Vec::new() };
    let spares = others.into_iter().map(Some).chain(std::iter::repeat(None)).take(hello.spares);
    used.drain(1..).map(|(own, _)| Some(own)).chain(spares).collect()
}

impl Incoming {
    /// Of a lane whose connections come from there.
    pub(super) fn at(listener: Box<dyn Accept>) -> Self {
        Self { listener: Some(listener), is_down: true, ..Self::default() }
    }

    /// Events to wait for beside the lane's socket: connections that come, and candidates.
    pub(super) fn waiting_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let candidates = self.candidates.iter().map(|candidate| candidate.lane.as_fd());
        self.listener.as_ref().map(|listener| listener.as_fd()).into_iter().chain(candidates)
    }

    /// A stream that has failed waits for the sender to connect again.
    pub(super) const fn failed(&mut self) {
        self.is_down = self.listener.is_some();
    }

    /// Takes connections that have come, and closes those that have waited for too long.
    pub(super) fn accept(&mut self, now: Instant) {
        let Some(listener) = &self.listener else { return };
        self.candidates.retain(|candidate| now.ns_since(candidate.since) < CANDIDATE_NS);
        for _ in 0..MAX_ACCEPTED {
            let Ok(Some(connection)) = listener.accept() else { return };
            if self.candidates.len() == MAX_CANDIDATES {
                self.candidates.pop_front();
            }
            self.candidates.push_back(Candidate { lane: connection, since: now });
        }
    }

    /// A candidate was read from; nothing if it failed. The first on which a packet opens becomes the lane; one on which something else came
    /// is closed.
    pub(super) fn decided(
        &mut self,
        candidate: Candidate,
        verdict: Option<Verdict>,
        socket: &mut SealedSocket,
    ) {
        match verdict {
            Some(Verdict::Undecided) => self.candidates.push_back(candidate),
            Some(Verdict::Accepted) => {
                socket.replace(candidate.lane);
                self.is_down = false;
            }
            Some(Verdict::Refused) | None => {}
        }
    }
}
