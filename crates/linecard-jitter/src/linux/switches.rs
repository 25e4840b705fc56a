//! How often a thread was taken off its core.

use std::fs;

/// Context switches of a thread, since it was made or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// It waited for something.
    pub voluntary: u64,
    /// Another was to run.
    pub involuntary: u64,
}

impl Switches {
    /// The calling thread's until now; nothing where the kernel does not say.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/status").ok()?)
    }

    /// Those since an earlier reading.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }

    /// The two lines of `proc_pid_status(5)`.
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

/// What a thread has been through between two readings.
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
