//! The clock as an instrument: what reading it costs, and whether the thread ran all the time.

use std::time::Instant;

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
