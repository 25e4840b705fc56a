//! A transfer in virtual time: both real ends, with simulated links between them.
//!
//! Equal seeds give equal runs, to the last packet. Bytes are moved, repaired and compared if
//! requested ([`Settings::content`]).

mod device;
mod link;

pub use device::DeviceSettings;
pub use link::{Delivery, Faults, Link, LinkCounters, LinkSettings};

use crate::control::Mode;
use crate::lane::{AckSettings, LaneCounters, LaneSettings};
use crate::layout::LayoutError;
use crate::receive::{Arrival, ReceiveCounters, ReceiveEvent, ReceiveSettings, Receiver};
use crate::send::{Content, SendCounters, SendEvent, SendSettings, Sender, Transmit};
use crate::store::{Source, Store};
use crate::wire::{Header, Kind, OVERHEAD_BYTES};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;
use device::Device;
use linecard::progress::{Progress, Ticker};
use linecard::rng::Rng;
use linecard::time::Instant;

/// Packets requested from a lane at once.
const BATCH: usize = 16;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Lanes: the sender's settings of each, and its link.
    pub lanes: Vec<(LaneSettings, LinkSettings)>,
    /// All lanes share the link of the first.
    pub one_link: bool,
    /// Settings of the sender.
    pub send: SendSettings,
    /// Number of chunks to send.
    pub chunks: u32,
    /// Bytes of each but the last.
    pub chunk_bytes: u32,
    /// Bytes of the last.
    pub last_bytes: u32,
    /// Chunks that the receiver has already.
    pub had: Vec<Range<u32>>,
    /// Chunks in flight or not yet taken.
    pub window: u32,
    /// Bytes of these: the receiver's memory.
    pub memory_bytes: u64,
    /// When packets are acknowledged.
    pub ack: AckSettings,
    /// Time that the sender's host takes to start a chunk on a lane, in ns.
    pub begin_ns: u64,
    /// A device at each end that all packets pass before they leave and after they come, if there is one.
    pub device: Option<DeviceSettings>,
    /// Time that the receiver takes to store a chunk, in ns.
    pub take_ns: u64,
    /// From the beginning of a chunk to the announcement of its length at the receiver, in ns.
    pub announce_ns: u64,
    /// How much faster the receiver's clock runs, in millionths.
    pub skew_ppm: i32,
    /// A change of the mode at a given time.
    pub switch: Option<(Instant, Mode)>,
    /// The run is given up after this long without progress, in ns.
    pub patience_ns: u64,
    /// Move and compare bytes.
    pub content: bool,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lanes: Vec::new(),
            one_link: false,
            send: SendSettings::default(),
            chunks: 16,
            chunk_bytes: 1 << 20,
            last_bytes: 1 << 20,
            had: Vec::new(),
            window: 32,
            memory_bytes: u64::MAX,
            ack: AckSettings::default(),
            begin_ns: 0,
            device: None,
            take_ns: 0,
            announce_ns: 0,
            skew_ppm: 0,
            switch: None,
            patience_ns: 30_000_000_000,
            content: false,
            seed: 1,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimOutcome {
    /// When the last chunk was known to be complete.
    pub end: Instant,
    /// Bytes sent and received.
    pub bytes: u64,
    /// Per chunk, in order of completion: time from its first packet to the acknowledgment, in ns.
    pub latencies_ns: Vec<u64>,
    /// Time from a chunk's first packet until the receiver had it completely, in ns, in order of
    /// chunk numbers.
    pub arrivals_ns: Vec<u64>,
    /// The sender's counters.
    pub send: SendCounters,
    /// The receiver's.
    pub receive: ReceiveCounters,
    /// Those of the lanes.
    pub lanes: Vec<LaneCounters>,
    /// Those of the links, towards the receiver.
    pub links: Vec<LinkCounters>,
    /// The longest time between accepted packets, in ns.
    pub longest_stall_ns: u64,
    /// Datagrams that failed authentication.
    pub broken: u64,
    /// Time that the sender's device computed, in ns.
    pub device_busy_ns: u64,
}

impl SimOutcome {
    /// Bytes received per time, in bit/s.
    #[must_use]
    pub fn goodput_bits_per_second(&self) -> f64 {
        self.bytes as f64 * 8e9 / self.end.as_ns().max(1) as f64
    }

    /// The median latency of chunks, in ns.
    #[must_use]
    pub fn median_latency_ns(&self) -> u64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }
}

/// Why a run did not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Chunks that cannot be divided into packets.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No progress for too long.
    #[error("no packet arrived for {} s: {done} of {chunks} chunks are complete", patience_ns / 1_000_000_000)]
    Stalled {
        /// The time waited.
        patience_ns: u64,
        /// Chunks completed.
        done: u64,
        /// Chunks in all.
        chunks: u32,
    },
    /// The receiver has other bytes than the sender: a bug of this crate.
    #[error("chunk {0} differs from the sent data")]
    Wrong(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    WakeSender(usize),
    WakeReceiver(usize),
    /// Back from the sender's device.
    Depart(Transmit),
    /// At the receiver's device.
    Landed(Transmit),
    Data(Transmit),
    Reply(usize, Header, Vec<u8>),
    Announce(u32),
    Taken(u32),
    Switch,
}

struct Run {
    settings: Settings,
    sender: Sender,
    receiver: Receiver,
    there: Vec<Link>,
    back: Vec<Link>,
    /// Of the sender and of the receiver.
    devices: Option<[Device; 2]>,
    back_numbers: Vec<u64>,
    heap: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    wake_sender: Vec<Instant>,
    wake_receiver: Vec<Instant>,
    begun: Vec<Vec<u32>>,
    begun_at: Vec<Option<Instant>>,
    next_chunk: u32,
    source: Option<Source>,
    store: Option<Store>,
    rng: Rng,
    outcome: SimOutcome,
    last_taken: Option<Instant>,
    scratch: Vec<Transmit>,
}

struct Entry {
    at: Instant,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// Runs `settings` to the end.
///
/// # Errors
///
/// If chunks cannot be divided into packets, there is no progress, or bytes are wrong.
///
/// ```
/// use linecard_transfer::lane::LaneSettings;
/// use linecard_transfer::sim::{LinkSettings, Settings, run};
/// let lane = LaneSettings { rate_bits_per_second: 10_000_000_000, ..LaneSettings::default() };
/// let settings = Settings {
///     lanes: vec![(lane, LinkSettings::default()); 2],
///     content: true,
///     ..Settings::default()
/// };
/// let outcome = run(&settings).unwrap();
/// assert_eq!(outcome.bytes, 16 << 20);
/// assert!(outcome.goodput_bits_per_second() > 17e9);
/// ```
pub fn run(settings: &Settings) -> Result<SimOutcome, RunError> {
    run_with_progress(settings, &Progress::new())
}

/// [`run`] with progress in chunks; on cancellation it ends with the results so far.
///
/// # Errors
///
/// As [`run`].
pub fn run_with_progress(settings: &Settings, progress: &Progress) -> Result<SimOutcome, RunError> {
    let mut ticker = Ticker::new(progress, settings.chunks as usize);
    let mut run = Run::new(settings)?;
    run.offer()?;
    for lane in 0..run.there.len() {
        run.push(Instant::ZERO, Event::WakeSender(lane));
    }
    if let Some((at, _)) = settings.switch {
        run.push(at, Event::Switch);
    }
    while !run.sender.is_done() && ticker.keep_going(run.outcome.latencies_ns.len()) {
        let Some(Reverse(entry)) = run.heap.pop() else { return Err(run.stalled()) };
        let since = run.sender.last_progress().max(run.last_taken.unwrap_or(Instant::ZERO));
        if entry.at.ns_since(since) > settings.patience_ns {
            return Err(run.stalled());
        }
        run.handle(entry.event, entry.at)?;
        run.outcome.end = entry.at;
    }
    Ok(run.finish())
}

impl Run {
    fn new(settings: &Settings) -> Result<Self, RunError> {
        let lanes = settings.lanes.len();
        let lane_settings: Vec<LaneSettings> = settings.lanes.iter().map(|lane| lane.0).collect();
        let link = |lane: &(LaneSettings, LinkSettings)| Link::new(lane.1.clone());
        let receive = ReceiveSettings {
            connection: settings.send.connection,
            lanes,
            payload_bytes: settings.send.payload_bytes,
            chunk_bytes: settings.chunk_bytes,
            fec: settings.send.fec.scheme(),
            window: settings.window,
            memory_bytes: settings.memory_bytes,
            ack: settings.ack,
        };
        let receiver = Receiver::new(receive, &settings.had, settings.seed ^ 1)?;
        let send = SendSettings { window_end: receiver.window_end(), ..settings.send };
        let content = settings.content;
        Ok(Self {
            sender: Sender::new(send, &lane_settings, settings.seed ^ 2),
            receiver,
            there: settings.lanes.iter().map(link).collect(),
            back: settings.lanes.iter().map(link).collect(),
            devices: settings
                .device
                .as_ref()
                .map(|device| [(); 2].map(|()| Device::new(device, lanes))),
            back_numbers: alloc::vec![0; lanes],
            heap: BinaryHeap::new(),
            sequence: 0,
            wake_sender: alloc::vec![Instant::NEVER; lanes],
            wake_receiver: alloc::vec![Instant::NEVER; lanes],
            begun: alloc::vec![Vec::new(); lanes],
            begun_at: alloc::vec![None; settings.chunks as usize],
            next_chunk: 0,
            source: content
                .then(|| Source::new(settings.send.payload_bytes, settings.send.fec.scheme())),
            store: content.then(|| {
                Store::new(
                    settings.chunk_bytes,
                    settings.send.payload_bytes,
                    settings.send.fec.scheme(),
                )
            }),
            rng: Rng::new(settings.seed),
            outcome: SimOutcome {
                arrivals_ns: alloc::vec![0; settings.chunks as usize],
                ..SimOutcome::default()
            },
            last_taken: None,
            scratch: Vec::new(),
            settings: settings.clone(),
        })
    }

    fn push(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    fn stalled(&self) -> RunError {
        RunError::Stalled {
            patience_ns: self.settings.patience_ns,
            done: self.receiver.counters().chunks,
            chunks: self.settings.chunks,
        }
    }

    fn finish(mut self) -> SimOutcome {
        self.outcome.send = self.sender.counters();
        self.outcome.receive = self.receiver.counters();
        self.outcome.lanes = self.sender.lane_counters().collect();
        self.outcome.links = self.there.iter().map(|link| link.counters).collect();
        self.outcome.device_busy_ns = self.devices.map_or(0, |[own, _]| own.busy_ns);
        self.outcome
    }

    /// Bytes of a chunk.
    fn bytes_of(&self, chunk: u32) -> u32 {
        let last = chunk + 1 == self.settings.chunks;
        if last { self.settings.last_bytes } else { self.settings.chunk_bytes }
    }

    fn offer(&mut self) -> Result<(), RunError> {
        while self.sender.room() > 0 && self.next_chunk < self.settings.chunks {
            let chunk = self.next_chunk;
            self.next_chunk += 1;
            if self.settings.had.iter().any(|had| had.contains(&chunk)) {
                continue;
            }
            let bytes = self.bytes_of(chunk);
            self.sender.offer(chunk, bytes)?;
            if let Some(source) = &mut self.source {
                source.put(chunk, made_up(self.settings.seed, chunk, bytes));
            }
        }
        if self.next_chunk == self.settings.chunks {
            self.sender.finish();
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, now: Instant) -> Result<(), RunError> {
        match event {
            Event::WakeSender(lane) => {
                if self.wake_sender[lane] <= now {
                    self.wake_sender[lane] = Instant::NEVER;
                }
                self.sender.tick(now);
                self.send(lane, now);
            }
            Event::WakeReceiver(lane) => {
                if self.wake_receiver[lane] <= now {
                    self.wake_receiver[lane] = Instant::NEVER;
                }
                self.reply(lane, now);
            }
            Event::Depart(transmit) => self.launch(transmit, now),
            Event::Landed(transmit) => self.land(transmit, now),
            Event::Data(transmit) => self.arrive(transmit, now)?,
            Event::Reply(lane, header, body) => {
                self.sender.receive(&header, &body, now);
                self.take_events();
                self.offer()?;
                self.wake_all(now, lane);
            }
            Event::Announce(chunk) => {
                let bytes = self.bytes_of(chunk);
                self.receiver.announce(chunk, bytes).map_err(|_| RunError::Wrong(chunk))?;
                self.take_whole(now)?;
            }
            Event::Taken(chunk) => {
                self.receiver.taken(chunk);
                (0..self.there.len()).for_each(|lane| self.reply(lane, now));
            }
            Event::Switch => {
                let mode = self.settings.switch.map(|(_, mode)| mode);
                mode.into_iter().for_each(|mode| self.sender.set_mode(mode));
            }
        }
        Ok(())
    }

    /// Serves the lanes that have work now, `first` first, because progress on one lane may affect
    /// all.
    fn wake_all(&mut self, now: Instant, first: usize) {
        self.send(first, now);
        for lane in 0..self.there.len() {
            self.schedule(lane, now);
        }
    }

    fn send(&mut self, lane: usize, now: Instant) {
        let full = self.settings.send.payload_bytes + OVERHEAD_BYTES as u32;
        if self.entry(lane).ready(full) <= now {
            let mut out = core::mem::take(&mut self.scratch);
            let most = if self.settings.lanes[lane].1.queue_bytes.is_none() { 1 } else { BATCH };
            self.sender.poll(lane, now, most, &mut out);
            for transmit in out.drain(..) {
                self.depart(lane, transmit, now);
            }
            self.scratch = out;
        }
        self.schedule(lane, now);
        self.take_events();
    }

    fn schedule(&mut self, lane: usize, now: Instant) {
        let full = self.settings.send.payload_bytes + OVERHEAD_BYTES as u32;
        let Some(due) = self.sender.next_wakeup(lane) else { return };
        let at = due.max(self.entry(lane).ready(full)).max(now);
        // Time has to advance: work that is due but cannot be done now is retried a little later.
        let at = if at == now { now.plus_ns(1) } else { at };
        if at < self.wake_sender[lane] {
            self.wake_sender[lane] = at;
            self.push(at, Event::WakeSender(lane));
        }
    }

    fn depart(&mut self, lane: usize, transmit: Transmit, now: Instant) {
        if !matches!(transmit.body, Content::Probe { .. }) {
            self.begin(lane, transmit.header.chunk, now);
        }
        let Some([own, _]) = &mut self.devices else { return self.launch(transmit, now) };
        let back = own.pass(lane, datagram_bytes(&transmit), now, &mut self.rng);
        back.into_iter().for_each(|at| self.push(at, Event::Depart(transmit)));
    }

    /// Sends a packet over its lane.
    fn launch(&mut self, transmit: Transmit, now: Instant) {
        let lane = usize::from(transmit.header.lane);
        let link = self.link(lane);
        let fate = self.there[link].send(datagram_bytes(&transmit), now, &mut self.rng);
        if fate.corrupt {
            self.outcome.broken += 1;
            return;
        }
        let landed = if self.devices.is_some() { Event::Landed } else { Event::Data };
        for at in fate.arrivals.into_iter().flatten() {
            self.push(at, landed(transmit));
        }
    }

    /// Gives a packet that came to the receiver's device.
    fn land(&mut self, transmit: Transmit, now: Instant) {
        let (lane, bytes) = (usize::from(transmit.header.lane), datagram_bytes(&transmit));
        let Some([_, other]) = &mut self.devices else { return };
        let back = other.pass(lane, bytes, now, &mut self.rng);
        back.into_iter().for_each(|at| self.push(at, Event::Data(transmit)));
    }

    /// The link over which packets leave the sender's host.
    fn entry(&mut self, lane: usize) -> &mut Link {
        let link = self.link(lane);
        match &mut self.devices {
            Some([own, _]) => own.entry(lane),
            None => &mut self.there[link],
        }
    }

    /// The number of a lane's link, towards the receiver.
    fn link(&self, lane: usize) -> usize {
        if self.settings.one_link { 0 } else { lane }
    }

    /// The first packet of a chunk on a lane costs its host some time.
    fn begin(&mut self, lane: usize, chunk: u32, now: Instant) {
        if self.begun[lane].contains(&chunk) {
            return;
        }
        if self.begun[lane].len() >= 64 {
            self.begun[lane].remove(0);
        }
        self.begun[lane].push(chunk);
        let begin_ns = self.settings.begin_ns;
        self.entry(lane).hold(begin_ns, now);
        if self.begun_at[chunk as usize].is_none() {
            self.begun_at[chunk as usize] = Some(now);
            self.push(now.plus_ns(self.settings.announce_ns), Event::Announce(chunk));
        }
    }

    fn arrive(&mut self, transmit: Transmit, now: Instant) -> Result<(), RunError> {
        let Transmit { header, body } = transmit;
        let lane = usize::from(header.lane);
        let mut bytes = Vec::new();
        let length = match body {
            Content::Probe { probe, bytes: padded } => {
                probe.write(&mut bytes, padded as usize);
                padded
            }
            Content::Data { bytes, .. } | Content::Repair { bytes, .. } => bytes,
        };
        if let (Some(source), true) = (&mut self.source, header.kind != Kind::Probe) {
            source.fill(&transmit, &mut bytes);
        }
        bytes.resize(length as usize, 0);
        let arrival = self.receiver.receive(&header, &bytes, self.skewed(now));
        if let Some(store) = &mut self.store {
            store.put(arrival, &bytes);
        }
        if matches!(arrival, Arrival::Data { .. } | Arrival::Repair { .. }) {
            let stall_ns = self.last_taken.map_or(0, |last| now.ns_since(last));
            self.outcome.longest_stall_ns = self.outcome.longest_stall_ns.max(stall_ns);
            self.last_taken = Some(now);
        }
        self.take_whole(now)?;
        self.reply(lane, now);
        Ok(())
    }

    fn skewed(&self, now: Instant) -> Instant {
        let skew = i128::from(now.as_ns()) * i128::from(self.settings.skew_ppm) / 1_000_000;
        // The receiver's clock also has another epoch.
        Instant::from_ns((i128::from(now.as_ns()) + skew).max(0) as u64 + 1_234_567)
    }

    fn unskewed(&self, at: Instant) -> Instant {
        let ns = i128::from(at.as_ns()) - 1_234_567;
        Instant::from_ns(
            (ns * 1_000_000 / i128::from(1_000_000 + self.settings.skew_ppm)).max(0) as u64
        )
    }

    fn take_whole(&mut self, now: Instant) -> Result<(), RunError> {
        while let Some(event) = self.receiver.next_event() {
            match event {
                ReceiveEvent::Repair { chunk, group, bytes, missing } => {
                    if let Some(store) = &mut self.store
                        && !store.repair(chunk, group, bytes, &missing)
                    {
                        return Err(RunError::Wrong(chunk));
                    }
                }
                ReceiveEvent::Whole { chunk, bytes } => self.whole(chunk, bytes, now)?,
            }
        }
        Ok(())
    }

    fn whole(&mut self, chunk: u32, bytes: u32, now: Instant) -> Result<(), RunError> {
        self.outcome.bytes += u64::from(bytes);
        let begun = self.begun_at[chunk as usize].unwrap_or(now);
        self.outcome.arrivals_ns[chunk as usize] = now.ns_since(begun);
        if let Some(store) = &mut self.store {
            let should = made_up(self.settings.seed, chunk, bytes);
            let Some(got) = store.take(chunk).filter(|got| got.starts_with(&should)) else {
                return Err(RunError::Wrong(chunk));
            };
            store.give_back(got);
        }
        self.push(now.plus_ns(self.settings.take_ns), Event::Taken(chunk));
        for lane in 0..self.there.len() {
            self.push(now, Event::WakeReceiver(lane));
        }
        Ok(())
    }

    fn reply(&mut self, lane: usize, now: Instant) {
        let clock = self.skewed(now);
        while let Some((reply, _)) = self.receiver.poll(lane, clock) {
            let mut body = Vec::new();
            reply.write(&mut body);
            self.send_back(lane, reply.kind(), &body, now);
        }
        if let Some(due) = self.receiver.next_wakeup(lane) {
            let at = self.unskewed(due).max(now.plus_ns(1));
            if at < self.wake_receiver[lane] {
                self.wake_receiver[lane] = at;
                self.push(at, Event::WakeReceiver(lane));
            }
        }
    }

    fn send_back(&mut self, lane: usize, kind: Kind, body: &[u8], now: Instant) {
        let packet_number = self.back_numbers[lane];
        self.back_numbers[lane] += 1;
        let header =
            Header::without_chunk(kind, lane as u16, self.settings.send.connection, packet_number);
        let bytes = (body.len() + OVERHEAD_BYTES) as u32;
        let fate = self.back[lane].send(bytes, now, &mut self.rng);
        for at in fate.arrivals.into_iter().flatten().filter(|_| !fate.corrupt) {
            self.push(at, Event::Reply(lane, header, body.to_vec()));
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.sender.next_event() {
            if let SendEvent::Done { chunk, latency_ns } = event {
                self.outcome.latencies_ns.push(latency_ns);
                if let Some(source) = &mut self.source {
                    source.remove(chunk);
                }
            }
        }
    }
}

/// Bytes of a packet on a lane, without its framing.
fn datagram_bytes(transmit: &Transmit) -> u32 {
    let (Content::Data { bytes, .. }
    | Content::Repair { bytes, .. }
    | Content::Probe { bytes, .. }) = transmit.body;
    bytes + OVERHEAD_BYTES as u32
}

/// The bytes of a chunk, generated from the seed.
fn made_up(seed: u64, chunk: u32, bytes: u32) -> Vec<u8> {
    let mut content = alloc::vec![0; bytes as usize];
    Rng::new(seed ^ u64::from(chunk) << 32).fill(&mut content);
    content
}

#[cfg(test)]
mod tests;
