//! The thread that sends: it asks the protocol what to do, and does it.

use super::connection::Connection;
use super::notes::{Notes, REACH_NS};
use super::open::Opened;
use super::reading::{Desk, Order, Read};
use super::{LaneView, SendError, SendOptions, SendProgress, Sent};
use crate::control::ControlError;
use crate::end::{Clock, Interest, Ready, Relay, Waiter, Waker, give_up};
use crate::file::{Failures, FileError, Have, Kind, Object};
use crate::lane::{Family, MAX_DATAGRAM_BYTES, Received, Trouble};
use linecard::time::Instant;
use linecard_transfer::control::{self, End, Failed, Message, Span, Text};
use linecard_transfer::lane::LaneState;
use linecard_transfer::send::{Departure, SendEvent};
use linecard_transfer::wire::{Kind as PacketKind, MAX_LANES};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

/// Objects that are announced and not stored yet. Small files over a long round trip are bounded by the
/// window of chunks, not by this.
const MAX_AHEAD: usize = 512;
/// Packets that a lane is asked for at once.
const BATCH: usize = 64;
/// How often others are told how far it is, in ns.
const WATCH_NS: u64 = 100_000_000;
/// When anything is done by itself, in ns: at multiples of this.
const GRID_NS: u64 = 250_000;
/// How often the receiver's last message is confirmed, as packets may be lost.
const GOODBYES: usize = 3;
/// The code of a failure of one object.
const UNREADABLE: u16 = 2;
/// What the control channel is called where is waited; lanes are called by their numbers.
const CONTROL: usize = MAX_LANES;

/// An object that is announced and not done with.
#[derive(Debug, Default)]
struct Open {
    /// The receiver has said what it needs.
    is_ordered: bool,
    /// It is in its place there, and the same.
    is_there: bool,
    had_bytes: u64,
}

pub(super) struct Conductor<'a> {
    options: &'a SendOptions,
    opened: &'a mut Opened,
    objects: Vec<Object>,
    desk: Desk,
    announced: usize,
    first_chunks: Vec<u32>,
    next_chunk: u32,
    read: usize,
    /// Objects that are announced and neither stored nor given up.
    open: BTreeMap<u32, Open>,
    /// Bytes of the chunks under way.
    under_way: BTreeMap<u32, u32>,
    /// A result for which there was no room.
    next_read: Option<Read>,
    connections: Vec<Connection>,
    notes: Notes,
    relay: Relay,
    said_finish: bool,
    heard_finish: bool,
    started: Option<Instant>,
    /// When a lane was last known to carry something, or had nothing to carry.
    answered: Instant,
    sent: Sent,
    progress: SendProgress,
    received: Received,
    ready: Ready,
    departures: Vec<Departure>,
}

impl<'a> Conductor<'a> {
    pub(super) fn new(
        options: &'a SendOptions,
        opened: &'a mut Opened,
        objects: Vec<Object>,
        desk: Desk,
    ) -> Self {
        let total = objects.iter().map(|object| object.size).sum::<Option<u64>>();
        Self {
            options,
            objects,
            desk,
            announced: 0,
            first_chunks: Vec::new(),
            next_chunk: 0,
            read: 0,
            open: BTreeMap::new(),
            under_way: BTreeMap::new(),
            next_read: None,
            connections: opened
                .paths
                .iter()
                .map(|path| Connection::new(path.spec.family == Family::Tcp, path.is_proven))
                .collect(),
            notes: Notes::of(&opened.paths),
            relay: Relay::new(opened.payload_bytes),
            said_finish: false,
            heard_finish: false,
            started: None,
            answered: Instant::ZERO,
            sent: Sent {
                objects: 0,
                bytes: 0,
                had_bytes: 0,
                elapsed: Duration::ZERO,
                processor: Duration::ZERO,
                latencies_ns: Vec::new(),
                counters: opened.sender.counters(),
                lanes: Vec::new(),
                notes: Vec::new(),
                payload_bytes: opened.payload_bytes,
                skipped: Vec::new(),
                unchanged: 0,
                failures: Failures::default(),
            },
            progress: SendProgress { total_bytes: total, ..SendProgress::default() },
            received: Received::new(),
            ready: Ready::ALL,
            departures: Vec::with_capacity(BATCH),
            opened,
        }
    }

    /// Some of what was to be sent has been left out, because it could not be listed.
    pub(super) fn without(mut self, unreadable: Failures) -> Self {
        self.sent.failures = unreadable;
        self
    }

    pub(super) fn run(
        mut self,
        waker: Waker,
        clock: Clock,
        watch: &mut dyn FnMut(&SendProgress),
    ) -> Result<Sent, SendError> {
        let start = clock.now();
        self.answered = start;
        self.notes.start(start);
        self.start_lanes(start);
        let outcome = self.turn_until_over(waker, clock, watch);
        let now = clock.now();
        self.notes.look(&self.opened.paths, &self.opened.sender);
        if outcome.is_ok() {
            self.notes.sum_up_silence(&self.opened.paths, &self.opened.sender, now);
        }
        self.show(start, now, watch);
        if let Err(error) = &outcome {
            self.explain(error, clock);
        }
        outcome?;
        self.say_goodbye(now)?;
        self.sent.elapsed = now.since(self.started.unwrap_or(start));
        self.sent.counters = self.opened.sender.counters();
        self.sent.lanes = std::mem::take(&mut self.progress.lanes);
        self.sent.notes = std::mem::take(&mut self.progress.notes);
        Ok(self.sent)
    }

    fn turn_until_over(
        &mut self,
        waker: Waker,
        clock: Clock,
        watch: &mut dyn FnMut(&SendProgress),
    ) -> Result<(), SendError> {
        let waiter = Waiter::new(waker);
        let start = clock.now();
        let mut watched = start;
        while !self.is_over() {
            let now = clock.now();
            if self.options.stop.is_stopped() {
                return Err(SendError::Stopped);
            }
            self.relay.set_now(now);
            if self.ready.has(CONTROL) || self.relay.has_ready() {
                self.listen()?;
            }
            self.announce()?;
            self.take_read(now)?;
            let more = self.take_packets(now) | self.relay.has_ready();
            self.opened.sender.tick(now);
            self.relay_control(now)?;
            let again = self.send_packets(now)?;
            self.take_events(now);
            self.check_patience(now)?;
            self.relay.flush(&mut self.opened.control)?;
            if now.ns_since(watched) >= WATCH_NS {
                watched = now;
                if now.ns_since(start) >= REACH_NS {
                    self.notes.look(&self.opened.paths, &self.opened.sender);
                }
                self.notes.report_silence(&self.opened.paths, &self.opened.sender, now);
                self.show(start, now, watch);
            }
            if more {
                self.ready = Ready::ALL;
            } else if !self.is_over() {
                self.wait(&waiter, again, now)?;
            }
        }
        Ok(())
    }

    /// Tells the receiver why it ends, unless it is the receiver who has ended it.
    fn explain(&mut self, error: &SendError, clock: Clock) {
        let of_receiver = matches!(error, SendError::Control(_) | SendError::Ended(_));
        if !of_receiver {
            give_up(&mut self.opened.control, error, clock);
        }
    }

    fn is_over(&self) -> bool {
        let all_said = self.relay.is_lame() || !self.opened.control.wants_write();
        self.heard_finish && self.said_finish && all_said
    }

    /// Confirms the receiver's last message over lanes, if messages go there: it waits for that.
    fn say_goodbye(&mut self, now: Instant) -> Result<(), SendError> {
        for _ in 0..GOODBYES {
            self.relay.owe_answer();
            self.relay_control(now)?;
        }
        for carrier in &mut self.opened.carriers {
            // What does not arrive, the receiver waits for in vain, and not for long.
            let _sent = carrier.flush(now);
        }
        Ok(())
    }

    /// Control messages, and what has come of them, over lanes. All that work carry the same: which of them
    /// reaches the receiver is not known, and there is little of it.
    fn relay_control(&mut self, now: Instant) -> Result<(), SendError> {
        let packets = self.relay.packets();
        if packets.is_empty() {
            return Ok(());
        }
        let Opened { carriers, sender, .. } = &mut *self.opened;
        for (lane, carrier) in carriers.iter_mut().enumerate() {
            if self.connections[lane].is_pending() {
                continue;
            }
            for packet in &packets {
                let Some(header) = sender.control_header(lane, now) else { break };
                carrier.push(&header, |out| out.extend_from_slice(packet))?;
            }
        }
        Ok(())
    }

    /// What the receiver says.
    fn listen(&mut self) -> Result<(), SendError> {
        loop {
            let message = match self.relay.receive(&mut self.opened.control) {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                // Behind the last word nobody needs the connection any more.
                Err(ControlError::Closed | ControlError::ClosedEarly) if self.heard_finish => {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            match message {
                Message::Have(have) => self.order(&have)?,
                Message::Stored { object } => self.stored(object)?,
                Message::Failed(failed) => match failed.object {
                    Some(object) => self.refused(object, &failed.text.to_string()),
                    None => return Err(SendError::Ended(failed.text.to_string())),
                },
                Message::Finish => self.heard_finish = true,
                Message::Refuse(refuse) => return Err(refuse.into()),
                _ => return Err(SendError::Unexpected("what only a sender says")),
            }
        }
    }

    /// The next objects, as far as the receiver keeps up.
    fn announce(&mut self) -> Result<(), SendError> {
        while self.announced < self.objects.len() && self.open.len() < MAX_AHEAD {
            let object = &self.objects[self.announced];
            let chunks = self.options.chunk_bytes.count(object.size.unwrap_or(0))?;
            let message = Message::Object(control::Object {
                id: self.announced as u32,
                name: object.name.as_bytes().to_vec(),
                size: if object.kind == Kind::Stream { None } else { object.size },
                mode: object.mode | type_bits(object.kind),
                modified_ns: object.modified.to_ns(),
                first_chunk: self.next_chunk,
            });
            self.relay.send(&mut self.opened.control, &message)?;
            self.open.insert(self.announced as u32, Open::default());
            self.first_chunks.push(self.next_chunk);
            self.next_chunk = self.next_chunk.saturating_add(chunks);
            self.announced += 1;
        }
        let is_done = self.announced == self.objects.len() && self.open.is_empty();
        if is_done && !self.said_finish {
            self.relay.send(&mut self.opened.control, &Message::Finish)?;
            self.said_finish = true;
        }
        Ok(())
    }

    /// The receiver has said what it needs of an object.
    fn order(&mut self, told: &control::Have) -> Result<(), SendError> {
        let object = told.object as usize;
        let open = self.open.get_mut(&told.object).filter(|open| !open.is_ordered);
        let (Some(&first_chunk), Some(open)) = (self.first_chunks.get(object), open) else {
            return Err(SendError::Unexpected("that it has an object that it was not told of"));
        };
        open.is_ordered = true;
        let mut have = Have::default();
        let size = self.objects[object].size.unwrap_or(0);
        let count = self.options.chunk_bytes.count(size)?;
        for range in &told.ranges {
            let first = range.first.checked_sub(first_chunk).filter(|first| *first < count);
            let Some(first) = first.filter(|first| range.count <= count - first) else {
                return Err(SendError::Unexpected("that it has chunks that there are not"));
            };
            for chunk in first..first + range.count {
                let bytes = self.options.chunk_bytes.range(chunk, size);
                open.had_bytes += bytes.end - bytes.start;
                have.insert(chunk);
            }
        }
        self.sent.had_bytes += open.had_bytes;
        let existing = told.existing;
        let _gone = self.desk.orders.send(Order { object, first_chunk, have, existing });
        Ok(())
    }

    fn stored(&mut self, object: u32) -> Result<(), SendError> {
        let open = self.open.remove(&object).filter(|open| open.is_ordered);
        let Some((open, stored)) = open.zip(self.objects.get(object as usize)) else {
            return Err(SendError::Unexpected("that it stored what it was not told of"));
        };
        let bytes = stored.size.unwrap_or(0);
        self.sent.objects += 1;
        self.sent.bytes += bytes;
        if open.is_there {
            self.sent.unchanged += 1;
            self.sent.had_bytes += bytes - open.had_bytes.min(bytes);
        }
        Ok(())
    }

    /// The receiver cannot store an object; the others go on.
    fn refused(&mut self, object: u32, why: &str) {
        // Both ends may give up the same object at the same time.
        let Some(open) = self.open.remove(&object) else { return };
        self.sent.had_bytes -= open.had_bytes;
        self.sent.failures.add(format!("refused by the receiver: {why}"));
        if !open.is_ordered {
            self.count_read();
        }
    }

    /// An object cannot be read any further; the others go on.
    fn give_up_object(
        &mut self,
        object: usize,
        sent_below: u32,
        error: &FileError,
    ) -> Result<(), SendError> {
        let id = object as u32;
        if let Some(open) = self.open.remove(&id) {
            self.sent.had_bytes -= open.had_bytes;
            self.sent.failures.add(error.to_string());
        }
        let text = Text::of(error.to_string().as_bytes());
        let failed =
            Failed { object: Some(id), sent_below: Some(sent_below), code: UNREADABLE, text };
        self.relay.send(&mut self.opened.control, &Message::Failed(failed))?;
        self.count_read();
        Ok(())
    }

    /// Nothing more is going to be read of an object.
    fn count_read(&mut self) {
        self.read += 1;
        if self.read == self.objects.len() {
            self.opened.sender.finish();
        }
    }

    /// What has been read since.
    fn take_read(&mut self, now: Instant) -> Result<(), SendError> {
        loop {
            let read = match self.next_read.take() {
                Some(read) => read,
                None => match self.desk.results.try_recv() {
                    Ok(read) => read,
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
                },
            };
            match read {
                Read::Chunk { .. } if self.opened.sender.room() == 0 => {
                    self.next_read = Some(read);
                    return Ok(());
                }
                Read::Chunk { chunk, mut buffer, bytes, of_stream } => {
                    if of_stream {
                        let span = Message::Span(Span { chunk, bytes });
                        self.relay.send(&mut self.opened.control, &span)?;
                        self.next_chunk = chunk + 1;
                    }
                    buffer.truncate(bytes as usize);
                    self.started.get_or_insert(now);
                    self.under_way.insert(chunk, bytes);
                    self.opened.source.put(chunk, buffer);
                    self.opened.sender.offer(chunk, bytes)?;
                }
                Read::Unreadable { object, sent_below, error } => {
                    self.give_up_object(object, sent_below, &error)?;
                }
                Read::End { object, size, root, is_there } => {
                    if let Some(open) = self.open.get_mut(&(object as u32)) {
                        open.is_there = is_there;
                    }
                    if self.objects[object].size.is_none() {
                        self.objects[object].size = Some(size);
                    }
                    let end = End { object: object as u32, size, root };
                    self.relay.send(&mut self.opened.control, &Message::End(end))?;
                    self.count_read();
                }
                Read::Failed(error) => return Err(error.into()),
            }
        }
    }

    /// What has come on the lanes. True if there is more.
    fn take_packets(&mut self, now: Instant) -> bool {
        let mut more = false;
        let Opened { carriers, sender, .. } = &mut *self.opened;
        let ready = self.ready;
        for (lane, carrier) in carriers.iter_mut().enumerate().filter(|(lane, _)| ready.has(*lane))
        {
            if self.connections[lane].is_pending() {
                continue;
            }
            let relay = &mut self.relay;
            let came = carrier.receive(&mut self.received, |header, body, _from| {
                sender.receive(header, body, now);
                if header.kind == PacketKind::Control {
                    relay.take(body);
                }
            });
            match came {
                Ok(rest) => more |= rest,
                Err(trouble) => {
                    sender.fail(lane, now);
                    self.connections[lane].broke(&trouble, now);
                }
            }
        }
        more
    }

    /// What should leave. Returns when to come back for what lanes hold back.
    fn send_packets(&mut self, now: Instant) -> Result<Option<Instant>, SendError> {
        let mut again = None;
        self.reconnect_lanes(now);
        let Opened { carriers, sender, source, paths, .. } = &mut *self.opened;
        for (lane, carrier) in carriers.iter_mut().enumerate() {
            if self.connections[lane].is_pending() {
                continue;
            }
            let (mut flushed, mut is_taken) = (Ok(None), true);
            if carrier.is_idle() {
                sender.poll(lane, now, BATCH, &mut self.departures);
                for departure in self.departures.drain(..) {
                    carrier.push(&departure.header, |out| {
                        let _filled = source.fill(&departure, out);
                    })?;
                    // What is sealed leaves while the cache still has it.
                    let waiting = carrier.waiting_bytes();
                    if is_taken && waiting + departure.on_wire() > MAX_DATAGRAM_BYTES {
                        flushed = flushed.and(carrier.flush(now));
                        is_taken = carrier.waiting_bytes() < waiting;
                    }
                }
            }
            match flushed.and(carrier.flush(now)) {
                Ok(at) => again = [again, at].into_iter().flatten().min(),
                Err(trouble @ Trouble::TooLong { .. }) => {
                    sender.close(lane, now);
                    self.connections[lane].give_up();
                    if self.connections.iter().all(|connection| connection.is_given_up()) {
                        return Err(std::io::Error::other(trouble).into());
                    }
                    self.notes.add(
                        lane,
                        &paths[lane],
                        &format!("{trouble}; it is not used any more"),
                    );
                }
                Err(trouble) => {
                    sender.fail(lane, now);
                    self.connections[lane].broke(&trouble, now);
                }
            }
        }
        Ok(again)
    }

    /// Lanes whose socket could not be opened are tried again; those that must not be used are closed.
    fn start_lanes(&mut self, now: Instant) {
        for (lane, path) in self.opened.paths.iter().enumerate() {
            match &path.problem {
                None => self.connections[lane].tried(now),
                Some(problem) if problem.is_final => {
                    self.connections[lane].give_up();
                    self.opened.sender.close(lane, now);
                }
                Some(_) => self.connections[lane].failed(now),
            }
        }
    }

    /// Makes connections again that broke, or that have not carried anything for too long.
    fn reconnect_lanes(&mut self, now: Instant) {
        let Opened { carriers, paths, sender, .. } = &mut *self.opened;
        for (lane, connection) in self.connections.iter_mut().enumerate() {
            if !connection.is_due(now) {
                continue;
            }
            connection.tried(now);
            match paths[lane].spec.connect(paths[lane].peer) {
                Ok(connected) => {
                    // What was on its way on the connection before is lost with it.
                    sender.fail(lane, now);
                    carriers[lane].replace(connected);
                    paths[lane].problem = None;
                    sender.probe_now(lane);
                }
                Err(_) => connection.failed(now),
            }
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.opened.sender.next_event() {
            match event {
                SendEvent::Done { chunk, latency_ns } => self.done(chunk, latency_ns),
                SendEvent::Up(lane) => {
                    self.connections[lane].works();
                    self.notes.turned(lane, true, now);
                }
                SendEvent::Down(lane) => {
                    self.connections[lane].is_silent(now);
                    self.notes.turned(lane, false, now);
                }
            }
        }
    }

    /// The receiver has all of a chunk.
    fn done(&mut self, chunk: u32, latency_ns: u64) {
        self.sent.latencies_ns.push(latency_ns);
        let bytes = self.under_way.remove(&chunk).unwrap_or(0);
        self.progress.done_bytes += u64::from(bytes);
        if let Some(buffer) = self.opened.source.remove(chunk) {
            let _gone = self.desk.buffers.send(buffer);
        }
    }

    /// A receiver that waits for a slow pipe answers, and may take its time.
    fn check_patience(&mut self, now: Instant) -> Result<(), SendError> {
        let Opened { carriers, sender, paths, .. } = &*self.opened;
        let mut lanes = (0..carriers.len()).filter_map(|lane| sender.lane(lane));
        if self.under_way.is_empty() || lanes.any(|lane| lane.state() == LaneState::Alive) {
            self.answered = now;
        }
        if now.since(self.answered) > self.options.patience {
            let patience = self.options.patience;
            let over_udp = paths.iter().all(|path| path.spec.family == Family::Udp);
            let reached = carriers.iter().any(|carrier| carrier.counters().received > 0);
            return Err(match over_udp && !reached {
                true => SendError::NeverReached {
                    patience,
                    lanes: paths.iter().map(|path| path.spec.clone()).collect(),
                },
                false => SendError::Silent(patience),
            });
        }
        if self.relay.is_silent(self.options.patience) {
            let (stored, objects) = (self.sent.objects as usize, self.objects.len());
            let patience = self.options.patience;
            return Err(SendError::Unconfirmed { patience, stored, objects });
        }
        Ok(())
    }

    fn show(&mut self, start: Instant, now: Instant, watch: &mut dyn FnMut(&SendProgress)) {
        let Opened { carriers, sender, .. } = &*self.opened;
        let lanes = carriers.iter().enumerate().filter_map(|(lane, carrier)| {
            let sending = sender.lane(lane)?;
            Some(LaneView {
                name: carrier.lane().describe(),
                state: sending.state(),
                rtt_ns: (sending.rtt().samples() > 0).then(|| sending.rtt().smoothed_ns()),
                silent: self.notes.silent_for(lane, now),
                counters: sending.counters,
                carrier: carrier.counters(),
            })
        });
        self.progress.lanes = lanes.collect();
        self.progress.elapsed = now.since(start);
        if self.progress.notes != self.notes.lines() {
            self.progress.notes = self.notes.lines().to_vec();
        }
        self.progress.counters = sender.counters();
        let mut shown = self.progress.clone();
        shown.done_bytes += self.sent.had_bytes;
        watch(&shown);
    }

    fn wait(
        &mut self,
        waiter: &Waiter,
        again: Option<Instant>,
        now: Instant,
    ) -> Result<(), SendError> {
        let Opened { control, carriers, sender, .. } = &*self.opened;
        let mut until = again.unwrap_or(Instant::NEVER);
        until = until.min(self.relay.next_wakeup());
        let mut interests = Vec::with_capacity(1 + carriers.len());
        if !self.relay.is_down() {
            let (fd, write) = (control.as_fd(), control.wants_write());
            interests.push(Interest { fd, write, token: CONTROL });
        }
        for (lane, carrier) in carriers.iter().enumerate() {
            if sender.lane(lane).is_some_and(|lane| lane.state() == LaneState::Closed) {
                continue;
            }
            until = until.min(self.connections[lane].next_try());
            if self.connections[lane].is_pending() {
                continue;
            }
            let (fd, write) = (carrier.lane().as_fd(), !carrier.is_idle());
            interests.push(Interest { fd, write, token: lane });
            if !write {
                until = until.min(sender.next_wakeup(lane).unwrap_or(Instant::NEVER));
            }
        }
        // Lanes that are due at about the same time are served together.
        let until = Instant::from_ns(until.as_ns().div_ceil(GRID_NS).saturating_mul(GRID_NS));
        self.ready = if until > now { waiter.wait(&interests, until, now)? } else { Ready::ALL };
        Ok(())
    }
}

/// Folders and what is a device rather than a file are told apart as `st_mode` does.
const fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::Folder => libc::S_IFDIR,
        Kind::Test => libc::S_IFCHR,
        Kind::File | Kind::Stream => 0,
    }
}
