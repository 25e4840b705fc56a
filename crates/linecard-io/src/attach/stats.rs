//! Statistics that threads publish several times a second, without waiting for each other.

use super::answer::Answering;
use super::delay::Delayed;
use crate::engine::{Gather, GatherCounters, Spread, SpreadCounters, ThreadTime};
use crate::flows::TopFlows;
use crate::port::{LivePort, left_to};
use linecard::offload::coalesce::LargePackets;
use linecard::offload::coalesce::Verdict;
use linecard::offload::{active_ack, coalesce, resequence};
use linecard::packet::{Batch, FiveTuple};
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, FlowObserver, Receiver};
use linecard::stats::Histogram;
use linecard::time::Instant;
use linecard_tun::interface::InterfaceCounters;
use linecard_tun::{Buffers, Counters};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval of publication.
const INTERVAL: Duration = Duration::from_millis(50);

/// Statistics of an attachment, per worker where each has its own. Threads publish them every 50
/// ms, and when they end.
#[derive(Debug, Clone, Default)]
pub struct AttachStats {
    /// Counters of the near port, or of each worker's.
    pub near: Vec<Counters>,
    /// Counters of the far port, or of each worker's.
    pub far: Vec<Counters>,
    /// Nanoseconds that packets were inside before the near port transmitted them: from their
    /// reception, or that of the first one of a merged packet. A packet socket's reception is the
    /// kernel's. Empty where packets come from a capture or go to one.
    pub near_delay_ns: Histogram,
    /// The same for the far port.
    pub far_delay_ns: Histogram,
    /// Time of each thread that has a near port.
    pub near_threads: Vec<ThreadTime>,
    /// Merging from the near port to the far one, per worker.
    pub ingress: Vec<MergeStats>,
    /// Merging from the far port to the near one, per worker.
    pub egress: Vec<MergeStats>,
    /// Packets distributed to workers over rings.
    pub spread: SpreadCounters,
    /// Packets collected from their rings.
    pub gather: GatherCounters,
    /// Acknowledgments sent on behalf of receivers.
    pub active_ack: active_ack::Counters,
}

/// Access to the [`AttachStats`] of an attachment from any thread, also after its end.
#[derive(Debug, Clone)]
pub struct AttachStatsHandle(pub(super) Arc<SharedStats>);

impl AttachStatsHandle {
    /// The statistics as published, at most about 50 ms old.
    #[must_use]
    pub fn now(&self) -> AttachStats {
        self.0.account()
    }

    /// The largest flows of all packets that were to be merged, if they are counted
    /// ([`Settings::flows`](super::Settings::flows)). Threads wait while theirs are read.
    #[must_use]
    pub fn flows(&self) -> TopFlows {
        let mut sum = TopFlows::default();
        let all = self.0.ingress_flows.iter().chain(&self.0.egress_flows);
        all.for_each(|slot| sum.add(&slot.0.lock().unwrap_or_else(PoisonError::into_inner)));
        sum
    }
}

/// Merging by one worker.
#[derive(Debug, Clone, Default)]
pub struct MergeStats {
    /// Counters of the coalescer.
    pub coalesce: coalesce::Counters,
    /// Counters of resequencing, if enabled.
    pub resequence: Option<resequence::Counters>,
    /// Packets held now.
    pub held: u64,
}

/// Packets and bytes through one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerTotals {
    /// Packets received.
    pub packets_in: u64,
    /// Packets that left, merged ones counted once.
    pub packets_out: u64,
    /// Bytes of frames received; with rings, of those that reached the coalescer.
    pub bytes_in: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Sums over workers, and values per worker.
impl AttachStats {
    /// The sum over ports.
    #[must_use]
    pub fn total(ports: &[Counters]) -> Counters {
        ports.iter().fold(Counters::default(), |sum, port| sum.plus(port))
    }

    /// The totals of one worker in the direction from near to far: from its rings, or from its own
    /// ports if there are none.
    #[must_use]
    pub fn of_worker(&self, number: usize) -> WorkerTotals {
        let ring = |counts: &[u64]| counts.get(number).copied().unwrap_or(0);
        let port = |ports: &[Counters]| ports.get(number).copied().unwrap_or_default();
        if self.has_rings() {
            return WorkerTotals {
                packets_in: ring(&self.spread.packets),
                packets_out: ring(&self.gather.packets),
                bytes_in: self.ingress.get(number).map_or(0, |way| way.coalesce.bytes_in),
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

    /// Whether workers are fed by rings.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        !self.spread.packets.is_empty()
    }

    /// The sum over workers of one direction.
    #[must_use]
    pub fn merged(workers: &[MergeStats]) -> coalesce::Counters {
        let mut sum = coalesce::Counters::default();
        workers.iter().for_each(|worker| sum.add(&worker.coalesce));
        sum
    }
}

/// Published value of one thread.
#[derive(Debug, Clone, Default)]
struct Slot<T>(Arc<Mutex<T>>);

impl<T: Clone> Slot<T> {
    fn get(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the lock, which a reader holds only to copy a few kilobytes.
    fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl FlowObserver for Slot<TopFlows> {
    /// Takes the lock, which another thread holds only while flows are listed.
    fn decided(&mut self, flow: Option<FiveTuple>, payload: usize, verdict: Verdict) {
        if let Some(flow) = flow {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).count(flow, payload, verdict);
        }
    }
}

/// The large packets that the port at a side takes, as its thread found last: bits of those that it does not.
#[derive(Debug, Clone, Default)]
struct Refused(Arc<AtomicU8>);

impl Refused {
    fn set(&self, large: LargePackets) {
        self.0.store(!large.bits(), Ordering::Relaxed);
    }
}

impl Receiver for Refused {
    fn large_packets(&self) -> LargePackets {
        LargePackets::from_bits(!self.0.load(Ordering::Relaxed))
    }
}

/// Published values of all threads.
#[derive(Debug, Default)]
pub(super) struct SharedStats {
    /// Of the near port, and of the far one.
    refused: [Refused; 2],
    near: Vec<Slot<Counters>>,
    far: Vec<Slot<Counters>>,
    near_delay_ns: Vec<Slot<Histogram>>,
    far_delay_ns: Vec<Slot<Histogram>>,
    near_threads: Vec<Slot<ThreadTime>>,
    ingress: Vec<Slot<MergeStats>>,
    egress: Vec<Slot<MergeStats>>,
    ingress_flows: Vec<Slot<TopFlows>>,
    egress_flows: Vec<Slot<TopFlows>>,
    spread: Slot<SpreadCounters>,
    gather: Slot<GatherCounters>,
    active_ack: Vec<Slot<active_ack::Counters>>,
    unread: Mutex<Vec<Unread>>,
}

/// Packets of the host that no thread has read from a TUN or TAP device before its queue was full. The
/// kernel counts them for all queues together.
#[derive(Debug)]
struct Unread {
    side: Side,
    device: String,
    /// None without `/proc`: nothing is counted then.
    counters: Option<InterfaceCounters>,
    before: u64,
    latest: u64,
}

impl Unread {
    /// From now on. Threads that may open no files count them, too.
    fn new(side: Side, device: &str) -> Self {
        let counters = InterfaceCounters::open().ok();
        let mut unread = Self { side, device: device.to_owned(), counters, before: 0, latest: 0 };
        unread.before = unread.now().unwrap_or(0);
        unread.latest = unread.before;
        unread
    }

    fn now(&self) -> Option<u64> {
        self.counters.as_ref()?.unsent(&self.device).ok()
    }

    /// Packets since it was made; as many as last time if the device is gone.
    fn count(&mut self) -> u64 {
        self.latest = self.now().unwrap_or(self.latest);
        self.latest.saturating_sub(self.before)
    }
}

/// One of two: the near or the far port, or the corresponding direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Near,
    Far,
}

impl SharedStats {
    /// For the given number of pairs of ports, workers and return paths.
    pub(super) fn new(ports: usize, workers: usize) -> Self {
        fn slots<T: Default>(count: usize) -> Vec<Slot<T>> {
            (0..count).map(|_| Slot::default()).collect()
        }
        Self {
            near: slots(ports),
            far: slots(ports),
            near_delay_ns: slots(ports),
            far_delay_ns: slots(ports),
            near_threads: slots(ports),
            ingress: slots(workers),
            egress: slots(ports),
            ingress_flows: slots(workers),
            egress_flows: slots(ports),
            active_ack: slots(ports),
            ..Self::default()
        }
    }

    pub(super) fn account(&self) -> AttachStats {
        fn all<T: Clone>(slots: &[Slot<T>]) -> Vec<T> {
            slots.iter().map(Slot::get).collect()
        }
        let sum = |slots: &[Slot<Histogram>]| {
            let mut sum = Histogram::default();
            slots.iter().for_each(|slot| sum.add(&slot.get()));
            sum
        };
        let mut active_ack = active_ack::Counters::default();
        self.active_ack.iter().for_each(|slot| active_ack.add(&slot.get()));
        let (mut near, mut far) = (all(&self.near), all(&self.far));
        for unread in self.unread.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let ports = if unread.side == Side::Near { &mut near } else { &mut far };
            // Of the first worker's port, since the kernel does not say of which.
            ports.iter_mut().take(1).for_each(|port| port.dropped.ring_full += unread.count());
        }
        AttachStats {
            near,
            far,
            near_delay_ns: sum(&self.near_delay_ns),
            far_delay_ns: sum(&self.far_delay_ns),
            near_threads: all(&self.near_threads),
            ingress: all(&self.ingress),
            egress: all(&self.egress),
            spread: self.spread.get(),
            gather: self.gather.get(),
            active_ack,
        }
    }

    /// From now on counts packets that are not read from this device.
    pub(super) fn watch_queue(&self, side: Side, device: &str) {
        let unread = Unread::new(side, device);
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).push(unread);
    }

    /// A worker's port that publishes its counters.
    pub(super) fn port<B, P: LivePort<B>>(
        &self,
        side: Side,
        worker: usize,
        port: P,
    ) -> Watched<Counters, P> {
        let slots = if side == Side::Near { &self.near } else { &self.far };
        let refused = self.refused[usize::from(side == Side::Far)].clone();
        refused.set(port.large_packets());
        Watched::new(port, &slots[worker], move |port: &mut P| {
            refused.set(port.large_packets());
            port.counters()
        })
    }

    /// A worker's near port that publishes the time of its thread.
    pub(super) fn timed<P>(&self, worker: usize, port: P) -> Watched<ThreadTime, P> {
        Watched::new(port, &self.near_threads[worker], |_| ThreadTime::current())
    }

    /// A worker's port that records and publishes the delay of what it transmits.
    pub(super) fn delayed<B, P: LivePort<B>>(
        &self,
        side: Side,
        worker: usize,
        port: P,
    ) -> Watched<Histogram, Delayed<P>> {
        let slots = if side == Side::Near { &self.near_delay_ns } else { &self.far_delay_ns };
        Watched::new(Delayed::new(port), &slots[worker], |port| port.delay_ns().clone())
    }

    /// A worker's merging stage that publishes its counters; near for packets from the near port.
    pub(super) fn stage<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        from: Side,
        worker: usize,
        stage: Coalesce<B>,
    ) -> Watched<MergeStats, Coalesce<B>> {
        let slots = if from == Side::Near { &self.ingress } else { &self.egress };
        // The port that it sends to is at the other side.
        let refused = &self.refused[usize::from(from == Side::Near)];
        let stage = stage.towards(Box::new(refused.clone()));
        Watched::new(stage, &slots[worker], |stage| MergeStats {
            coalesce: stage.offload_counters().clone(),
            resequence: stage.resequence_counters().cloned(),
            held: stage.held() as u64,
        })
    }

    /// Counts the packets of a worker's merging stage by flow.
    pub(super) fn flows(&self, from: Side, worker: usize) -> Box<dyn FlowObserver> {
        let slots = if from == Side::Near { &self.ingress_flows } else { &self.egress_flows };
        Box::new(slots[worker].clone())
    }

    pub(super) fn spread<B>(&self, spread: Spread<B>) -> Watched<SpreadCounters, Spread<B>> {
        Watched::new(spread, &self.spread, |spread| spread.counters().clone())
    }

    pub(super) fn gather<B>(&self, gather: Gather<B>) -> Watched<GatherCounters, Gather<B>> {
        Watched::new(gather, &self.gather, |gather| gather.counters().clone())
    }

    /// A worker's near port with active acknowledgment that publishes its counters.
    pub(super) fn answering<P: LivePort<S::Buffer>, S: Buffers>(
        &self,
        worker: usize,
        port: Answering<P, S>,
    ) -> Watched<active_ack::Counters, Answering<P, S>> {
        Watched::new(port, &self.active_ack[worker], |port| port.acknowledged().clone())
    }
}

/// A port or stage that publishes its counters regularly and when it ends.
pub(super) struct Watched<T: Clone, P> {
    inner: P,
    slot: Slot<T>,
    look: Box<dyn Fn(&mut P) -> T>,
    next: Instant,
}

impl<T: Clone, P> Watched<T, P> {
    fn new(inner: P, slot: &Slot<T>, look: impl Fn(&mut P) -> T + 'static) -> Self {
        Self { inner, slot: slot.clone(), look: Box::new(look), next: Instant::ZERO }
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
    left_to!(inner: large_packets, is_crowded, descriptor, counters, next_due);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights;
    use std::thread;

    #[test]
    fn what_nobody_read_counts_even_when_the_device_is_gone() {
        let stats = SharedStats::new(2, 2);
        let unread = |side, before| Unread { before, latest: 5, ..Unread::new(side, "lc-none") };
        let all = vec![unread(Side::Near, 4), unread(Side::Far, 2)];
        *stats.unread.lock().expect("nobody panicked") = all;
        let account = stats.account();
        let lost =
            |ports: &[Counters]| ports.iter().map(|p| p.dropped.ring_full).collect::<Vec<_>>();
        assert_eq!((lost(&account.near), lost(&account.far)), (vec![1, 0], vec![3, 0]));
    }

    /// The thread of the metrics is one.
    #[test]
    fn a_thread_that_may_open_no_files_counts_what_nobody_read() {
        let confined = || {
            let unread = Unread::new(Side::Near, "lo");
            if !rights::confine(&[]).expect("it is confined") {
                linecard_testkit::skip("Landlock", "the kernel has none");
                return;
            }
            let opened = InterfaceCounters::open().expect_err("it is forbidden");
            assert_eq!(opened.kind(), std::io::ErrorKind::PermissionDenied);
            assert_eq!(unread.now(), Some(0), "loopback has no queue that overflows");
        };
        thread::spawn(confined).join().expect("it does not panic");
    }

    /// Writers on threads of their own, and a reader at the same time: totals only grow, and are exact at the end.
    #[test]
    fn totals_are_exact_when_all_have_published() {
        const WORKERS: usize = 3;
        const EACH: u64 = 300;
        let stats = AttachStatsHandle(Arc::new(SharedStats::new(WORKERS, WORKERS)));
        let flow = FiveTuple {
            source: ([192, 0, 2, 1], 1).into(),
            destination: ([192, 0, 2, 2], 2).into(),
            protocol: 6,
        };
        let write = |worker: usize| {
            let (port, mut flows) = (&stats.0.near[worker], stats.0.flows(Side::Near, worker));
            let mut counters = Counters::default();
            for received in 1..=EACH {
                counters.received = received;
                port.set(counters);
                flows.decided(Some(flow), 100, Verdict::Merged);
            }
        };
        let received = || AttachStats::total(&stats.now().near).received;
        thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WORKERS).map(|worker| scope.spawn(move || write(worker))).collect();
            let mut before = 0;
            while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
                let now = received();
                assert!(before <= now, "{before} became {now}");
                before = now;
                drop(stats.flows());
            }
        });
        assert_eq!(received(), WORKERS as u64 * EACH);
        let flows = stats.flows();
        let (_, counts) = flows.largest(1)[0];
        let all = WORKERS as u64 * EACH;
        assert_eq!((counts.packets, counts.merged, counts.bytes), (all, all, all * 100));
    }
}
