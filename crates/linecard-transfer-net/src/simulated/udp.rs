//! A lane over UDP in memory: a simulated link each way, and a translation of the sender's address.

use super::Time;
use super::lane::PathSettings;
use crate::lane::{
    Connect, Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES, OpenError, ReceiveBuffer,
};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_transfer::sim::{Link, LinkCounters};
use linecard_transfer::wire::{Header, Kind, OVERHEAD_BYTES, Probe};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Where packets of nobody that takes part come from.
const STRANGER: ([u8; 4], u16) = ([198, 51, 100, 66], 666);
/// How long a socket takes nothing, at most, in ns.
const BUSY_NS: u64 = 5_000_000;
/// How long a stranger keeps a copy of a packet at most, in ns.
const KEPT_NS: u64 = 3_000_000_000;

/// One direction, with the datagrams under way: when each arrives, and from where.
#[derive(Debug)]
struct Way {
    link: Link,
    /// As in [`PathSettings`].
    replayed: f64,
    garbage: f64,
    rng: Rng,
    under_way: BTreeMap<(Instant, u64), (Vec<u8>, SocketAddr)>,
    sequence: u64,
}

impl Way {
    fn carry(&mut self, bytes: &[u8], from: SocketAddr, now: Instant) {
        let fate = self.link.send(bytes.len() as u32, now, &mut self.rng);
        let mut bytes = bytes.to_vec();
        if fate.corrupt {
            let bit = self.rng.below(8 * bytes.len() as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if self.rng.chance(self.garbage) {
            let mut other = vec![0; self.rng.below(2_000) as usize];
            self.rng.fill(&mut other);
            // Some of it begins as a packet does.
            let alike = self.rng.below(64).min(other.len().min(bytes.len()) as u64) as usize;
            other[..alike].copy_from_slice(&bytes[..alike]);
            let at = now.plus_ns(self.rng.below(KEPT_NS));
            self.put(at, other, STRANGER.into());
        }
        for at in fate.arrivals.into_iter().flatten() {
            if self.rng.chance(self.replayed) {
                // Half of the copies come before the packet itself.
                let delay_ns = at.ns_since(now);
                let most = if self.rng.chance(0.5) { delay_ns } else { KEPT_NS };
                let at = now.plus_ns(self.rng.below(most + 1));
                self.put(at, bytes.clone(), STRANGER.into());
            }
            self.put(at, bytes.clone(), from);
        }
    }

    fn put(&mut self, at: Instant, bytes: Vec<u8>, from: SocketAddr) {
        self.sequence += 1;
        self.under_way.insert((at, self.sequence), (bytes, from));
    }

    /// The first datagram, if it has arrived.
    fn take(&mut self, now: Instant) -> Option<(Vec<u8>, SocketAddr)> {
        let first = self.under_way.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

/// Both directions of a lane, and the addresses of its sender.
#[derive(Debug, Clone)]
pub(super) struct UdpWire {
    time: Time,
    settings: Arc<PathSettings>,
    /// Towards the receiver, and back.
    ways: [Arc<Mutex<Way>>; 2],
    /// Probes that strangers have sent to the receiver, answers that it has sent to them, and all that it has.
    strangers: Arc<[AtomicU64; 3]>,
    /// When the socket of an end takes packets again, in ns; 0 if nothing waits for that.
    room: Arc<[AtomicU64; 2]>,
    own: SocketAddr,
    receiver: SocketAddr,
}

impl UdpWire {
    pub(super) fn new(lane: u16, settings: &PathSettings, time: &Time, rng: &mut Rng) -> Self {
        let mut way = || {
            Arc::new(Mutex::new(Way {
                link: Link::new(settings.link.clone()),
                replayed: settings.replayed,
                garbage: settings.garbage,
                rng: Rng::new(rng.next_u64()),
                under_way: BTreeMap::new(),
                sequence: 0,
            }))
        };
        Self {
            time: time.clone(),
            settings: Arc::new(settings.clone()),
            ways: [way(), way()],
            strangers: Arc::default(),
            room: Arc::default(),
            own: ([192, 0, 2, lane as u8], 40_000).into(),
            receiver: ([203, 0, 113, lane as u8], 7_000).into(),
        }
    }

    /// 0 is the sender's end, 1 the receiver's.
    pub(super) fn end(&self, end: usize) -> MemoryLane {
        MemoryLane { wire: self.clone(), end, to: None }
    }

    /// Where the receiver is reached.
    pub(super) const fn receiver(&self) -> SocketAddr {
        self.receiver
    }

    /// When the next datagram arrives at an end, or its socket has room for those that wait.
    pub(super) fn next_event(&self, end: usize) -> Instant {
        let way = locked(&self.ways[1 - end]);
        let arrival = way.under_way.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at);
        match self.room[end].load(Ordering::Relaxed) {
            0 => arrival,
            room => arrival.min(Instant::from_ns(room)),
        }
    }

    /// Of the link towards the receiver.
    pub(super) fn counters(&self) -> LinkCounters {
        locked(&self.ways[0]).link.counters()
    }

    /// How many probes strangers have sent to the receiver, how many answers it has sent to them, and how many packets.
    pub(super) fn strangers(&self) -> [u64; 3] {
        [0, 1, 2].map(|way| self.strangers[way].load(Ordering::Relaxed))
    }

    fn count_stranger(&self, way: usize, is_counted: bool) {
        self.strangers[way].fetch_add(u64::from(is_counted), Ordering::Relaxed);
    }

    /// The sender's address as the network shows it now.
    fn sender(&self, now: Instant) -> SocketAddr {
        let rebound = self.settings.rebinds.iter().filter(|at| **at <= now).count() as u16;
        SocketAddr::new(self.own.ip(), self.own.port() + rebound)
    }
}

fn locked(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().expect("one thread has them all")
}

impl Connect for UdpWire {
    fn connect(&self, _peer: SocketAddr) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(self.end(0)))
    }
}

/// An end of a lane.
#[derive(Debug)]
pub(super) struct MemoryLane {
    wire: UdpWire,
    /// 0 of the sender, 1 of the receiver.
    end: usize,
    /// To which the receiver sends.
    to: Option<SocketAddr>,
}

impl MemoryLane {
    /// Whether its socket takes nothing now.
    fn is_busy(&self, now: Instant) -> bool {
        let mut way = locked(&self.wire.ways[self.end]);
        if !way.rng.chance(self.wire.settings.busy) {
            return false;
        }
        let until = now.plus_ns(1 + way.rng.below(BUSY_NS));
        self.wire.room[self.end].store(until.as_ns(), Ordering::Relaxed);
        true
    }
}

impl Lane for MemoryLane {
    fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
        let now = self.wire.time.now();
        let PathSettings { link, is_noticed, .. } = &*self.wire.settings;
        if *is_noticed && link.dead.contains(&now) {
            return Err(LaneError::Dead(io::ErrorKind::NetworkDown.into()));
        }
        if self.is_busy(now) {
            return Ok(0);
        }
        let sender = self.wire.sender(now);
        // A translation that is gone carries nothing, and a stranger keeps what it gets.
        let is_reached = self.end == 0 || self.to == Some(sender);
        let from = if self.end == 0 { sender } else { self.wire.receiver };
        for datagram in datagrams.iter() {
            if self.end == 1 && self.to == Some(STRANGER.into()) {
                self.wire.count_stranger(1, datagram.len() == OVERHEAD_BYTES + Probe::BYTES);
                self.wire.count_stranger(2, true);
            }
            if is_reached {
                locked(&self.wire.ways[self.end]).carry(datagram, from, now);
            }
        }
        Ok(datagrams.count())
    }

    fn receive(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        let now = self.wire.time.now();
        let room = &self.wire.room[self.end];
        if room.load(Ordering::Relaxed) <= now.as_ns() {
            // It has a turn, in which it sends.
            room.store(0, Ordering::Relaxed);
        }
        let mut way = locked(&self.wire.ways[1 - self.end]);
        let mut start = 0;
        let mut runs = Vec::new();
        let area = received.begin();
        while area.len() - start >= MAX_DATAGRAM_BYTES
            && let Some((bytes, from)) = way.take(now)
        {
            let is_probe = Header::parse(&bytes).is_ok_and(|header| header.kind == Kind::Probe);
            self.wire.count_stranger(0, self.end == 1 && from == STRANGER.into() && is_probe);
            area[start..start + bytes.len()].copy_from_slice(&bytes);
            runs.push((start, bytes.len(), from));
            start += bytes.len();
        }
        let runs = runs.into_iter();
        Ok(runs.map(|(start, bytes, from)| received.add(start, (bytes, bytes), Some(from))).sum())
    }

    fn answer_to(&mut self, peer: SocketAddr) {
        self.to = Some(peer);
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        // Nobody waits for it.
        rustix::stdio::stdin()
    }

    fn describe(&self) -> String {
        format!("{} to {}", self.wire.own, self.wire.receiver)
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn max_datagram(&self) -> usize {
        MAX_DATAGRAM_BYTES
    }
}
