//! The cost of recording one event, measured on this host.
//!
//! A thread on one core makes a cheap system call that passes a tracepoint: it sets its own name
//! (`task:task_rename`). The cost is the time by which a call takes longer while events are
//! recorded. Recording methods alternate in rounds, each next to unrecorded calls, so that changes
//! of the host affect all of them. Results are medians over rounds, and a round's result is the
//! median of short runs, which excludes interrupted runs.

use super::TraceBackend;
use super::bpf::Recorder;
use super::program::Program;
use super::tracefs::{Folder, Instance, TracefsError};
use crate::linux::sys::perf::{Counter, Sampler};
use linecard_io::sys::tracing;
use rustix::thread::{CpuSet, sched_setaffinity, set_name};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The tracepoint, and its group in tracefs.
const TRACEPOINT: &std::ffi::CStr = c"task_rename";
const FOLDER: &str = "events/task/task_rename";
/// Calls per run: a quarter of a millisecond.
const CALLS: usize = 500;
/// Runs per round.
const RUNS: usize = 15;
/// Number of rounds.
const ROUNDS: usize = 15;
/// Number of rounds of a quick measurement.
const FEW: usize = 3;
/// Size of the tracefs buffer in kilobytes, and of the others in bytes.
const KILOBYTES: usize = 1_024;
const RING_BYTES: u32 = 1 << 20;
/// Pages of the ring of sampled events: enough for four runs.
const SAMPLE_PAGES: usize = 64;

/// A method of recording events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// BPF into a log per core, as this crate does it.
    Log,
    /// BPF into the kernel's own ring buffer (`BPF_MAP_TYPE_RINGBUF`), for comparison.
    Ring,
    /// An instance of tracefs.
    Tracefs,
    /// Sampled by `perf_event_open`, for comparison.
    Perf,
    /// Not recorded, but counted by `perf_event_open`.
    Counter,
}

impl Recording {
    /// All methods.
    pub const ALL: [Self; 5] = [Self::Log, Self::Ring, Self::Tracefs, Self::Perf, Self::Counter];

    /// Name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Log => "BPF, a log of each core",
            Self::Ring => "BPF, the kernel's ring buffer",
            Self::Tracefs => "tracefs",
            Self::Perf => "perf, sampled",
            Self::Counter => "perf, counted only",
        }
    }

    /// Name for JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "bpf",
            Self::Ring => "bpf_ringbuf",
            Self::Tracefs => "tracefs",
            Self::Perf => "perf",
            Self::Counter => "perf_counter",
        }
    }
}

/// Why the cost of a method is not known.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// A system call failed.
    #[error("it is refused: {0}")]
    Refused(#[from] io::Error),
    /// The BPF log cannot be used.
    #[error(transparent)]
    Bpf(#[from] super::BpfError),
    /// Tracefs cannot be used.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Recording started, but recorded too little.
    #[error("it recorded {recorded} of {calls} events")]
    Silent {
        /// Recorded events.
        recorded: u64,
        /// Calls made.
        calls: u64,
    },
    /// The measuring thread failed.
    #[error("the measuring thread has failed, which is a bug")]
    Thread,
}

/// Cost of one event with each method.
#[derive(Debug)]
pub struct Costs {
    /// The core of the measurement.
    pub core: u16,
    /// Number of rounds.
    pub rounds: usize,
    /// Calls per round and method.
    pub calls: usize,
    /// Duration of an unrecorded call in nanoseconds.
    pub call_ns: f64,
    /// Cost per event in nanoseconds with each method, or why it is not known.
    pub of: Vec<(Recording, Result<f64, CostError>)>,
}

/// Measures all methods, for one to five seconds.
///
/// ```no_run
/// let costs = linecard_jitter::linux::trace::cost::measure(0)?;
/// for (recording, ns) in &costs.of {
///     println!("{}: {ns:?} ns for an event", recording.name());
/// }
/// # Ok::<(), linecard_jitter::linux::trace::cost::CostError>(())
/// ```
///
/// # Errors
///
/// This process may not run on that core.
pub fn measure(core: u16) -> Result<Costs, CostError> {
    on_core(core, || of_rounds(core, &Recording::ALL, ROUNDS))?
}

/// Quickly measures the cost of a trace backend, usually within 60 ms: nanoseconds per event.
///
/// # Errors
///
/// See [`CostError`].
pub fn quick(means: TraceBackend, core: u16) -> Result<f64, CostError> {
    let recording =
        if means == TraceBackend::Tracefs { Recording::Tracefs } else { Recording::Log };
    let costs = on_core(core, || of_rounds(core, &[recording], FEW))??;
    costs.of.into_iter().next().map_or(Err(CostError::Thread), |(_, cost)| cost)
}

/// Runs `work` on a separate thread, because it changes the thread's name and core.
fn on_core<T: Send>(core: u16, work: impl FnOnce() -> T + Send) -> Result<T, CostError> {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(move || {
            let mut set = CpuSet::new();
            set.set(core.into());
            sched_setaffinity(None, &set).map_err(io::Error::from)?;
            Ok(work())
        });
        pinned.join().map_err(|_| CostError::Thread)?
    })
}

fn of_rounds(core: u16, recordings: &[Recording], rounds: usize) -> Result<Costs, CostError> {
    let mut plain = Vec::new();
    let mut found: Vec<Result<Vec<f64>, CostError>> =
        recordings.iter().map(|_| Ok(Vec::new())).collect();
    runs(&|| {})?;
    for _ in 0..rounds {
        for (recording, found) in recordings.iter().zip(&mut found) {
            let Ok(costs) = found else { continue };
            match beside(*recording, core) {
                Ok((plain_ns, recorded_ns)) => {
                    plain.push(plain_ns);
                    costs.push(recorded_ns - plain_ns);
                }
                Err(error) => *found = Err(error),
            }
        }
    }
    let of = recordings.iter().zip(found);
    let of = of.map(|(recording, costs)| (*recording, costs.map(median))).collect();
    Ok(Costs { core, rounds, calls: CALLS * RUNS, call_ns: median(plain), of })
}

/// Duration of an unrecorded call, as the mean of before and after, and of a recorded one.
fn beside(recording: Recording, core: u16) -> Result<(f64, f64), CostError> {
    let before = runs(&|| {})?;
    let attached = Attached::begin(recording, core)?;
    let recorded_ns = runs(&|| attached.clear())?;
    let (recorded, calls) = (attached.recorded(core)?, (CALLS * RUNS) as u64);
    drop(attached);
    if recorded < calls {
        return Err(CostError::Silent { recorded, calls });
    }
    let after = runs(&|| {})?;
    Ok(((before + after) / 2.0, recorded_ns))
}

/// Duration of a call in nanoseconds, the median of the runs; calls `between` after each run.
fn runs(between: &dyn Fn()) -> Result<f64, CostError> {
    let mut found = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begin = Instant::now();
        for _ in 0..CALLS {
            set_name(c"linecard").map_err(io::Error::from)?;
        }
        found.push(begin.elapsed().as_nanos() as f64 / CALLS as f64);
        between();
    }
    Ok(median(found))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// An active recording; dropping it ends it.
enum Attached {
    Log(Recorder),
    Ring { _link: OwnedFd, program: OwnedFd, _ring: OwnedFd },
    Tracefs(Instance),
    Perf(Sampler),
    Counter(RefCell<Counter>),
}

impl Attached {
    fn begin(recording: Recording, core: u16) -> Result<Self, CostError> {
        Ok(match recording {
            Recording::Log => {
                let mut recorder = Recorder::empty(&[core], CALLS * RUNS)?;
                let program = Program::new().record(1, recorder.log());
                recorder.add(TRACEPOINT, &program)?;
                Self::Log(recorder)
            }
            Recording::Ring => {
                let ring = tracing::ring(RING_BYTES)?;
                let program = tracing::load(&Program::new().output(1, ring.as_fd()))?;
                let link = tracing::attach(TRACEPOINT, program.as_fd())?;
                Self::Ring { _link: link, program, _ring: ring }
            }
            Recording::Tracefs => {
                let instance = Instance::new()?;
                instance.prepare(&[core], KILOBYTES)?;
                instance.write(&format!("{FOLDER}/enable"), "1")?;
                instance.write("tracing_on", "1")?;
                Self::Tracefs(instance)
            }
            Recording::Counter => {
                let id = tracepoint(&Folder::open()?, FOLDER)?;
                Self::Counter(RefCell::new(Counter::open(id, core)?))
            }
            Recording::Perf => {
                let id = tracepoint(&Folder::open()?, FOLDER)?;
                Self::Perf(Sampler::open(id, core, SAMPLE_PAGES)?)
            }
        })
    }

    /// Empties the buffer: a full one records nothing, which is cheaper.
    fn clear(&self) {
        if let Self::Perf(sampler) = self {
            sampler.drain();
        }
    }

    /// Minimum number of events so far.
    fn recorded(&self, core: u16) -> Result<u64, CostError> {
        Ok(match self {
            Self::Log(recorder) => recorder.recorded(),
            // The ring holds all; misses of the program are counted.
            Self::Ring { program, .. } => match tracing::misses(program.as_fd())? {
                0 => (CALLS * RUNS) as u64,
                _ => 0,
            },
            Self::Tracefs(instance) => instance.recorded(core)?,
            // Minimum length of a sample: header, thread, time, core, data.
            Self::Perf(sampler) => sampler.drain() / 40,
            Self::Counter(counter) => counter.borrow_mut().count()?,
        })
    }
}

/// The id of a tracepoint for `perf_event_open`.
pub(super) fn tracepoint(folder: &Folder, name: &str) -> Result<u64, TracefsError> {
    let file = format!("{name}/id");
    let id = folder.read(&file)?.trim().parse().ok();
    id.ok_or(TracefsError::Malformed { name: file, what: "number" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert!(median(vec![]).is_nan());
    }

    /// No figure is asserted on: others use this machine. That all is recorded is checked above.
    #[test]
    fn each_means_has_a_cost_or_a_reason() {
        let core = crate::linux::session::CoreAssignment::of_this_host().sink;
        let costs = on_core(core, || of_rounds(core, &Recording::ALL, 1));
        let costs = costs.and_then(|costs| costs).expect("a core that this process may use");
        assert!(costs.call_ns > 0.0);
        for (recording, cost) in &costs.of {
            match cost {
                Ok(ns) => assert!(ns.is_finite(), "{recording:?}"),
                Err(error) => linecard_testkit::skip(recording.name(), error),
            }
        }
        if rustix::process::geteuid().is_root() && costs.of.iter().all(|(_, cost)| cost.is_err()) {
            panic!("root may trace by some means: {costs:?}");
        }
    }
}
