//! A stream that is watched as it arrives: its figures in bounded memory, however long it runs.
//!
//! [`Watched`] keeps the first packets and finds with [`Figures`] what the stream carries and which schedule it follows.
//! After that, a packet costs the same work whatever came before: counts, one bit of its number, one bucket in each of
//! three histograms.
//!
//! A packet has two times: `at_ns`, when the kernel received it, and `read_ns`, when the application had it. Its lateness
//! is therefore of two parts: before the socket (the sender, the network, the way from the wire to the kernel's time
//! stamp), and in the socket, until the application has read it.

mod episode;
mod order;
mod pair;
mod schedule;

pub use episode::{Delay, Episode, Journal};
pub use order::{Fate, LiveOrder};
pub use pair::{Pair, PairFigures};
pub use schedule::{Schedule, WINDOW_NS, WINDOWS};

use super::figures::Figures;
use super::flow::{Flow, Kind, MIN_PACKETS, Packet};
use super::rate::Basis;
use super::rtp::{self, Jitter, JitterMeter, Unwrapped};
use crate::stream::probe::Probe;
use linecard::stats::Histogram;

/// The schedule is learnt from packets of this time …
pub const LEARN_NS: u64 = 2_000_000_000;
/// … and from at most this many: seven frames of HD video.
pub const LEARN_PACKETS: usize = 16_384;
/// A stream without packets for this long is interrupted.
pub const PAUSE_NS: u64 = 1_000_000_000;

/// A packet that is further ahead of the others is not of the stream, unless the next one follows it (RFC 3550, section
/// A.1).
const MAX_DROPOUT: i64 = 3_000;

/// A packet as it was received.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'p> {
    /// When the kernel received it.
    pub at_ns: u64,
    /// When the application had it; both on one clock.
    pub read_ns: u64,
    /// The UDP payload, or its beginning.
    pub payload: &'p [u8],
    /// Octets of the UDP payload.
    pub len: usize,
}

/// Something that happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Late packets, without one in time between them.
    Late(Episode),
    /// Nothing came for some time.
    Pause {
        /// For how long.
        ns: u64,
        /// When it was over.
        at_ns: u64,
    },
    /// The sender began again, with other numbers or as another source.
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

/// Identity of a packet.
#[derive(Debug, Clone, Copy)]
enum Identity {
    Rtp { ssrc: u32, sequence: u16, stamp: u32, marker: bool },
    Probe(Probe),
    Other,
}

/// How a packet's number continues the stream.
#[derive(Debug, Clone, Copy)]
enum Continuation {
    Next,
    Again,
    Stale,
    /// Thousands of numbers ahead.
    Jump,
    /// The sender began again with other numbers.
    Restart,
}

impl Identity {
    fn of(arrival: &Arrival<'_>) -> Self {
        if let Some(probe) = Probe::read(arrival.payload) {
            return Self::Probe(probe);
        }
        match rtp::Header::read(arrival.payload, arrival.len) {
            Some(rtp::Header { ssrc, sequence, timestamp: stamp, marker, .. }) => {
                Self::Rtp { ssrc, sequence, stamp, marker }
            }
            None => Self::Other,
        }
    }
}

/// One stream, watched.
#[derive(Debug)]
pub struct Watched {
    late_ns: u64,
    learning: Option<Flow>,
    /// The first packet of those.
    learn_from: Option<u64>,
    /// Later packets of a stream whose first ones had no schedule, and the first of them.
    again: Option<(Flow, Packet)>,
    content: Option<Content>,
    schedule: Option<Schedule>,
    ssrc: Option<u32>,
    sequence: Unwrapped,
    clock: Unwrapped,
    jitter: Option<JitterMeter>,
    episodes: Journal,
    /// The number after one that is far from the stream.
    after_strange: Option<i64>,
    span: Option<(u64, u64)>,
    /// Figures so far.
    pub counts: Counts,
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
    /// Packets of other sources, or without a number of the stream.
    pub others: u64,
    /// Pauses of [`PAUSE_NS`] and more.
    pub pauses: u64,
    /// The longest of them.
    pub longest_pause_ns: u64,
    /// Times that the sender began again.
    pub restarts: u64,
    /// Packets whose lateness exceeds the limit.
    pub late: u64,
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
        Self {
            late_ns,
            learning: Some(Flow::default()),
            learn_from: None,
            again: None,
            content: None,
            schedule: None,
            ssrc: None,
            sequence: Unwrapped::default(),
            clock: Unwrapped::default(),
            jitter: None,
            episodes: Journal::new(worst),
            after_strange: None,
            span: None,
            counts: Counts::default(),
        }
    }

    /// Takes the packet that arrived next, and tells `tell` about what it ends; false for packets that are not of the
    /// stream, or thousands of numbers away from it.
    pub fn push(&mut self, arrival: &Arrival<'_>, mut tell: impl FnMut(Event)) -> bool {
        let (at_ns, restarts) = (arrival.at_ns, self.counts.restarts);
        let last_ns = self.span.map_or(at_ns, |(_, last)| last);
        let identity = Identity::of(arrival);
        if !self.is_ours(identity, at_ns.saturating_sub(last_ns)) {
            self.counts.others += 1;
            return false;
        }
        if let Some(ns) = self.pause(at_ns) {
            tell(Event::Pause { ns, at_ns });
        }
        self.count(arrival);
        if self.learning.is_some() {
            self.learn(arrival);
        } else {
            let packet = self.packet(identity, arrival);
            match self.continuation(packet.number) {
                Continuation::Next => self.measure(&packet, arrival, &mut tell),
                Continuation::Again => {}
                Continuation::Stale => return false,
                Continuation::Jump => {
                    self.counts.packets -= 1;
                    self.counts.others += 1;
                    return false;
                }
                Continuation::Restart => {
                    self.forget(self.ssrc.unwrap_or(0));
                    self.learn(arrival);
                }
            }
        }
        if self.counts.restarts > restarts {
            tell(Event::Restart { at_ns });
        }
        true
    }

    /// Ends what is still open.
    pub fn finish(&mut self, mut tell: impl FnMut(Event)) {
        self.conclude();
        if let Some(episode) = self.episodes.close() {
            tell(Event::Late(episode));
        }
    }

    /// The content, once it is known.
    #[must_use]
    pub fn content(&self) -> Option<Content> {
        let content = self.content?;
        let known = self.schedule.as_ref().filter(|_| content.basis == Some(Basis::Even));
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

    /// The worst delays, the worst first.
    pub fn worst(&self) -> &[Episode] {
        self.episodes.worst()
    }

    /// Times that the stream took up another schedule without a restart.
    #[must_use]
    pub fn schedule_changes(&self) -> u64 {
        self.schedule.as_ref().map_or(0, |schedule| schedule.changes)
    }

    fn count(&mut self, arrival: &Arrival<'_>) {
        let Arrival { at_ns, read_ns, len, .. } = *arrival;
        let (first_ns, last_ns) = self.span.unwrap_or((at_ns, at_ns));
        self.span = Some((first_ns, at_ns.max(last_ns)));
        self.counts.packets += 1;
        self.counts.octets += len as u64;
        self.counts.in_socket.record(read_ns.saturating_sub(at_ns));
    }

    /// How a number continues the stream. One that is far from it counts if the next packet continues from there (RFC
    /// 3550, section A.1).
    fn continuation(&mut self, number: i64) -> Continuation {
        if matches!(self.content, Some(Content { kind: Kind::Udp, .. }) | None) {
            return Continuation::Next;
        }
        let continues = self.after_strange.take() == Some(number);
        if self.counts.order.ahead(number) > MAX_DROPOUT && !continues {
            self.after_strange = number.checked_add(1);
            return Continuation::Jump;
        }
        match self.counts.order.push(number) {
            Fate::New => Continuation::Next,
            Fate::Duplicate => Continuation::Again,
            Fate::Stale if continues => Continuation::Restart,
            Fate::Stale => {
                self.after_strange = number.checked_add(1);
                Continuation::Stale
            }
        }
    }

    fn measure(&mut self, packet: &Packet, arrival: &Arrival<'_>, tell: impl FnMut(Event)) {
        if let Some(jitter) = &mut self.jitter {
            jitter.push((packet.timestamp, packet.at_ns));
        }
        let Some(schedule) = &mut self.schedule else { return self.learn_again(packet, arrival) };
        if let Some(before_ns) = schedule.late_ns(packet) {
            let waited_ns = arrival.read_ns.saturating_sub(arrival.at_ns);
            self.judge(packet, Delay { before_ns, waited_ns }, tell);
        }
    }

    fn pause(&mut self, at_ns: u64) -> Option<u64> {
        let (_, last_ns) = self.span?;
        let ns = at_ns.checked_sub(last_ns).filter(|ns| *ns >= PAUSE_NS)?;
        self.counts.pauses += 1;
        self.counts.longest_pause_ns = self.counts.longest_pause_ns.max(ns);
        self.again = None;
        if let Some(schedule) = &mut self.schedule {
            schedule.interrupt();
        }
        if let Some(jitter) = &mut self.jitter {
            jitter.interrupt();
        }
        Some(ns)
    }

    /// Whether a packet is of this stream. Another source takes over when this one has paused.
    fn is_ours(&mut self, identity: Identity, since_ns: u64) -> bool {
        let kind = self.content.map(|content| content.kind);
        match (identity, kind) {
            (_, Some(Kind::Udp)) => true,
            (Identity::Rtp { .. }, Some(Kind::Probe)) => false,
            (Identity::Rtp { ssrc, .. }, _) => {
                let own = *self.ssrc.get_or_insert(ssrc);
                if own != ssrc && since_ns >= PAUSE_NS {
                    self.forget(ssrc);
                    return true;
                }
                own == ssrc
            }
            (Identity::Probe(_), kind) => kind.is_none_or(|kind| kind == Kind::Probe),
            (Identity::Other, kind) => kind.is_none(),
        }
    }

    fn packet(&mut self, identity: Identity, arrival: &Arrival<'_>) -> Packet {
        let (number, timestamp, marker) = match identity {
            Identity::Rtp { sequence, stamp, marker, .. } => {
                (self.sequence.push(sequence.into(), 16), self.clock.push(stamp, 32), marker)
            }
            Identity::Probe(Probe { sequence, due_ns, .. }) => {
                let number = i64::try_from(sequence).unwrap_or(i64::MAX);
                (number, i64::try_from(due_ns).unwrap_or(i64::MAX), false)
            }
            Identity::Other => (self.counts.packets as i64, 0, false),
        };
        Packet {
            at_ns: arrival.at_ns,
            number,
            timestamp,
            octets: u32::try_from(arrival.len).unwrap_or(u32::MAX),
            marker,
            starts: false,
            second_field: false,
        }
    }

    fn learn(&mut self, arrival: &Arrival<'_>) {
        let Some(flow) = &mut self.learning else { return };
        flow.push(arrival.at_ns, arrival.payload, arrival.len);
        let from_ns = *self.learn_from.get_or_insert(arrival.at_ns);
        let is_long = arrival.at_ns.saturating_sub(from_ns) >= LEARN_NS;
        if flow.len() >= LEARN_PACKETS || (is_long && flow.len() >= MIN_PACKETS) {
            self.conclude();
        }
    }

    /// Draws the figures of the first packets.
    fn conclude(&mut self) {
        let Some(flow) = self.learning.take() else { return };
        let Some(figures) = Figures::of(&flow, None) else { return };
        self.schedule = Schedule::learn(&flow, &figures, 0);
        let basis = figures.basis.filter(|_| self.schedule.is_some());
        self.content = Some(Content { kind: figures.kind, basis, period_ns: figures.period_ns });
        self.jitter = figures.jitter.map(|jitter| JitterMeter::new(jitter.clock));
        let others = flow.others() as u64;
        self.counts.packets -= others;
        self.counts.others += others;
        if figures.kind == Kind::Udp {
            return;
        }
        for packet in flow.packets() {
            self.counts.order.push(packet.number);
            if let Some(jitter) = &mut self.jitter {
                jitter.push((packet.timestamp, packet.at_ns));
            }
            // RTP's counters go on from here.
            self.sequence.push((packet.number & 0xFFFF) as u32, 16);
            self.clock.push((packet.timestamp & 0xFFFF_FFFF) as u32, 32);
        }
    }

    /// A stream whose first packets were disturbed, or came in a burst, may have a schedule later.
    fn learn_again(&mut self, packet: &Packet, arrival: &Arrival<'_>) {
        let (flow, first) = self.again.get_or_insert_with(|| (Flow::default(), *packet));
        flow.push(arrival.at_ns, arrival.payload, arrival.len);
        let is_long = packet.at_ns.saturating_sub(first.at_ns) >= LEARN_NS;
        if flow.len() < LEARN_PACKETS && !(is_long && flow.len() >= MIN_PACKETS) {
            return;
        }
        let Some((flow, first)) = self.again.take() else { return };
        let Some(figures) = Figures::of(&flow, None) else { return };
        // The flow's numbers begin with what is in the packet.
        self.schedule = Schedule::learn(&flow, &figures, first.number - (first.number & 0xFFFF));
        let Some(schedule) = &mut self.schedule else { return };
        schedule.interrupt();
        let basis = figures.basis;
        self.content = self.content.map(|content| Content { basis, ..content });
        let clock = figures.jitter.map(|jitter| jitter.clock);
        self.jitter = self.jitter.or(clock.map(JitterMeter::new));
    }

    fn judge(&mut self, packet: &Packet, delay: Delay, mut tell: impl FnMut(Event)) {
        let late_ns = delay.whole_ns();
        self.counts.before_socket.record(delay.before_ns);
        self.counts.at_application.record(late_ns);
        let ended = if late_ns > self.late_ns {
            self.counts.late += 1;
            self.episodes.late(packet.number, packet.at_ns, delay)
        } else {
            self.episodes.close()
        };
        if let Some(episode) = ended {
            tell(Event::Late(episode));
        }
    }

    /// The sender began again: its stream is learnt again.
    fn forget(&mut self, ssrc: u32) {
        self.counts.restarts += 1;
        self.counts.order.restart();
        self.ssrc = Some(ssrc);
        (self.sequence, self.clock) = (Unwrapped::default(), Unwrapped::default());
        (self.schedule, self.again, self.after_strange) = (None, None, None);
        (self.learning, self.learn_from) = (Some(Flow::default()), None);
    }
}

#[cfg(test)]
mod tests;
