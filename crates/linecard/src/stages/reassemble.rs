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

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        let Self { reassembler, ready, stopping } = self;
        reassembler.advance(now, &mut |packet, _| ready.push_back(packet));
        loop {
            if !give(ready, output) {
                return;
            }
            match input.pop() {
                Some(packet) => {
                    reassembler.push(packet, now, &mut |packet, _| ready.push_back(packet));
                }
                None if *stopping && reassembler.held() > 0 => {
                    reassembler.flush_all(&mut |packet, _| ready.push_back(packet));
                }
                None => return,
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.reassembler.next_wakeup() } else { Some(Instant::ZERO) }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn held(&self) -> usize {
        self.reassembler.held() + self.ready.len()
    }

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
