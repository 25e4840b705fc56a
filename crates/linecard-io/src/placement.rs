//! Core, scheduling class and memory locking of a measuring thread.
//!
//! A busy thread of a real-time class starves all others on its core: on a machine with one online
//! core it is refused, because the machine would hang. On other machines the kernel throttles it
//! for 50 ms of each second unless `/proc/sys/kernel/sched_rt_runtime_us` is -1, and since Linux
//! 6.12 the deadline server does so if other threads wait (`/sys/kernel/debug/sched/fair_server`).

use crate::sys::schedule::Scheduling;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;

/// Core and priority of a thread. The default changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// The only core it runs on. Default: any.
    pub core: Option<usize>,
    /// Its priority in the class `SCHED_FIFO`, 1 to 99. Default: the class is not changed.
    pub fifo: Option<u8>,
    /// Whether all memory of the process is locked (`mlockall`). Default: no; memory that a
    /// measuring loop writes to has been touched before in any case. If a limit applies (`ulimit
    /// -l`), the process cannot allocate more than that afterwards, and Rust aborts when an
    /// allocation fails.
    pub lock_memory: bool,
}

/// Why a placement cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The thread cannot run on that core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The core that was asked for.
        core: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The priority does not exist.
    #[error("there is no FIFO priority {0}: take one from 1 to 99")]
    Range(u8),
    /// It would be the only thread that runs.
    #[error(
        "FIFO priority {0} is refused: one core is online, and a busy thread of that class would stop \
         the machine; leave it out"
    )]
    OnlyCore(u8),
    /// The kernel refuses the class.
    #[error(
        "FIFO priority {priority} is refused by the kernel ({source}): run as root, or give CAP_SYS_NICE \
         or a limit (`ulimit -r {priority}`), or leave it out"
    )]
    Fifo {
        /// The priority that was asked for.
        priority: u8,
        /// The system's error.
        source: io::Error,
    },
    /// Memory cannot be locked.
    #[error("memory cannot be locked: {0}; run as root, or raise `ulimit -l`, or leave it out")]
    Lock(io::Error),
}

/// Restores the thread's previous placement on drop. Locked memory stays locked.
#[derive(Debug)]
#[must_use = "the thread runs as before when this is dropped"]
pub struct PlacementGuard {
    cores: Option<CpuSet>,
    scheduling: Option<Scheduling>,
}

impl Placement {
    /// Applies the placement to the calling thread; `busy` if the thread will not sleep.
    ///
    /// # Errors
    ///
    /// See [`PlacementError`]; the thread keeps its previous placement.
    pub fn enter(&self, busy: bool) -> Result<PlacementGuard, PlacementError> {
        let mut placed = PlacementGuard { cores: None, scheduling: None };
        if let Some(core) = self.core {
            placed.cores = Some(pin(core).map_err(|source| PlacementError::Core { core, source })?);
        }
        if let Some(priority) = self.fifo {
            check(priority, busy)?;
            let fifo = |source| PlacementError::Fifo { priority, source };
            let before = Scheduling::current().map_err(fifo)?;
            Scheduling::fifo(priority).set().map_err(fifo)?;
            placed.scheduling = Some(before);
        }
        if self.lock_memory {
            use rustix::mm::{MlockAllFlags, mlockall};
            mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
                .map_err(|error| PlacementError::Lock(error.into()))?;
        }
        Ok(placed)
    }
}

impl Drop for PlacementGuard {
    fn drop(&mut self) {
        // Restores the previous settings, which is always permitted.
        if let Some(scheduling) = self.scheduling {
            let _restored = scheduling.set();
        }
        if let Some(cores) = &self.cores {
            let _restored = sched_setaffinity(None, cores);
        }
    }
}

/// Number of online cores; 1 if the kernel does not report it.
#[must_use]
pub fn online_cores() -> usize {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    list.trim().split(',').filter_map(span).sum::<usize>().max(1)
}

/// Number of cores in `3` or `0-5`.
fn span(text: &str) -> Option<usize> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

fn check(priority: u8, busy: bool) -> Result<(), PlacementError> {
    if !(1..=99).contains(&priority) {
        return Err(PlacementError::Range(priority));
    }
    if busy && online_cores() < 2 {
        return Err(PlacementError::OnlyCore(priority));
    }
    Ok(())
}

/// Pins the calling thread to one core; returns its previous set of cores.
pub(crate) fn pin(core: usize) -> io::Result<CpuSet> {
    let before = sched_getaffinity(None)?;
    let mut cores = CpuSet::new();
    let pinned = if core < CpuSet::MAX_CPU {
        cores.set(core);
        sched_setaffinity(None, &cores).map_err(io::Error::from)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    };
    match pinned {
        Ok(()) => Ok(before),
        Err(error) if core < CpuSet::MAX_CPU && before.is_set(core) => Err(error),
        Err(error) => {
            let usable = ranges((0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)));
            let what = format!("it is not among those that this process may use: {usable}");
            Err(io::Error::new(error.kind(), what))
        }
    }
}

/// Numbers in ascending order as the kernel writes them: `0-1,4`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_as_before_afterwards() {
        let (cores, scheduling) =
            (sched_getaffinity(None).unwrap(), Scheduling::current().unwrap());
        let placement = Placement { core: Some(0), fifo: Some(1), lock_memory: false };
        match placement.enter(false) {
            Ok(placed) => {
                assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
                assert_eq!(Scheduling::current().unwrap(), Scheduling::fifo(1));
                drop(placed);
            }
            Err(error) => linecard_testkit::skip("FIFO scheduling", error),
        }
        assert_eq!(sched_getaffinity(None).unwrap(), cores);
        assert_eq!(Scheduling::current().unwrap(), scheduling);
    }

    #[test]
    fn what_there_is_not_is_refused() {
        let placement = Placement { core: Some(usize::MAX), ..Placement::default() };
        assert!(matches!(placement.enter(true), Err(PlacementError::Core { .. })));
        for fifo in [0, 100] {
            let placement = Placement { fifo: Some(fifo), ..Placement::default() };
            assert!(matches!(placement.enter(true), Err(PlacementError::Range(_))));
        }
    }

    #[test]
    fn lists_of_cores() {
        assert_eq!(
            (span("3"), span("0-5"), span("5-0"), span("x")),
            (Some(1), Some(6), None, None)
        );
        assert!(online_cores() >= 1);
        assert_eq!(ranges([0, 1, 2, 4, 6, 7].into_iter()), "0-2,4,6-7");
        let refused = pin(CpuSet::MAX_CPU - 1).map(drop).expect_err("there are not so many");
        let usable = ranges((0..8).filter(|core| sched_getaffinity(None).unwrap().is_set(*core)));
        assert!(refused.to_string().contains(&format!("may use: {usable}")), "{refused}");
    }
}
