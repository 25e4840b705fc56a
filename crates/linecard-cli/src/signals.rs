//! Clean-up and exit at a signal: one mechanism for all commands that need it.

use linecard::progress::Progress;
use linecard_app::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The progress of a job that a signal cancels: see [`signals`].
pub(crate) fn progress() -> Result<Arc<Progress>, Error> {
    Ok(Arc::new(Progress::stopped_by(signals()?)))
}

/// Set by Ctrl-C, by SIGTERM, or by SIGHUP when the terminal goes. A second Ctrl-C or SIGTERM ends the process
/// at once. A SIGHUP that is ignored when the command starts, as under nohup, stays ignored.
pub(crate) fn signals() -> Result<Arc<AtomicBool>, Error> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    if !is_ignored(SIGHUP) {
        // Two come when a terminal goes, from the kernel and from the shell: the second has no
        // further meaning.
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Set by SIGUSR1, which asks for the statistics so far.
pub(crate) fn statistics_wanted() -> Result<Arc<AtomicBool>, Error> {
    let wanted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&wanted))?;
    Ok(wanted)
}

/// Whether this process ignores a signal: what the parent has set, as nothing here ignores one.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, signal)
}

/// The mask of ignored signals in /proc/PID/status (proc(5)), in hexadecimal: bit 0 is signal 1.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals() {
        let status = "Name:\tlinecard\nSigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP) && ignores(status, 13));
        assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP) && !ignores("SigIgn:\tx\n", SIGHUP) && !ignores(status, 0));
    }
}
