//! Traces the kernel's handling of a stream, and other activity on its cores.
//!
//! BPF programs at raw tracepoints write records of 32 bytes into a log per core, which is read
//! after the measurement: nothing is woken, copied or locked while packets are on their way. Where
//! BPF is not available, the kernel's ring buffers record the same events (tracefs): larger ones,
//! at about twice the cost, and without packet numbers, which are derived from the order. Events
//! that did not fit are counted, and so are those that the kernel did not pass to a program: a
//! trace with losses is marked, and no verdict uses it. [`cost`] measures the cost of both.
//!
//! Times are `CLOCK_MONOTONIC`, the same clock that both ends of the stream use.
//!
//! Not supported: packets whose payload does not follow their header contiguously (header split),
//! VLAN tags and IPv4 options; such packets are not seen, and the counts differ.

mod bpf;
mod btf;
pub mod cost;
mod counters;
mod examine;
mod names;
mod probes;
mod program;
mod tracefs;

pub use bpf::BpfError;
pub use btf::BtfError;
pub use counters::{CounterError, PacketCounters};
pub use examine::{Examiner, FlightRecorder};
pub use probes::{Identity, TraceTarget};
pub use tracefs::TracefsError;

use crate::trace::Trace;
use std::time::Duration;

/// Maximum number of traced cores.
pub const MAX_CORES: usize = 16;
/// Maximum number of threads whose wakeups are traced.
pub const MAX_THREADS: usize = 8;
/// Time for running programs to finish after they are detached.
const SETTLE: Duration = Duration::from_millis(20);

/// The mechanism that traces the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TraceBackend {
    /// BPF, or tracefs if BPF is refused.
    #[default]
    Auto,
    /// BPF: records packet numbers, and an event costs less.
    Bpf,
    /// The kernel's own ring buffers.
    Tracefs,
}

/// Why tracing is not possible.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A limit is exceeded.
    #[error("{what} are {count}, and {limit} at most can be traced")]
    TooMany {
        /// The items that are too many.
        what: &'static str,
        /// The requested number.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// BPF cannot be used.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Tracefs cannot be used.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Neither can be used.
    #[error("neither by BPF ({bpf}) nor by tracefs ({tracefs})")]
    Neither {
        /// The error of BPF.
        bpf: BpfError,
        /// The error of tracefs.
        tracefs: TracefsError,
    },
}

/// A running trace; dropping it ends it.
///
/// ```no_run
/// use linecard_jitter::linux::trace::{TraceBackend, Tracer, TraceTarget};
/// let ports = [vec![20_000], Vec::new()];
/// let target = TraceTarget { ports, payload_len: 1_396, ..TraceTarget::default() };
/// let tracer = Tracer::start(TraceBackend::Auto, &target, &[0, 1], 1_000_000)?;
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
    /// Starts tracing on these cores, with room for `events` events per core, as far as the kernel
    /// permits.
    ///
    /// # Errors
    ///
    /// See [`TraceError`]; nothing is left behind.
    pub fn start(
        means: TraceBackend,
        target: &TraceTarget,
        cores: &[u16],
        events: usize,
    ) -> Result<Self, TraceError> {
        within("threads to watch", target.threads.len(), MAX_THREADS)?;
        within("cores", cores.len(), MAX_CORES)?;
        let by_bpf = || bpf::Recorder::start(target, cores, events).map(Inner::Bpf);
        let by_tracefs = || tracefs::Recorder::start(target, cores, events).map(Inner::Tracefs);
        Ok(Self(match means {
            TraceBackend::Bpf => by_bpf()?,
            TraceBackend::Tracefs => by_tracefs()?,
            TraceBackend::Auto => match by_bpf() {
                Ok(recorder) => recorder,
                Err(bpf) => by_tracefs().map_err(|tracefs| TraceError::Neither { bpf, tracefs })?,
            },
        }))
    }

    /// The mechanism in use: "bpf" or "tracefs".
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.0 {
            Inner::Bpf(_) => "bpf",
            Inner::Tracefs(_) => "tracefs",
        }
    }

    /// Tracepoints that this kernel lacks; causes that they would show are not named.
    #[must_use]
    pub fn absent(&self) -> &[&'static str] {
        match &self.0 {
            Inner::Bpf(recorder) => recorder.absent(),
            Inner::Tracefs(recorder) => recorder.absent(),
        }
    }

    /// Stops tracing, and returns the recorded events.
    #[must_use]
    pub fn stop(self) -> Trace {
        let mut trace = match self.0 {
            Inner::Bpf(recorder) => recorder.stop(),
            Inner::Tracefs(recorder) => recorder.stop(),
        };
        trace.sort();
        names::collect(&mut trace, &mut names::Functions::default());
        trace
    }
}

/// The number of the calling thread.
#[must_use]
pub fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

fn within(what: &'static str, count: usize, limit: usize) -> Result<(), TraceError> {
    if count > limit { Err(TraceError::TooMany { what, count, limit }) } else { Ok(()) }
}
