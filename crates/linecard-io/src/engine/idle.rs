//! Waiting of threads that have no work.

use super::busy::Busy;
use super::park::Parked;
use linecard::pipeline::Turn;
use linecard::time::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant as Clock};

/// Turns without work before a thread sleeps: some 25 µs, within which programs answer each other, so
/// that neither of the two packets waits for a wake-up. Sixteen turns took 60 µs for a request and its
/// answer, where this takes 35.
const PATIENCE: u32 = 64;
/// The longest sleep, after which a thread checks whether it was stopped and whether its interfaces
/// still exist.
const LONGEST: Duration = Duration::from_millis(10);
/// The longest sleep while a packet waits for room, which is not announced.
const LONGEST_BLOCKED: Duration = Duration::from_micros(100);

/// Packet rate above which a thread in interrupt mode first sleeps for a fixed time: a wake-up
/// every few packets would cost more than moving them.
const BUSY_PER_SECOND: u64 = 150_000;
/// The time over which the rate is measured.
const RATE_WINDOW_NS: u64 = 500_000;
/// The length of that sleep.
const NAP: Duration = Duration::from_micros(50);

/// How a thread waits after a turn without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Runs the next turn at once: the least delay, at the cost of a whole core.
    Spin,
    /// Yields to other threads first.
    #[default]
    Yield,
    /// Sleeps for this long, or until its next timer.
    Sleep(Duration),
    /// Sleeps until a ring or an interface has packets, its next timer is due, or 10 ms are over.
    /// At 150,000 packets per second or more, it sleeps for 50 µs instead.
    Interrupt,
    /// The same at every rate, without sleeps of a fixed time.
    Wake,
}

impl Idle {
    /// Whether it sleeps until it is woken up.
    fn is_woken(self) -> bool {
        matches!(self, Self::Interrupt | Self::Wake)
    }
}

/// Wakes a thread up. Without a sleeper it does nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakeup(Option<Arc<Sleeper>>);

#[derive(Debug)]
struct Sleeper {
    parked: Parked,
    event: OwnedFd,
}

impl Wakeup {
    /// A wakeup for a thread with this idle policy.
    ///
    /// # Errors
    ///
    /// If the system has no free descriptor.
    pub(super) fn new(policy: Idle) -> io::Result<Self> {
        if !policy.is_woken() {
            return Ok(Self(None));
        }
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Some(Arc::new(Sleeper { parked: Parked::new(), event }))))
    }

    /// Wakes the thread up if it sleeps.
    #[inline]
    pub(super) fn wake(&self) {
        let Some(sleeper) = &self.0 else { return };
        if sleeper.parked.must_wake() {
            // The counter cannot overflow: the sleeper resets it.
            let _rung = rustix::io::write(&sleeper.event, &1_u64.to_ne_bytes());
        }
    }
}

impl Sleeper {
    /// Sleeps for at most this long, or until a descriptor is readable, unless `may_sleep` finds
    /// work. Returns for how long.
    fn sleep(
        &self,
        others: &[OwnedFd],
        longest: Duration,
        may_sleep: impl FnOnce() -> bool,
    ) -> Duration {
        let (mut is_rung, mut slept) = (false, Duration::ZERO);
        self.parked.prepare();
        if may_sleep() {
            let all = std::iter::once(&self.event).chain(others);
            let mut all: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            let longest = Timespec::try_from(longest).ok();
            let begun = Clock::now();
            // A signal also ends the sleep, and so does a lack of memory.
            let _ready = poll(&mut all, longest.as_ref());
            slept = begun.elapsed();
            is_rung = all.first().is_some_and(|event| !event.revents().is_empty());
        }
        // A waker first takes the flag and then writes, possibly after this check: the next sleep
        // reads that write, which would otherwise end every later sleep at once.
        if self.parked.finish() || is_rung {
            let _rung = rustix::io::read(&self.event, &mut [0_u8; 8]);
        }
        slept
    }
}

/// When a task needs its next turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct PollHint {
    /// The current time.
    pub(super) now: Instant,
    /// The latest time of its next turn, even if no packet arrives.
    pub(super) wakeup: Option<Instant>,
    /// A packet waits for room.
    pub(super) is_blocked: bool,
}

impl PollHint {
    /// How long there is no work, as far as is known.
    fn until(&self) -> Duration {
        if self.is_blocked {
            // Packets that are due cannot leave either.
            return LONGEST_BLOCKED;
        }
        let due = self.wakeup.map(|at| Duration::from_nanos(at.ns_since(self.now)));
        due.unwrap_or(LONGEST).min(LONGEST)
    }
}

/// The state of an [`Idle`] policy.
#[derive(Debug)]
pub(super) struct Idler {
    policy: Idle,
    wakeup: Wakeup,
    /// Descriptors that wake the thread up.
    descriptors: Vec<OwnedFd>,
    /// Consecutive turns without work.
    turns: u32,
    rate: Rate,
    busy: Busy,
}

/// Whether the packet rate was high in the last window.
#[derive(Debug, Default)]
struct Rate {
    begun: Instant,
    moved: u64,
    is_high: bool,
}

impl Rate {
    fn count(&mut self, moved: usize) {
        self.moved = self.moved.saturating_add(moved as u64);
    }

    fn is_high(&mut self, now: Instant) -> bool {
        let elapsed = now.ns_since(self.begun);
        if elapsed >= RATE_WINDOW_NS {
            let least = u128::from(elapsed) * u128::from(BUSY_PER_SECOND);
            let is_high = u128::from(self.moved) * 1_000_000_000 >= least;
            *self = Self { begun: now, moved: 0, is_high };
        }
        self.is_high
    }
}

impl Idler {
    pub(super) fn new(policy: Idle, wakeup: Wakeup, descriptors: Vec<OwnedFd>) -> Self {
        let (rate, busy) = (Rate::default(), Busy::default());
        Self { policy, wakeup, descriptors, turns: 0, rate, busy }
    }

    /// For a thread whose class changes.
    pub(super) fn with_busy(self, busy: Busy) -> Self {
        Self { busy, ..self }
    }

    /// Called after each turn. `is_idle` checks whether there is still no work.
    pub(super) fn after(&mut self, turn: Turn, next: PollHint, is_idle: impl FnOnce() -> bool) {
        if turn.moved > 0 {
            self.rate.count(turn.received);
            self.turns = 0;
        }
        self.busy.after(turn.received, self.rate.is_high, next.now);
        let has_rested = self.busy.rest(next.now);
        if turn.moved > 0 || has_rested {
            return;
        }
        self.turns = self.turns.saturating_add(1);
        let until = next.until();
        match self.policy {
            Idle::Spin => core::hint::spin_loop(),
            Idle::Yield => thread::yield_now(),
            Idle::Interrupt if self.rate.is_high(next.now) => {
                thread::sleep(NAP.min(until));
                self.busy.sleeps(NAP.min(until));
            }
            _ if self.turns < PATIENCE => core::hint::spin_loop(),
            Idle::Sleep(time) => {
                thread::sleep(time.min(until));
                self.busy.sleeps(time.min(until));
            }
            Idle::Interrupt | Idle::Wake => {
                // A thread that waits for room may be unable to receive, and its descriptors would
                // stay readable.
                let others = if next.is_blocked { &[] } else { &self.descriptors[..] };
                if let Some(sleeper) = &self.wakeup.0 {
                    self.busy.sleeps(sleeper.sleep(others, until, is_idle));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::busy::{REST, WORK_NS};
    use super::super::scheduling::Class;
    use super::*;

    const NOW: Instant = Instant::from_ns(1_000_000_000);

    fn turn(received: usize) -> Turn {
        Turn { moved: received, received, ended: false }
    }

    fn wakeup() -> Wakeup {
        Wakeup::new(Idle::Interrupt).expect("a descriptor is free")
    }

    #[test]
    fn a_ring_that_comes_late_ends_one_sleep_and_no_more() {
        let wakeup = wakeup();
        let sleeper = wakeup.0.as_ref().expect("it sleeps");
        let time = |longest| {
            let begun = Clock::now();
            sleeper.sleep(&[], longest, || true);
            begun.elapsed()
        };
        // Another thread took the flag while the sleeper woke up by itself, and writes only now.
        rustix::io::write(&sleeper.event, &1_u64.to_ne_bytes()).expect("it has room");
        assert!(time(Duration::from_secs(10)) < Duration::from_secs(5));
        assert!(time(Duration::from_millis(20)) >= Duration::from_millis(20));
    }

    #[test]
    fn who_waits_for_room_does_not_burn_a_core() {
        let readable = eventfd(1, EventfdFlags::CLOEXEC).expect("a descriptor is free");
        for policy in [Idle::Interrupt, Idle::Sleep(Duration::from_millis(1))] {
            let another = vec![readable.try_clone().expect("a descriptor is free")];
            let mut idler = Idler::new(policy, wakeup(), another);
            // The deadline of held packets has passed.
            let next = PollHint { now: NOW, wakeup: Some(Instant::ZERO), is_blocked: true };
            let begun = Clock::now();
            (0..PATIENCE + 19).for_each(|_| idler.after(turn(0), next, || true));
            assert!(begun.elapsed() >= LONGEST_BLOCKED * 20, "{policy:?}");
        }
    }

    #[test]
    fn the_rate_of_the_last_window_counts() {
        let mut rate = Rate::default();
        let at = |ns| Instant::from_ns(NOW.as_ns() + ns);
        assert!(!rate.is_high(NOW), "nothing was moved");
        rate.count(75);
        assert!(!rate.is_high(at(RATE_WINDOW_NS - 1)), "the window is not over");
        assert!(rate.is_high(at(RATE_WINDOW_NS)), "150,000 in a second");
        rate.count(74);
        assert!(rate.is_high(at(2 * RATE_WINDOW_NS - 1)), "as in the window before");
        assert!(!rate.is_high(at(2 * RATE_WINDOW_NS)), "fewer");
    }

    #[test]
    fn a_real_time_thread_that_never_sleeps_rests() {
        let at = |ns| PollHint { now: Instant::from_ns(ns), wakeup: None, is_blocked: false };
        for (policy, moved) in [(Idle::Spin, 0), (Idle::Yield, 0), (Idle::Interrupt, 64)] {
            let mut idler = Idler::new(policy, Wakeup(None), Vec::new())
                .with_busy(Busy::new(Class::Realtime, "test"));
            let begun = Clock::now();
            // A second of turns, 1 ms apart.
            (0..1_000).for_each(|nth| idler.after(turn(moved), at(nth * WORK_NS / 10), || true));
            assert!(begun.elapsed() >= REST * 99, "{policy:?}");
        }
    }

    #[test]
    fn a_real_time_thread_that_is_woken_at_once_rests() {
        let readable = eventfd(1, EventfdFlags::CLOEXEC).expect("a descriptor is free");
        let mut idler = Idler::new(Idle::Wake, wakeup(), vec![readable])
            .with_busy(Busy::new(Class::Realtime, "test"));
        let at = |ns| PollHint { now: Instant::from_ns(ns), wakeup: None, is_blocked: false };
        let begun = Clock::now();
        // A second of turns, 20 µs apart; after the first ones nothing but sleeps that end at once.
        (0..50_000).for_each(|nth| idler.after(turn(0), at(nth * WORK_NS / 500), || true));
        assert!(begun.elapsed() >= REST * 50);
    }

    #[test]
    fn what_can_be_received_wakes_up() {
        let readable = eventfd(1, EventfdFlags::CLOEXEC).expect("a descriptor is free");
        let mut idler = Idler::new(Idle::Interrupt, wakeup(), vec![readable]);
        let next = PollHint { now: NOW, wakeup: None, is_blocked: false };
        let begun = Clock::now();
        (0..PATIENCE + 1_000).for_each(|_| idler.after(turn(0), next, || true));
        assert!(begun.elapsed() < LONGEST * 500, "woken up by what can be read");
    }
}
