//! Time that the scheduler, timers and kernel threads take from a sink.

use super::interrupts::without_core;
use super::{Check, Host, Observed, Remedy, Unreadable};
use crate::linux::setting::{Form, list};

pub(super) const CHECKS: [Check; 6] = [
    Check {
        id: "rt-throttling",
        reads: "/proc/sys/kernel/sched_rt_runtime_us",
        cause: "a sink under SCHED_FIFO that polls is stopped for 50 ms in each second",
        source: "scheduler/sched-rt-group.rst",
        remedy: Remedy::Named,
        risk: "a thread under SCHED_FIFO that never ends locks its core: keep another one free",
        weight: 68,
        toggle: None,
        look: rt_throttling,
    },
    Check {
        id: "fair-server",
        reads: "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
        cause: "from Linux 6.12 on, ordinary threads get 50 ms of each second even from SCHED_FIFO and \
                with sched_rt_runtime_us=-1",
        source: "scheduler/sched-deadline.rst",
        remedy: Remedy::Named,
        risk: "ordinary threads on that core, the kernel's too, may never run",
        weight: 67,
        toggle: None,
        look: fair_server,
    },
    Check {
        id: "timer-migration",
        reads: "/proc/sys/kernel/timer_migration",
        cause: "timers of idle cores go to a busy one, and a sink that polls is always busy",
        source: "sysctl/kernel.rst; timers/no_hz.rst",
        remedy: Remedy::Live,
        risk: "idle cores wake more often",
        weight: 42,
        toggle: Some("timer-migration"),
        look: timer_migration,
    },
    Check {
        id: "watchdog",
        reads: "/proc/sys/kernel/watchdog, watchdog_cpumask, nmi_watchdog",
        cause: "a timer and a thread of the highest priority on each core, every 4 s",
        source: "admin-guide/lockup-watchdogs.rst",
        remedy: Remedy::Live,
        risk: "a core that hangs is not noticed",
        weight: 33,
        toggle: None,
        look: watchdog,
    },
    Check {
        id: "workqueues",
        reads: "/sys/devices/virtual/workqueue/cpumask",
        cause: "work of the kernel's that any core can do is done on the sink's",
        source: "core-api/workqueue.rst",
        remedy: Remedy::Live,
        risk: "other cores have more to do",
        weight: 44,
        toggle: None,
        look: workqueues,
    },
    Check {
        id: "vm-stat",
        reads: "/proc/sys/vm/stat_interval",
        cause: "counters of each core are folded by a worker on it, every second",
        source: "sysctl/vm.rst",
        remedy: Remedy::Live,
        risk: "counters of memory are older",
        weight: 32,
        toggle: None,
        look: vm_stat,
    },
];

/// Recommended seconds between two updates of statistics: every two minutes.
const STAT_INTERVAL_S: i64 = 120;

fn rt_throttling(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/proc/sys/kernel/sched_rt_runtime_us";
    let (runtime, period) =
        (host.number(path)?, host.number("/proc/sys/kernel/sched_rt_period_us")?);
    if runtime < 0 || runtime >= period {
        return Ok(Observed::good("off"));
    }
    let found = format!("{runtime} of {period} µs");
    Ok(Observed::advice(
        found,
        "write -1, if the sink runs under SCHED_FIFO; see also \"fair-server\"",
    )
    .change(host.setting(path, Form::Plain), "-1"))
}

fn fair_server(host: &Host) -> Result<Observed, Unreadable> {
    let file = format!("sched/fair_server/cpu{}/runtime", host.core());
    let runtime = match host.debug(&file) {
        Ok(text) => text,
        // On kernels before 6.12, when the rest of it can be read.
        Err(error) if error.is_gone() && host.debug("sched/preempt").is_ok() => {
            return Ok(Observed::absent("this kernel has none"));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(match runtime.parse::<u64>() {
        Ok(0) => Observed::good("off"),
        Ok(ns) => Observed::advice(
            format!("{} ms of each period", ns / 1_000_000),
            "write 0, if the sink runs under SCHED_FIFO",
        )
        .change(host.setting(&format!("/sys/kernel/debug/{file}"), Form::Plain), "0"),
        Err(_) => return Err(Unreadable(format!("it reads \"{runtime}\", which is not a number"))),
    })
}

fn timer_migration(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/proc/sys/kernel/timer_migration";
    Ok(match host.number(path)? {
        0 => Observed::good("off"),
        _ => Observed::advice("on", "write 0").change(host.setting(path, Form::Plain), "0"),
    })
}

fn watchdog(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/proc/sys/kernel/watchdog_cpumask";
    if !host.has(path) && host.has("/proc/sys/kernel") {
        return Ok(Observed::absent("not built into this kernel"));
    }
    if host.number("/proc/sys/kernel/watchdog")? == 0 {
        return Ok(Observed::good("off"));
    }
    let watched = host.cpus(path)?;
    if !watched.contains(&host.core()) {
        return Ok(Observed::good(format!("not on core {}", host.core())));
    }
    let others = host.others();
    let found = format!("on cores {}", list(&watched));
    if others.is_empty() {
        return Ok(Observed::note(found + "; there is no other core"));
    }
    let seen = Observed::advice(found, "leave the sink's core out");
    Ok(seen.change(host.setting(path, Form::List), list(&others)))
}

fn workqueues(host: &Host) -> Result<Observed, Unreadable> {
    without_core(host, "/sys/devices/virtual/workqueue/cpumask")
}

fn vm_stat(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/proc/sys/vm/stat_interval";
    let seconds = host.number(path)?;
    let found = format!("every {seconds} s");
    if seconds >= STAT_INTERVAL_S {
        return Ok(Observed::good(found));
    }
    let seen = Observed::advice(found, format!("write {STAT_INTERVAL_S}"));
    Ok(seen.change(host.setting(path, Form::Plain), STAT_INTERVAL_S.to_string()))
}
