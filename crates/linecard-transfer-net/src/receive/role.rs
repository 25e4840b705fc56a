//! The receiving role of the endpoint driver: stores each packet where the protocol says that it belongs.

use super::accept::HANDSHAKE;
use super::lanes::Lanes;
use super::moderation::Moderation;
use super::objects::{Objects, Step};
use super::open::Opened;
use super::removal::Removal;
use super::writing::{Job, WriteQueue, Written};
use super::{ReceiveError, ReceiveOptions, ReceiveProgress, Received};
use crate::control::ControlError;
use crate::end::{Driver, Endpoint, Packet, Role, SealedSocket, deliver};
use crate::file::FileError;
use crate::lane::LaneError;
use crate::seal::SealError;
use linecard::time::Instant;
use linecard_transfer::control::Message;
use linecard_transfer::lane::LaneReceiver;
use linecard_transfer::receive::{Arrival, ReceiveEvent, Receiver};
use linecard_transfer::store::Store;
use linecard_transfer::wire::{Header, Kind};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How long this end waits at most, with everything in its place, for the sender to know that: a lane on which nothing comes
/// for a while may be its only one.
const FAREWELL: Duration = Duration::from_secs(10);
/// The same where the control connection was closed or cut: the sender may be gone.
const SHORT_FAREWELL: Duration = Duration::from_secs(2);

/// Callback for progress.
pub(super) type Observer<'a> = &'a mut dyn FnMut(&ReceiveProgress);

/// The receiving end.
pub(super) struct Receiving<'a> {
    options: &'a ReceiveOptions,
    objects: Objects,
    files: WriteQueue,
    lanes: &'a mut Lanes,
    receiver: &'a mut Receiver,
    store: &'a mut Store,
    /// The sender has announced an object.
    has_begun: &'a mut bool,
    /// A dry run: it only asks for the stored objects.
    is_dry: bool,
    removal: Removal,
    /// Lengths of chunks below this one are known to the protocol.
    announced_below: u32,
    /// Everything is in its place, and the sender was informed.
    ended: Option<Instant>,
    /// The sender has closed the control connection behind its last message.
    heard_close: bool,
    heard_finish: bool,
    /// The files' thread was asked to put everything in order.
    is_closing: bool,
    start: Instant,
    /// When the first data came.
    first: Option<Instant>,
    /// When something was last heard of the sender.
    last: Instant,
    /// When packets have come, more are on their way: they are waited for together.
    moderation: Moderation,
    progress: ReceiveProgress,
    observer: Observer<'a>,
}

/// Receives all objects.
pub(super) fn run(
    options: &ReceiveOptions,
    opened: &mut Opened,
    (files, driver): (WriteQueue, Driver<'_>),
    observer: Observer<'_>,
) -> Result<Received, ReceiveError> {
    let (clock, start) = (driver.clock, driver.clock.now());
    let (mut role, endpoint) = Receiving::new(options, (opened, files), observer, start)?;
    driver.run(&mut role, endpoint)?;
    let Receiving { objects, removal, progress, ended, first, .. } = role;
    Ok(Received {
        sender: opened.endpoint.control.peer(),
        from: opened.from,
        objects: objects.stored,
        // In a dry run nothing is stored: those of a probe.
        bytes: if opened.is_dry { objects.done_bytes } else { objects.stored_bytes },
        had_bytes: objects.had_bytes,
        unchanged: objects.unchanged,
        failures: objects.failures,
        removed: removal.removed,
        unremoved: removal.failures,
        elapsed: ended.unwrap_or(clock.now()).since(first.unwrap_or(start)),
        processor: Duration::ZERO,
        counters: opened.receiver.counters(),
        lanes: progress.lanes,
    })
}

impl Role for Receiving<'_> {
    type Error = ReceiveError;

    const GRID_NS: u64 = 1;

    /// All is in its place, and the sender knows, or does not say so: it may be gone, as may its network.
    fn is_over(&self, endpoint: &Endpoint, now: Instant) -> bool {
        let Some(ended) = self.ended else { return false };
        let is_cut = endpoint.relay.is_cut();
        let farewell = if is_cut { SHORT_FAREWELL } else { FAREWELL }.min(self.options.patience);
        let has_waited = endpoint.is_flushed() && now.since(ended) > farewell;
        self.heard_close || endpoint.relay.is_confirmed() || has_waited
    }

    /// When everything is in its place, only the sender's confirmation is missing.
    fn stopped(&self) -> Result<(), ReceiveError> {
        if self.ended.is_some() { Ok(()) } else { Err(ReceiveError::Stopped) }
    }

    fn is_known_there(error: &ReceiveError) -> bool {
        matches!(error, ReceiveError::Control(_) | ReceiveError::Ended(_))
    }

    fn message(
        &mut self,
        endpoint: &mut Endpoint,
        message: Message,
        now: Instant,
    ) -> Result<(), ReceiveError> {
        self.last = now;
        match message {
            Message::Object(object) => {
                if self.removal.has_begun {
                    return Err(ReceiveError::Unexpected("an object after the last"));
                }
                *self.has_begun = true;
                let job = self.objects.announce(&object)?;
                if let Job::Open { about, .. } = &job {
                    self.removal.announced(about);
                }
                self.give(job);
            }
            Message::Span(span) => self.objects.span(span.chunk, span.bytes)?,
            Message::End(end) => {
                let (skip, step) = self.objects.end(&end)?;
                self.go_on((end.object, skip, step), endpoint)?;
            }
            Message::Finish => {
                self.objects.finish();
                self.heard_finish = true;
            }
            Message::List(list) => {
                let job = self.removal.list(list, self.may_remove())?;
                self.give(job);
            }
            Message::Remove(remove) => {
                let job = self.removal.remove(&remove, self.may_remove())?;
                self.give(job);
            }
            Message::Failed(failed) => match failed.object {
                Some(object) => {
                    let (skip, step) = self.objects.given_up(object, &failed)?;
                    self.go_on((object, skip, step), endpoint)?;
                }
                // It gives up waiting for the news that everything is in its place.
                None if self.ended.is_some() => self.heard_close = true,
                None => return Err(ReceiveError::Ended(failed.text.to_string())),
            },
            _ => return Err(ReceiveError::Unexpected("a message that only a receiver sends")),
        }
        Ok(())
    }

    /// The sender closes the connection when it has heard the last message; until then that is an error.
    fn disconnected(&mut self, error: ControlError) -> Result<(), ReceiveError> {
        if self.ended.is_none() {
            return Err(error.into());
        }
        self.heard_close = true;
        Ok(())
    }

    fn take_results(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), ReceiveError> {
        while let Ok(written) = self.files.results.try_recv() {
            self.take_result(endpoint, written, now)?;
        }
        self.announce_lengths()
    }

    fn is_up(&self, lane: usize) -> bool {
        !self.lanes.all[lane].is_down
    }

    fn packet(&mut self, packet: &Packet<'_>, now: Instant) -> bool {
        let arrival = self.receiver.receive_from(packet.header, (packet.body, packet.from), now);
        if matches!(arrival, Arrival::Data { .. } | Arrival::Repair { .. }) {
            self.moderation.add(packet.body.len());
            self.last = now;
            self.first.get_or_insert(now);
        }
        // In a dry run, only test data is expected.
        if !self.is_dry || self.objects.is_probed() {
            self.store.put(arrival, packet.body);
        }
        arrival == Arrival::Control
    }

    fn after_packets(&mut self, endpoint: &mut Endpoint, lane: usize, now: Instant) {
        self.lanes.all[lane].accept(now);
        let waiting = std::mem::take(&mut self.lanes.all[lane].candidates);
        for mut candidate in waiting {
            let Endpoint { sockets, relay, inboxes, .. } = &mut *endpoint;
            let verdict = sockets[lane].try_candidate(&mut *candidate.lane, &mut inboxes[0]);
            if verdict.is_ok() {
                deliver(self, relay, (lane, &mut inboxes[0]), now);
            }
            self.lanes.all[lane].decided(candidate, verdict.ok(), &mut sockets[lane]);
        }
    }

    fn lane_failed(
        &mut self,
        lane: usize,
        _error: &LaneError,
        _now: Instant,
    ) -> Result<(), ReceiveError> {
        self.lanes.all[lane].failed();
        Ok(())
    }

    /// Repairs chunks and hands on complete ones.
    fn process(&mut self, _endpoint: &mut Endpoint, _now: Instant) -> Result<(), ReceiveError> {
        while let Some(event) = self.receiver.next_event() {
            match event {
                ReceiveEvent::Repair { chunk, group, bytes, missing } => {
                    if !self.store.repair(chunk, group, bytes, &missing) {
                        return Err(ReceiveError::Repair(chunk));
                    }
                }
                ReceiveEvent::Whole { chunk, bytes } => {
                    let place = self.objects.place(chunk);
                    let (Some(buffer), Some((object, of_object))) = (self.store.take(chunk), place)
                    else {
                        continue;
                    };
                    self.give(Job::Write { object, chunk, of_object, buffer, bytes });
                }
            }
        }
        Ok(())
    }

    fn control_header(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        _now: Instant,
    ) -> Option<Header> {
        let to = self.receiver.lane(lane).and_then(LaneReceiver::address);
        if to.is_none() && !socket.lane().is_stream() {
            return None;
        }
        to.into_iter().for_each(|to| socket.answer_to(to));
        Some(self.lanes.header(Kind::Control, lane, self.receiver.connection()))
    }

    /// Acknowledgments and answers to probes.
    fn fill(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        now: Instant,
    ) -> Result<(), SealError> {
        while let Some((reply, to)) = self.receiver.poll(lane, now) {
            if to.is_none() && !socket.lane().is_stream() {
                continue;
            }
            let header = self.lanes.header(reply.kind(), lane, self.receiver.connection());
            to.into_iter().for_each(|to| socket.answer_to(to));
            socket.push(&header, |out| reply.write(out));
        }
        Ok(())
    }

    fn check(&mut self, endpoint: &Endpoint, now: Instant) -> Result<(), ReceiveError> {
        if self.heard_finish && !self.is_closing && self.objects.is_empty() {
            self.give(Job::Close);
            self.is_closing = true;
        }
        self.check_patience(endpoint, now)
    }

    fn show(&mut self, endpoint: &Endpoint, now: Instant) {
        if !*self.has_begun || self.is_dry {
            return;
        }
        self.progress.total_bytes = self.objects.total_bytes;
        self.progress.had_bytes = self.objects.had_bytes;
        self.progress.done_bytes = self.objects.done_bytes + self.objects.had_bytes;
        self.progress.elapsed = now.since(self.start);
        self.progress.counters = self.receiver.counters();
        let sockets = endpoint.sockets.iter().enumerate();
        let sockets = sockets.filter(|(lane, _)| self.lanes.is_there(*lane));
        self.progress.lanes =
            sockets.map(|(_, socket)| (socket.lane().describe(), socket.counters())).collect();
        (self.observer)(&self.progress);
    }

    fn moderation(&mut self, now: Instant) -> Duration {
        self.moderation.pause(now)
    }

    fn next_wakeup(&self, lane: usize, _is_idle: bool) -> Instant {
        let own = self.receiver.next_wakeup(lane).filter(|_| self.is_up(lane));
        own.unwrap_or(Instant::NEVER)
    }

    fn other_fds(&self, lane: usize) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes.all[lane].waiting_fds()
    }
}

impl<'a> Receiving<'a> {
    /// The role at its start, and its endpoint.
    pub(super) fn new(
        options: &'a ReceiveOptions,
        (opened, files): (&'a mut Opened, WriteQueue),
        observer: Observer<'a>,
        start: Instant,
    ) -> Result<(Self, &'a mut Endpoint), FileError> {
        let from = Some((opened.from, opened.endpoint.control.peer()));
        let role = Self {
            options,
            objects: Objects::new(options, (opened.chunk_bytes, opened.window), opened.is_dry)?,
            files,
            lanes: &mut opened.lanes,
            receiver: &mut opened.receiver,
            store: &mut opened.store,
            has_begun: &mut opened.has_begun,
            is_dry: opened.is_dry,
            removal: Removal::new(opened.may_delete, opened.is_dry),
            announced_below: 0,
            ended: None,
            heard_close: false,
            heard_finish: false,
            is_closing: false,
            start,
            first: None,
            last: start,
            moderation: Moderation::new(start),
            progress: ReceiveProgress { from, ..ReceiveProgress::default() },
            observer,
        };
        Ok((role, &mut opened.endpoint))
    }

    /// Bytes that came in this transfer and are written.
    #[cfg(test)]
    pub(super) const fn written_bytes(&self) -> u64 {
        self.objects.done_bytes
    }

    /// Asks the files' thread for something; if it is gone, its last result says why.
    fn give(&self, job: Job) {
        let _gone = self.files.jobs.send(job);
    }

    /// Whether everything has arrived, and the sender has not said that nothing more comes.
    fn may_remove(&self) -> bool {
        self.objects.are_stored() && !self.heard_finish
    }

    /// How long the sender may be silent: not for long before it has announced anything.
    fn check_patience(&mut self, endpoint: &Endpoint, now: Instant) -> Result<(), ReceiveError> {
        if self.ended.is_some() {
            return Ok(());
        }
        let patience = self.options.patience;
        let announcing = patience.min(HANDSHAKE);
        if !*self.has_begun && now.since(self.start) > announcing {
            return Err(ReceiveError::NothingAnnounced(announcing));
        }
        if self.store.is_empty() {
            // The sender may have to read, or to wait itself, before it sends again.
            self.last = now;
        }
        let is_silent = endpoint.relay.is_silent(patience);
        match is_silent || now.since(self.last) > patience {
            true => Err(ReceiveError::Silent(patience)),
            false => Ok(()),
        }
    }

    /// These chunks will not come; what has come of them is dropped.
    fn skip(&mut self, chunks: Vec<Range<u32>>) {
        for range in chunks {
            self.store.discard(range.clone());
            self.receiver.skip(range);
        }
    }

    /// Some chunks of an object will not come, and the next step follows.
    fn go_on(
        &mut self,
        (object, skip, step): (u32, Vec<Range<u32>>, Step),
        endpoint: &mut Endpoint,
    ) -> Result<(), ControlError> {
        self.skip(skip);
        match step {
            Step::Wait => {}
            Step::Finish(job) => self.give(job),
            Step::Settled => self.close(object, true, endpoint)?,
            Step::Drop(job) => {
                self.objects.drop_object(object);
                self.give(job);
            }
        }
        Ok(())
    }

    /// An object is in its place.
    fn close(
        &mut self,
        object: u32,
        was_there: bool,
        endpoint: &mut Endpoint,
    ) -> Result<(), ControlError> {
        match self.objects.close(object, was_there) {
            true => endpoint.send(&Message::Stored { object }),
            false => Ok(()),
        }
    }

    fn take_result(
        &mut self,
        endpoint: &mut Endpoint,
        written: Written,
        now: Instant,
    ) -> Result<(), ReceiveError> {
        match written {
            Written::Opened { object, found } => {
                let opened = self.objects.opened(object, found);
                if let Some((told, skip)) = opened {
                    self.skip(skip);
                    endpoint.send(&Message::Have(told))?;
                }
            }
            Written::Chunk { chunk, buffer } => {
                self.receiver.taken(chunk);
                self.store.give_back(buffer);
                if let Some((object, _)) = self.objects.place(chunk) {
                    let step = self.objects.written(chunk);
                    self.go_on((object, Vec::new(), step), endpoint)?;
                }
            }
            Written::Object { object, was_there } => {
                self.close(object, was_there, endpoint)?;
            }
            Written::Refused { object, error } => {
                let why = error.to_string();
                let (skip, step) = self.objects.refused(object, error)?;
                self.go_on((object, skip, step), endpoint)?;
                endpoint.send_failed(object, None, &why)?;
            }
            Written::Listed(listed) => {
                self.removal.listed();
                endpoint.send(&Message::Listed(listed))?;
            }
            Written::Removed(removed) => {
                self.removal.removed(&removed);
                endpoint.send(&Message::Removed(removed))?;
            }
            Written::Closed => {
                endpoint.send(&Message::Finish)?;
                self.ended = Some(now);
            }
            Written::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Tells the protocol how long chunks are, as far as it may know.
    fn announce_lengths(&mut self) -> Result<(), ReceiveError> {
        if self.is_dry && !self.objects.is_probed() {
            return Ok(());
        }
        self.announced_below = self.announced_below.max(self.receiver.taken_below());
        while self.announced_below < self.receiver.announce_end() {
            if let Some(bytes) = self.objects.length(self.announced_below) {
                self.receiver.announce(self.announced_below, bytes)?;
                self.store.announce(self.announced_below, bytes);
                self.announced_below += 1;
            } else if let Some(next) = self.objects.next_begin(self.announced_below) {
                self.announced_below = next;
            } else {
                break;
            }
        }
        Ok(())
    }
}
