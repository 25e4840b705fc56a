//! Under what conditions a stream is received: what an experiment changes, one at a time.

use crate::linux::sink::SinkMode;
use crate::linux::trace::TraceBackend;
use crate::trace::PinnedThread;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Where packets come up from their driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// On the core that sends, in the same call: what a virtual cable does by itself.
    Sender,
    /// On the sink's core, which an interrupt of the sender's interrupts (RPS): as a network
    /// interface does whose interrupts are there.
    Sink,
    /// In a thread of the kernel's that is pinned to this core (threaded NAPI).
    Thread {
        /// The core.
        core: u16,
    },
}

/// A place at which packets cannot come up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("packets cannot be processed at \"{place}\": choose sender, sink or thread:CORE")]
pub struct UnknownPlace {
    /// The place given.
    pub place: String,
}

impl FromStr for Receive {
    type Err = UnknownPlace;

    /// `sender`, `sink` or `thread:CORE`.
    fn from_str(text: &str) -> Result<Self, UnknownPlace> {
        let core = text.strip_prefix("thread:").map(str::parse);
        match (text, core) {
            ("sender", _) => Ok(Self::Sender),
            ("sink", _) => Ok(Self::Sink),
            (_, Some(Ok(core))) => Ok(Self::Thread { core }),
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
    /// The cores of sender and sink. Default: the first and the last of those this process may use.
    pub cores: CoreAssignment,
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
    /// The first and the last core that this process may use; the same where there is one only.
    #[must_use]
    pub fn of_this_host() -> Self {
        let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
        let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
        let cores: Vec<u16> = cores.filter_map(|core| u16::try_from(core).ok()).collect();
        let [first, last] = [cores.first(), cores.last()].map(|core| core.copied().unwrap_or(0));
        Self { generator: first, sink: last }
    }

    /// A core that is neither, where this process may use one.
    #[must_use]
    pub fn third(self) -> Option<u16> {
        let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
        let free = |core: &u16| {
            set.is_set(usize::from(*core)) && ![self.generator, self.sink].contains(core)
        };
        (0..u16::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u16::MAX)).find(free)
    }

    /// Whether both have a core to themselves.
    #[must_use]
    pub fn are_apart(self) -> bool {
        self.generator != self.sink
    }
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
        }
    }
}

impl Conditions {
    /// How long the stream is.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.period_ps.saturating_mul(self.count) / 1_000)
    }

    /// The cores that a trace has to see.
    #[must_use]
    pub fn cores(&self) -> Vec<u16> {
        let mut cores = vec![self.cores.generator, self.cores.sink];
        if let Receive::Thread { core } = self.receive {
            cores.push(core);
        }
        cores.sort_unstable();
        cores.dedup();
        cores
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
        for place in [Receive::Sender, Receive::Sink, Receive::Thread { core: 3 }] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert!("thread:x".parse::<Receive>().is_err() && "nowhere".parse::<Receive>().is_err());
    }
}
