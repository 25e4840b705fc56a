//! Waiting for the wish to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// Returns when it is asked to, or when the time is over.
pub(crate) fn wait(asked: &AtomicBool, at_most: Option<Duration>) {
    let begun = Instant::now();
    while !asked.load(Ordering::Relaxed) && at_most.is_none_or(|most| begun.elapsed() < most) {
        thread::sleep(LOOK);
    }
}
