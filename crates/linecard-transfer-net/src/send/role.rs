//! The sending role of the endpoint driver: reads chunks, and has the protocol say which packet leaves on which lane.

use super::lanes::Lanes;
use super::notes::REACH_NS;
use super::objects::Objects;
use super::open::Opened;
use super::{LaneView, SendError, SendOptions, SendProgress, Sent};
use crate::control::ControlError;
use crate::end::{CoreTimes, Driver, Endpoint, Packet, Role, SealedSocket, thread_time};
use crate::lane::LaneError;
use crate::seal::SealError;
use linecard::time::Instant;
use linecard_transfer::control::Message;
use linecard_transfer::lane::LaneState;
use linecard_transfer::send::{SendEvent, Sender, Transmit};
use linecard_transfer::store::Source;
use linecard_transfer::wire::{Header, Kind};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Packets requested from a lane in one call.
const BATCH: usize = 64;

/// Callback for progress.
pub(super) type Observer<'a> = &'a mut dyn FnMut(&SendProgress);

/// The sending end.
pub(super) struct Sending<'a> {
    options: &'a SendOptions,
    objects: Objects,
    lanes: Lanes,
    sender: Sender,
    source: Source,
    /// Bytes of the chunks in flight.
    in_flight: BTreeMap<u32, u32>,
    transmits: Vec<Transmit>,
    heard_finish: bool,
    start: Instant,
    /// When the first chunk was offered.
    first: Option<Instant>,
    /// Processor time of this thread until then.
    before: Duration,
    /// When a lane was last known to carry something, or had nothing to carry.
    answered: Instant,
    latencies_ns: Vec<u64>,
    progress: SendProgress,
    observer: Observer<'a>,
}

/// Sends all objects.
pub(super) fn run(
    options: &SendOptions,
    (opened, objects): (Opened, Objects),
    driver: Driver<'_>,
    observer: Observer<'_>,
) -> Result<Sent, SendError> {
    let payload_bytes = opened.payload_bytes;
    let (clock, start) = (driver.clock, driver.clock.now());
    let (mut role, mut endpoint) = Sending::new(options, (opened, objects), observer, start);
    driver.run(&mut role, &mut endpoint)?;
    let now = clock.now();
    let stored = role.objects.stored;
    Ok(Sent {
        objects: stored.objects,
        bytes: stored.bytes,
        had_bytes: stored.had_bytes,
        elapsed: now.since(role.first.unwrap_or(start)),
        processor: Duration::ZERO,
        lane_thread: thread_time().saturating_sub(role.before),
        cores: CoreTimes::default(),
        limits: role.sender.limits(),
        latencies_ns: role.latencies_ns,
        counters: role.sender.counters(),
        lanes: role.progress.lanes,
        notes: role.progress.notes,
        payload_bytes,
        skipped: Vec::new(),
        left_out: 0,
        unchanged: stored.unchanged,
        failures: stored.failures,
        removed: stored.removed,
        unremoved: stored.unremoved,
        plan: stored.plan,
    })
}

impl Role for Sending<'_> {
    type Error = SendError;

    const GRID_NS: u64 = 250_000;

    fn is_over(&self, endpoint: &Endpoint, _now: Instant) -> bool {
        self.heard_finish && self.objects.is_finished() && endpoint.is_flushed()
    }

    fn stopped(&self) -> Result<(), SendError> {
        Err(SendError::Stopped)
    }

    fn is_known_there(error: &SendError) -> bool {
        error.is_of_other_end()
    }

    fn message(
        &mut self,
        endpoint: &mut Endpoint,
        message: Message,
        now: Instant,
    ) -> Result<(), SendError> {
        match message {
            Message::Have(have) => self.objects.order(&have, endpoint)?,
            Message::Stored { object } => self.objects.stored(object)?,
            Message::Failed(failed) => match failed.object {
                Some(object) => self.objects.refused(object, &failed.text.to_string()),
                None => return Err(self.ended_by(failed.text.to_string(), now)),
            },
            Message::Listed(listed) => self.objects.listed(&listed)?,
            Message::Removed(removed) => self.objects.removed(&removed)?,
            Message::Finish => self.heard_finish = true,
            Message::Refuse(refuse) => return Err(refuse.into()),
            _ => return Err(SendError::Unexpected("a message that only a sender sends")),
        }
        Ok(())
    }

    /// After the last message, the connection is not needed any more.
    fn disconnected(&mut self, error: ControlError) -> Result<(), SendError> {
        match error {
            ControlError::Closed | ControlError::ClosedEarly
                if self.heard_finish && self.objects.is_finished() =>
            {
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    fn take_results(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), SendError> {
        self.objects.announce(endpoint)?;
        while let Some(chunk) = self.objects.next_chunk(endpoint, self.sender.room())? {
            if self.first.is_none() {
                (self.first, self.before) = (Some(now), thread_time());
            }
            self.in_flight.insert(chunk.number, chunk.bytes);
            self.source.put(chunk.number, chunk.buffer);
            self.sender.offer(chunk.number, chunk.bytes)?;
        }
        self.sender.await_receiver(!self.objects.is_reading());
        if self.objects.is_read() {
            self.sender.finish();
        }
        Ok(())
    }

    fn has_results(&self) -> bool {
        self.sender.room() > 0 && self.objects.has_read()
    }

    fn is_up(&self, lane: usize) -> bool {
        self.lanes.is_up(lane)
    }

    fn packet(&mut self, packet: &Packet<'_>, now: Instant) -> bool {
        self.sender.receive(packet.header, packet.body, now);
        if packet.header.kind == Kind::Close {
            self.lanes.closed(packet.lane);
        }
        packet.header.kind == Kind::Control
    }

    fn lane_failed(
        &mut self,
        lane: usize,
        error: &LaneError,
        now: Instant,
    ) -> Result<(), SendError> {
        self.lanes.failed(lane, error, &mut self.sender, now)
    }

    fn process(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), SendError> {
        self.sender.tick(now);
        self.lanes.reconnect(&mut endpoint.sockets, &mut self.sender, now);
        Ok(())
    }

    fn doubt_lanes(&mut self) {
        self.sender.validate_lanes();
    }

    fn control_header(
        &mut self,
        lane: usize,
        _socket: &mut SealedSocket,
        now: Instant,
    ) -> Option<Header> {
        self.sender.control_header(lane, now)
    }

    fn fill(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        now: Instant,
    ) -> Result<(), SealError> {
        if !socket.is_idle() {
            return Ok(());
        }
        self.sender.poll(lane, now, BATCH, &mut self.transmits);
        for transmit in self.transmits.drain(..) {
            socket.push(&transmit.header, |out| {
                let _filled = self.source.fill(&transmit, out);
            });
        }
        Ok(())
    }

    fn check(&mut self, endpoint: &Endpoint, now: Instant) -> Result<(), SendError> {
        while let Some(event) = self.sender.next_event() {
            match event {
                SendEvent::Done { chunk, latency_ns } => self.done(chunk, latency_ns),
                SendEvent::Up(lane) => self.lanes.turned(lane, true, now),
                SendEvent::Down(lane) => self.lanes.turned(lane, false, now),
            }
        }
        if self.lanes.are_given_up() && !self.in_flight.is_empty() {
            return Err(SendError::Unusable);
        }
        self.check_patience(endpoint, now)
    }

    fn show(&mut self, endpoint: &Endpoint, now: Instant) {
        if now.ns_since(self.start) >= REACH_NS {
            self.lanes.look(&mut self.sender, now);
        }
        self.lanes.report_silence(&self.sender, now);
        self.report(endpoint, now);
    }

    fn ended(&mut self, endpoint: &Endpoint, is_ok: bool, now: Instant) {
        self.lanes.look(&mut self.sender, now);
        if is_ok {
            self.lanes.sum_up_silence(&self.sender, now);
        }
        self.report(endpoint, now);
    }

    fn next_wakeup(&self, lane: usize, is_idle: bool) -> Instant {
        let own = self.sender.next_wakeup(lane).filter(|_| is_idle && self.is_up(lane));
        self.lanes.next_try(lane).min(own.unwrap_or(Instant::NEVER))
    }

    fn other_fds(&self, _lane: usize) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::empty()
    }
}

impl<'a> Sending<'a> {
    /// The role at its start, and its endpoint.
    pub(super) fn new(
        options: &'a SendOptions,
        (opened, objects): (Opened, Objects),
        observer: Observer<'a>,
        start: Instant,
    ) -> (Self, Endpoint) {
        let Opened { endpoint, lanes, sender, source, .. } = opened;
        let total_bytes = objects.total_bytes();
        let mut role = Self {
            options,
            objects,
            lanes,
            sender,
            source,
            in_flight: BTreeMap::new(),
            transmits: Vec::with_capacity(BATCH),
            heard_finish: false,
            start,
            first: None,
            before: Duration::ZERO,
            answered: start,
            latencies_ns: Vec::new(),
            progress: SendProgress { total_bytes, ..SendProgress::default() },
            observer,
        };
        role.lanes.start(&mut role.sender, start);
        (role, endpoint)
    }

    /// The receiver has all of a chunk.
    fn done(&mut self, chunk: u32, latency_ns: u64) {
        self.latencies_ns.push(latency_ns);
        let bytes = self.in_flight.remove(&chunk).unwrap_or(0);
        self.progress.done_bytes += u64::from(bytes);
        if let Some(buffer) = self.source.remove(chunk) {
            self.objects.give_back(buffer);
        }
    }

    /// A receiver that waits for a slow pipe answers, and may take its time.
    fn check_patience(&mut self, endpoint: &Endpoint, now: Instant) -> Result<(), SendError> {
        let patience = self.options.patience;
        let mut states = (0..endpoint.sockets.len()).filter_map(|lane| self.sender.lane(lane));
        if self.in_flight.is_empty() || states.any(|lane| lane.state() == LaneState::Alive) {
            self.answered = now;
        }
        let is_quiet = now.since(self.answered) > patience;
        if !is_quiet && !endpoint.relay.is_silent(patience) {
            return Ok(());
        }
        // Said first, whichever clock has ended: it names what can be done.
        let reached = endpoint.sockets.iter().any(|socket| socket.counters().received > 0);
        if self.lanes.are_all_udp() && !reached && !self.in_flight.is_empty() {
            return Err(SendError::NeverReached { patience, lanes: self.lanes.specs() });
        }
        if is_quiet {
            return Err(SendError::Silent(patience));
        }
        let (stored, objects) = (self.objects.stored.objects as usize, self.objects.count());
        Err(SendError::Unconfirmed { patience, stored, objects })
    }

    /// The receiver has ended it: if nothing reaches it any more, that is why.
    fn ended_by(&self, text: String, now: Instant) -> SendError {
        match self.lanes.are_silent(&self.sender, now) {
            true => SendError::LanesLost(text),
            false => SendError::Ended(text),
        }
    }

    fn report(&mut self, endpoint: &Endpoint, now: Instant) {
        let lanes = endpoint.sockets.iter().enumerate().filter_map(|(lane, socket)| {
            let sending = self.sender.lane(lane)?;
            if !self.lanes.paths[lane].is_shown(sending.state()) {
                return None;
            }
            Some(LaneView {
                name: socket.lane().describe(),
                spec: self.lanes.paths[lane].spec.clone(),
                is_spare: self.lanes.paths[lane].is_spare,
                state: sending.state(),
                rtt_ns: (sending.rtt().samples() > 0).then(|| sending.rtt().smoothed_ns()),
                least_rtt_ns: (sending.rtt().samples() > 0).then(|| sending.rtt().least_ns()),
                silent: self.lanes.notes.silent_for(lane, now),
                counters: sending.counters,
                socket: socket.counters(),
            })
        });
        self.progress.lanes = lanes.collect();
        self.progress.elapsed = now.since(self.start);
        if self.progress.notes != self.lanes.notes.lines() {
            self.progress.notes = self.lanes.notes.lines().to_vec();
        }
        self.progress.counters = self.sender.counters();
        self.progress.arrived_bytes = self.sender.arrived_bytes();
        self.progress.had_bytes = self.objects.stored.had_bytes;
        let mut shown = self.progress.clone();
        shown.done_bytes += shown.had_bytes;
        (self.observer)(&shown);
    }
}
