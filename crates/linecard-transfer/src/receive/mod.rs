//! The receiving end: where packets belong, which chunks are complete, what to acknowledge, and how
//! far the sender may go.
//!
//! The caller decrypts packets and stores the bytes. It asks where they belong
//! ([`Receiver::receive`]), copies them there, repairs groups and writes chunks as
//! [`Receiver::next_event`] requests, and sends what [`Receiver::poll`] returns.

mod chunk;

use crate::fec::Scheme;
use crate::lane::{AckSettings, Challenges, LaneReceiver};
use crate::layout::{Layout, LayoutError, PacketRole};
use crate::wire::{Ack, DONE_BITS, DONE_WORDS, FEW_DONE_BITS, Header, Kind, MAX_LANES, Probe};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use chunk::{Incoming, Step};
use core::net::SocketAddr;
use core::ops::Range;
use linecard::time::Instant;

/// The most chunks in progress: as many as an acknowledgment can report.
pub const MAX_WINDOW: u32 = DONE_BITS;

/// The most chunks in progress with a sender of this version of the messages.
#[must_use]
pub const fn max_window(version: u16) -> u32 {
    if version < 4 { FEW_DONE_BITS } else { MAX_WINDOW }
}

/// The agreed parameters, and the behaviour of this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveSettings {
    /// The connection's number.
    pub connection: u32,
    /// Lanes.
    pub lanes: usize,
    /// Data bytes of a packet.
    pub payload_bytes: u32,
    /// Bytes of a full chunk.
    pub chunk_bytes: u32,
    /// The error correction scheme.
    pub fec: Scheme,
    /// Chunks from the oldest that is in progress or not yet taken by the caller to the newest, 1 to [`MAX_WINDOW`].
    pub window: u32,
    /// Bytes of these chunks, as announced, and otherwise of full ones, with all repair that may come for them: the bound
    /// on memory. One chunk may come in any case.
    pub memory_bytes: u64,
    /// When packets are acknowledged.
    pub ack: AckSettings,
}

/// Where a packet's bytes belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Into the chunk.
    Data {
        /// The chunk.
        chunk: u32,
        /// The offset in the chunk.
        offset: u32,
        /// The length of the chunk: before it is announced, that of a full one.
        of: u32,
    },
    /// The repair of a group of the chunk.
    Repair {
        /// The chunk.
        chunk: u32,
        /// The group.
        group: u32,
        /// The row.
        row: u32,
    },
    /// Nowhere: it concerned the lane. `validated` if it validates the sender's address.
    Probe {
        /// The address is validated now.
        validated: bool,
    },
    /// The lane is closed.
    Close,
    /// The control channel.
    Control,
    /// Nowhere.
    Refused(Refusal),
}

/// Why a packet is refused. Each kind is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// Its number was received before.
    Replayed,
    /// Its content was received before, or is no longer needed.
    Repeated,
    /// Its chunk is beyond the window.
    Window,
    /// Its chunk has no such packet.
    Place,
    /// Its length is wrong.
    Length,
    /// Its lane, connection or kind is unknown.
    Unknown,
}

/// Counters of packets, and of each kind of [`Refusal`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// Packets accepted.
    pub taken: u64,
    /// Groups repaired.
    pub repaired: u64,
    /// Chunks completed.
    pub chunks: u64,
    /// Numbers received twice.
    pub replayed: u64,
    /// Data received twice.
    pub repeated: u64,
    /// Beyond the window.
    pub window: u64,
    /// No such packet in its chunk.
    pub place: u64,
    /// Wrong lengths.
    pub length: u64,
    /// Wrong lanes, connections or kinds.
    pub stranger: u64,
    /// Acknowledgments sent.
    pub acks: u64,
}

/// An action that the caller has to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveEvent {
    /// Repair a group, before anything else is stored in its chunk.
    Repair {
        /// The chunk.
        chunk: u32,
        /// The group.
        group: u32,
        /// Bytes of the chunk.
        bytes: u32,
        /// The data packets of the group that are missing, as bits.
        missing: [u64; 4],
    },
    /// A chunk is complete: take its bytes, then call [`Receiver::taken`].
    Whole {
        /// The chunk.
        chunk: u32,
        /// Its length.
        bytes: u32,
    },
}

/// A packet to be sent on a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An acknowledgment.
    Ack(Ack),
    /// An answer to a probe.
    Probe(Probe),
}

impl Reply {
    /// The kind of its packet.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Ack(_) => Kind::Ack,
            Self::Probe(_) => Kind::Probe,
        }
    }

    /// Appends the body of its packet.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ack(ack) => ack.write(out),
            Self::Probe(probe) => probe.write(out, Probe::BYTES),
        }
    }
}

/// Why an announcement is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnounceError {
    /// The chunk cannot be divided into packets.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// It contradicts packets received, or an earlier announcement.
    #[error("chunk {0} is announced with a length that it does not have")]
    Contradiction(u32),
    /// It exceeds the chunk size.
    #[error("chunk {chunk} is announced with {bytes} bytes: agreed are {most}")]
    TooLong {
        /// The chunk.
        chunk: u32,
        /// As announced.
        bytes: u32,
        /// As agreed.
        most: u32,
    },
    /// It is beyond the window.
    #[error("chunk {0} is announced beyond the window")]
    Window(u32),
}

/// The state of a chunk in the window.
#[derive(Debug)]
enum Spot {
    Empty,
    Coming(Incoming),
    /// With this many bytes.
    Whole(u32),
    /// The same: others may be held until their turn.
    Taken(u32),
}

impl Spot {
    /// Bytes of memory that it may take, where `full` is the layout of a full chunk.
    fn memory_bytes(&self, full: &Layout) -> u64 {
        match self {
            Self::Empty => full.memory_bytes(),
            // Before it is announced, that of a full one.
            Self::Coming(incoming) => incoming.layout().memory_bytes(),
            Self::Whole(bytes) | Self::Taken(bytes) => u64::from(*bytes),
        }
    }
}

/// The receiving end of a transfer.
#[derive(Debug)]
pub struct Receiver {
    settings: ReceiveSettings,
    full: Layout,
    lanes: Vec<LaneReceiver>,
    /// From chunk `base` on.
    window: VecDeque<Spot>,
    base: u32,
    /// Chunks from this number on must not be sent yet.
    end: u32,
    /// Chunks that will not be received, in order: those present before, and those given up.
    had: VecDeque<Range<u32>>,
    events: VecDeque<ReceiveEvent>,
    counters: ReceiveCounters,
    challenges: Challenges,
}

impl Receiver {
    /// A receiver; `had` are chunks that it has already, in order. A seed in place of `challenges` is for simulations.
    ///
    /// # Errors
    ///
    /// If chunks cannot be divided into such packets.
    pub fn new(
        settings: ReceiveSettings,
        had: &[Range<u32>],
        challenges: impl Into<Challenges>,
    ) -> Result<Self, LayoutError> {
        let full = Layout::new(settings.chunk_bytes, settings.payload_bytes, settings.fec)?;
        let lanes = settings.lanes.min(MAX_LANES);
        let mut receiver = Self {
            full,
            lanes: (0..lanes).map(|_| LaneReceiver::new(settings.ack)).collect(),
            window: VecDeque::new(),
            base: 0,
            end: 0,
            had: had.iter().filter(|range| !range.is_empty()).cloned().collect(),
            events: VecDeque::new(),
            counters: ReceiveCounters::default(),
            challenges: challenges.into(),
            settings: ReceiveSettings { window: settings.window.clamp(1, MAX_WINDOW), ..settings },
        };
        receiver.advance();
        Ok(receiver)
    }

    /// Counters.
    #[must_use]
    pub const fn counters(&self) -> ReceiveCounters {
        self.counters
    }

    /// The connection's number.
    #[must_use]
    pub const fn connection(&self) -> u32 {
        self.settings.connection
    }

    /// Chunks from this number on must not be sent yet. More may come when lengths are announced, and chunks taken.
    #[must_use]
    pub const fn window_end(&self) -> u32 {
        self.end
    }

    /// Chunks from this number on cannot be announced yet.
    #[must_use]
    pub const fn announce_end(&self) -> u32 {
        self.base.saturating_add(self.settings.window)
    }

    /// All chunks below are complete, and taken.
    #[must_use]
    pub const fn taken_below(&self) -> u32 {
        self.base
    }

    /// The layout of a chunk that has not been taken.
    #[must_use]
    pub fn layout(&self, chunk: u32) -> Option<&Layout> {
        match self.window.get(chunk.checked_sub(self.base)? as usize)? {
            Spot::Coming(incoming) => Some(incoming.layout()),
            _ => None,
        }
    }

    /// Whether data packet `index` of `chunk` has arrived.
    #[must_use]
    pub fn has(&self, chunk: u32, index: u32) -> bool {
        let place = chunk.checked_sub(self.base).and_then(|place| self.window.get(place as usize));
        matches!(place, Some(Spot::Coming(incoming)) if incoming.has(index))
    }

    /// Announces that `chunk` has `bytes`. It is complete only after that; data may arrive before.
    ///
    /// # Errors
    ///
    /// An invalid length. The transfer cannot continue, because the other end has a bug.
    pub fn announce(&mut self, chunk: u32, bytes: u32) -> Result<(), AnnounceError> {
        let most = self.settings.chunk_bytes;
        if bytes > most {
            return Err(AnnounceError::TooLong { chunk, bytes, most });
        }
        let layout = Layout::new(bytes, self.settings.payload_bytes, self.settings.fec)?;
        if self.is_had(chunk) || chunk < self.base {
            return Ok(());
        }
        if chunk >= self.announce_end() {
            return Err(AnnounceError::Window(chunk));
        }
        match self.place(chunk) {
            place @ Spot::Empty => *place = Spot::Coming(Incoming::new(layout, true)),
            Spot::Coming(incoming) => {
                let repairable =
                    incoming.announce(layout).map_err(|_| AnnounceError::Contradiction(chunk))?;
                for group in repairable {
                    self.step(chunk, Step::Repairable(group));
                }
                self.step(chunk, Step::Taken);
            }
            Spot::Whole(_) | Spot::Taken(_) => {}
        }
        if bytes < most && self.extend() {
            self.owe_at_once();
        }
        Ok(())
    }

    /// Skips chunks: they are present already, or the sender has given them up. Ranges do not
    /// overlap. The caller drops what has come of them.
    pub fn skip(&mut self, chunks: Range<u32>) {
        if !chunks.is_empty() && chunks.end > self.base {
            let at = self.had.partition_point(|had| had.start < chunks.start);
            self.had.insert(at, chunks);
            self.advance();
            self.owe_at_once();
        }
    }

    fn owe_at_once(&mut self) {
        self.lanes.iter_mut().for_each(LaneReceiver::owe_at_once);
    }

    /// Processes a decrypted packet of a lane that is connected by nature.
    pub fn receive(&mut self, header: &Header, body: &[u8], now: Instant) -> Arrival {
        self.receive_from(header, (body, None), now)
    }

    /// Processes a decrypted packet, and where it came from, if it has an address.
    pub fn receive_from(
        &mut self,
        header: &Header,
        (body, from): (&[u8], Option<SocketAddr>),
        now: Instant,
    ) -> Arrival {
        let arrival = self.look_at(header, (body, from), now);
        match arrival {
            Arrival::Data { .. } | Arrival::Repair { .. } => self.counters.taken += 1,
            Arrival::Refused(refusal) => *self.counters.of(refusal) += 1,
            Arrival::Probe { .. } | Arrival::Close | Arrival::Control => {}
        }
        arrival
    }

    fn look_at(
        &mut self,
        header: &Header,
        (body, from): (&[u8], Option<SocketAddr>),
        now: Instant,
    ) -> Arrival {
        let lane = usize::from(header.lane);
        if lane >= self.lanes.len() || header.connection != self.settings.connection {
            return Arrival::Refused(Refusal::Unknown);
        }
        let place = match header.kind {
            Kind::Data => PacketRole::of_data(header.index),
            Kind::Repair => PacketRole::of_repair(header.index),
            Kind::Probe => return self.probed(header, (body, from), now),
            Kind::Close => return Arrival::Close,
            Kind::Control => {
                let is_new = self.lanes[lane].arrived(header.packet_number, now);
                return if is_new { Arrival::Control } else { Arrival::Refused(Refusal::Replayed) };
            }
            Kind::Ack => return Arrival::Refused(Refusal::Unknown),
        };
        let sender = &mut self.lanes[lane];
        if !sender.arrived(header.packet_number, now) {
            return Arrival::Refused(Refusal::Replayed);
        }
        sender.owe(now);
        if header.ack_now {
            sender.owe_at_once();
        }
        let arrival = self.take(header.chunk, place, body.len() as u32);
        // A chunk received twice must not be waited for.
        if arrival == Arrival::Refused(Refusal::Repeated) && self.is_whole(header.chunk) {
            self.lanes[lane].owe_at_once();
        }
        arrival
    }

    fn probed(
        &mut self,
        header: &Header,
        (body, from): (&[u8], Option<SocketAddr>),
        now: Instant,
    ) -> Arrival {
        let Some(probe) = Probe::parse(body) else { return Arrival::Refused(Refusal::Length) };
        let lane = &mut self.lanes[usize::from(header.lane)];
        if !lane.arrived(header.packet_number, now) {
            return Arrival::Refused(Refusal::Replayed);
        }
        Arrival::Probe { validated: lane.probed(probe, from, now) }
    }

    fn take(&mut self, chunk: u32, place: PacketRole, bytes: u32) -> Arrival {
        if chunk >= self.window_end() {
            return Arrival::Refused(Refusal::Window);
        }
        if chunk < self.base || self.is_had(chunk) {
            return Arrival::Refused(Refusal::Repeated);
        }
        let full = self.full;
        let slot = self.place(chunk);
        if matches!(slot, Spot::Empty) {
            *slot = Spot::Coming(Incoming::new(full, false));
        }
        let Spot::Coming(incoming) = slot else {
            return Arrival::Refused(Refusal::Repeated);
        };
        if let Err(refusal) = incoming.check(place, bytes) {
            return Arrival::Refused(refusal);
        }
        let step = incoming.take(place, bytes);
        let arrival = match place {
            PacketRole::Data { index } => {
                let layout = incoming.layout();
                Arrival::Data { chunk, offset: layout.offset(index), of: layout.bytes() }
            }
            PacketRole::Repair { group, row } => Arrival::Repair { chunk, group, row },
        };
        self.step(chunk, step);
        arrival
    }

    /// Queues the events that follow from a packet.
    fn step(&mut self, chunk: u32, step: Step) {
        let Spot::Coming(incoming) = self.place(chunk) else { return };
        if let Step::Repairable(group) = step {
            let bytes = incoming.layout().bytes();
            let missing = incoming.repair(group);
            let whole = incoming.is_whole().then_some(bytes);
            self.counters.repaired += 1;
            self.events.push_back(ReceiveEvent::Repair { chunk, group, bytes, missing });
            return self.end(chunk, whole);
        }
        let whole = incoming.is_whole().then(|| incoming.layout().bytes());
        self.end(chunk, whole);
    }

    fn end(&mut self, chunk: u32, whole: Option<u32>) {
        let Some(bytes) = whole else { return };
        *self.place(chunk) = Spot::Whole(bytes);
        self.counters.chunks += 1;
        self.events.push_back(ReceiveEvent::Whole { chunk, bytes });
        // The sender waits for that acknowledgment.
        self.owe_at_once();
    }

    /// The next action that the caller has to take.
    pub fn next_event(&mut self) -> Option<ReceiveEvent> {
        self.events.pop_front()
    }

    /// Tells that the caller has stored a complete chunk: the window moves.
    pub fn taken(&mut self, chunk: u32) {
        if chunk < self.base || chunk >= self.window_end() {
            return;
        }
        let place = self.place(chunk);
        if let Spot::Whole(bytes) = *place {
            *place = Spot::Taken(bytes);
            if self.advance() {
                self.owe_at_once();
            }
        }
    }

    /// Moves the window behind what has been taken and what will not come. Whether more may be sent.
    fn advance(&mut self) -> bool {
        loop {
            if let Some(Spot::Taken(_)) = self.window.front() {
                self.window.pop_front();
                self.base += 1;
                continue;
            }
            let had = self.had.front().filter(|had| had.start <= self.base);
            let Some(end) = had.map(|had| had.end) else { break };
            self.had.pop_front();
            while self.base < end {
                self.window.pop_front();
                self.base += 1;
            }
        }
        self.extend()
    }

    /// Opens the window as far as there is memory: lengths become known and chunks are taken, so that it never closes.
    /// Whether it has opened.
    fn extend(&mut self) -> bool {
        let (mut end, mut held) = (self.base, 0);
        while end < self.announce_end() {
            let spot = self.window.get((end - self.base) as usize).unwrap_or(&Spot::Empty);
            held += if self.is_had(end) { 0 } else { spot.memory_bytes(&self.full) };
            if held > self.settings.memory_bytes && end > self.base {
                break;
            }
            end += 1;
        }
        let has_opened = end > self.end;
        self.end = self.end.max(end);
        has_opened
    }

    fn is_had(&self, chunk: u32) -> bool {
        let at = self.had.partition_point(|had| had.end <= chunk);
        self.had.get(at).is_some_and(|had| had.contains(&chunk))
    }

    fn is_whole(&self, chunk: u32) -> bool {
        let Some(place) = chunk.checked_sub(self.base) else { return true };
        let place = self.window.get(place as usize);
        matches!(place, Some(Spot::Whole(_) | Spot::Taken(_))) || self.is_had(chunk)
    }

    /// The state of a chunk within the window.
    fn place(&mut self, chunk: u32) -> &mut Spot {
        let place = (chunk - self.base) as usize;
        while self.window.len() <= place {
            self.window.push_back(Spot::Empty);
        }
        &mut self.window[place]
    }

    /// A packet to be sent on `lane` now, and its address: of an answer to a probe, where that came from; of an
    /// acknowledgment, where the sender has answered a challenge. None on a lane that is connected by nature, and for an
    /// acknowledgment before an address is validated. To be called until it returns nothing.
    pub fn poll(&mut self, lane: usize, now: Instant) -> Option<(Reply, Option<SocketAddr>)> {
        let receiver = self.lanes.get_mut(lane)?;
        if let Some((probe, to)) = receiver.answer(now, &mut self.challenges) {
            return Some((Reply::Probe(probe), to));
        }
        receiver.ack_due().filter(|due| *due <= now)?;
        let (ranges, delay_us) = receiver.acknowledge(now);
        let to = receiver.address();
        self.counters.acks += 1;
        let (done_below, done) = self.done();
        let window_end = self.window_end();
        let ack = Ack { lane: lane as u16, window_end, done_below, done, delay_us, ranges };
        Some((Reply::Ack(ack), to))
    }

    /// When to call [`Receiver::poll`] for `lane` if no packet arrives earlier.
    #[must_use]
    pub fn next_wakeup(&self, lane: usize) -> Option<Instant> {
        let lane = self.lanes.get(lane)?;
        if lane.has_answer() { Some(Instant::ZERO) } else { lane.ack_due() }
    }

    /// A lane's state.
    #[must_use]
    pub fn lane(&self, lane: usize) -> Option<&LaneReceiver> {
        self.lanes.get(lane)
    }

    /// The number below which all chunks are complete, and which above are, as bits.
    fn done(&self) -> (u32, [u64; DONE_WORDS]) {
        let mut below = self.base;
        while self.is_done_at(below) {
            below += 1;
        }
        let mut words = [0; DONE_WORDS];
        let end = self.known_end().min(below.saturating_add(1 + DONE_BITS));
        for chunk in below.saturating_add(1)..end {
            let bit = chunk - below - 1;
            words[bit as usize / 64] |= u64::from(self.is_whole(chunk)) << (bit % 64);
        }
        (below, words)
    }

    /// Of chunks from this on nothing has come.
    fn known_end(&self) -> u32 {
        self.base.saturating_add(self.window.len() as u32)
    }

    fn is_done_at(&self, chunk: u32) -> bool {
        chunk < self.known_end() && self.is_whole(chunk)
    }
}

impl ReceiveCounters {
    fn of(&mut self, refusal: Refusal) -> &mut u64 {
        match refusal {
            Refusal::Replayed => &mut self.replayed,
            Refusal::Repeated => &mut self.repeated,
            Refusal::Window => &mut self.window,
            Refusal::Place => &mut self.place,
            Refusal::Length => &mut self.length,
            Refusal::Unknown => &mut self.stranger,
        }
    }
}

#[cfg(test)]
mod tests;
