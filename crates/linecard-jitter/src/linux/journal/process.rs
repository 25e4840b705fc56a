//! The owner of a journal: a process, identified by its number, its start time and the boot.

use std::fs;

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The process that changes settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub(super) process: u32,
    /// Clock ticks from boot to its start.
    pub(super) started: u64,
}

impl Owner {
    /// This process; start time 0 when `/proc` does not report it.
    pub(super) fn own() -> Self {
        let process = std::process::id();
        Self { process, started: started(process).unwrap_or(0) }
    }

    /// Whether it still runs: a process of the same number and start time, and not a zombie.
    pub(super) fn is_alive(self) -> bool {
        started(self.process) == Some(self.started)
    }
}

/// Clock ticks from boot to the start of a process or thread; `None` when it does not exist or has
/// ended.
pub(in crate::linux) fn started(process: u32) -> Option<u64> {
    of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// `proc_pid_stat(5)`: the name is in parentheses and may contain any byte; field 3 is the state,
/// 22 the start.
fn of_stat(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}

/// Identifies this boot; empty when the kernel does not report it.
pub(in crate::linux) fn boot() -> String {
    fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_others_of_its_number_are_not() {
        let own = Owner::own();
        assert!(own.started > 0 && own.is_alive());
        let parent = std::os::unix::process::parent_id();
        let parent = Owner { process: parent, started: started(parent).unwrap() };
        assert!(parent.is_alive());
        assert!(!Owner { started: parent.started + 1, ..parent }.is_alive());
        assert!(!Owner { process: u32::MAX, started: 1 }.is_alive());
    }

    #[test]
    fn names_may_have_parentheses() {
        let tail = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 77 0";
        assert_eq!(of_stat(&format!("1 (a) b) S {tail}")), Some(77));
        assert_eq!(of_stat(&format!("1 (a) Z {tail}")), None);
        assert_eq!(of_stat("1 (a"), None);
    }

    #[test]
    fn a_boot_has_a_name() {
        assert_eq!(boot().len(), 36);
    }
}
