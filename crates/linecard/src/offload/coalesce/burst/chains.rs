//! Bursts whose flows are known: the later packets of its flow decide the treatment of a packet.

use super::flows::{Flows, Member, PART, Standing, Turn};
use super::join::{Burst, Joining, Open, has_data};
use super::notes::{Note, State};
use super::store::{Alone, Later, Links, Store};
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::candidate::Candidate;
use crate::offload::coalesce::predict::{Expected, Head};
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::offload::coalesce::successor::start_of;
use crate::offload::coalesce::{Exit, merge};
use crate::packet::header::{self, Tcp};
use crate::packet::{LayerKind, Layout, Shape};
use core::hint::select_unpredictable;

/// A packet that is missing is looked for among so many.
pub(super) const WINDOW: usize = 32;

/// Packets of a flow that may join what begins with `head`, which has this shape: from `next` on, up to `last`.
struct Run<'a> {
    head: Head<'a>,
    shape: &'a Shape,
    next: usize,
    last: usize,
    /// It is known that the first has the same headers.
    is_alike: bool,
}

impl Run<'_> {
    /// Appends packets to an aggregate, each of which is handled then; returns their number, and why nothing more
    /// will join it: [`Flush::Displaced`] if the next one is longer.
    #[inline(always)]
    fn append<S: Store>(
        self,
        open: &mut Open,
        (store, flows, links): (&S, &mut Flows, &mut Links),
        restores_order: bool,
    ) -> (usize, Option<Flush>) {
        let Self { head, shape, next, last, mut is_alike } = self;
        let Open { aggregate, last: end } = open;
        let mut upcoming = Later { store, links, at: next, end: next + 1 };
        let expected = Expected::after(head, aggregate, shape, &upcoming);
        let (mut packets, mut ended, mut next) = (0, None, Some(next));
        while let Some(at) = next.filter(|at| *at <= last) {
            (upcoming.at, upcoming.end) = (at, at + 1);
            if !is_alike && !expected.is_alike(&upcoming) {
                break;
            }
            is_alike = false;
            let Some(len) = expected.append(aggregate, &upcoming, &mut ended) else { break };
            upcoming.links.append(end, at, len);
            flows.done(at);
            packets += 1;
            if ended.is_some() {
                break;
            }
            next = flows.next_of(at);
        }
        if ended.is_none() {
            ended = match next {
                // Behind the last of a flow, nothing joins, unless a packet whose flow is not visible lies between.
                None => (last == usize::MAX).then_some(Flush::BatchEnd),
                Some(next) if packets > 0 && next <= last => {
                    let (before, following) = (flows.member(*end as usize), flows.member(next));
                    let packet = (&before.layout, store.bytes(*end as usize));
                    let pair = Pair::of(packet, (following, store.bytes(next)), restores_order);
                    let reason = if pair.has_data { Flush::Displaced } else { Flush::Bypass };
                    pair.leaves.then_some(reason)
                }
                Some(_) => None,
            };
        }
        if let (None, Some(next), 1..) = (ended, next, packets) {
            flows.is_later(next);
        }
        (packets, ended)
    }
}

/// Whether a packet has the ports that come next in the flow of another one, and the sequence number.
#[inline(always)]
fn is_followed_by((layout, bytes): (&Layout, &[u8]), next: &[u8]) -> bool {
    let (at, is_tcp) = layout.ports();
    let (Some(start), Some(next)) = (start_of(bytes, at), start_of(next, at)) else { return false };
    // Of UDP, the ports only.
    let (step, ignored) = select_unpredictable(is_tcp, (layout.payload_len(), 0), (0, 32));
    let sequence = (start as u32).wrapping_add(step);
    let expected = start >> 32 << 32 | u64::from(sequence);
    (next ^ expected) >> ignored == 0
}

/// Properties of a packet and the next one of its flow. Conditions without branches, since which of them hold can
/// hardly be predicted.
struct Pair {
    /// The next one may join it, as far as ports, sequence number and length tell.
    may_join: bool,
    /// It does not, and nothing else will: it carries no data, or is longer.
    leaves: bool,
    has_data: bool,
}

impl Pair {
    #[inline(always)]
    fn of(
        (layout, bytes): (&Layout, &[u8]),
        (next, next_bytes): (&Member, &[u8]),
        restores_order: bool,
    ) -> Self {
        let is_next = is_followed_by((layout, bytes), next_bytes);
        let fits = next_bytes.len().wrapping_sub(layout.header_len() + 1)
            < bytes.len().saturating_sub(layout.header_len());
        let has_data = next.alone.has_data();
        // A packet that is missing between the two may come.
        let is_expected = is_next | !restores_order;
        let is_before_longer = is_expected & (next.layout.payload_len() > layout.payload_len());
        // Padding of a packet without data looks like data.
        let may_join = is_next & fits & has_data;
        Self { may_join, leaves: !may_join & (!has_data | is_before_longer), has_data }
    }
}

impl<S: Store> Joining<'_, S> {
    /// Handles all packets left of a part of the burst.
    #[inline(always)]
    pub(super) fn take_part(&mut self, part: usize) {
        loop {
            let Turn { mut alone, other } = self.burst.flows.turn(part, &*self.store);
            while alone != 0 {
                let at = part * PART + alone.trailing_zeros() as usize;
                let Member { layout, alone: reason, .. } = *self.burst.flows.member(at);
                self.store.leave_alone(at, layout, reason);
                alone &= alone - 1;
            }
            let Some(other) = other else { break };
            self.take_of_flow(other);
        }
    }

    /// Handles a packet that does not leave alone.
    #[inline(always)]
    fn take_of_flow(&mut self, at: usize) {
        let Member { layout, standing, .. } = *self.burst.flows.member(at);
        match standing {
            Standing::Alone => {}
            Standing::First => self.begin_before(at, layout),
            Standing::Later => self.proceed(at, layout),
            Standing::Hidden => {
                self.burst.flows.pass_hidden();
                self.bypass(at, layout);
            }
        }
    }

    /// The note that is here of the flow of a packet.
    #[inline(always)]
    fn note_of(&self, at: usize) -> Option<u32> {
        let note = self.burst.flows.latest_note_of(at)?;
        (self.burst.notes.get(note).state != State::Gone).then_some(note)
    }

    /// A packet of a flow of which nothing is noted.
    #[inline(never)]
    pub(super) fn begin(&mut self, at: usize) {
        let Member { layout, alone, .. } = *self.burst.flows.member(at);
        if alone.is_sure() {
            return self.store.leave(at, layout, alone.exit());
        }
        self.begin_before(at, layout);
    }

    /// Merges the first packet of a flow with those that follow it, or notes it, unless the next one shows that none
    /// will join it.
    #[inline(never)]
    fn begin_before(&mut self, at: usize, layout: Layout) {
        let Some(next) = self.burst.flows.next_of(at) else {
            return self.store.leave_alone(at, layout, Alone::default());
        };
        let bytes = self.store.bytes(at);
        let following = (self.burst.flows.member(next), self.store.bytes(next));
        let pair = Pair::of((&layout, bytes), following, self.config.restore_order);
        if pair.may_join {
            return self.begin_chain((at, layout), next);
        }
        if pair.leaves {
            let (longer, empty) = (Alone::BEFORE_LONGER, Alone::BEFORE_EMPTY);
            let reason = select_unpredictable(pair.has_data, longer, empty);
            return self.store.leave_alone(at, layout, reason);
        }
        self.add_note(Note::new((layout, bytes), at as u32));
    }

    /// Merges a packet with those of its flow that simply continue it, of which `next` is the first.
    #[inline(always)]
    fn begin_chain(&mut self, (first, layout): (usize, Layout), next: usize) {
        let last = self.burst.flows.last_visible();
        let Burst { hasher, flows, links, .. } = &mut *self.burst;
        let bytes = self.store.bytes(first);
        let shape = hasher.shape(&layout).filter(|_| next <= last);
        let Some(shape) = shape else {
            self.add_note(Note::new((layout, bytes), first as u32));
            return;
        };
        if !shape.mergeable(bytes, self.store.bytes(next)) {
            return self.leave_before_other(first, next);
        }
        let (_, meta) = self.store.origin(first);
        let usual = Aggregate::open_usual((bytes, &layout), &meta, self.config);
        let Some(aggregate) = usual else {
            let number = self.add_note(Note::new((layout, bytes), first as u32));
            self.join_chain(number, next, usize::MAX);
            return;
        };
        debug_assert_eq!(
            Aggregate::examine(&self.store.view(first, layout), self.config),
            Ok(aggregate)
        );
        let mut open = Open { aggregate, last: first as u32 };
        let head = Self::head(self.config, (&*self.store, first), &layout);
        let run = Run { head, shape, next, last, is_alike: true };
        let parts = (&*self.store, flows, links);
        match run.append(&mut open, parts, self.config.restore_order) {
            (1.., Some(reason)) => {
                self.refuse_longer(reason);
                let links = &self.burst.links;
                let chain = links.chain(first, layout);
                self.store.leave_merged(chain, &mut open.aggregate, reason);
            }
            _ => {
                let note = Note::new((layout, bytes), first as u32);
                let mut note = note.with(State::Open(self.burst.open.len() as u32));
                note.expect(open.aggregate.grown.next_sequence);
                self.burst.open.push(open);
                self.add_note(note);
            }
        }
    }

    /// A packet leaves before the next one of its flow, which would continue it but for its headers.
    #[inline(never)]
    fn leave_before_other(&mut self, first: usize, next: usize) {
        let view = |at: usize| self.store.view(at, self.burst.flows.member(at).layout);
        let refusal = merge::difference(&view(first), &view(next)).unwrap_or(Refusal::Envelope);
        let layout = self.burst.flows.member(first).layout;
        self.store.refuse(refusal);
        self.store.leave(first, layout, Exit::Flushed(flush_of(refusal)));
    }

    /// Counts the packet that ended a run, if it did because it is longer.
    #[inline(always)]
    fn refuse_longer(&mut self, reason: Flush) {
        if reason == Flush::Displaced {
            self.store.refuse(Refusal::Longer);
        }
    }

    /// A packet of a flow that may have a note: it joins the noted aggregate, possibly after others that are missing in front of
    /// it, or takes its place.
    #[inline(never)]
    fn proceed(&mut self, at: usize, layout: Layout) {
        while let Some(note) = self.note_of(at) {
            if self.join_chain(note, at, usize::MAX) > 0 {
                return;
            }
            if !self.is_behind_missing(note, at, layout) || !self.join_missing(note, at) {
                break;
            }
        }
        // Looking for them may have made the packet noted leave.
        match self.note_of(at) {
            Some(note) => self.meet(note, (at, layout)),
            None => self.begin(at),
        }
    }

    /// Merges a packet and those of its flow behind it, up to `last`, into the noted aggregate, as long as they simply
    /// continue it; returns their number.
    fn join_chain(&mut self, note: u32, at: usize, last: usize) -> usize {
        let noted = *self.burst.notes.get(note);
        let last = last.min(self.burst.flows.last_visible());
        if !noted.may_continue(self.store.bytes(at)) {
            return 0;
        }
        let is_alike = noted.state == State::Alone;
        if is_alike && !self.has_headers_of(note, at) {
            return 0;
        }
        let Some(number) = self.open(note) else { return 0 };
        let Burst { hasher, flows, links, open, notes, .. } = &mut *self.burst;
        let (store, first) = (&*self.store, noted.first as usize);
        let open = &mut open[number as usize];
        let shape = hasher.shape(&noted.layout).filter(|_| open.aggregate.ports != 0);
        let Some(shape) = shape else { return 0 };
        let head = Self::head(self.config, (store, first), &noted.layout);
        let run = Run { head, shape, next: at, last, is_alike };
        let (packets, ended) = run.append(open, (store, flows, links), self.config.restore_order);
        notes.get_mut(note).expect(open.aggregate.grown.next_sequence);
        if let Some(reason) = ended {
            self.refuse_longer(reason);
            self.leave(note, reason);
        }
        packets
    }

    /// Whether a packet is ahead of what its flow expects, and the order is to be restored.
    #[inline]
    pub(super) fn is_behind_missing(&self, note: u32, at: usize, layout: Layout) -> bool {
        let expected = self.burst.notes.get(note).next_sequence();
        let tcp = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp);
        let (Some(expected), Some(tcp), true) = (expected, tcp, self.config.restore_order) else {
            return false;
        };
        let ahead =
            header::at::<Tcp>(self.store.bytes(at), tcp.at()).sequence.wrapping_sub(expected);
        (1..1 << 31).contains(&ahead) && has_data(&layout)
    }

    /// Merges the packet that a flow expects, if it lies a little later in the burst; returns whether it does.
    ///
    /// Only a packet that joins is handled: others gain nothing by their order, and one with a newer timestamp in
    /// front would make the receiver take those behind it for old ones (PAWS, RFC 7323, section 5.3).
    #[inline(never)]
    fn join_missing(&mut self, note: u32, at: usize) -> bool {
        let noted = *self.burst.notes.get(note);
        let last = self.burst.flows.last_visible().min(at + WINDOW);
        let mut next = self.burst.flows.next_of(at);
        while let Some(later) = next.filter(|later| *later <= last) {
            next = self.burst.flows.next_of(later);
            let layout = self.burst.flows.member(later).layout;
            if !noted.may_continue(self.store.bytes(later))
                || !has_data(&layout)
                || !self.has_headers_of(note, later)
            {
                continue;
            }
            if self.join_chain(note, later, later) > 0 {
                return true;
            }
            let Some(open) = self.open(note) else { return false };
            let packet = self.store.view(later, layout);
            let aggregate = &self.burst.open[open as usize].aggregate;
            let fits = Candidate::examine(&packet, self.config, &[])
                .and_then(|candidate| aggregate.fits(&candidate, packet.meta.mark));
            if fits.is_ok() {
                self.burst.flows.done(later);
                self.meet(note, (later, layout));
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::steady::tests::{Traffic, each_traffic};
    use super::*;

    #[test]
    fn the_next_packet_of_a_flow_follows_by_ports_and_sequence_number() {
        for traffic in each_traffic() {
            let packets = [0, 1, 2].map(|index| traffic.packet(index, 5));
            let [first, next, after] = packets.each_ref().map(|packet| packet.bytes());
            let first = (packets[0].layout(), first);
            assert!(is_followed_by(first, next), "{traffic:?}");
            // Of UDP, only the ports are compared.
            assert_eq!(is_followed_by(first, after), !traffic.tcp, "{traffic:?}");
            assert_eq!(is_followed_by(first, first.1), !traffic.tcp, "{traffic:?}");
            let at = packets[0].layout().ports().0;
            for bit in 0..32 {
                let mut other = next.to_vec();
                other[at + bit / 8] ^= 1 << (bit % 8);
                assert!(!is_followed_by(first, &other), "{traffic:?} {bit}");
            }
        }
    }

    /// A packet of a flow and one behind it: whether that joins, or shows that none will.
    #[test]
    fn a_packet_leaves_before_one_that_shows_that_none_will_join_it() {
        let traffic = each_traffic().find(|traffic| traffic.tcp && !traffic.v6).expect("one");
        let first = traffic.packet(0, 1);
        for (len, index, alone) in [0, 1, 99, 100, 101].into_iter().flat_map(|len| {
            let alones = [Alone::default(), Alone::of(false, true), Alone::TRAILER];
            [1, 2].into_iter().flat_map(move |index| alones.map(|alone| (len, index, alone)))
        }) {
            let sequence = traffic.sequence.wrapping_add(100 * index);
            let next = Traffic { len, sequence, ..traffic }.packet(0, 1);
            let alone = if len == 0 { Alone::of(true, false) } else { alone };
            let mut member = Member::default();
            (member.layout, member.alone) = (*next.layout(), alone);
            for restores_order in [false, true] {
                let (head, following) = ((first.layout(), first.bytes()), (&member, next.bytes()));
                let pair = Pair::of(head, following, restores_order);
                let (has_data, is_next) = (len > 0 && alone != Alone::TRAILER, index == 1);
                assert_eq!(pair.has_data, has_data);
                assert_eq!(pair.may_join, has_data && is_next && len <= 100, "{len} {index}");
                let leaves = !has_data || len > 100 && (is_next || !restores_order);
                assert_eq!(pair.leaves, leaves, "{len} {index}");
            }
        }
    }
}
