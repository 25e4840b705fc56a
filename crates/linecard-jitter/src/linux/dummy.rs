//! A busy loop without a network: shows what the host does to a program that only reads the clock.
//!
//! The loop reads the time every period; a long step between two readings is caused by the host. On
//! the absolute schedule, laps after a late one are late too until the loop has caught up. A stream
//! sees that, and gaps alone hide it (*coordinated omission*: a pause of 10 ms is one long gap, and
//! a thousand late laps). The relative loop is that of the paper: each lap counts from the previous
//! one, so every pause moves all later laps and none is ever late.

use super::clock::{Wait, monotonic_ns};
use super::switches::{self, Switches};
use crate::stream::Schedule;
use linecard_io::placement::{Placement, PlacementError};
use std::fs;
use std::sync::atomic::AtomicBool;

/// Maximum number of laps: each time takes 8 bytes.
pub const MAX_LAPS: u64 = 100_000_000;
/// Longest period: an hour.
const MAX_PERIOD_PS: u64 = 3_600_000_000_000_000;
/// Longest run of a busy thread in a real-time class.
pub const MAX_FIFO_SECONDS: u64 = 60;
/// Time from the start to the first lap.
const LEAD_NS: u64 = 100_000;

/// The reference point of each lap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// The start: lap n is due at start + n · period. The default.
    #[default]
    Absolute,
    /// The previous lap, as in the paper: every pause moves the schedule.
    Relative,
}

/// Configuration of a busy loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DummyConfig {
    /// Picoseconds per lap, 1 to 3.6e15 (an hour). Default: 7,410,000, as in the paper.
    pub period_ps: u64,
    /// Number of laps, 2 to [`MAX_LAPS`]. Default: 1,000,000.
    pub count: u64,
    /// Reference point of each lap. Default: the start.
    pub pace: Pace,
    /// Core and priority of the loop. Default: unchanged.
    pub placement: Placement,
}

impl Default for DummyConfig {
    fn default() -> Self {
        let placement = Placement::default();
        Self { period_ps: 7_410_000, count: 1_000_000, pace: Pace::Absolute, placement }
    }
}

/// Why the loop did not run.
#[derive(Debug, thiserror::Error)]
pub enum DummyError {
    /// The period is out of range.
    #[error("a period of {0} ps cannot be kept: take one from 1 ps to an hour")]
    Period(u64),
    /// Too few laps, or too many.
    #[error("{0} laps cannot be measured: take 2 to {MAX_LAPS}, whose times fit into memory")]
    Count(u64),
    /// The loop would block the machine for too long.
    #[error(
        "{seconds} s of a busy thread of FIFO priority are refused: take {MAX_FIFO_SECONDS} s at most \
         (period times count), or no --fifo"
    )]
    TooLong {
        /// The requested duration.
        seconds: u64,
    },
    /// The thread cannot be placed as configured.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

/// The times read in each lap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Laps {
    /// Due times. For the relative loop, those of a run without any late lap.
    pub schedule: Schedule,
    /// Times read, on the monotonic clock. Fewer than configured after a stop.
    pub at_ns: Vec<u64>,
    /// How often the thread was switched off its core.
    pub switches: Option<Switches>,
    /// Time in which the hypervisor ran something else on the loop's core (on all cores, if it is
    /// not pinned), in kernel ticks, usually of 10 ms; `None` when the kernel does not report it.
    pub stolen_ticks: Option<u64>,
}

impl DummyConfig {
    /// Runs the loop on the calling thread, to its end or `stop`.
    ///
    /// ```
    /// use linecard_jitter::linux::dummy::DummyConfig;
    /// let config = DummyConfig { count: 1_000, ..DummyConfig::default() };
    /// let laps = config.run(&std::sync::atomic::AtomicBool::new(false))?;
    /// assert_eq!(laps.gaps_ns().count(), 999);
    /// # Ok::<(), linecard_jitter::linux::dummy::DummyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`DummyError`].
    pub fn run(&self, stop: &AtomicBool) -> Result<Laps, DummyError> {
        self.check()?;
        let _placed = self.placement.enter(true)?;
        // Not zeros, which would be promised only. The check has bounded the number.
        let mut at_ns = vec![1; self.count as usize];
        at_ns.clear();
        let (before, stolen) = (Switches::of_this_thread(), stolen_ticks(self.placement.core));
        let start_ns = monotonic_ns() + LEAD_NS;
        let schedule = Schedule { start_ns, period_ps: self.period_ps };
        match self.pace {
            Pace::Absolute => self.absolute(schedule, &mut at_ns, stop),
            Pace::Relative => self.relative(schedule, &mut at_ns, stop),
        }
        let switches = switches::between(before);
        let stolen_ticks = stolen_ticks(self.placement.core).zip(stolen);
        let stolen_ticks = stolen_ticks.map(|(after, before)| after.saturating_sub(before));
        Ok(Laps { schedule, at_ns, switches, stolen_ticks })
    }

    fn check(&self) -> Result<(), DummyError> {
        if !(1..=MAX_PERIOD_PS).contains(&self.period_ps) {
            return Err(DummyError::Period(self.period_ps));
        }
        if !(2..=MAX_LAPS).contains(&self.count) {
            return Err(DummyError::Count(self.count));
        }
        let seconds = u128::from(self.period_ps) * u128::from(self.count) / 1_000_000_000_000;
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        if self.placement.fifo.is_some() && seconds > MAX_FIFO_SECONDS {
            return Err(DummyError::TooLong { seconds });
        }
        Ok(())
    }

    fn absolute(&self, schedule: Schedule, at_ns: &mut Vec<u64>, stop: &AtomicBool) {
        for lap in 0..self.count {
            let Some(now_ns) = Wait::Spin.until(schedule.due_ns(lap), stop) else { return };
            at_ns.push(now_ns);
        }
    }

    /// Each lap counts from the time that was seen, so the rounding to nanoseconds adds up as well.
    fn relative(&self, schedule: Schedule, at_ns: &mut Vec<u64>, stop: &AtomicBool) {
        let mut due_ns = schedule.start_ns;
        for _ in 0..self.count {
            let Some(now_ns) = Wait::Spin.until(due_ns, stop) else { return };
            at_ns.push(now_ns);
            due_ns = now_ns.saturating_add(schedule.period_ns());
        }
    }
}

impl Laps {
    /// From each lap to the next.
    pub fn gaps_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.at_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]))
    }

    /// Lateness of each lap. For the relative loop, its accumulated drift.
    pub fn lateness_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let laps = (0..).zip(&self.at_ns);
        laps.map(|(lap, at_ns)| at_ns.saturating_sub(self.schedule.due_ns(lap)))
    }
}

/// The kernel's limit on the run time of real-time threads; `None` when there is no limit or the
/// kernel does not report it.
///
/// A busy FIFO thread loses its core for the rest of each period: 50 ms of each second by default.
#[must_use]
pub fn throttling() -> Option<Throttling> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?;
        text.trim().parse::<i64>().ok()
    };
    let (runtime_us, period_us) = (number("runtime")?, number("period")?);
    (0..period_us).contains(&runtime_us).then_some(Throttling { runtime_us, period_us })
}

/// The limit on real-time threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttling {
    /// Microseconds of each period in which they may run.
    pub runtime_us: i64,
    /// Length of the period in microseconds.
    pub period_us: i64,
}

/// `steal` of `/proc/stat`: ticks in which the hypervisor ran something else.
fn stolen_ticks(core: Option<usize>) -> Option<u64> {
    stolen_in(&fs::read_to_string("/proc/stat").ok()?, core)
}

fn stolen_in(stat: &str, core: Option<usize>) -> Option<u64> {
    let name = core.map_or("cpu".to_owned(), |core| format!("cpu{core}"));
    let mut lines = stat.lines().map(str::split_ascii_whitespace);
    // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    lines.find_map(|mut words| (words.next()? == name).then(|| words.nth(7)?.parse().ok()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: DummyConfig) -> Laps {
        config.run(&AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn no_lap_is_early() {
        let laps = run(DummyConfig { count: 5_000, ..DummyConfig::default() });
        assert_eq!(laps.at_ns.len(), 5_000);
        assert!((0..).zip(&laps.at_ns).all(|(lap, at_ns)| *at_ns >= laps.schedule.due_ns(lap)));
        assert!(laps.at_ns.is_sorted());
    }

    /// On the absolute schedule gaps make up for each other; on the relative one none is short.
    #[test]
    fn the_relative_loop_never_has_a_short_gap() {
        let laps = run(DummyConfig { count: 5_000, pace: Pace::Relative, ..Default::default() });
        assert!(laps.gaps_ns().all(|gap_ns| gap_ns >= 7_410));
        assert!(laps.lateness_ns().collect::<Vec<_>>().is_sorted());
    }

    #[test]
    fn ranges_are_kept() {
        let never = AtomicBool::new(false);
        let good = DummyConfig { count: 2, ..DummyConfig::default() };
        let tried = |config: DummyConfig| config.run(&never).map(drop);
        assert!(tried(good).is_ok());
        for count in [0, 1, MAX_LAPS + 1, u64::MAX] {
            assert!(matches!(tried(DummyConfig { count, ..good }), Err(DummyError::Count(_))));
        }
        for period_ps in [0, u64::MAX] {
            assert!(matches!(tried(DummyConfig { period_ps, ..good }), Err(DummyError::Period(_))));
        }
        let placement = Placement { fifo: Some(1), ..Placement::default() };
        let long = DummyConfig { period_ps: MAX_PERIOD_PS, placement, ..good };
        assert!(matches!(tried(long), Err(DummyError::TooLong { seconds: 7_200 })));
    }

    #[test]
    fn a_stop_ends_it() {
        let long = DummyConfig { period_ps: MAX_PERIOD_PS, count: 2, ..DummyConfig::default() };
        let laps = long.run(&AtomicBool::new(true)).unwrap();
        assert!(laps.at_ns.is_empty());
        assert_eq!((laps.gaps_ns().count(), laps.lateness_ns().count()), (0, 0));
    }

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 88 9\ncpu1 1 2\nintr 5\n";
        assert_eq!(stolen_in(stat, None), Some(8));
        assert_eq!(stolen_in(stat, Some(0)), Some(88));
        assert_eq!((stolen_in(stat, Some(1)), stolen_in(stat, Some(2))), (None, None));
    }
}
