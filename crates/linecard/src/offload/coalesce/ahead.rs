//! Prefetches the data that a batch's packets need, for flow counts beyond the nearest caches.

use super::Coalescer;
use super::arrivals::Arrivals;
use super::ids::{FlowId, SlotId};
use crate::packet::{BATCH, Packet, is_apart, prefetch_header, prefetch_value};

/// With more flows than this, a batch's table entries are prefetched before it is processed.
const FEW_FLOWS: usize = 512;

/// What is known of a packet's flow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) hash: Option<u64>,
    /// The flow's place at that time, and the place of what it held.
    pub(super) flow: Option<FlowId>,
    pub(super) held: Option<SlotId>,
    /// It passes whatever its flow holds, because it carries no data.
    pub(super) is_empty: bool,
}

/// What is known of the flows of a batch's packets.
pub(super) struct Ahead {
    known: [Known; BATCH],
}

impl Ahead {
    /// What is known of a packet.
    #[inline(always)]
    pub(super) fn of(&self, index: usize) -> Known {
        self.known.get(index).copied().unwrap_or_default()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Prefetches what the packets of a batch need, all at once: their flows' places, then the data
    /// held there, then its headers.
    #[inline(always)]
    pub(super) fn look_ahead<A: Arrivals<B>>(&mut self, arrivals: &mut A) -> Option<Ahead> {
        let many = self.table.used() > FEW_FLOWS;
        // Frames close behind each other are prefetched by the hardware.
        let pair = arrivals.bytes(0).zip(arrivals.bytes(1));
        if many || pair.is_some_and(|(first, second)| is_apart(first, second)) {
            for index in 0..arrivals.len().min(BATCH) {
                arrivals.bytes(index).into_iter().for_each(prefetch_header);
            }
        }
        many.then(|| self.fetch_ahead(arrivals))
    }

    #[inline(never)]
    fn fetch_ahead<A: Arrivals<B>>(&mut self, arrivals: &mut A) -> Ahead {
        let mut ahead = Ahead { known: [Known::default(); BATCH] };
        let count = arrivals.len().min(BATCH);
        let mut before = None;
        for (index, known) in ahead.known[..count].iter_mut().enumerate() {
            let ports = arrivals.bytes(index).and_then(|bytes| self.recent.ports_of(bytes));
            if ports == core::mem::replace(&mut before, ports) {
                // It usually continues the one before, which takes no hash.
                continue;
            }
            (known.hash, known.is_empty) = arrivals.flow(index, &mut self.hasher);
            known.hash.iter().for_each(|hash| self.table.prefetch(*hash));
        }
        for known in &mut ahead.known[..count] {
            known.flow = known.hash.and_then(|hash| self.table.find(hash));
            known.held = known.flow.and_then(|flow| self.table.held(flow));
            known.held.iter().for_each(|slot| prefetch_value(self.held.get(*slot)));
        }
        for slot in ahead.known[..count].iter().filter_map(|known| known.held) {
            self.held.get(slot).packet.iter().for_each(Packet::prefetch_to_grow);
        }
        ahead
    }
}
