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

/// Turns in which a pipeline waits at most for the port to which it sends: with batches of 64, half of a
/// receive ring. Then what it has to send waits for some milliseconds at most, however much comes.
const MAX_WAITED: u32 = 64;

/// Packets that are sent to a port at a time where it may be crowded afterwards: each may be an
/// acknowledgment that releases up to 90 packets, and then three quarters of a ring have room for what
/// all of them release, twice over.
const FEW: usize = 16;

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
    /// Whether the last turn moved packets.
    has_moved: bool,
    stopper: StopHandle,
    batch: usize,
}

struct Way {
    /// None once it has ended, together with its rings.
    body: Option<Box<dyn Task>>,
    /// Whether it ends only with its ring.
    is_fed: bool,
    /// Of the port to which it sends, where there is any.
    backpressure: Option<Backpressure>,
}

/// A port that has received too much asks a pipeline to send less to it.
struct Backpressure {
    /// Whether the port has received much that nobody has taken yet.
    is_crowded: Box<dyn Fn() -> bool>,
    /// Packets that the pipeline takes at a time.
    batch: usize,
    /// Consecutive turns in which it waited.
    waited: u32,
}

impl Way {
    /// Whether it leaves its turn to what receives from the port to which it sends.
    fn waits(&mut self) -> bool {
        let Some(backpressure) = &mut self.backpressure else { return false };
        let waits = backpressure.waited < MAX_WAITED && (backpressure.is_crowded)();
        backpressure.waited = if waits { backpressure.waited + 1 } else { 0 };
        waits
    }

    /// A turn; none if it has ended before.
    fn run_once(&mut self, now: Instant, batch: usize) -> Option<Turn> {
        let body = self.body.as_mut()?;
        let mut turn = body.run_once(now);
        let Some(backpressure) = &self.backpressure else { return Some(turn) };
        let (mut last, mut left) = (turn.received, batch.saturating_sub(turn.received));
        while last >= backpressure.batch && left > 0 && !turn.ended && !(backpressure.is_crowded)()
        {
            let more = body.run_once(now);
            turn.moved += more.moved;
            turn.received += more.received;
            turn.ended = more.ended;
            (last, left) = (more.received, left.saturating_sub(more.received));
        }
        Some(turn)
    }
}

impl TaskSet {
    /// An empty set; its pipelines take at most `batch` packets at a time.
    pub(super) fn new(stopper: StopHandle, batch: usize) -> Self {
        Self {
            ways: Vec::new(),
            descriptors: Vec::new(),
            due: Vec::new(),
            now: Instant::ZERO,
            has_moved: false,
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

    /// The pipeline that is added by `add` sends to this port. While the port is crowded and others move
    /// packets it waits, and it sends a few packets at a time, between which it looks. A port that knows
    /// nothing of that is sent whole batches.
    pub(super) fn with_backpressure<B: 'static>(
        mut self,
        port: &Shared<B>,
        add: impl FnOnce(Self, Shared<B>) -> Self,
    ) -> Self {
        if port.borrow().is_crowded().is_none() {
            return add(self, Rc::clone(port));
        }
        let batch = self.batch;
        self.batch = batch.min(FEW);
        let mut set = add(self, Rc::clone(port));
        let port = Rc::clone(port);
        if let Some(way) = set.ways.last_mut() {
            let is_crowded = Box::new(move || port.borrow().is_crowded() == Some(true));
            way.backpressure = Some(Backpressure { is_crowded, batch: set.batch, waited: 0 });
        }
        set.batch = batch;
        set
    }

    fn add(mut self, body: impl Task + 'static, is_fed: bool) -> Self {
        self.ways.push(Way { body: Some(Box::new(body)), is_fed, backpressure: None });
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
            if self.has_moved && way.waits() {
                sum.ended &= way.body.is_none();
                continue;
            }
            let Some(turn) = way.run_once(now, self.batch) else { continue };
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
        self.has_moved = sum.moved > 0;
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

    /// A port with packets to give, which is crowded while there are more than a quarter of a ring.
    struct Crowded {
        left: usize,
        sent: Rc<Cell<usize>>,
    }

    impl Port<Vec<u8>> for Crowded {
        fn receive(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) -> PortState {
            while self.left > 0 && batch.room() > 0 {
                self.left -= 1;
                let packet = Packet::new(vec![0; 60], LinkType::Ethernet, Meta::default());
                assert!(batch.push(packet).is_ok());
            }
            PortState::Open
        }

        fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) {
            self.sent.set(self.sent.get() + batch.drain().count());
        }
    }

    impl LivePort<Vec<u8>> for Crowded {
        fn is_crowded(&self) -> Option<bool> {
            Some(self.left > 2_048)
        }
    }

    /// The turns in which something was sent to a port that has so many packets, and whose own go to a
    /// sink.
    fn sending_turns(left: usize, sink: impl Port<Vec<u8>> + 'static, turns: u64) -> Vec<u64> {
        let sent = Rc::new(Cell::new(0));
        let live = |left, sent| -> Shared<Vec<u8>> {
            Rc::new(RefCell::new(Box::new(Crowded { left, sent })))
        };
        let (near, far) = (live(left, Rc::clone(&sent)), live(1 << 20, Rc::default()));
        let stage = || Box::new(Forward::default());
        let mut set = TaskSet::new(StopHandle::default(), 64)
            .add_live(&near, stage(), sink)
            .with_backpressure(&near, |set, near| set.add_live(&far, stage(), near));
        let is_sending = |at: &u64| {
            let before = sent.get();
            set.run_once(Instant::from_ns(*at));
            sent.get() > before
        };
        (0..turns).filter(is_sending).collect()
    }

    /// Sending to a port may bring more to receive, where the peer is on the same machine.
    #[test]
    fn a_crowded_port_is_emptied_before_more_is_sent_to_it_but_not_for_ever() {
        let nowhere = || Crowded { left: 0, sent: Rc::default() };
        // Nothing is known to have moved before the first turn.
        assert_eq!(sending_turns(2_048 + 10 * 64, nowhere(), 12), [0, 9, 10, 11]);
        assert_eq!(sending_turns(64, nowhere(), 4), [0, 1, 2, 3]);
        let every = u64::from(MAX_WAITED) + 1;
        assert_eq!(sending_turns(1 << 20, nowhere(), 3 * every), [0, every, 2 * every]);
    }

    #[test]
    fn nobody_waits_for_a_crowded_port_from_which_nothing_can_be_taken() {
        let (full, _unread) = linecard::port::link(64);
        let turns = sending_turns(1 << 20, full, 100);
        assert!(turns.len() >= 40, "{turns:?}");
    }
}
