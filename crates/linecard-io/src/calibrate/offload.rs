//! Benches for the stages of the two offloads, with the environment that they have in the engine.
//!
//! Three lines of stages, each a cycle of calls: large packets are made and segmented; packets are
//! received and merged; or everything, over a ring, with verification of every byte. To measure a
//! stage, its whole line runs and only that stage's calls are timed, so that it finds its data in
//! the caches as it does in a run.

use super::measure::{Bench, Entry};
use crate::engine::ring::{Receiver, Sender, ring};
use crate::port::{Buffer, SharedBuffer, SharedPool};
use crate::workload::{Application, Family, Verify, Workload};
use linecard::offload::coalesce::Config;
use linecard::packet::checksum::Sum;
use linecard::packet::{Batch, LinkType, Meta, Packet, Pool};
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Segment};
use linecard::time::Instant;
use linecard_plan::Token;
use linecard_tun::Buffers;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Sizes of IP packets that are measured: the least that every IPv4 host accepts, Ethernet, jumbo
/// frames.
pub const PACKETS: [u32; 3] = [576, 1_500, 9_000];
/// Batches that are measured.
pub const BATCHES: [u32; 4] = [1, 8, 32, 64];
/// Packets on the way between two cores.
pub const RING: usize = 128;
/// Connections that send in turn.
const FLOWS: usize = 16;
/// Ethernet header.
const LINK_HEADER: usize = 14;
/// Sends of the trace that is merged repeatedly: they fit in the caches of a core.
const SENDS: usize = 4;
/// The most rounds of a line until the measured stage has work: more than a large packet has
/// segments.
const MOST_ROUNDS: u32 = 256;

/// Segments of a large packet: as many as fit 64 KiB, or 64, in powers of two.
#[must_use]
pub fn group(packet: u32) -> u32 {
    let segment = workload(packet, 0).segment_size().max(1);
    let most = (60_000 / segment).clamp(1, 64) as u32;
    1 << most.ilog2()
}

/// Large packets taken at a time, for a given batch of packets.
#[must_use]
pub fn groups(packet: u32, batch: u32) -> u32 {
    (batch / group(packet)).max(1)
}

fn workload(packet: u32, send_len: usize) -> Workload {
    Workload {
        flows: FLOWS,
        first_flow: 0,
        flow_step: 1,
        send_len,
        mtu: packet as usize,
        family: Family::V4,
        seed: 1,
    }
}

/// Payload bytes of a packet.
#[must_use]
pub fn payload(packet: u32) -> usize {
    workload(packet, 0).segment_size()
}

fn sends(packet: u32) -> Workload {
    workload(packet, group(packet) as usize * payload(packet))
}

/// Applications with few buffers for large packets, so that those stay in the caches.
pub(super) fn application(packet: u32, batch: u32) -> Application {
    let workload = sends(packet);
    let pool = Pool::new(groups(packet, batch) as usize + 1, workload.packet_len());
    Application::new(workload, pool)
}

/// A segmenter with buffers for one large packet's segments and a batch.
pub(super) fn segment(packet: u32) -> Segment<Buffer> {
    let buffers = 2 * group(packet) as usize + 64;
    Segment::new(LinkType::Ethernet, Pool::new(buffers, frame(packet)))
}

fn frame(packet: u32) -> usize {
    packet as usize + LINK_HEADER
}

/// Verifies every byte.
pub(super) fn verify(packet: u32) -> Verify {
    Verify::new(&sends(packet))
}

/// A coalescer.
pub(super) fn coalesce<B: AsRef<[u8]> + AsMut<[u8]>>() -> Coalesce<B> {
    Coalesce::new(Config::default())
}

/// The path between two cores: each packet is copied into a buffer that can be sent to another
/// thread, as an interface would, and put into a ring.
#[derive(Debug)]
pub(super) struct Wire {
    pool: SharedPool,
    ring: Sender<SharedBuffer>,
    staged: Batch<SharedBuffer>,
}

impl Wire {
    pub(super) fn new(packet: u32) -> (Self, Receiver<SharedBuffer>) {
        let buffers = RING + 2 * group(packet) as usize + 2 * 64;
        let (ring, receiver) = ring(RING);
        let pool = SharedPool::new(buffers, frame(packet));
        (Self { pool, ring, staged: Batch::new() }, receiver)
    }
}

impl Port<Buffer> for Wire {
    fn receive(&mut self, _: &mut Batch<Buffer>, _: Instant) -> PortState {
        PortState::Ended
    }

    fn transmit(&mut self, batch: &mut Batch<Buffer>, now: Instant) {
        while self.staged.room() > 0 && !batch.is_empty() {
            let Some(mut buffer) = self.pool.take() else { break };
            let Some(packet) = batch.pop() else { break };
            let bytes = packet.bytes();
            buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
            SharedPool::truncate(&mut buffer, bytes.len());
            let copy = Packet::new(buffer, LinkType::Ethernet, Meta { gso: None, ..packet.meta });
            let _fits = self.staged.push(copy);
        }
        self.ring.transmit(&mut self.staged, now);
    }
}

/// The packets of some sends, copied into buffers repeatedly, as an interface writes them.
#[derive(Debug)]
pub(super) struct Replay {
    frames: Vec<Vec<u8>>,
    next: usize,
    pool: Pool,
}

impl Replay {
    pub(super) fn new(packet: u32) -> Self {
        let frames = frames(packet);
        let held = 2 * group(packet) as usize + 64;
        Self { frames, next: 0, pool: Pool::new(held, frame(packet)) }
    }
}

/// The packets of [`SENDS`] sends.
fn frames(packet: u32) -> Vec<Vec<u8>> {
    let (mut application, mut segment) = (application(packet, 1), segment(packet));
    let (mut large, mut cut) = (Batch::bounded(1), Batch::new());
    let mut frames = Vec::new();
    while frames.len() < SENDS * group(packet) as usize {
        if segment.held() == 0 {
            application.receive(&mut large, Instant::ZERO);
        }
        segment.process(&mut large, Instant::ZERO, &mut cut);
        frames.extend(cut.drain().map(|packet| packet.bytes().to_vec()));
    }
    frames
}

impl Port<Buffer> for Replay {
    fn receive(&mut self, batch: &mut Batch<Buffer>, now: Instant) -> PortState {
        while batch.room() > 0 {
            let Some(mut buffer) = self.pool.take() else { break };
            let frame = &self.frames[self.next];
            self.next = (self.next + 1) % self.frames.len();
            buffer.as_mut()[..frame.len()].copy_from_slice(frame);
            buffer.truncate(frame.len());
            let meta = Meta { timestamp: now, ..Meta::default() };
            let _fits = batch.push(Packet::new(buffer.into(), LinkType::Ethernet, meta));
        }
        PortState::Open
    }

    fn transmit(&mut self, _: &mut Batch<Buffer>, _: Instant) {}
}

/// Accepts everything and frees the buffers.
#[derive(Debug, Default)]
pub(super) struct Discard;

impl<B> Port<B> for Discard {
    fn receive(&mut self, _: &mut Batch<B>, _: Instant) -> PortState {
        PortState::Ended
    }

    fn transmit(&mut self, batch: &mut Batch<B>, _: Instant) {
        batch.drain().for_each(drop);
    }
}

/// Stages that run in a loop.
trait Line {
    /// Whether a stage has work.
    fn is_ready(&self, stage: usize) -> bool;
    /// Calls a stage; returns its firings.
    fn call(&mut self, stage: usize, now: Instant) -> usize;
}

/// Large packets made, segmented and dropped.
struct Cutting {
    application: Application,
    large: Batch<Buffer>,
    segment: Segment<Buffer>,
    cut: Batch<Buffer>,
}

const CUTTING: [(&str, Token); 3] =
    [("application", Token::Group), ("segment", Token::Packet), ("discard", Token::Packet)];

impl Cutting {
    fn new(packet: u32, batch: u32) -> Self {
        Self {
            application: application(packet, batch),
            large: Batch::bounded(groups(packet, batch) as usize),
            segment: segment(packet),
            cut: Batch::bounded(batch as usize),
        }
    }
}

impl Line for Cutting {
    fn is_ready(&self, stage: usize) -> bool {
        match stage {
            0 => self.large.is_empty() && self.segment.held() == 0,
            1 => self.cut.is_empty() && (!self.large.is_empty() || self.segment.held() > 0),
            _ => !self.cut.is_empty(),
        }
    }

    fn call(&mut self, stage: usize, now: Instant) -> usize {
        match stage {
            0 => gained(&mut self.large, |large| {
                self.application.receive(large, now);
            }),
            1 => {
                let Self { segment, large, cut, .. } = self;
                gained(cut, |cut| segment.process(large, now, cut))
            }
            _ => given(&mut self.cut, |cut| Discard.transmit(cut, now)),
        }
    }
}

/// Packets received, merged and dropped.
struct Merging {
    replay: Replay,
    taken: Batch<Buffer>,
    coalesce: Coalesce<Buffer>,
    merged: Batch<Buffer>,
}

const MERGING: [(&str, Token); 3] =
    [("replay", Token::Packet), ("coalesce", Token::Packet), ("release", Token::Group)];

impl Merging {
    fn new(packet: u32, batch: u32) -> Self {
        Self {
            replay: Replay::new(packet),
            taken: Batch::bounded(batch as usize),
            coalesce: coalesce(),
            merged: Batch::new(),
        }
    }
}

impl Line for Merging {
    fn is_ready(&self, stage: usize) -> bool {
        match stage {
            0 => self.taken.is_empty(),
            1 => !self.taken.is_empty(),
            _ => !self.merged.is_empty(),
        }
    }

    fn call(&mut self, stage: usize, now: Instant) -> usize {
        match stage {
            0 => gained(&mut self.taken, |taken| {
                self.replay.receive(taken, now);
            }),
            1 => {
                let Self { coalesce, taken, merged, .. } = self;
                given(taken, |taken| coalesce.process(taken, now, merged))
            }
            _ => given(&mut self.merged, |merged| Discard.transmit(merged, now)),
        }
    }
}

/// Large packets made, segmented, sent, received, merged and verified.
struct Whole {
    cutting: Cutting,
    wire: Wire,
    receiver: Receiver<SharedBuffer>,
    taken: Batch<SharedBuffer>,
    coalesce: Coalesce<SharedBuffer>,
    merged: Batch<SharedBuffer>,
    verify: Verify,
}

const WHOLE: [(&str, Token); 6] = [
    ("application", Token::Group),
    ("segment", Token::Packet),
    ("wire", Token::Packet),
    ("take", Token::Packet),
    ("coalesce", Token::Packet),
    ("verify", Token::Group),
];

impl Whole {
    fn new(packet: u32, batch: u32) -> Self {
        let (wire, receiver) = Wire::new(packet);
        Self {
            cutting: Cutting::new(packet, batch),
            wire,
            receiver,
            taken: Batch::bounded(batch as usize),
            coalesce: coalesce(),
            merged: Batch::new(),
            verify: verify(packet),
        }
    }
}

impl Line for Whole {
    fn is_ready(&self, stage: usize) -> bool {
        match stage {
            0 | 1 => self.cutting.is_ready(stage),
            2 => !self.cutting.cut.is_empty(),
            3 => self.taken.is_empty(),
            4 => !self.taken.is_empty(),
            _ => !self.merged.is_empty(),
        }
    }

    fn call(&mut self, stage: usize, now: Instant) -> usize {
        match stage {
            0 | 1 => self.cutting.call(stage, now),
            2 => given(&mut self.cutting.cut, |cut| self.wire.transmit(cut, now)),
            3 => gained(&mut self.taken, |taken| {
                self.receiver.receive(taken, now);
            }),
            4 => {
                let Self { coalesce, taken, merged, .. } = self;
                given(taken, |taken| coalesce.process(taken, now, merged))
            }
            _ => given(&mut self.merged, |merged| self.verify.transmit(merged, now)),
        }
    }
}

fn gained<B>(batch: &mut Batch<B>, call: impl FnOnce(&mut Batch<B>)) -> usize {
    let before = batch.len();
    call(batch);
    batch.len() - before
}

fn given<B>(batch: &mut Batch<B>, call: impl FnOnce(&mut Batch<B>)) -> usize {
    let before = batch.len();
    call(batch);
    before - batch.len()
}

/// A line for each batch, sharing one clock.
type Lines = Rc<RefCell<BTreeMap<u32, Box<dyn Line>>>>;

/// One stage of a line.
struct Part {
    lines: Lines,
    make: Box<dyn Fn(u32) -> Box<dyn Line>>,
    stage: usize,
    stages: usize,
    /// The packets' time advances, so that no packet seems held forever.
    now: Instant,
    epoch: std::time::Instant,
}

impl Bench for Part {
    fn prepare(&mut self, batch: u32) {
        self.now = Instant::ZERO.plus(self.epoch.elapsed());
        let mut lines = self.lines.borrow_mut();
        let line = lines.entry(batch).or_insert_with(|| (self.make)(batch));
        for _ in 0..MOST_ROUNDS {
            for step in 1..self.stages {
                let stage = (self.stage + step) % self.stages;
                if line.is_ready(stage) {
                    line.call(stage, self.now);
                }
            }
            if line.is_ready(self.stage) {
                return;
            }
        }
    }

    fn work(&mut self, batch: u32) -> u32 {
        let mut lines = self.lines.borrow_mut();
        lines.get_mut(&batch).map_or(0, |line| line.call(self.stage, self.now) as u32)
    }
}

/// Benches for the stages of all lines with packets of this size, named like `segment@1500`.
#[must_use]
pub fn entries(packet: u32, batches: &[u32]) -> Vec<Entry<'static>> {
    let mut all = line(packet, batches, &CUTTING, move |b| Box::new(Cutting::new(packet, b)));
    all.extend(line(packet, batches, &MERGING, move |b| Box::new(Merging::new(packet, b))));
    // Stages of the other lines were measured there.
    let whole = line(packet, batches, &WHOLE, move |b| Box::new(Whole::new(packet, b)));
    all.extend(whole.into_iter().filter(|entry| {
        ["wire", "take", "verify"].iter().any(|name| entry.name.starts_with(name))
    }));
    all.extend(kernels(packet, batches));
    all
}

fn line(
    packet: u32,
    batches: &[u32],
    stages: &[(&str, Token)],
    make: impl Fn(u32) -> Box<dyn Line> + Clone + 'static,
) -> Vec<Entry<'static>> {
    let lines: Lines = Rc::default();
    let entry = |(stage, (name, unit)): (usize, &(&str, Token))| Entry {
        name: format!("{name}@{packet}"),
        unit: *unit,
        // Stages that process groups are called for as many groups as a batch of packets contains.
        batches: batches.to_vec(),
        bench: Box::new(Part {
            lines: Rc::clone(&lines),
            make: Box::new(make.clone()),
            stage,
            stages: stages.len(),
            now: Instant::ZERO,
            epoch: std::time::Instant::now(),
        }),
    };
    stages.iter().enumerate().map(entry).collect()
}

/// Parsing and summing alone, for packets in the caches.
fn kernels(packet: u32, batches: &[u32]) -> Vec<Entry<'static>> {
    let frames = frames(packet);
    let parsed = frames.clone();
    let parse = move |batch: u32| {
        for frame in parsed.iter().cycle().take(batch as usize) {
            let packet = Packet::new(&frame[..], LinkType::Ethernet, Meta::default());
            std::hint::black_box(packet.layout());
        }
    };
    let checksum = move |batch: u32| {
        for frame in frames.iter().cycle().take(batch as usize) {
            std::hint::black_box(Sum::of(&frame[LINK_HEADER..]));
        }
    };
    let entry = |name: &str, bench: Box<dyn Bench>| Entry {
        name: format!("{name}@{packet}"),
        unit: Token::Packet,
        batches: batches.to_vec(),
        bench,
    };
    vec![
        entry("parse", Box::new(super::Call(parse))),
        entry("checksum", Box::new(super::Call(checksum))),
    ]
}
