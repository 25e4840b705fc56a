//! Causes of late packets while the trace goes on: the events around a packet are read from the logs soon after it came,
//! before new ones overwrite them. Nothing else is read, so that a trace can run for days.

use super::bpf::Recorder;
use super::names::{self, Functions};
use super::program::RECORD_WORDS;
use super::{TraceError, TraceTarget, within};
use crate::ledger::{LatePacket, Spike};
use crate::trace::{Names, PinnedThread};
use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

/// Events of a core that are kept, if all logs together stay below [`MAX_BYTES`]: at 500,000 events per second, those of
/// the last 130 ms.
const EVENTS: usize = 1 << 16;
const MAX_BYTES: usize = 64 << 20;
/// Cores whose logs have some ten thousand events then.
const MAX_CORES: usize = 256;
/// Streams, as many as the programs compare.
const MAX_STREAMS: usize = 64;
/// Events of this time before a packet was due are read, too: what had begun by then.
const BEFORE_NS: u64 = 2_000_000;
/// Packets that wait to be examined.
const WAITING: usize = 64;
/// On average one packet of this time is examined, which takes about a millisecond …
const EVERY_NS: u64 = 4_000_000;
/// … and after a quiet time, as many at once as this has.
const BURST_NS: u64 = 250_000_000;

/// A trace by BPF without an end, of which the latest events are kept.
#[derive(Debug)]
pub struct FlightRecorder {
    recorder: Recorder,
    functions: Functions,
    reader: PinnedThread,
}

impl FlightRecorder {
    /// Starts recording on all cores. `reader` is the thread that receives the streams; its core is used where the trace
    /// does not show it.
    ///
    /// # Errors
    ///
    /// See [`TraceError`]; nothing is left behind.
    pub fn start(target: &TraceTarget, reader: PinnedThread) -> Result<Self, TraceError> {
        let cores = cores();
        within("cores", cores.len(), MAX_CORES)?;
        within("streams", target.sockets.len(), MAX_STREAMS)?;
        let each = MAX_BYTES / (8 * RECORD_WORDS) / cores.len();
        let recorder = Recorder::endless(target, &cores, EVENTS.min(1 << each.ilog2()))?;
        Ok(Self { recorder, functions: Functions::default(), reader })
    }

    /// Starts recording a stream that does not come, and ends it.
    ///
    /// # Errors
    ///
    /// Nothing can be recorded: see [`TraceError`].
    pub fn check() -> Result<(), TraceError> {
        let any = TraceTarget { ports: [vec![9], Vec::new()], ..TraceTarget::default() };
        Self::start(&any, PinnedThread { thread: 0, core: 0 }).map(drop)
    }

    /// Tracepoints that this kernel lacks; causes that they would show are not named.
    #[must_use]
    pub fn absent(&self) -> &[&'static str] {
        self.recorder.absent()
    }

    /// Where a packet's delay went, as far as its events are still kept.
    pub fn examine(&mut self, late: &LatePacket) -> (Spike, Names) {
        let mut trace = self.recorder.window(late.due_ns.saturating_sub(BEFORE_NS), late.read_ns);
        trace.sink = Some(self.reader);
        trace.sort();
        names::collect(&mut trace, &mut self.functions);
        let names = trace.names.clone();
        (Spike::of_late(trace, late), names)
    }
}

/// All cores that the host can have.
fn cores() -> Vec<u16> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok());
    (0..=last.unwrap_or(0)).collect()
}

/// A thread that examines late packets: a bounded number of them, and never the thread that receives. `T` goes with a
/// packet, and `R` is the conclusion.
#[derive(Debug)]
pub struct Examiner<T, R> {
    requests: SyncSender<(T, LatePacket)>,
    results: Receiver<R>,
    free_ns: u64,
}

impl<T: Send + 'static, R: Send + 'static> Examiner<T, R> {
    /// Starts the thread, which inherits core and priority of the calling one.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn start(
        mut recorder: FlightRecorder,
        mut conclude: impl FnMut(T, &Spike, &Names) -> R + Send + 'static,
    ) -> io::Result<Self> {
        let (requests, taken) = sync_channel::<(T, LatePacket)>(WAITING);
        let (concluded, results) = sync_channel(WAITING);
        let examine = move || {
            for (what, late) in taken {
                let (spike, names) = recorder.examine(&late);
                if concluded.send(conclude(what, &spike, &names)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("linecard-causes".to_owned()).spawn(examine)?;
        Ok(Self { requests, results, free_ns: 0 })
    }

    /// Has a packet examined, unless too many were before; those that `matters` are only refused while others wait.
    ///
    /// # Errors
    ///
    /// Its companion, back.
    pub fn ask(&mut self, what: T, late: LatePacket, matters: bool) -> Result<(), T> {
        let free_ns = self.free_ns.max(late.read_ns.saturating_sub(BURST_NS));
        if free_ns > late.read_ns && !matters {
            return Err(what);
        }
        let read_ns = late.read_ns;
        self.requests.try_send((what, late)).map_err(|refused| match refused {
            TrySendError::Full((what, _)) | TrySendError::Disconnected((what, _)) => what,
        })?;
        // However many matter, others have their turn soon.
        self.free_ns = (free_ns + EVERY_NS).min(read_ns.saturating_add(BURST_NS));
        Ok(())
    }

    /// Conclusions since the last call.
    pub fn concluded(&self) -> impl Iterator<Item = R> + '_ {
        self.results.try_iter()
    }

    /// The rest, once all packets that wait are examined.
    pub fn finish(self) -> impl Iterator<Item = R> {
        drop(self.requests);
        self.results.into_iter()
    }
}
