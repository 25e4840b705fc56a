//! Remedies for causes of delay.

use crate::ledger::Cause;
use crate::trace::Vector;
use alloc::format;
use alloc::string::{String, ToString};

/// The setting that removes this cause on the core where it was found; `None` if nothing can be
/// changed. Commands are for a root shell; `linecard jitter audit` gives more detail.
#[must_use]
pub fn remedy(cause: Cause, core: u16) -> Option<String> {
    Some(match cause {
        Cause::Interrupt(number) => {
            format!(
                "keep the interrupt off core {core}: echo CORES > /proc/irq/{number}/smp_affinity_list"
            )
        }
        Cause::Vector(Vector::LocalTimer) | Cause::Timer(_) => {
            format!(
                "stop the tick where one thread runs: nohz_full={core} on the kernel's command line"
            )
        }
        Cause::Vector(Vector::Reschedule | Vector::CallFunction) => format!(
            "let others leave core {core} alone: isolcpus={core}, and threads of this process elsewhere"
        ),
        Cause::Vector(Vector::IrqWork) => {
            format!("keep profilers and tracers off core {core}: they cause work on it")
        }
        Cause::Softirq(9) => {
            format!("move RCU's work: rcu_nocbs={core} on the kernel's command line")
        }
        Cause::Softirq(_) => {
            format!("move other traffic's interrupts and RPS off core {core}: /proc/irq, rps_cpus")
        }
        Cause::Thread(_) => format!(
            "keep other threads off core {core}: isolcpus={core}, or run its own thread under \
             SCHED_FIFO (chrt -f 50)"
        ),
        Cause::Throttled(_) => {
            "lift the limit: kernel.sched_rt_runtime_us=-1, the deadline fair server of Linux 6.12 \
             (/sys/kernel/debug/sched/fair_server), or cpu.max of its control group"
                .to_string()
        }
        Cause::IdleExit(_) => {
            "keep cores awake: hold /dev/cpu_dma_latency at 0, or idle=poll; or poll \
             instead of sleeping"
                .to_string()
        }
        Cause::Deferral => {
            "hand packets up at once: ethtool -C IF adaptive-rx off rx-usecs 0 tx-usecs 0; \
             gro_flush_timeout and napi_defer_hard_irqs at 0"
                .to_string()
        }
        Cause::Batch => "poll more often or send more evenly: packets come in bursts".to_string(),
        Cause::Signal => {
            "receive on the core that handles the interrupt: without RPS, the receiver on the \
             same core"
                .to_string()
        }
        Cause::Silent => {
            "look below the kernel: dedicated cores for this virtual machine, SMIs off in the \
             firmware (the hwlat tracer counts them)"
                .to_string()
        }
        Cause::Path | Cause::Outside | Cause::Missing | Cause::Untraced => return None,
    })
}
