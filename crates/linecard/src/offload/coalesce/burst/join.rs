//! What becomes of each packet of a burst: it continues the last ones, meets an earlier one of its
//! flow, or is noted.

use super::notes::{Note, State};
use super::{Lent, Merged, Merger, Open, Place};
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::{Source, Trust, Upcoming};
use crate::offload::coalesce::bypass::{has_ip_options, may_belong_to_a_flow};
use crate::offload::coalesce::candidate::{Candidate, END_FLAGS, transport_of};
use crate::offload::coalesce::config::ChecksumPolicy;
use crate::offload::coalesce::predict::{Expected, Head, Limits};
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::offload::coalesce::{merge, steady};
use crate::packet::header::{self, Tcp};
use crate::packet::{ChecksumState, Form, LayerKind, Layout, Meta, Packet, same_ends};
use crate::time::Instant;
use core::ops::Range;

/// Notes that a packet without visible ports is compared with; with more of them, all packets noted
/// leave instead.
const MAX_COMPARED: usize = 32;
/// Nothing but the aggregate limits a run: no data is held beyond the call.
const UNLIMITED: Limits = Limits { packets: usize::MAX, bytes: usize::MAX };

impl Merger {
    /// Merges packets from `at` on into the packet that the last one joined, or into a recent one
    /// with the same ports, as long as they simply continue it; returns their number.
    #[inline(always)]
    pub(super) fn follow<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        lent: &mut Lent<F>,
    ) -> usize {
        let bytes = &lent.buffer[self.places[at].range()];
        let note = match self.current {
            Some(note) if self.has_ports_of(note, bytes, lent.buffer) => note,
            _ => match self.recent.guess(bytes) {
                Some(note) if self.has_ports_of(note, bytes, lent.buffer) => note,
                _ => return 0,
            },
        };
        self.open(note, lent).map_or(0, |open| self.join_all(note, open, at, lent))
    }

    /// Whether the packet noted is still here and has the same ports.
    #[inline(always)]
    fn has_ports_of(&self, note: u32, bytes: &[u8], buffer: &[u8]) -> bool {
        let Note { layout, first, state, .. } = self.notes.get(note);
        let (Some(transport), true) = (layout.transport(), *state != State::Gone) else {
            return false;
        };
        let ports = |bytes: &[u8]| bytes.get(transport.at()..)?.first_chunk::<4>().copied();
        ports(&buffer[self.places[*first as usize].range()]) == ports(bytes)
    }

    /// The aggregate of a packet noted. If it turns out that it cannot be merged, it leaves.
    #[inline(always)]
    fn open<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        lent: &mut Lent<F>,
    ) -> Option<u32> {
        match self.notes.get(note).state {
            State::Open(open) => Some(open),
            State::Gone => None,
            State::Alone => match self.examine_noted(note, lent.buffer) {
                Ok(open) => Some(open),
                Err(refusal) => {
                    self.counters.refused.count(refusal);
                    self.emit(note, Flush::Displaced, lent);
                    None
                }
            },
        }
    }

    #[inline(never)]
    fn examine_noted(&mut self, note: u32, buffer: &[u8]) -> Result<u32, Refusal> {
        let Note { layout, first, .. } = *self.notes.get(note);
        let packet = self.packet(first as usize, layout, buffer);
        let candidate = Candidate::examine(&packet, &self.config, &[])?;
        let open = self.add_open(first as usize, &packet, &candidate);
        self.notes.get_mut(note).state = State::Open(open);
        Ok(open)
    }

    /// Starts an aggregate with an examined packet; returns its place.
    fn add_open(&mut self, at: usize, packet: &Packet<&[u8]>, candidate: &Candidate) -> u32 {
        let aggregate = Aggregate::open((0, packet), candidate, &self.config, Instant::ZERO);
        let open = self.open.len() as u32;
        self.open.push(Open { aggregate, last: at as u32 });
        open
    }

    fn packet<'b>(&self, at: usize, layout: Layout, buffer: &'b [u8]) -> Packet<&'b [u8]> {
        let trusted = self.config.checksum == ChecksumPolicy::Trust;
        let checksum = if trusted { ChecksumState::Valid } else { ChecksumState::Unknown };
        let meta = Meta { checksum, ..Meta::default() };
        Packet::with_layout(&buffer[self.places[at].range()], self.link, layout, meta)
    }

    /// Merges packets from `at` on as long as they continue the aggregate.
    fn join_all<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        open: u32,
        at: usize,
        lent: &mut Lent<F>,
    ) -> usize {
        let Note { layout, first, .. } = self.notes.get(note);
        let Open { aggregate, last } = &mut self.open[open as usize];
        let verifies = self.config.checksum == ChecksumPolicy::Verify;
        let buffer = &*lent.buffer;
        let first = &buffer[self.places[*first as usize].range()];
        let trust = if verifies { Trust::Verify } else { Trust::Vouched };
        let mut upcoming = Frames { buffer, places: &mut self.places, at, trust };
        let may_continue = |aggregate: &Aggregate, upcoming: &Frames<'_>| {
            upcoming.bytes(0).is_some_and(|next| aggregate.may_continue(first, next))
        };
        let Some(shape) = self.hasher.shape(layout).filter(|_| may_continue(aggregate, &upcoming))
        else {
            return 0;
        };
        let source = Source { link: self.link, lane: 0, mark: 0, verifies };
        let head = Head { bytes: first, layout, source };
        let expected = Expected::after(head, aggregate, shape, &upcoming);
        let mut packets = steady::follow(&upcoming, &expected, aggregate, &UNLIMITED);
        upcoming.take_pieces(packets, 0..0, last);
        let mut ended = None;
        if may_continue(aggregate, &upcoming) {
            let taken = expected.run(aggregate, &UNLIMITED, (&mut upcoming, last));
            packets += taken.packets;
            ended = taken.ended;
        }
        if packets > 0 {
            self.current = Some(note);
        }
        if let Some(reason) = ended {
            self.emit(note, reason, lent);
        }
        packets
    }

    /// Handles one packet, which does not simply continue another; returns 1.
    #[inline(never)]
    pub(super) fn take<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        lent: &mut Lent<F>,
    ) -> usize {
        let bytes = &lent.buffer[self.places[at].range()];
        let layout = Layout::parse(self.link, bytes);
        let is_empty = layout.form() == Form::Datagram && layout.payload().is_empty();
        if is_empty && self.notes.is_empty() {
            // An acknowledgment among acknowledgments: there is nothing that it could overtake.
            self.counters.refused.count(Refusal::NoPayload);
            self.emit_alone(at, lent);
            return 1;
        }
        let hash = self.hasher.flow_of(bytes, &layout, 0);
        match hash.filter(|_| !has_ip_options(&self.packet(at, layout, lent.buffer))) {
            None => self.bypass(at, &layout, lent),
            Some(hash) => match self.notes.find(hash) {
                Some(note) => self.meet(note, (at, hash, layout), lent),
                None => self.note(at, hash, layout, lent),
            },
        }
        1
    }

    /// A packet whose flow is not visible: it leaves after all packets between its addresses.
    fn bypass<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        layout: &Layout,
        lent: &mut Lent<F>,
    ) {
        let refusal = match transport_of(layout) {
            Err(refusal) => refusal,
            Ok(_) if has_ip_options(&self.packet(at, *layout, lent.buffer)) => Refusal::IpOptions,
            Ok(_) => Refusal::HeaderTooLong,
        };
        self.counters.refused.count(refusal);
        let has_ends = layout.layers().any(|layer| layer.kind.is_ip());
        if has_ends && may_belong_to_a_flow(layout.protocol()) {
            let all = self.notes.here().len() > MAX_COMPARED;
            for note in self.notes.here() {
                let Note { layout: noted, first, .. } = *self.notes.get(note);
                let is_between = all || {
                    let packet = self.packet(at, *layout, lent.buffer);
                    same_ends(&self.packet(first as usize, noted, lent.buffer), &packet)
                };
                if is_between {
                    self.emit(note, Flush::Bypass, lent);
                }
            }
            if all {
                self.notes.all_gone();
            }
        }
        self.emit_alone(at, lent);
    }

    /// The first packet of a flow: it is noted, unless none could join it.
    fn note<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        hash: u64,
        layout: Layout,
        lent: &mut Lent<F>,
    ) {
        let bytes = &lent.buffer[self.places[at].range()];
        let refusal = match layout.form() {
            Form::Datagram if !layout.payload().is_empty() => None,
            Form::Datagram => Some(Refusal::NoPayload),
            _ => Some(Refusal::Trailer),
        };
        if refusal.is_some() || ends(bytes, &layout) {
            match refusal {
                Some(refusal) => self.counters.refused.count(refusal),
                None => self.counters.flushed.count(Flush::EndFlag),
            }
            return self.emit_alone(at, lent);
        }
        self.add_note(Note { hash, layout, first: at as u32, state: State::Alone }, bytes);
    }

    fn add_note(&mut self, note: Note, bytes: &[u8]) {
        let ports = note.layout.transport().map_or(0, |transport| transport.at());
        let number = self.notes.add(note);
        self.recent.note(bytes, ports, number);
        self.current = Some(number);
    }

    /// A packet whose flow has an earlier one here: it joins that one, or takes its place.
    fn meet<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        (at, hash, layout): (usize, u64, Layout),
        lent: &mut Lent<F>,
    ) {
        let Some(open) = self.open(note, lent) else {
            return self.note(at, hash, layout, lent);
        };
        let packet = self.packet(at, layout, lent.buffer);
        let candidate = match Candidate::examine(&packet, &self.config, &[]) {
            Ok(candidate) => candidate,
            Err(refusal) => {
                self.counters.refused.count(refusal);
                self.emit(note, Flush::Bypass, lent);
                return self.emit_alone(at, lent);
            }
        };
        let Note { layout: noted, first, .. } = *self.notes.get(note);
        let first = self.packet(first as usize, noted, lent.buffer);
        match self.fits(open, (&first, &packet), &candidate) {
            Ok(candidate) => self.join(note, open, (at, &candidate), lent),
            Err(refusal) => {
                self.counters.refused.count(refusal);
                self.emit(note, flush_of(refusal), lent);
                if candidate.ends() {
                    self.counters.flushed.count(Flush::EndFlag);
                    return self.emit_alone(at, lent);
                }
                // It has been examined already.
                let packet = self.packet(at, layout, lent.buffer);
                let state = State::Open(self.add_open(at, &packet, &candidate));
                let bytes = &lent.buffer[self.places[at].range()];
                self.add_note(Note { hash, layout, first: at as u32, state }, bytes);
            }
        }
    }

    /// Whether a packet may join the first; the candidate with the padding that the whole has then.
    fn fits(
        &mut self,
        open: u32,
        (first, next): (&Packet<&[u8]>, &Packet<&[u8]>),
        candidate: &Candidate,
    ) -> Result<Candidate, Refusal> {
        let layout = first.layout();
        let shape = self.hasher.shape(layout).filter(|_| layout.same_headers(next.layout()));
        if !shape.is_some_and(|shape| shape.mergeable(first.bytes(), next.bytes())) {
            return Err(merge::difference(first, next).unwrap_or(Refusal::Envelope));
        }
        let aggregate = &mut self.open[open as usize].aggregate;
        let step = aggregate.fits(candidate, 0)?;
        aggregate.grown.fixed_ids = step.fixed_ids;
        Ok(Candidate { padding: step.padding, ..*candidate })
    }

    /// Adds a packet that fits.
    fn join<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        open: u32,
        (at, candidate): (usize, &Candidate),
        lent: &mut Lent<F>,
    ) {
        let Open { aggregate, last } = &mut self.open[open as usize];
        let ended = aggregate.append(candidate, self.places[at].len as usize);
        self.places[*last as usize].next = at as u32;
        *last = at as u32;
        self.current = Some(note);
        if let Some(reason) = ended {
            self.emit(note, reason, lent);
        }
    }
}

/// Whether no packet may be merged after this one.
fn ends(bytes: &[u8], layout: &Layout) -> bool {
    layout.transport().is_some_and(|layer| {
        layer.kind == LayerKind::Tcp
            && header::at::<Tcp>(bytes, layer.at()).offset_flags & END_FLAGS != 0
    })
}

/// The frames of a burst from one on.
struct Frames<'a> {
    buffer: &'a [u8],
    places: &'a mut [Place],
    at: usize,
    trust: Trust,
}

impl Upcoming for Frames<'_> {
    /// The last frame of a merged packet.
    type Chain = u32;

    #[inline(always)]
    fn len(&self) -> usize {
        self.places.len() - self.at
    }

    #[inline(always)]
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.buffer.get(self.places.get(self.at + index)?.range())
    }

    #[inline(always)]
    fn trust(&self, _: usize, _: &Source) -> Option<Trust> {
        Some(self.trust)
    }

    #[inline(always)]
    fn take_pieces(&mut self, count: usize, _: Range<usize>, last: &mut u32) {
        for at in self.at..self.at + count {
            self.places[*last as usize].next = at as u32;
            *last = at as u32;
        }
        self.at += count;
    }
}
