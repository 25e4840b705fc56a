//! Where a measuring thread runs and before whom, for as long as it measures.
//!
//! A busy thread of a real-time class leaves its core to nobody: on a machine with one core online
//! that is refused, for the machine would stand still. On others the kernel takes it off the core for
//! 50 ms of each second unless `/proc/sys/kernel/sched_rt_runtime_us` is -1, and since Linux 6.12 the
//! deadline server does where other threads wait (`/sys/kernel/debug/sched/fair_server`).

use crate::sys::schedule::Scheduling;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;

/// Where a thread runs, and before whom. The default leaves all as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// The only core it runs on. Default: any.
    pub core: Option<usize>,
    /// Its priority in the class `SCHED_FIFO`, 1 to 99. Default: the class stays as it is.
    pub fifo: Option<u8>,
    /// Whether all memory of the process stays in memory from now on (`mlockall`). Default: no; what is
    /// written in a measuring loop has been written before in any case. Under a limit (`ulimit -l`) the
    /// process can then get no more memory than that, and Rust ends a process that gets none.
    pub lock_memory: bool,
}

/// Why a thread cannot run as wished.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// It cannot run there.
    #[error(
        "cannot run on core {core}: {source}; /sys/devices/system/cpu/online has those that there are"
    )]
    Core {
        /// The core that was asked for.
        core: usize,
        /// What the system says.
        source: io::Error,
    },
    /// No such priority.
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
        /// What the system says.
        source: io::Error,
    },
    /// Memory cannot be locked.
    #[error("memory cannot be locked: {0}; run as root, or raise `ulimit -l`, or leave it out")]
    Lock(io::Error),
}

/// A thread that runs as wished; dropped on it, it runs as before. Locked memory stays so.
#[derive(Debug)]
#[must_use = "the thread runs as before when this is dropped"]
pub struct Placed {
    cores: Option<CpuSet>,
    scheduling: Option<Scheduling>,
}

impl Placement {
    /// Has the calling thread run so; `busy` when it will not sleep.
    ///
    /// # Errors
    ///
    /// See [`PlacementError`]; the thread runs as before.
    pub fn enter(&self, busy: bool) -> Result<Placed, PlacementError> {
        let mut placed = Placed { cores: None, scheduling: None };
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

impl Drop for Placed {
    fn drop(&mut self) {
        // Back to what was there before, which is always allowed.
        if let Some(scheduling) = self.scheduling {
            let _restored = scheduling.set();
        }
        if let Some(cores) = &self.cores {
            let _restored = sched_setaffinity(None, cores);
        }
    }
}

/// Cores that are online; 1 where the kernel does not say.
#[must_use]
pub fn online_cores() -> usize {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    list.trim().split(',').filter_map(span).sum::<usize>().max(1)
}

/// How many `3` and `0-5` are.
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

/// Leaves the calling thread one core; gives those it had.
fn pin(core: usize) -> io::Result<CpuSet> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let before = sched_getaffinity(None)?;
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)?;
    Ok(before)
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
    }
}
