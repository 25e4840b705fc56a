//! Several pipelines on one thread.

use super::drive::{StopHandle, Task};
use crate::port::LivePort;
use linecard::pipeline::{Pipeline, Turn};
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::time::Instant;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A port that several pipelines of a thread use.
pub(super) type Shared<B> = Rc<RefCell<Box<dyn LivePort<B>>>>;

/// Pipelines that run in turn on one thread. The first source that ends stops all threads of the
/// engine, because the ports are then no longer connected.
pub(super) struct TaskSet {
    ways: Vec<Way>,
    descriptors: Vec<OwnedFd>,
    /// Times at which ports have packets due.
    due: Vec<Box<dyn Fn() -> Option<Instant>>>,
    /// The time of the last turn: what was due then has been received.
    now: Instant,
    stopper: StopHandle,
    batch: usize,
}

struct Way {
    /// None once it has ended, together with its rings.
    body: Option<Box<dyn Task>>,
    /// Whether it ends only with its ring.
    is_fed: bool,
}

impl TaskSet {
    /// An empty set; its pipelines take at most `batch` packets at a time from ports.
    pub(super) fn new(stopper: StopHandle, batch: usize) -> Self {
        let now = Instant::ZERO;
        Self { ways: Vec::new(), descriptors: Vec::new(), due: Vec::new(), now, stopper, batch }
    }

    /// Adds a pipeline that receives from a port, until the port ends or the engine is stopped.
    pub(super) fn add_live<B: 'static>(
        mut self,
        port: &Shared<B>,
        stage: Box<dyn Stage<B>>,
        sink: impl Port<B> + 'static,
    ) -> Self {
        // A port without descriptor is polled.
        let descriptor = port.borrow().descriptor().and_then(|fd| fd.try_clone_to_owned().ok());
        self.descriptors.extend(descriptor);
        let due = Rc::clone(port);
        self.due.push(Box::new(move || due.borrow().next_due()));
        let batch = self.batch;
        self.add(Pipeline::new(Rc::clone(port), stage, sink).with_batch(batch), false)
    }

    /// Adds a pipeline that receives from a ring, until the ring has ended.
    pub(super) fn add_fed<B: 'static>(
        self,
        ring: impl Port<B> + 'static,
        stage: impl Stage<B> + 'static,
        sink: impl Port<B> + 'static,
    ) -> Self {
        self.add(Pipeline::new(ring, stage, sink), true)
    }

    fn add(mut self, body: impl Task + 'static, is_fed: bool) -> Self {
        self.ways.push(Way { body: Some(Box::new(body)), is_fed });
        self
    }

    fn bodies(&self) -> impl Iterator<Item = &dyn Task> {
        self.ways.iter().filter_map(|way| way.body.as_deref())
    }
}

impl Task for TaskSet {
    fn run_once(&mut self, now: Instant) -> Turn {
        self.now = now;
        let (mut moved, mut ended) = (0, true);
        for way in &mut self.ways {
            let Some(body) = &mut way.body else { continue };
            let turn = body.run_once(now);
            moved += turn.moved;
            ended &= turn.ended;
            if turn.ended {
                way.body = None;
                if !way.is_fed {
                    self.stopper.stop();
                }
            }
        }
        Turn { moved, ended }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let due = self.due.iter().filter_map(|due| due()).filter(|due| *due > self.now);
        self.bodies().filter_map(|body| body.next_wakeup()).chain(due).min()
    }

    fn stop(&mut self) {
        let live = self.ways.iter_mut().filter(|way| !way.is_fed);
        live.filter_map(|way| way.body.as_mut()).for_each(|body| body.stop());
    }

    fn is_blocked(&self) -> bool {
        self.bodies().any(|body| body.is_blocked())
    }

    fn descriptors(&self) -> Vec<OwnedFd> {
        self.descriptors.iter().filter_map(|fd| fd.try_clone().ok()).collect()
    }
}
