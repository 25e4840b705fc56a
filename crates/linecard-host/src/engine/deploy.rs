//! Which threads there are, and the rings between them.

use super::drive::{Body, Engine, Failure, Thread};
use super::gather::{Gather, GatherCounters, Order};
use super::idle::{Bell, Idle};
use super::ring::{Receiver, Sender, belled};
use super::spread::{OnFull, Spread, SpreadCounters};
use super::steering::Steering;
use linecard::packet::{RSS_KEY_LEN, Toeplitz};
use linecard::pipeline::{Pipeline, Turn};
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::stages::Forward;
use linecard::time::Instant;

/// How many workers, where, and how they are joined.
#[derive(Debug, Clone)]
pub struct Config {
    /// Workers: 1 to 65,535. Default: 1.
    pub workers: u16,
    /// Cores for the threads, in turn: the workers first, then those that receive and transmit.
    /// Default: none, they run anywhere.
    pub cores: Vec<usize>,
    /// What threads do when there is nothing to do. Default: yield.
    pub idle: Idle,
    /// Packets in a ring: at least 1. Default: 1,024, some 200 µs of 5 million packets a second.
    pub ring_capacity: usize,
    /// Key of the steering hash. Default: symmetric, for both directions of a connection on one
    /// worker; where peers choose addresses, take one that they do not know.
    pub key: [u8; RSS_KEY_LEN],
    /// What happens when a worker's ring is full. Default: drop.
    pub on_full: OnFull,
    /// Whose packet goes out next. Default: round robin.
    pub order: Order,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 1,
            cores: Vec::new(),
            idle: Idle::default(),
            ring_capacity: 1_024,
            key: Toeplitz::SYMMETRIC,
            on_full: OnFull::default(),
            order: Order::default(),
        }
    }
}

impl Config {
    fn thread(&self, index: usize, name: String, stops: bool) -> Thread {
        let core = self.cores.get(index % self.cores.len().max(1)).copied();
        Thread { name, core, idle: self.idle, stops }
    }

    fn workers(&self) -> usize {
        self.workers.max(1).into()
    }
}

/// What a thread leaves when it has ended.
#[derive(Debug)]
pub enum Parts<S, T, K> {
    /// All of a worker's pipeline, with ports of its own.
    Whole(S, T, K),
    /// A worker's stage.
    Worker(T),
    /// The port that was received from.
    Source(S, SpreadCounters),
    /// The port that was transmitted to.
    Sink(K, GatherCounters),
    /// Both, on one thread.
    Ends((S, SpreadCounters), (K, GatherCounters)),
}

/// Each worker receives, works and transmits by itself. `make` gives the pipeline of a worker by its
/// number, on the worker's thread.
///
/// # Errors
///
/// When a thread cannot be started; those that were, are stopped.
pub fn inline<B, S, T, K>(
    config: &Config,
    make: impl Fn(usize) -> Pipeline<B, S, T, K> + Send + Clone + 'static,
) -> Result<Engine<Parts<S, T, K>>, Failure>
where
    B: 'static,
    S: Port<B> + Send + 'static,
    T: Stage<B> + Send + 'static,
    K: Port<B> + Send + 'static,
{
    let mut engine = Engine::new();
    for worker in 0..config.workers() {
        let make = make.clone();
        let finish = |body: Pipeline<B, S, T, K>| Parts::Whole(body.source, body.stage, body.sink);
        let thread = config.thread(worker, format!("worker {worker}"), true);
        engine = started(engine.spawn(thread, move || make(worker), finish), engine)?;
    }
    Ok(engine)
}

/// One thread receives from `source` and transmits to `sink`; `stage` gives what a worker does by its
/// number.
///
/// # Errors
///
/// As [`inline`].
pub fn shared<B, S, T, K>(
    config: &Config,
    (source, sink): (S, K),
    stage: impl Fn(usize) -> T,
) -> Result<Engine<Parts<S, T, K>>, Failure>
where
    B: AsRef<[u8]> + Send + 'static,
    S: Port<B> + Send + 'static,
    T: Stage<B> + Send + 'static,
    K: Port<B> + Send + 'static,
{
    let (engine, spread, gather, bell) = workers(config, stage)?;
    let thread = config.thread(config.workers(), "ports".into(), true);
    let make = move || Ends {
        inward: Pipeline::new(source, Forward::default(), spread),
        outward: Pipeline::new(gather, Forward::default(), sink),
    };
    let finish = |Ends { inward, outward }: Ends<B, S, K>| {
        let (spread, gather) = (inward.sink.counters().clone(), outward.source.counters().clone());
        Parts::Ends((inward.source, spread), (outward.sink, gather))
    };
    let mut engine = engine;
    started(engine.spawn_belled(thread, bell, make, finish), engine)
}

/// As [`shared`], with a thread that receives and one that transmits.
///
/// # Errors
///
/// As [`inline`].
pub fn dedicated<B, S, T, K>(
    config: &Config,
    (source, sink): (S, K),
    stage: impl Fn(usize) -> T,
) -> Result<Engine<Parts<S, T, K>>, Failure>
where
    B: AsRef<[u8]> + Send + 'static,
    S: Port<B> + Send + 'static,
    T: Stage<B> + Send + 'static,
    K: Port<B> + Send + 'static,
{
    let (mut engine, spread, gather, bell) = workers(config, stage)?;
    let thread = config.thread(config.workers(), "receive".into(), true);
    let make = move || Pipeline::new(source, Forward::default(), spread);
    let finish = |body: Way<B, S, Spread<B>>| {
        let counters = body.sink.counters().clone();
        Parts::Source(body.source, counters)
    };
    engine = started(engine.spawn(thread, make, finish), engine)?;
    let thread = config.thread(config.workers() + 1, "transmit".into(), false);
    let make = move || Pipeline::new(gather, Forward::default(), sink);
    let finish = |body: Way<B, Gather<B>, K>| {
        let counters = body.source.counters().clone();
        Parts::Sink(body.sink, counters)
    };
    started(engine.spawn_belled(thread, bell, make, finish), engine)
}

/// From one port to another.
type Way<B, S, K> = Pipeline<B, S, Forward, K>;

/// Both ways on one thread, in turn.
struct Ends<B, S, K> {
    inward: Way<B, S, Spread<B>>,
    outward: Way<B, Gather<B>, K>,
}

impl<B: AsRef<[u8]>, S: Port<B>, K: Port<B>> Body for Ends<B, S, K> {
    fn run_once(&mut self, now: Instant) -> Turn {
        let inward = Body::run_once(&mut self.inward, now);
        if inward.ended {
            // The workers end when nothing more can come, and so does the way out.
            self.inward.sink.close();
        }
        let outward = Body::run_once(&mut self.outward, now);
        let ended = inward.ended && outward.ended;
        Turn { moved: inward.moved + outward.moved, ended }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self) {
        self.inward.stop();
    }
}

/// Workers between rings: the engine, both ends, and the bell of who gathers.
type Workers<B, S, T, K> = (Engine<Parts<S, T, K>>, Spread<B>, Gather<B>, Bell);

fn workers<B, S, T, K>(
    config: &Config,
    stage: impl Fn(usize) -> T,
) -> Result<Workers<B, S, T, K>, Failure>
where
    B: AsRef<[u8]> + Send + 'static,
    S: Send + 'static,
    T: Stage<B> + Send + 'static,
    K: Send + 'static,
{
    let (mut engine, outer) = (Engine::new(), Bell::default());
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for worker in 0..config.workers() {
        let bell = Bell::default();
        let (input, source) = belled(config.ring_capacity, bell.clone());
        let (sink, output) = belled(config.ring_capacity, outer.clone());
        let stage = stage(worker);
        let thread = config.thread(worker, format!("worker {worker}"), false);
        let make = move || Pipeline::new(source, stage, sink);
        let finish = |body: Pipeline<B, Receiver<B>, T, Sender<B>>| Parts::Worker(body.stage);
        engine = started(engine.spawn_belled(thread, bell, make, finish), engine)?;
        inputs.push(input);
        outputs.push(output);
    }
    let steering = Steering::new(config.workers, &config.key);
    let capacity = config.ring_capacity * config.workers();
    let spread = Spread::new(inputs, steering, config.on_full);
    Ok((engine, spread, Gather::new(outputs, config.order, capacity), outer))
}

/// Stops an engine of which a thread could not be started.
fn started<R: Send + 'static>(
    result: Result<(), Failure>,
    engine: Engine<R>,
) -> Result<Engine<R>, Failure> {
    match result {
        Ok(()) => Ok(engine),
        Err(failure) => {
            engine.stop();
            Err(failure)
        }
    }
}
