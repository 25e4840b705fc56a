//! Threads, each with a body that it drives until that has ended.

use super::idle::{Bell, Idle, Idler};
use linecard::pipeline::{NoMeter, Pipeline, Turn};
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::time::Instant;
use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant as Clock;

/// What a thread drives: `run_once(now)` is the only loop body.
pub trait Body {
    /// One turn.
    fn run_once(&mut self, now: Instant) -> Turn;

    /// When it wants the next turn even if nothing comes.
    fn next_wakeup(&self) -> Option<Instant>;

    /// No more input is to be taken; what is held goes out in the next turns.
    fn stop(&mut self);
}

impl<B, S: Port<B>, T: Stage<B>, K: Port<B>> Body for Pipeline<B, S, T, K> {
    fn run_once(&mut self, now: Instant) -> Turn {
        Self::run_once(self, now, &mut NoMeter)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        Self::next_wakeup(self)
    }

    fn stop(&mut self) {
        Self::stop(self);
    }
}

/// Why a thread gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It could not be started.
    #[error("thread {name} could not be started: {error}")]
    Start {
        /// Its name.
        name: String,
        /// What the system says.
        error: io::Error,
    },
    /// It may not run where it was to.
    #[error(
        "thread {name} cannot be pinned to core {core}: {error}; choose one of those that this \
         process may use (nproc)"
    )]
    Pin {
        /// Its name.
        name: String,
        /// The core.
        core: usize,
        /// What the system says.
        error: io::Error,
    },
    /// It panicked: a bug. What it held is lost, the others went on.
    #[error("thread {name} panicked: {message}; please report this")]
    Panicked {
        /// Its name.
        name: String,
        /// What it said.
        message: String,
    },
}

/// How a thread runs.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its name, at most 15 bytes of which the system shows.
    pub name: String,
    /// The core it is pinned to; none to run anywhere.
    pub core: Option<usize>,
    /// What it does when there is nothing to do.
    pub idle: Idle,
    /// Whether [`Engine::stop`] stops its body. Bodies behind rings end with those.
    pub stops: bool,
}

/// Threads that run until their bodies have ended.
///
/// ```
/// use linecard::pipeline::Pipeline;
/// use linecard::port::link;
/// use linecard::stages::Forward;
/// use linecard_host::engine::{Engine, Idle, Thread};
///
/// let mut engine = Engine::new();
/// let thread = Thread { name: "worker 0".into(), core: None, idle: Idle::Yield, stops: true };
/// engine.spawn(
///     thread,
///     || {
///         let (source, _) = link::<Vec<u8>>(64);
///         let (sink, _) = link(64);
///         Pipeline::new(source, Forward::default(), sink)
///     },
///     |pipeline| pipeline.stage.packets,
/// )?;
/// engine.stop();
/// assert!(engine.join().into_iter().all(|packets| packets.is_ok_and(|packets| packets == 0)));
/// # Ok::<(), linecard_host::engine::Failure>(())
/// ```
#[derive(Debug)]
pub struct Engine<R> {
    threads: Vec<(String, JoinHandle<Result<R, Failure>>)>,
    stop: Arc<AtomicBool>,
    /// The time zero of all threads.
    epoch: Clock,
}

impl<R: Send + 'static> Default for Engine<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Send + 'static> Engine<R> {
    /// An engine without threads. Its time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { threads: Vec::new(), stop: Arc::default(), epoch: Clock::now() }
    }

    /// Starts a thread, which makes its body itself: so that what a body holds need not move between
    /// threads. What `finish` makes of the ended body is the result.
    ///
    /// # Errors
    ///
    /// When the system gives no thread. That it cannot be pinned is its result.
    pub fn spawn<P: Body>(
        &mut self,
        thread: Thread,
        make: impl FnOnce() -> P + Send + 'static,
        finish: impl FnOnce(P) -> R + Send + 'static,
    ) -> Result<(), Failure> {
        self.spawn_belled(thread, Bell::default(), make, finish)
    }

    /// The same, where this bell wakes the thread up.
    pub(super) fn spawn_belled<P: Body>(
        &mut self,
        thread: Thread,
        bell: Bell,
        make: impl FnOnce() -> P + Send + 'static,
        finish: impl FnOnce(P) -> R + Send + 'static,
    ) -> Result<(), Failure> {
        let (stop, epoch, name) = (Arc::clone(&self.stop), self.epoch, thread.name.clone());
        let run = move || {
            pin(&thread)?;
            let idler = Idler::new(thread.idle, bell);
            let stop = if thread.stops { stop } else { Arc::default() };
            Ok(finish(drive(make(), idler, &stop, epoch)))
        };
        match thread::Builder::new().name(name.clone()).spawn(run) {
            Ok(handle) => self.threads.push((name, handle)),
            Err(error) => return Err(Failure::Start { name, error }),
        }
        Ok(())
    }

    /// Asks all bodies to stop: what they hold goes out, then they end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether some thread has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.threads.iter().any(|(_, handle)| !handle.is_finished())
    }

    /// Waits for all threads; gives their results in the order in which they were started.
    #[must_use]
    pub fn join(self) -> Vec<Result<R, Failure>> {
        let results = self.threads.into_iter().map(|(name, handle)| {
            handle.join().unwrap_or_else(|panic| {
                Err(Failure::Panicked { name, message: message_of(panic.as_ref()) })
            })
        });
        results.collect()
    }
}

fn drive<P: Body>(mut body: P, mut idler: Idler, stop: &AtomicBool, epoch: Clock) -> P {
    let time =
        || Instant::ZERO.plus_ns(u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut stopped = false;
    loop {
        if !stopped && stop.load(Ordering::Relaxed) {
            body.stop();
            stopped = true;
        }
        let now = time();
        let turn = body.run_once(now);
        if turn.ended {
            return body;
        }
        let timer = (now, body.next_wakeup());
        let mut last = turn;
        idler.after(turn.moved, timer, || {
            last = body.run_once(time());
            last.moved == 0 && !last.ended
        });
        if last.ended {
            return body;
        }
    }
}

fn pin(thread: &Thread) -> Result<(), Failure> {
    let Some(core) = thread.core else { return Ok(()) };
    let mut cores = rustix::thread::CpuSet::new();
    let result = if core < rustix::thread::CpuSet::MAX_CPU {
        cores.set(core);
        rustix::thread::sched_setaffinity(None, &cores).map_err(io::Error::from)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    };
    result.map_err(|error| Failure::Pin { name: thread.name.clone(), core, error })
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
