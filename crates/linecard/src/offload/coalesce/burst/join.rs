//! The path of each packet of a burst: it continues the last ones, meets an earlier one of its
//! flow, or is noted.

use super::flows::{Flows, PART};
use super::notes::{Note, Notes, State};
use super::store::{Links, Store};
use crate::offload::coalesce::admit::flush_of;
use crate::offload::coalesce::aggregate::Aggregate;
use crate::offload::coalesce::arrivals::Source;
use crate::offload::coalesce::bypass::{has_ip_options, may_belong_to_a_flow};
use crate::offload::coalesce::candidate::{Candidate, transport_of};
use crate::offload::coalesce::config::{ChecksumPolicy, Config};
use crate::offload::coalesce::predict::{Head, Limits};
use crate::offload::coalesce::reason::{Flush, Refusal};
use crate::offload::coalesce::{Exit, merge};
use crate::packet::header::{self, Tcp};
use crate::packet::{FlowHasher, Form, LayerKind, Layout, prefetch_header, same_ends};
use alloc::vec::Vec;

/// Notes that a packet without visible ports is compared with; with more of them, all packets noted
/// leave instead.
const MAX_COMPARED: usize = crate::packet::BATCH;
/// Headers are prefetched so many packets ahead of runs, which may take as many at once.
const RUN_AHEAD: usize = 24;
/// Nothing but the aggregate limits a run: no data is held beyond the call.
pub(super) const UNLIMITED: Limits = Limits { packets: usize::MAX, bytes: usize::MAX };

/// Findings about the packets of a burst. Nothing of it but memory outlives the burst.
#[derive(Debug)]
pub(in crate::offload::coalesce) struct Burst {
    pub(super) hasher: FlowHasher,
    pub(super) links: Links,
    pub(super) flows: Flows,
    /// Notes in the order of their first packets.
    pub(super) notes: Notes,
    pub(super) open: Vec<Open>,
    /// The note that the last packet joined or made, as long as flows are not known.
    pub(super) current: Option<u32>,
}

/// A packet that has been examined, and those that joined it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) aggregate: Aggregate,
    /// The last of its packets.
    pub(super) last: u32,
}

/// A burst in progress: its state, the rules, and its packets.
pub(super) struct Joining<'a, S> {
    pub(super) burst: &'a mut Burst,
    pub(super) config: &'a Config,
    pub(super) store: &'a mut S,
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
        let mut joining = Joining { burst: self, config, store };
        let (mut at, mut asked) = (0, 0);
        while at < packets && !joining.burst.flows.are_known() {
            let ahead = packets.min(at + RUN_AHEAD);
            (asked..ahead).for_each(|at| prefetch_header(joining.store.bytes(at)));
            asked = asked.max(ahead);
            at += joining.take_in_runs(at);
        }
        if at < packets {
            for part in at / PART..packets.div_ceil(PART) {
                joining.take_part(part);
            }
        }
        for note in joining.burst.notes.here() {
            joining.leave(note, Flush::BatchEnd);
        }
    }
}

impl<S: Store> Joining<'_, S> {
    /// Whether a packet has the headers of the packet noted: if not, neither is examined.
    #[inline]
    pub(super) fn has_headers_of(&mut self, note: u32, at: usize) -> bool {
        let Note { layout, first, .. } = *self.burst.notes.get(note);
        let (first, next) = (self.store.bytes(first as usize), self.store.bytes(at));
        self.burst.hasher.shape(&layout).is_some_and(|shape| shape.mergeable(first, next))
    }

    /// The aggregate of a packet noted. If it turns out that it cannot be merged, it leaves.
    #[inline(always)]
    pub(super) fn open(&mut self, note: u32) -> Option<u32> {
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
        match Aggregate::examine(&packet, self.config) {
            Ok(aggregate) => {
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

    /// A packet whose flow is not visible: it leaves after all packets between its addresses.
    pub(super) fn bypass(&mut self, at: usize, layout: Layout) {
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

    #[inline]
    pub(super) fn add_note(&mut self, note: Note) -> u32 {
        let number = self.burst.notes.add(note);
        if self.burst.flows.are_known() {
            self.burst.flows.set_note(note.first as usize, number);
        }
        self.burst.current = Some(number);
        number
    }

    /// The expectation of the next packet begins with this one.
    #[inline(always)]
    pub(super) fn head<'a>(
        config: &Config,
        (store, first): (&'a S, usize),
        layout: &'a Layout,
    ) -> Head<'a> {
        let (link, meta) = store.origin(first);
        let verifies = config.checksum == ChecksumPolicy::Verify;
        let pads = config.device.is_none();
        let source = Source { link, lane: meta.lane, mark: meta.mark, verifies, pads };
        Head { bytes: store.bytes(first), layout, source }
    }

    /// A packet whose flow has an earlier one here: it joins that one, or takes its place.
    pub(super) fn meet(&mut self, note: u32, (at, layout): (usize, Layout)) {
        if !has_data(&layout) {
            self.leave(note, Flush::Bypass);
            return self.begin(at);
        }
        if let Some(refusal) = self.obstacle(note, at, layout) {
            self.store.refuse(refusal);
            self.leave(note, flush_of(refusal));
            return self.begin(at);
        }
        let Some(open) = self.open(note) else { return self.begin(at) };
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
                self.burst.flows.is_noted_at(at);
                if let Some(reason) = ended {
                    self.leave(note, reason);
                }
            }
            Err(refusal) => {
                // It has been examined already.
                let aggregate = Aggregate::open(&packet, &candidate, self.config);
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

    /// The reason that prevents a packet from joining an earlier one of its flow, as far as a look at both
    /// headers shows: neither has to be examined then.
    #[inline]
    pub(super) fn obstacle(&mut self, note: u32, at: usize, layout: Layout) -> Option<Refusal> {
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
    pub(super) fn leave(&mut self, note: u32, reason: Flush) {
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
pub(super) fn has_data(layout: &Layout) -> bool {
    layout.form() == Form::Datagram && !layout.payload().is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::super::Counters;
    use super::super::super::arrivals::Upcoming;
    use super::super::super::steady::tests::each_traffic;
    use super::super::store::{AllAlone, Later};
    use super::super::{OwnedPackets, Way};
    use super::*;
    use crate::packet::Packet;
    use alloc::vec;

    /// Should the hashes of their flows be the same.
    #[test]
    fn packets_of_two_lanes_are_never_alike() {
        let traffic = each_traffic().next().expect("one");
        for lane in [0, 1] {
            let mut packets = vec![Some(traffic.packet(0, 1)), Some(traffic.packet(1, 1))];
            packets[1].iter_mut().for_each(|packet| packet.meta.lane = lane);
            let [layout, next] = [0, 1].map(|at| *packets[at].as_ref().expect("there").layout());
            let (counters, chains) = (&mut Counters::default(), &mut Vec::new());
            let out = &mut |_: Packet<Vec<u8>>, _: Exit| ();
            let (alone, alone_bytes, merged) = (AllAlone::default(), 0, 0);
            let way = Way { counters, chains, out, alone, alone_bytes, merged };
            let mut store = OwnedPackets { packets: &mut packets, way };
            let (burst, config) = (&mut Burst::new(1), &Config::default());
            let mut joining = Joining { burst, config, store: &mut store };
            let note = joining.add_note(Note::new((layout, joining.store.bytes(0)), 0));
            let obstacle = joining.obstacle(note, 1, next);
            assert_eq!(obstacle, (lane == 1).then_some(Refusal::Envelope));
            let Joining { burst, store, .. } = joining;
            for (at, end) in [(0, 2), (0, 1), (1, 1), (2, 2)] {
                let later = Later { store, links: &mut burst.links, at, end };
                assert_eq!(later.len(), end - at);
            }
        }
    }
}
