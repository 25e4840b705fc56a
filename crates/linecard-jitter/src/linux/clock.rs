//! Clocks of a measurement, and waiting for a time.
//!
//! BPF programs read `CLOCK_MONOTONIC` too (`bpf_ktime_get_ns`); NTP slews it by at most 500 ppm.
//! The tracer's `mono_raw` is `CLOCK_MONOTONIC_RAW`. Both are read without a system call when the
//! kernel's clock source supports that.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// A sleep ends this long before the due time, to allow for the timer's slack (50 µs by default)
/// and for waking up.
pub const SLEEP_MARGIN_NS: u64 = 150_000;

/// Longest single sleep, so that a stop is noticed.
const LONGEST_SLEEP_NS: u64 = 50_000_000;

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_REALTIME` in nanoseconds since 1970, which is set by people and by NTP.
#[must_use]
pub fn realtime_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// How a thread waits for a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Reads the clock until it is time; keeps the core busy. The default.
    #[default]
    Spin,
    /// Sleeps until [`SLEEP_MARGIN_NS`] before the time, and reads the clock from there.
    Sleep,
}

impl Wait {
    /// Waits until `due_ns` on the monotonic clock. Returns the time read at the end of the wait,
    /// or `None` when `stop` was set first.
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
                    // A signal can interrupt the sleep: the loop checks again.
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
    fn the_clock_goes_forward() {
        let before = monotonic_ns();
        assert!(monotonic_ns() >= before);
        assert_eq!(nanoseconds(time(1_234_567_890_123)), 1_234_567_890_123);
    }
}
