//! Clocks, idle states and the machine's firmware.

use super::{Check, Host, Observed, Remedy, Unreadable};
use crate::linux::setting::Form;

/// Exit latency from which an idle state counts as sleep: the paper's baseline has none.
const SLEEP_US: i64 = 1;
/// Share of stolen time that explains late packets by itself.
const STOLEN: f64 = 0.001;

pub(super) const CHECKS: [Check; 5] = [
    Check {
        id: "governor",
        reads: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        cause: "a core at a lower clock, or changing it, is late",
        source: "paper, section IV-A",
        remedy: Remedy::Live,
        risk: "power",
        weight: 72,
        toggle: None,
        look: governor,
    },
    Check {
        id: "c-states",
        reads: "/sys/devices/system/cpu/cpu*/cpuidle/state*/",
        cause: "a sleeping core takes time to wake: spikes of 15 to 60 µs for a sink that blocks",
        source: "paper, sections IV-C and IV-D; admin-guide/pm/cpuidle.rst",
        remedy: Remedy::Live,
        risk: "power; a hot core may slow its neighbours down",
        weight: 90,
        toggle: Some("idle"),
        look: c_states,
    },
    Check {
        id: "clocksource",
        reads: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        cause: "reading the time takes a µs or a system call",
        source: "timers/timekeeping.rst",
        remedy: Remedy::Boot,
        risk: "the kernel has had its reasons: see its log",
        weight: 52,
        toggle: None,
        look: clocksource,
    },
    Check {
        id: "hypervisor",
        reads: "/proc/cpuinfo, /proc/stat",
        cause: "the hypervisor takes the core without the kernel seeing it",
        source: "proc_stat(5)",
        remedy: Remedy::Hardware,
        risk: "measure on the machine itself, or pin its virtual cores",
        weight: 92,
        toggle: None,
        look: hypervisor,
    },
    Check {
        id: "smt",
        reads: "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
        cause: "another thread on the same core takes its units and caches",
        source: "paper, section II-A",
        remedy: Remedy::Hardware,
        risk: "leave the sibling idle, or boot with nosmt",
        weight: 48,
        toggle: None,
        look: smt,
    },
];

fn governor(host: &Host) -> Result<Observed, Unreadable> {
    let path = format!("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", host.core());
    if !host.has(&path) {
        return Ok(Observed::absent("no cpufreq here: the clock is fixed, or the hypervisor's"));
    }
    Ok(match host.text(&path)?.as_str() {
        "performance" => Observed::good("performance"),
        other => Observed::advice(other, "take the governor \"performance\"")
            .change(host.setting(&path, Form::Plain), "performance"),
    })
}

fn c_states(host: &Host) -> Result<Observed, Unreadable> {
    let folder = format!("/sys/devices/system/cpu/cpu{}/cpuidle", host.core());
    let states = host.entries(&folder);
    if states.is_empty() {
        return Ok(Observed::absent("no cpuidle here: the kernel halts the core or polls"));
    }
    let mut sleep = Vec::new();
    for state in &states {
        let file = |name: &str| format!("{folder}/{state}/{name}");
        let latency = host.number(&file("latency"))?;
        if latency >= SLEEP_US && host.number(&file("disable"))? == 0 {
            sleep.push((file("disable"), format!("{} ({latency} µs)", host.text(&file("name"))?)));
        }
    }
    if sleep.is_empty() {
        return Ok(Observed::good(format!("none of {} states sleeps", states.len())));
    }
    let names: Vec<&str> = sleep.iter().map(|(_, name)| name.as_str()).collect();
    let advice = "disable them for this core, or hold /dev/cpu_dma_latency at 0";
    let seen = Observed::advice(names.join(", "), advice);
    Ok(sleep.iter().fold(seen, |seen, (path, _)| seen.change(host.setting(path, Form::Plain), "1")))
}

fn clocksource(host: &Host) -> Result<Observed, Unreadable> {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let current = host.text(&format!("{folder}/current_clocksource"))?;
    Ok(match current.as_str() {
        "tsc" | "arch_sys_counter" => Observed::good(current),
        "kvm-clock" | "hyperv_clocksource_tsc_page" => Observed::note(current),
        _ => Observed::advice(
            current,
            "look into the kernel's log why it is not tsc; boot with tsc=reliable only if the machine's are",
        ),
    })
}

fn hypervisor(host: &Host) -> Result<Observed, Unreadable> {
    let info = host.text("/proc/cpuinfo")?;
    let mut flags = info.lines().filter(|line| line.starts_with("flags")).take(1);
    let is_guest = flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    if !is_guest {
        return Ok(Observed::good("none visible"));
    }
    let stolen = stolen(host)?;
    let found = format!(
        "this is a guest; {:.2} % of core {}'s time was stolen since it started",
        stolen * 100.0,
        host.core()
    );
    let advice = "figures are of guest and hypervisor together: gaps without an event of the kernel are the hypervisor's";
    Ok(if stolen > STOLEN {
        Observed::advice(found, advice)
    } else {
        Observed::note(found).saying(advice)
    })
}

/// Share of its core's time that was stolen (`proc_stat(5)`: the eighth number).
fn stolen(host: &Host) -> Result<f64, Unreadable> {
    let stat = host.text("/proc/stat")?;
    let name = format!("cpu{}", host.core());
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name));
    let line = line.ok_or_else(|| Unreadable(format!("/proc/stat has no {name}")))?;
    let times: Vec<f64> =
        line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let all: f64 = times.iter().sum();
    Ok(times.get(7).map_or(0.0, |stolen| stolen / all.max(1.0)))
}

fn smt(host: &Host) -> Result<Observed, Unreadable> {
    let core = host.core();
    let siblings =
        host.cpus(&format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"))?;
    let others: Vec<usize> = siblings.into_iter().filter(|cpu| *cpu != core).collect();
    if others.is_empty() {
        return Ok(Observed::good(format!("core {core} is shared with none")));
    }
    let others = crate::linux::setting::list(&others);
    Ok(Observed::advice(
        format!("core {core} is shared with {others}"),
        format!("leave {others} idle: isolate it too, or write 0 to its file \"online\""),
    ))
}
