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

    through_queue!(filter);

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.filter.counters();
        visit("packets_in", counters.packets_in);
        visit("packets_out", counters.packets_out);
        visit("kept", counters.kept.total());
        visit("dropped", counters.dropped);
    }
}
