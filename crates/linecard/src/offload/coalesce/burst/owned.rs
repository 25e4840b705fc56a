//! The packets of a burst that the coalescer owns: packets, or frames that share their metadata.

use super::flows::{Look, look_at_frame};
use super::store::{AllAlone, Alone, Chain, Store};
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::{Source, Trust, parse_frame, visible_flow_of};
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::offload::coalesce::{Coalescer, Counters, Exit};
use crate::packet::{FlowHasher, Layout, LinkType, Meta, Packet, Piece};
use alloc::vec::Vec;

/// The output for packets.
pub(in crate::offload::coalesce) struct Way<'a, B, F> {
    pub(in crate::offload::coalesce) counters: &'a mut Counters,
    /// Emptied lists for merged packets.
    pub(in crate::offload::coalesce) chains: &'a mut Vec<Vec<Piece<B>>>,
    pub(in crate::offload::coalesce) out: &'a mut F,
    /// Packets that have left alone, and their bytes.
    pub(in crate::offload::coalesce) alone: AllAlone,
    pub(in crate::offload::coalesce) alone_bytes: u64,
    /// Merged packets that have left.
    pub(in crate::offload::coalesce) merged: u64,
}

/// Counts packets that left alone, all at once: at the end of the burst, or when the caller's function panics.
impl<B, F> Drop for Way<'_, B, F> {
    fn drop(&mut self) {
        let counters = &mut *self.counters;
        // Nothing was held.
        counters.hold_ns.record_n(0, self.merged);
        counters.bytes_in += self.alone_bytes;
        counters.bytes_out += self.alone_bytes;
        for (alone, packets) in self.alone.counts() {
            counters.packets_in += packets;
            counters.packets_out += packets;
            let refusal = alone.refusal();
            refusal.into_iter().for_each(|of| counters.refused.count_n(of, packets));
            match alone.exit() {
                Exit::Passed(refusal) => {
                    counters.refused.count_n(refusal, packets);
                    counters.passed += packets;
                }
                Exit::Flushed(reason) => {
                    counters.flushed.count_n(reason, packets);
                    counters.segments.record_n(1, packets);
                    counters.hold_ns.record_n(0, packets);
                }
            }
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, F: FnMut(Packet<B>, Exit)> Way<'_, B, F> {
    #[inline(always)]
    fn leave(&mut self, packet: Packet<B>, exit: Exit) {
        let bytes = packet.bytes().len();
        self.counters.received(bytes);
        self.counters.sent(bytes);
        match exit {
            Exit::Passed(refusal) => {
                self.counters.refused.count(refusal);
                self.counters.passed += 1;
            }
            Exit::Flushed(reason) => self.counters.flushed(reason, 1, 0),
        }
        (self.out)(packet, exit);
    }

    #[inline(always)]
    fn leave_alone(&mut self, packet: Packet<B>, reason: Alone) {
        self.alone_bytes += packet.bytes().len() as u64;
        self.alone.count(reason);
        (self.out)(packet, reason.exit());
    }

    #[inline(always)]
    fn leave_merged(
        &mut self,
        mut first: Packet<B>,
        pieces: impl Iterator<Item = Piece<B>>,
        (aggregate, reason): (&Aggregate, Flush),
    ) {
        aggregate.patch(&mut first);
        let mut chain = Coalescer::spare_chain(self.chains);
        chain.reserve(usize::from(aggregate.grown.count));
        chain.extend(pieces);
        first.set_chain(chain);
        self.counters.packets_in += u64::from(aggregate.grown.count);
        self.counters.bytes_in += aggregate.bytes as u64;
        self.counters.sent(aggregate.frame_len(first.layout()));
        self.counters.left(reason, aggregate.grown.count);
        self.merged += 1;
        (self.out)(first, Exit::Flushed(reason));
    }
}

/// Packets with metadata of their own; none where one has left.
pub(in crate::offload::coalesce) struct OwnedPackets<'a, B, F> {
    pub(in crate::offload::coalesce) packets: &'a mut [Option<Packet<B>>],
    pub(in crate::offload::coalesce) way: Way<'a, B, F>,
}

impl<B, F> Store for OwnedPackets<'_, B, F>
where
    B: AsRef<[u8]> + AsMut<[u8]>,
    F: FnMut(Packet<B>, Exit),
{
    #[inline(always)]
    fn len(&self) -> usize {
        self.packets.len()
    }

    #[inline(always)]
    fn bytes(&self, at: usize) -> &[u8] {
        self.packets[at].as_ref().map_or(&[], Packet::bytes)
    }

    #[inline(always)]
    fn origin(&self, at: usize) -> (LinkType, Meta) {
        self.packets[at].as_ref().map(|packet| (packet.link(), packet.meta)).unwrap_or_default()
    }

    #[inline(always)]
    fn flow(&self, at: usize, hasher: &mut FlowHasher) -> (Layout, Option<u64>) {
        let Some(packet) = &self.packets[at] else { return (Layout::default(), None) };
        let layout = *packet.layout();
        (layout, visible_flow_of(hasher, packet.bytes(), &layout, packet.meta.lane))
    }

    #[inline(always)]
    fn look(&self, at: usize, hasher: &mut FlowHasher) -> Look {
        Look::parsed(self.bytes(at), self.flow(at, hasher))
    }

    #[inline(always)]
    fn trust(&self, at: usize, source: &Source) -> Option<Trust> {
        let packet = self.packets[at].as_ref().filter(|packet| packet.meta.gso.is_none())?;
        source.trust(packet.link(), &packet.meta)
    }

    #[inline]
    fn refuse(&mut self, refusal: Refusal) {
        self.way.counters.refused.count(refusal);
    }

    fn leave(&mut self, at: usize, _: Layout, exit: Exit) {
        if let Some(packet) = self.packets[at].take() {
            self.way.leave(packet, exit);
        }
    }

    #[inline(always)]
    fn leave_alone(&mut self, at: usize, _: Layout, reason: Alone) {
        if let Some(packet) = self.packets[at].take() {
            self.way.leave_alone(packet, reason);
        }
    }

    #[inline]
    fn leave_merged(&mut self, chain: Chain<'_>, aggregate: &mut Aggregate, reason: Flush) {
        let Some(first) = self.packets[chain.first].take() else { return };
        let pieces = chain.rest().filter_map(|(at, payload)| {
            self.packets[at].take().map(|packet| packet.into_piece_of(payload))
        });
        self.way.leave_merged(first, pieces, (aggregate, reason));
    }
}

/// Frames, and the metadata that they share; none where one has left.
pub(in crate::offload::coalesce) struct OwnedFrames<'a, B, F> {
    pub(in crate::offload::coalesce) frames: &'a mut [Option<B>],
    pub(in crate::offload::coalesce) link: LinkType,
    pub(in crate::offload::coalesce) meta: Meta,
    pub(in crate::offload::coalesce) way: Way<'a, B, F>,
}

impl<B, F> Store for OwnedFrames<'_, B, F>
where
    B: AsRef<[u8]> + AsMut<[u8]>,
    F: FnMut(Packet<B>, Exit),
{
    #[inline(always)]
    fn len(&self) -> usize {
        self.frames.len()
    }

    #[inline(always)]
    fn bytes(&self, at: usize) -> &[u8] {
        self.frames[at].as_ref().map_or(&[], B::as_ref)
    }

    #[inline(always)]
    fn origin(&self, _: usize) -> (LinkType, Meta) {
        (self.link, self.meta)
    }

    #[inline(always)]
    fn flow(&self, at: usize, hasher: &mut FlowHasher) -> (Layout, Option<u64>) {
        parse_frame(hasher, self.link, self.bytes(at), self.meta.lane)
    }

    #[inline(always)]
    fn look(&self, at: usize, hasher: &mut FlowHasher) -> Look {
        look_at_frame(hasher, self.link, self.bytes(at), self.meta.lane)
    }

    #[inline(always)]
    fn trust(&self, _: usize, source: &Source) -> Option<Trust> {
        source.trust(self.link, &self.meta).filter(|_| self.meta.gso.is_none())
    }

    #[inline]
    fn refuse(&mut self, refusal: Refusal) {
        self.way.counters.refused.count(refusal);
    }

    fn leave(&mut self, at: usize, layout: Layout, exit: Exit) {
        if let Some(frame) = self.frames[at].take() {
            let packet = Packet::with_layout(frame, self.link, layout, self.meta);
            self.way.leave(packet, exit);
        }
    }

    #[inline(always)]
    fn leave_alone(&mut self, at: usize, layout: Layout, reason: Alone) {
        if let Some(frame) = self.frames[at].take() {
            let packet = Packet::with_layout(frame, self.link, layout, self.meta);
            self.way.leave_alone(packet, reason);
        }
    }

    #[inline]
    fn leave_merged(&mut self, chain: Chain<'_>, aggregate: &mut Aggregate, reason: Flush) {
        let Some(first) = self.frames[chain.first].take() else { return };
        let first = Packet::with_layout(first, self.link, chain.layout, self.meta);
        let timestamp = self.meta.timestamp;
        let pieces = chain.rest().filter_map(|(at, payload)| {
            self.frames[at].take().map(|frame| Piece::of(frame, payload, timestamp))
        });
        self.way.leave_merged(first, pieces, (aggregate, reason));
    }
}
