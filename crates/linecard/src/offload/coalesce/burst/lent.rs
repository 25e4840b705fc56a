//! The frames of a burst in memory that the caller lends.

use super::flows::{Look, look_at_frame};
use super::store::{AllAlone, Alone, Chain, Further, Store};
use super::{BurstCounters, Merged};
use crate::offload::coalesce::Exit;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::{Source, Trust, parse_frame};
use crate::offload::coalesce::candidate::ChecksumKind;
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::offload::virtio::{Frame, Header, Identifications};
use crate::packet::{ChecksumState, FlowHasher, Layout, LinkType, Meta, Packet};
use alloc::vec::Vec;
use core::ops::Range;

/// Where a frame is in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Place {
    #[inline(always)]
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// The state of one call.
pub(super) struct Lent<'a, F: ?Sized> {
    pub(super) buffer: &'a mut [u8],
    pub(super) places: &'a [Place],
    pub(super) link: LinkType,
    pub(super) trust: Trust,
    pub(super) identifications: Identifications,
    pub(super) counters: &'a mut BurstCounters,
    /// Empty; kept for its memory.
    pub(super) slices: &'a mut Vec<&'static [u8]>,
    pub(super) out: &'a mut F,
    /// Packets that have left alone, not examined.
    pub(super) alone: AllAlone,
    /// Counts of packets that left: unchanged ones, merged ones, and the packets in those.
    pub(super) left: Left,
}

#[derive(Debug, Default)]
pub(super) struct Left {
    alone: u64,
    merged: u64,
    inside: u64,
}

/// Counts packets that left, all at once: at the end of the burst, or when the caller's function panics.
impl<F: ?Sized> Drop for Lent<'_, F> {
    fn drop(&mut self) {
        let Left { alone, merged, inside } = self.left;
        self.counters.packets_in += alone + inside;
        self.counters.packets_out += alone + merged;
        self.counters.alone += alone;
        self.counters.merged += inside - merged;
        for (alone, packets) in self.alone.counts() {
            let refusal = alone.refusal();
            refusal.into_iter().for_each(|of| self.counters.refused.count_n(of, packets));
            match alone.exit() {
                Exit::Passed(refusal) => self.counters.refused.count_n(refusal, packets),
                Exit::Flushed(reason) => self.counters.flushed.count_n(reason, packets),
            }
        }
    }
}

impl<F: FnMut(Merged<'_>) + ?Sized> Lent<'_, F> {
    #[inline(always)]
    fn pass(&mut self, at: usize) {
        self.left.alone += 1;
        let bytes = &self.buffer[self.places[at].range()];
        let (header, further) = (Header::default(), Further::default());
        (self.out)(Merged { header, slices: &[bytes], first: at, packets: 1, further });
    }
}

impl<F: FnMut(Merged<'_>) + ?Sized> Store for Lent<'_, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.places.len()
    }

    #[inline(always)]
    fn bytes(&self, at: usize) -> &[u8] {
        &self.buffer[self.places[at].range()]
    }

    #[inline(always)]
    fn origin(&self, _: usize) -> (LinkType, Meta) {
        let checksum = match self.trust {
            Trust::Vouched => ChecksumState::Valid,
            Trust::Verify => ChecksumState::Unknown,
        };
        (self.link, Meta { checksum, ..Meta::default() })
    }

    #[inline(always)]
    fn flow(&self, at: usize, hasher: &mut FlowHasher) -> (Layout, Option<u64>) {
        parse_frame(hasher, self.link, self.bytes(at), 0)
    }

    #[inline(always)]
    fn look(&self, at: usize, hasher: &mut FlowHasher) -> Look {
        look_at_frame(hasher, self.link, self.bytes(at), 0)
    }

    #[inline(always)]
    fn trust(&self, _: usize, _: &Source) -> Option<Trust> {
        Some(self.trust)
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.counters.refused.count(refusal);
    }

    fn leave(&mut self, at: usize, _: Layout, exit: Exit) {
        match exit {
            Exit::Passed(refusal) => self.counters.refused.count(refusal),
            Exit::Flushed(reason) => self.counters.flushed.count(reason),
        }
        self.pass(at);
    }

    #[inline(always)]
    fn leave_alone(&mut self, at: usize, _: Layout, reason: Alone) {
        self.alone.count(reason);
        self.pass(at);
    }

    #[inline(never)]
    fn leave_merged(&mut self, chain: Chain<'_>, aggregate: &mut Aggregate, reason: Flush) {
        let (first, layout) = (chain.first, chain.layout);
        let packets = usize::from(aggregate.grown.count);
        self.left.merged += 1;
        self.left.inside += packets as u64;
        self.counters.flushed.count(reason);
        // A device requires that the checksum is left to it.
        aggregate.checksum = ChecksumKind::Partial;
        let bytes = &mut self.buffer[self.places[first].range()];
        let mut packet = Packet::with_layout(bytes, self.link, layout, Meta::default());
        aggregate.patch(&mut packet);
        let gso = packet.meta.gso;
        let bytes = &self.buffer[self.places[first].range()];
        let frame = Frame {
            bytes,
            layout: &layout,
            payload_len: aggregate.grown.payload_len as usize,
            checksum: ChecksumState::Partial,
        };
        // Packets that cannot be described have been refused.
        let header = Header::of_frame(&frame, gso, self.identifications).unwrap_or_default();
        let mut slices: Vec<&[u8]> = core::mem::take(self.slices);
        slices.push(bytes);
        let rest = chain.rest();
        slices.extend(rest.map(|(at, payload)| &self.buffer[self.places[at].range()][payload]));
        let further = chain.further();
        (self.out)(Merged { header, slices: &slices, first, packets, further });
        slices.clear();
        // Of an empty list, this keeps only the memory.
        *self.slices = slices.into_iter().map(|_| &[][..]).collect();
    }
}
