//! Streams that arrive at an interface, found by themselves.

use super::clock::monotonic_ns;
use super::sink::{is_down, is_nothing};
use super::sys::packet::{self, datagram};
use super::sys::receive::Batch;
use super::watch::{WatchError, index, prepare};
use crate::media::flow::{Flow, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// Destinations that are counted; datagrams of further ones are not.
const MAX_FLOWS: usize = 1_024;
/// Packets of each that tell what it carries.
const MAX_PACKETS: usize = 256;
/// Packets per second of a stream; what is slower is no medium.
const LEAST_RATE: f64 = 10.0;
/// Longest wait, so that a stop is noticed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A stream that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundStream {
    /// Where it goes.
    pub target: SocketAddr,
    /// Where its first packet came from.
    pub source: SocketAddr,
    /// Packets per second.
    pub rate: f64,
    /// Bits of UDP payload per second.
    pub bits_per_second: f64,
    /// The payload.
    pub kind: Kind,
    /// RTP's payload type.
    pub payload_type: Option<u8>,
}

/// The packets for one destination.
struct Candidate {
    source: SocketAddr,
    packets: u64,
    octets: u64,
    flow: Flow,
}

/// Listens at an interface for so long, or until it is stopped; the streams, media first, then those with more packets.
/// Of groups, only those arrive that a program of this host has joined, or that the network sends to all.
///
/// # Errors
///
/// There is no such interface, or it cannot be listened at.
pub fn find(
    interface: &str,
    time: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<FoundStream>, WatchError> {
    let failed = |source| WatchError::Packet { name: interface.to_owned(), source };
    let socket = packet::open(index(interface)?, None).and_then(prepare).map_err(failed)?;
    let (mut batch, mut candidates) = (Batch::stamped(), BTreeMap::new());
    let began_ns = monotonic_ns();
    let elapsed = || Duration::from_nanos(monotonic_ns().saturating_sub(began_ns));
    while elapsed() < time && !is_stopped() {
        let waited = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&LOOK));
        if let Err(error) = waited
            && error != Errno::INTR
        {
            return Err(failed(error.into()));
        }
        let came = match batch.receive(socket.as_fd()) {
            Err(error) if is_nothing(&error) || is_down(&error) => continue,
            came => came.map_err(failed)?,
        };
        for (packet, _, stamp) in batch.stamped_datagrams(came) {
            count(&mut candidates, packet, stamp.unwrap_or(0));
        }
    }
    let seconds = elapsed().as_secs_f64();
    let mut found: Vec<FoundStream> =
        candidates.into_iter().filter_map(|(target, one)| one.found(target, seconds)).collect();
    found.sort_by(|a, b| {
        (a.kind == Kind::Udp).cmp(&(b.kind == Kind::Udp)).then(b.rate.total_cmp(&a.rate))
    });
    Ok(found)
}

fn count(candidates: &mut BTreeMap<SocketAddr, Candidate>, packet: &[u8], at_ns: u64) {
    let Some(datagram) = datagram(packet) else { return };
    if candidates.len() >= MAX_FLOWS && !candidates.contains_key(&datagram.target) {
        return;
    }
    let one = candidates.entry(datagram.target).or_insert_with(|| Candidate {
        source: datagram.source,
        packets: 0,
        octets: 0,
        flow: Flow::default(),
    });
    one.packets += 1;
    one.octets += datagram.len as u64;
    if one.flow.len() < MAX_PACKETS {
        one.flow.push(at_ns, datagram.payload, datagram.len);
    }
}

impl Candidate {
    fn found(self, target: SocketAddr, seconds: f64) -> Option<FoundStream> {
        let rate = self.packets as f64 / seconds;
        let bits_per_second = self.octets as f64 * 8.0 / seconds;
        let payload_type = self.flow.rtp().map(|(_, kind)| kind);
        let (source, kind) = (self.source, self.flow.kind());
        let found = FoundStream { target, source, rate, bits_per_second, kind, payload_type };
        (rate >= LEAST_RATE).then_some(found)
    }
}
