//! Steps of a packet: `firmware/lro.c` on the RV32I core, with memory behind a cache. [`Core`] has them as defaults.
//!
//! An instruction is one that the core executes; an access is a line of 32 bytes that is not among the last 256 of the
//! thread, its share of a cache of 32 KiB. The unit that receives writes packets past the cache.

use super::config::{Config, Core};
use super::frame::{self, Direction, HEADERS, SegmentHeader};
use super::stream::Stream;
use super::thread::{Offloads, Output};
use crate::Ps;
use crate::rv32::{self, Bus, Image, Reply, Stop, Wake, Width};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use linecard::packet::header::tcp_flags::{ACK, SYN};
use linecard::packet::{LinkType, Meta, Packet};

const IMAGE: &[u8] = include_bytes!("../../../../firmware/images/lro.bin");
const MEMORY_AT: u32 = 0x8000_0000;
const BUFFERS_AT: u32 = MEMORY_AT + 0x4_0000;
const BUFFER_LEN: u32 = 2_048;
/// More than five connections hold, so that a buffer is free again when its turn comes.
const BUFFERS: u32 = 300;
/// Bytes of a buffer before the frame: a line of the list, and two that align the IP header.
const BEFORE_FRAME: u32 = 34;
const LINE: u32 = 32;
const CACHED_LINES: usize = 256;
const SEGMENT: usize = 1_460;
/// Packets of a merged one: with 44, its 64,000 bytes are reached.
const MERGED: u64 = 44;
/// Connections of a thread: 64 on 13 threads.
const CONNECTIONS: u16 = 5;

/// Memory, and the engines around a thread.
struct Unit {
    memory: Vec<u8>,
    /// The latest lines, the last used at the end.
    cache: VecDeque<u32>,
    accesses: u64,
    arrived: Option<(u32, u32)>,
    now: u32,
    dma_from: u32,
    /// Address and length of each request.
    requests: Vec<(u32, u32)>,
    answers: Vec<Vec<u8>>,
    freed: u64,
}

struct Bench {
    core: rv32::Core,
    unit: Unit,
    buffer: u32,
    stream: Stream,
    sent: Vec<u64>,
}

impl Unit {
    fn place(address: u32) -> usize {
        (address - MEMORY_AT) as usize
    }

    fn bytes(&self, address: u32, len: usize) -> &[u8] {
        &self.memory[Self::place(address)..][..len]
    }

    /// The word around an address: the bus swaps the bytes of words, and only of words.
    fn word(&self, address: u32) -> u32 {
        self.bytes(address & !3, 4).iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
    }

    fn touch(&mut self, address: u32) {
        let line = address / LINE;
        match self.cache.iter().rposition(|other| *other == line) {
            Some(place) => _ = self.cache.remove(place),
            None => self.accesses += 1,
        }
        self.cache.push_back(line);
        if self.cache.len() > CACHED_LINES {
            self.cache.pop_front();
        }
    }
}

impl Bus for Unit {
    fn load(&mut self, _: u64, address: u32, _: Width) -> Reply {
        let done = |value| Reply::Done { value, stall: 0 };
        match address {
            0x3000_0000 => done(0),
            0x3000_0004 => done(self.arrived.map_or(0, |(at, _)| at)),
            0x3000_0008 => done(self.arrived.take().map_or(0, |(_, len)| len)),
            0x3000_000c => done(self.now),
            MEMORY_AT.. => {
                self.touch(address);
                done(self.word(address) >> (8 * (address & 3)))
            }
            _ => Reply::Refused,
        }
    }

    fn store(&mut self, _: u64, address: u32, width: Width, value: u32) -> Reply {
        match address {
            0x3000_0010 => {
                let answer = self.bytes(value + 2, HEADERS).to_vec();
                self.answers.push(answer);
            }
            0x3000_0014 => self.dma_from = value,
            0x3000_0018 => self.requests.push((self.dma_from, value)),
            0x3000_001c => self.freed += 1,
            MEMORY_AT.. => {
                self.touch(address);
                let (shift, bits) = (8 * (address & 3), 8 * width.bytes());
                let mask = (u32::MAX >> (32 - bits)) << shift;
                let word = self.word(address) & !mask | value << shift & mask;
                let place = Self::place(address & !3);
                self.memory[place..][..4].copy_from_slice(&word.to_be_bytes());
            }
            _ => return Reply::Refused,
        }
        Reply::Done { value: 0, stall: 0 }
    }

    fn wait(&mut self, cycle: u64) -> Wake {
        match self.arrived {
            Some(_) => Wake::At { cycle: cycle + 1, vector: None },
            None => Wake::Blocked,
        }
    }
}

impl Bench {
    /// The firmware waits for its first packet, and each connection has sent its SYN.
    fn new() -> Self {
        let core = rv32::Core::new(&Image::flat(IMAGE), rv32::Config::default()).expect("an image");
        let memory = vec![0; (BUFFERS_AT - MEMORY_AT + BUFFERS * BUFFER_LEN) as usize];
        let unit = Unit {
            memory,
            cache: VecDeque::new(),
            accesses: 0,
            arrived: None,
            now: 0,
            dma_from: 0,
            requests: Vec::new(),
            answers: Vec::new(),
            freed: 0,
        };
        let sent = vec![0; CONNECTIONS.into()];
        let mut bench = Self { core, unit, buffer: 0, stream: Stream::new(1), sent };
        for port in 0..CONNECTIONS {
            let header =
                SegmentHeader { sequence: u32::MAX, acknowledgment: 0, flags: SYN, window: 0 };
            bench.take(&frame::build(Direction::ToServer(port), &header, &[]));
        }
        bench.unit.requests.clear();
        bench
    }

    /// Lets the firmware process a frame: instructions, and accesses to memory.
    fn take(&mut self, frame: &[u8]) -> (u64, u64) {
        let at = BUFFERS_AT + self.buffer * BUFFER_LEN;
        self.buffer = (self.buffer + 1) % BUFFERS;
        let unit = &mut self.unit;
        unit.memory[Unit::place(at + BEFORE_FRAME)..][..frame.len()].copy_from_slice(frame);
        unit.cache.retain(|line| !(at / LINE..(at + BUFFER_LEN) / LINE).contains(line));
        unit.arrived = Some((at, frame.len() as u32));
        unit.now += 1_000;
        let before = (self.core.cycles().busy, unit.accesses);
        assert_eq!(self.core.run(unit, u64::MAX), Ok(Stop::Blocked));
        (self.core.cycles().busy - before.0, self.unit.accesses - before.1)
    }

    /// The next segment of a connection.
    fn segment(&mut self, connection: u16, len: usize) -> Vec<u8> {
        let sent = &mut self.sent[usize::from(connection)];
        let payload = self.stream.bytes(connection.into(), *sent, len).to_vec();
        let header =
            SegmentHeader { sequence: *sent as u32, acknowledgment: 7, flags: ACK, window: 0xFFFF };
        *sent += len as u64;
        frame::build(Direction::ToServer(connection), &header, &payload)
    }

    /// A merged packet of each connection, packets by turns: steps for each number of held packets.
    fn round(&mut self) -> Vec<(u64, u64)> {
        let step = |bench: &mut Self| {
            let all = (0..CONNECTIONS).map(|connection| {
                let frame = bench.segment(connection, SEGMENT);
                bench.take(&frame)
            });
            let sum = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            (sum.0 / u64::from(CONNECTIONS), sum.1 / u64::from(CONNECTIONS))
        };
        (0..MERGED).map(|_| step(self)).collect()
    }
}

/// Promise (Hardware model): A packet's instructions and memory accesses in the model of the network processor are those
/// of firmware that does the published algorithms.
#[test]
fn steps_are_those_of_the_firmware() {
    let mut bench = Bench::new();
    bench.round();
    let steps = bench.round();
    let middle = |of: fn(&(u64, u64)) -> u64| {
        // Neither the first of a list, nor the last, which is merged.
        (of(&steps[40]) - of(&steps[10])) as f64 / 30.0
    };
    let (held_instructions, held_accesses) = (middle(|one| one.0), middle(|one| one.1));
    let [short, long] = [SEGMENT - 320, SEGMENT].map(|len| {
        let mut bench = Bench::new();
        let frame = bench.segment(0, len);
        bench.take(&frame).0
    });
    let sum_instructions = (long - short) as f64 / 10.0;
    // The rest, merging included, for each packet.
    let total = steps.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let lines = (HEADERS + SEGMENT).div_ceil(LINE as usize) as f64;
    let held = (MERGED - 1) as f64 / 2.0;
    let rest = |total: u64, line: f64, each: f64| {
        (total as f64 / MERGED as f64 - lines * line - held * each).round()
    };
    // A packet that is no TCP is passed on.
    let mut other = bench.segment(0, SEGMENT);
    other[23] = 17;
    let passed = bench.take(&other);
    let counted = [
        rest(total.0, sum_instructions, held_instructions),
        sum_instructions,
        held_instructions,
        held_accesses,
        rest(total.1, 1.0, held_accesses),
        passed.0 as f64,
        passed.1 as f64,
    ];
    let core = Core::default();
    let defaults = [
        core.instructions,
        core.sum_instructions,
        core.held_instructions,
        core.held_accesses,
        core.accesses,
        core.pass_instructions,
        core.pass_accesses,
    ];
    assert_eq!(counted, defaults.map(f64::from));
}

/// Lets the live offloads process a frame; adds the segments of merged packets, and returns the number of answers.
fn feed(live: &mut Offloads, frame: &[u8], at_ns: u64, segments: &mut Vec<u64>) -> usize {
    let packet = Packet::new(frame.to_vec(), LinkType::Ethernet, Meta::default());
    let mut out = Output::default();
    live.take(packet, Ps::from_ns(at_ns), &mut out);
    let merged = out.packets.iter().filter_map(|packet| packet.meta.gso);
    segments.extend(merged.map(|gso| u64::from(gso.segments)));
    out.replies.len()
}

/// The firmware merges and acknowledges as the live offloads do that the model runs.
#[test]
fn the_firmware_does_what_the_live_offloads_do() {
    let mut bench = Bench::new();
    let mut config = Config::default();
    // The firmware's threshold is reached with 44 segments, as is the live one.
    config.npu.hold_budget_ns = 3_600_000_000_000;
    let mut live = Offloads::new(&config);
    let mut segments = Vec::new();
    let header = SegmentHeader { sequence: u32::MAX, acknowledgment: 0, flags: SYN, window: 0 };
    feed(&mut live, &frame::build(Direction::ToServer(0), &header, &[]), 0, &mut segments);
    let header = SegmentHeader { sequence: 6, acknowledgment: 0, flags: SYN | ACK, window: 0xFFFF };
    let answer = frame::build(Direction::ToClient(0), &header, &[]);
    live.answer(&mut Packet::new(answer, LinkType::Ethernet, Meta::default()));
    let mut replies = 0;
    for number in 1..=2 * MERGED {
        let frame = bench.segment(0, SEGMENT);
        bench.take(&frame);
        replies += feed(&mut live, &frame, 1_000 * number, &mut segments);
        let (_, header) = frame::read(bench.unit.answers.last().expect("an answer")).expect("TCP");
        assert_eq!((u64::from(header.acknowledgment), header.window), (bench.sent[0], 0xFFFF));
    }
    // The live coalescer flushes with the packet that does not fit.
    feed(&mut live, &bench.segment(0, SEGMENT), 1_000_000, &mut segments);
    assert_eq!(segments, [MERGED; 2]);
    assert_eq!((replies as u64, bench.unit.answers.len() as u64), (2 * MERGED, 2 * MERGED));
    let merged: Vec<&[(u32, u32)]> = bench.unit.requests.chunks(MERGED as usize).collect();
    assert_eq!(merged.len(), 2);
    let mut offset = 0;
    for requests in merged {
        let first = bench.unit.bytes(requests[0].0, HEADERS);
        let all = HEADERS - 14 + MERGED as usize * SEGMENT;
        assert_eq!(usize::from(u16::from_be_bytes([first[16], first[17]])), all);
        for (place, (at, len)) in requests.iter().enumerate() {
            let bytes = bench.unit.bytes(*at, *len as usize);
            let payload = if place == 0 { &bytes[HEADERS..] } else { bytes };
            assert_eq!(payload, bench.stream.bytes(0, offset, payload.len()));
            offset += payload.len() as u64;
        }
    }
    assert_eq!((offset, bench.unit.freed), (2 * MERGED * SEGMENT as u64, 0));
}

/// "Packets with wrong checksum are discarded", and what came before is dropped.
#[test]
fn the_firmware_discards_what_it_should() {
    let mut bench = Bench::new();
    let mut frame = bench.segment(0, SEGMENT);
    frame[700] ^= 1;
    bench.take(&frame);
    assert_eq!(bench.unit.freed, 1);
    frame[700] ^= 1;
    for _ in 0..2 {
        bench.take(&frame);
    }
    assert_eq!((bench.unit.freed, bench.unit.answers.len()), (2, 1));
    assert!(bench.unit.requests.is_empty());
}
