//! IP reassembly as a stage.

use super::give;
use crate::offload::reassemble::{Config, Counters, Reassembler};
use crate::packet::{Batch, LinkType, Packet};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Reassembles IP fragments; see [`crate::offload::reassemble`]. Other packets pass at once. Before
/// [`Coalesce`](super::Coalesce) it makes ports and payload visible to that stage.
///
/// ```
/// use linecard::offload::reassemble::Config;
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::stage::Stage;
/// use linecard::stages::Reassemble;
/// use linecard::time::Instant;
///
/// let mut stage = Reassemble::new(LinkType::Ethernet, Config::default());
/// let (mut input, mut output) = (Batch::new(), Batch::new());
/// let _fits = input.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default()));
/// stage.process(&mut input, Instant::ZERO, &mut output);
/// assert_eq!((output.len(), stage.held()), (1, 0));
/// ```
#[derive(Debug)]
pub struct Reassemble<B> {
    reassembler: Reassembler<B>,
    /// Flushed, but not yet output: at most what was held, plus one.
    ready: VecDeque<Packet<B>>,
    stopping: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Reassemble<B> {
    /// Reassembly of frames of `link` with this configuration.
    #[must_use]
    pub fn new(link: LinkType, config: Config) -> Self {
        let reassembler = Reassembler::new(link, config);
        Self { reassembler, ready: VecDeque::new(), stopping: false }
    }

    /// The counters of the offload.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        self.reassembler.counters()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Stage<B> for Reassemble<B> {
    fn name(&self) -> &'static str {
        "reassemble"
    }

    through_queue!(reassembler);

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.reassembler.counters();
        visit("packets_in", counters.packets_in);
        visit("packets_out", counters.packets_out);
        visit("reassembled", counters.reassembled);
        visit("given_up", counters.given_up.total());
        visit("released", counters.released);
        visit("dropped", counters.dropped);
    }
}
