//! Detects the streams that arrive at an interface.

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

/// Destinations that are counted at once: of more, the half with fewer packets is forgotten, so that a flood of forged ones
/// does not keep a stream out.
const MAX_FLOWS: usize = 1_024;
/// Packets of each that tell what it carries.
const MAX_PACKETS: usize = 256;
/// Packets per second of a stream; a slower one is not a medium.
const LEAST_RATE: f64 = 10.0;
/// Packets of a stream: fewer do not show that it continues.
const LEAST_PACKETS: u64 = 10;
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

/// The streams that arrived.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The streams, media first, those that went on before those that ceased or began late, then those with more packets.
    pub streams: Vec<FoundStream>,
    /// Packets of destinations that were forgotten, because there were too many.
    pub forgotten: u64,
}

/// The packets for each destination.
#[derive(Default)]
struct Candidates {
    flows: BTreeMap<SocketAddr, Candidate>,
    forgotten: u64,
}

/// The packets for one destination.
struct Candidate {
    source: SocketAddr,
    /// Stamps of the first and the last packet.
    seen_ns: [u64; 2],
    packets: u64,
    octets: u64,
    flow: Flow,
}

/// Listens at an interface for so long, or until it is stopped. Of groups, only those arrive that a program of this host has joined, or that the network sends to all.
///
/// # Errors
///
/// The interface does not exist, or it cannot be listened at.
pub fn find(
    interface: &str,
    time: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Findings, WatchError> {
    let failed = |source| WatchError::Packet { name: interface.to_owned(), source };
    let socket = packet::open(index(interface)?, None).and_then(prepare).map_err(failed)?;
    let (mut batch, mut candidates) = (Batch::stamped(), Candidates::default());
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
        for (packet, _, stamps) in batch.stamped_datagrams(came) {
            candidates.count(packet, stamps.kernel_ns.unwrap_or(0));
        }
    }
    Ok(candidates.found(elapsed().as_secs_f64()))
}

impl Candidates {
    fn count(&mut self, packet: &[u8], at_ns: u64) {
        let Some(datagram) = datagram(packet) else { return };
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&datagram.target) {
            self.make_room();
        }
        let one = self.flows.entry(datagram.target).or_insert_with(|| Candidate {
            source: datagram.source,
            seen_ns: [at_ns; 2],
            packets: 0,
            octets: 0,
            flow: Flow::default(),
        });
        one.seen_ns[1] = at_ns;
        one.packets += 1;
        one.octets += datagram.len as u64;
        if one.flow.len() < MAX_PACKETS {
            one.flow.push(at_ns, datagram.payload, datagram.len);
        }
    }

    fn make_room(&mut self) {
        let packets = |(target, one): (&SocketAddr, &Candidate)| (one.packets, *target);
        let mut flows: Vec<_> = self.flows.iter().map(packets).collect();
        flows.sort_unstable();
        for (packets, target) in flows.into_iter().take(MAX_FLOWS / 2) {
            self.flows.remove(&target);
            self.forgotten += packets;
        }
    }

    fn found(self, seconds: f64) -> Findings {
        let flows = self.flows.into_iter();
        let mut streams: Vec<_> =
            flows.filter_map(|(target, one)| one.found(target, seconds)).collect();
        streams.sort_by(|(a_goes_on, a), (b_goes_on, b)| {
            let is_udp = (a.kind == Kind::Udp).cmp(&(b.kind == Kind::Udp));
            is_udp.then(b_goes_on.cmp(a_goes_on)).then(b.rate.total_cmp(&a.rate))
        });
        let streams = streams.into_iter().map(|(_, stream)| stream).collect();
        Findings { streams, forgotten: self.forgotten }
    }
}

impl Candidate {
    /// The stream, after whether it was there for at least half of the time.
    fn found(self, target: SocketAddr, seconds: f64) -> Option<(bool, FoundStream)> {
        let rate = self.packets as f64 / seconds;
        let bits_per_second = self.octets as f64 * 8.0 / seconds;
        let payload_type = self.flow.rtp().map(|(_, kind)| kind);
        let (source, kind) = (self.source, self.flow.kind());
        let found = FoundStream { target, source, rate, bits_per_second, kind, payload_type };
        let [first_ns, last_ns] = self.seen_ns;
        let goes_on = last_ns.saturating_sub(first_ns) as f64 >= seconds * 1e9 / 2.0;
        (rate >= LEAST_RATE && self.packets >= LEAST_PACKETS).then_some((goes_on, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::sys::packet::tests::udp;

    const MS: u64 = 1_000_000;

    /// Counts a packet of RTP for a port.
    fn count(candidates: &mut Candidates, port: u16, number: u64, at_ns: u64) {
        let mut payload = [0; 172];
        payload[0] = 0x80;
        payload[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        payload[4..8].copy_from_slice(&(number as u32 * 160).to_be_bytes());
        let to = SocketAddr::from(([192, 0, 2, 1], port));
        candidates.count(&udp("192.0.2.9:5004".parse().unwrap(), to, &payload), at_ns);
    }

    fn ports(found: &Findings) -> Vec<u16> {
        found.streams.iter().map(|one| one.target.port()).collect()
    }

    #[test]
    fn a_flood_does_not_keep_a_stream_out() {
        let mut candidates = Candidates::default();
        // The stream begins when the table is full, and has one of a hundred packets.
        for number in 0..20_000 {
            count(&mut candidates, 10_000 + number as u16, 0, number * MS / 10);
            if number >= 2_000 && number % 100 == 0 {
                count(&mut candidates, 5_004, number / 100, number * MS / 10);
            }
        }
        assert!(candidates.flows.len() <= MAX_FLOWS);
        let packets: u64 = candidates.flows.values().map(|one| one.packets).sum();
        let found = candidates.found(2.0);
        assert_eq!(ports(&found), [5_004]);
        assert_eq!(packets + found.forgotten, 20_000 + 180);
    }

    #[test]
    fn streams_that_go_on_come_before_bursts() {
        let mut candidates = Candidates::default();
        for number in 0..100 {
            count(&mut candidates, 5_004, number, number * 20 * MS);
        }
        for number in 0..1_000 {
            count(&mut candidates, 6_000, number, number * MS / 10);
        }
        for number in 0..LEAST_PACKETS - 1 {
            count(&mut candidates, 7_000, number, number * 200 * MS);
        }
        let found = candidates.found(0.5);
        assert_eq!((ports(&found), found.forgotten), (vec![5_004, 6_000], 0));
    }
}
