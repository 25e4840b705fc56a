//! Traces by BPF: programs at raw tracepoints write records into a log per core.

use super::btf::BtfError;
use super::probes::{self, Offsets, PROBES};
use super::program::{COUNTER_WORDS, Log, MAX_BYTES, RECORD_WORDS};
use super::{SETTLE, TraceTarget};
use crate::trace::Trace;
use linecard_io::sys::tracing::{self, Shared};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

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
pub(super) struct Recorder {
    log: Shared,
    cores: Vec<u16>,
    capacity: usize,
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
        Ok(Self { log, cores, capacity, programs, links, absent })
    }

    /// The log that programs write to.
    pub(super) fn log(&self) -> Log<'_> {
        Log { map: self.log.fd(), cores: &self.cores, capacity: self.capacity }
    }

    fn attach(&mut self, target: &TraceTarget, offsets: &Offsets) -> Result<(), BpfError> {
        for probe in PROBES {
            let instructions = probe.program(target, offsets, self.log());
            let name = probe.name();
            match self.add(probe.name, &instructions) {
                Err(source) if probe.is_needed => {
                    return Err(BpfError::Program { name: name.to_owned(), source });
                }
                Err(_) => self.absent.push(name),
                Ok(()) => {}
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
