//! The full path in memory: applications' large sends → LSO → lanes → LRO → verification of every
//! byte.
//!
//! Each lane has its own pipelines, buffers and flows, and shares nothing with the others. All of
//! them run in turn on the calling thread, so the measured work is that of one core.

use crate::port::Buffer;
use crate::workload::{Application, Family, Verify, VerifyCounters, Workload};
use linecard::offload::{coalesce, segment};
use linecard::packet::{LinkType, Pool};
use linecard::pipeline::{Meter, Part, Pipeline, Turn};
use linecard::port::{Fault, FaultCounters, FaultRates, Lane, LaneCounters, Memory, link};
use linecard::progress::Progress;
use linecard::stages::{Coalesce, Segment};
use linecard::time::Instant;
use std::time::Duration;

/// Packets in transit per lane: four batches.
const LANE_CAPACITY: usize = 256;
/// Large packets in transit per lane: a batch, one being segmented, and some spare.
const LARGE_BUFFERS: usize = 96;
/// Bytes of buffers for packets that coalescers hold, in all lanes together.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// Total number of flows, which send in turn. At least 1.
    pub flows: usize,
    /// Parallel lanes over which flows are spread. At least 1.
    pub lanes: usize,
    /// Largest IP packet on a lane, in bytes.
    pub mtu: usize,
    /// Bytes of one send of an application. At least 1.
    pub send_len: usize,
    /// IP version.
    pub family: Family,
    /// How long applications send.
    pub duration: Duration,
    /// Loss, reordering and corruption on the lanes.
    pub faults: FaultRates,
    /// The receiving offload.
    pub coalesce: coalesce::Config,
    /// Seed of data and faults.
    pub seed: u64,
}

/// Time spent per part, in the order of the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Applications writing their data.
    pub application: Duration,
    /// Segmenting, copying and checksumming.
    pub segment: Duration,
    /// Transmitting to and receiving from the lanes.
    pub lanes: Duration,
    /// Parsing, verifying checksums, merging.
    pub coalesce: Duration,
    /// Comparing every byte with what was sent.
    pub verify: Duration,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOutcome {
    /// Payload bytes that applications sent.
    pub sent: u64,
    /// Time from the first send to the last byte verified.
    pub elapsed: Duration,
    /// Time per part.
    pub times: Times,
    /// Counters of the segmenters.
    pub segment: segment::Counters,
    /// Counters of each lane.
    pub lanes: Vec<LaneCounters>,
    /// Faults injected on the lanes.
    pub faults: FaultCounters,
    /// Counters of the coalescers.
    pub coalesce: coalesce::Counters,
    /// Counters of the verification.
    pub verify: VerifyCounters,
}

impl RunOutcome {
    /// Whether every byte sent was verified and in order, or was lost, corrupted or reordered by an
    /// injected fault.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let accounted = self.verify.good + self.faults.lost_payload + self.corrupted_payload();
        let in_order = self.verify.late == 0 || self.faults.reordered > 0;
        self.verify.bad == 0 && accounted == self.sent && in_order
    }

    /// Bytes in packets that failed their checksum, as corrupted ones must; others fail only
    /// because of a bug.
    fn corrupted_payload(&self) -> u64 {
        if self.verify.bad_checksum == self.faults.corrupted { self.verify.rejected } else { 0 }
    }
}

/// Runs for the given duration, until everything sent has arrived.
#[must_use]
pub fn run(spec: &RunSpec) -> RunOutcome {
    run_with_progress(spec, &Progress::new())
}

/// [`run`] with progress in nanoseconds; on cancellation it stops sending, and ends when everything
/// has arrived.
#[must_use]
pub fn run_with_progress(spec: &RunSpec, progress: &Progress) -> RunOutcome {
    progress.expect(spec.duration.as_nanos() as usize);
    let mut ways: Vec<Way> = (0..spec.lanes).map(|lane| Way::new(spec, lane)).collect();
    let mut clock = Stopwatch::start();
    let mut sending = true;
    while ways.iter().any(|way| !way.ended) {
        let elapsed = clock.elapsed();
        progress.reach(elapsed.as_nanos() as usize);
        if sending && (elapsed >= spec.duration || progress.is_stopped()) {
            sending = false;
            ways.iter_mut().for_each(Way::stop);
        }
        for way in ways.iter_mut().filter(|way| !way.ended) {
            way.turn(&mut clock);
        }
    }
    let mut outcome = RunOutcome { elapsed: clock.elapsed(), ..RunOutcome::default() };
    ways.iter().for_each(|way| way.add_to(&mut outcome));
    outcome.times = clock.times;
    outcome
}

type Wire = Lane<Fault<Buffer, Memory<Buffer>>>;

/// The path of one lane's data, from its applications to its verifier.
struct Way {
    send: Pipeline<Buffer, Application, Segment<Buffer>, Wire>,
    receive: Pipeline<Buffer, Lane<Memory<Buffer>>, Coalesce<Buffer>, Verify>,
    sent_all: bool,
    ended: bool,
}

impl Way {
    fn new(spec: &RunSpec, lane: usize) -> Self {
        let workload = Workload {
            flows: (spec.flows.saturating_sub(lane)).div_ceil(spec.lanes),
            first_flow: lane,
            flow_step: spec.lanes,
            send_len: spec.send_len,
            mtu: spec.mtu,
            family: spec.family,
            seed: spec.seed,
        };
        let frame = spec.mtu + LINK_HEADER;
        let per_send = workload.packet_len().div_ceil(workload.segment_size().max(1)) + 1;
        let budget = MAX_HELD_BYTES / spec.lanes / frame;
        let held = (workload.flows * per_send).min(budget).max(per_send);
        let large = Pool::new(LARGE_BUFFERS, workload.packet_len());
        // Enough that the coalescer's own limit is reached first and the segmenter never waits for
        // it.
        let small = Pool::new(held + 2 * per_send + 2 * LANE_CAPACITY, frame);
        let (near, far) = link(LANE_CAPACITY);
        let seed = spec.seed.wrapping_add(lane as u64);
        let id = lane as u32;
        let wire = Lane::new(id, Fault::new(near, spec.faults, seed));
        let config = coalesce::Config { max_held_packets: held, ..spec.coalesce.clone() };
        let segment = Segment::new(LinkType::Ethernet, small);
        let verify = Verify::new(&workload);
        Self {
            send: Pipeline::new(Application::new(workload, large), segment, wire),
            receive: Pipeline::new(Lane::new(id, far), Coalesce::new(config), verify),
            sent_all: false,
            ended: false,
        }
    }

    fn stop(&mut self) {
        self.send.source.stop();
    }

    fn turn(&mut self, clock: &mut Stopwatch) {
        let now = clock.now();
        if !self.sent_all {
            let turn = self.send.run_once(now, &mut Sending(clock));
            self.sent_all = turn.ended && self.send.sink.port.held() == 0;
        }
        let Turn { moved, .. } = self.receive.run_once(now, &mut Receiving(clock));
        if self.sent_all && moved == 0 {
            self.receive.stop();
        }
        self.ended = self.sent_all && moved == 0 && self.receive.is_empty();
    }

    fn add_to(&self, outcome: &mut RunOutcome) {
        outcome.sent += self.send.source.sent();
        outcome.segment.add(self.send.stage.offload_counters());
        let mut lane = self.send.sink.counters();
        lane.received = self.receive.source.counters().received;
        outcome.lanes.push(lane);
        outcome.faults.add(&self.send.sink.port.counters());
        outcome.coalesce.add(self.receive.stage.offload_counters());
        outcome.verify.add(&self.receive.sink.counters());
    }
}

/// An Ethernet header.
const LINK_HEADER: usize = 14;

/// The clock of a run, and the time spent per part.
struct Stopwatch {
    started: std::time::Instant,
    last: std::time::Instant,
    times: Times,
}

impl Stopwatch {
    fn start() -> Self {
        let now = std::time::Instant::now();
        Self { started: now, last: now, times: Times::default() }
    }

    fn elapsed(&self) -> Duration {
        self.last.duration_since(self.started)
    }

    /// Nanoseconds since the start, as stages see them.
    fn now(&self) -> Instant {
        Instant::ZERO.plus(self.elapsed())
    }

    fn lap(&mut self) -> Duration {
        let now = std::time::Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }
}

struct Sending<'c>(&'c mut Stopwatch);
struct Receiving<'c>(&'c mut Stopwatch);

impl Meter for Sending<'_> {
    fn lap(&mut self, part: Part, _packets: usize) {
        let lap = self.0.lap();
        match part {
            Part::Source => self.0.times.application += lap,
            Part::Stage => self.0.times.segment += lap,
            Part::Sink => self.0.times.lanes += lap,
        }
    }
}

impl Meter for Receiving<'_> {
    fn lap(&mut self, part: Part, _packets: usize) {
        let lap = self.0.lap();
        match part {
            Part::Source => self.0.times.lanes += lap,
            Part::Stage => self.0.times.coalesce += lap,
            Part::Sink => self.0.times.verify += lap,
        }
    }
}
