//! Processes in the namespaces: started, timed, and never left behind.

use crate::Result;
use linecard_testkit::lab::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::param::clock_ticks_per_second;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take to be ready.
const START_LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// How often a process is asked whether it has ended.
const TICK: Duration = Duration::from_millis(20);

/// Has this process, and those that it starts, run on the first two cores that it may use.
pub fn use_two_cores() -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut cores = CpuSet::new();
    let first = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(2);
    first.for_each(|core| cores.set(core));
    match cores.count() {
        2 => Ok(sched_setaffinity(None, &cores)?),
        _ => Err("two cores are needed".into()),
    }
}

/// A process, killed when dropped, and by the kernel when this one is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a program in a namespace.
    ///
    /// The kernel ends it with the thread that started it: call this on the main thread.
    pub fn start<A: AsRef<OsStr>>(
        namespace: &Namespace,
        program: impl AsRef<OsStr>,
        arguments: &[A],
    ) -> Result<Self> {
        // `ip` and `setpriv` become the program: its id is the one of the child.
        let mut command: Command = namespace.command("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("a child without output")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Waits for a line of output that contains `word`.
    pub fn wait_for(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            if self.output.buffer().is_empty() {
                let mut end = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
                if poll(&mut end, Some(&START_LIMIT))? == 0 {
                    return Err(format!("\"{word}\" was not printed in time").into());
                }
            }
            if self.output.read_line(&mut line)? == 0 {
                return Err(format!("the program ended without printing \"{word}\"").into());
            }
        }
        Ok(())
    }

    /// Waits until it ends, and returns what it printed, which must fit into a pipe.
    pub fn finish(mut self, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err(format!("the program ran for more than {limit:?}").into());
            }
            thread::sleep(TICK);
        }
        let mut output = String::new();
        self.output.read_to_string(&mut output)?;
        Ok(output)
    }

    /// The processor time that it has used so far, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        cpu_of(&stat, clock_ticks_per_second()).ok_or_else(|| "no times in /proc".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The times of a line of /proc/PID/stat. The name, in brackets, may contain anything.
fn cpu_of(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64))
}

#[cfg(test)]
mod tests {
    use super::cpu_of;
    use std::time::Duration;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "12 (a) b) S 1 1 1 0 -1 4 5 6 7 8 120 30 9 9 20 0 1 0 5 6";
        assert_eq!(cpu_of(stat, 100), Some(Duration::from_millis(1_500)));
    }
}
