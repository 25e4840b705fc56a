//! The coalescer as a stage.

use crate::offload::coalesce::{Coalescer, Config, Counters, Flush};
use crate::packet::{Batch, Packet};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Merges packets (LRO); see [`crate::offload::coalesce`].
#[derive(Debug)]
pub struct Coalesce<B> {
    coalescer: Coalescer<B>,
    /// Let go, but not yet taken: at most what was held, plus one.
    ready: VecDeque<Packet<B>>,
    stopping: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalesce<B> {
    /// A coalescer with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { coalescer: Coalescer::new(config), ready: VecDeque::new(), stopping: false }
    }

    /// What it has done.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        self.coalescer.counters()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Stage<B> for Coalesce<B> {
    fn name(&self) -> &'static str {
        "coalesce"
    }

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        let Self { coalescer, ready, stopping } = self;
        coalescer.advance(now, &mut |packet, _| ready.push_back(packet));
        loop {
            while let Some(packet) = ready.pop_front() {
                if let Err(packet) = output.push(packet) {
                    ready.push_front(packet);
                    return;
                }
            }
            let Some(packet) = input.pop() else { break };
            coalescer.push(packet, now, &mut |packet, _| ready.push_back(packet));
        }
        if coalescer.config().flush_at_batch_end {
            coalescer.flush_all(Flush::BatchEnd, &mut |packet, _| ready.push_back(packet));
        }
        if *stopping {
            coalescer.flush_all(Flush::Stop, &mut |packet, _| ready.push_back(packet));
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.coalescer.next_wakeup() } else { Some(Instant::ZERO) }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn held(&self) -> usize {
        self.coalescer.held() + self.ready.len()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.coalescer.counters();
        visit("packets_in", counters.packets_in);
        visit("packets_out", counters.packets_out);
        visit("merged", counters.merged);
        visit("passed", counters.passed);
    }
}
