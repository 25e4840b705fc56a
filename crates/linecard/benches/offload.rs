//! Nanoseconds per packet of both offloads, beside the floors of any implementation, and divided into parts that can be
//! measured from outside.
//!
//!     cargo bench -p linecard --bench offload                    # all of derived traffic
//!     cargo bench -p linecard --bench offload -- capture.pcap    # receive on a capture too
//!     cargo bench -p linecard --bench offload -- --only bulk --part verified --rounds 3
//!     cargo bench -p linecard --bench offload -- --place hot     # of hot, cold, scattered
//!     cargo bench -p linecard --bench offload -- --only hostile  # beside hostile flows
//!     cargo bench -p linecard --bench offload -- --smoke         # tiny; prints a hash
//!     scripts/count-instructions.sh                              # runs it with --count
//!
//! Conditions, figures and what they say: docs/results/offload.md.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

mod support;

use core::hint::black_box;
use core::time::Duration;
use linecard::offload::coalesce::Config;
use linecard::packet::checksum::Sum;
use linecard::packet::{Batch, ChecksumState, FlowHasher, LinkType, Meta, Packet};
use linecard::time::Instant;
use std::path::PathBuf;
use support::measure::{Account, Bench, CacheState, Receive, Row, heading, show};
use support::receive::Coalesce;
use support::send::{self, Form, LOADS, Load, Segmenter, Send};
use support::trace::Trace;
use support::traffic::{self, Kind};
use support::{BURST, Slot, count, hostile, stride};

/// Packets of a round of derived traffic, and the most taken from a capture.
const PACKETS: usize = 20_000;
const MAX_CAPTURE: usize = 200_000;
/// With hostile flows among them: ten tables full of new flows, when half are hostile.
const HOSTILE_PACKETS: usize = 80_000;
/// Bytes of all slots: more than any cache.
const ARENA: usize = 144 << 20;
/// Large packets per round of sending: 16 MiB.
const SOURCES: usize = 256;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Options of the command line.
#[derive(Default)]
struct Options {
    smoke: bool,
    /// To be run by a counter of instructions.
    count: bool,
    rounds: usize,
    /// Part of the names of inputs, and of the rows of the tables; empty for all.
    only: String,
    part: String,
    /// Of where the packets lie: hot, cold, scattered.
    place: String,
    captures: Vec<PathBuf>,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self { rounds: 9, ..Self::default() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo adds this one.
                "--bench" => {}
                "--smoke" => options.smoke = true,
                "--count" => options.count = true,
                "--rounds" => {
                    let count = arguments.next().and_then(|text| text.parse::<usize>().ok());
                    options.rounds = count.expect("--rounds takes a number").max(1);
                }
                "--only" => options.only = arguments.next().expect("--only takes a name"),
                "--place" => options.place = arguments.next().expect("--place takes a name"),
                "--part" => options.part = arguments.next().expect("--part takes a name"),
                path => options.captures.push(path.into()),
            }
        }
        options
    }
}

/// One input of the receive side.
struct Scenario {
    trace: Trace,
    /// Whether held packets are flushed at the end of a burst, as at the end of a poll.
    held: bool,
    config: Config,
}

impl Scenario {
    fn of(trace: Trace) -> Self {
        let config = Config { flush_at_batch_end: true, ..Config::default() };
        Self { trace, held: false, config }
    }

    /// Held across bursts, for as many flows and as long as spread-out traffic needs.
    fn held(trace: Trace) -> Self {
        let config = Config {
            hold_budget: Duration::from_millis(10),
            max_flows: 1 << 18,
            max_held_packets: 1 << 15,
            max_held_bytes: 1 << 30,
            ..Config::default()
        };
        Self { trace, held: true, config }
    }
}

fn scenarios(options: &Options) -> Vec<Scenario> {
    let packets = if options.smoke { 640 } else { PACKETS };
    let (flows, window) = if options.smoke { (200, 64) } else { (100_000, 4096) };
    let tcp4 =
        |name, flows, run, size| traffic::runs(name, Kind::Tcp4, (flows, run), (size, packets));
    let mut all = vec![
        Scenario::of(tcp4("bulk, 1 flow", 1, 64, 1448)),
        Scenario::of(tcp4("64 flows, runs of 16", 64, 16, 1448)),
        Scenario::of(traffic::runs("IPv6, 8 flows", Kind::Tcp6, (8, 32), (1428, packets))),
        Scenario::of(tcp4("jumbo 8948 B, 4 flows", 4, 7, 8948)),
        Scenario::of(tcp4("small 64 B, 1 flow", 1, 64, 64)),
        Scenario::of(traffic::runs("UDP 1472 B, 4 flows", Kind::Udp4, (4, 16), (1472, packets))),
        Scenario::of(tcp4("interleaved, 16 flows", 16, 1, 1448)),
        Scenario::held(traffic::spread("100,000 flows, 4096 at once", flows, window, 4)),
    ];
    for path in &options.captures {
        match Trace::read(path, MAX_CAPTURE) {
            Ok(trace) => all.push(Scenario::of(trace)),
            Err(error) => println!("skipped: {error}"),
        }
    }
    all.retain(|scenario| scenario.trace.name.contains(&options.only));
    all
}

/// Work of a floor per packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Parse,
    Sum,
    ParseSum,
    Copy,
    CopySum,
    FlowHash,
}

/// A part of receiving alone.
struct Floor {
    work: Work,
    link: LinkType,
    hasher: FlowHasher,
    scratch: Vec<u8>,
}

impl Floor {
    fn new(work: Work, trace: &Trace) -> Self {
        let scratch = vec![0; BURST * (trace.max_len() + 64)];
        Self { work, link: trace.link, hasher: FlowHasher::new(3), scratch }
    }

    fn parsed<'b>(&self, slot: &'b Slot<'_>) -> Packet<&'b [u8]> {
        Packet::new(slot.as_ref(), self.link, Meta::default())
    }
}

/// The transport part of a frame, where the layout says it is.
fn transport<'b>(packet: &'b Packet<&[u8]>) -> &'b [u8] {
    let start = packet.layout().transport().map_or(0, |layer| usize::from(layer.offset));
    &packet.bytes()[start..packet.layout().end()]
}

impl<'a> Receive<'a> for Floor {
    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, _: Instant) {
        let room = self.scratch.len() / BURST;
        for (slot, place) in burst.iter().zip(0..BURST) {
            let bytes = slot.as_ref();
            let target = &mut self.scratch[place * room..][..bytes.len()];
            match self.work {
                Work::Sum => drop(black_box(Sum::of(bytes))),
                Work::Copy => target.copy_from_slice(bytes),
                Work::CopySum => drop(black_box(Sum::of_copy(bytes, target))),
                Work::Parse => drop(black_box(*self.parsed(slot).layout())),
                Work::ParseSum => drop(black_box(Sum::of(transport(&self.parsed(slot))))),
                Work::FlowHash => {
                    let packet = self.parsed(slot);
                    black_box(self.hasher.flow(&packet));
                }
            }
        }
        black_box(&mut self.scratch);
    }

    fn settle(&mut self, burst: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, _: &mut Account) {
        free.append(burst);
    }
}

/// Parse into a batch and take out again: what moving packets costs without any stage.
struct ThroughBatch<'a> {
    link: LinkType,
    batch: Batch<Slot<'a>>,
    out: Vec<Packet<Slot<'a>>>,
}

impl<'a> Receive<'a> for ThroughBatch<'a> {
    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, now: Instant) {
        for slot in burst.drain(..) {
            let packet = Packet::new(slot, self.link, Meta { timestamp: now, ..Meta::default() });
            self.batch.push(packet).expect("a burst is no longer than a batch");
        }
        self.out.extend(self.batch.drain());
    }

    fn settle(&mut self, _: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, _: &mut Account) {
        free.extend(self.out.drain(..).map(|packet| packet.into_parts().0));
    }
}

type Subject<'a> = (&'static str, Box<dyn Receive<'a> + 'a>);

/// Everything that is timed on one input, from the floors up to the whole.
fn subjects<'a>(scenario: &Scenario) -> Vec<Subject<'a>> {
    let (trace, config) = (&scenario.trace, &scenario.config);
    let floor = |work| Box::new(Floor::new(work, trace));
    let vouched = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
    let coalesce = |meta, config| Box::new(Coalesce::new(trace.link, meta, config));
    let batched = Coalesce::new(trace.link, vouched, config.clone()).batched();
    let alone = Config { max_segments: 1, max_datagrams: 1, ..config.clone() };
    let through =
        ThroughBatch { link: trace.link, batch: Batch::new(), out: Vec::with_capacity(BURST) };
    vec![
        ("floor: parse", floor(Work::Parse)),
        ("floor: checksum", floor(Work::Sum)),
        ("floor: parse + checksum", floor(Work::ParseSum)),
        ("floor: copy", floor(Work::Copy)),
        ("floor: copy + checksum", floor(Work::CopySum)),
        ("part: parse + flow hash", floor(Work::FlowHash)),
        ("part: through a batch, unparsed", Box::new(through)),
        (
            "part: nothing mergeable",
            coalesce(Meta { mark: Meta::NEVER, ..vouched }, config.clone()),
        ),
        ("part: held and let go one by one", coalesce(vouched, alone)),
        ("part: trusted, as packets of a batch", Box::new(batched)),
        ("receive, checksum trusted", coalesce(vouched, config.clone())),
        ("receive, checksum verified", coalesce(Meta::default(), config.clone())),
    ]
}

/// Times every subject on one input: rounds of all of them in turn, so that a disturbance meets
/// each.
fn receive(scenario: &Scenario, options: &Options) -> u64 {
    let trace = &scenario.trace;
    let stride = stride(trace.max_len());
    let slots = if options.smoke { 1024 } else { ARENA / stride };
    let mut arena = vec![0; slots * stride];
    let mut bench = Bench::new(clock, Slot::divide(&mut arena, stride));
    let mut subjects = subjects(scenario);
    subjects.retain(|(name, _)| name.contains(&options.part));
    if options.smoke {
        let mut hash = 0_u64;
        for (_, subject) in &mut subjects {
            let (_, account) =
                bench.round(trace, subject.as_mut(), CacheState::Hot, Account::hashing());
            hash = hash.rotate_left(1) ^ account.hash.unwrap_or_default();
        }
        return hash;
    }
    let mut table = vec![(Row::default(), Account::default()); subjects.len()];
    // The first round warms up and is not counted.
    for round in 0..=options.rounds {
        for ((_, subject), (row, total)) in subjects.iter_mut().zip(&mut table) {
            for (place, times) in CacheState::ALL.into_iter().zip(row) {
                if !place.name().contains(&options.place) {
                    continue;
                }
                let (bursts, account) =
                    bench.round(trace, subject.as_mut(), place, Account::default());
                if round > 0 {
                    times.get_or_insert_default().record(&bursts, trace.len());
                }
                // Cold rounds flush held data where the buffers are used up.
                if place == CacheState::Hot {
                    *total = account;
                }
            }
        }
    }
    let mode = if scenario.held { "held across bursts" } else { "let go after each burst" };
    println!("\nReceive: {}, {} packets, {mode}", trace.name, trace.len());
    println!("{}", heading("ns per packet"));
    for ((name, _), (row, account)) in subjects.iter().zip(&table) {
        println!("{}", show(name, row, account));
    }
    0
}

/// Copies segments' payload without any header: the floors of sending.
struct CopyPayload {
    sum: bool,
}

impl Send for CopyPayload {
    fn cut(&mut self, source: &mut [u8], size: usize, slots: &mut [Slot<'_>]) -> usize {
        // All headers of the loads lie between those of UDP over IPv4 and TCP over IPv6.
        let count = (source.len() - 42) / size;
        let payload = &source[source.len() - count * size..];
        for (part, slot) in payload.chunks(size).zip(slots.iter_mut()) {
            let target = &mut slot.room()[66..66 + part.len()];
            if self.sum {
                black_box(Sum::of_copy(part, target));
            } else {
                target.copy_from_slice(part);
            }
        }
        count
    }
}

/// Times the send side on one load.
fn send(load: &Load, options: &Options) -> u64 {
    let mut sources = load.sources(if options.smoke { 4 } else { SOURCES });
    let mut arena = send::arena(load);
    let mut slots = Slot::divide(&mut arena, stride(load.frame_len()));
    if options.smoke {
        let mut account = Account::hashing();
        for source in &mut sources {
            let count = Segmenter { form: Form::Contiguous }.cut(source, load.size, &mut slots);
            slots[..count].iter().for_each(|slot| account.hash(slot.as_ref()));
        }
        return account.hash.unwrap_or_default();
    }
    let segmenter = |form| Box::new(Segmenter { form });
    let mut subjects: Vec<(&str, Box<dyn Send>)> = vec![
        ("floor: copy", Box::new(CopyPayload { sum: false })),
        ("floor: copy + checksum", Box::new(CopyPayload { sum: true })),
        ("send, headers and slices", segmenter(Form::Headers)),
        ("send, headers and slices, summed", segmenter(Form::HeadersSummed)),
        ("send, copied and summed", segmenter(Form::Contiguous)),
    ];
    subjects.retain(|(name, _)| name.contains(&options.part));
    let mut table = vec![Row::default(); subjects.len()];
    let mut sweep = Vec::new();
    for round in 0..=options.rounds {
        for ((_, subject), row) in subjects.iter_mut().zip(&mut table) {
            for (cold, times) in [false, true].into_iter().zip(row) {
                let (both, sweep) =
                    ((&mut sources[..], &mut slots[..]), cold.then_some(&mut sweep));
                let (bursts, segments) = send::round(clock, subject.as_mut(), load, both, sweep);
                if round > 0 {
                    times.get_or_insert_default().record(&bursts, segments);
                }
            }
        }
    }
    println!("\nSend: {}, {} segments from each large packet", load.name, load.segments);
    println!("{}", heading("ns per segment"));
    for ((name, _), row) in subjects.iter().zip(&table) {
        println!("{}", show(name, row, &Account::default()));
    }
    0
}

fn main() {
    let options = Options::parse();
    if options.count {
        return count::all(clock);
    }
    let mut hash = 0_u64;
    for scenario in scenarios(&options) {
        let one = receive(&scenario, &options);
        if options.smoke {
            println!("receive, {}: {one:016x}", scenario.trace.name);
        }
        hash = hash.rotate_left(7) ^ one;
    }
    if "hostile".contains(&options.only) {
        let (packets, rounds) =
            if options.smoke { (640, 0) } else { (HOSTILE_PACKETS, options.rounds) };
        let one = hostile::receive(clock, packets, rounds);
        if options.smoke {
            println!("receive, hostile: {one:016x}");
        }
        hash = hash.rotate_left(7) ^ one;
    }
    for load in LOADS.iter().filter(|load| load.name.contains(&options.only)) {
        let one = send(load, &options);
        if options.smoke {
            println!("send, {}: {one:016x}", load.name);
        }
        hash = hash.rotate_left(7) ^ one;
    }
    if options.smoke {
        println!("output hashes to {hash:016x}");
    }
}
