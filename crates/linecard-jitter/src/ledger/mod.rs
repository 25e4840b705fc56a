//! The spike ledger: where each nanosecond of a late packet's delay went, and why.
//!
//! A spike is an arrival whose distance to the previous arrival exceeds the scheduled one by more
//! than one period. Its excess is the time from the expected arrival (due time plus the lateness of
//! the previous packet) to the actual one. At each instant of it, the packet was in one [`Stage`]
//! of its path, and the core responsible for that stage was used by one [`Occupant`]; the instant
//! is charged to that pair. The charges of a spike thus add up to its excess, to the nanosecond,
//! and those of all spikes to the total. Time without a known cause is charged to a cause that says
//! so.

mod cause;

pub use cause::Cause;

use crate::media::live::Late;
use crate::stream::{Arrival, Measured};
use crate::trace::{
    Event, EventKind, Joined, NAME_LEN, NET_RX, Occupant, PacketTimes, PinnedThread, Span, Stage,
    Timeline, Trace,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Maximum number of causes that one spike is charged to; the rest is added to the last one.
pub const MAX_CHARGES: usize = 64;

/// A late packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spike {
    /// Sequence number.
    pub sequence: u64,
    /// Time of arrival.
    pub arrived_ns: u64,
    /// Time since the previous arrival.
    pub gap_ns: u64,
    /// The part of the gap that is delay.
    pub excess_ns: u64,
    /// Where the excess went, largest part first.
    pub charges: Vec<Charge>,
}

/// A part of an excess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Stage the packet was in.
    pub stage: Stage,
    /// The cause of its delay there.
    pub cause: Cause,
    /// Duration.
    pub ns: u64,
}

/// A late packet of a stream whose sender is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatePacket {
    /// Octets of it that the trace recorded.
    pub identity: u64,
    /// The lower half of its socket's cookie.
    pub socket: u32,
    /// When the kernel would have received it in time.
    pub due_ns: u64,
    /// When the kernel received it, by its time stamp.
    pub stamp_ns: u64,
    /// When the application had it.
    pub read_ns: u64,
}

impl LatePacket {
    /// A packet that was late, and the lower half of its socket's cookie.
    #[must_use]
    pub fn new(late: &Late, socket: u32) -> Self {
        let Late { identity, at_ns, delay, .. } = *late;
        let due_ns = at_ns.saturating_sub(delay.before_ns);
        let read_ns = at_ns.saturating_add(delay.waited_ns);
        Self { identity, socket, due_ns, stamp_ns: at_ns, read_ns }
    }
}

impl Spike {
    /// The delay of a late packet, by the events around it: those of [`Joined::by_identity`], sorted by time. Of packets
    /// with equal identity, the one received nearest to its time stamp counts. Where packets of the same softirq that
    /// another program's socket took have the events of this one's, the next of those counts.
    #[must_use]
    pub fn of_late(mut trace: Trace, late: &LatePacket) -> Self {
        return_reader(&mut trace, late.read_ns);
        let (joined, identities) = Joined::by_identity(&mut trace);
        let is_ready = |passage: &&PacketTimes| {
            passage.socket == late.socket
                && (1..=late.read_ns).contains(&passage.begin_ns(Stage::Wakeup))
        };
        let same = || {
            let passages = joined.passages.iter().zip(&identities);
            passages.filter(|(_, identity)| **identity == late.identity).map(|(passage, _)| passage)
        };
        let distance =
            |passage: &PacketTimes| passage.begin_ns(Stage::Protocols).abs_diff(late.stamp_ns);
        let ready = || joined.passages.iter().filter(is_ready);
        let passage = same().filter(is_ready).copied().min_by_key(distance).or_else(|| {
            same().filter_map(|passage| passage.ready_with(ready())).min_by_key(distance)
        });
        let passage = passage.map(|passage| passage.of_foreign(late.due_ns, late.read_ns));
        let timeline = Timeline::of(&trace);
        let usual_ns = [0; Stage::ALL.len()];
        let charger = Charger { trace: &trace, joined: &joined, timeline: &timeline, usual_ns };
        let excess_ns = late.read_ns.saturating_sub(late.due_ns);
        let charges = charger.charges(passage.as_ref(), late.due_ns, excess_ns);
        let (sequence, arrived_ns) = (late.identity, late.read_ns);
        Self { sequence, arrived_ns, gap_ns: 0, excess_ns, charges }
    }

    /// The time charged to each cause, the largest first.
    #[must_use]
    pub fn by_cause(&self) -> Vec<(Cause, u64)> {
        let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
        for charge in &self.charges {
            add(sums.entry(charge.cause).or_default(), charge.ns);
        }
        let mut causes: Vec<_> = sums.into_iter().collect();
        causes.sort_by_key(|(_, ns)| core::cmp::Reverse(*ns));
        causes
    }

    /// The cause that most of the excess is charged to.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.by_cause().first().map_or(Cause::Untraced, |(cause, _)| *cause)
    }

    /// The expected time of arrival.
    #[must_use]
    pub fn expected_ns(&self) -> u64 {
        self.arrived_ns.saturating_sub(self.excess_ns)
    }
}

/// Totals of one cause or stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// Spikes whose main cause it is.
    pub spikes: u64,
    /// Time charged to it in all spikes.
    pub ns: u64,
}

/// All spikes of a stream and their causes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// In order of arrival.
    pub spikes: Vec<Spike>,
    /// By cause.
    pub causes: BTreeMap<Cause, Entry>,
    /// By stage.
    pub stages: BTreeMap<Stage, Entry>,
    /// Sum of the excess of all spikes.
    pub excess_ns: u64,
    /// Arrivals that overtook another packet; they have no gap.
    pub reordered: u64,
}

impl Ledger {
    /// Builds the ledger of a stream from its trace.
    ///
    /// ```
    /// use linecard_jitter::ledger::{Cause, Ledger};
    /// use linecard_jitter::stream::{Arrival, Measured, Schedule};
    /// use linecard_jitter::trace::Trace;
    /// let schedule = Schedule { start_ns: 0, period_ps: 10_000_000 };
    /// let at = |sequence, at_ns| Arrival { sequence, at_ns };
    /// let arrivals = vec![at(0, 1_000), at(1, 11_000), at(2, 36_000)];
    /// let sent_ns = vec![100, 10_100, 20_100];
    /// let measured = Measured { schedule, sent_ns, arrivals, overflowed: 0 };
    /// let ledger = Ledger::of(&Trace::default(), &measured);
    /// assert_eq!((ledger.spikes.len(), ledger.excess_ns), (1, 15_000));
    /// assert_eq!(ledger.spikes[0].cause(), Cause::Untraced);
    /// ```
    #[must_use]
    pub fn of(trace: &Trace, measured: &Measured) -> Self {
        Self::of_joined(trace, measured, &Joined::of(trace, measured), &Timeline::of(trace))
    }

    /// Builds the ledger from packets that have been joined with the trace already.
    #[must_use]
    pub fn of_joined(
        trace: &Trace,
        measured: &Measured,
        joined: &Joined,
        timeline: &Timeline,
    ) -> Self {
        let usual_ns = Stage::ALL.map(|stage| median(joined.durations_ns(stage).collect()));
        let charger = Charger { trace, joined, timeline, usual_ns };
        let mut ledger = Self::default();
        let period_ns = measured.schedule.period_ns();
        for pair in measured.arrivals.windows(2) {
            let [before, arrival] = [pair[0], pair[1]];
            if arrival.sequence <= before.sequence {
                ledger.reordered += 1;
                continue;
            }
            let due = [before, arrival].map(|arrival| measured.schedule.due_ns(arrival.sequence));
            let expected_ns = before.at_ns.saturating_add(due[1] - due[0]);
            if arrival.at_ns.saturating_sub(expected_ns) > period_ns {
                ledger.add(charger.spike(before, arrival, expected_ns));
            }
        }
        ledger
    }

    fn add(&mut self, spike: Spike) {
        add(&mut self.excess_ns, spike.excess_ns);
        self.causes.entry(spike.cause()).or_default().spikes += 1;
        for charge in &spike.charges {
            add(&mut self.causes.entry(charge.cause).or_default().ns, charge.ns);
            add(&mut self.stages.entry(charge.stage).or_default().ns, charge.ns);
        }
        if let Some(charge) = spike.charges.first() {
            self.stages.entry(charge.stage).or_default().spikes += 1;
        }
        self.spikes.push(spike);
    }

    /// Share of spikes whose main cause is known, or for which it is known that no kernel event
    /// caused them; 1 when there are no spikes.
    #[must_use]
    pub fn named_share(&self) -> f64 {
        let of = |cause| self.causes.get(&cause).map_or(0, |entry| entry.spikes);
        let untraced = of(Cause::Untraced) + of(Cause::Missing);
        let all = self.spikes.len() as u64;
        if all == 0 { 1.0 } else { (all - untraced) as f64 / all as f64 }
    }

    /// Causes, by charged time, largest first.
    #[must_use]
    pub fn by_time(&self) -> Vec<(Cause, Entry)> {
        let mut causes: Vec<_> =
            self.causes.iter().map(|(cause, entry)| (*cause, *entry)).collect();
        causes.sort_by_key(|(_, entry)| core::cmp::Reverse(entry.ns));
        causes
    }
}

/// Charges spikes.
struct Charger<'a> {
    trace: &'a Trace,
    joined: &'a Joined,
    timeline: &'a Timeline,
    /// Median duration of each stage: the usual one.
    usual_ns: [u64; Stage::ALL.len()],
}

/// One stage of a packet, clipped to the excess.
struct Part {
    stage: Stage,
    from_ns: u64,
    to_ns: u64,
    core: Option<u16>,
}

impl Charger<'_> {
    fn spike(&self, before: Arrival, arrival: Arrival, expected_ns: u64) -> Spike {
        let excess_ns = arrival.at_ns - expected_ns;
        let passage = usize::try_from(arrival.sequence).ok();
        let passage = passage.and_then(|at| self.joined.passages.get(at));
        let passage = passage.filter(|passage| passage.arrived_ns == arrival.at_ns);
        let charges = self.charges(passage, expected_ns, excess_ns);
        let gap_ns = arrival.at_ns.saturating_sub(before.at_ns);
        Spike { sequence: arrival.sequence, arrived_ns: arrival.at_ns, gap_ns, excess_ns, charges }
    }

    /// The charges of an excess from this time on, the largest first.
    fn charges(
        &self,
        passage: Option<&PacketTimes>,
        expected_ns: u64,
        excess_ns: u64,
    ) -> Vec<Charge> {
        let mut sums: BTreeMap<(Stage, Cause), u64> = BTreeMap::new();
        match passage.filter(|passage| passage.is_whole()) {
            Some(passage) => self.charge(passage, expected_ns, &mut sums),
            None => drop(sums.insert((Stage::Generator, Cause::Untraced), excess_ns)),
        }
        let mut charges: Vec<Charge> =
            sums.into_iter().map(|((stage, cause), ns)| Charge { stage, cause, ns }).collect();
        charges.sort_by_key(|charge| core::cmp::Reverse(charge.ns));
        if charges.len() > MAX_CHARGES {
            let rest: u64 = charges[MAX_CHARGES..].iter().map(|charge| charge.ns).sum();
            charges.truncate(MAX_CHARGES);
            charges[MAX_CHARGES - 1].ns += rest;
        }
        charges
    }

    fn charge(
        &self,
        passage: &PacketTimes,
        from_ns: u64,
        sums: &mut BTreeMap<(Stage, Cause), u64>,
    ) {
        // Time before the due time belongs to the generator, which follows the schedule.
        let mut done_ns = from_ns;
        for stage in Stage::ALL {
            let to_ns = if stage == Stage::Application {
                passage.arrived_ns
            } else {
                passage.end_ns(stage).min(passage.arrived_ns)
            };
            if to_ns <= done_ns {
                continue;
            }
            let part = Part { stage, from_ns: done_ns, to_ns, core: self.core(stage, passage) };
            self.charge_part(passage, &part, sums);
            done_ns = to_ns;
        }
    }

    /// The core that has to process the packet in this stage.
    fn core(&self, stage: Stage, passage: &PacketTimes) -> Option<u16> {
        match stage {
            Stage::Generator => self.trace.generator.map(|pinned| pinned.core),
            Stage::Send if passage.is_foreign => None,
            Stage::Send => Some(passage.sent_on),
            Stage::Notify | Stage::Softirq | Stage::Batch | Stage::Protocols => {
                Some(passage.received_on)
            }
            Stage::Wakeup | Stage::Application => {
                passage.read_on.or(self.trace.sink.map(|pinned| pinned.core))
            }
        }
    }

    fn charge_part(
        &self,
        passage: &PacketTimes,
        part: &Part,
        sums: &mut BTreeMap<(Stage, Cause), u64>,
    ) {
        let Some(core) = part.core else {
            let cause = if passage.is_foreign { Cause::Outside } else { Cause::Untraced };
            *sums.entry((part.stage, cause)).or_default() += part.to_ns - part.from_ns;
            return;
        };
        // Usual time of this stage that has passed already: only the rest is charged as usual.
        let before_ns = part.from_ns.saturating_sub(passage.begin_ns(part.stage));
        let mut usual_ns = self.usual_ns[part.stage as usize].saturating_sub(before_ns);
        for span in self.timeline.within(core, part.from_ns, part.to_ns) {
            let ns = span.to_ns - span.from_ns;
            let cause = self.cause(passage, part.stage, &span);
            let path_ns = if cause == Cause::Silent { ns.min(usual_ns) } else { 0 };
            usual_ns -= path_ns;
            for (cause, ns) in [(Cause::Path, path_ns), (cause, ns - path_ns)] {
                if ns > 0 {
                    *sums.entry((part.stage, cause)).or_default() += ns;
                }
            }
        }
    }

    /// Why the packet was held up while its core was used by this occupant. [`Cause::Silent`] when
    /// the occupant is the one that should process it.
    fn cause(&self, passage: &PacketTimes, stage: Stage, span: &Span) -> Cause {
        match (stage, span.occupant) {
            // Whichever thread it is, it has no part in that.
            (Stage::Notify, Occupant::Unknown | Occupant::Missing) if passage.is_deferred => {
                Cause::Deferral
            }
            (_, Occupant::Unknown) => Cause::Untraced,
            (_, Occupant::Missing) => Cause::Missing,
            (_, Occupant::Throttled(thread)) => Cause::Throttled(thread),
            (_, Occupant::Interrupt(number)) => Cause::Interrupt(number),
            (_, Occupant::Vector(vector)) => Cause::Vector(vector),
            (_, Occupant::Timer(function)) => Cause::Timer(function),
            (Stage::Batch, Occupant::Softirq(NET_RX)) => Cause::Batch,
            (Stage::Protocols, Occupant::Softirq(NET_RX)) => Cause::Silent,
            // The sender's core receives its own packet, within the send call.
            (_, Occupant::Softirq(number)) => Cause::Softirq(number),
            (Stage::Notify, Occupant::Idle(_) | Occupant::Thread(_)) => self.unnotified(passage),
            (_, Occupant::Idle(state)) => Cause::IdleExit(state),
            (Stage::Generator | Stage::Send, Occupant::Thread(thread)) => {
                unless_own(thread, self.trace.generator)
            }
            (Stage::Wakeup | Stage::Application, Occupant::Thread(thread)) => {
                unless_own(thread, self.trace.sink)
            }
            // Outside softirqs, a kernel thread receives packets.
            (Stage::Batch | Stage::Protocols, Occupant::Thread(thread)) => {
                match self.is_kernel_poll(thread) {
                    true if stage == Stage::Batch => Cause::Batch,
                    true => Cause::Silent,
                    false => Cause::Thread(thread),
                }
            }
            (_, Occupant::Thread(thread)) => Cause::Thread(thread),
        }
    }

    /// The packet waits in the driver, its core is free, and no poll has been requested.
    fn unnotified(&self, passage: &PacketTimes) -> Cause {
        if passage.is_deferred {
            Cause::Deferral
        } else if passage.sent_on == passage.received_on {
            Cause::Silent
        } else {
            Cause::Signal
        }
    }

    fn is_kernel_poll(&self, thread: u32) -> bool {
        let name = self.trace.names.threads.get(&thread);
        name.is_some_and(|name| name.starts_with("napi/") || name.starts_with("ksoftirqd/"))
    }
}

/// The reader had its core when it read, whatever the trace shows: if another thread has it then, events are missing, as
/// the next switch would show, which may not have come yet.
fn return_reader(trace: &mut Trace, read_ns: u64) {
    let Some(PinnedThread { thread, core }) = trace.sink else { return };
    let end = trace.events.partition_point(|event| event.at_ns <= read_ns);
    let switches = trace.events[..end].iter().rev().filter_map(|event| match event.what {
        EventKind::Switch { from, to, .. } => Some((event.core, from, to)),
        _ => None,
    });
    let mine = switches.clone().find(|(_, from, to)| [*from, *to].contains(&thread));
    let core = mine.map_or(core, |(core, ..)| core);
    let last = switches.clone().find(|(other, ..)| *other == core);
    if last.is_some_and(|(.., to)| to != thread) {
        let (from, to) = (thread, thread);
        let what = EventKind::Switch { from, is_displaced: false, to, name: [0; NAME_LEN] };
        trace.events.insert(end, Event { at_ns: read_ns, core, what });
    }
}

fn unless_own(thread: u32, own: Option<PinnedThread>) -> Cause {
    if own.is_some_and(|pinned| pinned.thread == thread) {
        Cause::Silent
    } else {
        Cause::Thread(thread)
    }
}

/// Sums saturate: with a broken clock, times can be arbitrarily large.
fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

fn median(mut values: Vec<u64>) -> u64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}
