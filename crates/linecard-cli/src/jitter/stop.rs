//! Ending at a wish, with everything put back.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// Set by Ctrl-C, SIGTERM, or when the terminal goes; a second one ends the process at once, and the next
/// `linecard jitter` puts back what it held.
pub(crate) fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Returns when it is asked to, or when the time is over.
pub(crate) fn wait(asked: &AtomicBool, at_most: Option<Duration>) {
    let begun = Instant::now();
    while !asked.load(Ordering::Relaxed) && at_most.is_none_or(|most| begun.elapsed() < most) {
        thread::sleep(LOOK);
    }
}
