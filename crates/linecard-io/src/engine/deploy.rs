//! Deployments: the threads of an engine, and the rings between them.

use super::drive::{Engine, Failure, GRACE, Task, Thread, wakeup};
use super::gather::{Gather, Order};
use super::idle::{Idle, Wakeup};
use super::ring::ring_with_wakeup;
use super::scheduling::Scheduling;
use super::spread::{OnFull, Spread};
use super::steering::Steering;
use super::task_set::{Shared, TaskSet};
use crate::port::LivePort;
use linecard::packet::{BATCH, RSS_KEY_LEN, Toeplitz};
use linecard::pipeline::Pipeline;
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::stages::Forward;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Number of workers, their cores, and the rings between threads.
#[derive(Debug, Clone)]
pub struct Config {
    /// Workers: 1 to 65,535. Default: 1.
    pub workers: u16,
    /// Cores of the threads, in turn: the workers first, then those of the ports. Default: none,
    /// threads run anywhere.
    pub cores: Vec<usize>,
    /// The scheduling class of threads. Default: normal.
    pub scheduling: Scheduling,
    /// The idle policy of threads. Default: yield.
    pub idle: Idle,
    /// Packets taken from a port or a ring at a time, 1 to 64. Default: 64.
    pub batch: usize,
    /// Packets in a ring: at least 1. Default: 1,024, some 200 µs of 5 million packets a second.
    pub ring_capacity: usize,
    /// Key of the steering hash. Default: symmetric, so that both directions of a connection go to
    /// the same worker; if peers choose addresses, use a secret one.
    pub key: [u8; RSS_KEY_LEN],
    /// Handling of packets whose worker's ring is full. Default: drop.
    pub on_full: OnFull,
    /// The order in which workers' packets are transmitted. Default: round robin.
    pub order: Order,
    /// How long a stopped thread may move no packet before it drops those that it holds: its receiver has
    /// stopped reading. Default: one second. Longer where the processor may be taken from a thread for
    /// that time.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 1,
            cores: Vec::new(),
            scheduling: Scheduling::default(),
            idle: Idle::default(),
            batch: BATCH,
            ring_capacity: 1_024,
            key: Toeplitz::SYMMETRIC,
            on_full: OnFull::default(),
            order: Order::default(),
            grace: GRACE,
        }
    }
}

impl Config {
    fn thread(&self, index: usize, name: String, stops: bool) -> Thread {
        let core = self.cores.get(index % self.cores.len().max(1)).copied();
        Thread { name, core, idle: self.idle, stops }
    }

    fn engine(&self) -> Engine<()> {
        Engine::new().with_scheduling(self.scheduling).with_grace(self.grace)
    }

    fn workers(&self) -> std::ops::Range<usize> {
        0..self.workers.max(1).into()
    }

    /// The same, with the scheduling class of its workers and this many other threads.
    fn scheduled(&self, others: usize) -> Self {
        let threads = self.workers().len() + others;
        Self { scheduling: self.scheduling.of_threads(threads, self.idle), ..self.clone() }
    }
}

/// Two ports to be connected, and the stages between them in both directions.
///
/// Threads create these objects themselves, so that they need not be `Send`.
pub trait Join<B>: Send + Sync + 'static {
    /// The near port, or that of a worker if each has its own; none if it cannot be opened, which
    /// ends the thread.
    fn near(&self, worker: usize) -> Option<Box<dyn LivePort<B>>>;

    /// The far port, likewise.
    fn far(&self, worker: usize) -> Option<Box<dyn LivePort<B>>>;

    /// The stage for packets from the near port.
    fn ingress(&self, worker: usize) -> Box<dyn Stage<B>>;

    /// The stage for packets from the far port.
    fn egress(&self, worker: usize) -> Box<dyn Stage<B>>;

    /// Called when a thread has created everything. False ends the thread.
    fn ready(&self) -> bool {
        true
    }

    /// Wraps the port in front of the workers' rings.
    fn spread(&self, spread: Spread<B>) -> Box<dyn Port<B>>
    where
        B: AsRef<[u8]> + 'static,
    {
        Box::new(spread)
    }

    /// Wraps the port behind the workers' rings.
    fn gather(&self, gather: Gather<B>) -> Box<dyn Port<B>>
    where
        B: 'static,
    {
        Box::new(gather)
    }
}

/// Each worker has its own pair of ports: queues of an interface, or members of a fanout group.
///
/// # Errors
///
/// If a thread cannot be started; those that were started are stopped.
pub fn inline<B: 'static>(
    config: &Config,
    join: &Arc<impl Join<B>>,
) -> Result<Engine<()>, Failure> {
    let config = config.scheduled(0);
    let mut engine = config.engine();
    for worker in config.workers() {
        let (join, stopper, batch) = (Arc::clone(join), engine.stop_handle(), config.batch);
        let make = move || {
            let (near, far) = (shared_port(join.near(worker)?), shared_port(join.far(worker)?));
            let ways = TaskSet::new(stopper, batch)
                .add_live(&near, join.ingress(worker), Rc::clone(&far))
                .add_live(&far, join.egress(worker), near);
            join.ready().then_some(ways)
        };
        let thread = config.thread(worker, format!("worker {worker}"), true);
        let wakeup = wakeup(&thread.name, thread.idle);
        engine =
            started(wakeup.and_then(|wakeup| start(&mut engine, thread, wakeup, make)), engine)?;
    }
    Ok(engine)
}

/// One thread serves both ports, workers process packets.
///
/// # Errors
///
/// As [`inline`].
pub fn shared<B: AsRef<[u8]> + Send + 'static>(
    config: &Config,
    join: &Arc<impl Join<B>>,
) -> Result<Engine<()>, Failure> {
    let config = &config.scheduled(1);
    let (mut engine, spread, gather, wakeup) = workers(config, join)?;
    let (join, stopper, batch) = (Arc::clone(join), engine.stop_handle(), config.batch);
    let make = move || {
        let (near, far) = (shared_port(join.near(0)?), shared_port(join.far(0)?));
        let ways = TaskSet::new(stopper, batch)
            .add_live(&near, Box::new(Forward::default()), join.spread(spread))
            .add_fed(join.gather(gather), Forward::default(), Rc::clone(&far))
            .add_live(&far, join.egress(0), near);
        join.ready().then_some(ways)
    };
    let thread = config.thread(config.workers().len(), "ports".into(), true);
    started(start(&mut engine, thread, wakeup, make), engine)
}

/// One thread per port, workers process packets.
///
/// # Errors
///
/// As [`inline`].
pub fn dedicated<B: AsRef<[u8]> + Send + 'static>(
    config: &Config,
    join: &Arc<impl Join<B>>,
) -> Result<Engine<()>, Failure> {
    let config = &config.scheduled(2);
    let (mut engine, spread, gather, far_bell) = workers(config, join)?;
    let near_bell = wakeup("near port", config.idle);
    let near_bell = near_bell.inspect_err(|_| engine.stop())?;
    let (back, from_far) = ring_with_wakeup(config.ring_capacity, near_bell.clone());
    let (near_join, far_join) = (Arc::clone(join), Arc::clone(join));
    let (near_stop, far_stop) = (engine.stop_handle(), engine.stop_handle());
    let batch = config.batch;
    let near = move || {
        let near = shared_port(near_join.near(0)?);
        let ways = TaskSet::new(near_stop, batch)
            .add_live(&near, Box::new(Forward::default()), near_join.spread(spread))
            .add_fed(from_far, Forward::default(), near);
        near_join.ready().then_some(ways)
    };
    let far = move || {
        let far = shared_port(far_join.far(0)?);
        let ways = TaskSet::new(far_stop, batch)
            .add_fed(far_join.gather(gather), Forward::default(), Rc::clone(&far))
            .add_live(&far, far_join.egress(0), back);
        far_join.ready().then_some(ways)
    };
    let workers = config.workers().len();
    let thread = config.thread(workers, "near port".into(), true);
    engine = started(start(&mut engine, thread, near_bell, near), engine)?;
    let thread = config.thread(workers + 1, "far port".into(), true);
    started(start(&mut engine, thread, far_bell, far), engine)
}

fn shared_port<B>(port: Box<dyn LivePort<B>>) -> Shared<B> {
    Rc::new(RefCell::new(port))
}

fn start<P: Task>(
    engine: &mut Engine<()>,
    thread: Thread,
    wakeup: Wakeup,
    make: impl FnOnce() -> Option<P> + Send + 'static,
) -> Result<(), Failure> {
    // A thread without its port stops the others, which would wait forever.
    let stopper = engine.stop_handle();
    engine.spawn_with_wakeup(thread, wakeup, make, move |body| {
        if body.is_none() {
            stopper.stop();
        }
    })
}

/// Workers between rings: the engine, both ends, and the wakeup of the gathering thread.
type Workers<B> = (Engine<()>, Spread<B>, Gather<B>, Wakeup);

fn workers<B: AsRef<[u8]> + Send + 'static>(
    config: &Config,
    join: &Arc<impl Join<B>>,
) -> Result<Workers<B>, Failure> {
    let outer = wakeup("ports", config.idle)?;
    let mut engine = config.engine();
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for worker in config.workers() {
        let thread = config.thread(worker, format!("worker {worker}"), false);
        let wakeup = wakeup(&thread.name, thread.idle).inspect_err(|_| engine.stop())?;
        let (input, source) = ring_with_wakeup(config.ring_capacity, wakeup.clone());
        let (sink, output) = ring_with_wakeup(config.ring_capacity, outer.clone());
        let join = Arc::clone(join);
        let make = move || {
            let pipeline = Pipeline::new(source, join.ingress(worker), sink);
            join.ready().then_some(pipeline)
        };
        engine = started(start(&mut engine, thread, wakeup, make), engine)?;
        inputs.push(input);
        outputs.push(output);
    }
    let steering = Steering::new(config.workers, &config.key);
    let capacity = config.ring_capacity * config.workers().len();
    let spread = Spread::new(inputs, steering, config.on_full);
    Ok((engine, spread, Gather::new(outputs, config.order, capacity), outer))
}

/// Stops an engine if one of its threads could not be started.
fn started(result: Result<(), Failure>, engine: Engine<()>) -> Result<Engine<()>, Failure> {
    result.inspect_err(|_| engine.stop()).map(|()| engine)
}
