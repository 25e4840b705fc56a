//! Traces of what the kernel does with a stream, and of what else its cores do meanwhile.
//!
//! BPF programs at raw tracepoints write records of 32 bytes into a log of each core ([`program`]),
//! which is read when all is over: nobody is woken, nothing is copied, no lock is taken while packets
//! are on their way. What did not fit is counted, and what the kernel did not let a program see as well:
//! a trace with losses says so, and no verdict is built on it.
//!
//! Times are `CLOCK_MONOTONIC`, as the ends of the stream have it.
//!
//! Not supported: packets whose payload does not lie behind their header in one piece (header split),
//! VLAN tags, IPv4 options; they are not seen, and the counts differ.

mod btf;
mod names;
mod probes;
mod program;

pub use btf::BtfError;
pub use probes::Watch;

use crate::sys::tracing::{self, Shared};
use linecard_jitter::trace::Trace;
use probes::{Offsets, PROBES};
use program::{COUNTER_WORDS, Log, MAX_BYTES, RECORD_WORDS};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Cores that can be traced at once.
pub const MAX_CORES: usize = 16;
/// Threads whose waking can be watched.
pub const MAX_THREADS: usize = 8;
/// After the programs are gone, those that were running need this long at most.
const SETTLE: Duration = Duration::from_millis(20);

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
    /// The kernel's types are not known.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// No memory for the log.
    #[error("no log of {megabytes} MB for the trace ({source}): {}", advice(source))]
    Log {
        /// How long it was to be.
        megabytes: usize,
        /// What the system says.
        source: io::Error,
    },
    /// A program is refused.
    #[error("no program at the tracepoint {name} ({source}): {}", advice(source))]
    Program {
        /// The tracepoint.
        name: String,
        /// What the system says.
        source: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "tracing by BPF needs root, or CAP_BPF and CAP_PERFMON",
        io::ErrorKind::OutOfMemory => "trace fewer packets",
        _ => "tracepoints of Linux 6.3 or later are needed",
    }
}

/// A trace under way; dropped, it is over.
///
/// ```no_run
/// use linecard_host::jitter::trace::{Tracer, Watch};
/// let watch = Watch { port: 20_000, is_ipv6: false, threads: vec![] };
/// let tracer = Tracer::start(&watch, &[0, 1], 1_000_000)?;
/// // … packets come …
/// let trace = tracer.stop();
/// assert_eq!(trace.lost, 0);
/// # Ok::<(), linecard_host::jitter::trace::TraceError>(())
/// ```
pub struct Tracer {
    log: Shared,
    cores: Vec<u16>,
    capacity: usize,
    programs: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
    absent: Vec<&'static str>,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("cores", &self.cores).finish_non_exhaustive()
    }
}

impl Tracer {
    /// Begins, on these cores, with room for so many events on each, as far as the kernel lets.
    ///
    /// # Errors
    ///
    /// See [`TraceError`]; nothing stays behind.
    pub fn start(watch: &Watch, cores: &[u16], events: usize) -> Result<Self, TraceError> {
        within("threads to watch", watch.threads.len(), MAX_THREADS)?;
        within("cores", cores.len(), MAX_CORES)?;
        let offsets = Offsets::read()?;
        let counters = cores.len() * COUNTER_WORDS;
        let most = (MAX_BYTES / 8 - counters) / RECORD_WORDS / cores.len().max(1);
        let capacity = events.clamp(1, most);
        let words = counters + cores.len() * capacity * RECORD_WORDS;
        let megabytes = words * 8 / 1_000_000;
        let log = Shared::new(words).map_err(|source| TraceError::Log { megabytes, source })?;
        let cores = cores.to_vec();
        let (programs, links, absent) = (Vec::new(), Vec::new(), Vec::new());
        let mut tracer = Self { log, cores, capacity, programs, links, absent };
        tracer.attach(watch, &offsets)?;
        Ok(tracer)
    }

    fn attach(&mut self, watch: &Watch, offsets: &Offsets) -> Result<(), TraceError> {
        for probe in PROBES {
            let log = Log { map: self.log.fd(), cores: &self.cores, capacity: self.capacity };
            let instructions = probe.program(watch, offsets, log);
            let attached = tracing::load(&instructions)
                .and_then(|program| Ok((tracing::attach(probe.name, program.as_fd())?, program)));
            let name = probe.name.to_str().unwrap_or_default();
            match attached {
                Ok((link, program)) => {
                    self.links.push(link);
                    self.programs.push(program);
                }
                Err(source) if probe.is_needed => {
                    return Err(TraceError::Program { name: name.to_owned(), source });
                }
                Err(_) => self.absent.push(name),
            }
        }
        Ok(())
    }

    /// Tracepoints that this kernel does not have: what they would name is not named.
    #[must_use]
    pub fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// Ends, and gives what was recorded.
    #[must_use]
    pub fn stop(mut self) -> Trace {
        self.links.clear();
        std::thread::sleep(SETTLE);
        let misses = self.programs.iter().map(|program| tracing::misses(program.as_fd()));
        let misses: u64 = misses.map(Result::unwrap_or_default).sum();
        let mut trace = Trace { lost: misses, cores: self.cores.clone(), ..Trace::default() };
        for slot in 0..self.cores.len() {
            self.read_core(slot, &mut trace);
        }
        trace.sort();
        names::collect(&mut trace);
        trace
    }

    fn read_core(&self, slot: usize, trace: &mut Trace) {
        let count = self.log.word(slot * COUNTER_WORDS) as usize;
        let recorded = count.min(self.capacity);
        trace.lost += (count - recorded) as u64;
        let first = self.cores.len() * COUNTER_WORDS + slot * self.capacity * RECORD_WORDS;
        trace.events.reserve(recorded);
        for index in 0..recorded {
            let at = first + index * RECORD_WORDS;
            let record = [0, 1, 2, 3].map(|word| self.log.word(at + word));
            match probes::event(self.cores[slot], record) {
                Some(event) => trace.events.push(event),
                None => trace.lost += 1,
            }
        }
    }
}

fn within(what: &'static str, count: usize, limit: usize) -> Result<(), TraceError> {
    if count > limit { Err(TraceError::TooMany { what, count, limit }) } else { Ok(()) }
}
