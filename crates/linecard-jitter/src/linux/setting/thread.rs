//! CPU affinity of another process's thread. The start time distinguishes it from a later thread
//! with the same id.

use super::{SettingError, State, form};
use crate::linux::journal::process;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use std::fs;

/// Clock ticks from boot to the thread's start.
pub(super) fn started(thread: u32) -> Result<u64, SettingError> {
    process::started(thread).ok_or_else(|| gone(thread))
}

pub(super) fn cpus_of(thread: u32, start: u64) -> Result<State, SettingError> {
    if started(thread)? != start {
        return Err(gone(thread));
    }
    let status = fs::read_to_string(format!("/proc/{thread}/status"));
    let status =
        status.map_err(|source| SettingError::system("read CPUs of", &name(thread), source))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(State::new(format!("{}\n", list.unwrap_or_default().trim())))
}

pub(super) fn set_cpus(thread: u32, start: u64, list: &str) -> Result<(), SettingError> {
    if started(thread)? != start {
        return Err(gone(thread));
    }
    let mut set = CpuSet::new();
    let cpus = form::cpus(list).unwrap_or_default();
    cpus.into_iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    let pid = i32::try_from(thread).ok().and_then(Pid::from_raw).ok_or_else(|| gone(thread))?;
    let result = sched_setaffinity(Some(pid), &set);
    result.map_err(|error| SettingError::system("set CPUs of", &name(thread), error.into()))
}

fn name(thread: u32) -> String {
    format!("thread {thread}")
}

fn gone(thread: u32) -> SettingError {
    SettingError::Gone { what: name(thread) }
}
