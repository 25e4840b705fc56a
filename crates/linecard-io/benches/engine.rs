//! Workers on memory ports: the speed-up by a second core.
//!
//! Each worker has a source of its own, as a queue of an adapter that spreads flows by their hash:
//! 64 TCP connections in runs of 16 segments of 1,448 bytes, checksums right. The same connections and
//! segments are merged by one worker and by two, in turns; every byte has to come out in its
//! connection's order, on one worker.
//!
//! `cargo bench -p linecard-io --bench engine [-- --rounds N]`; without `--bench` it runs once, small.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use linecard::offload::coalesce::Config as Merging;
use linecard::packet::checksum::Sum;
use linecard::packet::{Batch, ChecksumState, LinkType, Meta, Packet, Pool, PoolBuffer, Toeplitz};
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Forward};
use linecard::time::Instant;
use linecard_io::engine::{Config, Idle, Join, Steering, inline};
use linecard_io::port::LivePort;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant as Clock;

const FLOWS: u16 = 64;
/// Segments of a connection that come in a row.
const RUN: u32 = 16;
const PAYLOAD: usize = 1_448;
const HEADER: usize = 40;
const LEN: usize = HEADER + PAYLOAD;

/// Header of the first segment of a connection.
fn header(flow: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..12].copy_from_slice(&[
        0x45,
        0,
        (LEN >> 8) as u8,
        LEN as u8,
        0,
        0,
        0x40,
        0,
        64,
        6,
        0,
        0,
    ]);
    header[12..20].copy_from_slice(&[10, 1, 0, 1, 10, 1, 0, 2]);
    header[20..22].copy_from_slice(&(10_000 + flow).to_be_bytes());
    header[22..24].copy_from_slice(&443_u16.to_be_bytes());
    header[32..36].copy_from_slice(&[0x50, 0x10, 0x10, 0]);
    header
}

/// The connections of one worker.
struct Source {
    pool: Pool,
    headers: Vec<[u8; HEADER]>,
    /// The current connection, and segments sent in its turn.
    turn: (usize, u32),
    /// Segments sent by each connection before this round of turns.
    round: u32,
    segments: u32,
    /// The state of checksums that the adapter reports.
    checksum: ChecksumState,
}

impl Source {
    fn segment(&mut self) -> Option<PoolBuffer> {
        if self.round >= self.segments {
            return None;
        }
        let mut buffer = self.pool.take()?;
        let (flow, number) = self.turn;
        let header = &mut self.headers[flow];
        let number_in_all = self.round + number;
        header[4..6].copy_from_slice(&(number_in_all as u16).to_be_bytes());
        header[24..28].copy_from_slice(&number_in_all.wrapping_mul(PAYLOAD as u32).to_be_bytes());
        (header[10], header[11], header[36], header[37]) = (0, 0, 0, 0);
        let ip = Sum::of(&header[..20]).checksum().to_be_bytes();
        header[10..12].copy_from_slice(&ip);
        // All payload is zeros; the pseudo header is addresses, protocol and length.
        let pseudo = [0, 6, ((LEN - 20) >> 8) as u8, (LEN - 20) as u8];
        let tcp = Sum::of(&header[12..]).plus(Sum::of(&pseudo)).checksum().to_be_bytes();
        header[36..38].copy_from_slice(&tcp);
        buffer.as_mut()[..HEADER].copy_from_slice(header);
        self.turn = match (flow + 1 == self.headers.len(), number + 1 == RUN) {
            (_, false) => (flow, number + 1),
            (false, true) => (flow + 1, 0),
            (true, true) => {
                self.round += RUN;
                (0, 0)
            }
        };
        Some(buffer)
    }
}

impl Port<PoolBuffer> for Source {
    fn receive(&mut self, batch: &mut Batch<PoolBuffer>, now: Instant) -> PortState {
        while batch.room() > 0
            && let Some(buffer) = self.segment()
        {
            let meta = Meta { timestamp: now, checksum: self.checksum, ..Meta::default() };
            let _room = batch.push(Packet::new(buffer, LinkType::Raw, meta));
        }
        // The engine is stopped when all is there: the first source that ends would stop the others.
        PortState::Open
    }

    fn transmit(&mut self, batch: &mut Batch<PoolBuffer>, _: Instant) {
        batch.drain().for_each(drop);
    }
}

impl LivePort<PoolBuffer> for Source {}

/// Bytes that have come, by connection.
type Came = BTreeMap<u16, u64>;
/// The same of a worker, its packets, and when the last of them came.
type Done = (Came, u64, Clock);

/// Takes everything, and looks at where it belongs.
struct Sink {
    came: Came,
    packets: u64,
    wanted: u64,
    done: Arc<Mutex<Vec<Done>>>,
}

impl Port<PoolBuffer> for Sink {
    fn receive(&mut self, _: &mut Batch<PoolBuffer>, _: Instant) -> PortState {
        PortState::Open
    }

    fn transmit(&mut self, batch: &mut Batch<PoolBuffer>, _: Instant) {
        for packet in batch.drain() {
            let header = packet.header();
            let flow = u16::from_be_bytes([header[20], header[21]]) - 10_000;
            let sequence = u32::from_be_bytes([header[24], header[25], header[26], header[27]]);
            let bytes = self.came.entry(flow).or_default();
            assert_eq!(sequence, *bytes as u32, "connection {flow}: lost or out of order");
            *bytes += packet.payload_len() as u64;
            self.packets += 1;
            self.wanted -= packet.payload_len() as u64;
        }
        if self.wanted == 0 {
            self.wanted = u64::MAX;
            let came = (std::mem::take(&mut self.came), self.packets, Clock::now());
            self.done.lock().expect("nobody panics with it").push(came);
        }
    }
}

impl LivePort<PoolBuffer> for Sink {}

struct Work {
    workers: u16,
    segments: u32,
    checksum: ChecksumState,
    done: Arc<Mutex<Vec<Done>>>,
}

impl Work {
    /// The connections that an adapter gives to a worker.
    fn flows(&self, worker: usize) -> Vec<u16> {
        let steering = Steering::new(self.workers, &Toeplitz::SYMMETRIC);
        let is_its = |flow: &u16| {
            let mut whole = vec![0; LEN];
            whole[..HEADER].copy_from_slice(&header(*flow));
            let packet = Packet::new(whole, LinkType::Raw, Meta::default());
            steering.worker(&packet) == worker
        };
        (0..FLOWS).filter(is_its).collect()
    }
}

impl Join<PoolBuffer> for Work {
    fn near(&self, worker: usize) -> Option<Box<dyn LivePort<PoolBuffer>>> {
        let headers = self.flows(worker).into_iter().map(header).collect();
        let (pool, segments, checksum) = (Pool::new(4_096, LEN), self.segments, self.checksum);
        Some(Box::new(Source { pool, headers, turn: (0, 0), round: 0, segments, checksum }))
    }

    fn far(&self, worker: usize) -> Option<Box<dyn LivePort<PoolBuffer>>> {
        let wanted = self.flows(worker).len() as u64 * u64::from(self.segments) * PAYLOAD as u64;
        let done = Arc::clone(&self.done);
        Some(Box::new(Sink { came: Came::new(), packets: 0, wanted, done }))
    }

    fn ingress(&self, _: usize) -> Box<dyn Stage<PoolBuffer>> {
        Box::new(Coalesce::new(Merging::default()))
    }

    fn egress(&self, _: usize) -> Box<dyn Stage<PoolBuffer>> {
        Box::new(Forward::default())
    }
}

/// Nanoseconds a segment of all workers together, and the mean aggregate.
fn once(workers: u16, segments: u32, checksum: ChecksumState) -> (f64, f64) {
    let done = Arc::default();
    let work = Arc::new(Work { workers, segments, checksum, done: Arc::clone(&done) });
    let cores = (0..usize::from(workers)).collect();
    let config = Config { workers, cores, idle: Idle::Spin, ..Config::default() };
    let start = Clock::now();
    let engine = inline(&config, &work).expect("threads start");
    while done.lock().expect("nobody panics with it").len() < workers.into() {
        assert!(!engine.has_ended(), "a worker failed");
        // Rarely: the cores are the workers'.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    engine.stop();
    engine.join().into_iter().for_each(|result| result.expect("no worker fails"));
    let total = u64::from(segments) * u64::from(FLOWS);
    let (mut came, mut packets, mut rate) = (Came::new(), 0, 0.0);
    for (flows, count, at) in done.lock().expect("nobody panics with it").drain(..) {
        packets += count;
        // Each by its own time: that one core was disturbed says nothing of the other.
        rate += f64::from(segments) * flows.len() as f64 / (at - start).as_nanos() as f64;
        for (flow, bytes) in flows {
            assert!(came.insert(flow, bytes).is_none(), "connection {flow} on two workers");
        }
    }
    let each = u64::from(segments) * PAYLOAD as u64;
    assert!(came.len() == usize::from(FLOWS) && came.values().all(|bytes| *bytes == each));
    (1.0 / rate, total as f64 / packets as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let rounds = arguments.iter().position(|argument| argument == "--rounds");
    let rounds = rounds.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(11_usize);
    let (rounds, segments) = if is_bench { (rounds.max(1), 64 * RUN * 80) } else { (1, 4 * RUN) };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = if cores < 2 { 1 } else { 2 };
    for (name, checksum) in
        [("verified here", ChecksumState::Unknown), ("vouched for", ChecksumState::Valid)]
    {
        let (mut one, mut two, mut ratio, mut aggregate) = (vec![], vec![], vec![], 0.0);
        for _ in 0..rounds {
            let (alone, _) = once(1, segments, checksum);
            let (both, merged) = once(most, segments, checksum);
            one.push(alone);
            two.push(both);
            ratio.push(alone / both);
            aggregate = merged;
        }
        println!(
            "checksums {name}: 1 worker {:.1} ns a segment, {most} workers {:.1}: {:.2} times \
             (medians of {rounds}; {aggregate:.1} segments a packet)",
            median(&mut one),
            median(&mut two),
            median(&mut ratio)
        );
    }
}
