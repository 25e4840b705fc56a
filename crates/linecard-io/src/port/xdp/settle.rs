//! Retries for resources that the kernel releases with a delay.

use super::error::XdpError;
use std::thread;
use std::time::{Duration, Instant};

/// How long a resource may appear in use although its last owner is gone: the kernel waits for a
/// grace period on all processors, and then defers the release to a worker.
const SETTLING: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);

/// Retries as long as the resource is in use, for at most [`SETTLING`].
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
