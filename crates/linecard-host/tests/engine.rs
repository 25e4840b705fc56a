//! Workers over rings: nothing lost, every flow on one worker, the same output whatever the
//! deployment, and threads that end when they are asked to, or when another fails.

use linecard::offload::coalesce::Config as Merging;
use linecard::packet::checksum::Sum;
use linecard::packet::{Batch, FlowHasher, LinkType, Meta, Packet};
use linecard::pipeline::Pipeline;
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Forward};
use linecard::time::Instant;
use linecard_host::engine::{
    Config, Engine, Failure, Idle, OnFull, Order, Parts, Thread, dedicated, inline, shared,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const FLOWS: u16 = 64;
/// Packets of a flow that come in a row.
const RUN: usize = 4;

/// UDP datagrams of many flows, numbered within their flow.
struct Source {
    /// The flows whose turn it is, of this many in all.
    flows: Vec<u16>,
    left: usize,
    sent: usize,
}

impl Source {
    fn new(flows: impl IntoIterator<Item = u16>, packets: usize) -> Self {
        Self { flows: flows.into_iter().collect(), left: packets, sent: 0 }
    }
}

impl Port<Vec<u8>> for Source {
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
        if self.left == 0 { PortState::Ended } else { PortState::Open }
    }

    fn transmit(&mut self, _: &mut Batch<Vec<u8>>, _: Instant) {}
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

/// What came, by flow.
#[derive(Debug, Default)]
struct Sink {
    flows: Flows,
    packets: usize,
    /// Takes so many packets, and then no more.
    limit: Option<usize>,
}

impl Port<Vec<u8>> for Sink {
    fn receive(&mut self, _: &mut Batch<Vec<u8>>, _: Instant) -> PortState {
        PortState::Ended
    }

    fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) {
        while self.limit.is_none_or(|limit| self.packets < limit) {
            let Some(packet) = batch.pop() else { return };
            self.packets += 1;
            let header = packet.header();
            let flow = u16::from_be_bytes([header[20], header[21]]) - 1_000;
            let numbers = packet.payload().collect::<Vec<_>>().concat();
            let numbers = numbers.as_chunks().0.iter().map(|number| u64::from_be_bytes(*number));
            self.flows.entry(flow).or_default().extend(numbers);
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
}

impl Worker {
    fn new() -> Self {
        let merge = Coalesce::new(Merging { flush_at_batch_end: true, ..Merging::default() });
        Self { merge, hasher: FlowHasher::new(1), seen: BTreeSet::new(), last: None }
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

/// Numbers by flow.
type Flows = BTreeMap<u16, Vec<u64>>;
/// Hashes of flows.
type Seen = BTreeSet<Option<u64>>;
type Result<K> = core::result::Result<Parts<Source, Worker, K>, Failure>;

/// What all threads left: the sinks' packets by flow, and the flows of each worker.
fn outcome(results: Vec<Result<Sink>>) -> (Flows, Vec<Seen>) {
    let (mut flows, mut workers) = (Flows::new(), Vec::new());
    for result in results {
        match result.expect("no thread fails") {
            Parts::Whole(_, worker, sink) => {
                workers.push(worker.seen);
                for (flow, numbers) in sink.flows {
                    assert!(flows.insert(flow, numbers).is_none(), "flow {flow} on two workers");
                }
            }
            Parts::Worker(worker) => workers.push(worker.seen),
            Parts::Source(_, counters) => assert_eq!(counters.dropped.iter().sum::<u64>(), 0),
            Parts::Sink(sink, _) => flows = sink.flows,
            Parts::Ends((_, counters), (sink, _)) => {
                assert_eq!(counters.dropped.iter().sum::<u64>(), 0);
                flows = sink.flows;
            }
        }
    }
    (flows, workers)
}

fn expect_all(flows: &Flows, packets: usize) {
    assert_eq!(flows.len(), usize::from(FLOWS));
    assert_eq!(flows.values().map(Vec::len).sum::<usize>(), packets);
    for (flow, numbers) in flows {
        let in_order = numbers.iter().copied().eq(0..numbers.len() as u64);
        assert!(in_order, "flow {flow}: lost, doubled or out of order");
    }
}

const PACKETS: usize = 64 * 4 * 50;

#[test]
fn all_deployments_deliver_all_in_order_and_keep_flows_apart() {
    for idle in [Idle::Yield, Idle::Sleep(Duration::from_micros(50)), Idle::Interrupt] {
        for workers in [1, 2, 3] {
            let config = Config { workers, idle, on_full: OnFull::Wait, ..Config::default() };
            let ends = || (Source::new(0..FLOWS, PACKETS), Sink::default());
            let each = move |worker: usize| {
                let flows = (0..FLOWS)
                    .filter(move |flow| usize::from(*flow) % usize::from(workers) == worker);
                let count = flows.clone().count();
                let source = Source::new(flows, PACKETS / usize::from(FLOWS) * count);
                Pipeline::new(source, Worker::new(), Sink::default())
            };
            let engines = [
                inline(&config, each),
                shared(&config, ends(), |_| Worker::new()),
                dedicated(&config, ends(), |_| Worker::new()),
            ];
            for engine in engines {
                let (flows, seen) = outcome(engine.expect("threads start").join());
                expect_all(&flows, PACKETS);
                assert_eq!(seen.len(), usize::from(workers));
                let all: usize = seen.iter().map(BTreeSet::len).sum();
                assert_eq!(all, usize::from(FLOWS), "a flow visited two workers");
                assert!(seen.iter().all(|seen| !seen.is_empty()), "a worker had nothing to do");
            }
        }
    }
}

#[test]
fn other_orders_of_output_lose_nothing() {
    for order in [Order::RoundRobin, Order::Fifo, Order::Stack] {
        let config = Config { workers: 3, order, on_full: OnFull::Wait, ..Config::default() };
        let ends = (Source::new(0..FLOWS, PACKETS), Sink::default());
        let engine = shared(&config, ends, |_| Worker::new()).expect("threads start");
        let (flows, _) = outcome(engine.join());
        assert_eq!(flows.values().map(Vec::len).sum::<usize>(), PACKETS, "{order:?}");
        // A stack turns the packets of a worker around.
        if order != Order::Stack {
            expect_all(&flows, PACKETS);
        }
    }
}

/// A source without end is stopped, and what is on its way comes out.
#[test]
fn stops_when_asked_to_and_lets_go_what_is_held() {
    let config = Config { workers: 2, on_full: OnFull::Wait, ..Config::default() };
    let ends = (Source::new(0..FLOWS, usize::MAX), Sink::default());
    let engine = dedicated(&config, ends, |_| Worker::new()).expect("threads start");
    std::thread::sleep(Duration::from_millis(20));
    assert!(engine.is_running());
    engine.stop();
    let results = engine.join();
    let sent = results.iter().find_map(|result| match result {
        Ok(Parts::Source(source, _)) => Some(source.sent),
        _ => None,
    });
    let (flows, _) = outcome(results);
    expect_all(&flows, sent.expect("a source"));
}

/// What a slow reader leaves no room for is dropped at the ring of its worker, and counted.
#[test]
fn a_reader_that_stops_costs_packets_and_never_hangs() {
    let config = Config { workers: 2, ring_capacity: 64, ..Config::default() };
    let sink = Sink { limit: Some(10), ..Sink::default() };
    let ends = (Source::new(0..FLOWS, PACKETS), sink);
    let engine = dedicated(&config, ends, |_| Worker::new()).expect("threads start");
    // Receiving ends by itself; those behind it wait for a reader that will not come.
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        std::thread::yield_now();
    }
    assert!(engine.is_running());
}

#[test]
fn a_worker_that_panics_is_reported_and_the_others_go_on() {
    let config = Config { workers: 2, ..Config::default() };
    let ends = (Source::new(0..FLOWS, PACKETS), Sink::default());
    let last = |worker| (worker == 0).then_some(100);
    let stage = |worker| Worker { last: last(worker), ..Worker::new() };
    let results = shared(&config, ends, stage).expect("threads start").join();
    let [Err(failure), Ok(Parts::Worker(other)), Ok(Parts::Ends((_, counters), (sink, _)))] =
        &results[..]
    else {
        panic!("{results:?}", results = results.iter().map(Result::is_ok).collect::<Vec<_>>());
    };
    let text = failure.to_string();
    assert!(text.starts_with("thread worker 0 panicked: as the test wants it"), "{text}");
    // All packets of the other worker's flows came, but for those that its ring had no room for.
    let came: usize = sink.flows.values().map(Vec::len).sum();
    assert!(counters.dropped[0] > 0 && came as u64 >= counters.packets[1]);
    assert!(!other.seen.is_empty());
}

#[test]
fn a_core_that_is_not_there_is_an_error_with_its_number() {
    for core in [1_000, usize::MAX] {
        let mut engine = Engine::new();
        let thread =
            Thread { name: "worker 0".into(), core: Some(core), idle: Idle::Yield, stops: true };
        let make = || Pipeline::new(Source::new(0..1, 1), Forward::default(), Sink::default());
        engine.spawn(thread, make, drop).expect("a thread");
        let text = engine.join().remove(0).expect_err("no such core").to_string();
        assert!(text.contains(&format!("cannot be pinned to core {core}")), "{text}");
    }
}

#[test]
fn threads_are_pinned() {
    let config = Config { cores: vec![0], on_full: OnFull::Wait, ..Config::default() };
    let ends = (Source::new(0..FLOWS, PACKETS), Sink::default());
    let engine = shared(&config, ends, |_| Worker::new()).expect("threads start");
    expect_all(&outcome(engine.join()).0, PACKETS);
}
