//! ACK coalescing as a stage.

use super::give;
use crate::offload::ack_filter::{self, Config, Counters};
use crate::packet::{Batch, Packet};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Keeps the newest of consecutive acknowledgments of a flow; see [`crate::offload::ack_filter`].
///
/// ```
/// use linecard::offload::ack_filter::Config;
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::stage::Stage;
/// use linecard::stages::AckFilter;
/// use linecard::time::Instant;
///
/// let mut stage = AckFilter::new(Config::default());
/// let (mut input, mut output) = (Batch::new(), Batch::new());
/// let _fits = input.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default()));
/// stage.process(&mut input, Instant::ZERO, &mut output);
/// assert_eq!((output.len(), stage.held()), (1, 0));
/// ```
#[derive(Debug)]
pub struct AckFilter<B> {
    filter: ack_filter::AckFilter<B>,
    /// Flushed, but not yet output: at most what was held, plus one.
    ready: VecDeque<Packet<B>>,
    stopping: bool,
}

impl<B: AsRef<[u8]>> AckFilter<B> {
    /// A filter with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let filter = ack_filter::AckFilter::new(config);
        Self { filter, ready: VecDeque::new(), stopping: false }
    }

    /// The counters of the offload.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        self.filter.counters()
    }
}

impl<B: AsRef<[u8]>> Stage<B> for AckFilter<B> {
    fn name(&self) -> &'static str {
        "ack-filter"
    }

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        let Self { filter, ready, stopping } = self;
        filter.advance(now, &mut |packet, _| ready.push_back(packet));
        loop {
            if !give(ready, output) {
                return;
            }
            match input.pop() {
                Some(packet) => {
                    filter.push(packet, now, &mut |packet, _| ready.push_back(packet));
                }
                None if *stopping && filter.held() > 0 => {
                    filter.flush_all(&mut |packet, _| ready.push_back(packet));
                }
                None => return,
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.filter.next_wakeup() } else { Some(Instant::ZERO) }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn held(&self) -> usize {
        self.filter.held() + self.ready.len()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.filter.counters();
        visit("packets_in", counters.packets_in);
        visit("packets_out", counters.packets_out);
        visit("kept", counters.kept.total());
        visit("dropped", counters.dropped);
    }
}
