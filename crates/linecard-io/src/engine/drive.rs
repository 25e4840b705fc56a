//! Threads, each of which runs a task until it has ended.

use super::busy::Busy;
use super::idle::{Idle, Idler, PollHint, Wakeup};
use super::scheduling::{Class, Scheduling};
use crate::placement;
use linecard::pipeline::{NoMeter, Pipeline, Turn};
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::time::Instant;
use std::any::Any;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as Clock};

/// The default of [`Engine::with_grace`].
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How much longer than it has to a thread may sleep, so that timers fire together: a twentieth of its
/// shortest sleep. The system's default is as long as that sleep.
const TIMER_SLACK_NS: u64 = 2_500;

/// A task that a thread runs: `run_once(now)` is the only loop body.
pub trait Task {
    /// Runs one turn.
    fn run_once(&mut self, now: Instant) -> Turn;

    /// When the next turn is needed even if no packet arrives.
    fn next_wakeup(&self) -> Option<Instant>;

    /// Stops input; held packets leave in the next turns.
    fn stop(&mut self);

    /// Whether packets wait for room.
    fn is_blocked(&self) -> bool;

    /// Descriptors, besides rings, that become readable when there is work. Called once.
    fn descriptors(&self) -> Vec<OwnedFd> {
        Vec::new()
    }
}

impl<B, S: Port<B>, T: Stage<B>, K: Port<B>> Task for Pipeline<B, S, T, K> {
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

/// Why a thread returned no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It could not be started.
    #[error("thread {name} could not be started: {error}")]
    Start {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// It could not be pinned to its core.
    #[error("thread {name} cannot be pinned to core {core}: {error}")]
    Pin {
        /// Its name.
        name: String,
        /// The core.
        core: usize,
        /// The system's error.
        error: io::Error,
    },
    /// It is not permitted to run in real time.
    #[error(
        "thread {name} cannot have real-time scheduling: {error}; run as root, grant cap_sys_nice, \
         or choose normal scheduling"
    )]
    Schedule {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// It panicked: a bug. Packets that it held are lost; the other threads continue.
    #[error("thread {name} panicked: {message}; please report this")]
    Panicked {
        /// Its name.
        name: String,
        /// The panic message.
        message: String,
    },
}

/// Name, core and idle policy of a thread.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its name, of which the system shows at most 15 bytes.
    pub name: String,
    /// The core that it is pinned to; none to run anywhere.
    pub core: Option<usize>,
    /// Its idle policy.
    pub idle: Idle,
    /// Whether [`Engine::stop`] stops its task. Tasks fed by rings end with those.
    pub stops: bool,
}

/// Stops all threads of an engine.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Stops all tasks: held packets leave, then the threads end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the engine was stopped.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Threads that run until their tasks have ended.
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
    stop: StopHandle,
    /// Time zero of all threads.
    epoch: Clock,
    /// The scheduling class of threads that are started.
    scheduling: Scheduling,
    /// See [`Engine::with_grace`].
    grace: Duration,
}

impl<R: Send + 'static> Default for Engine<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Send + 'static> Engine<R> {
    /// An engine without threads. Its clock starts now.
    #[must_use]
    pub fn new() -> Self {
        let (stop, epoch) = (StopHandle::default(), Clock::now());
        let scheduling = Scheduling::Normal;
        Self { threads: Vec::new(), stop, epoch, scheduling, grace: GRACE }
    }

    /// Starts threads in this scheduling class.
    #[must_use]
    pub fn with_scheduling(self, scheduling: Scheduling) -> Self {
        Self { scheduling, ..self }
    }

    /// Gives tasks of threads that are started this time after [`Engine::stop`]: one that moves no
    /// packet for so long drops those that it holds, as its receiver has stopped reading. Default: one
    /// second. Longer where the processor may be taken from a thread for that time.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Starts a thread, which creates its task itself by `make`, so that tasks need not be `Send`.
    /// The thread's result is that of `finish`, called with the ended task, or with none if `make`
    /// returned none.
    ///
    /// # Errors
    ///
    /// If the system cannot create a thread. Failure to pin it, or to have it run in real time, is
    /// part of its result.
    pub fn spawn<P: Task>(
        &mut self,
        thread: Thread,
        make: impl FnOnce() -> Option<P> + Send + 'static,
        finish: impl FnOnce(Option<P>) -> R + Send + 'static,
    ) -> Result<(), Failure> {
        let wakeup = wakeup(&thread.name, thread.idle)?;
        self.spawn_with_wakeup(thread, wakeup, make, finish)
    }

    /// The same, with a wakeup for the thread.
    pub(super) fn spawn_with_wakeup<P: Task>(
        &mut self,
        thread: Thread,
        wakeup: Wakeup,
        make: impl FnOnce() -> Option<P> + Send + 'static,
        finish: impl FnOnce(Option<P>) -> R + Send + 'static,
    ) -> Result<(), Failure> {
        let (stop, epoch, name) = (self.stop.clone(), self.epoch, thread.name.clone());
        let (scheduling, grace) = (self.scheduling, self.grace);
        let run = move || {
            pin(&thread)?;
            let class = schedule(&thread.name, scheduling)?;
            // If the system refuses, sleeps are up to 50 µs longer.
            let _slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
            let Some(body) = make() else { return Ok(finish(None)) };
            let idler = Idler::new(thread.idle, wakeup, body.descriptors());
            let idler = idler.with_busy(Busy::new(class, &thread.name));
            let stop = if thread.stops { stop } else { StopHandle::default() };
            Ok(finish(Some(drive(body, idler, &stop, epoch, grace))))
        };
        match thread::Builder::new().name(name.clone()).spawn(run) {
            Ok(handle) => self.threads.push((name, handle)),
            Err(error) => return Err(Failure::Start { name, error }),
        }
        Ok(())
    }

    /// Stops all tasks: held packets leave, then the threads end. A task whose packets are not
    /// accepted for the time of [`Engine::with_grace`] drops them.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// A handle by which another thread can stop the engine.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The current time of its threads.
    #[must_use]
    pub fn now(&self) -> Instant {
        now(self.epoch)
    }

    /// Whether any thread has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(|(_, handle)| handle.is_finished())
    }

    /// Waits for all threads; returns their results in the order in which they were started.
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

/// The wakeup of a thread.
pub(super) fn wakeup(name: &str, idle: Idle) -> Result<Wakeup, Failure> {
    Wakeup::new(idle).map_err(|error| Failure::Start { name: name.to_owned(), error })
}

fn now(epoch: Clock) -> Instant {
    Instant::ZERO.plus_ns(linecard::time::ns(epoch.elapsed()))
}

fn drive<P: Task>(
    mut body: P,
    mut idler: Idler,
    stop: &StopHandle,
    epoch: Clock,
    grace: Duration,
) -> P {
    let mut given_up = None;
    loop {
        let at = now(epoch);
        if given_up.is_none() && stop.is_stopping() {
            body.stop();
            given_up = Some(at.plus(grace));
        }
        let turn = body.run_once(at);
        let is_stuck = turn.moved == 0 && given_up.is_some_and(|given_up| at >= given_up);
        if turn.ended || is_stuck {
            return body;
        }
        let next = PollHint { now: at, wakeup: body.next_wakeup(), is_blocked: body.is_blocked() };
        let mut last = turn;
        idler.after(turn, next, || {
            last = body.run_once(now(epoch));
            last.moved == 0 && !last.ended
        });
        if last.ended {
            return body;
        }
        if last.moved > 0 {
            given_up = given_up.map(|_| now(epoch).plus(grace));
        }
    }
}

fn pin(thread: &Thread) -> Result<(), Failure> {
    let Some(core) = thread.core else { return Ok(()) };
    let pinned = placement::pin(core).map(drop);
    pinned.map_err(|error| Failure::Pin { name: thread.name.clone(), core, error })
}

/// Gives the calling thread its scheduling class.
fn schedule(name: &str, scheduling: Scheduling) -> Result<Class, Failure> {
    let result = scheduling.enter();
    result.map_err(|error| Failure::Schedule { name: name.to_owned(), error })
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
