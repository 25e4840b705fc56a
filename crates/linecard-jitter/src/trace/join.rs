//! Reconstructs the path of each packet from events, from its due time to the application.
//!
//! The kernel's events carry the packet's number where possible. `sk_data_ready` has none: a core
//! passes packets to their socket in the order in which it received them, so within one softirq the
//! n-th of one event belongs to the n-th of the other.

use super::{Event, EventKind, NET_RX, Trace};
use crate::stream::Measured;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// Maximum packets that a core can have between driver and socket: sixteen polls of 64.
const MAX_UNDER_WAY: usize = 1_024;

/// The stages of a packet's path, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Due, but not yet handed to the kernel: the sender.
    Generator,
    /// In the sender's kernel, up to the driver.
    Send,
    /// In the driver; no poll has been requested: moderation, deferral, an interrupt that is still
    /// on its way.
    Notify,
    /// A poll has been requested, but NAPI does not run yet.
    Softirq,
    /// NAPI runs, and processes earlier packets.
    Batch,
    /// In the protocol stack, up to the socket.
    Protocols,
    /// In the socket; the reader is not running yet.
    Wakeup,
    /// The reader receives it.
    Application,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 8] = [
        Self::Generator,
        Self::Send,
        Self::Notify,
        Self::Softirq,
        Self::Batch,
        Self::Protocols,
        Self::Wakeup,
        Self::Application,
    ];

    /// Name for people and for JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Send => "send",
            Self::Notify => "notify",
            Self::Softirq => "softirq",
            Self::Batch => "batch",
            Self::Protocols => "protocols",
            Self::Wakeup => "wakeup",
            Self::Application => "application",
        }
    }
}

/// The times at which a packet reached each stage. 0 means unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketTimes {
    /// Start of each stage, in order.
    begins_ns: [u64; Stage::ALL.len()],
    /// Time at which the application received it.
    pub arrived_ns: u64,
    /// The core that sent it.
    pub sent_on: u16,
    /// The core that received it.
    pub received_on: u16,
    /// The core that the reader ran on; `None` if unknown.
    pub read_on: Option<u16>,
    /// The socket that it reached.
    pub socket: u32,
    /// Whether a timer requested the poll that received it.
    pub is_deferred: bool,
    /// Time since which that core did not poll when this was requested.
    unpolled_ns: u64,
    /// Whether its sender's thread is not known.
    pub is_foreign: bool,
    /// Whether the socket had no room for it.
    pub is_refused: bool,
}

impl PacketTimes {
    /// Time at which it reached a stage; 0 if unknown.
    #[must_use]
    pub fn begin_ns(&self, stage: Stage) -> u64 {
        self.begins_ns[stage as usize]
    }

    /// Time at which it left a stage; 0 if unknown.
    #[must_use]
    pub fn end_ns(&self, stage: Stage) -> u64 {
        self.begins_ns.get(stage as usize + 1).copied().unwrap_or(self.arrived_ns)
    }

    /// Whether all times are known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.arrived_ns > 0 && self.begins_ns.iter().all(|at| *at > 0)
    }

    fn set(&mut self, stage: Stage, at_ns: u64) {
        self.begins_ns[stage as usize] = at_ns;
    }

    /// The path of a packet that was received and has no event of its socket, with that of the first of those of the socket
    /// which came after; `None` if there is none.
    pub(crate) fn ready_with<'a>(self, others: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let receive_ns = self.begin_ns(Stage::Protocols);
        if receive_ns == 0 || self.begin_ns(Stage::Wakeup) > 0 {
            return None;
        }
        let wakeup_ns = |other: &&Self| other.begin_ns(Stage::Wakeup);
        let after = others.filter(|other| {
            other.received_on == self.received_on && wakeup_ns(other) >= receive_ns
        });
        let other = after.min_by_key(wakeup_ns)?;
        let (socket, read_on) = (other.socket, other.read_on);
        let mut found = Self { socket, read_on, ..self };
        found.set(Stage::Wakeup, other.begin_ns(Stage::Wakeup));
        found.set(Stage::Application, other.begin_ns(Stage::Application));
        Some(found)
    }

    /// The path of a packet whose sender is not known, which was due at a time and arrived at another. If it was
    /// transmitted on this host, its path begins with that.
    pub(crate) fn of_foreign(mut self, due_ns: u64, arrived_ns: u64) -> Self {
        let transmit_ns = self.begin_ns(Stage::Notify);
        let known_ns = if transmit_ns > 0 { transmit_ns } else { self.first_here_ns(due_ns) };
        (self.arrived_ns, self.is_foreign) = (arrived_ns, true);
        self.set(Stage::Generator, due_ns.min(known_ns));
        self.set(Stage::Send, known_ns);
        self.set(Stage::Notify, known_ns);
        self.settle();
        self
    }

    /// The time of a packet's first event on this host, where it was not transmitted: the request of a poll. If a timer
    /// made this, the packet may have waited since the poll before, but not since before `from_ns`.
    fn first_here_ns(&self, from_ns: u64) -> u64 {
        let [raise_ns, receive_ns] =
            [Stage::Softirq, Stage::Protocols].map(|stage| self.begin_ns(stage));
        match (raise_ns, self.is_deferred) {
            (0, _) => receive_ns,
            (_, true) => self.unpolled_ns.max(from_ns).min(receive_ns),
            (_, false) => raise_ns.min(receive_ns),
        }
    }

    /// Lets the path of a packet of another host reach this one: not before it was sent.
    fn reach(&mut self) {
        let sent_ns = self.begin_ns(Stage::Send);
        let receive_ns = self.begin_ns(Stage::Protocols);
        if receive_ns > 0 {
            let known_ns = self.first_here_ns(sent_ns).max(sent_ns).min(receive_ns);
            self.set(Stage::Notify, known_ns);
            // The period of a stream by another clock is rounded to picoseconds.
            self.set(Stage::Generator, self.begin_ns(Stage::Generator).min(sent_ns));
            self.is_foreign = true;
        }
    }

    /// Fills in times that follow from others: for a packet that arrived during a poll, the poll
    /// was requested at its arrival. Returns whether all times are in order.
    fn settle(&mut self) -> bool {
        let at = |stage: Stage| self.begins_ns[stage as usize];
        if [Stage::Notify, Stage::Protocols].map(at).contains(&0) {
            return true;
        }
        let (transmit, receive) = (at(Stage::Notify), at(Stage::Protocols));
        let batch = at(Stage::Batch).clamp(transmit.min(receive), receive);
        let softirq = at(Stage::Softirq).clamp(transmit.min(batch), batch);
        self.set(Stage::Batch, batch);
        self.set(Stage::Softirq, softirq);
        // A reader on another core may receive the packet before the kernel records that it is
        // there.
        if self.arrived_ns > 0 && self.begins_ns[Stage::Wakeup as usize] > 0 {
            let wakeup = self.begins_ns[Stage::Wakeup as usize].min(self.arrived_ns);
            self.set(Stage::Wakeup, wakeup);
            let running = self.begins_ns[Stage::Application as usize];
            self.set(Stage::Application, running.clamp(wakeup, self.arrived_ns));
        }
        let known = self.begins_ns.iter().chain([&self.arrived_ns]).filter(|at| **at > 0);
        known.clone().zip(known.skip(1)).all(|(earlier, later)| earlier <= later)
    }
}

/// How many packets were joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the application received.
    pub arrived: u64,
    /// Packets among them with all times known.
    pub joined: u64,
    /// Joined packets whose times contradict the order of the stages: clocks that differ.
    pub disordered: u64,
    /// Packets that the trace saw received from the driver.
    pub received: u64,
    /// Polls that received any of them.
    pub polls: u64,
    /// Packets received from the driver but never seen in a socket.
    pub unmatched: u64,
    /// Packets that the socket refused.
    pub refused: u64,
    /// Events that the trace has lost.
    pub lost: u64,
}

impl Counts {
    /// Mean packets per poll; `None` without polls.
    #[must_use]
    pub fn mean_batch(&self) -> Option<f64> {
        (self.polls > 0).then(|| self.received as f64 / self.polls as f64)
    }

    /// Share of the packets whose path is completely known, 0 to 1.
    #[must_use]
    pub fn joined_share(&self) -> f64 {
        if self.arrived == 0 { 0.0 } else { self.joined as f64 / self.arrived as f64 }
    }
}

/// The paths of all packets.
#[derive(Debug, Clone, Default)]
pub struct Joined {
    /// By sequence number, up to the last packet sent.
    pub passages: Vec<PacketTimes>,
    /// How many packets were joined.
    pub counts: Counts,
}

impl Joined {
    /// Joins a trace with the measurements of both ends. Events are sorted by time. Packets without
    /// a send time are left out: only those in `measured.sent_ns` are known.
    #[must_use]
    pub fn of(trace: &Trace, measured: &Measured) -> Self {
        let passages = (0..).zip(&measured.sent_ns).map(|(sequence, sent_ns)| {
            let mut passage = PacketTimes::default();
            passage.set(Stage::Generator, measured.schedule.due_ns(sequence));
            passage.set(Stage::Send, *sent_ns);
            passage
        });
        let mut join = Join::new(trace, passages.collect());
        for event in &trace.events {
            join.follow(event);
        }
        join.end(measured)
    }

    /// Joins a trace whose packets have an identity for a number, which need not be unique: each packet that was
    /// received gets a passage, in that order, and its number in the trace. The identities are returned beside them.
    #[must_use]
    pub fn by_identity(trace: &mut Trace) -> (Self, Vec<u64>) {
        let identities = number(&mut trace.events);
        let mut join = Join::new(trace, vec![PacketTimes::default(); identities.len()]);
        for event in &trace.events {
            join.follow(event);
        }
        (Self { passages: join.passages, counts: join.counts }, identities)
    }

    /// Time spent in a stage, of the packets whose path is known.
    pub fn durations_ns(&self, stage: Stage) -> impl Iterator<Item = u64> + '_ {
        let whole = self.passages.iter().filter(|passage| passage.is_whole());
        whole.map(move |passage| passage.end_ns(stage).saturating_sub(passage.begin_ns(stage)))
    }
}

/// State of a core, as far as packets are concerned.
#[derive(Debug, Default)]
struct Core {
    /// Time since which a poll runs, or may run.
    poll_ns: u64,
    /// Time of the first poll request since this core last had nothing left to poll: a packet may have waited since then,
    /// whichever request was for it.
    raise_ns: u64,
    /// End of the last poll before it.
    unpolled_ns: u64,
    is_raised_by_timer: bool,
    /// Whether a request waits for a poll to begin.
    is_raised: bool,
    /// The timer function that is running.
    timer: Option<u64>,
    /// Whether it is in the softirq that receives.
    in_receive: bool,
    /// Whether this poll has received anything.
    has_received: bool,
    /// Packets between driver and socket.
    under_way: VecDeque<u64>,
}

/// The timer that requests deferred polls: any timer if functions have no names.
struct Deferring(Option<u64>, bool);

impl Deferring {
    fn of(trace: &Trace) -> Self {
        let functions = &trace.names.functions;
        let found = functions.iter().find(|(_, name)| *name == "napi_watchdog");
        Self(found.map(|(address, _)| *address), functions.is_empty())
    }

    fn is(&self, timer: u64) -> bool {
        self.1 || self.0 == Some(timer)
    }
}

struct Join {
    passages: Vec<PacketTimes>,
    cores: BTreeMap<u16, Core>,
    counts: Counts,
    deferring: Deferring,
    is_sender_remote: bool,
    sink: u32,
    is_sink_running: bool,
    /// The core that it was last seen on.
    sink_core: Option<u16>,
    /// Packets in the socket while the reader is not running.
    waiting: Vec<u64>,
}

impl Join {
    fn new(trace: &Trace, passages: Vec<PacketTimes>) -> Self {
        Self {
            passages,
            cores: trace.cores.iter().map(|core| (*core, Core::default())).collect(),
            counts: Counts { lost: trace.lost, ..Counts::default() },
            deferring: Deferring::of(trace),
            is_sender_remote: trace.is_sender_remote,
            sink: trace.sink.map_or(0, |pinned| pinned.thread),
            is_sink_running: false,
            sink_core: None,
            waiting: Vec::new(),
        }
    }

    fn follow(&mut self, event: &Event) {
        let Some(core) = self.cores.get_mut(&event.core) else { return };
        let at_ns = event.at_ns;
        match event.what {
            EventKind::Transmit { sequence } => {
                if let Some(passage) = passage(&mut self.passages, sequence) {
                    passage.set(Stage::Notify, at_ns);
                    passage.sent_on = event.core;
                }
            }
            EventKind::TimerEntry { function } => core.timer = Some(function),
            EventKind::TimerExit => core.timer = None,
            EventKind::Raise => {
                // The softirq requests itself again when it leaves packets behind (`net_rx_action`).
                let goes_on = core.is_raised || core.in_receive;
                if !goes_on {
                    (core.raise_ns, core.unpolled_ns) = (at_ns, core.poll_ns);
                    core.is_raised_by_timer =
                        core.timer.is_some_and(|timer| self.deferring.is(timer));
                }
                core.is_raised = true;
            }
            EventKind::SoftirqEntry { number: NET_RX } => {
                if !core.is_raised {
                    // Requested before the trace: a packet has waited since then at the latest.
                    (core.raise_ns, core.unpolled_ns) = (at_ns, core.poll_ns);
                    core.is_raised_by_timer = false;
                }
                core.poll_ns = at_ns;
                (core.in_receive, core.is_raised) = (true, false);
            }
            EventKind::Poll { .. } => {
                core.poll_ns = at_ns;
                // Outside of the softirq, a thread polls.
                core.is_raised &= core.in_receive;
                self.counts.polls += u64::from(core::mem::take(&mut core.has_received));
            }
            EventKind::Receive { sequence } => self.receive(event, sequence),
            EventKind::Ready { socket } => self.ready(event, socket),
            EventKind::Refused => {
                if let Some(sequence) = core.under_way.pop_front() {
                    self.counts.refused += 1;
                    if let Some(passage) = passage(&mut self.passages, sequence) {
                        passage.is_refused = true;
                    }
                }
            }
            EventKind::SoftirqExit if core.in_receive => {
                core.in_receive = false;
                self.counts.unmatched += abandon(core);
            }
            EventKind::Switch { from, to, is_displaced, .. } => {
                // A NAPI thread starts polling when it is scheduled, and has finished when it
                // sleeps.
                core.poll_ns = at_ns;
                core.timer = None;
                if !is_displaced {
                    self.counts.unmatched += abandon(core);
                }
                self.switch(event, from, to);
            }
            _ => {}
        }
    }

    fn receive(&mut self, event: &Event, sequence: u64) {
        self.counts.received += 1;
        let Some(core) = self.cores.get_mut(&event.core) else { return };
        core.has_received = true;
        if core.under_way.len() < MAX_UNDER_WAY {
            core.under_way.push_back(sequence);
        }
        let Some(passage) = passage(&mut self.passages, sequence) else { return };
        passage.set(Stage::Softirq, core.raise_ns);
        passage.set(Stage::Batch, core.poll_ns);
        passage.set(Stage::Protocols, event.at_ns);
        passage.received_on = event.core;
        passage.unpolled_ns = core.unpolled_ns;
        passage.is_deferred = core.is_raised_by_timer;
    }

    fn ready(&mut self, event: &Event, socket: u32) {
        let under_way = self.cores.get_mut(&event.core).map(|core| &mut core.under_way);
        let Some(sequence) = under_way.and_then(VecDeque::pop_front) else { return };
        let Some(passage) = passage(&mut self.passages, sequence) else { return };
        passage.set(Stage::Wakeup, event.at_ns);
        passage.set(Stage::Application, event.at_ns);
        (passage.socket, passage.read_on) = (socket, self.sink_core);
        if !self.is_sink_running && self.sink != 0 && self.waiting.len() < MAX_UNDER_WAY {
            self.waiting.push(sequence);
        }
    }

    fn switch(&mut self, event: &Event, from: u32, to: u32) {
        if self.sink == 0 {
            return;
        }
        if from == self.sink {
            (self.is_sink_running, self.sink_core) = (false, Some(event.core));
        }
        if to == self.sink {
            (self.is_sink_running, self.sink_core) = (true, Some(event.core));
            for sequence in self.waiting.drain(..) {
                if let Some(passage) = passage(&mut self.passages, sequence) {
                    passage.set(Stage::Application, event.at_ns);
                    passage.read_on = Some(event.core);
                }
            }
        }
    }

    fn end(mut self, measured: &Measured) -> Joined {
        if self.is_sender_remote {
            self.passages.iter_mut().for_each(PacketTimes::reach);
        }
        for arrival in &measured.arrivals {
            let Some(passage) = passage(&mut self.passages, arrival.sequence) else { continue };
            // If a packet arrived twice, the first arrival counts.
            if passage.arrived_ns == 0 {
                passage.arrived_ns = arrival.at_ns;
                self.counts.arrived += 1;
            }
        }
        for passage in &mut self.passages {
            let is_in_order = passage.settle();
            if passage.is_whole() {
                self.counts.joined += 1;
                self.counts.disordered += u64::from(!is_in_order);
            }
        }
        Joined { passages: self.passages, counts: self.counts }
    }
}

fn passage(passages: &mut [PacketTimes], sequence: u64) -> Option<&mut PacketTimes> {
    passages.get_mut(usize::try_from(sequence).ok()?)
}

/// Numbers packets in the order in which they are received, also where they were transmitted before. What a packet does
/// before it reaches a socket is only its first event: a bridge or a virtual interface passes it on as received again.
fn number(events: &mut Vec<Event>) -> Vec<u64> {
    let (mut identities, mut sent, mut open) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut kept = 0;
    for at in 0..events.len() {
        let mut event = events[at];
        match &mut event.what {
            EventKind::Transmit { sequence } | EventKind::Receive { sequence }
                if open.get(&event.core).is_some_and(|open| *open == *sequence) =>
            {
                continue;
            }
            EventKind::Transmit { sequence } => {
                sent.insert(core::mem::replace(sequence, u64::MAX), kept);
            }
            EventKind::Receive { sequence } => {
                let number = identities.len() as u64;
                let identity = core::mem::replace(sequence, number);
                open.insert(event.core, identity);
                identities.push(identity);
                let before = sent.remove(&identity).and_then(|at: usize| events.get_mut(at));
                if let Some(Event { what: EventKind::Transmit { sequence }, .. }) = before {
                    *sequence = number;
                }
            }
            EventKind::Ready { .. } | EventKind::Refused | EventKind::SoftirqExit => {
                open.remove(&event.core);
            }
            _ => {}
        }
        events[kept] = event;
        kept += 1;
    }
    events.truncate(kept);
    identities
}

/// Packets that have not reached a socket when their core leaves the protocol stack never will.
fn abandon(core: &mut Core) -> u64 {
    let left = core.under_way.len() as u64;
    core.under_way.clear();
    left
}
