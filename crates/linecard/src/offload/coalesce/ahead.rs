//! Prefetches the data that a batch's packets need, for flow counts beyond the nearest caches, and finds which packets
//! are of one flow: the flow table is read once for all of them, and a packet that the next one shows to stay alone
//! takes no place in it.

use super::arrivals::Arrivals;
use super::candidate::{Candidate, MIN_FRAME, ends};
use super::ids::{FlowId, SlotId};
use super::reason::Flush;
use super::successor::Successor;
use super::{Coalescer, Exit, admit, merge};
use crate::packet::{BATCH, Packet, is_apart, prefetch_header, prefetch_value};
use core::hint::select_unpredictable;

/// With more flows than this, a batch's table entries are prefetched before it is processed: with few in every second
/// secret of a debug build, so that twins and fuzzing compare both ways.
pub(super) const fn few_flows(secret: u64) -> usize {
    if cfg!(debug_assertions) && secret & 1 == 1 { 3 } else { 512 }
}

/// Places for the last packet seen of a flow: so many that few flows of a batch share one.
const LINKS: usize = 512;

const _: () = assert!(BATCH <= u64::BITS as usize && BATCH <= u8::MAX as usize);

/// Findings about a packet's flow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) hash: Option<u64>,
    /// The flow's place at that time, and the place of what it held.
    pub(super) flow: Option<FlowId>,
    pub(super) held: Option<SlotId>,
    /// It passes whatever its flow holds, because it carries no data.
    pub(super) is_empty: bool,
    /// The next packet of its flow, if it is known, and no packet whose flow is not visible lies between; else 0.
    pub(super) next: u8,
}

/// Findings about the flows of a batch's packets.
#[derive(Debug)]
pub(super) struct Ahead {
    known: [Known; BATCH],
    /// The earliest packet so far of each flow, by its hash, as the batch is walked from its end; 0 for none.
    links: [u8; LINKS],
}

impl Ahead {
    pub(super) fn new() -> Self {
        let known = Known { hash: None, flow: None, held: None, is_empty: false, next: 0 };
        Self { known: [known; BATCH], links: [0; LINKS] }
    }

    /// The finding about a packet.
    #[inline(always)]
    pub(super) fn of(&self, index: usize) -> Known {
        self.known.get(index).copied().unwrap_or_default()
    }

    /// Tells the next packet of a flow, if it is known, where the flow is and what it holds. Otherwise `next` is 0: that
    /// entry is of the first packet, and is not read again.
    #[inline(always)]
    pub(super) fn tell_next(&mut self, known: Known, held: Option<SlotId>) {
        let next = &mut self.known[usize::from(known.next) % BATCH];
        (next.flow, next.held) = (known.flow, held);
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Prefetches what the packets of a batch need, all at once: their flows' places, then the data
    /// held there, then its headers. Returns whether there are enough flows for it to be of use.
    #[inline(always)]
    pub(super) fn look_ahead<A: Arrivals<B>>(&mut self, arrivals: &mut A) -> bool {
        let many = self.table.used() > self.few_flows;
        // Frames close behind each other are prefetched by the hardware.
        let pair = arrivals.bytes(0).zip(arrivals.bytes(1));
        if many || pair.is_some_and(|(first, second)| is_apart(first, second)) {
            for index in 0..arrivals.len().min(BATCH) {
                arrivals.bytes(index).into_iter().for_each(prefetch_header);
            }
        }
        if many {
            self.fetch_ahead(arrivals);
        }
        many
    }

    #[inline(never)]
    fn fetch_ahead<A: Arrivals<B>>(&mut self, arrivals: &mut A) {
        let Self { ahead, table, held, hasher, recent, .. } = self;
        let Ahead { known: all, links } = &mut **ahead;
        links.fill(0);
        let count = arrivals.len().min(BATCH);
        // Packets that no other one is before; and the first of those looked at whose flow is not known.
        let (mut firsts, mut barrier) = (0_u64, BATCH);
        let shown = |arrivals: &A, index: usize| {
            let bytes = arrivals.bytes(index).unwrap_or_default();
            (bytes.len() as u64) << 32 | u64::from(recent.ports_of(bytes).unwrap_or_default())
        };
        let mut this = shown(arrivals, count.saturating_sub(1));
        for index in (0..count).rev() {
            let before = if index == 0 { 0 } else { shown(arrivals, index - 1) };
            let goes_on = (this == before) & (this >> 32 > MIN_FRAME as u64);
            this = before;
            let known = &mut all[index];
            *known = Known::default();
            if !goes_on {
                (known.hash, known.is_empty) = arrivals.flow(index, hasher);
            }
            // Of the same ports and length, it usually continues the one before, which takes no hash.
            let Some(hash) = known.hash else {
                barrier = index;
                continue;
            };
            let link = &mut links[hash as usize % LINKS];
            let next = core::mem::replace(link, index as u8);
            // Without a branch, which could hardly be predicted.
            let other = all[usize::from(next) % BATCH].hash.unwrap_or(!hash);
            let is_next = (next != 0) & (usize::from(next) < barrier) & (other == hash);
            all[index].next = select_unpredictable(is_next, next, 0);
            firsts = (firsts | 1 << index) & !(u64::from(is_next) << (next % 64));
            table.prefetch(hash);
        }
        let mut left = firsts;
        while left != 0 {
            let known = &mut all[left.trailing_zeros() as usize % BATCH];
            left &= left - 1;
            known.flow = known.hash.and_then(|hash| table.find(hash));
            known.held = known.flow.and_then(|flow| table.held(flow));
            known.held.iter().for_each(|slot| prefetch_value(held.get(*slot)));
        }
        while firsts != 0 {
            let known = &all[firsts.trailing_zeros() as usize % BATCH];
            firsts &= firsts - 1;
            let packet = known.held.and_then(|slot| held.get(slot).packet.as_ref());
            packet.iter().for_each(|packet| Packet::prefetch_to_grow(packet));
        }
    }

    /// Lets the first packet leave if its flow, whose place is known, holds nothing, and the next packet of the flow, so many
    /// behind, does not join it: so it takes no place. False if more has to be known.
    #[inline(never)]
    pub(super) fn leave_before<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        (known, behind): (&mut Known, usize),
        arrivals: &mut A,
        out: &mut F,
    ) -> bool {
        let holds = known.flow.is_some_and(|flow| self.table.held(flow).is_some());
        if holds || self.examines_at_once() || !self.patient {
            return false;
        }
        let Some(packet) = arrivals.view(0).filter(|packet| self.may_merge(packet)) else {
            return false;
        };
        let reason = if ends(packet.bytes(), packet.layout()) {
            Flush::EndFlag
        } else if self.ahead.of(known.next.into()).is_empty {
            Flush::Bypass
        } else {
            let successor = Successor::of((packet.layout(), packet.bytes()));
            let Some(next) = arrivals.view(behind) else { return false };
            let is_longer = next.layout().payload_len() > packet.layout().payload_len();
            if successor.may_be(next.bytes()) && !is_longer || !self.may_merge(&next) {
                return false;
            }
            let first = (&packet, successor.sequence());
            let Some(refusal) = merge::obstacle(&mut self.hasher, first, &next) else {
                return false;
            };
            self.counters.refused.count(refusal);
            admit::flush_of(refusal)
        };
        let hash = known.hash.unwrap_or_default();
        known.flow = self.flow_of((hash, known.flow), None, out);
        let Some(packet) = arrivals.take() else { return false };
        let len = packet.bytes().len();
        self.counters.received(len);
        self.counters.flushed(reason, 1, 0);
        self.counters.sent(len);
        out(packet, Exit::Flushed(reason));
        true
    }

    /// Whether a packet may merge as far as it shows without its checksums.
    #[inline(always)]
    fn may_merge<T: AsRef<[u8]>>(&self, packet: &Packet<T>) -> bool {
        self.large.has(packet.layout()) && Candidate::look(packet, &self.config).is_ok()
    }
}
