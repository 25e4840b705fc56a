//! Processor time of a transfer, and of the cores that it may use.

use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
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

/// A tick of the clock by which Linux shows times of cores.
const TICK: Duration = Duration::from_millis(10);

/// Time of some cores so far; none where the system does not show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTimes {
    /// In which they did anything, for any process.
    pub busy: Duration,
    /// And all.
    pub all: Duration,
}

impl CoreTimes {
    /// Of all cores that the calling thread may use.
    #[must_use]
    pub fn so_far() -> Self {
        let set = sched_getaffinity(None);
        Self::of(|core| set.as_ref().is_ok_and(|set| core < CpuSet::MAX_CPU && set.is_set(core)))
    }

    /// Of chosen cores.
    #[must_use]
    pub fn of(is_chosen: impl Fn(usize) -> bool) -> Self {
        Self::in_text(&fs::read_to_string("/proc/stat").unwrap_or_default(), is_chosen)
    }

    /// In the text of `/proc/stat` (`proc_stat(5)`).
    fn in_text(text: &str, is_chosen: impl Fn(usize) -> bool) -> Self {
        let mut times = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let core = words.next().and_then(|word| word.strip_prefix("cpu")?.parse().ok());
            if !core.is_some_and(&is_chosen) {
                continue;
            }
            // user nice system idle iowait irq softirq steal
            for (at, ticks) in words.take(8).enumerate() {
                let time = TICK.saturating_mul(ticks.parse().unwrap_or(0));
                times.all += time;
                if !matches!(at, 3 | 4) {
                    times.busy += time;
                }
            }
        }
        times
    }

    /// The time since an earlier one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            all: self.all.saturating_sub(earlier.all),
        }
    }

    /// The share of their time in which they were busy, from 0 to 1; 0 if no time has passed.
    #[must_use]
    pub fn busy_share(self) -> f64 {
        self.busy.div_duration_f64(self.all.max(TICK)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_chosen_cores() {
        let text = "cpu  300 0 0 900 0 0 0 0 0 0\n\
                    cpu0 100 20 30 400 50 5 5 10 7 0\n\
                    cpu1 200 0 0 500 0 0 0 0 0 0\nintr 1 2 3\n";
        let times = |busy, all| CoreTimes {
            busy: Duration::from_millis(busy),
            all: Duration::from_millis(all),
        };
        assert_eq!(CoreTimes::in_text(text, |core| core == 0), times(1_700, 6_200));
        let both = CoreTimes::in_text(text, |_| true);
        assert_eq!(both, times(3_700, 13_200));
        assert_eq!(times(4_700, 15_200).since(both).busy_share(), 0.5);
        assert_eq!(both.since(both).busy_share(), 0.0);
        assert_eq!(CoreTimes::in_text("", |_| true), CoreTimes::default());
    }

    #[test]
    fn the_system_shows_times_of_the_cores_that_this_thread_may_use() {
        let times = CoreTimes::so_far();
        assert!(times.busy > Duration::ZERO && times.busy <= times.all, "{times:?}");
    }
}
