//! This machine, its processors and interfaces, as the kernel reports them.

use std::fs;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// Ticks in a second of `/proc`: `USER_HZ`, the same on every machine of today.
const TICKS_PER_S: f64 = 100.0;
/// The names of linecard's threads.
const WORKER: &str = "worker ";

/// Why this cannot run here, if so.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it makes network namespaces, which needs root".into());
    }
    let programs =
        [("ip", "iproute2", "-V"), ("ethtool", "ethtool", "--version"), ("iperf3", "iperf3", "-v")];
    programs.into_iter().find_map(|(program, package, argument)| {
        let error = run(program, argument).err()?;
        Some(format!("`{program}` cannot be run ({error}): install the package {package}"))
    })
}

fn run(program: &str, argument: &str) -> io::Result<ExitStatus> {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status()
}

/// Whether a program can be run.
pub(crate) fn has(program: &str) -> bool {
    run(program, "--version").is_ok()
}

/// Kernel, processors, and what else runs.
pub(crate) fn conditions() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let processors = read("/proc/cpuinfo");
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "Linux {}; {cores} x {}; load average {load} at the end.",
        read("/proc/sys/kernel/osrelease"),
        model.unwrap_or("an unknown processor"),
    )
}

/// Seconds that all processors were busy since the start, interrupts included, in this machine only.
pub(crate) fn busy_seconds() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> =
        line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, (idle, iowait,) irq, softirq; stolen time is another machine's.
    let busy = ticks.iter().enumerate().filter(|(at, _)| matches!(at, 0..=2 | 5..=6));
    Ok(busy.map(|(_, ticks)| ticks).sum::<f64>() / TICKS_PER_S)
}

/// CPU seconds of threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Cpu {
    pub(crate) fn total(&self) -> f64 {
        self.user + self.system
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        Self { user: self.user - before.user, system: self.system - before.system }
    }
}

/// Of linecard's threads in this process, since their start.
pub(crate) fn workers() -> io::Result<Cpu> {
    let mut sum = Cpu::default();
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that has ended meanwhile is none of those.
        let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        if !head.contains(&format!("({WORKER}")) {
            continue;
        }
        // Behind the name, the state is word 0; utime is field 14 of proc(5), stime 15.
        let mut ticks = rest.split(' ').skip(11).filter_map(|word| word.parse::<f64>().ok());
        sum.user += ticks.next().unwrap_or(0.0) / TICKS_PER_S;
        sum.system += ticks.next().unwrap_or(0.0) / TICKS_PER_S;
    }
    Ok(sum)
}

/// Packets of an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) received: f64,
    pub(crate) sent: f64,
}

impl Device {
    /// An interface of the calling thread's namespace.
    pub(crate) fn read(name: &str) -> io::Result<Self> {
        let table = fs::read_to_string("/proc/thread-self/net/dev")?;
        let counts =
            table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        let counts = counts.ok_or(io::ErrorKind::NotFound)?;
        let counts: Vec<f64> =
            counts.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // Bytes, packets and six more received; then the same sent.
        let count = |at: usize| counts.get(at).copied().unwrap_or(0.0);
        Ok(Self { received: count(1), sent: count(9) })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self { received: self.received - before.received, sent: self.sent - before.sent }
    }
}
