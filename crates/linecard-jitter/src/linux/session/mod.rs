//! One measurement: a stream over a virtual cable between two namespaces, or over the loopback
//! interface, received under given conditions and traced.
//!
//! On the host, a measurement changes only what ends with this process: namespaces, which the lab
//! removes, a file that is held open, and the process's own threads. Settings of the cable belong
//! to its namespace.

mod booted;
mod conditions;
mod network;

pub use booted::booted;
pub use conditions::{Conditions, CoreAssignment, Receive, UnknownPlace};
pub use network::{RemoteNetwork, TestNetwork};

use crate::linux::clock::Wait;
use crate::linux::generator::{Departures, GeneratorConfig, GeneratorError};
use crate::linux::journal::JournalError;
use crate::linux::remote::RemoteError;
use crate::linux::sink::{Received, Sink, SinkConfig, SinkError};
use crate::linux::toggle::NoSleep;
use crate::linux::trace::cost::quick;
use crate::linux::trace::{
    PacketCounters, TraceBackend, TraceError, TraceTarget, Tracer, this_thread,
};
use crate::stream::Measured;
use crate::stream::clocks::{ClockLine, line_of};
use crate::trace::{Event, EventKind, Joined, Trace};
use linecard_io::lab::LabError;
use linecard_io::placement::Placement;
use network::Source;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Maximum mean number of events that a packet causes on a core; sizes the trace.
const EVENTS_PER_PACKET: usize = 12;
/// Additional room for other events, per second.
const EVENTS_PER_SECOND: usize = 100_000;
/// Packets of a trial, trials at most, and how near a cycle has to come, as a share.
const TRIAL: u64 = 20_000;
const MAX_TRIALS: usize = 6;
const CLOSE: f64 = 0.015;
/// Longest wait for a thread to be on its core.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for late packets to arrive.
const GRACE: Duration = Duration::from_millis(20);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The namespaces cannot be created.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The stream cannot be sent.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// The stream cannot be received.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The conditions need a cable, and the network is the loopback interface.
    #[error(
        "over the loopback interface, packets are processed on the sender's core only: a cable is \
         needed, which takes root"
    )]
    Loopback,
    /// The sender on another host does not send.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A setting of the interface cannot be changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The conditions need the interface that the stream arrives at.
    #[error(
        "where packets are processed cannot be chosen without the interface that they arrive at: name it, \
         as in --sink-address 192.0.2.1:5004%eth1"
    )]
    Unnamed,
    /// The interface has no interrupts that could be moved.
    #[error("{interface} has no interrupts of its own that can be moved: {why}")]
    NoInterrupts {
        /// The interface.
        interface: String,
        /// The finding.
        why: String,
    },
    /// A thread ended early.
    #[error("a measuring thread has failed, which is a bug")]
    Thread,
    /// The kernel thread that polls cannot be pinned.
    #[error("the kernel's polling thread of {interface} cannot be pinned: {source}")]
    Pin {
        /// The interface.
        interface: String,
        /// The system's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot prepare the measurement: {0}")]
    System(#[from] io::Error),
}

/// The result of one measurement.
#[derive(Debug)]
pub struct SessionOutcome {
    /// Conditions of the measurement.
    pub conditions: Conditions,
    /// Times from both ends.
    pub measured: Measured,
    /// Record of the sender.
    pub departures: Departures,
    /// How the sender's clock, by which `departures` is, relates to this host's, by which `measured` is; `None` if both
    /// are one, or if too few packets came to tell.
    pub line: Option<ClockLine>,
    /// Whether the sender has a clock of its own.
    pub has_own_clock: bool,
    /// Counters of the sink; the arrivals are in `measured`.
    pub received: Received,
    /// Events of the kernel, or why they were not traced.
    pub trace: Result<Trace, NotTraced>,
    /// Tracepoints that this kernel lacks.
    pub absent: Vec<&'static str>,
    /// How it was traced: "bpf" or "tracefs".
    pub means: Option<&'static str>,
    /// Cost of recording one event in nanoseconds, measured just after.
    pub cost_ns: Option<f64>,
    /// If requested: how often the traced cores passed `netif_receive_skb` meanwhile, by the
    /// kernel's own counters. They count packets of all streams of this host, so never fewer than
    /// the trace.
    pub counted: Option<u64>,
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum NotTraced {
    /// A trace was not requested.
    #[error("tracing is off, and --trace auto, bpf or tracefs turns it on")]
    NotWanted,
    /// Tracing is not possible.
    #[error(transparent)]
    Impossible(#[from] TraceError),
    /// Packets of another host have no numbers by tracefs.
    #[error(
        "tracefs numbers packets in the order in which they are sent, and the sender is on another \
         host: --trace bpf is needed"
    )]
    Remote,
}

/// Measures one stream.
///
/// ```no_run
/// use linecard_jitter::linux::session::{Conditions, TestNetwork, measure};
/// use std::sync::atomic::AtomicBool;
/// let conditions = Conditions { count: 10_000, ..Conditions::default() };
/// let place = TestNetwork::cable()?;
/// let outcome = measure(&place, &conditions, &AtomicBool::new(false))?;
/// println!("{} packets came", outcome.measured.arrivals.len());
/// # Ok::<(), linecard_jitter::linux::session::SessionError>(())
/// ```
///
/// # Errors
///
/// See [`SessionError`]. A trace that fails is not an error here: the outcome says why there is none.
pub fn measure(
    place: &TestNetwork,
    conditions: &Conditions,
    stop: &AtomicBool,
) -> Result<SessionOutcome, SessionError> {
    place.prepare(conditions)?;
    if let Some(cycle) = conditions.deferral {
        tune(place, conditions, cycle, stop)?;
    }
    measure_as_it_is(place, conditions, stop)
}

/// Adjusts the deferral so that polls begin `cycle` apart. The kernel's timer starts at the end of
/// a poll, whose length depends on host and packets; so short trial streams are measured, and the
/// timeout is shortened by the excess of the cycle.
fn tune(
    place: &TestNetwork,
    conditions: &Conditions,
    cycle: Duration,
    stop: &AtomicBool,
) -> Result<(), SessionError> {
    let wanted_ns = cycle.as_nanos() as f64;
    let mut timeout_ns = cycle.saturating_sub(network::POLL).as_nanos() as f64;
    let short = Conditions { count: conditions.count.min(TRIAL), ..conditions.clone() };
    for _ in 0..MAX_TRIALS {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(found_ns) = cycle_ns(&measure_as_it_is(place, &short, stop)?) else { break };
        if (found_ns / wanted_ns - 1.0).abs() <= CLOSE {
            break;
        }
        timeout_ns -= found_ns - wanted_ns;
        let timeout = Duration::from_nanos(timeout_ns.clamp(0.0, wanted_ns) as u64);
        place.put_off(timeout.max(network::SHORTEST))?;
    }
    Ok(())
}

/// Mean time between polls, from the packets they delivered; `None` without a trace.
fn cycle_ns(outcome: &SessionOutcome) -> Option<f64> {
    let trace = outcome.trace.as_ref().ok()?;
    let batch = Joined::of(trace, &outcome.measured).counts.mean_batch()?;
    Some(batch * outcome.conditions.period_ps as f64 / 1e3)
}

/// Measures over a cable in its present state: [`TestNetwork::prepare`] was called before, and other
/// settings may have changed since.
///
/// # Errors
///
/// As [`measure`].
pub fn measure_as_it_is(
    place: &TestNetwork,
    conditions: &Conditions,
    stop: &AtomicBool,
) -> Result<SessionOutcome, SessionError> {
    // Without the right to keep cores awake, the measurement includes their sleep.
    let _awake = conditions.is_awake.then(NoSleep::hold).and_then(Result::ok);
    let sink = place.sink(conditions, sink_config(place, conditions))?;
    let target = sink.address()?;
    let source = place.source(conditions, target)?;
    place.introduce(target)?;
    let conditions = &source.applied(conditions);
    let stage = Stage { has_own_clock: source.has_own_clock(), ..Stage::default() };
    thread::scope(|scope| {
        let ended = EndsAll(&stage);
        let over = &stage.over;
        let spinner = conditions.spinner.map(|core| scope.spawn(move || spin(core, over)));
        let receiving = scope.spawn(|| stage.receive(sink, conditions));
        stage.wait_for(&stage.sink, &receiving)?;
        let sending = scope.spawn(|| stage.send(source, stop));
        if !stage.has_own_clock {
            stage.wait_for(&stage.generator, &sending)?;
        }
        let mut tracing = Tracing::start(&stage, conditions, target);
        stage.go.store(true, Ordering::Release);
        let departures = sending.join().map_err(|_| SessionError::Thread)??;
        thread::sleep(GRACE);
        stage.over.store(true, Ordering::Release);
        let received = receiving.join().map_err(|_| SessionError::Thread)??;
        tracing.count();
        drop(ended);
        drop(spinner.map(ScopedJoinHandle::join));
        Ok(stage.outcome(conditions, departures, received, tracing))
    })
}

/// Synchronises the threads of a measurement.
#[derive(Default)]
struct Stage {
    sink: AtomicU32,
    generator: AtomicU32,
    go: AtomicBool,
    over: AtomicBool,
    /// Whether the sender is none of this host's threads.
    has_own_clock: bool,
}

/// Ends the other threads when one ends for any reason.
struct EndsAll<'a>(&'a Stage);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.go.store(true, Ordering::Release);
        self.0.over.store(true, Ordering::Release);
    }
}

impl Stage {
    fn receive(&self, sink: Sink, conditions: &Conditions) -> Result<Received, SinkError> {
        self.sink.store(this_thread(), Ordering::Release);
        self.wait_to_go();
        let received = sink.run(&self.over, Some(conditions.count));
        if received.is_err() {
            // Without a receiver there is nothing to send.
            self.over.store(true, Ordering::Release);
        }
        received
    }

    fn send(&self, source: Source<'_>, stop: &AtomicBool) -> Result<Departures, SessionError> {
        self.generator.store(source.thread(), Ordering::Release);
        self.wait_to_go();
        // Meanwhile the sink moves to its core.
        thread::sleep(GRACE);
        source.run(if self.over.load(Ordering::Acquire) { &self.over } else { stop })
    }

    fn wait_to_go(&self) {
        while !self.go.load(Ordering::Acquire) {
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn wait_for<T>(
        &self,
        number: &AtomicU32,
        thread: &ScopedJoinHandle<'_, T>,
    ) -> Result<(), SessionError> {
        let begin = std::time::Instant::now();
        while number.load(Ordering::Acquire) == 0 {
            if thread.is_finished() || begin.elapsed() > PATIENCE {
                return Err(SessionError::Thread);
            }
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn outcome(
        &self,
        conditions: &Conditions,
        departures: Departures,
        mut received: Received,
        tracing: Tracing,
    ) -> SessionOutcome {
        let Tracing { tracer, counted, .. } = tracing;
        let absent = tracer.as_ref().map(|tracer| tracer.absent().to_vec()).unwrap_or_default();
        let means = tracer.as_ref().ok().map(Tracer::kind);
        let cores = conditions.cores;
        let mut trace = tracer.map(|tracer| Trace {
            sink: Conditions::pinned(cores.sink, self.sink.load(Ordering::Acquire)),
            generator: Conditions::pinned(cores.generator, self.generator.load(Ordering::Acquire)),
            is_sender_remote: self.has_own_clock,
            ..tracer.stop()
        });
        if let (Some("tracefs"), Ok(trace)) = (means, &mut trace) {
            mistrust(trace, &departures);
        }
        let mut measured = Measured {
            schedule: departures.schedule,
            sent_ns: departures.sent_ns.clone(),
            arrivals: std::mem::take(&mut received.arrivals),
            overflowed: received.overflowed,
        };
        let reached = trace.as_ref().map(Trace::received).unwrap_or_default();
        let line = self.has_own_clock.then(|| line_of(&measured, &reached)).flatten();
        if let Some(line) = &line {
            measured = line.apply(measured);
        }
        let conditions = conditions.clone();
        let cost_ns = means.and_then(|means| cost(means, &conditions));
        SessionOutcome {
            conditions,
            measured,
            departures,
            line,
            has_own_clock: self.has_own_clock,
            received,
            trace,
            absent,
            means,
            cost_ns,
            counted,
        }
    }
}

/// A running trace, and an independent packet count.
struct Tracing {
    tracer: Result<Tracer, NotTraced>,
    counters: Option<PacketCounters>,
    counted: Option<u64>,
}

impl Tracing {
    /// Counters start before the trace; when they stop, the stream has ended.
    fn start(stage: &Stage, conditions: &Conditions, to: SocketAddr) -> Self {
        let is_counted = conditions.is_counted && conditions.traced.is_some();
        let counters = is_counted.then(|| PacketCounters::start(&conditions.cores()).ok());
        let tracer = tracer(stage, conditions, to);
        Self { tracer, counters: counters.flatten(), counted: None }
    }

    fn count(&mut self) {
        self.counted = self.counters.take().and_then(|mut counters| counters.count().ok());
    }
}

fn tracer(stage: &Stage, conditions: &Conditions, to: SocketAddr) -> Result<Tracer, NotTraced> {
    let mut means = conditions.traced.ok_or(NotTraced::NotWanted)?;
    if stage.has_own_clock {
        means = match means {
            TraceBackend::Auto | TraceBackend::Bpf => TraceBackend::Bpf,
            TraceBackend::Tracefs => return Err(NotTraced::Remote),
        };
    }
    let sender = Some(stage.generator.load(Ordering::Acquire)).filter(|thread| *thread > 0);
    let target = TraceTarget {
        // One version only: with both, tracefs follows no packet whole.
        ports: if to.is_ipv4() {
            [vec![to.port()], Vec::new()]
        } else {
            [Vec::new(), vec![to.port()]]
        },
        payload_len: conditions.payload_len,
        sender,
        threads: vec![stage.sink.load(Ordering::Acquire)],
        ..TraceTarget::default()
    };
    let packets = usize::try_from(conditions.count).unwrap_or(usize::MAX);
    let seconds = conditions.duration().as_secs() as usize + 1;
    let events = packets.saturating_mul(EVENTS_PER_PACKET);
    let events = events.saturating_add(seconds.saturating_mul(EVENTS_PER_SECOND));
    Ok(Tracer::start(means, &target, &conditions.cores(), events)?)
}

/// Sequence numbers derived from the order of packets are valid only if the trace saw exactly the
/// packets that were sent.
fn mistrust(trace: &mut Trace, departures: &Departures) {
    let is_transmit = |event: &&Event| matches!(event.what, EventKind::Transmit { .. });
    let seen = trace.events.iter().filter(is_transmit).count();
    let sent = departures.sent_ns.iter().filter(|at_ns| **at_ns > 0).count();
    let is_refused = sent < departures.sent_ns.len();
    trace.lost += seen.abs_diff(sent) as u64 + u64::from(is_refused);
}

/// Cost of an event with this backend on the sink's core.
fn cost(means: &str, conditions: &Conditions) -> Option<f64> {
    let means = if means == "tracefs" { TraceBackend::Tracefs } else { TraceBackend::Bpf };
    quick(means, conditions.cores.sink).ok()
}

fn sink_config(place: &TestNetwork, conditions: &Conditions) -> SinkConfig {
    let mut config = SinkConfig::new(place.sink_address());
    config.mode = conditions.mode;
    config.placement = placement(conditions.cores.sink, conditions.sink_fifo);
    config.capacity = usize::try_from(conditions.count).unwrap_or(usize::MAX);
    // The sender needs time before the first packet; the session decides when the stream is over.
    config.idle = None;
    config
}

fn generator_config(conditions: &Conditions, target: SocketAddr) -> GeneratorConfig {
    let mut config = GeneratorConfig::new(target);
    config.period_ps = conditions.period_ps;
    config.count = conditions.count;
    config.payload_len = conditions.payload_len;
    config.wait = if conditions.sleeping_sender { Wait::Sleep } else { Wait::Spin };
    config.placement = placement(conditions.cores.generator, conditions.sender_fifo);
    config
}

fn placement(core: u16, fifo: Option<u8>) -> Placement {
    Placement { core: Some(core.into()), fifo, ..Placement::default() }
}

/// A thread that never waits.
fn spin(core: u16, over: &AtomicBool) {
    let Ok(_placed) = placement(core, None).enter(true) else { return };
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}
