//! The kernel's build options and command line.

use super::{Check, Host, Observed, Remedy, Unreadable};
use crate::linux::setting::cpus;

const PARAMETERS: &str = "kernel-parameters.txt of the kernel's documentation";
const REBOOT: &str = "needs a restart; the core is lost to everything else";

pub(super) const CHECKS: [Check; 9] = [
    Check {
        id: "isolcpus",
        reads: "/proc/cmdline, /sys/devices/system/cpu/isolated",
        cause: "other threads are put on the sink's core: each displaces it for a time slice",
        source: "paper, table I and section IV-A",
        remedy: Remedy::Boot,
        risk: REBOOT,
        weight: 95,
        toggle: None,
        look: isolcpus,
    },
    Check {
        id: "nohz-full",
        reads: "/proc/cmdline, the kernel's configuration",
        cause: "the scheduler's tick interrupts the sink, HZ times a second",
        source: "paper, table I; timers/no_hz.rst",
        remedy: Remedy::Boot,
        risk: REBOOT,
        weight: 85,
        toggle: None,
        look: nohz_full,
    },
    Check {
        id: "rcu-nocbs",
        reads: "/proc/cmdline, the kernel's configuration",
        cause: "RCU callbacks run in softirqs on the sink's core",
        source: "paper, table I",
        remedy: Remedy::Boot,
        risk: REBOOT,
        weight: 70,
        toggle: None,
        look: rcu_nocbs,
    },
    Check {
        id: "rcu-nocb-poll",
        reads: "/proc/cmdline",
        cause: "the sink's core wakes the thread that runs its callbacks",
        source: "paper, table I",
        remedy: Remedy::Boot,
        risk: "a thread of the kernel polls on another core",
        weight: 25,
        toggle: None,
        look: rcu_nocb_poll,
    },
    Check {
        id: "idle-poll",
        reads: "/proc/cmdline",
        cause: "an idle core takes time to wake: spikes of about 15 µs",
        source: "paper, table I and section IV-C, figure 8",
        remedy: Remedy::Boot,
        risk: "all cores run hot; \"c-states\" does it for one core, without a restart",
        weight: 40,
        toggle: Some("idle"),
        look: idle_poll,
    },
    Check {
        id: "max-cstate",
        reads: "/proc/cmdline",
        cause: "deep sleep takes tens of µs to leave: blocking receive up to 60 µs",
        source: "paper, table I and section IV-D",
        remedy: Remedy::Boot,
        risk: "power; \"c-states\" does it for one core, without a restart",
        weight: 35,
        toggle: Some("idle"),
        look: max_cstate,
    },
    Check {
        id: "preemption",
        reads: "/sys/kernel/debug/sched/preempt, the kernel's configuration",
        cause: "where the kernel is not preempted, a woken sink waits for the end of a system call",
        source: PARAMETERS,
        remedy: Remedy::Boot,
        risk: "some throughput",
        weight: 45,
        toggle: None,
        look: preemption,
    },
    Check {
        id: "tick-rate",
        reads: "the kernel's configuration",
        cause: "each tick takes the core for some µs, unless \"nohz-full\" is good",
        source: "timers/no_hz.rst",
        remedy: Remedy::Nothing,
        risk: "",
        weight: 10,
        toggle: None,
        look: tick_rate,
    },
    Check {
        id: "mitigations",
        reads: "/proc/cmdline",
        cause: "mitigations make each system call and interrupt longer",
        source: "admin-guide/hw-vuln of the kernel's documentation",
        remedy: Remedy::Nothing,
        risk: "without them programs can read each other's memory: never advised",
        weight: 5,
        toggle: None,
        look: mitigations,
    },
];

fn isolcpus(host: &Host) -> Result<Observed, Unreadable> {
    let core = host.core();
    let isolated = host.cpus("/sys/devices/system/cpu/isolated")?;
    if isolated.contains(&core) {
        return Ok(Observed::good(format!("core {core} is isolated")));
    }
    let found = format!("core {core} takes part in scheduling");
    Ok(Observed::advice(found, format!("boot with isolcpus=managed_irq,domain,{core}")))
}

fn nohz_full(host: &Host) -> Result<Observed, Unreadable> {
    if names_core(host, "nohz_full")? {
        return Ok(Observed::good("the tick stops while one thread runs"));
    }
    let core = host.core();
    match host.built_with("NO_HZ_FULL") {
        Ok(true) => Ok(Observed::advice("off", format!("boot with nohz_full={core}"))),
        Ok(false) => {
            let advice =
                format!("take a kernel with CONFIG_NO_HZ_FULL, and boot with nohz_full={core}");
            Ok(Observed::advice("not built into this kernel", advice))
        }
        Err(why) => Ok(Observed::advice(
            format!("off; whether it is built in is unknown: {why}"),
            format!("boot with nohz_full={core}"),
        )),
    }
}

fn rcu_nocbs(host: &Host) -> Result<Observed, Unreadable> {
    // nohz_full does the same for its cores.
    if names_core(host, "rcu_nocbs")? || names_core(host, "nohz_full")? {
        return Ok(Observed::good("callbacks run elsewhere"));
    }
    let advice = format!("boot with rcu_nocbs={}", host.core());
    Ok(match host.built_with("RCU_NOCB_CPU") {
        Ok(false) => Observed::advice(
            "not built into this kernel",
            format!("take one with RCU_NOCB_CPU, and {advice}"),
        ),
        _ => Observed::advice("callbacks run on the sink's core", advice),
    })
}

fn rcu_nocb_poll(host: &Host) -> Result<Observed, Unreadable> {
    if host.parameter("rcu_nocb_poll")?.is_some() {
        return Ok(Observed::good("the thread for callbacks polls"));
    }
    if names_core(host, "rcu_nocbs")? {
        return Ok(Observed::advice("off", "boot with rcu_nocb_poll"));
    }
    Ok(Observed::absent("of no use without rcu_nocbs"))
}

fn idle_poll(host: &Host) -> Result<Observed, Unreadable> {
    Ok(match host.parameter("idle")?.as_deref() {
        Some("poll") => Observed::good("idle cores poll"),
        other => {
            Observed::note(other.map_or("not given".to_owned(), |value| format!("idle={value}")))
                .saying("only where \"c-states\" cannot be changed: boot with idle=poll")
        }
    })
}

fn max_cstate(host: &Host) -> Result<Observed, Unreadable> {
    let given =
        |name: &str| host.parameter(name).map(|value| value.map(|value| format!("{name}={value}")));
    let both = [given("processor.max_cstate")?, given("intel_idle.max_cstate")?];
    let both: Vec<String> = both.into_iter().flatten().collect();
    if both.is_empty() {
        let advice = "only where \"c-states\" cannot be changed: boot with processor.max_cstate=1 \
                      intel_idle.max_cstate=0";
        return Ok(Observed::note("not given").saying(advice));
    }
    Ok(Observed::good(both.join(" ")))
}

fn preemption(host: &Host) -> Result<Observed, Unreadable> {
    let mode = match host.debug("sched/preempt") {
        // The active choice is in parentheses.
        Ok(text) => text
            .split_whitespace()
            .find_map(|word| Some(word.strip_prefix('(')?.strip_suffix(')')?.to_owned())),
        Err(_) => None,
    };
    let mode = match (mode, host.parameter("preempt")?) {
        (Some(mode), _) | (None, Some(mode)) => mode,
        (None, None) => built_preemption(host)?,
    };
    Ok(match mode.as_str() {
        "full" | "rt" => Observed::good(mode),
        "lazy" | "voluntary" | "none" => Observed::advice(mode, "boot with preempt=full"),
        _ => Observed::note(mode),
    })
}

fn built_preemption(host: &Host) -> Result<String, Unreadable> {
    let modes = [
        ("PREEMPT_RT", "rt"),
        ("PREEMPT", "full"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ];
    for (option, name) in modes {
        if host.built_with(option)? {
            return Ok(name.to_owned());
        }
    }
    Err(Unreadable("neither debugfs nor the configuration says it".to_owned()))
}

fn tick_rate(host: &Host) -> Result<Observed, Unreadable> {
    let hz = host
        .config("HZ")?
        .ok_or_else(|| Unreadable("the configuration does not say".to_owned()))?;
    Ok(Observed::note(format!("{hz} ticks a second")))
}

fn mitigations(host: &Host) -> Result<Observed, Unreadable> {
    let value = host.parameter("mitigations")?;
    Ok(Observed::note(
        value.map_or("as the kernel chooses".to_owned(), |value| format!("mitigations={value}")),
    ))
}

/// Whether a parameter's list contains the sink's core. Skips flags before the list.
fn names_core(host: &Host, parameter: &str) -> Result<bool, Unreadable> {
    let Some(value) = host.parameter(parameter)? else { return Ok(false) };
    if value == "all" {
        return Ok(true);
    }
    let is_list = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let list: Vec<&str> = value.split(',').filter(is_list).collect();
    Ok(cpus(&list.join(",")).is_some_and(|cpus| cpus.contains(&host.core())))
}
