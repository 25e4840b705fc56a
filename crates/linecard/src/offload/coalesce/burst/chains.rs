//! Bursts whose flows are known: what becomes of a packet is seen in the packets of its flow that follow it.

use super::join::{Joining, Open, ends, has_data};
use super::notes::{Note, State};
use super::store::{Later, Store};
use crate::offload::coalesce::Exit;
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::candidate::Candidate;
use crate::offload::coalesce::predict::Expected;
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::packet::header::{self, Tcp};
use crate::packet::{Form, LayerKind, Layout};

/// A packet that is missing is looked for among so many.
const WINDOW: usize = 32;

impl<S: Store> Joining<'_, S> {
    /// Handles a packet.
    #[inline(always)]
    pub(super) fn take_of_flow(&mut self, at: usize) {
        let member = *self.burst.flows.member(at);
        if member.is_done {
            return;
        }
        if !member.has_flow() {
            self.burst.flows.pass_hidden();
            return self.bypass(at, member.layout);
        }
        match self.note_of(at) {
            None => self.begin(at, member.layout),
            Some(note) => self.proceed(note, at, member.layout),
        }
    }

    /// The note that is here of the flow of a packet.
    #[inline(always)]
    fn note_of(&self, at: usize) -> Option<u32> {
        let note = self.burst.flows.latest_note_of(at)?;
        (self.burst.notes.get(note).state != State::Gone).then_some(note)
    }

    /// The first packet of a flow: it is noted if another one may join it, and is joined by those that simply continue
    /// it.
    #[inline(always)]
    pub(super) fn begin(&mut self, at: usize, layout: Layout) {
        let exit = match layout.form() {
            Form::Datagram if layout.payload().is_empty() => Exit::Passed(Refusal::NoPayload),
            Form::Datagram if ends(self.store.bytes(at), &layout) => Exit::Flushed(Flush::EndFlag),
            Form::Datagram => match self.burst.flows.next_of(at) {
                None => Exit::Flushed(Flush::BatchEnd),
                Some(next) => match self.begin_before(next, (at, layout)) {
                    None => return,
                    Some(reason) => Exit::Flushed(reason),
                },
            },
            _ => Exit::Passed(Refusal::Trailer),
        };
        self.store.leave(at, layout, exit);
    }

    /// [`Joining::begin`] where it is seldom.
    #[inline(never)]
    pub(super) fn begin_again(&mut self, at: usize, layout: Layout) {
        self.begin(at, layout);
    }

    /// Notes a packet, unless the next one of its flow shows that none will join it: then it returns why.
    #[inline(never)]
    fn begin_before(&mut self, next: usize, (at, layout): (usize, Layout)) -> Option<Flush> {
        let note = Note::new((layout, self.store.bytes(at)), at as u32);
        let bytes = self.store.bytes(next);
        if note.may_continue(bytes) {
            let note = self.add_note(note);
            self.join_chain(note, next, usize::MAX);
            return None;
        }
        let following = self.burst.flows.member(next).layout;
        if !has_data(&following) {
            return Some(Flush::Bypass);
        }
        // A packet that is missing between the two may come.
        let is_next = !self.config.restore_order || note.is_followed_by(bytes);
        if is_next && following.payload().len() > layout.payload().len() {
            self.store.refuse(Refusal::Longer);
            return Some(flush_of(Refusal::Longer));
        }
        self.add_note(note);
        None
    }

    /// A packet of a flow that has a note: it joins what is noted, possibly after others that are missing in front of
    /// it, or takes its place.
    #[inline(never)]
    fn proceed(&mut self, note: u32, at: usize, layout: Layout) {
        let mut note = Some(note);
        while let Some(before) = note {
            if self.join_chain(before, at, usize::MAX) > 0 {
                return;
            }
            let Some(early) = self.missing_before(before, at, layout) else { break };
            if self.join_chain(before, early, early) == 0 {
                self.burst.flows.done(early);
                self.meet(before, (early, self.burst.flows.member(early).layout));
            }
            note = self.note_of(at);
        }
        // Looking for them may have made the packet noted leave.
        match self.note_of(at) {
            Some(note) => self.meet(note, (at, layout)),
            None => self.begin_again(at, layout),
        }
    }

    /// Merges a packet and those of its flow behind it, up to `last`, into what is noted, as long as they simply
    /// continue it; returns their number.
    fn join_chain(&mut self, note: u32, at: usize, last: usize) -> usize {
        let may_continue = self.burst.notes.get(note).may_continue(self.store.bytes(at));
        let is_alone = self.burst.notes.get(note).state == State::Alone;
        // Behind a packet whose flow is not visible, it may be that the one noted is gone.
        let hidden = self.burst.flows.first_hidden();
        let last = hidden.map_or(last, |hidden| last.min(hidden));
        if !may_continue || at > last || is_alone && !self.has_headers_of(note, at) {
            return 0;
        }
        let Some(open) = self.open(note) else { return 0 };
        let (packets, ended) = self.append_chain(note, (open, at), last);
        if let Some(reason) = ended {
            self.leave(note, reason);
        }
        packets
    }

    /// Appends packets to an aggregate; returns their number, and why nothing more will join it.
    fn append_chain(
        &mut self,
        note: u32,
        (open, mut at): (u32, usize),
        last: usize,
    ) -> (usize, Option<Flush>) {
        let burst = &mut *self.burst;
        let Note { layout, first, .. } = *burst.notes.get(note);
        let (store, links) = (&*self.store, &mut burst.links);
        let Open { aggregate, last: end } = &mut burst.open[open as usize];
        let bytes = store.bytes(first as usize);
        let shape = burst.hasher.shape(&layout);
        let shape = shape.filter(|_| aggregate.may_continue(bytes, store.bytes(at)));
        let Some(shape) = shape else { return (0, None) };
        let head = Self::head(self.config, (store, first as usize), &layout);
        let mut upcoming = Later { store, links, at, end: at + 1 };
        let expected = Expected::after(head, aggregate, shape, &upcoming);
        let (mut packets, mut ended) = (0, None);
        while let Some(len) = expected.append(aggregate, &upcoming, &mut ended) {
            packets += 1;
            upcoming.links.append(end, at, len);
            burst.flows.done(at);
            let next = burst.flows.next_of(at).filter(|_| ended.is_none());
            let Some(next) = next.filter(|next| *next <= last) else {
                // It is the last of its flow, unless another one follows what hides it.
                let is_last = next.is_none() && last == usize::MAX;
                ended = ended.or_else(|| is_last.then_some(Flush::BatchEnd));
                break;
            };
            at = next;
            (upcoming.at, upcoming.end) = (at, at + 1);
        }
        if packets > 0 {
            burst.notes.get_mut(note).expect(aggregate.grown.next_sequence);
        }
        (packets, ended)
    }

    /// The packet that a flow expects, if the one at hand is ahead of it and it lies a little later in the burst. It is
    /// to be handled now.
    #[inline]
    fn missing_before(&mut self, note: u32, at: usize, layout: Layout) -> Option<usize> {
        let expected = self.burst.notes.get(note).next_sequence();
        let expected = expected.filter(|_| self.config.restore_order)?;
        let tcp = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp)?;
        let ahead =
            header::at::<Tcp>(self.store.bytes(at), tcp.at()).sequence.wrapping_sub(expected);
        if !(1..1 << 31).contains(&ahead) || !has_data(&layout) {
            return None;
        }
        self.find_missing(note, at)
    }

    /// Only a packet that could join is found: others gain nothing by their order, and one with a newer timestamp in
    /// front would make the receiver take those behind it for old ones (PAWS, RFC 7323, section 5.3).
    #[inline(never)]
    fn find_missing(&mut self, note: u32, at: usize) -> Option<usize> {
        let noted = *self.burst.notes.get(note);
        let mut next = self.burst.flows.next_of(at);
        while let Some(later) = next.filter(|later| *later <= at + WINDOW) {
            next = self.burst.flows.next_of(later);
            let layout = self.burst.flows.member(later).layout;
            if !noted.may_continue(self.store.bytes(later))
                || !has_data(&layout)
                || !self.has_headers_of(note, later)
            {
                continue;
            }
            let open = self.open(note)?;
            let packet = self.store.view(later, layout);
            let aggregate = &self.burst.open[open as usize].aggregate;
            let fits = Candidate::examine(&packet, self.config, &[])
                .and_then(|candidate| aggregate.fits(&candidate, packet.meta.mark));
            if fits.is_ok() {
                return Some(later);
            }
        }
        None
    }
}
