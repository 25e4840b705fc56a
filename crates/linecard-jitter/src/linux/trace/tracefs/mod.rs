//! Traces by the kernel's ring buffers: a tracefs instance with its own events and filters.
//!
//! For hosts where BPF is not available: missing rights, no BTF, an old kernel. The events have
//! fixed fields that do not include packet contents: packets of the stream are recognised by their
//! length and their sending thread, and are numbered in order. An event is two to four times as
//! long as a BPF record, and costs about twice the time.
//!
//! The trace clock is `mono`, because both ends of the stream read `CLOCK_MONOTONIC`; `mono_raw`
//! would drift from it as NTP slews the clock. Traces of other processes are not affected. The
//! instance is removed at the end; if the process was killed, the next trace removes it.
//!
//! Source: the kernel's Documentation/trace/ftrace.rst and events.rst.

mod folder;
mod format;
mod number;
mod page;

pub(super) use folder::{Folder, Instance};

use super::TraceTarget;
use super::probes::{PROBES, Probe};
use crate::trace::Trace;
use format::Format;
use number::Seen;
use page::Layout;
use std::collections::HashMap;
use std::io::{self, Read};

/// Mean bytes of an event in the ring buffer; a packet event is twice as long, others are shorter.
const EVENT_BYTES: usize = 40;
/// Maximum kilobytes of all buffers: the size of the BPF log.
const MAX_KILOBYTES: usize = 512 << 10;
/// Minimum buffer size of a core.
const MIN_KILOBYTES: usize = 64;

/// Why tracefs cannot trace.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// Tracefs is not available.
    #[error("tracefs is not mounted, and cannot be ({0}): root is needed, and Linux 5.2")]
    Mount(io::Error),
    /// A file cannot be read or written.
    #[error("{name} of tracefs is refused ({source}): {}", advice(source))]
    File {
        /// Path of the file within tracefs.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file differs from the kernel's documentation.
    #[error("{name} of tracefs is not understood: it has no {what}")]
    Malformed {
        /// Path of the file within tracefs.
        name: String,
        /// The missing facility.
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

/// A recording instance; dropping it removes it.
pub(super) struct Recorder {
    instance: Instance,
    cores: Vec<u16>,
    layout: Layout,
    /// Events by the id that the kernel assigned.
    events: HashMap<u16, (&'static Probe, Format)>,
    absent: Vec<&'static str>,
}

impl Recorder {
    /// Starts recording on these cores, with room for `events` events per core, as far as the limit
    /// permits.
    pub(super) fn start(
        target: &TraceTarget,
        cores: &[u16],
        events: usize,
    ) -> Result<Self, TracefsError> {
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
            match recorder.enable(probe, target) {
                Err(error) if probe.is_needed => return Err(error),
                Err(_) => recorder.absent.push(probe.name()),
                Ok(()) => {}
            }
        }
        recorder.instance.write("tracing_on", "1")?;
        Ok(recorder)
    }

    fn enable(&mut self, probe: &'static Probe, target: &TraceTarget) -> Result<(), TracefsError> {
        let folder = format!("events/{}/{}", probe.group, probe.name());
        let name = format!("{folder}/format");
        let format = Format::parse(&self.instance.read(&name)?, probe.kind);
        let format = format.map_err(|what| malformed(&name, what))?;
        if let Some(filter) = format::filter(probe.kind, target) {
            self.instance.write(&format!("{folder}/filter"), &filter)?;
        }
        self.instance.write(&format!("{folder}/enable"), "1")?;
        self.events.insert(format.id, (probe, format));
        Ok(())
    }

    pub(super) fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// Stops recording, and returns the events sorted by time.
    pub(super) fn stop(self) -> Trace {
        let mut trace = Trace { cores: self.cores.clone(), ..Trace::default() };
        // If this fails, events recorded from now on are read as well.
        let _stopped = self.instance.write("tracing_on", "0");
        let mut seen = Vec::new();
        for core in &self.cores {
            // A core that cannot be read counts as one lost event.
            trace.lost += self.read_core(*core, &mut seen).unwrap_or(1);
        }
        trace.events = number::number(seen);
        trace
    }

    /// Reads a core's buffer to its end, and returns the number of lost events.
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
