//! All toggles and their steps.

use super::witness::{self, Expect, Witness};
use super::{Scope, SinkChange, Step, Tag, Target, Toggle, ToggleError};
use crate::linux::setting::{Form, Setting, mask};
use std::fs;

/// All toggles.
pub const ALL: [Toggle; 14] = [
    Toggle {
        name: "aa",
        switches: "nothing: both arms are the host as found",
        tag: Tag::Real,
        scope: Scope::Nothing,
        check: "none: any effect is chance",
        witness: Witness::Nothing,
        steps: |_| Ok(Vec::new()),
    },
    Toggle {
        name: "rps",
        switches: "received packets are handed to the sink's core (RPS)",
        tag: Tag::Real,
        scope: Scope::Interface,
        check: "packets handed over between cores, in /proc/net/softnet_stat",
        witness: Witness::Counted { count: witness::handed_over, expect: Expect::More },
        steps: rps,
    },
    Toggle {
        name: "threaded-napi",
        switches: "a thread polls the interface, instead of a softirq",
        tag: Tag::Real,
        scope: Scope::Interface,
        check: "context switches of its NAPI threads",
        witness: Witness::Counted { count: witness::napi_switches, expect: Expect::More },
        steps: |target| change(target.of_interface("threaded", Form::Plain)?, "1"),
    },
    Toggle {
        name: "napi-defer",
        switches: "the interface is polled by a timer, as an adapter that throttles interrupts",
        tag: Tag::Emulated,
        scope: Scope::Interface,
        check: "packets of one poll",
        witness: Witness::Observed { key: "batch", expect: Expect::More },
        steps: napi_defer,
    },
    Toggle {
        name: "gro",
        switches: "packets of one poll are gathered (GRO), or not where they are",
        tag: Tag::Real,
        scope: Scope::Interface,
        check: "the feature is read again",
        witness: Witness::Reread,
        steps: gro,
    },
    Toggle {
        name: "busy-poll",
        switches: "the sink's receiving call polls the interface's queue",
        tag: Tag::Real,
        scope: Scope::Sink,
        check: "BusyPollRxPackets in /proc/net/netstat",
        witness: Witness::Counted { count: witness::busy_polled, expect: Expect::More },
        steps: |target| sink(SinkChange::BusyPoll { us: target.busy_poll_us }),
    },
    Toggle {
        name: "blocking",
        switches: "the sink blocks in its receiving call",
        tag: Tag::Real,
        scope: Scope::Sink,
        check: "the sink's voluntary context switches",
        witness: Witness::Observed { key: "voluntary_switches", expect: Expect::More },
        steps: |_| sink(SinkChange::Block),
    },
    Toggle {
        name: "rt",
        switches: "the sink runs under SCHED_FIFO",
        tag: Tag::Real,
        scope: Scope::Sink,
        check: "the sink's class, read while it runs",
        witness: Witness::Observed { key: "realtime", expect: Expect::More },
        steps: |target| sink(SinkChange::Fifo { priority: target.priority }),
    },
    Toggle {
        name: "idle",
        switches: "no core sleeps: /dev/cpu_dma_latency held at 0",
        tag: Tag::Emulated,
        scope: Scope::Host,
        check: "how often the sink's core has slept, in cpuidle's counters",
        witness: Witness::Counted { count: witness::slept, expect: Expect::Less },
        steps: |_| Ok(vec![Step::NoSleep]),
    },
    Toggle {
        name: "c-states",
        switches: "the sink's core does not sleep: its states are disabled",
        tag: Tag::Real,
        scope: Scope::Host,
        check: "how often the sink's core has slept, in cpuidle's counters",
        witness: Witness::Counted { count: witness::slept, expect: Expect::Less },
        steps: c_states,
    },
    Toggle {
        name: "thp",
        switches: "no transparent huge pages, or all where there are none",
        tag: Tag::Real,
        scope: Scope::Host,
        check: "the setting is read again",
        witness: Witness::Reread,
        steps: huge_pages,
    },
    Toggle {
        name: "timer-migration",
        switches: "timers stay on their core, or move where they stay",
        tag: Tag::Real,
        scope: Scope::Host,
        check: "the setting is read again",
        witness: Witness::Reread,
        steps: |target| flip(target, "/proc/sys/kernel/timer_migration"),
    },
    Toggle {
        name: "numa",
        switches: "no balancing between memories, or balancing where there is none",
        tag: Tag::Real,
        scope: Scope::Host,
        check: "the setting is read again",
        witness: Witness::Reread,
        steps: numa,
    },
    Toggle {
        name: "fair-server",
        switches: "no time is reserved for ordinary threads beside SCHED_FIFO, on the sink's core",
        tag: Tag::Real,
        scope: Scope::Host,
        check: "the setting is read again",
        witness: Witness::Reread,
        steps: fair_server,
    },
];

fn change(setting: Setting, value: impl Into<String>) -> Result<Vec<Step>, ToggleError> {
    Ok(vec![Step::Change { setting, value: value.into() }])
}

fn sink(change: SinkChange) -> Result<Vec<Step>, ToggleError> {
    Ok(vec![Step::Sink(change)])
}

fn rps(target: &Target) -> Result<Vec<Step>, ToggleError> {
    change(target.of_interface("queues/rx-0/rps_cpus", Form::Mask)?, mask(&[target.core]))
}

/// `networking/napi.rst`, "IRQ suspension" and the section before it: with one deferral, the timer
/// polls and interrupts stay off.
fn napi_defer(target: &Target) -> Result<Vec<Step>, ToggleError> {
    let defer = target.of_interface("napi_defer_hard_irqs", Form::Plain)?;
    let timeout = target.of_interface("gro_flush_timeout", Form::Plain)?;
    Ok(vec![
        Step::Change { setting: timeout, value: target.throttle_ns.to_string() },
        Step::Change { setting: defer, value: "1".to_owned() },
    ])
}

fn gro(target: &Target) -> Result<Vec<Step>, ToggleError> {
    let setting = Setting::feature(target.interface()?, "rx-gro").within(target.namespace.clone());
    let is_on = setting.reads("on")?;
    change(setting, if is_on { "off" } else { "on" })
}

fn c_states(target: &Target) -> Result<Vec<Step>, ToggleError> {
    let folder = format!("/sys/devices/system/cpu/cpu{}/cpuidle", target.core);
    let states = witness::sleeping_states(target);
    if states.is_empty() {
        return Err(ToggleError::NotTestable { why: "this core has no state of sleep" });
    }
    let step = |state: &String| Step::Change {
        setting: target.file(&format!("{folder}/{state}/disable"), Form::Plain),
        value: "1".to_owned(),
    };
    Ok(states.iter().map(step).collect())
}

fn huge_pages(target: &Target) -> Result<Vec<Step>, ToggleError> {
    let setting = target.file("/sys/kernel/mm/transparent_hugepage/enabled", Form::Choice);
    let is_never = setting.reads("never")?;
    change(setting, if is_never { "always" } else { "never" })
}

fn numa(target: &Target) -> Result<Vec<Step>, ToggleError> {
    let nodes = target.path("/sys/devices/system/node/online");
    let nodes = fs::read_to_string(nodes).unwrap_or_default();
    if !nodes.contains(['-', ',']) {
        return Err(ToggleError::NotTestable { why: "there is one memory" });
    }
    flip(target, "/proc/sys/kernel/numa_balancing")
}

fn fair_server(target: &Target) -> Result<Vec<Step>, ToggleError> {
    let path = format!("/sys/kernel/debug/sched/fair_server/cpu{}/runtime", target.core);
    change(target.file(&path, Form::Plain), "0")
}

/// Writes 0 when the file has another number, else 1.
fn flip(target: &Target, path: &str) -> Result<Vec<Step>, ToggleError> {
    let setting = target.file(path, Form::Plain);
    let is_off = setting.reads("0")?;
    change(setting, if is_off { "1" } else { "0" })
}
