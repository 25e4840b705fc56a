//! What becomes of each packet of a burst: it continues the last ones, meets an earlier one of its
//! flow, or is noted.

use super::flows::{Flows, hash_of};
use super::notes::{FEW, Note, Notes, State};
use super::store::{Later, Links, Store};
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::{Source, Upcoming};
use crate::offload::coalesce::bypass::{has_ip_options, may_belong_to_a_flow};
use crate::offload::coalesce::candidate::{Candidate, END_FLAGS, transport_of};
use crate::offload::coalesce::config::{ChecksumPolicy, Config};
use crate::offload::coalesce::predict::{Expected, Head, Limits};
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::offload::coalesce::{Exit, merge, steady};
use crate::packet::header::{self, Tcp};
use crate::packet::{FlowHasher, Form, LayerKind, Layout, Packet, prefetch_line, same_ends};
use crate::time::Instant;
use alloc::vec::Vec;

/// Notes that a packet without visible ports is compared with; with more of them, all packets noted
/// leave instead.
const MAX_COMPARED: usize = crate::packet::BATCH;
/// A packet that is missing is looked for among so many.
const WINDOW: usize = 32;
/// Headers are prefetched so many packets ahead.
const AHEAD: usize = 12;
/// Nothing but the aggregate limits a run: no data is held beyond the call.
const UNLIMITED: Limits = Limits { packets: usize::MAX, bytes: usize::MAX };

/// What is known of the packets of a burst. Nothing of it but memory outlives the burst.
#[derive(Debug)]
pub(in crate::offload::coalesce) struct Burst {
    hasher: FlowHasher,
    links: Links,
    flows: Flows,
    /// Notes in the order of their first packets.
    notes: Notes,
    open: Vec<Open>,
    /// The note that the last packet joined or made.
    current: Option<u32>,
    /// Packets that were handled before their turn, at most [`WINDOW`].
    early: Vec<usize>,
}

/// A packet that has been examined, and those that joined it.
#[derive(Debug, Clone, Copy)]
struct Open {
    aggregate: Aggregate,
    /// The last of its packets.
    last: u32,
}

/// A burst under way: what is known of it, the rules, and its packets.
struct Joining<'a, S> {
    burst: &'a mut Burst,
    config: &'a Config,
    store: &'a mut S,
    /// Packets up to here can be handled together.
    end: usize,
}

impl Burst {
    pub(in crate::offload::coalesce) fn new(secret: u64) -> Self {
        Self {
            hasher: FlowHasher::new(secret),
            links: Links::default(),
            flows: Flows::default(),
            notes: Notes::default(),
            open: Vec::new(),
            current: None,
            early: Vec::new(),
        }
    }

    /// Merges the packets of a burst; all leave.
    pub(in crate::offload::coalesce) fn merge<S: Store>(&mut self, config: &Config, store: &mut S) {
        let packets = store.len();
        self.links.begin(packets);
        self.flows.begin();
        self.notes.begin();
        self.open.clear();
        self.current = None;
        self.early.clear();
        let mut joining = Joining { burst: self, config, store, end: packets };
        let mut at = 0;
        (0..AHEAD.min(packets)).for_each(|at| prefetch_line(joining.store.bytes(at)));
        while at < packets {
            if at + AHEAD < packets {
                prefetch_line(joining.store.bytes(at + AHEAD));
            }
            if joining.was_early(at) {
                at += 1;
                continue;
            }
            at += match joining.follow(at) {
                0 => joining.take(at),
                followed => followed,
            };
        }
        for note in joining.burst.notes.here() {
            joining.leave(note, Flush::BatchEnd);
        }
    }
}

impl<S: Store> Joining<'_, S> {
    /// Merges packets from `at` on into the packet that the last one joined, or that the first of them belongs to, as
    /// long as they simply continue it; returns their number.
    #[inline(always)]
    fn follow(&mut self, at: usize) -> usize {
        let Burst { flows, notes, current, .. } = &*self.burst;
        let note = if flows.are_known() { flows.latest_note_of(at) } else { *current };
        match note.filter(|note| notes.get(*note).may_continue(self.store.bytes(at))) {
            Some(note) => self.join(note, at),
            None => 0,
        }
    }

    /// Merges packets from `at` on into one that is here, as long as they simply continue it.
    #[inline(always)]
    fn join(&mut self, note: u32, at: usize) -> usize {
        if self.burst.notes.get(note).state == State::Alone && !self.has_headers_of(note, at) {
            return 0;
        }
        self.open(note).map_or(0, |open| self.join_all(note, open, at))
    }

    /// Whether a packet has the headers of the packet noted: if not, neither is examined.
    #[inline]
    fn has_headers_of(&mut self, note: u32, at: usize) -> bool {
        let Note { layout, first, .. } = *self.burst.notes.get(note);
        let (first, next) = (self.store.bytes(first as usize), self.store.bytes(at));
        self.burst.hasher.shape(&layout).is_some_and(|shape| shape.mergeable(first, next))
    }

    /// The aggregate of a packet noted. If it turns out that it cannot be merged, it leaves.
    #[inline(always)]
    fn open(&mut self, note: u32) -> Option<u32> {
        match self.burst.notes.get(note).state {
            State::Open(open) => Some(open),
            State::Gone => None,
            State::Alone => self.examine_noted(note),
        }
    }

    #[inline(never)]
    fn examine_noted(&mut self, note: u32) -> Option<u32> {
        let Note { layout, first, .. } = *self.burst.notes.get(note);
        let packet = self.store.view(first as usize, layout);
        match Candidate::examine(&packet, self.config, &[]) {
            Ok(candidate) => {
                let aggregate = self.aggregate(&packet, &candidate);
                let open = self.burst.add_open(aggregate, first);
                self.burst.notes.get_mut(note).state = State::Open(open);
                Some(open)
            }
            Err(refusal) => {
                self.burst.notes.get_mut(note).state = State::Gone;
                self.store.leave(first as usize, layout, Exit::Passed(refusal));
                None
            }
        }
    }

    /// An aggregate that begins with an examined packet.
    fn aggregate(&self, packet: &Packet<&[u8]>, candidate: &Candidate) -> Aggregate {
        Aggregate::open((0, packet), candidate, self.config, Instant::ZERO)
    }

    /// Merges packets from `at` on as long as they continue the aggregate.
    fn join_all(&mut self, note: u32, open: u32, at: usize) -> usize {
        let Burst { hasher, links, notes, open: all_open, current, .. } = &mut *self.burst;
        let Note { layout, first, .. } = *notes.get(note);
        let Open { aggregate, last } = &mut all_open[open as usize];
        let first = first as usize;
        let bytes = self.store.bytes(first);
        let mut upcoming = Later { store: &*self.store, links, at, end: self.end };
        let may_continue = |aggregate: &Aggregate, upcoming: &Later<'_, S>| {
            upcoming.bytes(0).is_some_and(|next| aggregate.may_continue(bytes, next))
        };
        let Some(shape) = hasher.shape(&layout).filter(|_| may_continue(aggregate, &upcoming))
        else {
            return 0;
        };
        let (link, meta) = self.store.origin(first);
        let verifies = self.config.checksum == ChecksumPolicy::Verify;
        let source = Source { link, lane: meta.lane, mark: meta.mark, verifies };
        let head = Head { bytes, layout: &layout, source };
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
            *current = Some(note);
            notes.get_mut(note).expect(aggregate.grown.next_sequence);
        }
        if let Some(reason) = ended {
            self.leave(note, reason);
        }
        packets
    }

    /// Handles a packet that does not simply continue the last ones, and possibly further ones; returns their
    /// number.
    #[inline(never)]
    fn take(&mut self, at: usize) -> usize {
        let layout = self.store.layout(at);
        let is_plain = layout.form() == Form::Datagram && layout.has_no_ip_options();
        if is_plain && self.burst.flows.has(at) && self.note_of(at).is_none() {
            self.note(at, layout);
            return 1;
        }
        self.take_any(at, layout)
    }

    #[inline(never)]
    fn take_any(&mut self, at: usize, layout: Layout) -> usize {
        let is_visible = matches!(layout.form(), Form::Datagram | Form::Padded)
            && !has_ip_options(self.store.bytes(at), &layout);
        if !self.burst.flows.are_known() {
            let is_empty = is_visible && !has_data(&layout);
            if is_empty && layout.form() == Form::Datagram && self.burst.notes.is_empty() {
                // An acknowledgment among acknowledgments: there is nothing that it could overtake.
                self.store.leave(at, layout, Exit::Passed(Refusal::NoPayload));
                return 1;
            }
            let packets = if is_visible { self.take_of_few(at, layout) } else { 0 };
            if packets > 0 {
                return packets;
            }
            self.find_flows();
        }
        if is_visible && self.burst.flows.has(at) {
            self.take_visible(at, layout);
        } else {
            self.bypass(at, layout);
        }
        1
    }

    /// Packets from `at` on as long as there are few flows, of which each comes in runs; returns their number, 0 if it
    /// takes more to handle the first.
    fn take_of_few(&mut self, at: usize, layout: Layout) -> usize {
        let Burst { hasher, notes, .. } = &mut *self.burst;
        if notes.here().len() >= FEW {
            return 0;
        }
        let Some(hash) = hash_of((&*self.store, at), || layout, hasher) else { return 0 };
        let bytes = self.store.bytes(at);
        if let Some(note) = notes.find(hash) {
            return if notes.get(note).may_continue(bytes) { self.join(note, at) } else { 0 };
        }
        if !has_data(&layout) || ends(bytes, &layout) {
            return 0;
        }
        let note = Note::new((layout, bytes), at as u32);
        if at + 1 < self.end && !note.may_continue(self.store.bytes(at + 1)) {
            return 0;
        }
        notes.add_of_few(hash);
        self.add_note(note);
        1
    }

    /// Finds the flows of all packets, and those of the packets noted so far.
    #[inline(never)]
    fn find_flows(&mut self) {
        let Burst { hasher, flows, notes, .. } = &mut *self.burst;
        flows.find(self.store, hasher);
        for note in notes.here() {
            let Note { first, state, .. } = *notes.get(note);
            if state != State::Gone {
                flows.set_note(first as usize, note);
            }
        }
    }

    /// A packet whose flow is visible.
    #[inline]
    fn take_visible(&mut self, at: usize, layout: Layout) {
        let mut note = self.note_of(at);
        while let Some(before) = note
            && let Some((early, layout)) = self.missing_before(before, at, layout)
        {
            self.meet(before, (early, layout));
            note = self.note_of(at);
        }
        // Looking for it may have made the packet noted leave.
        match self.note_of(at) {
            Some(note) => self.meet(note, (at, layout)),
            None => self.note_outlined(at, layout),
        }
    }

    /// The note that is here of the flow of a packet.
    #[inline(always)]
    fn note_of(&self, at: usize) -> Option<u32> {
        let note = self.burst.flows.latest_note_of(at)?;
        (self.burst.notes.get(note).state != State::Gone).then_some(note)
    }

    /// Whether a packet was handled before its turn, which is over then.
    #[inline(always)]
    fn was_early(&mut self, at: usize) -> bool {
        if self.burst.early.is_empty() {
            return false;
        }
        let place = self.burst.early.iter().position(|early| *early == at);
        if let Some(place) = place {
            self.burst.early.swap_remove(place);
            self.limit();
        }
        place.is_some()
    }

    /// Packets are handled together up to the first that was handled before its turn.
    fn limit(&mut self) {
        self.end = self.burst.early.iter().copied().min().unwrap_or(self.store.len());
    }

    /// The packet that a flow expects, if the one at hand is ahead of it and it lies a little later in the burst. It is
    /// to be handled now.
    #[inline]
    fn missing_before(&mut self, note: u32, at: usize, layout: Layout) -> Option<(usize, Layout)> {
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
    fn find_missing(&mut self, note: u32, at: usize) -> Option<(usize, Layout)> {
        let noted = *self.burst.notes.get(note);
        let mut next = self.burst.flows.next_of(at);
        while let Some(later) = next.filter(|later| *later <= at + WINDOW) {
            next = self.burst.flows.next_of(later);
            let bytes = self.store.bytes(later);
            // Nothing else of the packets is looked at: a hostile flow could make all of them be parsed for each.
            if !noted.may_continue(bytes) || self.burst.early.contains(&later) {
                continue;
            }
            let layout = self.store.layout(later);
            if !has_data(&layout) || !self.has_headers_of(note, later) {
                continue;
            }
            let open = self.open(note)?;
            let packet = self.store.view(later, layout);
            let aggregate = &self.burst.open[open as usize].aggregate;
            let fits = Candidate::examine(&packet, self.config, &[])
                .and_then(|candidate| aggregate.fits(&candidate, packet.meta.mark));
            if fits.is_ok() {
                self.burst.early.push(later);
                self.limit();
                return Some((later, layout));
            }
        }
        None
    }

    /// A packet whose flow is not visible: it leaves after all packets between its addresses.
    fn bypass(&mut self, at: usize, layout: Layout) {
        let refusal = match transport_of(&layout) {
            Err(refusal) => refusal,
            Ok(_) if has_ip_options(self.store.bytes(at), &layout) => Refusal::IpOptions,
            Ok(_) => Refusal::HeaderTooLong,
        };
        let has_ends = layout.layers().any(|layer| layer.kind.is_ip());
        if has_ends && may_belong_to_a_flow(layout.protocol()) {
            let all = self.burst.notes.here().len() > MAX_COMPARED;
            for note in self.burst.notes.here() {
                let Note { layout: noted, first, state, .. } = *self.burst.notes.get(note);
                let is_between = || {
                    let first = self.store.view(first as usize, noted);
                    same_ends(&first, &self.store.view(at, layout))
                };
                if state != State::Gone && (all || is_between()) {
                    self.leave(note, Flush::Bypass);
                }
            }
            if all {
                self.burst.notes.all_gone();
            }
        }
        self.store.leave(at, layout, Exit::Passed(refusal));
    }

    /// [`Joining::note`] where it is seldom.
    #[inline(never)]
    fn note_outlined(&mut self, at: usize, layout: Layout) {
        self.note(at, layout);
    }

    /// The first packet of a flow: it is noted, unless none could join it.
    #[inline(always)]
    fn note(&mut self, at: usize, layout: Layout) {
        let exit = match layout.form() {
            Form::Datagram if layout.payload().is_empty() => Exit::Passed(Refusal::NoPayload),
            Form::Datagram if ends(self.store.bytes(at), &layout) => Exit::Flushed(Flush::EndFlag),
            Form::Datagram => match self.alone_or_noted(at, layout) {
                Ok(reason) => Exit::Flushed(reason),
                Err(note) => return self.add_note(note),
            },
            _ => Exit::Passed(Refusal::Trailer),
        };
        self.store.leave(at, layout, exit);
    }

    /// Why no packet will join this one, if the next of its flow shows it; otherwise its note.
    #[inline(always)]
    fn alone_or_noted(&mut self, at: usize, layout: Layout) -> Result<Flush, Note> {
        // A packet handled before its turn may be joined by one of before.
        let is_shown = self.burst.early.is_empty();
        let next = self.burst.flows.next_of(at);
        if is_shown && next.is_none() {
            return Ok(Flush::BatchEnd);
        }
        let note = Note::new((layout, self.store.bytes(at)), at as u32);
        let Some(next) = next.filter(|_| is_shown) else { return Err(note) };
        let bytes = self.store.bytes(next);
        if note.may_continue(bytes) {
            return Err(note);
        }
        let layout = self.store.layout(next);
        if !has_data(&layout) {
            return Ok(Flush::Bypass);
        }
        // A packet that is missing between the two may come.
        let is_next = !self.config.restore_order || note.is_followed_by(bytes);
        if is_next && layout.payload().len() > note.layout.payload().len() {
            self.store.refuse(Refusal::Longer);
            return Ok(flush_of(Refusal::Longer));
        }
        Err(note)
    }

    #[inline]
    fn add_note(&mut self, note: Note) {
        let number = self.burst.notes.add(note);
        self.burst.flows.set_note(note.first as usize, number);
        self.burst.current = Some(number);
    }

    /// A packet whose flow has an earlier one here: it joins that one, or takes its place.
    fn meet(&mut self, note: u32, (at, layout): (usize, Layout)) {
        if !has_data(&layout) {
            self.leave(note, Flush::Bypass);
            return self.note_outlined(at, layout);
        }
        if let Some(refusal) = self.obstacle(note, at, layout) {
            self.store.refuse(refusal);
            self.leave(note, flush_of(refusal));
            return self.note_outlined(at, layout);
        }
        let Some(open) = self.open(note) else { return self.note_outlined(at, layout) };
        let packet = self.store.view(at, layout);
        let candidate = match Candidate::examine(&packet, self.config, &[]) {
            Ok(candidate) => candidate,
            Err(refusal) => {
                self.leave(note, Flush::Bypass);
                return self.store.leave(at, layout, Exit::Passed(refusal));
            }
        };
        let Open { aggregate, last } = &mut self.burst.open[open as usize];
        match aggregate.fits(&candidate, packet.meta.mark) {
            Ok(step) => {
                aggregate.grown.fixed_ids = step.fixed_ids;
                let bytes = packet.bytes().len();
                let candidate = Candidate { padding: step.padding, ..candidate };
                let ended = aggregate.append(&candidate, bytes);
                self.burst.links.append(last, at, layout.end());
                self.burst.notes.get_mut(note).expect(aggregate.grown.next_sequence);
                if let Some(reason) = ended {
                    self.leave(note, reason);
                }
            }
            Err(refusal) => {
                // It has been examined already.
                let aggregate = self.aggregate(&packet, &candidate);
                self.store.refuse(refusal);
                self.leave(note, flush_of(refusal));
                if candidate.ends() {
                    return self.store.leave(at, layout, Exit::Flushed(Flush::EndFlag));
                }
                let open = self.burst.add_open(aggregate, at as u32);
                let note = Note::new((layout, self.store.bytes(at)), at as u32);
                self.add_note(note.with(State::Open(open)));
            }
        }
    }

    /// What prevents a packet from joining an earlier one of its flow, as far as a look at both
    /// headers shows: neither has to be examined then.
    #[inline]
    fn obstacle(&mut self, note: u32, at: usize, layout: Layout) -> Option<Refusal> {
        let Note { layout: noted, first, .. } = *self.burst.notes.get(note);
        if layout.payload().len() > noted.payload().len() {
            return Some(Refusal::Longer);
        }
        let (before, bytes) = (self.store.bytes(first as usize), self.store.bytes(at));
        let tcp = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp);
        if let (Some(expected), Some(tcp)) = (self.burst.notes.get(note).next_sequence(), tcp) {
            match header::at::<Tcp>(bytes, tcp.at()).sequence.wrapping_sub(expected) {
                0 => {}
                1..0x8000_0000 => return Some(Refusal::SequenceGap),
                _ => return Some(Refusal::SequenceOld),
            }
        }
        let lane = |at: usize| self.store.origin(at).1.lane;
        let alike = noted.same_headers(&layout) && lane(first as usize) == lane(at);
        let shape = self.burst.hasher.shape(&noted).filter(|_| alike);
        if !shape.is_some_and(|shape| shape.mergeable(before, bytes)) {
            let (first, next) =
                (self.store.view(first as usize, noted), self.store.view(at, layout));
            return Some(merge::difference(&first, &next).unwrap_or(Refusal::Envelope));
        }
        None
    }

    /// The packet noted leaves, with those that joined it, if it has not yet.
    fn leave(&mut self, note: u32, reason: Flush) {
        let noted = self.burst.notes.get_mut(note);
        let (first, layout) = (noted.first as usize, noted.layout);
        match core::mem::replace(&mut noted.state, State::Gone) {
            State::Gone => {}
            State::Open(open) if self.burst.open[open as usize].aggregate.grown.count > 1 => {
                let chain = self.burst.links.chain(first, layout);
                let aggregate = &mut self.burst.open[open as usize].aggregate;
                self.store.leave_merged(chain, aggregate, reason);
            }
            State::Open(_) | State::Alone => {
                self.store.leave(first, layout, Exit::Flushed(reason));
            }
        }
    }
}

impl Burst {
    /// Adds an aggregate that begins with the packet `first`; returns its place.
    fn add_open(&mut self, aggregate: Aggregate, first: u32) -> u32 {
        let open = self.open.len() as u32;
        self.open.push(Open { aggregate, last: first });
        open
    }
}

/// Whether a packet shows that it is all data that it carries.
#[inline(always)]
fn has_data(layout: &Layout) -> bool {
    layout.form() == Form::Datagram && !layout.payload().is_empty()
}

/// Whether no packet may be merged after this one.
#[inline(always)]
fn ends(bytes: &[u8], layout: &Layout) -> bool {
    layout.transport().is_some_and(|layer| {
        layer.kind == LayerKind::Tcp
            && header::at::<Tcp>(bytes, layer.at()).offset_flags & END_FLAGS != 0
    })
}
