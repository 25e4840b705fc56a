//! Under what conditions a stream is received: what an experiment changes, one at a time.

use crate::linux::setting::cpus;
use crate::linux::sink::SinkMode;
use crate::linux::trace::{MAX_CORES, TraceBackend};
use crate::trace::PinnedThread;
use std::fmt;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

/// Where packets come up from their driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// Where they do by themselves. Over a virtual cable, that is on the core that sends, in the same call.
    Sender,
    /// On the sink's core, which an interrupt of the sender's interrupts (RPS): as a network
    /// interface does whose interrupts fire there.
    Sink,
    /// In a thread of the kernel's that is pinned to this core (threaded NAPI).
    Thread {
        /// The core.
        core: u16,
    },
    /// In the interface's interrupts, which are all moved to this core. It takes an interface with hardware.
    Interrupt {
        /// The core.
        core: u16,
    },
}

/// A place at which packets cannot come up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "packets cannot be processed at \"{place}\": choose sender, sink, thread:CORE or interrupt:CORE"
)]
pub struct UnknownPlace {
    /// The place given.
    pub place: String,
}

impl FromStr for Receive {
    type Err = UnknownPlace;

    /// `sender`, `sink`, `thread:CORE` or `interrupt:CORE`.
    fn from_str(text: &str) -> Result<Self, UnknownPlace> {
        let core = |kind| text.strip_prefix(kind).and_then(|core| core.parse().ok());
        match (text, core("thread:"), core("interrupt:")) {
            ("sender", ..) => Ok(Self::Sender),
            ("sink", ..) => Ok(Self::Sink),
            (_, Some(core), _) => Ok(Self::Thread { core }),
            (_, _, Some(core)) => Ok(Self::Interrupt { core }),
            _ => Err(UnknownPlace { place: text.to_owned() }),
        }
    }
}

impl fmt::Display for Receive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender => f.write_str("sender"),
            Self::Sink => f.write_str("sink"),
            Self::Thread { core } => write!(f, "thread:{core}"),
            Self::Interrupt { core } => write!(f, "interrupt:{core}"),
        }
    }
}

/// The conditions of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Picoseconds from packet to packet. Default: 7,419,761, ST 2022-6 of 1080i59.94.
    pub period_ps: u64,
    /// Packets. Default: 1,000,000.
    pub count: u64,
    /// Bytes of UDP payload. Default: 1,396.
    pub payload_len: usize,
    /// How the sink receives. Default: it polls.
    pub mode: SinkMode,
    /// Where packets come up. Default: on the sender's core, which disturbs the sink least.
    pub receive: Receive,
    /// Polls are deferred until a timer of this period (`gro_flush_timeout`, with
    /// `napi_defer_hard_irqs`). Default: they are not.
    pub deferral: Option<Duration>,
    /// The cable's end polls (NAPI), as network interfaces do, also where nothing else asks for that.
    /// Default: it does not.
    pub is_polled: bool,
    /// All cores are kept awake (`/dev/cpu_dma_latency`). Default: yes.
    pub is_awake: bool,
    /// A thread that never waits is on this core. Default: none.
    pub spinner: Option<u16>,
    /// The sender's priority in the class `SCHED_FIFO`. Default: 50.
    pub sender_fifo: Option<u8>,
    /// The sink's. Default: 50.
    pub sink_fifo: Option<u8>,
    /// Whether the sender sleeps between packets, or reads the clock. Default: it reads the clock.
    pub sleeping_sender: bool,
    /// By what means the kernel is traced; none: it is not. Default: by BPF, or by tracefs.
    pub traced: Option<TraceBackend>,
    /// Whether the kernel's own counters count packets beside a trace, which takes time for each packet.
    /// Default: no.
    pub is_counted: bool,
    /// The cores of sender and sink. Default: the first of those this process may use, and the first that is isolated
    /// (`isolcpus`), or the last.
    pub cores: CoreAssignment,
    /// Whether the sender's core is one of another host. Default: no.
    pub is_sender_remote: bool,
}

/// Placement of threads on cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreAssignment {
    /// The sender's.
    pub generator: u16,
    /// The sink's.
    pub sink: u16,
}

impl CoreAssignment {
    /// The sender on the first core that this process may use, the sink on the first that is isolated (`isolcpus`), or
    /// on the last; the same where there is one only.
    #[must_use]
    pub fn of_this_host() -> Self {
        let cores = usable();
        let [first, last] = [cores.first(), cores.last()].map(|core| core.copied().unwrap_or(0));
        let isolated = isolated().first().copied();
        Self { generator: first, sink: isolated.unwrap_or(last) }
    }

    /// Whether both have a core to themselves.
    #[must_use]
    pub fn are_apart(self) -> bool {
        self.generator != self.sink
    }
}

/// The cores that this process may use.
fn usable() -> Vec<u16> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    cores.filter_map(|core| u16::try_from(core).ok()).collect()
}

/// The cores that the kernel was booted to isolate from the scheduler. No process uses them unless it asks to.
fn isolated() -> Vec<u16> {
    let list = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let cores = cpus(&list).unwrap_or_default().into_iter();
    cores.filter_map(|core| u16::try_from(core).ok()).collect()
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            period_ps: 7_419_761,
            count: 1_000_000,
            payload_len: 1_396,
            mode: SinkMode::Poll,
            receive: Receive::Sender,
            deferral: None,
            is_polled: false,
            is_awake: true,
            spinner: None,
            sender_fifo: Some(50),
            sink_fifo: Some(50),
            sleeping_sender: false,
            traced: Some(TraceBackend::Auto),
            is_counted: false,
            cores: CoreAssignment::of_this_host(),
            is_sender_remote: false,
        }
    }
}

impl Conditions {
    /// How long the stream is.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.period_ps.saturating_mul(self.count) / 1_000)
    }

    /// The cores that a trace has to see. Packets of another host are received on any, so that it sees as many as it can.
    #[must_use]
    pub fn cores(&self) -> Vec<u16> {
        let mut cores = vec![self.cores.sink];
        if let Receive::Thread { core } | Receive::Interrupt { core } = self.receive {
            cores.push(core);
        }
        if self.is_sender_remote {
            let others: Vec<u16> =
                usable().into_iter().filter(|core| !cores.contains(core)).collect();
            cores.extend(others);
            cores.truncate(MAX_CORES);
        } else {
            cores.push(self.cores.generator);
        }
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// A core that has neither sender nor sink, where this process may use one.
    #[must_use]
    pub fn spare_core(&self) -> Option<u16> {
        let CoreAssignment { generator, sink } = self.cores;
        let is_free = |core: &u16| *core != sink && (self.is_sender_remote || *core != generator);
        usable().into_iter().find(is_free)
    }

    /// Whether sender and sink have a core each.
    #[must_use]
    pub fn are_apart(&self) -> bool {
        self.is_sender_remote || self.cores.are_apart()
    }

    pub(super) fn pinned(core: u16, thread: u32) -> Option<PinnedThread> {
        (thread != 0).then_some(PinnedThread { thread, core })
    }
}

#[cfg(test)]
mod tests {
    use super::Receive;

    #[test]
    fn places_are_read_as_they_are_printed() {
        let on = [Receive::Thread { core: 3 }, Receive::Interrupt { core: 9 }];
        for place in [Receive::Sender, Receive::Sink].into_iter().chain(on) {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert!("thread:x".parse::<Receive>().is_err() && "nowhere".parse::<Receive>().is_err());
    }
}
