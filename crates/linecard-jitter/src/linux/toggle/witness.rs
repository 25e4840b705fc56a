//! Verifies that a toggle took effect, by counters that change in one arm and not in the other.

use super::Target;
use super::napi::napi_threads;
use crate::linux::switches::Switches;
use std::fs;

/// Minimum factor between the counts of the arms.
const FACTOR: f64 = 2.0;

/// How the effect of a toggle is verified.
#[derive(Debug, Clone, Copy)]
pub enum Witness {
    /// It is not verified.
    Nothing,
    /// Settings read as they were set, before and after each run.
    Reread,
    /// In addition, a counter of the host changes.
    Counted {
        /// Reads the counter; `None` when it does not exist.
        count: fn(&Target) -> Option<f64>,
        /// How arm B differs.
        expect: Expect,
    },
    /// In addition, the measurement reports a count of this name.
    Observed {
        /// Name of the count.
        key: &'static str,
        /// How arm B differs.
        expect: Expect,
    },
}

/// How arm B differs from arm A when the toggle took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// At least twice as many, and more than none.
    More,
    /// At most half as many, and more than none in arm A.
    Less,
}

impl Expect {
    /// Whether the counts of the arms differ that way.
    ///
    /// ```
    /// use linecard_jitter::linux::toggle::Expect;
    /// assert!(Expect::More.holds(0.0, 12.0) && !Expect::More.holds(12.0, 13.0));
    /// assert!(Expect::Less.holds(12.0, 1.0) && !Expect::Less.holds(0.0, 0.0));
    /// ```
    #[must_use]
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::More => b > 0.0 && b >= a * FACTOR,
            Self::Less => a > 0.0 && b * FACTOR <= a,
        }
    }
}

/// Packets that RPS passed to a core: the tenth column of each core's line.
pub(super) fn handed_over(target: &Target) -> Option<f64> {
    let text = fs::read_to_string(target.path("/proc/net/softnet_stat")).ok()?;
    let count = |line: &str| u64::from_str_radix(line.split_whitespace().nth(9)?, 16).ok();
    Some(text.lines().filter_map(count).sum::<u64>() as f64)
}

/// Context switches of the interface's NAPI threads; zero when there are none.
pub(super) fn napi_switches(target: &Target) -> Option<f64> {
    let threads = napi_threads(target.interface.as_deref()?);
    let switches = threads.into_iter().filter_map(Switches::of_thread);
    Some(switches.map(|of| (of.voluntary + of.involuntary) as f64).sum())
}

/// Packets that sockets in the target's namespace received by busy polling.
pub(super) fn busy_polled(target: &Target) -> Option<f64> {
    let path = target.path("/proc/thread-self/net/netstat");
    let read = || fs::read_to_string(&path).ok();
    let text = match &target.namespace {
        Some(namespace) => namespace.enter(read).ok()??,
        None => read()?,
    };
    of_netstat(&text, "BusyPollRxPackets")
}

/// Names and numbers are on two lines with the same prefix.
fn of_netstat(text: &str, name: &str) -> Option<f64> {
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks_exact(2).find_map(|pair| {
        let at = pair[0].split_whitespace().position(|word| word == name)?;
        pair[1].split_whitespace().nth(at)?.parse().ok()
    })
}

/// How often the sink's core entered an idle state.
pub(super) fn slept(target: &Target) -> Option<f64> {
    let folder = format!("/sys/devices/system/cpu/cpu{}/cpuidle", target.core);
    let states = sleeping_states(target);
    let usage = |state: &String| {
        let text = fs::read_to_string(target.path(&format!("{folder}/{state}/usage"))).ok()?;
        text.trim().parse::<f64>().ok()
    };
    (!states.is_empty()).then(|| states.iter().filter_map(usage).sum())
}

/// Idle states of the sink's core with a non-zero exit latency.
pub(super) fn sleeping_states(target: &Target) -> Vec<String> {
    let folder = target.path(&format!("/sys/devices/system/cpu/cpu{}/cpuidle", target.core));
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_sleep = |state: &String| {
        let latency = fs::read_to_string(folder.join(state).join("latency")).unwrap_or_default();
        latency.trim().parse::<u64>().is_ok_and(|us| us > 0)
    };
    let mut states: Vec<String> = names.filter(is_sleep).collect();
    states.sort();
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_the_kernel_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::new(1).at(folder.path());
        assert_eq!(handed_over(&target), None);
        assert_eq!(slept(&target), None);
        fs::create_dir_all(folder.path().join("proc/net")).unwrap();
        let line = |count| format!("0 0 0 0 0 0 0 0 0 {count} 0 0 0 0 0\n");
        fs::write(folder.path().join("proc/net/softnet_stat"), line("0000000a") + &line("1"))
            .unwrap();
        assert_eq!(handed_over(&target), Some(11.0));
        for (state, latency, usage) in [(0, 0, 99), (1, 2, 5), (2, 50, 7)] {
            let state =
                folder.path().join(format!("sys/devices/system/cpu/cpu1/cpuidle/state{state}"));
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join("latency"), format!("{latency}\n")).unwrap();
            fs::write(state.join("usage"), format!("{usage}\n")).unwrap();
        }
        assert_eq!(slept(&target), Some(12.0));
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nTcpExt: x BusyPollRxPackets\nTcpExt: 3 4\n";
        assert_eq!(of_netstat(netstat, "BusyPollRxPackets"), Some(4.0));
        assert_eq!(of_netstat(netstat, "None"), None);
        assert!(busy_polled(&Target::new(0)).is_some());
    }
}
