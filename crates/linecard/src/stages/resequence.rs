//! Resequencing as a stage.

use super::give;
use crate::offload::resequence::{Config, Counters, Resequencer};
use crate::packet::{Batch, Packet};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Emits TCP data in sequence; see [`crate::offload::resequence`]. Before
/// [`Coalesce`](super::Coalesce) it makes reordered data mergeable.
///
/// ```
/// use linecard::offload::{coalesce, resequence};
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::pipeline::Chain;
/// use linecard::stage::Stage;
/// use linecard::stages::{Coalesce, Resequence};
/// use linecard::time::Instant;
///
/// let resequence = Resequence::new(resequence::Config::default());
/// let mut chain = Chain::new(resequence, Coalesce::new(coalesce::Config::default()));
/// let (mut input, mut output) = (Batch::new(), Batch::new());
/// let _fits = input.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default()));
/// chain.process(&mut input, Instant::ZERO, &mut output);
/// assert_eq!((output.len(), chain.held()), (1, 0));
/// ```
#[derive(Debug)]
pub struct Resequence<B> {
    resequencer: Resequencer<B>,
    /// Flushed, but not yet output: at most what was held, plus one.
    ready: VecDeque<Packet<B>>,
    stopping: bool,
}

impl<B: AsRef<[u8]>> Resequence<B> {
    /// Resequencing with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let resequencer = Resequencer::new(config);
        Self { resequencer, ready: VecDeque::new(), stopping: false }
    }

    /// The counters of the offload.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        self.resequencer.counters()
    }
}

impl<B: AsRef<[u8]>> Stage<B> for Resequence<B> {
    fn name(&self) -> &'static str {
        "resequence"
    }

    through_queue!(resequencer);

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.resequencer.counters();
        visit("packets_in", counters.packets_in);
        visit("packets_out", counters.packets_out);
        visit("held", counters.hold_ns.count());
        visit("gaps_filled", counters.released.of(crate::offload::resequence::Release::Filled));
        visit("dropped", counters.dropped);
    }
}
