//! Bursts whose flows are known: what becomes of a packet is seen in the packets of its flow that follow it.

use super::flows::{Member, Standing};
use super::join::{Burst, Joining, Open, has_data};
use super::notes::{Note, State};
use super::store::{Alone, Later, Store};
use crate::offload::coalesce::Exit;
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::candidate::Candidate;
use crate::offload::coalesce::predict::Expected;
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::packet::header::{self, Tcp};
use crate::packet::{LayerKind, Layout};

/// A packet that is missing is looked for among so many.
const WINDOW: usize = 32;

/// Packets of a flow that may join what is noted: from `next` on, up to `last`.
struct Run<'a> {
    note: &'a Note,
    next: usize,
    last: usize,
    /// It is known that the first has the same headers.
    is_alike: bool,
}

impl<S: Store> Joining<'_, S> {
    /// Handles a packet.
    #[inline(always)]
    pub(super) fn take_of_flow(&mut self, at: usize) {
        let Member { layout, standing, alone, .. } = *self.burst.flows.member(at);
        match standing {
            Standing::Alone => self.store.leave_alone(at, layout, alone),
            Standing::Done => {}
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
        let note = Note::new((layout, self.store.bytes(at)), at as u32);
        let bytes = self.store.bytes(next);
        if note.may_continue(bytes) {
            return self.begin_chain(note, next);
        }
        let following = self.burst.flows.member(next).layout;
        if !has_data(&following) {
            return self.store.leave(at, layout, Exit::Flushed(Flush::Bypass));
        }
        // A packet that is missing between the two may come.
        let is_next = !self.config.restore_order || note.is_followed_by(bytes);
        if is_next && following.payload().len() > layout.payload().len() {
            self.store.refuse(Refusal::Longer);
            return self.store.leave(at, layout, Exit::Flushed(flush_of(Refusal::Longer)));
        }
        self.add_note(note);
    }

    /// Merges a packet with those of its flow that simply continue it, of which `next` is the first.
    #[inline(always)]
    fn begin_chain(&mut self, note: Note, next: usize) {
        let (first, last) = (note.first as usize, self.burst.flows.last_visible());
        let shape = self.burst.hasher.shape(&note.layout);
        let bytes = self.store.bytes(first);
        let is_alike = shape.is_some_and(|shape| shape.mergeable(bytes, self.store.bytes(next)));
        if next > last || !is_alike {
            self.add_note(note);
            return;
        }
        let (_, meta) = self.store.origin(first);
        let usual = Aggregate::open_usual((bytes, &note.layout), &meta, self.config);
        let Some(aggregate) = usual else {
            let number = self.add_note(note);
            self.join_chain(number, next, usize::MAX);
            return;
        };
        debug_assert_eq!(
            Candidate::examine(&self.store.view(first, note.layout), self.config, &[])
                .map(|found| { self.aggregate(&self.store.view(first, note.layout), &found) })
                // Nothing is held here: the end of a hold budget means nothing.
                .map(|mut general| {
                    general.spent = aggregate.spent;
                    general
                }),
            Ok(aggregate)
        );
        let mut open = Open { aggregate, last: note.first };
        let run = Run { note: &note, next, last, is_alike };
        match self.append_chain(&run, &mut open) {
            (1.., Some(reason)) => {
                let chain = self.burst.links.chain(first, note.layout);
                self.store.leave_merged(chain, &mut open.aggregate, reason);
            }
            _ => {
                let mut note = note.with(State::Open(self.burst.open.len() as u32));
                note.expect(open.aggregate.grown.next_sequence);
                self.burst.open.push(open);
                self.add_note(note);
            }
        }
    }

    /// A packet of a flow that may have a note: it joins what is noted, possibly after others that are missing in front of
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

    /// Merges a packet and those of its flow behind it, up to `last`, into what is noted, as long as they simply
    /// continue it; returns their number.
    fn join_chain(&mut self, note: u32, at: usize, last: usize) -> usize {
        let noted = *self.burst.notes.get(note);
        let last = last.min(self.burst.flows.last_visible());
        if !noted.may_continue(self.store.bytes(at)) || at > last {
            return 0;
        }
        let is_alike = noted.state == State::Alone;
        if is_alike && !self.has_headers_of(note, at) {
            return 0;
        }
        let Some(number) = self.open(note) else { return 0 };
        let run = Run { note: &noted, next: at, last, is_alike };
        // The list is lent out for the call: copying its entry would take longer.
        let mut all = core::mem::take(&mut self.burst.open);
        let open = &mut all[number as usize];
        let (packets, ended) = self.append_chain(&run, open);
        self.burst.notes.get_mut(note).expect(open.aggregate.grown.next_sequence);
        self.burst.open = all;
        if let Some(reason) = ended {
            self.leave(note, reason);
        }
        packets
    }

    /// Appends packets to an aggregate, each of which is handled then; returns their number, and why nothing more
    /// will join it.
    #[inline(always)]
    fn append_chain(&mut self, run: &Run<'_>, open: &mut Open) -> (usize, Option<Flush>) {
        let Run { note: Note { layout, first, .. }, next, last, mut is_alike } = *run;
        let Burst { hasher, flows, links, .. } = &mut *self.burst;
        let (store, first) = (&*self.store, *first as usize);
        let Open { aggregate, last: end } = open;
        let bytes = store.bytes(first);
        let shape = hasher.shape(layout);
        let shape = shape.filter(|_| aggregate.may_continue(bytes, store.bytes(next)));
        let Some(shape) = shape else { return (0, None) };
        let head = Self::head(self.config, (store, first), layout);
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
        if let (None, Some(next)) = (ended, next) {
            flows.is_later(next);
        }
        // Behind the last of a flow, nothing joins, unless a packet whose flow is not visible lies between.
        let is_last = next.is_none() && last == usize::MAX;
        (packets, ended.or_else(|| is_last.then_some(Flush::BatchEnd)))
    }

    /// Whether a packet is ahead of what its flow expects, and the order is to be restored.
    #[inline]
    fn is_behind_missing(&self, note: u32, at: usize, layout: Layout) -> bool {
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
