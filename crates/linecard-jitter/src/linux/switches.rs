//! Context switches of a thread.

use std::fs;

/// Context switches of a thread, since its start or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// The thread waited for something.
    pub voluntary: u64,
    /// The scheduler ran another thread.
    pub involuntary: u64,
}

impl Switches {
    /// Counters of the calling thread; `None` when the kernel does not report them.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/status").ok()?)
    }

    /// Counters of a thread by its number; `None` when it is gone.
    pub(crate) fn of_thread(thread: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
    }

    /// Difference to an earlier reading.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }

    /// Reads the two lines of `proc_pid_status(5)`.
    fn parse(status: &str) -> Option<Self> {
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line?.trim().parse().ok()
        };
        Some(Self {
            voluntary: number("voluntary_ctxt_switches:")?,
            involuntary: number("nonvoluntary_ctxt_switches:")?,
        })
    }
}

/// Context switches of the calling thread since an earlier reading.
pub(crate) fn between(before: Option<Switches>) -> Option<Switches> {
    Some(Switches::of_this_thread()?.since(before?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t5\n";
        let switches = Switches { voluntary: 3, involuntary: 5 };
        assert_eq!(Switches::parse(status), Some(switches));
        assert_eq!(Switches::parse("voluntary_ctxt_switches:\t-1\n"), None);
        assert_eq!(switches.since(Switches { voluntary: 1, involuntary: 9 }).voluntary, 2);
    }

    #[test]
    fn a_sleep_is_a_switch() {
        let Some(before) = Switches::of_this_thread() else {
            linecard_testkit::skip("switches of a thread", "no /proc/thread-self/status");
            return;
        };
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(between(Some(before)).unwrap().voluntary >= 1);
    }
}
