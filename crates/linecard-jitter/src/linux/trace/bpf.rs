//! Traces by BPF: programs at raw tracepoints write records into a log per core.

use super::btf::BtfError;
use super::probes::{self, Offsets, PROBES};
use super::program::{COUNTER_WORDS, Log, MAX_BYTES, RECORD_WORDS};
use super::{SETTLE, TraceTarget};
use crate::trace::{Event, EventKind, NAME_LEN, Trace};
use linecard_io::sys::tracing::{self, Shared};
use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// Programs that interrupt each other write at most this many records at once on a core.
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
    /// before, if none is within. Of a core that has overwritten some of them there are none.
    pub(super) fn window(&self, from_ns: u64, to_ns: u64) -> Trace {
        let mut trace = Trace { cores: self.cores.clone(), ..Trace::default() };
        for (slot, core) in self.cores.iter().enumerate() {
            // Before the head: a program writes the thread first, and a switch behind it names the one before, too.
            let thread = self.log.word(slot * COUNTER_WORDS + 1);
            let head = || self.log.word(slot * COUNTER_WORDS) as usize;
            let end = head();
            let kept = Kept {
                indices: end.saturating_sub(self.capacity - UNFINISHED)..end,
                record: |index| self.record(slot, index),
                is_whole: || head() <= self.capacity,
                thread: (thread >> 32 != 0).then_some(thread as u32),
            };
            match kept.window(*core, from_ns..to_ns) {
                Some(events) => trace.events.extend(events),
                None => trace.lost += 1,
            }
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

/// The records of a core that are still kept. Programs go on writing, and overwrite the oldest.
struct Kept<R, W> {
    /// All that were written have indices from 0; of these, the log has the last ones.
    indices: Range<usize>,
    record: R,
    /// Whether none has been overwritten so far.
    is_whole: W,
    /// The thread that the core was switched to last, 0 for the idle loop; none if that was before the trace.
    thread: Option<u32>,
}

impl<R: Fn(usize) -> [u64; RECORD_WORDS], W: Fn() -> bool> Kept<R, W> {
    /// The events of a core in this time, and its last switch of threads before, if none is within; `None` if the log
    /// does not go back so far any more.
    fn window(&self, core: u16, time: Range<u64>) -> Option<Vec<Event>> {
        if !self.goes_back_to(time.start) {
            return None;
        }
        let oldest = self.indices.start;
        let (mut events, mut is_known, mut thread) = (Vec::new(), false, self.thread);
        let mut is_intact = false;
        for index in self.indices.clone().rev() {
            let record = (self.record)(index);
            // Claimed and not yet written: the record is a whole log older than its neighbours.
            let is_stale = index > oldest && (self.record)(index - 1)[0] > record[0] + NESTED_NS;
            if is_stale {
                continue;
            }
            let Some(event) = probes::event(core, record) else { continue };
            let is_before = event.at_ns < time.start;
            let switched_from = match event.what {
                EventKind::Switch { from, .. } => Some(from),
                _ => None,
            };
            if event.at_ns > time.end {
                if is_intact {
                    // It was overwritten meanwhile, and so were those before it.
                    break;
                }
                thread = switched_from.or(thread);
                continue;
            }
            is_known |= switched_from.is_some();
            if switched_from.is_some() || !is_before {
                events.push(event);
            }
            // As old as this one is, it was not overwritten, nor those behind it.
            is_intact |= is_before;
            if is_known && is_before {
                break;
            }
        }
        if !is_intact && !self.goes_back_to(time.start) {
            return None;
        }
        if let (false, Some(thread)) = (is_known, thread) {
            // One thread had the core all the time.
            let (from, to) = (thread, thread);
            let what = EventKind::Switch { from, is_displaced: false, to, name: [0; NAME_LEN] };
            events.push(Event { at_ns: time.start, core, what });
        }
        events.reverse();
        Some(events)
    }

    /// Whether the log has records from before this time, or all that there were.
    fn goes_back_to(&self, at_ns: u64) -> bool {
        // The oldest may be one that was claimed and not written yet.
        let mut oldest = self.indices.clone().take(UNFINISHED);
        (self.is_whole)() || oldest.any(|index| (self.record)(index)[0] < at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A record of a switch, as the programs write it.
    fn switch(at_ns: u64, from: u32, to: u32) -> [u64; RECORD_WORDS] {
        [at_ns, u64::from(to) << 32 | 13, u64::from(from), 0]
    }

    fn wakeup(at_ns: u64) -> [u64; RECORD_WORDS] {
        [at_ns, 7 << 32 | 14, 0, 0]
    }

    /// The threads that the core was switched to, in the window from 1,000 to 2,000, by the last records of a log.
    fn threads(records: &[[u64; RECORD_WORDS]], overwritten: usize) -> Option<Vec<u32>> {
        let indices = overwritten..overwritten + records.len();
        let record = |index| records[index - overwritten];
        let kept = Kept { indices, record, is_whole: || overwritten == 0, thread: Some(9) };
        let events = kept.window(0, 1_000..2_000)?;
        let to = |event: &Event| match event.what {
            EventKind::Switch { to, .. } => Some(to),
            _ => None,
        };
        Some(events.iter().filter_map(to).collect())
    }

    #[test]
    fn the_last_switch_before_the_window_is_kept() {
        let records = [switch(500, 1, 2), switch(700, 2, 3), switch(1_500, 3, 4), wakeup(1_800)];
        assert_eq!(threads(&records, 0), Some(vec![3, 4]));
        assert_eq!(threads(&records, 100), Some(vec![3, 4]));
    }

    /// The thread that has the core while the log is read had no part in it.
    #[test]
    fn nothing_is_known_of_what_is_overwritten() {
        let records = [switch(1_500, 3, 4), switch(2_500, 4, 9)];
        assert_eq!(threads(&records, 100), None);
        assert_eq!(threads(&[switch(2_500, 4, 9)], 100), None);
        assert_eq!(threads(&[], 100), None);
    }

    #[test]
    fn without_a_switch_the_next_one_names_the_thread() {
        let records = [wakeup(800), wakeup(1_500), switch(2_500, 4, 5), switch(2_700, 5, 9)];
        assert_eq!(threads(&records, 100), Some(vec![4]));
        assert_eq!(threads(&records[..2], 100), Some(vec![9]));
        assert_eq!(threads(&[], 0), Some(vec![9]));
    }

    #[test]
    fn an_idle_core_is_known() {
        let records = [wakeup(800), wakeup(1_500), switch(2_500, 0, 5)];
        assert_eq!(threads(&records, 100), Some(vec![0]));
    }

    /// The log goes back far enough when it is looked at, and not when its oldest records are read.
    #[test]
    fn records_that_are_overwritten_meanwhile_are_missed() {
        let records = [wakeup(800), switch(1_200, 2, 3), wakeup(1_500), wakeup(1_600)];
        let reads = Cell::new(0);
        let window = |lasts: usize| {
            reads.set(0);
            let record = |index: usize| {
                reads.set(reads.get() + 1);
                if reads.get() > lasts && index < 102 {
                    wakeup(9_000)
                } else {
                    records[index - 100]
                }
            };
            let kept = Kept { indices: 100..104, record, is_whole: || false, thread: Some(9) };
            kept.window(0, 1_000..2_000).map(|events| events.len())
        };
        assert_eq!(window(100), Some(3));
        assert_eq!(window(2), None);
    }

    /// Overwritten behind a record that shows that all of the window was there.
    #[test]
    fn a_later_switch_in_an_overwritten_place_names_no_thread() {
        let records = [switch(9_000, 7, 8), wakeup(900), wakeup(1_500), switch(2_500, 4, 5)];
        assert_eq!(threads(&records, 100), Some(vec![4]));
    }
}
