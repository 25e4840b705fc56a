//! Bursts of few flows, of which each comes in runs: as long as that lasts, no table of flows is needed.

use super::chains::WINDOW;
use super::join::{Joining, Open, UNLIMITED, has_data};
use super::notes::{FEW, Note, State};
use super::store::{Alone, Later, Store};
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::Upcoming;
use crate::offload::coalesce::candidate::ends;
use crate::offload::coalesce::predict::Expected;
use crate::offload::coalesce::steady;
use crate::packet::{Form, Layout};
use core::ops::Range;

/// The beginning of a run.
#[derive(Debug, Clone, Copy)]
enum Beginning {
    /// Its flags say that nothing follows.
    Ends,
    Noted(Note),
}

impl<S: Store> Joining<'_, S> {
    /// Handles packets from `at` on; returns their number. It may be that flows are known then.
    #[inline(always)]
    pub(super) fn take_in_runs(&mut self, at: usize) -> usize {
        let Self { burst, store, .. } = &*self;
        let may_continue = |note: &u32| burst.notes.get(*note).may_continue(store.bytes(at));
        let joined = burst.current.filter(may_continue).map_or(0, |note| self.join_run(note, at));
        if joined > 0 { joined } else { self.take(at) }
    }

    /// Handles a packet that does not simply continue the last ones, and possibly further ones; returns their
    /// number, 0 if flows have been found for all.
    #[inline(never)]
    fn take(&mut self, at: usize) -> usize {
        let (layout, hash) = self.store.flow(at, &mut self.burst.hasher);
        let is_empty = layout.form() == Form::Datagram && layout.payload().is_empty();
        if hash.is_some() && is_empty && self.burst.notes.is_empty() {
            // An acknowledgment among acknowledgments: there is nothing that it could overtake.
            self.store.leave_alone(at, layout, Alone::of(true, false));
            return 1;
        }
        let packets = hash.map_or(0, |hash| self.take_of_few((at, layout), hash));
        if packets == 0 && !self.burst.flows.are_known() {
            self.find_flows(at, None);
        }
        packets
    }

    /// Packets from `at` on as long as there are few flows, of which each comes in runs; returns their number, 0 if it
    /// takes more to handle the first.
    fn take_of_few(&mut self, (at, layout): (usize, Layout), hash: u64) -> usize {
        if self.burst.notes.here().len() >= FEW {
            return 0;
        }
        if let Some(note) = self.burst.notes.find(hash) {
            return if self.burst.notes.get(note).may_continue(self.store.bytes(at)) {
                self.join_run(note, at)
            } else {
                self.interrupt_run(note, (at, layout), hash)
            };
        }
        let Some(beginning) = self.begins_run(at, layout) else { return 0 };
        self.begin_run(beginning, (at, layout), hash);
        1
    }

    /// How a packet begins a run, if it is all of it, or the one behind it may continue it.
    fn begins_run(&self, at: usize, layout: Layout) -> Option<Beginning> {
        let bytes = self.store.bytes(at);
        if !has_data(&layout) {
            return None;
        }
        if ends(bytes, &layout) {
            return Some(Beginning::Ends);
        }
        let note = Note::new((layout, bytes), at as u32);
        let is_continued =
            at + 1 == self.store.len() || note.may_continue(self.store.bytes(at + 1));
        is_continued.then_some(Beginning::Noted(note))
    }

    fn begin_run(&mut self, beginning: Beginning, (at, layout): (usize, Layout), hash: u64) {
        match beginning {
            Beginning::Ends => self.store.leave_alone(at, layout, Alone::of(false, true)),
            Beginning::Noted(note) => {
                self.burst.notes.add_of_few(hash);
                self.add_note(note);
            }
        }
    }

    /// Handles a packet that does not continue the noted aggregate of its flow: if one that is missing in front of it lies a little
    /// later, that one joins first; otherwise it replaces the noted one. Returns the number of packets handled, 0 if
    /// it takes more.
    #[inline(never)]
    fn interrupt_run(&mut self, note: u32, (at, layout): (usize, Layout), hash: u64) -> usize {
        if self.is_behind_missing(note, at, layout) {
            let noted = self.burst.notes.get(note);
            let end = self.store.len().min(at + WINDOW + 1);
            let may_continue = |later: &usize| noted.may_continue(self.store.bytes(*later));
            if let Some(late) = (at + 1..end).find(may_continue) {
                return self.join_late(note, at..late);
            }
        }
        let Some(beginning) = self.begins_run(at, layout) else { return 0 };
        let Some(refusal) = self.obstacle(note, at, layout) else { return 0 };
        self.store.refuse(refusal);
        self.leave(note, flush_of(refusal));
        self.begin_run(beginning, (at, layout), hash);
        1
    }

    /// Merges the packet behind these, which are of its flow, and then these; returns how many packets in front have been
    /// handled then.
    fn join_late(&mut self, note: u32, before: Range<usize>) -> usize {
        // None of another flow, which might have to keep its order.
        if !(before.start..=before.end).all(|at| self.has_headers_of(note, at)) {
            return 0;
        }
        let late = before.end;
        let Some(open) =
            self.open(note).filter(|open| self.append_run(note, *open, late..late + 1) > 0)
        else {
            return 0;
        };
        let is_here = self.burst.notes.get(note).state != State::Gone;
        let joined = if is_here { self.append_run(note, open, before.clone()) } else { 0 };
        if joined == before.len() {
            return joined + 1;
        }
        self.find_flows(before.start + joined, Some(late));
        joined
    }

    /// Finds the flows of the packets from `at` on but for one that has been handled, and which of them have notes.
    #[inline(never)]
    fn find_flows(&mut self, at: usize, handled: Option<usize>) {
        let burst = &mut *self.burst;
        burst.flows.find(self.store, at, &mut burst.hasher);
        if let Some(handled) = handled {
            burst.flows.forget(handled);
        }
        for (note, hash) in burst.notes.few() {
            if burst.notes.get(note).state != State::Gone {
                burst.flows.set_note_of(hash, note);
            }
        }
    }

    /// Merges packets from `at` on into one that is here, as long as they simply continue it; returns their number.
    #[inline(always)]
    fn join_run(&mut self, note: u32, at: usize) -> usize {
        if self.burst.notes.get(note).state == State::Alone && !self.has_headers_of(note, at) {
            return 0;
        }
        let run = at..self.store.len();
        self.open(note).map_or(0, |open| self.append_run(note, open, run))
    }

    /// Merges the first of these packets, as long as they continue the aggregate; returns their number.
    fn append_run(
        &mut self,
        note: u32,
        open: u32,
        Range { start: at, end }: Range<usize>,
    ) -> usize {
        let burst = &mut *self.burst;
        let Note { layout, first, .. } = *burst.notes.get(note);
        let Open { aggregate, last } = &mut burst.open[open as usize];
        let bytes = self.store.bytes(first as usize);
        let mut upcoming = Later { store: &*self.store, links: &mut burst.links, at, end };
        let may_continue = |aggregate: &Aggregate, upcoming: &Later<'_, S>| {
            upcoming.bytes(0).is_some_and(|next| aggregate.may_continue(bytes, next))
        };
        let shape = burst.hasher.shape(&layout).filter(|_| may_continue(aggregate, &upcoming));
        let Some(shape) = shape else { return 0 };
        let head = Self::head(self.config, (&*self.store, first as usize), &layout);
        let expected = Expected::after(head, aggregate, shape, &upcoming);
        let mut packets = 0;
        if upcoming.bytes(1).is_some_and(|next| aggregate.may_continue(bytes, next)) {
            packets = steady::follow(&upcoming, &expected, aggregate, &UNLIMITED);
            upcoming.take_pieces(packets, 0..bytes.len(), last);
        }
        let mut ended = None;
        if may_continue(aggregate, &upcoming) {
            let taken = expected.run(aggregate, &UNLIMITED, (&mut upcoming, last));
            packets += taken.packets;
            ended = taken.ended;
        }
        if packets > 0 {
            burst.current = Some(note);
            burst.notes.get_mut(note).expect(aggregate.grown.next_sequence);
        }
        if let Some(reason) = ended {
            self.leave(note, reason);
        }
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::steady::tests::{Traffic, each_traffic};
    use super::super::super::{Coalescer, Config, Input};
    use super::super::Merger;
    use crate::packet::{LinkType, Meta, Packet};
    use crate::time::Instant;
    use alloc::vec::Vec;

    /// Whether flows were looked for in packets, in frames that share their metadata, and in lent memory; and how many
    /// packets left of each.
    fn look_for_flows(packets: &[Packet<Vec<u8>>]) -> [(bool, usize); 3] {
        let mut left = [0; 3];
        let [of_packets, of_frames, of_lent] = &mut left;
        let config = Config::burst();
        let mut coalescers = [0, 1].map(|_| Coalescer::new(config.clone()));
        coalescers[0]
            .push_batch(&mut packets.to_vec(), Instant::ZERO, &mut |_, _| *of_packets += 1);
        let (link, meta) = (LinkType::Ethernet, Meta::default());
        let mut frames: Vec<_> = packets.iter().map(|packet| packet.bytes().to_vec()).collect();
        let mut buffer = frames.concat();
        let mut end = 0;
        let ranges: Vec<_> = frames
            .iter()
            .map(|frame| {
                end += frame.len();
                end - frame.len()..end
            })
            .collect();
        let input = Input::Frames(&mut frames, link, meta);
        coalescers[1].push_batch(input, Instant::ZERO, &mut |_, _| *of_frames += 1);
        let mut merger = Merger::new(link, config);
        merger.merge_burst(&mut buffer, ranges, &mut |_| *of_lent += 1).expect("inside");
        let bursts = [&coalescers[0].burst, &coalescers[1].burst, &merger.burst];
        core::array::from_fn(|at| (bursts[at].flows.are_known(), left[at]))
    }

    #[test]
    fn runs_need_no_table_of_flows() {
        let traffic = each_traffic().find(|traffic| traffic.tcp && !traffic.v6).expect("one");
        let of = |port, index| Traffic { ports: (port, 9), ..traffic }.packet(index, 1);
        let empty = |port| Traffic { ports: (port, 9), len: 0, ..traffic }.packet(0, 1);
        let run = |port| (0..4).map(move |index| of(port, index));
        let late = [0, 1, 3, 4, 2, 5].map(|index| of(1, index));
        let gap = [0, 1, 5, 6].map(|index| of(1, index));
        for (packets, are_known, left) in [
            (run(1).collect::<Vec<_>>(), false, 1),
            (run(1).chain(run(2)).chain([of(1, 4), of(1, 5), of(2, 4)]).collect(), false, 2),
            (late.into(), false, 1),
            (gap.into(), false, 2),
            ([empty(1), empty(2), empty(1)].into(), false, 3),
            ([of(1, 0), of(2, 0), of(1, 1), of(2, 1)].into(), true, 2),
        ] {
            assert_eq!(look_for_flows(&packets), [(are_known, left); 3]);
        }
    }
}
