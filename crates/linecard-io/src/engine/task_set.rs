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
    /// An empty set; its pipelines take at most `batch` packets at a time.
    pub(super) fn new(stopper: StopHandle, batch: usize) -> Self {
        Self {
            ways: Vec::new(),
            descriptors: Vec::new(),
            due: Vec::new(),
            now: Instant::ZERO,
            stopper,
            batch,
        }
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
        let batch = self.batch;
        self.add(Pipeline::new(ring, stage, sink).with_batch(batch), true)
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
        let mut sum = Turn { moved: 0, received: 0, ended: true };
        for way in &mut self.ways {
            let Some(body) = &mut way.body else { continue };
            let turn = body.run_once(now);
            sum.moved += turn.moved;
            sum.received += turn.received;
            sum.ended &= turn.ended;
            if turn.ended {
                way.body = None;
                if !way.is_fed {
                    self.stopper.stop();
                }
            }
        }
        sum
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

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{Batch, LinkType, Meta, Packet};
    use linecard::port::PortState;
    use linecard::stages::Forward;
    use std::cell::Cell;

    /// A port with packets to give, and the most that it was given between two receives.
    struct Counting {
        waiting: usize,
        sent: usize,
        most: Rc<Cell<usize>>,
    }

    impl Port<Vec<u8>> for Counting {
        fn receive(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) -> PortState {
            self.sent = 0;
            let count = batch.room().min(self.waiting);
            self.waiting -= count;
            for _ in 0..count {
                let packet = Packet::new(vec![0; 60], LinkType::Ethernet, Meta::default());
                assert!(batch.push(packet).is_ok());
            }
            PortState::Open
        }

        fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) {
            self.sent += batch.drain().count();
            self.most.set(self.most.get().max(self.sent));
        }
    }

    impl LivePort<Vec<u8>> for Counting {}

    /// Sending may bring more packets at once than the port's ring has room for.
    #[test]
    fn a_port_receives_after_each_batch_that_it_sends() {
        for is_fed in [false, true] {
            let most = Rc::new(Cell::new(0));
            let port = |waiting| Counting { waiting, sent: 0, most: Rc::clone(&most) };
            let live = |port| -> Shared<Vec<u8>> { Rc::new(RefCell::new(Box::new(port))) };
            let (near, far) = (live(port(0)), port(1_000));
            let stage = || Box::new(Forward::default());
            let (nowhere, _) = linecard::port::link(64);
            let mut set = TaskSet::new(StopHandle::default(), 16);
            set = set.add_live(&near, stage(), nowhere);
            set = match is_fed {
                true => set.add_fed(far, Forward::default(), Rc::clone(&near)),
                false => set.add_live(&live(far), stage(), Rc::clone(&near)),
            };
            let moved: usize = (0..100).map(|at| set.run_once(Instant::from_ns(at)).moved).sum();
            assert!(moved >= 1_000, "{moved}");
            assert_eq!(most.get(), 16, "from a ring: {is_fed}");
        }
    }
}
