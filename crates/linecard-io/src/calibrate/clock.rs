//! The clock as an instrument: what reading it costs, and whether the thread ran all the time; and how it
//! comes to.

use crate::placement::{Placed, Placement};
use std::time::Instant;

/// FIFO priority of who measures. Those whom it starts are lower: else it could not start the second.
const PRIORITY: u8 = 2;
/// Readings in a row for one estimate.
const READINGS: usize = 1_001;

/// What a timed call of nothing seems to take, nanoseconds: the median.
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

/// How often the calling thread was put aside for another, since it began; none where the kernel does
/// not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pauses(Option<u64>);

impl Pauses {
    pub(super) fn so_far() -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("nonvoluntary_ctxt_switches:"));
        Self(line.and_then(|count| count.trim().parse().ok()))
    }
}

/// Has the calling thread, and those that it starts, run before all others, until this is dropped; pins
/// it to a core, if one is given. Says why not where the system does not allow it: then other programs
/// disturb what is measured.
///
/// # Errors
///
/// The reason, as a sentence.
pub fn first(core: Option<usize>) -> Result<Placed, String> {
    let fifo = Some(PRIORITY);
    Placement { core, fifo, ..Placement::default() }.enter(true).map_err(|error| error.to_string())
}

/// Has the calling thread run after who started it, if that runs before all others; threads inherit that.
pub(super) fn lower() {
    let fifo = Some(PRIORITY - 1);
    // Who may not have a priority has none to lower. The thread keeps it until it ends.
    let is_fifo = std::fs::read_to_string("/proc/thread-self/sched").is_ok_and(|text| {
        let policy = text.lines().find(|line| line.starts_with("policy"));
        policy.is_some_and(|line| line.trim_end().ends_with('1'))
    });
    if is_fifo {
        std::mem::forget(Placement { fifo, ..Placement::default() }.enter(true));
    }
}
