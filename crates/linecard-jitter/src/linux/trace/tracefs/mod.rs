//! Traces by the kernel's own ring buffers: an instance of tracefs, with events and filters of its own.
//!
//! For hosts where BPF is not possible: no right to it, no BTF, an old kernel. Events carry what the
//! kernel's authors put in, and nobody looks into packets: those of the stream are known by their length
//! and by the thread that sends them, and are numbered in their order. An event is two to four times as
//! long as ours, and costs about twice the time.
//!
//! The clock is `mono`, because the stream's ends read `CLOCK_MONOTONIC`; `mono_raw` would run apart from
//! them by what the clock is steered. Nobody else's trace is touched; the instance is removed at the end,
//! and what a killed process has left, when the next trace begins.
//!
//! Source: the kernel's Documentation/trace/ftrace.rst and events.rst.

mod folder;
mod format;
mod number;
mod page;

pub(super) use folder::{Folder, Instance};

use super::Watch;
use super::probes::{PROBES, Probe};
use crate::trace::Trace;
use format::Format;
use number::Seen;
use page::Layout;
use std::collections::HashMap;
use std::io::{self, Read};

/// Bytes of an event in the ring buffer, in the mean; a packet's is twice as long, all others are shorter.
const EVENT_BYTES: usize = 40;
/// Kilobytes of all buffers at most: as much as the log of BPF has.
const MAX_KILOBYTES: usize = 512 << 10;
/// The buffer of a core, at least.
const MIN_KILOBYTES: usize = 64;

/// Why tracefs cannot trace.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// There is none.
    #[error("tracefs is not mounted, and cannot be ({0}): root is needed, and Linux 5.2")]
    Mount(io::Error),
    /// A file is refused.
    #[error("{name} of tracefs is refused ({source}): {}", advice(source))]
    File {
        /// Its name within tracefs.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not as the kernel's documentation has it.
    #[error("{name} of tracefs is not understood: it has no {what}")]
    Malformed {
        /// Its name within tracefs.
        name: String,
        /// What is not there.
        what: &'static str,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "root is needed",
        io::ErrorKind::OutOfMemory => "trace fewer packets",
        io::ErrorKind::NotFound => "this kernel does not have it",
        _ => "Linux 6.2 or later is needed",
    }
}

/// An instance that records; dropped, it is removed.
pub(super) struct Recorder {
    instance: Instance,
    cores: Vec<u16>,
    layout: Layout,
    /// By the number that the kernel has given each.
    events: HashMap<u16, (&'static Probe, Format)>,
    absent: Vec<&'static str>,
}

impl Recorder {
    /// Begins, on these cores, with room for so many events on each, as far as the bound lets.
    pub(super) fn start(watch: &Watch, cores: &[u16], events: usize) -> Result<Self, TracefsError> {
        let instance = Instance::new()?;
        let layout = Layout::parse(&instance.read("events/header_page")?);
        let layout = layout.ok_or_else(|| malformed("events/header_page", "place for data"))?;
        let kilobytes = events.saturating_mul(EVENT_BYTES) >> 10;
        let most = MAX_KILOBYTES / cores.len().max(1);
        let kilobytes = kilobytes.clamp(MIN_KILOBYTES, most.max(MIN_KILOBYTES));
        instance.prepare(cores, kilobytes)?;
        let (events, absent) = (HashMap::new(), Vec::new());
        let cores = cores.to_vec();
        let mut recorder = Self { instance, cores, layout, events, absent };
        for probe in PROBES {
            match recorder.enable(probe, watch) {
                Err(error) if probe.is_needed => return Err(error),
                Err(_) => recorder.absent.push(probe.name()),
                Ok(()) => {}
            }
        }
        recorder.instance.write("tracing_on", "1")?;
        Ok(recorder)
    }

    fn enable(&mut self, probe: &'static Probe, watch: &Watch) -> Result<(), TracefsError> {
        let folder = format!("events/{}/{}", probe.group, probe.name());
        let name = format!("{folder}/format");
        let format = Format::parse(&self.instance.read(&name)?, probe.kind);
        let format = format.map_err(|what| malformed(&name, what))?;
        if let Some(filter) = format::filter(probe.kind, watch) {
            self.instance.write(&format!("{folder}/filter"), &filter)?;
        }
        self.instance.write(&format!("{folder}/enable"), "1")?;
        self.events.insert(format.id, (probe, format));
        Ok(())
    }

    pub(super) fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// Ends, and gives what was recorded, in order of time.
    pub(super) fn stop(self) -> Trace {
        let mut trace = Trace { cores: self.cores.clone(), ..Trace::default() };
        // What goes on being recorded is read as well.
        let _stopped = self.instance.write("tracing_on", "0");
        let mut seen = Vec::new();
        for core in &self.cores {
            // A core that cannot be read has lost at least one.
            trace.lost += self.read_core(*core, &mut seen).unwrap_or(1);
        }
        trace.events = number::number(seen);
        trace
    }

    /// Reads a core's buffer to its end, and says how many events are not in it.
    fn read_core(&self, core: u16, seen: &mut Vec<Seen>) -> Result<u64, TracefsError> {
        let mut pipe = self.instance.pipe(core)?;
        let mut page = vec![0; self.layout.page_len()];
        let mut missing = 0;
        let most = (MAX_KILOBYTES << 10) / page.len().max(1);
        for _ in 0..most {
            match pipe.read(&mut page) {
                Ok(0) | Err(_) => break,
                Ok(len) => {
                    missing += self.layout.decode(&page[..len], &mut |at_ns, payload| {
                        seen.extend(self.event(core, at_ns, payload));
                    });
                }
            }
        }
        Ok(missing.max(self.instance.lost(core)?))
    }

    fn event(&self, core: u16, at_ns: u64, payload: &[u8]) -> Option<Seen> {
        let id = payload.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let (probe, format) = self.events.get(&id)?;
        format.seen(probe.kind, (core, at_ns), payload)
    }
}

fn malformed(name: &str, what: &'static str) -> TracefsError {
    TracefsError::Malformed { name: name.to_owned(), what }
}
