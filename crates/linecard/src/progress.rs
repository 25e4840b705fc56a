//! Progress and cancellation of a long run, shared between threads.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Progress counter and cancellation token of a run.
///
/// The run polls for cancellation and reports its progress in a unit of its own choosing: bytes,
/// messages, nanoseconds of virtual time.
///
/// ```
/// use linecard::progress::Progress;
/// let progress = Progress::new();
/// progress.expect(10);
/// progress.reach(4);
/// assert_eq!(progress.counts(), (4, 10));
/// progress.stop();
/// assert!(progress.is_stopped());
/// ```
#[derive(Debug, Default)]
pub struct Progress {
    stopped: Arc<AtomicBool>,
    done: AtomicUsize,
    all: AtomicUsize,
}

impl Progress {
    /// A run that has not started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, but cancelled too once `flag` is set, as by a handler of signals.
    #[must_use]
    pub fn stopped_by(flag: Arc<AtomicBool>) -> Self {
        Self { stopped: flag, ..Self::default() }
    }

    /// The flag that is set when the run is to end, for code that looks at a flag.
    #[must_use]
    pub fn stop_flag(&self) -> &AtomicBool {
        &self.stopped
    }

    /// Requests cancellation. The run ends at its next poll.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Sets the amount of work to `all`, and the amount done to 0.
    pub fn expect(&self, all: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }

    /// Sets the amount of work done.
    pub fn reach(&self, done: usize) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Adds to the amount of work done.
    pub fn advance(&self, by: usize) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// The amount of work done and the total, which is 0 if unknown.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }
}

/// Calls of [`Ticker::goes_on`] between two polls of the shared state.
const CALLS: u32 = 256;

/// Polls a run's state once per 256 calls, for loops whose iterations take nanoseconds.
#[derive(Debug)]
pub struct Ticker<'w> {
    progress: &'w Progress,
    calls: u32,
}

impl<'w> Ticker<'w> {
    /// Sets the total amount of work to `all`, in the run's own unit.
    #[must_use]
    pub fn new(progress: &'w Progress, all: usize) -> Self {
        progress.expect(all);
        Self { progress, calls: 0 }
    }

    /// Call once per event with the amount of work done; false once cancellation was requested.
    pub fn keep_going(&mut self, done: usize) -> bool {
        self.calls += 1;
        if self.calls < CALLS {
            return true;
        }
        self.calls = 0;
        self.progress.reach(done);
        !self.progress.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_looks_now_and_then() {
        let progress = Progress::new();
        progress.reach(7);
        let mut ticker = Ticker::new(&progress, 1_000);
        assert_eq!(progress.counts(), (0, 1_000));
        progress.stop();
        let went = (1..1_000).take_while(|&done| ticker.keep_going(done)).count();
        assert_eq!((went, progress.counts().0), (255, 256));
        progress.advance(2);
        assert_eq!(progress.counts().0, 258);
    }
}
