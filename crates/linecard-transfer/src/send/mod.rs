//! The sending end: which chunk goes over which lane, and when its packets are sent.
//!
//! The caller holds the bytes. It offers chunks, asks each lane for its packets ([`Sender::poll`]),
//! passes received packets to [`Sender::receive`], and calls again when [`Sender::next_wakeup`]
//! says.

mod assign;
mod chunk;
mod limit;
mod repair;

pub use limit::{Limit, LimitTimes};

use crate::control::Mode;
use crate::fec::Repair;
use crate::lane::{
    Challenges, FlightUpdate, LaneCounters, LaneSender, LaneSettings, LaneState, Piece,
};
use crate::layout::{Layout, LayoutError, PacketRole};
use crate::wire::{Ack, Header, Kind, MAX_LANES, OVERHEAD_BYTES, Probe};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use chunk::Chunk;
use limit::Limited;
use linecard::time::Instant;
use repair::Losses;

/// Chunks that may be offered beyond those in flight, besides one for each lane.
const OFFERED_MORE: usize = 1;
/// More may be while they have fewer bytes than this, and are fewer: small files, which leave together.
const SMALL_OFFERED_BYTES: u64 = 256 << 10;
const MAX_OFFERED: usize = 128;

/// The agreed parameters, and the behaviour of this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendSettings {
    /// The connection's number.
    pub connection: u32,
    /// Data bytes of a packet.
    pub payload_bytes: u32,
    /// Repair of lost packets.
    pub fec: Repair,
    /// How chunks are distributed.
    pub mode: Mode,
    /// The most chunks in flight, on all lanes together; the receiver's window is another limit. A
    /// lane starts a chunk when it has nothing left to send of others, so more chunks hide round
    /// trips. With 1, each chunk waits for the completion of the previous one.
    pub under_way: u32,
    /// The most bytes of these chunks, which the caller keeps. One chunk may be in flight in any case.
    pub memory_bytes: u64,
    /// Packets of a chunk, in thousandths, that idle lanes may send again.
    pub duplicates_permille: u32,
    /// The first chunk that may not be sent initially.
    pub window_end: u32,
}

impl Default for SendSettings {
    fn default() -> Self {
        Self {
            connection: 0,
            payload_bytes: 1_408,
            fec: Repair::default(),
            mode: Mode::Auto,
            under_way: u32::MAX,
            memory_bytes: u64::MAX,
            duplicates_permille: 10,
            window_end: 4,
        }
    }
}

/// A packet to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Its header.
    pub header: Header,
    /// Its content.
    pub body: Content,
}

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes of the chunk that the header names.
    Data {
        /// Their offset.
        offset: u32,
        /// Their number.
        bytes: u32,
    },
    /// Repair of a group of the chunk that the header names.
    Repair {
        /// The group.
        group: u32,
        /// The row of the code.
        row: u32,
        /// How many bytes.
        bytes: u32,
    },
    /// A probe, padded to this many bytes.
    Probe {
        /// Its challenge and response.
        probe: Probe,
        /// Bytes with padding.
        bytes: u32,
    },
}

impl Transmit {
    /// Bytes of its datagram.
    #[must_use]
    pub const fn on_wire(&self) -> usize {
        let (Content::Data { bytes, .. }
        | Content::Repair { bytes, .. }
        | Content::Probe { bytes, .. }) = self.body;
        bytes as usize + OVERHEAD_BYTES
    }
}

/// An event at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendEvent {
    /// The other end has the whole chunk: its bytes may be freed.
    Done {
        /// The chunk.
        chunk: u32,
        /// From its first packet to the acknowledgment of completion, in ns.
        latency_ns: u64,
    },
    /// A lane works, or has recovered.
    Up(usize),
    /// A lane has failed; its packets are sent over others.
    Down(usize),
}

/// The sender's counters over all lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Chunks completed.
    pub chunks: u64,
    /// Packets retransmitted because one was lost.
    pub resent: u64,
    /// Packets duplicated to arrive sooner.
    pub duplicates: u64,
    /// Repair packets sent.
    pub repair: u64,
    /// Packets taken for lost that repair could replace when they were, so that they were not retransmitted.
    pub repaired: u64,
    /// Packets sent on a lane beyond what repair could replace if it failed.
    pub exposed: u64,
    /// Invalid packets.
    pub refused: u64,
}

/// The sending end of a transfer.
///
/// ```
/// use linecard::time::Instant;
/// use linecard_transfer::lane::LaneSettings;
/// use linecard_transfer::send::{Content, SendSettings, Sender};
/// use linecard_transfer::wire::{Header, Kind, Probe};
///
/// let mut sender = Sender::new(SendSettings::default(), &[LaneSettings::default()], 7);
/// sender.offer(0, 1_000).unwrap();
/// let mut out = Vec::new();
/// // A lane is used only after its other end has answered.
/// sender.poll(0, Instant::ZERO, 8, &mut out);
/// let Content::Probe { probe, .. } = out[0].body else { panic!() };
/// let answer = Probe { challenge: None, response: probe.challenge };
/// let mut body = Vec::new();
/// answer.write(&mut body, 0);
/// let header = Header { kind: Kind::Probe, ..out[0].header };
/// sender.receive(&header, &body, Instant::from_ns(100_000));
/// out.clear();
/// sender.poll(0, Instant::from_ns(100_000), 8, &mut out);
/// assert_eq!(out[0].body, Content::Data { offset: 0, bytes: 1_000 });
/// ```
#[derive(Debug)]
pub struct Sender {
    settings: SendSettings,
    lanes: Vec<LaneSender>,
    /// In order of their numbers.
    chunks: Vec<Chunk>,
    /// Bytes of these.
    held_bytes: u64,
    offered: VecDeque<(u32, Layout)>,
    offered_bytes: u64,
    finished: bool,
    /// Chunks are missing because the receiver has not answered, and not because they are being read.
    awaits_receiver: bool,
    window_end: u32,
    events: VecDeque<SendEvent>,
    counters: SendCounters,
    outcome: FlightUpdate,
    progress: Instant,
    /// When everything sent should have left the queues of its lanes.
    clear: Instant,
    /// Of each lane.
    losses: Vec<Losses>,
    /// The limit of each lane now, and times of all.
    limited: Vec<Limited>,
    limit_times: LimitTimes,
    challenges: Challenges,
}

impl Sender {
    /// A sender over `lanes`, of which at most [`MAX_LANES`] are used. A seed in place of `challenges` is for simulations.
    #[must_use]
    pub fn new(
        settings: SendSettings,
        lanes: &[LaneSettings],
        challenges: impl Into<Challenges>,
    ) -> Self {
        let mut made: Vec<LaneSender> =
            lanes.iter().take(MAX_LANES).map(|lane| LaneSender::new(*lane)).collect();
        for lane in made.iter_mut().filter(|lane| lane.settings().shared != 0) {
            let shared = lane.settings().shared;
            lane.set_share(lanes.iter().filter(|other| other.shared == shared).count());
        }
        Self {
            window_end: settings.window_end,
            settings,
            losses: alloc::vec![Losses::default(); made.len()],
            limited: alloc::vec![Limited::START; made.len()],
            limit_times: LimitTimes::default(),
            lanes: made,
            chunks: Vec::new(),
            held_bytes: 0,
            offered: VecDeque::new(),
            offered_bytes: 0,
            finished: false,
            awaits_receiver: false,
            events: VecDeque::new(),
            counters: SendCounters::default(),
            outcome: FlightUpdate::default(),
            progress: Instant::ZERO,
            clear: Instant::ZERO,
            challenges: challenges.into(),
        }
    }

    /// How many chunks may be offered now, at least: one more than there are lanes, and of small ones, as many as have
    /// 256 KiB together, up to 128.
    #[must_use]
    pub fn room(&self) -> usize {
        let is_small = self.offered_bytes < SMALL_OFFERED_BYTES && self.offered.len() < MAX_OFFERED;
        let few = self.lanes.len() + OFFERED_MORE;
        few.saturating_sub(self.offered.len()).max(usize::from(is_small))
    }

    /// Offers a chunk of `bytes`, which the caller keeps until it is [`SendEvent::Done`]. Numbers
    /// increase, but need not be consecutive.
    ///
    /// # Errors
    ///
    /// If the chunk cannot be divided into packets.
    pub fn offer(&mut self, chunk: u32, bytes: u32) -> Result<(), LayoutError> {
        let layout = Layout::new(bytes, self.settings.payload_bytes, self.settings.fec.scheme())?;
        self.offered.push_back((chunk, layout));
        self.offered_bytes += u64::from(layout.bytes());
        Ok(())
    }

    /// Declares why no chunks are offered, from now on: because the receiver has not answered, or because they are being
    /// read ([`Sender::limits`]).
    pub const fn await_receiver(&mut self, awaits: bool) {
        self.awaits_receiver = awaits;
    }

    /// Declares that no more chunks will be offered.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether all chunks offered have arrived, and no more will be offered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.finished && self.offered.is_empty() && self.chunks.is_empty()
    }

    /// Changes the mode for later chunks. Chunks in flight are not affected.
    pub fn set_mode(&mut self, mode: Mode) {
        self.settings.mode = mode;
    }

    /// Bytes of chunks in flight that are known to be at the other end.
    #[must_use]
    pub fn arrived_bytes(&self) -> u64 {
        self.chunks.iter().map(Chunk::arrived_bytes).sum()
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> SendCounters {
        let mut sum = self.counters;
        for chunk in &self.chunks {
            sum.add(chunk);
        }
        sum
    }

    /// A lane's state and counters.
    #[must_use]
    pub fn lane(&self, lane: usize) -> Option<&LaneSender> {
        self.lanes.get(lane)
    }

    /// The counters of all lanes.
    pub fn lane_counters(&self) -> impl Iterator<Item = LaneCounters> + '_ {
        self.lanes.iter().map(|lane| lane.counters)
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<SendEvent> {
        self.events.pop_front()
    }

    /// When the other end last made progress: with chunks in flight, the caller decides when that
    /// is too long ago.
    #[must_use]
    pub const fn last_progress(&self) -> Instant {
        self.progress
    }

    /// Appends to `out` the packets that `lane` should send now, at most `most`. All have to be
    /// sent in this order, because their numbers are assigned.
    pub fn poll(&mut self, lane: usize, now: Instant, most: usize, out: &mut Vec<Transmit>) {
        if self.lanes.get(lane).is_none() {
            return;
        }
        self.poll_probe(lane, now, out);
        let full = self.settings.payload_bytes + OVERHEAD_BYTES as u32;
        let mut at = None;
        let (mut first, mut starved) = (true, false);
        while out.len() < most && self.lanes[lane].may_send(full, first, now) {
            let Some((chunk, slot)) = self.pick(lane, &mut at, now) else {
                self.lanes[lane].starved();
                starved = true;
                break;
            };
            out.push(self.depart(lane, chunk, slot, now));
            first = false;
        }
        self.note_limit(lane, starved, now);
        // The last packet should be acknowledged, because nothing else makes the other end respond.
        if at.is_some()
            && !self.has_work(lane)
            && !self.starts(lane, now)
            && let Some(last) = out.last_mut()
        {
            last.header.ack_now = true;
        }
    }

    fn poll_probe(&mut self, lane: usize, now: Instant, out: &mut Vec<Transmit>) {
        let quiet = self.quiet_lane(lane, now);
        let sender = &mut self.lanes[lane];
        let probe = if quiet {
            sender.ask(now, &mut self.challenges)
        } else {
            sender.probe(now, &mut self.challenges)
        };
        let Some((packet_number, probe)) = probe else { return };
        // A challenge is as long as the packets that will follow it; an answer alone is short.
        let is_long = probe.challenge.is_some() && !sender.settings().unproven;
        let bytes = if is_long { self.settings.payload_bytes } else { 0 };
        let bytes = bytes.max(Probe::BYTES as u32);
        let header = self.header(Kind::Probe, lane, packet_number);
        out.push(Transmit { header, body: Content::Probe { probe, bytes } });
    }

    fn header(&self, kind: Kind, lane: usize, packet_number: u64) -> Header {
        Header::without_chunk(kind, lane as u16, self.settings.connection, packet_number)
    }

    fn depart(&mut self, lane: usize, chunk: usize, slot: u32, now: Instant) -> Transmit {
        let (id, layout) = (self.chunks[chunk].id, self.chunks[chunk].layout);
        let place = layout.place(slot);
        let bytes = layout.place_bytes(place);
        let on_wire = bytes + OVERHEAD_BYTES as u32;
        let sender = &mut self.lanes[lane];
        let number = sender.send(Piece { chunk: id, slot }, on_wire, now);
        self.clear = self.clear.max(now.plus_ns(sender.rtt().queued_ns()));
        let (kind, body) = match place {
            PacketRole::Data { index } => {
                (Kind::Data, Content::Data { offset: layout.offset(index), bytes })
            }
            PacketRole::Repair { group, row } => {
                (Kind::Repair, Content::Repair { group, row, bytes })
            }
        };
        let header = self.header(kind, lane, number);
        Transmit { header: Header { chunk: id, index: place.to_index(), ..header }, body }
    }

    /// Processes a decrypted packet from the other end. Invalid packets are counted.
    pub fn receive(&mut self, header: &Header, body: &[u8], now: Instant) {
        let lane = usize::from(header.lane);
        if lane >= self.lanes.len() {
            self.counters.refused += 1;
            return;
        }
        match header.kind {
            Kind::Ack => match Ack::parse(body) {
                Ok(ack) => self.acknowledged(&ack, now),
                Err(_) => self.counters.refused += 1,
            },
            Kind::Probe => match Probe::parse(body) {
                Some(probe) => {
                    if self.lanes[lane].probed(probe, now) {
                        self.events.push_back(SendEvent::Up(lane));
                    }
                }
                None => self.counters.refused += 1,
            },
            Kind::Close => self.close(lane, now),
            // Handled by the caller.
            Kind::Control => {}
            Kind::Data | Kind::Repair => self.counters.refused += 1,
        }
    }

    fn acknowledged(&mut self, ack: &Ack, now: Instant) {
        let lane = usize::from(ack.lane);
        let Some(sender) = self.lanes.get_mut(lane) else {
            self.counters.refused += 1;
            return;
        };
        let mut outcome = core::mem::take(&mut self.outcome);
        if sender.acknowledged(ack, now, &mut outcome) {
            self.window_end = self.window_end.max(ack.window_end);
            self.settle(&mut outcome, now);
            self.complete(ack, now);
        }
        self.outcome = outcome;
    }

    /// Applies the lanes' updates to the chunks.
    fn settle(&mut self, outcome: &mut FlightUpdate, now: Instant) {
        if !outcome.arrived.is_empty() {
            self.progress = now;
        }
        let mut at = 0;
        for piece in &outcome.arrived {
            if let Some(chunk) = find(&mut self.chunks, &mut at, piece.chunk) {
                chunk.arrived(piece.slot, false);
            }
        }
        for piece in &outcome.late {
            if let Some(chunk) = find(&mut self.chunks, &mut at, piece.chunk) {
                chunk.arrived(piece.slot, true);
            }
        }
        for piece in &outcome.lost {
            if let Some(chunk) = find(&mut self.chunks, &mut at, piece.chunk) {
                chunk.lost(piece.slot);
            }
        }
        outcome.clear();
    }

    fn complete(&mut self, ack: &Ack, now: Instant) {
        let (events, counters, progress) =
            (&mut self.events, &mut self.counters, &mut self.progress);
        let held_bytes = &mut self.held_bytes;
        self.chunks.retain(|chunk| {
            let done = ack.is_done(chunk.id);
            if done {
                let latency_ns = now.ns_since(chunk.started);
                events.push_back(SendEvent::Done { chunk: chunk.id, latency_ns });
                counters.add(chunk);
                counters.chunks += 1;
                *held_bytes -= u64::from(chunk.layout.bytes());
                *progress = now;
            }
            !done
        });
    }

    /// Processes the timers of all lanes.
    pub fn tick(&mut self, now: Instant) {
        let mut outcome = core::mem::take(&mut self.outcome);
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].tick(now, &mut outcome) {
                self.went_down(lane);
            }
            self.settle(&mut outcome, now);
        }
        self.outcome = outcome;
    }

    /// Marks `lane` as failed because of an error of its socket.
    pub fn fail(&mut self, lane: usize, now: Instant) {
        self.end(lane, now, LaneSender::fail);
    }

    /// Tells that `lane` has a new connection: probes it at once, if it does not work.
    pub fn probe_now(&mut self, lane: usize) {
        if let Some(sender) = self.lanes.get_mut(lane) {
            sender.probe_now();
        }
    }

    /// Closes a lane permanently.
    pub fn close(&mut self, lane: usize, now: Instant) {
        self.end(lane, now, |sender, _now, outcome| sender.close(outcome));
    }

    fn end(
        &mut self,
        lane: usize,
        now: Instant,
        how: fn(&mut LaneSender, Instant, &mut FlightUpdate),
    ) {
        let Some(sender) = self.lanes.get_mut(lane) else { return };
        let was_alive = sender.state() == LaneState::Alive;
        let mut outcome = core::mem::take(&mut self.outcome);
        how(sender, now, &mut outcome);
        if was_alive {
            self.went_down(lane);
        }
        self.settle(&mut outcome, now);
        self.outcome = outcome;
    }

    /// The header of a packet with control messages on `lane`, if the lane works; its number is
    /// assigned.
    pub fn control_header(&mut self, lane: usize, now: Instant) -> Option<Header> {
        let packet_number = self.lanes.get_mut(lane)?.number(now)?;
        Some(self.header(Kind::Control, lane, packet_number))
    }

    /// Probes the lanes that seem to work: the other end is not heard although it was asked, so that their addresses may
    /// have changed.
    pub fn validate_lanes(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.state() == LaneState::Alive) {
            lane.validate();
        }
    }

    /// When to call [`Sender::tick`] and [`Sender::poll`] for `lane` again.
    #[must_use]
    pub fn next_wakeup(&self, lane: usize) -> Option<Instant> {
        let sender = self.lanes.get(lane)?;
        let (work, quiet) = (self.has_work(lane), self.quiet_due(lane));
        let later = if work { None } else { self.may_start(lane) };
        let start = later.and_then(|(_, from)| Some(sender.next_wakeup(true)?.max(from)));
        [sender.next_wakeup(work), quiet, start].into_iter().flatten().min()
    }
}

impl SendCounters {
    fn add(&mut self, chunk: &Chunk) {
        self.resent += u64::from(chunk.resent);
        self.duplicates += u64::from(chunk.duplicates);
        self.repair += u64::from(chunk.repair);
        self.repaired += u64::from(chunk.repaired);
        self.exposed += u64::from(chunk.exposed);
    }
}

/// The chunk with a number, searched from `at` on, because pieces come in runs.
fn find<'a>(chunks: &'a mut [Chunk], at: &mut usize, id: u32) -> Option<&'a mut Chunk> {
    if chunks.get(*at).is_none_or(|chunk| chunk.id != id) {
        *at = chunks.iter().position(|chunk| chunk.id == id)?;
    }
    chunks.get_mut(*at)
}

#[cfg(test)]
mod tests;
