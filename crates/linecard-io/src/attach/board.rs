//! What threads show of their counters, some times a second, without anybody waiting for anybody.

use super::answer::Answering;
use crate::engine::{Gather, GatherCounters, Spread, SpreadCounters};
use crate::port::{Buffers, Counters, LivePort};
use linecard::offload::{active_ack, coalesce, resequence};
use linecard::packet::Batch;
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::Coalesce;
use linecard::time::Instant;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often counters are shown.
const INTERVAL: Duration = Duration::from_millis(50);

/// What has been done so far, by worker where each has its own. Threads show it every 50 ms, and
/// when they end.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// The near port, or each worker's.
    pub near: Vec<Counters>,
    /// The far port, or each worker's.
    pub far: Vec<Counters>,
    /// Merging on the way from the near port to the far one, of each worker.
    pub inward: Vec<Merged>,
    /// The same on the way back.
    pub outward: Vec<Merged>,
    /// What was given to workers by rings.
    pub spread: SpreadCounters,
    /// What was taken from them.
    pub gather: GatherCounters,
    /// What was acknowledged on behalf of receivers.
    pub active_ack: active_ack::Counters,
}

/// Where any thread sees the [`Account`] of an attachment, also after its end.
#[derive(Debug, Clone)]
pub struct Accounts(pub(super) Arc<Board>);

impl Accounts {
    /// What has been done until some 50 ms ago.
    #[must_use]
    pub fn now(&self) -> Account {
        self.0.account()
    }
}

/// What one worker has merged.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// By the coalescer.
    pub coalesce: coalesce::Counters,
    /// Put into sequence before, if asked for.
    pub resequence: Option<resequence::Counters>,
    /// Packets held now.
    pub held: u64,
}

/// What has come to one worker and left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerTotals {
    /// Packets that came.
    pub packets_in: u64,
    /// Packets that left, merged ones counted once.
    pub packets_out: u64,
    /// Bytes of frames that came; behind rings, of those that went to the coalescer.
    pub bytes_in: u64,
    /// Packets lost on the way.
    pub dropped: u64,
}

/// Sums over workers, and what there is of each.
impl Account {
    /// Of one port's counters.
    #[must_use]
    pub fn total(ports: &[Counters]) -> Counters {
        ports.iter().fold(Counters::default(), |sum, port| sum.plus(port))
    }

    /// Of a worker by its number: what its rings, or its own ports where there are none, have counted
    /// on the way inward.
    #[must_use]
    pub fn of_worker(&self, number: usize) -> WorkerTotals {
        let ring = |counts: &[u64]| counts.get(number).copied().unwrap_or(0);
        let port = |ports: &[Counters]| ports.get(number).copied().unwrap_or_default();
        if self.has_rings() {
            return WorkerTotals {
                packets_in: ring(&self.spread.packets),
                packets_out: ring(&self.gather.packets),
                bytes_in: self.inward.get(number).map_or(0, |way| way.coalesce.bytes_in),
                dropped: ring(&self.spread.dropped),
            };
        }
        let (near, far) = (port(&self.near), port(&self.far));
        WorkerTotals {
            packets_in: near.received,
            packets_out: far.transmitted,
            bytes_in: near.received_bytes,
            dropped: near.dropped.total() + far.dropped.total(),
        }
    }

    /// Whether workers are behind rings.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        !self.spread.packets.is_empty()
    }

    /// Of what was merged one way.
    #[must_use]
    pub fn merged(workers: &[Merged]) -> coalesce::Counters {
        let mut sum = coalesce::Counters::default();
        workers.iter().for_each(|worker| sum.add(&worker.coalesce));
        sum
    }
}

/// Where one of them is shown.
#[derive(Debug, Clone, Default)]
struct Slot<T>(Arc<Mutex<T>>);

impl<T: Clone> Slot<T> {
    fn get(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a reader, who copies a few kilobytes.
    fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

/// Where all of them are shown.
#[derive(Debug, Default)]
pub(super) struct Board {
    near: Vec<Slot<Counters>>,
    far: Vec<Slot<Counters>>,
    inward: Vec<Slot<Merged>>,
    outward: Vec<Slot<Merged>>,
    spread: Slot<SpreadCounters>,
    gather: Slot<GatherCounters>,
    active_ack: Vec<Slot<active_ack::Counters>>,
}

/// One of two: near or far, inward or outward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Near,
    Far,
}

impl Board {
    /// For so many pairs of ports, workers and ways back.
    pub(super) fn new(ports: usize, workers: usize) -> Self {
        fn slots<T: Default>(count: usize) -> Vec<Slot<T>> {
            (0..count).map(|_| Slot::default()).collect()
        }
        Self {
            near: slots(ports),
            far: slots(ports),
            inward: slots(workers),
            outward: slots(ports),
            active_ack: slots(ports),
            ..Self::default()
        }
    }

    pub(super) fn account(&self) -> Account {
        fn all<T: Clone>(slots: &[Slot<T>]) -> Vec<T> {
            slots.iter().map(Slot::get).collect()
        }
        let mut active_ack = active_ack::Counters::default();
        self.active_ack.iter().for_each(|slot| active_ack.add(&slot.get()));
        Account {
            near: all(&self.near),
            far: all(&self.far),
            inward: all(&self.inward),
            outward: all(&self.outward),
            spread: self.spread.get(),
            gather: self.gather.get(),
            active_ack,
        }
    }

    /// The port of a worker, watched.
    pub(super) fn port<B, P: LivePort<B>>(
        &self,
        side: Side,
        worker: usize,
        port: P,
    ) -> Watched<Counters, P> {
        let slots = if side == Side::Near { &self.near } else { &self.far };
        Watched::new(port, &slots[worker], |port| port.counters())
    }

    /// The merging stage of a worker, watched; near for the way from there.
    pub(super) fn stage<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        from: Side,
        worker: usize,
        stage: Coalesce<B>,
    ) -> Watched<Merged, Coalesce<B>> {
        let slots = if from == Side::Near { &self.inward } else { &self.outward };
        Watched::new(stage, &slots[worker], |stage| Merged {
            coalesce: stage.offload_counters().clone(),
            resequence: stage.resequence_counters().cloned(),
            held: stage.held() as u64,
        })
    }

    pub(super) fn spread<B>(&self, spread: Spread<B>) -> Watched<SpreadCounters, Spread<B>> {
        Watched::new(spread, &self.spread, |spread| spread.counters().clone())
    }

    pub(super) fn gather<B>(&self, gather: Gather<B>) -> Watched<GatherCounters, Gather<B>> {
        Watched::new(gather, &self.gather, |gather| gather.counters().clone())
    }

    /// The near port of a worker that acknowledges, watched for that too.
    pub(super) fn answering<P: LivePort<S::Buffer>, S: Buffers>(
        &self,
        worker: usize,
        port: Answering<P, S>,
    ) -> Watched<active_ack::Counters, Answering<P, S>> {
        Watched::new(port, &self.active_ack[worker], |port| port.acknowledged().clone())
    }
}

/// A port or stage that shows its counters now and then, and when it ends.
pub(super) struct Watched<T: Clone, P> {
    inner: P,
    slot: Slot<T>,
    look: fn(&mut P) -> T,
    next: Instant,
}

impl<T: Clone, P> Watched<T, P> {
    fn new(inner: P, slot: &Slot<T>, look: fn(&mut P) -> T) -> Self {
        Self { inner, slot: slot.clone(), look, next: Instant::ZERO }
    }

    #[inline]
    fn pass(&mut self, now: Instant) {
        if now >= self.next {
            self.show();
            self.next = now.plus(INTERVAL);
        }
    }

    #[cold]
    fn show(&mut self) {
        self.slot.set((self.look)(&mut self.inner));
    }
}

impl<T: Clone, P> Drop for Watched<T, P> {
    fn drop(&mut self) {
        self.show();
    }
}

impl<B, T: Clone, P: Port<B>> Port<B> for Watched<T, P> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        self.pass(now);
        self.inner.receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        self.pass(now);
        self.inner.transmit(batch, now);
    }
}

impl<B, T: Clone, P: LivePort<B>> LivePort<B> for Watched<T, P> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn counters(&mut self) -> Counters {
        self.inner.counters()
    }

    fn next_due(&self) -> Option<Instant> {
        self.inner.next_due()
    }
}

impl<B, T: Clone, P: Stage<B>> Stage<B> for Watched<T, P> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        self.inner.process(input, now, output);
        self.pass(now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.inner.next_wakeup()
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn held(&self) -> usize {
        self.inner.held()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(visit);
    }
}
