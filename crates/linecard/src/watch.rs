//! A long run as other threads see it: how far it has come, and whether it is to end early.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shared by what runs and by who waits for it.
///
/// What runs looks at it as often as it can be told to end, and says how much it has done in a unit of
/// its own: bytes, messages, nanoseconds of virtual time.
///
/// ```
/// use linecard::watch::Watch;
/// let watch = Watch::new();
/// watch.expect(10);
/// watch.reach(4);
/// assert_eq!(watch.progress(), (4, 10));
/// watch.stop();
/// assert!(watch.is_stopped());
/// ```
#[derive(Debug, Default)]
pub struct Watch {
    stopped: Arc<AtomicBool>,
    done: AtomicUsize,
    all: AtomicUsize,
}

impl Watch {
    /// Of something that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, for what is also to end once `flag` is set, as by a handler of signals.
    #[must_use]
    pub fn stopped_by(flag: Arc<AtomicBool>) -> Self {
        Self { stopped: flag, ..Self::default() }
    }

    /// The flag that is set when the run is to end, for code that looks at a flag.
    #[must_use]
    pub fn stop_flag(&self) -> &AtomicBool {
        &self.stopped
    }

    /// What runs is to end as soon as it sees this.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// There is so much to do, and nothing of it is done.
    pub fn expect(&self, all: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }

    /// So much is done.
    pub fn reach(&self, done: usize) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// So much more is done.
    pub fn advance(&self, by: usize) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// How much is done, and how much there is to do: 0 where that is not known.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }
}

/// Calls of [`Pulse::goes_on`] between looks at the watch.
const CALLS: u32 = 256;

/// Looks at a watch now and then, from where events take nanoseconds.
#[derive(Debug)]
pub struct Pulse<'w> {
    watch: &'w Watch,
    calls: u32,
}

impl<'w> Pulse<'w> {
    /// Expects `all` of the watch, in the run's own unit.
    #[must_use]
    pub fn new(watch: &'w Watch, all: usize) -> Self {
        watch.expect(all);
        Self { watch, calls: 0 }
    }

    /// To be called for each event: whether the run goes on, of which so much is `done`.
    pub fn goes_on(&mut self, done: usize) -> bool {
        self.calls += 1;
        if self.calls < CALLS {
            return true;
        }
        self.calls = 0;
        self.watch.reach(done);
        !self.watch.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_looks_now_and_then() {
        let watch = Watch::new();
        watch.reach(7);
        let mut pulse = Pulse::new(&watch, 1_000);
        assert_eq!(watch.progress(), (0, 1_000));
        watch.stop();
        let went = (1..1_000).take_while(|&done| pulse.goes_on(done)).count();
        assert_eq!((went, watch.progress().0), (255, 256));
        watch.advance(2);
        assert_eq!(watch.progress().0, 258);
    }
}
