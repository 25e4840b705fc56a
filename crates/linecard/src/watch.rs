//! A long run as other threads see it: how far it has come, and whether it is to end early.

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
    stopped: AtomicBool,
    done: AtomicUsize,
    all: AtomicUsize,
}

impl Watch {
    /// Of something that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        let (stopped, done) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { stopped, done, all: AtomicUsize::new(0) }
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

    /// There is so much to do.
    pub fn expect(&self, all: usize) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// So much is done.
    pub fn reach(&self, done: usize) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// How much is done, and how much there is to do: 0 where that is not known.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }
}
