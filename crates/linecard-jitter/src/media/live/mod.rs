//! A stream that is watched as it arrives: its figures in bounded memory, however long it runs.
//!
//! [`Watched`] keeps the first packets and finds with [`Figures`] what the stream carries and which schedule it follows.
//! After that, a packet costs the same work whatever came before: counts, one bit of its number, one bucket in each of
//! three histograms. A sender that begins again, or another one that takes over, is learnt from the start; counts are
//! those of the whole time.
//!
//! A packet has two times: `at_ns`, when the kernel received it, and `read_ns`, when the application had it. Its lateness
//! is therefore of two parts: before the socket (the sender, the network, the way from the wire to the kernel's time
//! stamp), and in the socket, until the application has read it. Where the interface stamps packets as well, the part of
//! the first from the wire on is known.

mod episode;
mod order;
mod pair;
mod schedule;
mod source;

pub use episode::{Delay, Episode, Journal, Late};
pub use order::{Fate, LiveOrder};
pub use pair::{Pair, PairFigures};
pub use schedule::{Schedule, WINDOW_NS, WINDOWS};

use super::figures::Figures;
use super::flow::{Flow, Kind, MIN_PACKETS, Packet};
use super::number::NumberField;
use super::rate::Basis;
use super::rtp::{self, Jitter, JitterMeter};
use linecard::stats::Histogram;
use order::WINDOW;
use source::{Candidate, Identity, NEXT, Pace, Source};

/// The schedule is learnt from packets of this time …
pub const LEARN_NS: u64 = 2_000_000_000;
/// … and from at most this many: seven frames of HD video.
pub const LEARN_PACKETS: usize = 16_384;
/// A stream without packets for this long is interrupted.
pub const PAUSE_NS: u64 = 1_000_000_000;

/// A packet that is further ahead of the others is of the stream only if as many are due by then (RFC 3550, section A.1,
/// has the number).
const MAX_DROPOUT: i64 = 3_000;
/// Where no schedule is found, the time until the next search doubles up to so many times, to 64 s: a search takes
/// milliseconds.
const DOUBLED: u32 = 5;

/// A packet as it was received.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'p> {
    /// When the kernel received it.
    pub at_ns: u64,
    /// When the application had it; both on one clock.
    pub read_ns: u64,
    /// The time from the wire to `at_ns`, if the interface stamped it.
    pub wire: Option<WireDelay>,
    /// The UDP payload, or its beginning.
    pub payload: &'p [u8],
    /// Octets of the UDP payload.
    pub len: usize,
}

/// The time from the wire to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireDelay {
    /// From the interface's time stamp to the kernel's.
    pub ns: u64,
    /// By how much that may be wrong.
    pub error_ns: u64,
}

impl Arrival<'_> {
    /// The first eight octets of the payload, as they are in memory; 0 for shorter ones.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.payload.first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets))
    }
}

/// Something that happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Late packets, without one in time between them.
    Late(Episode),
    /// Nothing comes any more.
    Silence {
        /// Since then.
        since_ns: u64,
        /// When it was noticed.
        at_ns: u64,
    },
    /// Nothing came for some time.
    Pause {
        /// For how long.
        ns: u64,
        /// When it was over.
        at_ns: u64,
    },
    /// The sender began again with other numbers, or another one has taken over.
    Restart {
        /// The first packet of the new numbers.
        at_ns: u64,
    },
}

/// The content of a stream, by its first packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Content {
    /// The payload.
    pub kind: Kind,
    /// The schedule; `None` where there is none, so that no packet is late.
    pub basis: Option<Basis>,
    /// Time between packets on this host's clock, where it is constant.
    pub period_ns: Option<f64>,
}

/// One stream, watched.
#[derive(Debug)]
pub struct Watched {
    late_ns: u64,
    /// Where packets have their number, if that was given.
    field: Option<NumberField>,
    run: Run,
    candidate: Option<Candidate>,
    content: Option<Content>,
    jitter: Option<JitterMeter>,
    episodes: Journal,
    /// Arrival of the first packet and of the last.
    span: Option<(u64, u64)>,
    /// A pause goes on, and is counted.
    is_silent: bool,
    /// Changes of schedules that are not followed any more.
    changes: u64,
    /// Figures so far.
    pub counts: Counts,
}

/// The state of a sender since it began.
#[derive(Debug)]
struct Run {
    source: Option<Source>,
    field: Option<NumberField>,
    learning: Option<Flow>,
    /// The first packet of those.
    learn_from: Option<u64>,
    /// The highest number of those.
    highest: Option<i64>,
    /// Learning began again after a pause.
    is_new: bool,
    /// Later packets of a stream whose first ones had no schedule, and the first of them.
    again: Option<(Flow, Packet)>,
    again_from_ns: u64,
    tries: u32,
    schedule: Option<Schedule>,
    /// Its packets do not follow an even schedule.
    is_uneven: bool,
    /// The highest time stamp.
    clock: i64,
    /// Number and time stamp of the last packet, and the ticks to it from the one before.
    last: Option<(i64, i64)>,
    ticks: Option<i64>,
    /// The first packets were equally many ticks apart.
    has_ticks: bool,
    pace: Pace,
}

/// Counts and distributions of a stream.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Loss and order, by the packets' numbers; other UDP has none.
    pub order: LiveOrder,
    /// Packets, those of other sources on the same port not included.
    pub packets: u64,
    /// Octets of their UDP payload.
    pub octets: u64,
    /// Packets of other sources, or whose number is far from the stream's.
    pub others: u64,
    /// Pauses of [`PAUSE_NS`] and more, the current one included.
    pub pauses: u64,
    /// The longest of them.
    pub longest_pause_ns: u64,
    /// Times that the sender began again, or another one took over.
    pub restarts: u64,
    /// Packets whose lateness exceeds the limit.
    pub late: u64,
    /// Time from the wire to the kernel, of packets that the interface stamped.
    pub from_wire: Histogram,
    /// By how much any of those may be wrong.
    pub wire_error_ns: u64,
    /// Lateness when the kernel received the packet.
    pub before_socket: Histogram,
    /// Time from there until the application had it.
    pub in_socket: Histogram,
    /// Sum of the two.
    pub at_application: Histogram,
}

impl Watched {
    /// A stream of which packets are late by more than `late_ns`, and the `worst` delays are kept.
    #[must_use]
    pub fn new(late_ns: u64, worst: usize) -> Self {
        Self::with_numbers(late_ns, worst, None)
    }

    /// The same, of packets that have their number there, whatever else they carry.
    #[must_use]
    pub fn with_numbers(late_ns: u64, worst: usize, field: Option<NumberField>) -> Self {
        Self {
            late_ns,
            field,
            run: Run::new(None, field),
            candidate: None,
            content: None,
            jitter: None,
            episodes: Journal::new(worst),
            span: None,
            is_silent: false,
            changes: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the packet that arrived next, and tells `tell` about what it ends; true for packets that have a number of
    /// the stream.
    pub fn push(&mut self, arrival: &Arrival<'_>, mut tell: impl FnMut(Event)) -> bool {
        let identity = Identity::of(arrival, self.field);
        let source = *self.run.source.get_or_insert(identity.source());
        let is_plain = self.is_plain();
        if (is_plain || identity.source() == source)
            && let Some(packet) = self.place(&identity, arrival)
        {
            self.take(&packet, arrival, is_plain, &mut tell);
            if !is_plain || identity.source() == Source::Other {
                self.reject();
                return !is_plain;
            }
        }
        self.suspect(&identity, arrival, is_plain, &mut tell)
    }

    /// Reports the current pause, at a time when no packet waits.
    pub fn look(&mut self, now_ns: u64, mut tell: impl FnMut(Event)) {
        let Some((_, last_ns)) = self.span else { return };
        let since_ns = self.candidate.map_or(last_ns, |other| other.last_ns.max(last_ns));
        let ns = now_ns.saturating_sub(since_ns);
        if ns < PAUSE_NS {
            return;
        }
        self.counts.longest_pause_ns = self.counts.longest_pause_ns.max(ns);
        if !core::mem::replace(&mut self.is_silent, true) {
            self.counts.pauses += 1;
            tell(Event::Silence { since_ns, at_ns: now_ns });
        }
    }

    /// Ends the frame that is still open.
    pub fn finish(&mut self, mut tell: impl FnMut(Event)) {
        self.conclude();
        self.reject();
        if let Some(episode) = self.episodes.close() {
            tell(Event::Late(episode));
        }
    }

    /// The content, once it is known.
    #[must_use]
    pub fn content(&self) -> Option<Content> {
        let content = self.content?;
        let known = self.run.schedule.as_ref().filter(|_| content.basis == Some(Basis::Even));
        Some(Content { period_ns: known.map(Schedule::period_ns), ..content })
    }

    /// Interarrival jitter (RFC 3550), where the clock of the time stamps is known.
    #[must_use]
    pub fn jitter(&self) -> Option<Jitter> {
        self.jitter.as_ref()?.jitter()
    }

    /// Time from the first packet to the last.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last - first)
    }

    /// Arrival of the last packet.
    #[must_use]
    pub fn last_ns(&self) -> Option<u64> {
        self.span.map(|(_, last_ns)| last_ns)
    }

    /// Delays beyond this are among the worst.
    #[must_use]
    pub fn floor_ns(&self) -> u64 {
        self.episodes.floor_ns()
    }

    /// The worst delays, the worst first.
    pub fn worst(&self) -> &[Episode] {
        self.episodes.worst()
    }

    /// Times that the stream took up another schedule without a restart.
    #[must_use]
    pub fn schedule_changes(&self) -> u64 {
        self.changes + self.run.schedule.as_ref().map_or(0, |schedule| schedule.changes)
    }

    /// Whether all packets are of the stream, because it has no numbers.
    fn is_plain(&self) -> bool {
        let is_udp = self.content.is_some_and(|content| content.kind == Kind::Udp);
        self.run.source == Some(Source::Other) || (self.run.learning.is_none() && is_udp)
    }

    /// A packet with its number in the stream; `None` if it cannot have one.
    fn place(&self, identity: &Identity, arrival: &Arrival<'_>) -> Option<Packet> {
        // While the stream is learnt, a packet far from the others is not of it either.
        let learnt = self
            .run
            .highest
            .filter(|_| self.run.source != Some(Source::Other) && !self.has_paused(arrival.at_ns));
        let others = self.counts.order.highest().or(learnt);
        let number = match others.filter(|_| !self.is_plain()) {
            Some(highest) => self.number(identity, highest, arrival.at_ns)?,
            None => identity.number(0).unwrap_or(self.counts.packets as i64),
        };
        let (timestamp, marker) = match *identity {
            Identity::Rtp { stamp, marker, .. } => {
                (rtp::nearest(self.run.clock, stamp, 32), marker)
            }
            Identity::Probe(probe) => (i64::try_from(probe.due_ns).unwrap_or(i64::MAX), false),
            Identity::Numbered { .. } | Identity::Other => (0, false),
        };
        Some(Packet {
            at_ns: arrival.at_ns,
            number,
            timestamp,
            octets: u32::try_from(arrival.len).unwrap_or(u32::MAX),
            marker,
            starts: false,
            second_field: false,
        })
    }

    /// The number of a packet: near the highest, or where the stream is by then if the sender went on while nothing
    /// came.
    fn number(&self, identity: &Identity, highest: i64, at_ns: u64) -> Option<i64> {
        let number = identity.number(highest)?;
        let ahead = number.saturating_sub(highest);
        let is_near = if self.has_paused(at_ns) {
            (1..=NEXT as i64).contains(&ahead)
        } else {
            (1 - WINDOW..=MAX_DROPOUT).contains(&ahead)
        };
        if is_near {
            return Some(number);
        }
        if let Some((due, tolerance)) = self.run.pace.due(at_ns)
            && let Some(number) = identity.number(due)
            && number > highest
            && number.abs_diff(due) <= tolerance
        {
            return Some(number);
        }
        let basis = self.content.and_then(|content| content.basis);
        let (Some(Basis::Rtp(clock)), Identity::Rtp { stamp, .. }) = (basis, identity) else {
            return None;
        };
        let is_due = self.run.pace.is_due((*stamp, clock), self.run.clock, at_ns);
        (ahead > 0 && is_due).then_some(number)
    }

    fn has_basis(&self, basis: Basis) -> bool {
        self.content.is_some_and(|content| content.basis == Some(basis))
    }

    fn has_paused(&self, at_ns: u64) -> bool {
        self.last_ns().is_some_and(|last_ns| at_ns.saturating_sub(last_ns) >= PAUSE_NS)
    }

    /// Takes a packet of the stream.
    fn take(
        &mut self,
        packet: &Packet,
        arrival: &Arrival<'_>,
        is_plain: bool,
        tell: &mut impl FnMut(Event),
    ) {
        self.pause(arrival.at_ns, tell);
        self.observe(arrival);
        self.counts.packets += 1;
        self.counts.octets += arrival.len as u64;
        if self.run.learning.is_some() {
            self.run.highest = self.run.highest.max(Some(packet.number));
            return self.learn(arrival);
        }
        if !is_plain {
            if self.counts.order.push(packet.number) != Fate::New {
                return;
            }
            let is_even = self.run.follow(packet);
            if !is_even && self.run.has_ticks && self.has_basis(Basis::Even) {
                (self.run.is_uneven, self.run.has_ticks) = (true, false);
                self.unlearn();
            }
        }
        self.measure(packet, arrival, tell);
    }

    /// Takes the times of a packet.
    fn observe(&mut self, arrival: &Arrival<'_>) {
        let Arrival { at_ns, read_ns, wire, .. } = *arrival;
        let (first_ns, last_ns) = self.span.unwrap_or((at_ns, at_ns));
        self.span = Some((first_ns, at_ns.max(last_ns)));
        self.counts.in_socket.record(read_ns.saturating_sub(at_ns));
        if let Some(WireDelay { ns, error_ns }) = wire {
            self.counts.from_wire.record(ns);
            self.counts.wire_error_ns = self.counts.wire_error_ns.max(error_ns);
        }
    }

    /// Takes a packet that the stream does not explain; true if it begins another one.
    fn suspect(
        &mut self,
        identity: &Identity,
        arrival: &Arrival<'_>,
        is_counted: bool,
        tell: &mut impl FnMut(Event),
    ) -> bool {
        let (source, at_ns) = (identity.source(), arrival.at_ns);
        let is_own = self.run.source == Some(source);
        if let Some(other) = self.candidate.filter(|other| other.source != source) {
            if !is_own && !other.is_over(at_ns) {
                self.counts.others += u64::from(!is_counted);
                return false;
            }
            self.reject();
        }
        let candidate = self.candidate.get_or_insert_with(|| Candidate::new(identity, at_ns));
        candidate.push(identity, arrival, is_counted);
        let candidate = *candidate;
        let is_over = is_own || is_counted || self.has_paused(at_ns);
        if is_over && candidate.is_stream() {
            self.restart(&candidate, arrival, tell);
            if !is_counted {
                self.observe(arrival);
            }
            return true;
        }
        false
    }

    /// The stream goes on: the packets that it did not explain are not of it.
    fn reject(&mut self) {
        self.counts.others += self.candidate.take().map_or(0, |candidate| candidate.packets);
    }

    /// The packets that the stream did not explain are its own from now on.
    fn restart(
        &mut self,
        candidate: &Candidate,
        arrival: &Arrival<'_>,
        tell: &mut impl FnMut(Event),
    ) {
        self.candidate = None;
        self.pause(candidate.first_ns, tell);
        if let Some(episode) = self.episodes.close() {
            tell(Event::Late(episode));
        }
        self.counts.packets += candidate.packets;
        self.counts.octets += candidate.octets;
        self.counts.restarts += 1;
        self.counts.order.restart();
        if let Some(jitter) = &mut self.jitter {
            jitter.interrupt();
        }
        self.changes = self.schedule_changes();
        self.run = Run::new(Some(candidate.source), self.field);
        self.learn(arrival);
        tell(Event::Restart { at_ns: candidate.first_ns });
    }

    fn measure(&mut self, packet: &Packet, arrival: &Arrival<'_>, tell: &mut impl FnMut(Event)) {
        if let Some(jitter) = &mut self.jitter {
            jitter.push((packet.timestamp, packet.at_ns));
        }
        let Some(schedule) = &mut self.run.schedule else {
            return self.learn_again(packet, arrival);
        };
        let before_ns = schedule.late_ns(packet);
        if schedule.is_wrong {
            self.run.is_uneven = true;
            return self.unlearn();
        }
        if let Some(before_ns) = before_ns {
            let waited_ns = arrival.read_ns.saturating_sub(arrival.at_ns);
            let delay = Delay { before_ns, waited_ns };
            let (number, identity) = (packet.number, arrival.identity());
            self.judge(Late { number, identity, at_ns: arrival.at_ns, delay }, tell);
        }
    }

    /// Counts a pause that a packet ends.
    fn pause(&mut self, at_ns: u64, tell: &mut impl FnMut(Event)) {
        let is_counted = core::mem::take(&mut self.is_silent);
        let Some((_, last_ns)) = self.span.filter(|_| self.has_paused(at_ns)) else { return };
        let ns = at_ns - last_ns;
        self.counts.pauses += u64::from(!is_counted);
        self.counts.longest_pause_ns = self.counts.longest_pause_ns.max(ns);
        self.run.interrupt();
        // A sender that stopped within a picture may go on with the next one: its numbers have other read times then.
        if self.has_basis(Basis::Picture) {
            self.unlearn();
        }
        if let Some(jitter) = &mut self.jitter {
            jitter.interrupt();
        }
        tell(Event::Pause { ns, at_ns });
    }

    /// The schedule is learnt again.
    fn unlearn(&mut self) {
        self.changes = self.schedule_changes();
        (self.run.schedule, self.run.again) = (None, None);
    }

    fn learn(&mut self, arrival: &Arrival<'_>) {
        let Some(flow) = &mut self.run.learning else { return };
        flow.push(arrival.at_ns, arrival.payload, arrival.len);
        let from_ns = *self.run.learn_from.get_or_insert(arrival.at_ns);
        let is_long = arrival.at_ns.saturating_sub(from_ns) >= LEARN_NS;
        if flow.len() >= LEARN_PACKETS || (is_long && flow.len() >= MIN_PACKETS) {
            self.conclude();
        }
    }

    /// Draws the figures of the first packets.
    fn conclude(&mut self) {
        let Some(flow) = self.run.learning.take() else { return };
        let Some(figures) = Figures::of(&flow, None) else { return };
        self.run.schedule = Schedule::learn(&flow, &figures, 0);
        let basis = figures.basis.filter(|_| self.run.schedule.is_some());
        self.content = Some(Content { kind: figures.kind, basis, period_ns: figures.period_ns });
        // The jitter before a restart counts if the clock is the same.
        let found = figures.jitter.map(|jitter| (jitter.clock, jitter.counted));
        let same = self.jitter.filter(|jitter| Some((jitter.clock(), jitter.counted())) == found);
        self.jitter = same.or(figures.jitter.map(meter));
        if figures.kind == Kind::Udp {
            return;
        }
        let rtp = flow.rtp().map(|(ssrc, _)| Source::Rtp(ssrc));
        let other = match figures.kind {
            Kind::Numbered => Source::Numbered,
            _ => Source::Probe,
        };
        self.run.source = Some(rtp.unwrap_or(other));
        self.run.has_ticks = true;
        for packet in flow.packets() {
            self.counts.order.push(packet.number);
            if let Some(jitter) = &mut self.jitter {
                jitter.push((packet.timestamp, packet.at_ns));
            }
            let is_even = self.run.follow(&packet);
            self.run.has_ticks &= is_even;
        }
    }

    /// A stream whose first packets were disturbed, or came in a burst, may have a schedule later.
    fn learn_again(&mut self, packet: &Packet, arrival: &Arrival<'_>) {
        if packet.at_ns < self.run.again_from_ns {
            return;
        }
        let field = self.field;
        let (flow, first) =
            self.run.again.get_or_insert_with(|| (Flow::with_numbers(field), *packet));
        flow.push(arrival.at_ns, arrival.payload, arrival.len);
        let is_long = packet.at_ns.saturating_sub(first.at_ns) >= LEARN_NS;
        if flow.len() < LEARN_PACKETS && !(is_long && flow.len() >= MIN_PACKETS) {
            return;
        }
        let Some((flow, first)) = self.run.again.take() else { return };
        self.run.again_from_ns = packet.at_ns.saturating_add(LEARN_NS << self.run.tries);
        self.run.tries = (self.run.tries + 1).min(DOUBLED);
        let Some(mut figures) = Figures::of(&flow, None) else { return };
        let clock = figures.jitter.map(|jitter| jitter.clock);
        // Speech that is not sent in silence is even only during speech; its time stamps are always.
        if let (true, Some(Basis::Even), Some(clock)) = (self.run.is_uneven, figures.basis, clock) {
            figures.basis = Some(Basis::Rtp(clock));
        }
        // The flow's numbers begin with that of the packet.
        let mask = self.field.map_or(0xFFFF, |field| (1 << field.bits()) - 1);
        self.run.schedule = Schedule::learn(&flow, &figures, first.number - (first.number & mask));
        let basis = figures.basis.filter(|_| self.run.schedule.is_some());
        self.content = self.content.map(|content| {
            let kind = if figures.kind == Kind::Udp { content.kind } else { figures.kind };
            Content { kind, basis, ..content }
        });
        self.jitter = self.jitter.or(figures.jitter.map(meter));
        if let Some(schedule) = &mut self.run.schedule {
            schedule.interrupt();
            self.run.tries = 0;
        }
    }

    fn judge(&mut self, packet: Late, tell: &mut impl FnMut(Event)) {
        let late_ns = packet.delay.whole_ns();
        self.counts.before_socket.record(packet.delay.before_ns);
        self.counts.at_application.record(late_ns);
        let ended = if late_ns > self.late_ns {
            self.counts.late += 1;
            self.episodes.late(packet)
        } else {
            self.episodes.close()
        };
        if let Some(episode) = ended {
            tell(Event::Late(episode));
        }
    }
}

impl Run {
    fn new(source: Option<Source>, field: Option<NumberField>) -> Self {
        Self {
            source,
            field,
            learning: Some(Flow::with_numbers(field)),
            learn_from: None,
            highest: None,
            is_new: true,
            again: None,
            again_from_ns: 0,
            tries: 0,
            schedule: None,
            is_uneven: false,
            clock: 0,
            last: None,
            ticks: None,
            has_ticks: false,
            pace: Pace::default(),
        }
    }

    /// Takes the next packet; false if its time stamp is not as far from the one before as that was.
    fn follow(&mut self, packet: &Packet) -> bool {
        let Packet { number, timestamp, at_ns, .. } = *packet;
        self.pace.push((number, at_ns));
        self.clock = self.clock.max(timestamp);
        let before = self.last.replace((number, timestamp));
        let Some((_, before)) = before.filter(|(before, _)| before.checked_add(1) == Some(number))
        else {
            return true;
        };
        let ticks = timestamp.saturating_sub(before);
        self.ticks.replace(ticks).is_none_or(|others| others == ticks)
    }

    /// There was a pause. The packets before it teach nothing if they are few; in a slow stream all pauses are alike.
    fn interrupt(&mut self) {
        self.again = None;
        self.pace.interrupt();
        if self.learning.is_some() && core::mem::take(&mut self.is_new) {
            (self.learning, self.learn_from) = (Some(Flow::with_numbers(self.field)), None);
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.interrupt();
        }
    }
}

/// A meter that counts the same packets.
fn meter(jitter: Jitter) -> JitterMeter {
    JitterMeter::new(jitter.clock, jitter.counted)
}

#[cfg(test)]
mod tests;
