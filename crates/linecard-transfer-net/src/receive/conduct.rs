//! The thread that receives: it asks the protocol where things belong, and puts them there.

use super::accept::HANDSHAKE;
use super::objects::{Objects, Step};
use super::open::Opened;
use super::writing::{Job, Written};
use super::{Got, ReceiveError, ReceiveOptions, ReceiveProgress};
use crate::control::ControlError;
use crate::end::{Clock, Interest, Ready, Relay, Waiter, Waker, give_up};
use crate::lane::Received;
use linecard::time::Instant;
use linecard_transfer::control::{self, Message, Text};
use linecard_transfer::receive::{Arrival, ReceiveEvent, Reply};
use linecard_transfer::wire::{Header, Kind, MAX_LANES, Probe};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// How often others are told how far it is, in ns.
const WATCH_NS: u64 = 100_000_000;
/// When packets have come, more are on their way: they are waited for together, as an interrupt that is
/// moderated does. On 8 lanes of 200 Mbit/s that is a quarter of this end's processor time.
const MODERATION: Duration = Duration::from_micros(100);
/// How long this end waits, with everything in its place, for the sender to know that, in ns.
const FAREWELL_NS: u64 = 2_000_000_000;
/// What the control channel is called where is waited; lanes are called by their numbers.
const CONTROL: usize = MAX_LANES;

/// The code of a failure of one object.
const REFUSED: u16 = 2;

pub(super) struct Conductor<'a> {
    options: &'a ReceiveOptions,
    opened: &'a mut Opened,
    objects: Objects,
    jobs: Sender<Job>,
    results: Receiver<Written>,
    numbers: Vec<u64>,
    relay: Relay,
    /// When all was said.
    ended: Option<Instant>,
    /// The sender has closed the control connection behind its last message.
    heard_close: bool,
    announced_below: u32,
    heard_finish: bool,
    /// The other thread has been asked to put everything in order.
    is_closing: bool,
    said_finish: bool,
    first: Option<Instant>,
    last: Instant,
    /// Data came in this turn.
    came: bool,
    progress: ReceiveProgress,
    received: Received,
    ready: Ready,
}

impl<'a> Conductor<'a> {
    pub(super) fn new(
        options: &'a ReceiveOptions,
        opened: &'a mut Opened,
        (jobs, results): (Sender<Job>, Receiver<Written>),
    ) -> Result<Self, ReceiveError> {
        Ok(Self {
            options,
            objects: Objects::new(options, opened.chunk_bytes, opened.window)?,
            jobs,
            results,
            numbers: vec![0; opened.lanes.all.len()],
            relay: Relay::new(opened.payload_bytes),
            ended: None,
            heard_close: false,
            announced_below: 0,
            heard_finish: false,
            is_closing: false,
            said_finish: false,
            first: None,
            last: Instant::ZERO,
            came: false,
            progress: ReceiveProgress::default(),
            received: Received::new(),
            ready: Ready::ALL,
            opened,
        })
    }

    pub(super) fn run(
        mut self,
        waker: Waker,
        clock: Clock,
        watch: &mut dyn FnMut(&ReceiveProgress),
    ) -> Result<Got, ReceiveError> {
        let start = clock.now();
        self.last = start;
        let outcome = self.turn_until_over(waker, clock, watch);
        let now = clock.now();
        if self.opened.has_begun {
            self.show(start, now, watch);
        }
        if let Err(error) = &outcome {
            self.explain(error, clock);
        }
        outcome?;
        Ok(Got {
            sender: self.opened.control.peer(),
            from: self.opened.from,
            objects: self.objects.stored,
            bytes: self.objects.stored_bytes,
            had_bytes: self.objects.had_bytes,
            unchanged: self.objects.unchanged,
            failures: self.objects.failures,
            elapsed: self.ended.unwrap_or(now).since(self.first.unwrap_or(start)),
            processor: Duration::ZERO,
            counters: self.opened.receiver.counters(),
            lanes: self.progress.lanes,
        })
    }

    fn turn_until_over(
        &mut self,
        waker: Waker,
        clock: Clock,
        watch: &mut dyn FnMut(&ReceiveProgress),
    ) -> Result<(), ReceiveError> {
        let waiter = Waiter::new(waker);
        let start = clock.now();
        let mut watched = start;
        while !self.is_over(clock.now()) {
            let now = clock.now();
            self.relay.set_now(now);
            if self.options.stop.is_stopped() {
                // Everything is in its place: only the sender's confirmation is missing.
                return if self.ended.is_some() { Ok(()) } else { Err(ReceiveError::Stopped) };
            }
            if self.ready.has(CONTROL) || self.relay.has_ready() {
                self.listen(now)?;
            }
            self.take_written(now)?;
            self.announce_lengths()?;
            let more = self.take_packets(now)? | self.relay.has_ready();
            self.put_away()?;
            self.relay_control()?;
            let again = self.reply(now)?;
            self.finish();
            self.relay.flush(&mut self.opened.control).or_else(|error| self.ends_by(error))?;
            self.check_patience(start, now)?;
            if now.ns_since(watched) >= WATCH_NS && self.opened.has_begun {
                watched = now;
                self.show(start, now, watch);
            }
            if more {
                self.ready = Ready::ALL;
            } else if !self.is_over(now) {
                if self.came {
                    std::thread::sleep(MODERATION);
                }
                self.wait(&waiter, again, clock.now())?;
            }
        }
        Ok(())
    }

    /// How long the sender may be silent: not for long before it has announced anything.
    fn check_patience(&mut self, start: Instant, now: Instant) -> Result<(), ReceiveError> {
        let patience = self.options.patience;
        let announcing = patience.min(HANDSHAKE);
        if !self.opened.has_begun && now.since(start) > announcing {
            return Err(ReceiveError::NothingAnnounced(announcing));
        }
        if self.opened.store.is_empty() {
            // The sender may have to read, or to wait itself, before it sends again.
            self.last = now;
        }
        let is_silent = self.relay.is_silent(patience) && !self.said_finish;
        match is_silent || now.since(self.last) > patience {
            true => Err(ReceiveError::Silent(patience)),
            false => Ok(()),
        }
    }

    /// All is in its place, and the sender knows, or does not say so: it may be gone, as may its network.
    fn is_over(&self, now: Instant) -> bool {
        let Some(ended) = self.ended else { return false };
        let is_said = self.relay.is_lame() || !self.opened.control.wants_write();
        let has_waited = is_said && now.ns_since(ended) > FAREWELL_NS;
        self.heard_close || self.relay.is_confirmed() || has_waited
    }

    /// The sender closes the connection when it has heard the last word; until then that is an error.
    fn ends_by(&mut self, error: ControlError) -> Result<(), ReceiveError> {
        if !self.said_finish {
            return Err(error.into());
        }
        self.heard_close = true;
        Ok(())
    }

    /// Control messages, and what has come of them, over lanes: see the sender.
    fn relay_control(&mut self) -> Result<(), ReceiveError> {
        let packets = self.relay.packets();
        if packets.is_empty() {
            return Ok(());
        }
        let Opened { lanes, receiver, .. } = &mut *self.opened;
        for lane in &mut lanes.all {
            let is_stream = lane.carrier.lane().is_stream();
            if lane.is_down || !is_stream && lane.validated.is_none() {
                continue;
            }
            lane.validated.into_iter().for_each(|to| lane.carrier.answer_to(to));
            let number = lane.number();
            for packet in &packets {
                let numbers = self.numbers[number];
                let header = header(Kind::Control, number, numbers, receiver.connection());
                self.numbers[number] += 1;
                lane.carrier.push(&header, |out| out.extend_from_slice(packet))?;
            }
        }
        Ok(())
    }

    /// What the sender says.
    fn listen(&mut self, now: Instant) -> Result<(), ReceiveError> {
        loop {
            let message = match self.relay.receive(&mut self.opened.control) {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                Err(error) => return self.ends_by(error),
            };
            self.last = now;
            match message {
                Message::Object(object) => {
                    self.opened.has_begun = true;
                    let job = self.objects.announce(&object)?;
                    let _gone = self.jobs.send(job);
                }
                Message::Span(span) => self.objects.span(span.chunk, span.bytes)?,
                Message::End(end) => {
                    let (skip, step) = self.objects.end(&end)?;
                    self.go_on(end.object, skip, step);
                }
                Message::Finish => self.heard_finish = true,
                Message::Failed(failed) => match failed.object {
                    Some(object) => {
                        let (skip, step) = self.objects.given_up(object, &failed)?;
                        self.go_on(object, skip, step);
                    }
                    None => return Err(ReceiveError::Ended(failed.text.to_string())),
                },
                _ => return Err(ReceiveError::Unexpected("what only a receiver says")),
            }
        }
    }

    /// Some chunks of an object will not come, and this is to be done about it.
    fn go_on(&mut self, object: u32, skip: Vec<Range<u32>>, step: Step) {
        skip.into_iter().for_each(|chunks| self.opened.receiver.skip(chunks));
        match step {
            Step::Wait => {}
            Step::Finish(job) => {
                let _gone = self.jobs.send(job);
            }
            Step::Drop(job) => {
                self.objects.drop_object(object);
                let _gone = self.jobs.send(job);
            }
        }
    }

    /// What the other thread has done.
    fn take_written(&mut self, now: Instant) -> Result<(), ReceiveError> {
        while let Ok(written) = self.results.try_recv() {
            match written {
                Written::Opened { object, have, existing } => {
                    if let Some((told, skip)) = self.objects.opened(object, have, existing) {
                        skip.into_iter().for_each(|chunks| self.opened.receiver.skip(chunks));
                        self.relay.send(&mut self.opened.control, &Message::Have(told))?;
                    }
                }
                Written::Chunk { chunk, buffer } => {
                    self.opened.receiver.taken(chunk);
                    self.opened.store.give_back(buffer);
                    if let Some((object, _)) = self.objects.place(chunk) {
                        let step = self.objects.written(chunk);
                        self.go_on(object, Vec::new(), step);
                    }
                }
                Written::Object { object, was_there } => {
                    if self.objects.close(object, was_there) {
                        self.relay.send(&mut self.opened.control, &Message::Stored { object })?;
                    }
                }
                Written::Refused { object, error } => {
                    let text = Text::of(error.to_string().as_bytes());
                    let (skip, step) = self.objects.refused(object, error)?;
                    self.go_on(object, skip, step);
                    let object = Some(object);
                    let failed = control::Failed { object, sent_below: None, code: REFUSED, text };
                    self.relay.send(&mut self.opened.control, &Message::Failed(failed))?;
                }
                Written::Closed => {
                    self.relay.send(&mut self.opened.control, &Message::Finish)?;
                    self.said_finish = true;
                    self.ended = Some(now);
                }
                Written::Failed(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Tells the protocol how long chunks are, as far as it may know.
    fn announce_lengths(&mut self) -> Result<(), ReceiveError> {
        let receiver = &mut self.opened.receiver;
        self.announced_below = self.announced_below.max(receiver.taken_below());
        while self.announced_below < receiver.window_end() {
            if let Some(bytes) = self.objects.length(self.announced_below) {
                receiver.announce(self.announced_below, bytes)?;
                self.announced_below += 1;
            } else if let Some(next) = self.objects.next_begin(self.announced_below) {
                self.announced_below = next;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// What has come on the lanes. True if there is more.
    fn take_packets(&mut self, now: Instant) -> Result<bool, ReceiveError> {
        let mut more = false;
        let Opened { lanes, receiver, store, .. } = &mut *self.opened;
        self.came = false;
        let ready = self.ready;
        for lane in lanes.all.iter_mut().filter(|lane| ready.has(lane.number())) {
            let mut probed = None;
            let mut validated = false;
            let mut taken = false;
            let relay = &mut self.relay;
            let mut take = |header: &Header, body: &[u8], from| {
                if header.kind == Kind::Probe {
                    probed = from;
                }
                let arrival = receiver.receive(header, body, now);
                if arrival == Arrival::Control {
                    relay.take(body);
                }
                validated |= arrival == Arrival::Probe { validated: true };
                taken |= matches!(arrival, Arrival::Data { .. } | Arrival::Repair { .. });
                store.put(arrival, body);
            };
            lane.accept(now);
            let came = lane.carrier.receive(&mut self.received, &mut take);
            if came.is_err() {
                lane.is_down = lane.carrier.lane().is_stream();
            }
            lane.try_candidates(&mut self.received, &mut take);
            lane.from = probed.or(lane.from);
            if validated {
                lane.validate();
            }
            if taken {
                self.came = true;
                self.last = now;
                self.first.get_or_insert(now);
            }
            more |= came.unwrap_or(false);
        }
        Ok(more)
    }

    /// Repairs and hands on what is whole.
    fn put_away(&mut self) -> Result<(), ReceiveError> {
        while let Some(event) = self.opened.receiver.next_event() {
            match event {
                ReceiveEvent::Repair { chunk, group, bytes, missing } => {
                    if !self.opened.store.repair(chunk, group, bytes, &missing) {
                        return Err(ReceiveError::Repair(chunk));
                    }
                }
                ReceiveEvent::Whole { chunk, bytes } => {
                    let place = self.objects.place(chunk);
                    let (Some(buffer), Some((object, of_object))) =
                        (self.opened.store.take(chunk), place)
                    else {
                        continue;
                    };
                    let job = Job::Write { object, chunk, of_object, buffer, bytes };
                    let _gone = self.jobs.send(job);
                }
            }
        }
        Ok(())
    }

    /// Acknowledgments and answers. Returns when to come back for what lanes hold back.
    fn reply(&mut self, now: Instant) -> Result<Option<Instant>, ReceiveError> {
        let mut again = None;
        let Opened { lanes, receiver, .. } = &mut *self.opened;
        for lane in &mut lanes.all {
            let number = lane.number();
            while let Some(reply) = receiver.poll(number, lane.has_moved(), now) {
                let is_stream = lane.carrier.lane().is_stream();
                let (kind, to) = match &reply {
                    Reply::Probe(_) => (Kind::Probe, lane.from),
                    Reply::Ack(_) => (Kind::Ack, lane.validated),
                };
                if to.is_none() && !is_stream {
                    continue;
                }
                let header = header(kind, number, self.numbers[number], receiver.connection());
                self.numbers[number] += 1;
                to.into_iter().for_each(|to| lane.carrier.answer_to(to));
                lane.carrier.push(&header, |out| match &reply {
                    Reply::Probe(probe) => probe.write(out, Probe::BYTES),
                    Reply::Ack(ack) => ack.write(out),
                })?;
                // The next may go elsewhere.
                let _later = lane.carrier.flush(now);
            }
            match lane.carrier.flush(now) {
                Ok(at) => again = [again, at].into_iter().flatten().min(),
                Err(_) => lane.is_down = lane.carrier.lane().is_stream(),
            }
        }
        Ok(again)
    }

    /// Everything has come, and is where it belongs.
    fn finish(&mut self) {
        if self.heard_finish && !self.is_closing && self.objects.is_empty() {
            let _gone = self.jobs.send(Job::Close);
            self.is_closing = true;
        }
    }

    /// Tells the sender why it ends, unless it is the sender who has ended it.
    fn explain(&mut self, error: &ReceiveError, clock: Clock) {
        if !matches!(error, ReceiveError::Control(_) | ReceiveError::Ended(_)) {
            give_up(&mut self.opened.control, error, clock);
        }
    }

    fn show(&mut self, start: Instant, now: Instant, watch: &mut dyn FnMut(&ReceiveProgress)) {
        self.progress.total_bytes = self.objects.total_bytes;
        self.progress.done_bytes = self.objects.done_bytes + self.objects.had_bytes;
        self.progress.elapsed = now.since(start);
        self.progress.counters = self.opened.receiver.counters();
        let lanes = self.opened.lanes.all.iter();
        self.progress.lanes =
            lanes.map(|lane| (lane.carrier.lane().describe(), lane.carrier.counters())).collect();
        watch(&self.progress);
    }

    fn wait(
        &mut self,
        waiter: &Waiter,
        again: Option<Instant>,
        now: Instant,
    ) -> Result<(), ReceiveError> {
        let Opened { control, lanes, receiver, .. } = &*self.opened;
        let mut until = again.unwrap_or(Instant::NEVER);
        until = until.min(self.relay.next_wakeup());
        let mut interests = Vec::with_capacity(1 + 2 * lanes.all.len());
        if !self.relay.is_down() {
            let (fd, write) = (control.as_fd(), control.wants_write());
            interests.push(Interest { fd, write, token: CONTROL });
        }
        for lane in &lanes.all {
            let write = !lane.is_down && !lane.carrier.is_idle();
            let token = lane.number();
            interests.extend(lane.readable().map(|fd| Interest { fd, write, token }));
            if !lane.is_down {
                until = until.min(receiver.next_wakeup(token).unwrap_or(Instant::NEVER));
            }
        }
        self.ready = if until > now { waiter.wait(&interests, until, now)? } else { Ready::ALL };
        Ok(())
    }
}

fn header(kind: Kind, lane: usize, packet_number: u64, connection: u32) -> Header {
    Header {
        kind,
        key_phase: false,
        ack_now: false,
        lane: lane as u16,
        connection,
        packet_number,
        chunk: 0,
        index: 0,
    }
}
