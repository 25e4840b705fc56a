//! Where the packets of a burst lie, and how they leave it.

use super::flows::Look;
use crate::offload::coalesce::Exit;
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::{Source, Trust, Upcoming};
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::packet::{FlowHasher, Layout, LinkType, Meta, Packet};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Why most packets leave unchanged: numbers, so that they are counted without a branch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::offload::coalesce) struct Alone(u8);

impl Alone {
    /// By number: see [`Alone::of`], and the constants.
    pub(super) const EXITS: [Exit; 7] = [
        Exit::Flushed(Flush::BatchEnd),
        Exit::Flushed(Flush::EndFlag),
        Exit::Passed(Refusal::NoPayload),
        Exit::Passed(Refusal::NoPayload),
        Exit::Passed(Refusal::Trailer),
        Exit::Flushed(Flush::Bypass),
        Exit::Flushed(flush_of(Refusal::Longer)),
    ];
    /// Bytes follow the datagram within a tunnel.
    pub(super) const TRAILER: Self = Self(4);
    /// The next packet of its flow carries no data.
    pub(super) const BEFORE_EMPTY: Self = Self(5);
    /// The next packet of its flow is longer.
    pub(super) const BEFORE_LONGER: Self = Self(6);
    /// Bits of the numbers of packets that show that they are all data.
    const WITH_DATA: u8 = 0b110_0011;

    #[inline(always)]
    pub(super) fn of(is_empty: bool, ends: bool) -> Self {
        Self(u8::from(is_empty) << 1 | u8::from(ends))
    }

    /// Whether it is known of the packet itself that no other one joins it.
    #[inline(always)]
    pub(super) fn is_sure(self) -> bool {
        self.0.wrapping_sub(1) < 4
    }

    /// Whether the packet shows that it is all data that it carries.
    #[inline(always)]
    pub(super) fn has_data(self) -> bool {
        Self::WITH_DATA >> self.0 & 1 != 0
    }

    /// Why the next packet was refused.
    pub(super) fn refusal(self) -> Option<Refusal> {
        (self == Self::BEFORE_LONGER).then_some(Refusal::Longer)
    }

    #[inline(always)]
    pub(super) fn exit(self) -> Exit {
        Self::EXITS[usize::from(self.0)]
    }
}

/// How many packets left for each of these reasons.
#[derive(Debug, Default)]
pub(in crate::offload::coalesce) struct AllAlone([u64; Alone::EXITS.len()]);

impl AllAlone {
    #[inline(always)]
    pub(super) fn count(&mut self, reason: Alone) {
        self.0[usize::from(reason.0)] += 1;
    }

    /// Each reason with its count.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Alone, u64)> {
        (0..).map(Alone).zip(self.0)
    }
}

/// The packets of a burst, in the order of their arrival, and the way out.
pub(in crate::offload::coalesce) trait Store {
    fn len(&self) -> usize;

    /// The bytes of a packet; none of one that has left.
    fn bytes(&self, at: usize) -> &[u8];

    /// The link and the metadata of a packet.
    fn origin(&self, at: usize) -> (LinkType, Meta);

    /// The layout of a packet and the hash of its flow, if it is visible.
    fn flow(&self, at: usize, hasher: &mut FlowHasher) -> (Layout, Option<u64>);

    /// Properties of a packet.
    fn look(&self, at: usize, hasher: &mut FlowHasher) -> Look;

    /// Findings about a packet's checksum; none if the packet is not a plain one of this source.
    fn trust(&self, at: usize, source: &Source) -> Option<Trust>;

    /// A packet does not join an earlier one of its flow.
    fn refuse(&mut self, refusal: Refusal);

    /// A packet leaves unchanged.
    fn leave(&mut self, at: usize, layout: Layout, exit: Exit);

    /// The same for the most frequent reasons.
    fn leave_alone(&mut self, at: usize, layout: Layout, reason: Alone);

    /// The packets of `chain` leave as one.
    fn leave_merged(&mut self, chain: Chain<'_>, aggregate: &mut Aggregate, reason: Flush);

    /// A packet, to be looked at.
    fn view(&self, at: usize, layout: Layout) -> Packet<&[u8]> {
        let (link, meta) = self.origin(at);
        Packet::with_layout(self.bytes(at), link, layout, meta)
    }
}

/// The next packet of the same merged one, and the end of this one's payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    next: u32,
    end: u32,
}

/// The packets merged into one.
#[derive(Debug, Clone, Copy)]
pub(in crate::offload::coalesce) struct Chain<'a> {
    pub(super) first: usize,
    /// Of the first.
    pub(super) layout: Layout,
    links: &'a [Link],
}

impl Chain<'_> {
    /// Each packet but the first, with the range of its payload.
    pub(super) fn rest(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (links, start) = (self.links, self.layout.header_len());
        let mut next = links[self.first].next;
        core::iter::from_fn(move || {
            let at = next as usize;
            let Link { next: after, end } = *links.get(at)?;
            next = after;
            Some((at, start..end as usize))
        })
    }
}

/// The packets merged into one, without the first.
#[derive(Clone, Copy, Default)]
pub(super) struct Further<'a> {
    links: &'a [Link],
    next: u32,
}

impl Chain<'_> {
    pub(super) fn further(&self) -> Further<'_> {
        Further { links: self.links, next: self.links[self.first].next }
    }
}

impl Iterator for Further<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.next as usize;
        self.next = self.links.get(at)?.next;
        Some(at)
    }
}

impl fmt::Debug for Further<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl Eq for Further<'_> {}

impl PartialEq for Further<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

/// Which packets of a burst are merged.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    /// Forgets all, and makes room for a burst of so many packets.
    pub(super) fn begin(&mut self, packets: usize) {
        self.0.clear();
        self.0.resize(packets, Link { next: NONE, end: 0 });
    }

    /// Appends a packet, whose payload ends at `end`, to the merged one that ends with `last`.
    #[inline(always)]
    pub(super) fn append(&mut self, last: &mut u32, at: usize, end: usize) {
        self.append_run(last, at..at + 1, end);
    }

    /// The same for packets one behind the other.
    #[inline(always)]
    fn append_run(&mut self, last: &mut u32, run: Range<usize>, end: usize) {
        self.0[*last as usize].next = run.start as u32;
        *last = run.end as u32 - 1;
        for (link, next) in self.0[run.clone()].iter_mut().zip(run.start as u32 + 1..) {
            *link = Link { next, end: end as u32 };
        }
        self.0[run.end - 1].next = NONE;
    }

    pub(super) fn chain(&self, first: usize, layout: Layout) -> Chain<'_> {
        Chain { first, layout, links: &self.0 }
    }
}

/// Some packets of a burst, one behind the other.
pub(super) struct Later<'a, S> {
    pub(super) store: &'a S,
    pub(super) links: &'a mut Links,
    pub(super) at: usize,
    /// Where they end.
    pub(super) end: usize,
}

impl<S: Store> Upcoming for Later<'_, S> {
    /// The last packet of a merged one.
    type Chain = u32;

    #[inline(always)]
    fn len(&self) -> usize {
        self.end - self.at
    }

    #[inline(always)]
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        let at = self.at + index;
        (at < self.end).then(|| self.store.bytes(at))
    }

    #[inline(always)]
    fn trust(&self, index: usize, source: &Source) -> Option<Trust> {
        self.store.trust(self.at + index, source)
    }

    #[inline(always)]
    fn take_pieces(&mut self, count: usize, bytes: Range<usize>, last: &mut u32) {
        if count > 0 {
            self.links.append_run(last, self.at..self.at + count, bytes.end);
            self.at += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_to_leave_alone_says_what_is_known() {
        use Refusal::{Longer, NoPayload, Trailer};
        let flushed = Exit::Flushed;
        for (reason, exit, is_sure, has_data) in [
            (Alone::default(), flushed(Flush::BatchEnd), false, true),
            (Alone::of(false, false), flushed(Flush::BatchEnd), false, true),
            (Alone::of(false, true), flushed(Flush::EndFlag), true, true),
            (Alone::of(true, false), Exit::Passed(NoPayload), true, false),
            (Alone::of(true, true), Exit::Passed(NoPayload), true, false),
            (Alone::TRAILER, Exit::Passed(Trailer), true, false),
            (Alone::BEFORE_EMPTY, flushed(Flush::Bypass), false, true),
            (Alone::BEFORE_LONGER, flushed(Flush::Displaced), false, true),
        ] {
            assert_eq!(reason.exit(), exit);
            assert_eq!((reason.is_sure(), reason.has_data()), (is_sure, has_data), "{exit:?}");
            let refusal = (reason == Alone::BEFORE_LONGER).then_some(Longer);
            assert_eq!(reason.refusal(), refusal, "{exit:?}");
        }
    }

    #[test]
    fn further_packets_are_compared_by_number() {
        let mut links = Links::default();
        links.begin(5);
        let (mut last, mut other) = (0, 1);
        links.append(&mut last, 2, 10);
        links.append(&mut other, 3, 10);
        links.append(&mut last, 4, 10);
        let chains = [0, 1].map(|at| links.chain(at, Layout::default()));
        let [first, second] = chains.each_ref().map(Chain::further);
        assert!(first.eq([2, 4]) && second.eq([3]) && first == first);
        assert!(first != second && first != Further::default());
        assert_eq!(alloc::format!("{first:?}"), "[2, 4]");
    }
}
