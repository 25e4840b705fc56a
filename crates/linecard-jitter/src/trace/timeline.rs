//! What each core was busy with, instant by instant: threads, and what interrupts them, exclusively.
//!
//! A core is always with exactly one occupant: a thread (or the idle loop), above it a softirq, above
//! that an interrupt, above that a timer's function. What is inside counts, what it interrupts waits.

use super::{Event, Trace, Vector, What};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Interrupts and softirqs inside each other, at most; deeper ones are counted with the one they are in.
const MAX_DEPTH: usize = 8;

/// The interrupt that timers' functions run in.
const LOCAL_TIMER: Occupant = Occupant::Vector(Vector::LocalTimer);

/// Who has a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occupant {
    /// Not yet known: nothing was seen of this core before.
    Unknown,
    /// Nobody, in this state of sleep; `u32::MAX` while it is awake and looks for work.
    Idle(u32),
    /// Nobody, though this thread would have gone on: it is throttled, or on its way to another core.
    Throttled(u32),
    /// A thread.
    Thread(u32),
    /// A softirq, an index of [`super::SOFTIRQS`].
    Softirq(u8),
    /// A device's interrupt.
    Interrupt(u32),
    /// An interrupt of the processor's own.
    Vector(Vector),
    /// A timer's function.
    Timer(u64),
}

/// A time that a core was with one occupant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// From here …
    pub from_ns: u64,
    /// … up to here.
    pub to_ns: u64,
    /// Who had it.
    pub occupant: Occupant,
    /// The thread below it; 0 is the idle loop, none where it is not known.
    pub thread: Option<u32>,
}

/// Occupants of all traced cores over time.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    cores: BTreeMap<u16, Vec<Span>>,
    breaks: u64,
}

/// What a core has on it.
#[derive(Debug, Default)]
struct Stack {
    thread: Option<u32>,
    sleep: Option<u32>,
    /// The thread that was put off for nobody.
    throttled: Option<u32>,
    /// Switches that do not follow from the one before.
    breaks: u64,
    above: Vec<Level>,
    since_ns: u64,
    spans: Vec<Span>,
}

/// What interrupts, and the first span that lies in it.
#[derive(Debug, Clone, Copy)]
struct Level {
    occupant: Occupant,
    first: usize,
}

impl Timeline {
    /// Reads a trace, whose events are in order of time.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let first = trace.events.first().map_or(0, |event| event.at_ns);
        let last = trace.events.last().map_or(0, |event| event.at_ns);
        let begin = |core: &u16| (*core, Stack { since_ns: first, ..Stack::default() });
        let mut stacks: BTreeMap<u16, Stack> = trace.cores.iter().map(begin).collect();
        for event in &trace.events {
            if let Some(stack) = stacks.get_mut(&event.core) {
                stack.follow(event);
            }
        }
        let mut timeline = Self::default();
        for (core, mut stack) in stacks {
            stack.close(last);
            timeline.breaks += stack.breaks;
            timeline.cores.insert(core, stack.spans);
        }
        timeline
    }

    /// How often a core was with another thread than the last one that was seen to take it: the trace
    /// has not seen everything.
    #[must_use]
    pub fn breaks(&self) -> u64 {
        self.breaks
    }

    /// All spans of a core, without gaps, in order.
    #[must_use]
    pub fn spans(&self, core: u16) -> &[Span] {
        self.cores.get(&core).map_or(&[], Vec::as_slice)
    }

    /// The spans of a core within these times, cut to them; where nothing is known, [`Occupant::Unknown`].
    /// Together they are as long as from `from_ns` to `to_ns`.
    /// That is nothing where `to_ns` is not later.
    pub fn within(&self, core: u16, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Span> + '_ {
        let to_ns = to_ns.max(from_ns);
        let spans = self.spans(core);
        let known = (spans.first().map(|span| span.from_ns), spans.last().map(|span| span.to_ns));
        let (known_from, known_to) = match known {
            (Some(from), Some(to)) => (from.clamp(from_ns, to_ns), to.clamp(from_ns, to_ns)),
            _ => (to_ns, to_ns),
        };
        let unknown =
            |from_ns, to_ns| Span { from_ns, to_ns, occupant: Occupant::Unknown, thread: None };
        let first = spans.partition_point(|span| span.to_ns <= known_from);
        let inside = spans[first..].iter().take_while(move |span| span.from_ns < known_to);
        let inside = inside.map(move |span| Span {
            from_ns: span.from_ns.max(known_from),
            to_ns: span.to_ns.min(known_to),
            ..*span
        });
        core::iter::once(unknown(from_ns, known_from))
            .chain(inside)
            .chain(core::iter::once(unknown(known_to.max(known_from), to_ns)))
            .filter(|span| span.from_ns < span.to_ns)
    }
}

impl Stack {
    fn follow(&mut self, event: &Event) {
        match event.what {
            What::InterruptEntry { number } => self.enter(event, Occupant::Interrupt(number)),
            What::VectorEntry { vector } => self.enter(event, Occupant::Vector(vector)),
            What::SoftirqEntry { number } => self.enter(event, Occupant::Softirq(number)),
            What::TimerEntry { function } => self.enter(event, Occupant::Timer(function)),
            What::InterruptExit => self.leave(event, |top| matches!(top, Occupant::Interrupt(_))),
            What::VectorExit => self.leave(event, |top| matches!(top, Occupant::Vector(_))),
            What::SoftirqExit => self.leave(event, |top| matches!(top, Occupant::Softirq(_))),
            What::TimerExit => self.leave(event, |top| matches!(top, Occupant::Timer(_))),
            What::Switch { from, is_displaced, to, .. } => {
                // Who had the core before is said by who takes it. Where that is another one than was
                // seen to take it, events are missing, and nobody knows since when.
                match self.thread {
                    None => self.thread = Some(from),
                    Some(thread) if thread != from => {
                        self.thread = None;
                        self.above.clear();
                        self.breaks += 1;
                    }
                    Some(_) => {}
                }
                self.close(event.at_ns);
                self.thread = Some(to);
                self.throttled = (to == 0 && is_displaced && from != 0).then_some(from);
                self.sleep = None;
                // Nothing switches inside an interrupt: what is still open has ended unseen.
                self.above.clear();
            }
            What::Sleep { state } => {
                self.close(event.at_ns);
                self.sleep = Some(state);
                self.thread = Some(0);
            }
            What::Awake => {
                self.close(event.at_ns);
                self.sleep = None;
            }
            _ => {}
        }
    }

    fn enter(&mut self, event: &Event, occupant: Occupant) {
        if self.above.len() < MAX_DEPTH {
            self.close(event.at_ns);
            self.above.push(Level { occupant, first: self.spans.len() });
        }
    }

    /// Leaves the innermost one of this kind, and with it what is still open inside.
    fn leave(&mut self, event: &Event, is_it: impl Fn(&Occupant) -> bool) {
        if let Some(at) = self.above.iter().rposition(|level| is_it(&level.occupant)) {
            self.close(event.at_ns);
            let Level { occupant, first } = self.above[at];
            if occupant == LOCAL_TIMER {
                self.name_timer(first);
            }
            self.above.truncate(at);
        }
    }

    /// The core's timer interrupts for the sake of functions: all of it is the one's that took most.
    /// `first` is the span that it began with.
    fn name_timer(&mut self, first: usize) {
        let mut functions: BTreeMap<Occupant, u64> = BTreeMap::new();
        let is_timer = |span: &&Span| matches!(span.occupant, Occupant::Timer(_));
        for span in self.spans[first..].iter().filter(is_timer) {
            *functions.entry(span.occupant).or_default() += span.to_ns - span.from_ns;
        }
        let Some((function, _)) = functions.into_iter().max_by_key(|(_, ns)| *ns) else { return };
        for span in &mut self.spans[first..] {
            if span.occupant == LOCAL_TIMER {
                span.occupant = function;
            }
        }
    }

    fn occupant(&self) -> Occupant {
        match (self.above.last(), self.thread, self.sleep) {
            (Some(top), ..) => top.occupant,
            (None, Some(0), _) if let Some(thread) = self.throttled => Occupant::Throttled(thread),
            (None, Some(0), state) => Occupant::Idle(state.unwrap_or(u32::MAX)),
            (None, Some(thread), _) => Occupant::Thread(thread),
            (None, None, _) => Occupant::Unknown,
        }
    }

    /// Ends the span that is under way.
    fn close(&mut self, at_ns: u64) {
        if at_ns > self.since_ns {
            let occupant = self.occupant();
            let thread = self.thread;
            self.spans.push(Span { from_ns: self.since_ns, to_ns: at_ns, occupant, thread });
            self.since_ns = at_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// A timer of the softirq that was at it before takes no time of the core's timer.
    #[test]
    fn a_timer_that_is_interrupted_does_not_name_the_interrupt() {
        let timer = |function| What::TimerEntry { function };
        let whats = [
            (10, What::SoftirqEntry { number: 1 }),
            (20, timer(7)),
            (900, What::VectorEntry { vector: Vector::LocalTimer }),
            (910, timer(8)),
            (930, What::TimerExit),
            (950, What::VectorExit),
            (960, What::TimerExit),
            (970, What::SoftirqExit),
        ];
        let event = |(at_ns, what)| Event { at_ns, core: 0, what };
        let events = whats.into_iter().map(event).collect();
        let timeline = Timeline::of(&Trace { events, cores: vec![0], ..Trace::default() });
        let found: Vec<_> =
            timeline.spans(0).iter().map(|span| (span.from_ns, span.occupant)).collect();
        let (softirq, own, other) = (Occupant::Softirq(1), Occupant::Timer(7), Occupant::Timer(8));
        let spans =
            [(10, softirq), (20, own), (900, other), (910, other), (930, other), (950, own)];
        assert_eq!(found, [&spans[..], &[(960, softirq)]].concat());
    }
}
