//! Causes of delay.

use crate::trace::{Names, SOFTIRQS, Vector};
use alloc::format;
use alloc::string::{String, ToString};

/// Why a packet was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A device interrupt was served, by its number.
    Interrupt(u32),
    /// The core served an interrupt that the processor raises itself.
    Vector(Vector),
    /// A timer function ran, by its address.
    Timer(u64),
    /// A softirq ran, by its number.
    Softirq(u8),
    /// Another thread ran on the core, by its number.
    Thread(u32),
    /// The thread that should run did not run although the core was free: real-time throttling, a
    /// bandwidth limit, or a migration to another core.
    Throttled(u32),
    /// The core was asleep and had to wake up, from the state with this number.
    IdleExit(u32),
    /// Polling was deferred on purpose (`gro_flush_timeout`, interrupt moderation): packets wait
    /// for a timer.
    Deferral,
    /// Other packets of the same poll were processed first.
    Batch,
    /// The sending core had not yet notified the receiving one: an inter-processor interrupt was on
    /// its way.
    Signal,
    /// Processing of the packet itself, at its usual duration.
    Path,
    /// The right thread ran, or the core was idle, and the kernel saw no event: a hypervisor, a
    /// System Management Interrupt, or a thread that was slower than usual.
    Silent,
    /// The packet had not reached this host: its sender, the network, or the interface.
    Outside,
    /// Not known: the trace lacks events of the core. The kernel hides some threads from tracing programs.
    Missing,
    /// Not known: outside the trace.
    Untraced,
}

impl Cause {
    /// A word for JSON that does not depend on the numbers.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Interrupt(_) => "interrupt",
            Self::Vector(_) => "vector",
            Self::Timer(_) => "timer",
            Self::Softirq(_) => "softirq",
            Self::Thread(_) => "thread",
            Self::Throttled(_) => "throttled",
            Self::IdleExit(_) => "idle_exit",
            Self::Deferral => "deferral",
            Self::Batch => "batch",
            Self::Signal => "signal",
            Self::Path => "path",
            Self::Silent => "no_kernel_event",
            Self::Outside => "outside",
            Self::Missing => "missing_events",
            Self::Untraced => "untraced",
        }
    }

    /// Text for people, with names in place of numbers.
    #[must_use]
    pub fn describe(self, names: &Names) -> String {
        let named = |what: &str, name: Option<&String>, number: &dyn core::fmt::Display| match name
        {
            Some(name) => format!("{what} {name} ({number})"),
            None => format!("{what} {number}"),
        };
        match self {
            Self::Interrupt(n) => named("interrupt", names.interrupts.get(&n), &n),
            Self::Vector(vector) => format!("{} interrupt", vector.name()),
            Self::Timer(address) => match names.functions.get(&address) {
                Some(name) => format!("timer {name}"),
                None => format!("timer at {address:#x}"),
            },
            Self::Softirq(n) => match SOFTIRQS.get(usize::from(n)) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {n}"),
            },
            Self::Thread(n) => named("thread", names.threads.get(&n), &n),
            Self::Throttled(n) => named("throttled or moved: thread", names.threads.get(&n), &n),
            Self::IdleExit(u32::MAX) => "idle loop".to_string(),
            Self::IdleExit(state) => format!("waking from idle state {state}"),
            Self::Deferral => "interrupts held back (moderation, NAPI deferral)".to_string(),
            Self::Batch => "packets before it in the same poll".to_string(),
            Self::Signal => "interrupt between cores on its way".to_string(),
            Self::Path => "the packet's own way, as usual".to_string(),
            Self::Silent => "no kernel event: hypervisor or SMI, or slower than usual".to_string(),
            Self::Outside => "before this host: sender or network".to_string(),
            Self::Missing => {
                "events of the core are missing: a thread hidden from traces".to_string()
            }
            Self::Untraced => "not traced".to_string(),
        }
    }

    /// The same without the number of a thread: the causes of one program have one text.
    #[must_use]
    pub fn group(self, names: &Names) -> String {
        match self {
            Self::Thread(n) if let Some(name) = names.threads.get(&n) => format!("thread {name}"),
            _ => self.describe(names),
        }
    }
}
