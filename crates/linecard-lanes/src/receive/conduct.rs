//! The thread that receives: it asks the protocol where things belong, and puts them there.

use super::objects::{Objects, Step};
use super::open::Opened;
use super::writing::{Job, Written};
use super::{Got, ReceiveError, ReceiveOptions, ReceiveProgress};
use crate::control::ControlError;
use crate::end::{Clock, Interest, Ready, Waiter, Waker, give_up};
use crate::lane::Received;
use linecard::time::Instant;
use linecard_transfer::control::{self, Message, Text};
use linecard_transfer::receive::{Arrival, ReceiveEvent, Reply};
use linecard_transfer::wire::{Header, Kind, MAX_LANES, Probe};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// How often others are told how far it is, in ns.
const WATCH_NS: u64 = 100_000_000;
/// When packets have come, more are on their way: they are waited for together, as an interrupt that is
/// moderated does. On 8 lanes of 200 Mbit/s that is a quarter of this end's processor time.
const MODERATION: Duration = Duration::from_micros(100);
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
        self.show(start, now, watch);
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
            elapsed: now.since(self.first.unwrap_or(start)),
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
        while !self.is_over() {
            let now = clock.now();
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(ReceiveError::Stopped);
            }
            if self.ready.has(CONTROL) {
                self.listen(now)?;
            }
            self.take_written()?;
            self.announce_lengths()?;
            let more = self.take_packets(now)?;
            self.put_away()?;
            let again = self.reply(now)?;
            self.finish();
            self.opened.control.flush()?;
            if self.opened.store.is_empty() {
                // The sender may have to read, or to wait itself, before it sends again.
                self.last = now;
            }
            if now.since(self.last) > self.options.patience {
                return Err(ReceiveError::Silent(self.options.patience));
            }
            if now.ns_since(watched) >= WATCH_NS {
                watched = now;
                self.show(start, now, watch);
            }
            if more {
                self.ready = Ready::ALL;
            } else if !self.is_over() {
                if self.came {
                    std::thread::sleep(MODERATION);
                }
                self.wait(&waiter, again, clock.now())?;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.said_finish && !self.opened.control.wants_write()
    }

    /// What the sender says.
    fn listen(&mut self, now: Instant) -> Result<(), ReceiveError> {
        loop {
            let message = match self.opened.control.receive() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                Err(ControlError::Closed) if self.said_finish => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.last = now;
            match message {
                Message::Object(object) => {
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
    fn take_written(&mut self) -> Result<(), ReceiveError> {
        while let Ok(written) = self.results.try_recv() {
            match written {
                Written::Opened { object, have, existing } => {
                    if let Some((told, skip)) = self.objects.opened(object, have, existing) {
                        skip.into_iter().for_each(|chunks| self.opened.receiver.skip(chunks));
                        self.opened.control.send(&Message::Have(told))?;
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
                        self.opened.control.send(&Message::Stored { object })?;
                    }
                }
                Written::Refused { object, error } => {
                    let text = Text::of(error.to_string().as_bytes());
                    let (skip, step) = self.objects.refused(object, error)?;
                    self.go_on(object, skip, step);
                    let object = Some(object);
                    let failed = control::Failed { object, sent_below: None, code: REFUSED, text };
                    self.opened.control.send(&Message::Failed(failed))?;
                }
                Written::Closed => {
                    self.opened.control.send(&Message::Finish)?;
                    self.said_finish = true;
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
        lanes.accept(now);
        self.came = false;
        let ready = self.ready;
        for lane in lanes.all.iter_mut().filter(|lane| ready.has(lane.number())) {
            let mut probed = None;
            let mut validated = false;
            let (mut taken, mut heard) = (false, false);
            let came = lane.carrier.receive(&mut self.received, |header, body, from| {
                if header.kind == Kind::Probe {
                    probed = from;
                }
                heard = true;
                let arrival = receiver.receive(header, body, now);
                validated |= arrival == Arrival::Probe { validated: true };
                taken |= matches!(arrival, Arrival::Data { .. } | Arrival::Repair { .. });
                store.put(arrival, body);
            });
            lane.from = probed.or(lane.from);
            if heard {
                lane.heard = now;
            }
            if validated {
                lane.validate();
            }
            if taken {
                self.came = true;
                self.last = now;
                self.first.get_or_insert(now);
            }
            match came {
                Ok(rest) => more |= rest,
                Err(_) => lane.is_down = lane.carrier.lane().is_stream(),
            }
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
        let mut interests =
            vec![Interest { fd: control.as_fd(), write: control.wants_write(), token: CONTROL }];
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
