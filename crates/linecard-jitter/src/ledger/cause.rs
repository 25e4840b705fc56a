//! What can keep a packet.

use crate::trace::{Names, SOFTIRQS, Vector};
use alloc::format;
use alloc::string::{String, ToString};

/// Why a packet did not get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A device's interrupt was served, by its number.
    Interrupt(u32),
    /// The core served an interrupt of the processor's own.
    Vector(Vector),
    /// A timer's function ran, by its address.
    Timer(u64),
    /// A softirq ran, by its number.
    Softirq(u8),
    /// Another thread had the core, by its number.
    Thread(u32),
    /// The thread that should run was not let run though the core was free: real-time throttling, a
    /// bandwidth limit, or a move to another core.
    Throttled(u32),
    /// The core was asleep and had to wake, from the state of this number.
    IdleExit(u32),
    /// Polls were put off on purpose (`gro_flush_timeout`, interrupt moderation): packets wait for a timer.
    Deferral,
    /// Other packets came first in the same poll.
    Batch,
    /// The core that receives had not yet been told by the one that sends: an interrupt between cores
    /// on its way.
    Signal,
    /// The packet's own way, as long as usual.
    Path,
    /// Who should run did run, or nobody was there, and nothing that the kernel knows of happened: a
    /// hypervisor, a System Management Interrupt, or a thread slower than usual.
    Silent,
    /// It is not known what happened there: outside the trace.
    Untraced,
}

impl Cause {
    /// A word that does not depend on numbers, for JSON.
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
            Self::Untraced => "untraced",
        }
    }

    /// For people, with the names behind numbers.
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
            Self::Untraced => "not traced".to_string(),
        }
    }
}
