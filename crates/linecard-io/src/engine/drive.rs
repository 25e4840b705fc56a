//! Threads, each with a body that it drives until that has ended.

use super::idle::{Bell, Idle, Idler, Outlook};
use linecard::pipeline::{NoMeter, Pipeline, Turn};
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::time::Instant;
use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as Clock};

/// How long a body that was asked to stop may move nothing before it has delivered what it has: who
/// takes nothing for so long has stopped reading.
const GRACE: Duration = Duration::from_secs(1);

/// What a thread drives: `run_once(now)` is the only loop body.
pub trait Body {
    /// One turn.
    fn run_once(&mut self, now: Instant) -> Turn;

    /// When it wants the next turn even if nothing comes.
    fn next_wakeup(&self) -> Option<Instant>;

    /// No more input is to be taken; what is held goes out in the next turns.
    fn stop(&mut self);

    /// Whether something waits for room.
    fn is_blocked(&self) -> bool;

    /// What can be read when it has something to do, besides rings. Asked for once.
    fn descriptors(&self) -> Vec<OwnedFd> {
        Vec::new()
    }
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

    fn is_blocked(&self) -> bool {
        Self::is_blocked(self)
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

/// Asks all threads of an engine to stop.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// All bodies are asked to stop: what they hold goes out, then they end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they were asked to.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Threads that run until their bodies have ended.
///
/// ```
/// use linecard::pipeline::Pipeline;
/// use linecard::port::link;
/// use linecard::stages::Forward;
/// use linecard_io::engine::{Engine, Idle, Thread};
///
/// let mut engine = Engine::new();
/// let thread = Thread { name: "worker 0".into(), core: None, idle: Idle::Yield, stops: true };
/// engine.spawn(
///     thread,
///     || {
///         let (source, _) = link::<Vec<u8>>(64);
///         let (sink, _) = link(64);
///         Some(Pipeline::new(source, Forward::default(), sink))
///     },
///     |pipeline| pipeline.map(|pipeline| pipeline.stage.packets),
/// )?;
/// engine.stop();
/// assert!(engine.join().into_iter().all(|packets| packets.is_ok_and(|packets| packets == Some(0))));
/// # Ok::<(), linecard_io::engine::Failure>(())
/// ```
#[derive(Debug)]
pub struct Engine<R> {
    threads: Vec<(String, JoinHandle<Result<R, Failure>>)>,
    stop: Stopper,
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
        Self { threads: Vec::new(), stop: Stopper::default(), epoch: Clock::now() }
    }

    /// Starts a thread, which makes its body itself: so that what a body holds need not move between
    /// threads. What `finish` makes of the ended body is the result; none where `make` has given
    /// none.
    ///
    /// # Errors
    ///
    /// When the system gives no thread. That it cannot be pinned is its result.
    pub fn spawn<P: Body>(
        &mut self,
        thread: Thread,
        make: impl FnOnce() -> Option<P> + Send + 'static,
        finish: impl FnOnce(Option<P>) -> R + Send + 'static,
    ) -> Result<(), Failure> {
        let bell = bell(&thread.name, thread.idle)?;
        self.spawn_belled(thread, bell, make, finish)
    }

    /// The same, where this bell wakes the thread up.
    pub(super) fn spawn_belled<P: Body>(
        &mut self,
        thread: Thread,
        bell: Bell,
        make: impl FnOnce() -> Option<P> + Send + 'static,
        finish: impl FnOnce(Option<P>) -> R + Send + 'static,
    ) -> Result<(), Failure> {
        let (stop, epoch, name) = (self.stop.clone(), self.epoch, thread.name.clone());
        let run = move || {
            pin(&thread)?;
            let Some(body) = make() else { return Ok(finish(None)) };
            let idler = Idler::new(thread.idle, bell, body.descriptors());
            let stop = if thread.stops { stop } else { Stopper::default() };
            Ok(finish(Some(drive(body, idler, &stop, epoch))))
        };
        match thread::Builder::new().name(name.clone()).spawn(run) {
            Ok(handle) => self.threads.push((name, handle)),
            Err(error) => return Err(Failure::Start { name, error }),
        }
        Ok(())
    }

    /// Asks all bodies to stop: what they hold goes out, then they end. A body whose packets nobody
    /// takes for a second ends with them.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// By which somebody else can stop it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// The time that its threads have now.
    #[must_use]
    pub fn now(&self) -> Instant {
        now(self.epoch)
    }

    /// Whether some thread has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.threads.iter().any(|(_, handle)| !handle.is_finished())
    }

    /// Whether some thread has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(|(_, handle)| handle.is_finished())
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

/// The bell of a thread.
pub(super) fn bell(name: &str, idle: Idle) -> Result<Bell, Failure> {
    Bell::new(idle).map_err(|error| Failure::Start { name: name.to_owned(), error })
}

fn now(epoch: Clock) -> Instant {
    Instant::ZERO.plus_ns(linecard::time::ns(epoch.elapsed()))
}

fn drive<P: Body>(mut body: P, mut idler: Idler, stop: &Stopper, epoch: Clock) -> P {
    let mut given_up = None;
    loop {
        let at = now(epoch);
        if given_up.is_none() && stop.is_stopping() {
            body.stop();
            given_up = Some(at.plus(GRACE));
        }
        let turn = body.run_once(at);
        let is_stuck = turn.moved == 0 && given_up.is_some_and(|given_up| at >= given_up);
        if turn.ended || is_stuck {
            return body;
        }
        let next = Outlook { now: at, wakeup: body.next_wakeup(), is_blocked: body.is_blocked() };
        let mut last = turn;
        idler.after(turn.moved, next, || {
            last = body.run_once(now(epoch));
            last.moved == 0 && !last.ended
        });
        if last.ended {
            return body;
        }
        if last.moved > 0 {
            given_up = given_up.map(|_| now(epoch).plus(GRACE));
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
