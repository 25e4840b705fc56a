//! Scheduling classes of the calling thread.
#![expect(unsafe_code, reason = "sched_setscheduler has no safe form in std or rustix")]

use super::check;
use std::io;

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheduling {
    /// `SCHED_*`.
    pub(crate) policy: libc::c_int,
    /// 1 to 99 for the real-time classes, else 0.
    pub(crate) priority: libc::c_int,
}

impl Scheduling {
    /// As most threads of the system.
    pub(crate) const ORDINARY: Self = Self { policy: libc::SCHED_OTHER, priority: 0 };

    /// Real-time, first in first out.
    pub(crate) fn fifo(priority: u8) -> Self {
        Self { policy: libc::SCHED_FIFO, priority: priority.into() }
    }

    /// The calling thread's.
    pub(crate) fn current() -> io::Result<Self> {
        // libc's own calls are not there in every libc; 0 is the calling thread.
        // SAFETY: takes a number.
        let policy = check(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as _)?;
        let mut parameter = parameter(0);
        let place = &raw mut parameter;
        // SAFETY: `place` has room for the struct that is written, and lives during the call.
        check(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, place) } as _)?;
        Ok(Self { policy, priority: parameter.sched_priority })
    }

    /// Makes the calling thread so.
    pub(crate) fn set(self) -> io::Result<()> {
        let parameter = parameter(self.priority);
        let place = &raw const parameter;
        // SAFETY: `place` is the struct that is read, and lives during the call.
        let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, self.policy, place) };
        check(result as _).map(drop)
    }
}

fn parameter(priority: libc::c_int) -> libc::sched_param {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    parameter
}
