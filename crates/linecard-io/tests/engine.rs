//! Workers over rings: nothing lost, every flow on one worker, the same output whatever the
//! deployment, and threads that end when they are asked to, or when another fails.

use linecard::offload::coalesce::Config as Merging;
use linecard::packet::checksum::Sum;
use linecard::packet::{Batch, FlowHasher, LinkType, Meta, Packet};
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Forward};
use linecard::time::Instant;
use linecard_io::engine::{
    Config, Engine, Failure, Gather, Idle, Join, OnFull, Order, Spread, dedicated, inline, shared,
};
use linecard_io::port::LivePort;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FLOWS: u16 = 64;
/// Packets of a flow that come in a row.
const RUN: usize = 4;

/// UDP datagrams of many flows, numbered within their flow.
#[derive(Clone, Default)]
struct Source {
    /// The current flows, of this many in all.
    flows: Vec<u16>,
    left: usize,
    sent: usize,
    /// The same, for others to see.
    seen: Arc<AtomicUsize>,
}

impl Source {
    fn new(flows: impl IntoIterator<Item = u16>, packets: usize) -> Self {
        Self { flows: flows.into_iter().collect(), left: packets, ..Self::default() }
    }
}

impl Source {
    fn receive(&mut self, batch: &mut Batch<Vec<u8>>, now: Instant) -> PortState {
        while batch.room() > 0 && self.left > 0 {
            let turn = self.sent / RUN;
            let flow = self.flows[turn % self.flows.len()];
            let number = turn / self.flows.len() * RUN + self.sent % RUN;
            let meta = Meta { timestamp: now, ..Meta::default() };
            let packet = Packet::new(datagram(flow, number), LinkType::Raw, meta);
            batch.push(packet).expect("room");
            self.sent += 1;
            self.left -= 1;
        }
        self.seen.store(self.sent, Ordering::Relaxed);
        if self.left == 0 { PortState::Ended } else { PortState::Open }
    }
}

/// From a port of each flow's own, without checksum.
fn datagram(flow: u16, number: usize) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    let checksum = Sum::of(&bytes).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([(1_000 + flow).to_be_bytes(), [0, 9], [0, 16], [0, 0]].concat());
    bytes.extend((number as u64).to_be_bytes());
    bytes
}

/// Numbers by flow.
type Flows = BTreeMap<u16, Vec<u64>>;
/// Hashes of flows.
type Seen = BTreeSet<Option<u64>>;

/// The output of all threads.
#[derive(Default)]
struct Left {
    /// Packets that each port has sent, and received ones, by flow.
    near: (usize, Flows),
    far: (usize, Flows),
    /// The flows of each worker.
    seen: Vec<Seen>,
    /// Packets dropped before workers' rings.
    dropped: Vec<u64>,
}

type Record = Arc<Mutex<Left>>;

/// A port that returns the packets of its source, if it has one, and records received ones.
struct End {
    is_near: bool,
    source: Option<Source>,
    flows: Flows,
    packets: usize,
    /// Takes this many packets, and then no more.
    limit: Option<usize>,
    /// Takes so long for each packet.
    pace: Duration,
    record: Record,
}

impl Port<Vec<u8>> for End {
    fn receive(&mut self, batch: &mut Batch<Vec<u8>>, now: Instant) -> PortState {
        self.source.as_mut().map_or(PortState::Open, |source| source.receive(batch, now))
    }

    fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) {
        while self.limit.is_none_or(|limit| self.packets < limit) {
            let Some(packet) = batch.pop() else { return };
            std::thread::sleep(self.pace);
            self.packets += 1;
            let header = packet.header();
            let flow = u16::from_be_bytes([header[20], header[21]]) - 1_000;
            let numbers = packet.payload().collect::<Vec<_>>().concat();
            let numbers = numbers.as_chunks().0.iter().map(|number| u64::from_be_bytes(*number));
            self.flows.entry(flow).or_default().extend(numbers);
        }
    }
}

impl LivePort<Vec<u8>> for End {}

impl Drop for End {
    fn drop(&mut self) {
        let mut left = self.record.lock().expect("nobody panics with it");
        let (sent, came) = if self.is_near { &mut left.near } else { &mut left.far };
        *sent += self.source.as_ref().map_or(0, |source| source.sent);
        for (flow, numbers) in std::mem::take(&mut self.flows) {
            let twice = came.insert(flow, numbers).is_some();
            assert!(!twice || std::thread::panicking(), "flow {flow} on two workers");
        }
    }
}

/// Merges, and remembers the flows it has seen.
struct Worker {
    merge: Coalesce<Vec<u8>>,
    hasher: FlowHasher,
    seen: Seen,
    /// Panics with this packet.
    last: Option<usize>,
    record: Record,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        self.record.lock().expect("nobody panics with it").seen.push(seen);
    }
}

impl Stage<Vec<u8>> for Worker {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn process(&mut self, input: &mut Batch<Vec<u8>>, now: Instant, output: &mut Batch<Vec<u8>>) {
        for packet in input.iter() {
            self.seen.insert(self.hasher.flow(packet));
            if let Some(last) = &mut self.last {
                *last = last.checked_sub(1).expect("as the test wants it");
            }
        }
        self.merge.process(input, now, output);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.merge.next_wakeup()
    }

    fn stop(&mut self) {
        self.merge.stop();
    }

    fn held(&self) -> usize {
        self.merge.held()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.merge.counters(visit);
    }
}

/// Two ends, joined.
#[derive(Clone)]
struct Joined {
    /// The flows of the near port, for each worker that has one.
    near: Vec<Source>,
    far: Option<Source>,
    /// Packets that the far port takes.
    limit: Option<usize>,
    /// How long the far port takes for each packet.
    pace: Duration,
    /// With this packet worker 0 panics.
    last: Option<usize>,
    record: Record,
}

impl Joined {
    fn new(near: Source) -> Self {
        let record = Record::default();
        Self { near: vec![near], far: None, limit: None, pace: Duration::ZERO, last: None, record }
    }

    fn end(&self, source: Option<Source>, is_near: bool) -> Box<dyn LivePort<Vec<u8>>> {
        let limit = self.limit.filter(|_| !is_near);
        let pace = if is_near { Duration::ZERO } else { self.pace };
        let record = Arc::clone(&self.record);
        Box::new(End { is_near, source, flows: Flows::new(), packets: 0, limit, pace, record })
    }

    /// Runs until the threads have ended.
    fn run(self, deploy: Deploy, config: &Config) -> (Vec<Result<(), Failure>>, Left) {
        let record = Arc::clone(&self.record);
        let results = deploy(config, &Arc::new(self)).expect("threads start").join();
        (results, take(&record))
    }
}

type Deploy = fn(&Config, &Arc<Joined>) -> Result<Engine<()>, Failure>;

fn take(record: &Record) -> Left {
    std::mem::take(&mut record.lock().expect("nobody panics with it"))
}

impl Join<Vec<u8>> for Joined {
    fn near(&self, worker: usize) -> Option<Box<dyn LivePort<Vec<u8>>>> {
        Some(self.end(self.near.get(worker).cloned(), true))
    }

    fn far(&self, _: usize) -> Option<Box<dyn LivePort<Vec<u8>>>> {
        Some(self.end(self.far.clone(), false))
    }

    fn ingress(&self, worker: usize) -> Box<dyn Stage<Vec<u8>>> {
        let merge = Coalesce::new(Merging { flush_at_batch_end: true, ..Merging::default() });
        let last = self.last.filter(|_| worker == 0);
        let (hasher, record) = (FlowHasher::new(1), Arc::clone(&self.record));
        Box::new(Worker { merge, hasher, seen: Seen::new(), last, record })
    }

    fn egress(&self, _: usize) -> Box<dyn Stage<Vec<u8>>> {
        Box::new(Forward::default())
    }

    fn spread(&self, spread: Spread<Vec<u8>>) -> Box<dyn Port<Vec<u8>>> {
        Box::new(Counted(spread, Arc::clone(&self.record)))
    }

    fn gather(&self, gather: Gather<Vec<u8>>) -> Box<dyn Port<Vec<u8>>> {
        Box::new(gather)
    }
}

/// Leaves what it has dropped.
struct Counted(Spread<Vec<u8>>, Record);

impl Port<Vec<u8>> for Counted {
    fn receive(&mut self, batch: &mut Batch<Vec<u8>>, now: Instant) -> PortState {
        self.0.receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, now: Instant) {
        self.0.transmit(batch, now);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let dropped = self.0.counters().dropped.clone();
        self.1.lock().expect("nobody panics with it").dropped = dropped;
    }
}

/// Waits until each flow has begun, and been there again.
fn wait_for_all_flows(sent: &AtomicUsize) {
    while sent.load(Ordering::Relaxed) < 2 * RUN * usize::from(FLOWS) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn expect_all(flows: &Flows, packets: usize) {
    assert_eq!(flows.len(), usize::from(FLOWS));
    expect_in_order(flows, packets);
}

fn expect_in_order(flows: &Flows, packets: usize) {
    assert_eq!(flows.values().map(Vec::len).sum::<usize>(), packets);
    for (flow, numbers) in flows {
        let in_order = numbers.iter().copied().eq(0..numbers.len() as u64);
        assert!(in_order, "flow {flow}: lost, doubled or out of order");
    }
}

fn none_fails(results: Vec<Result<(), Failure>>) {
    results.into_iter().for_each(|result| result.expect("no thread fails"));
}

const PACKETS: usize = 64 * 4 * 50;

/// Full rings are waited for, also where others have the processors for seconds.
fn patient() -> Config {
    Config { on_full: OnFull::Wait, grace: Duration::from_secs(120), ..Config::default() }
}

/// Promise (Live interfaces): Workers lose nothing, keep the order within each flow and share no
/// flow: 12,800 packets of 64 flows in 27 combinations of 1 to 3 workers, deployments and idle
/// policies.
#[test]
fn all_deployments_deliver_all_in_order_and_keep_flows_apart() {
    for idle in [Idle::Yield, Idle::Sleep(Duration::from_micros(50)), Idle::Interrupt] {
        for workers in [1, 2, 3] {
            let config = Config { workers, idle, ..patient() };
            let all = Joined::new(Source::new(0..FLOWS, PACKETS));
            for deploy in [shared as Deploy, dedicated] {
                let joined = Joined { record: Record::default(), ..all.clone() };
                let (results, left) = joined.run(deploy, &config);
                none_fails(results);
                expect_all(&left.far.1, PACKETS);
                assert_eq!(left.dropped, vec![0; usize::from(workers)]);
                expect_apart(&left.seen, workers);
            }
        }
    }
}

fn expect_apart(seen: &[Seen], workers: u16) {
    assert_eq!(seen.len(), usize::from(workers));
    let all: usize = seen.iter().map(BTreeSet::len).sum();
    assert_eq!(all, usize::from(FLOWS), "a flow visited two workers");
    assert!(seen.iter().all(|seen| !seen.is_empty()), "a worker had nothing to do");
}

/// Each worker has ports of its own. The first that ends stops all, and nothing sent is lost.
#[test]
fn workers_with_ports_of_their_own_deliver_all_that_was_sent() {
    for workers in [1, 2, 3] {
        let config = Config { workers, ..patient() };
        let of_worker = |worker: u16| {
            let flows = (0..FLOWS).filter(move |flow| flow % workers == worker);
            Source::new(flows, if worker == 0 { PACKETS } else { usize::MAX })
        };
        let near = (0..workers).map(of_worker).collect();
        let joined = Joined { near, ..Joined::new(Source::default()) };
        let (results, left) = joined.run(inline, &config);
        none_fails(results);
        // On a busy machine some may have begun only when all was over.
        expect_in_order(&left.far.1, left.near.0);
        assert!(left.near.0 >= PACKETS);
        let seen: usize = left.seen.iter().map(BTreeSet::len).sum();
        assert_eq!(seen, left.far.1.len(), "a flow visited two workers");
    }
}

/// Both ways at once: when one ends, packets of the other come out too.
#[test]
fn both_ways_deliver_all_and_end_together() {
    for idle in [Idle::Yield, Idle::Interrupt] {
        let config = Config { workers: 2, idle, ..patient() };
        for (deploy, near, far) in [
            (shared as Deploy, PACKETS, usize::MAX),
            (shared, usize::MAX, PACKETS),
            (dedicated, PACKETS, usize::MAX),
            (dedicated, usize::MAX, PACKETS),
        ] {
            let source = Some(Source::new(0..FLOWS, far));
            let joined = Joined { far: source, ..Joined::new(Source::new(0..FLOWS, near)) };
            let (results, left) = joined.run(deploy, &config);
            none_fails(results);
            expect_all(&left.far.1, left.near.0);
            expect_all(&left.near.1, left.far.0);
            assert!(left.near.0 == near || left.far.0 == far, "neither has ended");
        }
    }
}

#[test]
fn other_orders_of_output_lose_nothing() {
    for order in [Order::RoundRobin, Order::Fifo, Order::Stack] {
        let config = Config { workers: 3, order, ..patient() };
        let (_, left) = Joined::new(Source::new(0..FLOWS, PACKETS)).run(shared, &config);
        let flows = left.far.1;
        assert_eq!(flows.values().map(Vec::len).sum::<usize>(), PACKETS, "{order:?}");
        // A stack turns the packets of a worker around.
        if order != Order::Stack {
            expect_all(&flows, PACKETS);
        }
    }
}

/// A source without end is stopped, and packets on their way come out.
#[test]
fn stops_when_asked_to_and_lets_go_what_is_held() {
    let config = Config { workers: 2, ..patient() };
    let source = Source::new(0..FLOWS, usize::MAX);
    let sent = Arc::clone(&source.seen);
    let joined = Joined::new(source);
    let record = Arc::clone(&joined.record);
    let engine = dedicated(&config, &Arc::new(joined)).expect("threads start");
    wait_for_all_flows(&sent);
    assert!(!engine.has_ended());
    engine.stop();
    none_fails(engine.join());
    let left = take(&record);
    expect_all(&left.far.1, left.near.0);
}

/// A slow receiver that makes progress is waited for until it has everything.
#[test]
fn a_slow_reader_gets_all_of_it() {
    // Each turn of the port is far shorter than the time without progress after which it is abandoned, and all of them
    // are longer.
    let grace = Duration::from_secs(2);
    let config = Config { ring_capacity: 64, batch: 8, grace, ..patient() };
    let pace = Duration::from_millis(40);
    let source = Source::new(0..FLOWS, usize::MAX);
    let sent = Arc::clone(&source.seen);
    let joined = Joined { pace, ..Joined::new(source) };
    let record = Arc::clone(&joined.record);
    let engine = dedicated(&config, &Arc::new(joined)).expect("threads start");
    wait_for_all_flows(&sent);
    let start = std::time::Instant::now();
    engine.stop();
    none_fails(engine.join());
    assert!(start.elapsed() > grace, "{:?}", start.elapsed());
    let left = take(&record);
    expect_all(&left.far.1, left.near.0);
}

/// Promise (Live interfaces): Output that nobody takes is abandoned one second after the last
/// packet was taken, so no thread hangs.
///
/// Packets for which a slow reader leaves no room are dropped at the ring of its worker, and counted; a worker that
/// waits for it gives up when all are to stop.
#[test]
fn a_reader_that_stops_costs_packets_and_never_hangs() {
    for deploy in [inline as Deploy, shared, dedicated] {
        let config = Config { workers: 2, ring_capacity: 64, ..Config::default() };
        let source = Source::new(0..FLOWS, PACKETS);
        let joined = Joined { limit: Some(10), ..Joined::new(source) };
        let record = Arc::clone(&joined.record);
        let engine = deploy(&config, &Arc::new(joined)).expect("threads start");
        std::thread::sleep(Duration::from_millis(100));
        engine.stop();
        let start = std::time::Instant::now();
        none_fails(engine.join());
        assert!(start.elapsed() < Duration::from_secs(10));
        let left = take(&record);
        assert!(left.far.1.values().map(Vec::len).sum::<usize>() < PACKETS);
    }
}

#[test]
fn a_worker_that_panics_is_reported_and_the_others_go_on() {
    let config = Config { workers: 2, ..Config::default() };
    let joined = Joined { last: Some(100), ..Joined::new(Source::new(0..FLOWS, PACKETS)) };
    let (results, left) = joined.run(shared, &config);
    let [Err(failure), Ok(()), Ok(())] = &results[..] else { panic!("{results:?}") };
    let text = failure.to_string();
    assert!(text.starts_with("thread worker 0 panicked: as the test wants it"), "{text}");
    // The other worker's flows came whole, but for what its ring had no room for.
    let came: usize = left.far.1.values().map(Vec::len).sum();
    assert!(left.dropped[0] > 0 && came > 0);
    assert!(left.seen.iter().all(|seen| !seen.is_empty()));
}

/// A port that cannot be opened ends all threads, and is not a panic.
#[test]
fn a_port_that_is_not_there_ends_all() {
    struct Nothing(Joined);
    impl Join<Vec<u8>> for Nothing {
        fn near(&self, worker: usize) -> Option<Box<dyn LivePort<Vec<u8>>>> {
            self.0.near(worker).filter(|_| worker > 0)
        }
        fn far(&self, worker: usize) -> Option<Box<dyn LivePort<Vec<u8>>>> {
            self.0.far(worker)
        }
        fn ingress(&self, worker: usize) -> Box<dyn Stage<Vec<u8>>> {
            self.0.ingress(worker)
        }
        fn egress(&self, worker: usize) -> Box<dyn Stage<Vec<u8>>> {
            self.0.egress(worker)
        }
    }
    let config = Config { workers: 2, idle: Idle::Interrupt, ..Config::default() };
    let join = || Arc::new(Nothing(Joined::new(Source::new(0..FLOWS, usize::MAX))));
    none_fails(inline(&config, &join()).expect("threads start").join());
    none_fails(shared(&config, &join()).expect("threads start").join());
    none_fails(dedicated(&config, &join()).expect("threads start").join());
}

#[test]
fn a_core_that_is_not_there_is_an_error_with_its_number() {
    for core in [1_000, usize::MAX] {
        let config = Config { cores: vec![core], ..Config::default() };
        let (mut results, _) = Joined::new(Source::new(0..1, 1)).run(inline, &config);
        let text = results.remove(0).expect_err("no such core").to_string();
        assert!(text.contains(&format!("cannot be pinned to core {core}")), "{text}");
    }
}

#[test]
fn threads_are_pinned() {
    let config = Config { cores: vec![0], ..patient() };
    let (_, left) = Joined::new(Source::new(0..FLOWS, PACKETS)).run(shared, &config);
    expect_all(&left.far.1, PACKETS);
}
