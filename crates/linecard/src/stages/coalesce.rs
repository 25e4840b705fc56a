//! The coalescer as a stage, with optional resequencing before it.

use super::give;
use crate::offload::coalesce::{Coalescer, Config, Counters, Flush, LargePackets, Verdict};
use crate::offload::resequence::{self, Resequencer};
use crate::packet::{Batch, FiveTuple, Packet};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt::Debug;

/// Is told how each packet of a [`Coalesce`] stage merges.
pub trait FlowObserver: Debug + Send {
    /// The flow of a packet, none if its ports are not visible; its bytes of payload; and the result.
    fn decided(&mut self, flow: Option<FiveTuple>, payload: usize, verdict: Verdict);
}

/// Knows what the port behind a [`Coalesce`] stage takes.
pub trait Receiver: Debug + Send {
    /// The large packets that it takes, which may change at any time.
    fn large_packets(&self) -> LargePackets;
}

/// Merges packets (LRO); see [`crate::offload::coalesce`].
#[derive(Debug)]
pub struct Coalesce<B> {
    resequencer: Option<Resequencer<B>>,
    coalescer: Coalescer<B>,
    observer: Option<Box<dyn FlowObserver>>,
    receiver: Option<Box<dyn Receiver>>,
    /// Flushed, but not yet output: at most what both held, and a batch.
    ready: VecDeque<Packet<B>>,
    stopping: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalesce<B> {
    /// A coalescer with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            resequencer: None,
            coalescer: Coalescer::new(config),
            observer: None,
            receiver: None,
            ready: VecDeque::new(),
            stopping: false,
        }
    }

    /// Puts TCP data into sequence before merging; see [`crate::offload::resequence`]. Both hold
    /// packets, each at most for its own budget.
    ///
    /// ```
    /// use linecard::offload::{coalesce, resequence};
    /// use linecard::stage::Stage;
    /// use linecard::stages::Coalesce;
    ///
    /// let stage = Coalesce::new(coalesce::Config::default())
    ///     .resequenced(resequence::Config::default());
    /// assert_eq!(Stage::<Vec<u8>>::held(&stage), 0);
    /// assert!(stage.resequence_counters().is_some());
    /// ```
    #[must_use]
    pub fn resequenced(self, config: resequence::Config) -> Self {
        Self { resequencer: Some(Resequencer::new(config)), ..self }
    }

    /// Tells an observer how each packet merges. Packets are merged one by one then, not as bursts, which takes longer.
    #[must_use]
    pub fn observed(self, observer: Box<dyn FlowObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Merges only what a receiver takes whole; other packets pass as
    /// [`Refusal::NotTaken`](crate::offload::coalesce::Refusal::NotTaken).
    #[must_use]
    pub fn towards(self, receiver: Box<dyn Receiver>) -> Self {
        Self { receiver: Some(receiver), ..self }
    }

    /// The counters of resequencing, if it is enabled.
    #[must_use]
    pub fn resequence_counters(&self) -> Option<&resequence::Counters> {
        self.resequencer.as_ref().map(Resequencer::counters)
    }

    /// The counters of the offload.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        self.coalescer.counters()
    }

    /// Follows what the receiver takes; returns whether packets pass unread now.
    fn passes(&mut self) -> bool {
        let Self { resequencer, coalescer, observer, receiver, ready, .. } = self;
        let Some(receiver) = receiver else { return false };
        let large = receiver.large_packets();
        coalescer.set_large(large, &mut |packet, _| ready.push_back(packet));
        large == LargePackets::NONE
            && resequencer.is_none()
            && observer.is_none()
            && ready.is_empty()
    }

    /// Flushes due packets, of both.
    fn advance(&mut self, now: Instant) {
        let Self { resequencer, coalescer, ready, .. } = self;
        if let Some(resequencer) = resequencer {
            resequencer.advance(now, &mut |packet, _| {
                coalescer.push(packet, now, &mut |packet, _| ready.push_back(packet));
            });
        }
        coalescer.advance(now, &mut |packet, _| ready.push_back(packet));
    }

    /// Takes a batch.
    fn take(&mut self, input: &mut Batch<B>, now: Instant) {
        let Self { resequencer, coalescer, observer, ready, .. } = self;
        let mut out = |packet, _| ready.push_back(packet);
        if resequencer.is_some() || observer.is_some() {
            let mut merge = |packet: Packet<B>| match observer {
                None => _ = coalescer.push_part(packet, now, &mut out),
                Some(observer) => {
                    let flow = FiveTuple::of(packet.layout(), packet.bytes());
                    let payload = packet.payload_len();
                    observer.decided(flow, payload, coalescer.push_part(packet, now, &mut out));
                }
            };
            for packet in input.drain() {
                match resequencer {
                    None => merge(packet),
                    Some(resequencer) => {
                        resequencer.push(packet, now, &mut |packet, _| merge(packet));
                    }
                }
            }
        }
        // Of an empty batch, only the end remains.
        coalescer.push_batch(input, now, &mut out);
    }

    /// Flushes everything, from both.
    fn drain(&mut self, now: Instant) {
        let Self { resequencer, coalescer, ready, .. } = self;
        if let Some(resequencer) = resequencer {
            resequencer.flush_all(&mut |packet, _| {
                coalescer.push(packet, now, &mut |packet, _| ready.push_back(packet));
            });
        }
        coalescer.flush_all(Flush::Stop, &mut |packet, _| ready.push_back(packet));
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Stage<B> for Coalesce<B> {
    fn name(&self) -> &'static str {
        "coalesce"
    }

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        if self.passes() && self.coalescer.pass_all(input, output) {
            return;
        }
        self.advance(now);
        if !give(&mut self.ready, output) {
            return;
        }
        self.take(input, now);
        if self.stopping {
            self.drain(now);
        }
        give(&mut self.ready, output);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::ZERO);
        }
        let resequencer = self.resequencer.as_ref().and_then(Resequencer::next_wakeup);
        [resequencer, self.coalescer.next_wakeup()].into_iter().flatten().min()
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn held(&self) -> usize {
        let resequencer = self.resequencer.as_ref().map_or(0, Resequencer::held);
        resequencer + self.coalescer.held() + self.ready.len()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.coalescer.counters();
        if let Some(resequenced) = self.resequence_counters() {
            visit("resequenced", resequenced.hold_ns.count());
            visit("dropped", resequenced.dropped);
        }
        visit("packets_in", counters.packets_in);
        visit("packets_out", counters.packets_out);
        visit("merged", counters.merged);
        visit("passed", counters.passed);
    }
}
