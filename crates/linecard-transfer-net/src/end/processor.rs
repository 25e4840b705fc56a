//! Processor time of a transfer.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time that this process has used so far, in all its threads, with what the system did for it.
#[must_use]
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
