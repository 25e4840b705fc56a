//! The clock as an instrument: the cost of reading it, the scheduling priority of measuring
//! threads, and whether a thread was preempted.

use crate::placement::{Placement, PlacementGuard};
use std::time::Instant;

/// FIFO priority of the measuring thread. Threads that it starts have a lower one; otherwise it
/// could not start the second.
const PRIORITY: u8 = 2;
/// Readings in a row for one estimate.
const READINGS: usize = 1_001;

/// The median time of a timed empty call, nanoseconds: the cost of reading the clock.
pub(super) fn clock_ns() -> f64 {
    let mut times: Vec<u64> = (0..READINGS)
        .map(|_| {
            let before = Instant::now();
            before.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[READINGS / 2] as f64
}

/// Counts how often the calling thread was preempted since this was created; none if the kernel
/// does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pauses(Option<u64>);

impl Pauses {
    pub(super) fn so_far() -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("nonvoluntary_ctxt_switches:"));
        Self(line.and_then(|count| count.trim().parse().ok()))
    }
}

/// Gives the calling thread, and those that it starts, priority over all others until the result is
/// dropped, and pins it to a core if one is given. If the system does not permit it, other programs
/// disturb the measurement.
///
/// # Errors
///
/// The reason as a sentence.
pub fn raise_priority(core: Option<usize>) -> Result<PlacementGuard, String> {
    let fifo = Some(PRIORITY);
    Placement { core, fifo, ..Placement::default() }.enter(true).map_err(|error| error.to_string())
}

/// Lowers the calling thread's priority below that of its starter, if that has FIFO priority, which
/// threads inherit.
pub(super) fn lower_priority() {
    let fifo = Some(PRIORITY - 1);
    // A thread that may not set its priority has none to lower. It keeps the lower one until it
    // ends.
    let is_fifo = std::fs::read_to_string("/proc/thread-self/sched").is_ok_and(|text| {
        let policy = text.lines().find(|line| line.starts_with("policy"));
        policy.is_some_and(|line| line.trim_end().ends_with('1'))
    });
    if is_fifo {
        std::mem::forget(Placement { fifo, ..Placement::default() }.enter(true));
    }
}
