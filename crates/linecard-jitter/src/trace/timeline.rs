//! Occupation of each core over time: threads, and what interrupts them, exclusively.
//!
//! At any time, a core has exactly one occupant: a thread (or the idle loop), interrupted by a
//! softirq, that by an interrupt, that by a timer function. Time is charged to the innermost one.

use super::{Event, EventKind, Trace, Vector};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Maximum nesting of interrupts and softirqs; deeper ones are charged to the enclosing one.
const MAX_DEPTH: usize = 8;

/// The interrupt in which timer functions run.
const LOCAL_TIMER: Occupant = Occupant::Vector(Vector::LocalTimer);

/// The thread, interrupt or idle state that occupies a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occupant {
    /// Unknown: no event of this core was seen before.
    Unknown,
    /// Unknown: events of this core are missing. The thread that leaves it is not the one that came.
    Missing,
    /// Idle in the state of this number; `u32::MAX` while it is awake and looks for work.
    Idle(u32),
    /// Idle although this thread is runnable: it is throttled, or migrating to another core.
    Throttled(u32),
    /// A thread.
    Thread(u32),
    /// A softirq, an index of [`super::SOFTIRQS`].
    Softirq(u8),
    /// A device interrupt.
    Interrupt(u32),
    /// An interrupt without a device.
    Vector(Vector),
    /// A timer function.
    Timer(u64),
}

/// A period in which a core had one occupant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start …
    pub from_ns: u64,
    /// … and end.
    pub to_ns: u64,
    /// The occupant.
    pub occupant: Occupant,
    /// The interrupted thread; 0 is the idle loop, `None` if unknown.
    pub thread: Option<u32>,
}

/// Occupants of all traced cores over time.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    cores: BTreeMap<u16, Vec<Span>>,
    breaks: u64,
}

/// The nesting of occupants on a core.
#[derive(Debug, Default)]
struct Stack {
    thread: Option<u32>,
    /// Events are missing since the last one.
    is_missing: bool,
    sleep: Option<u32>,
    /// The runnable thread that was replaced by the idle loop.
    throttled: Option<u32>,
    /// Switches that contradict the previous one.
    breaks: u64,
    above: Vec<Level>,
    since_ns: u64,
    spans: Vec<Span>,
}

/// An interrupting occupant, and the first span within it.
#[derive(Debug, Clone, Copy)]
struct Level {
    occupant: Occupant,
    first: usize,
}

impl Timeline {
    /// Builds the timeline of a trace, whose events are sorted by time.
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

    /// How often a core's thread was not the one last switched to: the trace has missed events.
    #[must_use]
    pub fn breaks(&self) -> u64 {
        self.breaks
    }

    /// All spans of a core, in order and without gaps.
    #[must_use]
    pub fn spans(&self, core: u16) -> &[Span] {
        self.cores.get(&core).map_or(&[], Vec::as_slice)
    }

    /// The spans of a core within these times, clipped to them; unknown times are
    /// [`Occupant::Unknown`]. Together they last from `from_ns` to `to_ns`; empty if `to_ns` is not
    /// later.
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
            EventKind::InterruptEntry { number } => self.enter(event, Occupant::Interrupt(number)),
            EventKind::VectorEntry { vector } => self.enter(event, Occupant::Vector(vector)),
            EventKind::SoftirqEntry { number } => self.enter(event, Occupant::Softirq(number)),
            EventKind::TimerEntry { function } => self.enter(event, Occupant::Timer(function)),
            EventKind::InterruptExit => {
                self.leave(event, |top| matches!(top, Occupant::Interrupt(_)));
            }
            EventKind::VectorExit => self.leave(event, |top| matches!(top, Occupant::Vector(_))),
            EventKind::SoftirqExit => self.leave(event, |top| matches!(top, Occupant::Softirq(_))),
            EventKind::TimerExit => self.leave(event, |top| matches!(top, Occupant::Timer(_))),
            EventKind::Switch { from, is_displaced, to, .. } => {
                // A switch names the previous thread. If that is not the one last switched to,
                // events are missing, and the time of the change is unknown.
                match self.thread {
                    None => self.thread = Some(from),
                    Some(thread) if thread != from => {
                        self.is_missing = true;
                        self.breaks += 1;
                    }
                    Some(_) => {}
                }
                self.close(event.at_ns);
                self.is_missing = false;
                self.thread = Some(to);
                self.throttled = (to == 0 && is_displaced && from != 0).then_some(from);
                self.sleep = None;
                // Threads do not switch within an interrupt: the end of whatever is still open was
                // not recorded.
                self.above.clear();
            }
            EventKind::Sleep { state } => {
                self.close(event.at_ns);
                self.sleep = Some(state);
                self.thread = Some(0);
            }
            EventKind::Awake => {
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

    /// Ends the innermost occupant of this kind, and those still open within it.
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

    /// A timer interrupt is charged to the timer function that took most of its time. `first` is
    /// the span it began with.
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
        if self.is_missing {
            return Occupant::Missing;
        }
        match (self.above.last(), self.thread, self.sleep) {
            (Some(top), ..) => top.occupant,
            (None, Some(0), _) if let Some(thread) = self.throttled => Occupant::Throttled(thread),
            (None, Some(0), state) => Occupant::Idle(state.unwrap_or(u32::MAX)),
            (None, Some(thread), _) => Occupant::Thread(thread),
            (None, None, _) => Occupant::Unknown,
        }
    }

    /// Ends the current span.
    fn close(&mut self, at_ns: u64) {
        if at_ns > self.since_ns {
            let occupant = self.occupant();
            let thread = self.thread.filter(|_| !self.is_missing);
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
        let timer = |function| EventKind::TimerEntry { function };
        let whats = [
            (10, EventKind::SoftirqEntry { number: 1 }),
            (20, timer(7)),
            (900, EventKind::VectorEntry { vector: Vector::LocalTimer }),
            (910, timer(8)),
            (930, EventKind::TimerExit),
            (950, EventKind::VectorExit),
            (960, EventKind::TimerExit),
            (970, EventKind::SoftirqExit),
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
