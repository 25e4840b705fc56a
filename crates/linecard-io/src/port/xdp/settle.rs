//! Patience with the kernel: what was closed is taken away a little later.

use super::error::XdpError;
use std::thread;
use std::time::{Duration, Instant};

/// How long something may look taken although its last owner is gone: the kernel waits for all
/// processors to have passed by, and then leaves it to a worker.
const SETTLING: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);

/// Tries until nobody is in the way any more, for at most [`SETTLING`].
pub(super) fn settle<T>(mut attempt: impl FnMut() -> Result<T, XdpError>) -> Result<T, XdpError> {
    let end = Instant::now() + SETTLING;
    loop {
        match attempt() {
            Err(XdpError::Occupied { .. } | XdpError::QueueTaken { .. })
                if Instant::now() < end =>
            {
                thread::sleep(STEP);
            }
            other => return other,
        }
    }
}
