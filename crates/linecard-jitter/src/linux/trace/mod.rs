//! Traces of what the kernel does with a stream, and of what else its cores do meanwhile.
//!
//! BPF programs at raw tracepoints write records of 32 bytes into a log of each core, which is read when
//! all is over: nobody is woken, nothing is copied, no lock is taken while packets are on their way. Where
//! BPF is not to be had, the kernel's own ring buffers record the same events (tracefs): longer ones, for
//! about twice the time, without the packets' numbers, which follow from their order. What did not fit is
//! counted, and what the kernel did not let a program see as well: a trace with losses says so, and no
//! verdict is built on it. [`cost`] measures what either costs.
//!
//! Times are `CLOCK_MONOTONIC`, as the ends of the stream have it.
//!
//! Not supported: packets whose payload does not lie behind their header in one piece (header split),
//! VLAN tags, IPv4 options; they are not seen, and the counts differ.

mod bpf;
mod btf;
pub mod cost;
mod counters;
mod names;
mod probes;
mod program;
mod tracefs;

pub use bpf::BpfError;
pub use btf::BtfError;
pub use counters::{CounterError, PacketCounters};
pub use probes::Watch;
pub use tracefs::TracefsError;

use crate::trace::Trace;
use std::time::Duration;

/// Cores that can be traced at once.
pub const MAX_CORES: usize = 16;
/// Threads whose waking can be watched.
pub const MAX_THREADS: usize = 8;
/// After the programs are gone, those that were running need this long at most.
const SETTLE: Duration = Duration::from_millis(20);

/// By what means the kernel is traced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Means {
    /// BPF, and tracefs where that is refused.
    #[default]
    Auto,
    /// BPF: packets carry their numbers, and an event costs less.
    Bpf,
    /// The kernel's own ring buffers.
    Tracefs,
}

/// Why nothing can be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Too much is asked for.
    #[error("{what} are {count}, and {limit} at most can be traced")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// At most.
        limit: usize,
    },
    /// Not by BPF.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Not by tracefs.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// By neither.
    #[error("neither by BPF ({bpf}) nor by tracefs ({tracefs})")]
    Neither {
        /// Why not by BPF.
        bpf: BpfError,
        /// Why not by tracefs.
        tracefs: TracefsError,
    },
}

/// A trace under way; dropped, it is over.
///
/// ```no_run
/// use linecard_jitter::linux::trace::{Means, Tracer, Watch};
/// let watch = Watch { port: 20_000, payload_len: 1_396, ..Watch::default() };
/// let tracer = Tracer::start(Means::Auto, &watch, &[0, 1], 1_000_000)?;
/// println!("traced by {}", tracer.kind());
/// // … packets come …
/// let trace = tracer.stop();
/// assert_eq!(trace.lost, 0);
/// # Ok::<(), linecard_jitter::linux::trace::TraceError>(())
/// ```
pub struct Tracer(Inner);

enum Inner {
    Bpf(bpf::Recorder),
    Tracefs(tracefs::Recorder),
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

impl Tracer {
    /// Begins, on these cores, with room for so many events on each, as far as the kernel lets.
    ///
    /// # Errors
    ///
    /// See [`TraceError`]; nothing stays behind.
    pub fn start(
        means: Means,
        watch: &Watch,
        cores: &[u16],
        events: usize,
    ) -> Result<Self, TraceError> {
        within("threads to watch", watch.threads.len(), MAX_THREADS)?;
        within("cores", cores.len(), MAX_CORES)?;
        let by_bpf = || bpf::Recorder::start(watch, cores, events).map(Inner::Bpf);
        let by_tracefs = || tracefs::Recorder::start(watch, cores, events).map(Inner::Tracefs);
        Ok(Self(match means {
            Means::Bpf => by_bpf()?,
            Means::Tracefs => by_tracefs()?,
            Means::Auto => match by_bpf() {
                Ok(recorder) => recorder,
                Err(bpf) => by_tracefs().map_err(|tracefs| TraceError::Neither { bpf, tracefs })?,
            },
        }))
    }

    /// By what: "bpf" or "tracefs".
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.0 {
            Inner::Bpf(_) => "bpf",
            Inner::Tracefs(_) => "tracefs",
        }
    }

    /// Tracepoints that this kernel does not have: what they would name is not named.
    #[must_use]
    pub fn absent(&self) -> &[&'static str] {
        match &self.0 {
            Inner::Bpf(recorder) => recorder.absent(),
            Inner::Tracefs(recorder) => recorder.absent(),
        }
    }

    /// Ends, and gives what was recorded.
    #[must_use]
    pub fn stop(self) -> Trace {
        let mut trace = match self.0 {
            Inner::Bpf(recorder) => recorder.stop(),
            Inner::Tracefs(recorder) => recorder.stop(),
        };
        trace.sort();
        names::collect(&mut trace);
        trace
    }
}

fn within(what: &'static str, count: usize, limit: usize) -> Result<(), TraceError> {
    if count > limit { Err(TraceError::TooMany { what, count, limit }) } else { Ok(()) }
}
