//! Traces by BPF: programs at raw tracepoints write records into a log per core.

use super::btf::BtfError;
use super::probes::{self, Offsets, PROBES};
use super::program::{COUNTER_WORDS, Log, MAX_BYTES, RECORD_WORDS};
use super::{SETTLE, TraceTarget};
use crate::trace::{Event, EventKind, NAME_LEN, Trace};
use linecard_io::sys::tracing::{self, Shared};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Programs that interrupt each other write at most so many records at once on a core.
const UNFINISHED: usize = 64;
/// Records of programs that interrupt each other are out of order by at most this.
const NESTED_NS: u64 = 1_000_000;

/// Why BPF cannot trace.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel's type information cannot be used.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The memory for the log cannot be allocated.
    #[error("cannot allocate a log of {megabytes} MB for the trace ({source}): {}", advice(source))]
    Log {
        /// Its requested size.
        megabytes: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel refuses a program.
    #[error("no program at the tracepoint {name} ({source}): {}", advice(source))]
    Program {
        /// The tracepoint.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "tracing by BPF needs root, or CAP_BPF and CAP_PERFMON",
        io::ErrorKind::OutOfMemory => "trace fewer packets",
        _ => "tracepoints of Linux 6.3 or later (`sk_data_ready`) are needed",
    }
}

/// BPF programs attached to their tracepoints; dropping the value detaches them.
#[derive(Debug)]
pub(super) struct Recorder {
    log: Shared,
    cores: Vec<u16>,
    capacity: usize,
    overwrites: bool,
    programs: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
    absent: Vec<&'static str>,
}

impl Recorder {
    /// Starts recording on these cores, with room for `events` events per core, as far as the
    /// kernel permits.
    pub(super) fn start(
        target: &TraceTarget,
        cores: &[u16],
        events: usize,
    ) -> Result<Self, BpfError> {
        let offsets = Offsets::read()?;
        let mut recorder = Self::empty(cores, events)?;
        recorder.attach(target, &offsets)?;
        Ok(recorder)
    }

    /// Starts recording on these cores, without an end: the last `events` events of each core are kept, a power of two.
    pub(super) fn endless(
        target: &TraceTarget,
        cores: &[u16],
        events: usize,
    ) -> Result<Self, BpfError> {
        let offsets = Offsets::read()?;
        let recorder = Self::empty(cores, events)?;
        let mut recorder = Self { overwrites: true, ..recorder };
        recorder.attach(target, &offsets)?;
        Ok(recorder)
    }

    /// Allocates the logs, without programs.
    pub(super) fn empty(cores: &[u16], events: usize) -> Result<Self, BpfError> {
        let counters = cores.len() * COUNTER_WORDS;
        let most = (MAX_BYTES / 8 - counters) / RECORD_WORDS / cores.len().max(1);
        let capacity = events.clamp(1, most);
        let words = counters + cores.len() * capacity * RECORD_WORDS;
        let megabytes = words * 8 / 1_000_000;
        let log = Shared::new(words).map_err(|source| BpfError::Log { megabytes, source })?;
        let cores = cores.to_vec();
        let (programs, links, absent) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { log, cores, capacity, overwrites: false, programs, links, absent })
    }

    /// The log that programs write to.
    pub(super) fn log(&self) -> Log<'_> {
        let (cores, capacity, overwrites) = (&self.cores, self.capacity, self.overwrites);
        Log { map: self.log.fd(), cores, capacity, overwrites }
    }

    fn attach(&mut self, target: &TraceTarget, offsets: &Offsets) -> Result<(), BpfError> {
        for probe in PROBES {
            let name = probe.name();
            for instructions in probe.programs(target, offsets, self.log()) {
                match self.add(probe.name, &instructions) {
                    Err(source) if probe.is_needed => {
                        return Err(BpfError::Program { name: name.to_owned(), source });
                    }
                    Err(_) => self.absent.push(name),
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    /// Attaches a program that writes into this log to a tracepoint.
    pub(super) fn add(&mut self, name: &CStr, instructions: &[[u8; 8]]) -> io::Result<()> {
        let program = tracing::load(instructions)?;
        self.links.push(tracing::attach(name, program.as_fd())?);
        self.programs.push(program);
        Ok(())
    }

    /// Number of records of the first core so far.
    pub(super) fn recorded(&self) -> u64 {
        self.log.word(0)
    }

    pub(super) fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// Stops recording, and returns the recorded events unsorted.
    pub(super) fn stop(mut self) -> Trace {
        self.links.clear();
        std::thread::sleep(SETTLE);
        let misses = self.programs.iter().map(|program| tracing::misses(program.as_fd()));
        let misses: u64 = misses.map(Result::unwrap_or_default).sum();
        let mut trace = Trace { lost: misses, cores: self.cores.clone(), ..Trace::default() };
        for slot in 0..self.cores.len() {
            self.read_core(slot, &mut trace);
        }
        trace
    }

    /// The record of this index on a core, or the one that has overwritten it.
    fn record(&self, slot: usize, index: usize) -> [u64; RECORD_WORDS] {
        let place = slot * self.capacity + index % self.capacity;
        let at = self.cores.len() * COUNTER_WORDS + place * RECORD_WORDS;
        [0, 1, 2, 3].map(|word| self.log.word(at + word))
    }

    /// The events from one time to another that are still kept, unsorted; of each core also the last switch of threads
    /// before.
    pub(super) fn window(&self, from_ns: u64, to_ns: u64) -> Trace {
        let mut trace = Trace { cores: self.cores.clone(), ..Trace::default() };
        for slot in 0..self.cores.len() {
            let core = self.cores[slot];
            let (first, mut is_known) = (trace.events.len(), false);
            let head = self.log.word(slot * COUNTER_WORDS) as usize;
            let oldest = head.saturating_sub(self.capacity - UNFINISHED);
            for index in (oldest..head).rev() {
                let record = self.record(slot, index);
                // Claimed and not yet written: what is there is a whole log older than its neighbours.
                let is_stale =
                    || index > oldest && self.record(slot, index - 1)[0] > record[0] + NESTED_NS;
                if record[0] > to_ns || is_stale() {
                    continue;
                }
                let Some(event) = probes::event(core, record) else { continue };
                let is_before = record[0] < from_ns;
                let is_switch = matches!(event.what, EventKind::Switch { .. });
                if is_before && !is_switch {
                    continue;
                }
                is_known |= is_switch;
                trace.events.push(event);
                if is_before {
                    break;
                }
            }
            let now = self.log.word(slot * COUNTER_WORDS) as usize;
            trace.lost += (now.saturating_sub(self.capacity)).saturating_sub(oldest) as u64;
            let thread = self.log.word(slot * COUNTER_WORDS + 1);
            if !is_known && thread > 0 {
                // The thread had the core all the time.
                let (from, to) = (thread as u32, thread as u32);
                let what = EventKind::Switch { from, is_displaced: false, to, name: [0; NAME_LEN] };
                trace.events.push(Event { at_ns: from_ns, core, what });
            }
            trace.events[first..].reverse();
        }
        // Nothing else happened until then.
        let what = EventKind::Wakeup { thread: 0 };
        trace.events.extend(self.cores.first().map(|core| Event {
            at_ns: to_ns,
            core: *core,
            what,
        }));
        trace
    }

    fn read_core(&self, slot: usize, trace: &mut Trace) {
        let count = self.log.word(slot * COUNTER_WORDS) as usize;
        let recorded = count.min(self.capacity);
        trace.lost += (count - recorded) as u64;
        trace.events.reserve(recorded);
        for index in 0..recorded {
            match probes::event(self.cores[slot], self.record(slot, index)) {
                Some(event) => trace.events.push(event),
                None => trace.lost += 1,
            }
        }
    }
}
