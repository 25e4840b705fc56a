//! One packet's way, from the time it was due to the application's hands, put together from events.
//!
//! The kernel's events carry the packet's number where they can. `sk_data_ready` has none: a core
//! hands packets to their socket in the order in which it received them, so the n-th of the one belongs
//! to the n-th of the other, from one softirq to its end.

use super::{Event, NET_RX, Trace, What};
use crate::stream::Measured;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Packets that a core can have between driver and socket: sixteen polls of 64.
const MAX_UNDER_WAY: usize = 1_024;

/// The parts of a packet's way, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Due, and not yet handed to the kernel: the sender.
    Generator,
    /// In the sender's kernel, up to the driver.
    Send,
    /// With the driver, and nobody has asked for it to be received: moderation, deferral, an interrupt on
    /// its way.
    Notify,
    /// Asked for, and its NAPI does not run yet.
    Softirq,
    /// Its NAPI runs, with packets before it.
    Batch,
    /// In the protocols, up to the socket.
    Protocols,
    /// In the socket, and the reader is not on its core.
    Wakeup,
    /// The reader takes it.
    Application,
}

impl Stage {
    /// All, in order.
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

    /// For people and for JSON.
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

/// When a packet came to each part of its way. 0 is a time that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passage {
    /// Beginnings of the stages, in their order.
    begins_ns: [u64; Stage::ALL.len()],
    /// When the application had it.
    pub arrived_ns: u64,
    /// The core that sent it.
    pub sent_on: u16,
    /// The core that received it.
    pub received_on: u16,
    /// The poll that received it was asked for by a timer.
    pub is_deferred: bool,
    /// The kernel had no room for it.
    pub is_refused: bool,
}

impl Passage {
    /// When it came to a stage; 0 where that is not known.
    #[must_use]
    pub fn begin_ns(&self, stage: Stage) -> u64 {
        self.begins_ns[stage as usize]
    }

    /// When it left a stage; 0 where that is not known.
    #[must_use]
    pub fn end_ns(&self, stage: Stage) -> u64 {
        self.begins_ns.get(stage as usize + 1).copied().unwrap_or(self.arrived_ns)
    }

    /// Whether every time is known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.arrived_ns > 0 && self.begins_ns.iter().all(|at| *at > 0)
    }

    fn set(&mut self, stage: Stage, at_ns: u64) {
        self.begins_ns[stage as usize] = at_ns;
    }

    /// Fills in what follows from the rest: a packet that came while its poll was under way was asked
    /// for when it came. Says whether all is in order.
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
        // A reader on another core may have the packet before the kernel says that it is there.
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

/// What could be put together, and what could not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the application had.
    pub arrived: u64,
    /// Of those, the ones with every time of their way.
    pub joined: u64,
    /// Of the joined, those with times against the order of the stages: clocks that differ.
    pub disordered: u64,
    /// Packets that the trace saw come up from the driver.
    pub received: u64,
    /// Polls that brought up any of them.
    pub polls: u64,
    /// Packets that came up and were never seen in a socket.
    pub unmatched: u64,
    /// Packets that the socket refused.
    pub refused: u64,
    /// Events that the trace has lost.
    pub lost: u64,
}

impl Counts {
    /// Packets of one poll, in the mean; none where none was seen.
    #[must_use]
    pub fn mean_batch(&self) -> Option<f64> {
        (self.polls > 0).then(|| self.received as f64 / self.polls as f64)
    }

    /// The share of the packets whose way is known from end to end, 0 to 1.
    #[must_use]
    pub fn joined_share(&self) -> f64 {
        if self.arrived == 0 { 0.0 } else { self.joined as f64 / self.arrived as f64 }
    }
}

/// Every packet's way.
#[derive(Debug, Clone, Default)]
pub struct Joined {
    /// By number; those beyond the last that was sent are not there.
    pub passages: Vec<Passage>,
    /// How well it went.
    pub counts: Counts,
}

impl Joined {
    /// Puts a trace and what both ends saw together. Events are in order of time. Packets without a time
    /// of sending are left out: only those of `measured.sent_ns` are known.
    #[must_use]
    pub fn of(trace: &Trace, measured: &Measured) -> Self {
        let mut join = Join::new(trace, measured);
        for event in &trace.events {
            join.follow(event);
        }
        join.end(measured)
    }

    /// How long packets were in a stage, those whose way is known.
    pub fn durations_ns(&self, stage: Stage) -> impl Iterator<Item = u64> + '_ {
        let whole = self.passages.iter().filter(|passage| passage.is_whole());
        whole.map(move |passage| passage.end_ns(stage).saturating_sub(passage.begin_ns(stage)))
    }
}

/// What a core is doing, as far as packets are concerned.
#[derive(Debug, Default)]
struct Core {
    /// Since when somebody polls, or may.
    poll_ns: u64,
    /// When it was last asked to, and whether by a timer.
    raise_ns: u64,
    is_raised_by_timer: bool,
    /// The timer's function that runs.
    timer: Option<u64>,
    /// In the softirq that receives.
    in_receive: bool,
    /// Whether this poll has brought up anything.
    has_received: bool,
    /// Between driver and socket.
    under_way: VecDeque<u64>,
}

/// Which timer asks for polls that were put off: any where functions have no names.
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
    passages: Vec<Passage>,
    cores: BTreeMap<u16, Core>,
    counts: Counts,
    deferring: Deferring,
    sink: u32,
    is_sink_running: bool,
    /// In the socket, while the reader is away.
    waiting: Vec<u64>,
}

impl Join {
    fn new(trace: &Trace, measured: &Measured) -> Self {
        let mut passages = Vec::with_capacity(measured.sent_ns.len());
        for (sequence, sent_ns) in (0..).zip(&measured.sent_ns) {
            let mut passage = Passage::default();
            passage.set(Stage::Generator, measured.schedule.due_ns(sequence));
            passage.set(Stage::Send, *sent_ns);
            passages.push(passage);
        }
        Self {
            passages,
            cores: trace.cores.iter().map(|core| (*core, Core::default())).collect(),
            counts: Counts { lost: trace.lost, ..Counts::default() },
            deferring: Deferring::of(trace),
            sink: trace.sink.map_or(0, |seat| seat.thread),
            is_sink_running: false,
            waiting: Vec::new(),
        }
    }

    fn follow(&mut self, event: &Event) {
        let Some(core) = self.cores.get_mut(&event.core) else { return };
        let at_ns = event.at_ns;
        match event.what {
            What::Transmit { sequence } => {
                if let Some(passage) = passage(&mut self.passages, sequence) {
                    passage.set(Stage::Notify, at_ns);
                    passage.sent_on = event.core;
                }
            }
            What::TimerEntry { function } => core.timer = Some(function),
            What::TimerExit => core.timer = None,
            What::Raise => {
                core.raise_ns = at_ns;
                core.is_raised_by_timer = core.timer.is_some_and(|timer| self.deferring.is(timer));
            }
            What::SoftirqEntry { number: NET_RX } => {
                core.poll_ns = at_ns;
                core.in_receive = true;
            }
            What::Poll { .. } => {
                core.poll_ns = at_ns;
                self.counts.polls += u64::from(core::mem::take(&mut core.has_received));
            }
            What::Receive { sequence } => self.receive(event, sequence),
            What::Ready => self.ready(event),
            What::Refused => {
                if let Some(sequence) = core.under_way.pop_front() {
                    self.counts.refused += 1;
                    if let Some(passage) = passage(&mut self.passages, sequence) {
                        passage.is_refused = true;
                    }
                }
            }
            What::SoftirqExit if core.in_receive => {
                core.in_receive = false;
                self.counts.unmatched += abandon(core);
            }
            What::Switch { from, to, is_displaced, .. } => {
                // A NAPI thread begins to poll when it gets the core, and has polled when it sleeps.
                core.poll_ns = at_ns;
                core.timer = None;
                if !is_displaced {
                    self.counts.unmatched += abandon(core);
                }
                self.switch(at_ns, from, to);
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
        passage.is_deferred = core.is_raised_by_timer;
    }

    fn ready(&mut self, event: &Event) {
        let under_way = self.cores.get_mut(&event.core).map(|core| &mut core.under_way);
        let Some(sequence) = under_way.and_then(VecDeque::pop_front) else { return };
        let Some(passage) = passage(&mut self.passages, sequence) else { return };
        passage.set(Stage::Wakeup, event.at_ns);
        passage.set(Stage::Application, event.at_ns);
        if !self.is_sink_running && self.sink != 0 && self.waiting.len() < MAX_UNDER_WAY {
            self.waiting.push(sequence);
        }
    }

    fn switch(&mut self, at_ns: u64, from: u32, to: u32) {
        if from == self.sink {
            self.is_sink_running = false;
        }
        if to == self.sink {
            self.is_sink_running = true;
            for sequence in self.waiting.drain(..) {
                if let Some(passage) = passage(&mut self.passages, sequence) {
                    passage.set(Stage::Application, at_ns);
                }
            }
        }
    }

    fn end(mut self, measured: &Measured) -> Joined {
        for arrival in &measured.arrivals {
            let Some(passage) = passage(&mut self.passages, arrival.sequence) else { continue };
            // Of a packet that came twice, the first counts.
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

fn passage(passages: &mut [Passage], sequence: u64) -> Option<&mut Passage> {
    passages.get_mut(usize::try_from(sequence).ok()?)
}

/// Packets that are not in a socket when their core leaves the protocols never will be.
fn abandon(core: &mut Core) -> u64 {
    let left = core.under_way.len() as u64;
    core.under_way.clear();
    left
}
