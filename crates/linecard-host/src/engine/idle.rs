//! What a thread does when there is nothing to do.

use linecard::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// Turns without work before a thread goes to sleep: some microseconds, so that a short pause costs
/// no wake-up.
const PATIENCE: u32 = 64;
/// A sleeping thread looks around at least so often: room in a full ring is not announced.
const LONGEST: Duration = Duration::from_millis(1);

/// What a thread does when a turn has moved nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Turns again at once: the least delay, and all of a core.
    Spin,
    /// Lets another thread run first.
    #[default]
    Yield,
    /// Sleeps for this long, or until a timer of its own is due.
    Sleep(Duration),
    /// Sleeps until a ring has something, a timer of its own is due, or a millisecond is over.
    Interrupt,
}

/// Where a thread can be woken up.
#[derive(Debug, Clone, Default)]
pub(super) struct Bell(Arc<Sleeper>);

#[derive(Debug, Default)]
struct Sleeper {
    asleep: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Bell {
    /// Wakes the thread up, if it sleeps.
    #[inline]
    pub(super) fn ring(&self) {
        // What was put into the ring is visible before the look at the flag, and the sleeper sets
        // its flag before it looks at the ring: one of them sees the other.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.0.asleep.load(Ordering::Relaxed)
            && self.0.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.0.thread.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps for at most this long, unless `may_sleep` sees something to do.
    fn sleep(&self, longest: Duration, may_sleep: impl FnOnce() -> bool) {
        self.0.thread.get_or_init(thread::current);
        self.0.asleep.store(true, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        if may_sleep() {
            thread::park_timeout(longest);
        }
        self.0.asleep.store(false, Ordering::Relaxed);
    }
}

/// An [`Idle`] policy at work.
#[derive(Debug)]
pub(super) struct Idler {
    policy: Idle,
    bell: Bell,
    /// Turns without work.
    turns: u32,
}

impl Idler {
    pub(super) fn new(policy: Idle, bell: Bell) -> Self {
        Self { policy, bell, turns: 0 }
    }

    /// After a turn that has moved so many packets. `wakeup` is when the next timer is due, and
    /// `is_idle` looks whether there is nothing to do still.
    pub(super) fn after(
        &mut self,
        moved: usize,
        (now, wakeup): (Instant, Option<Instant>),
        is_idle: impl FnOnce() -> bool,
    ) {
        if moved > 0 {
            self.turns = 0;
            return;
        }
        self.turns = self.turns.saturating_add(1);
        let until = wakeup.map_or(LONGEST, |at| Duration::from_nanos(at.ns_since(now)));
        match self.policy {
            Idle::Spin => core::hint::spin_loop(),
            Idle::Yield => thread::yield_now(),
            _ if self.turns < PATIENCE => core::hint::spin_loop(),
            Idle::Sleep(time) => thread::sleep(time.min(until)),
            Idle::Interrupt => self.bell.sleep(until.min(LONGEST), is_idle),
        }
    }
}
