//! Processor time of a transfer.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time that this process has used so far, in all its threads, with what the system did for it.
#[must_use]
pub fn processor_time() -> Duration {
    duration(ClockId::ProcessCPUTime)
}

/// The same of the calling thread.
#[must_use]
pub fn thread_time() -> Duration {
    duration(ClockId::ThreadCPUTime)
}

fn duration(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
