//! The clocks of a measurement, and waiting by them.
//!
//! `CLOCK_MONOTONIC` is what BPF programs read too (`bpf_ktime_get_ns`); NTP slews it by 500 ppm at most.
//! `CLOCK_MONOTONIC_RAW` is what the tracer's `mono_raw` gives. Both are read without a system call
//! where the kernel has a clock source for that.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// A sleep ends that long before the time at the latest: the timer's slack, 50 µs by default, and waking.
pub const SLEEP_MARGIN_NS: u64 = 150_000;

/// The longest single sleep, so that a stop is seen.
const LONGEST_SLEEP_NS: u64 = 50_000_000;

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_MONOTONIC_RAW` in nanoseconds.
#[must_use]
pub fn monotonic_raw_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::MonotonicRaw))
}

/// How a thread waits for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Reads the clock until it is time: the core does nothing else. The default.
    #[default]
    Spin,
    /// Sleeps until [`SLEEP_MARGIN_NS`] before the time, and reads the clock from there.
    Sleep,
}

impl Wait {
    /// Waits until `due_ns` on the monotonic clock; gives the time at which it was seen to be due, or
    /// nothing when `stop` came first.
    #[must_use]
    pub fn until(self, due_ns: u64, stop: &AtomicBool) -> Option<u64> {
        loop {
            let now_ns = monotonic_ns();
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if now_ns >= due_ns {
                return Some(now_ns);
            }
            match self {
                Self::Sleep if due_ns - now_ns > SLEEP_MARGIN_NS => {
                    let wake_ns = (due_ns - SLEEP_MARGIN_NS).min(now_ns + LONGEST_SLEEP_NS);
                    // Woken by a signal: the loop looks again.
                    let _interrupted = clock_nanosleep_absolute(ClockId::Monotonic, &time(wake_ns));
                }
                _ => spin_loop(),
            }
        }
    }
}

/// Neither clock is ever negative.
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

fn time(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND_NS) as _, tv_nsec: (ns % SECOND_NS) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_at_the_time_or_at_a_stop() {
        let stop = AtomicBool::new(false);
        for wait in [Wait::Spin, Wait::Sleep] {
            let due_ns = monotonic_ns() + 1_000_000;
            assert!(wait.until(due_ns, &stop).unwrap() >= due_ns);
            assert!(wait.until(0, &stop).unwrap() >= due_ns);
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(Wait::Sleep.until(u64::MAX, &stop), None);
    }

    #[test]
    fn clocks_go_forward() {
        let (before, raw_before) = (monotonic_ns(), monotonic_raw_ns());
        assert!(monotonic_ns() >= before && monotonic_raw_ns() >= raw_before);
        assert_eq!(nanoseconds(time(1_234_567_890_123)), 1_234_567_890_123);
    }
}
