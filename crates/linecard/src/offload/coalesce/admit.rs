//! Handles a packet that may merge: it joins the held data of its flow, or is held as the first of
//! new data. The packet is in the slab already.
//!
//! A first packet is held unchanged. It is examined, its checksums verified, when another one is to join it.

use super::aggregate::Aggregate;
use super::ahead::Known;
use super::arrivals::Arrivals;
use super::candidate::{Candidate, ends};
use super::config::Creation;
use super::ids::{FlowId, SlotId};
use super::reason::{Flush, Refusal};
use super::slab::{Entry, Held};
use super::table::Place;
use super::{Coalescer, Exit, Verdict, merge};
use crate::packet::header::tcp_flags;
use crate::packet::{LayerKind, Packet};
use crate::time::ns;

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Merges a packet into the held data of its flow, or holds it as the first of new data. It may
    /// have been examined, and the flow hash may be known already.
    #[inline]
    pub(super) fn admit<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        candidate: Option<Candidate>,
        (known, later): (Known, &[u8]),
        out: &mut F,
    ) -> Verdict {
        let Some(hash) = known.hash.or_else(|| self.flow_of_landed()) else {
            return self.pass(Refusal::Malformed, out);
        };
        let Some(flow) = self.flow_of((hash, known.flow), candidate.as_ref(), out) else {
            return self.pass(Refusal::NoFlow, out);
        };
        match self.table.held(flow) {
            None => self.open(flow, candidate.as_ref(), None, out),
            Some(slot) => self.meet(slot, candidate, (later, out)),
        }
    }

    /// Merges a packet into the data held at `slot`, or holds it in its place.
    fn meet<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        candidate: Option<Candidate>,
        (later, out): (&[u8], &mut F),
    ) -> Verdict {
        let Self { held, hasher, .. } = self;
        let Held { entry, packet, .. } = held.get(slot);
        let (Some(first), Some(next)) = (packet, held.landed()) else {
            return self.pass(Refusal::Malformed, out);
        };
        let flow = entry.flow;
        if let Some(refusal) = merge::obstacle(hasher, (first, entry.successor.sequence()), next) {
            return self.displace(slot, candidate.as_ref(), (refusal, out));
        }
        if !self.examine_held(slot, out) {
            return self.open(flow, candidate.as_ref(), None, out);
        }
        let candidate = candidate.map_or_else(
            || {
                let next = self.held.landed().ok_or(Refusal::Malformed)?;
                Candidate::examine(next, &self.config, later)
            },
            Ok,
        );
        match candidate {
            Ok(candidate) => self.join(slot, &candidate, out),
            Err(refusal) => self.bypass(refusal, None, out),
        }
    }

    /// Examines a held packet that another one is to join, unless that has been done; returns whether it may merge. If
    /// not, it passes.
    #[inline(always)]
    fn examine_held<F: FnMut(Packet<B>, Exit)>(&mut self, slot: SlotId, out: &mut F) -> bool {
        self.held.get(slot).entry.examined || self.examine_alone(slot, out)
    }

    #[inline(never)]
    pub(super) fn examine_alone<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        out: &mut F,
    ) -> bool {
        let Held { entry, packet: Some(packet), aggregate } = self.held.get_mut(slot) else {
            return false;
        };
        let (head, config) = ((packet.bytes(), packet.layout()), &self.config);
        let found = match Aggregate::open_usual(head, &packet.meta, config) {
            Some(usual) => {
                debug_assert_eq!(Aggregate::examine(packet, config), Ok(usual));
                Ok(usual)
            }
            None => Aggregate::examine(packet, config),
        };
        match found {
            Ok(found) => {
                *aggregate = found;
                entry.examined = true;
                true
            }
            Err(refusal) => {
                self.pass_held(slot, refusal, out);
                false
            }
        }
    }

    /// Whether the next packet to come may join the packet held at `slot`, which is examined then.
    #[inline(never)]
    pub(super) fn examine_before<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        arrivals: &mut A,
        out: &mut F,
    ) -> bool {
        let Some(next) = arrivals.view(0) else { return false };
        let Self { held, hasher, config, .. } = self;
        let Held { entry, packet: Some(first), .. } = held.get(slot) else { return false };
        Candidate::look(&next, config).is_ok()
            && merge::obstacle(hasher, (first, entry.successor.sequence()), &next).is_none()
            && self.examine_alone(slot, out)
    }

    /// Merges a packet with equal headers unless a limit prevents it.
    fn join<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        let mark = self.held.landed().map_or(0, |packet| packet.meta.mark);
        match self.held.get(slot).aggregate.fits(candidate, mark) {
            Ok(step) => {
                let candidate = Candidate { padding: step.padding, ..*candidate };
                self.held.get_mut(slot).aggregate.grown.fixed_ids = step.fixed_ids;
                self.merge(slot, &candidate, out)
            }
            Err(refusal) => self.displace(slot, Some(candidate), (refusal, out)),
        }
    }

    /// Flushes the held data, and holds the packet in its place.
    fn displace<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        candidate: Option<&Candidate>,
        (refusal, out): (Refusal, &mut F),
    ) -> Verdict {
        let flow = self.held.get(slot).entry.flow;
        self.counters.refused.count(refusal);
        self.flush(slot, flush_of(refusal), out);
        self.open(flow, candidate, Some(refusal), out)
    }

    /// The flow's place, created if allowed; its clock is updated.
    pub(super) fn flow_of<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        (hash, hint): (u64, Option<FlowId>),
        candidate: Option<&Candidate>,
        out: &mut F,
    ) -> Option<FlowId> {
        if let Some(flow) = self.table.find_near(hash, hint) {
            self.table.arrived(flow, self.now);
            return Some(flow);
        }
        let is_tcp = |candidate: &&Candidate| candidate.kind == LayerKind::Tcp;
        match candidate.filter(is_tcp).filter(|_| self.config.creation == Creation::OnSyn) {
            Some(candidate) if candidate.flags & tcp_flags::SYN == 0 => return None,
            Some(_) => self.counters.flows_on_syn += 1,
            None => self.counters.flows_on_data += 1,
        }
        Some(self.create(hash, out))
    }

    /// Creates a flow, evicting an older one if no place is free.
    pub(super) fn create<F: FnMut(Packet<B>, Exit)>(&mut self, hash: u64, out: &mut F) -> FlowId {
        let held = &self.held;
        let flow = match self.table.place(hash, |slot| held.get(slot).entry.opened) {
            Place::Free(flow) => flow,
            Place::Occupied(flow, slot) => {
                slot.into_iter().for_each(|slot| self.flush(slot, Flush::TableFull, out));
                self.counters.flows_evicted += 1;
                flow
            }
        };
        self.table.occupy(flow, hash, self.now);
        flow
    }

    /// Holds the packet that has landed as the first of new data.
    fn open<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        flow: FlowId,
        candidate: Option<&Candidate>,
        refusal: Option<Refusal>,
        out: &mut F,
    ) -> Verdict {
        let is_last = |packet: &Packet<B>| ends(packet.bytes(), packet.layout());
        if self.held.landed().is_some_and(is_last) {
            self.leave_at_once(out);
            self.release_at_end(flow, candidate.map_or(0, |candidate| candidate.flags));
            return Verdict::Opened(refusal);
        }
        self.make_room(None, out);
        let Some((slot, held)) = self.held.open() else {
            // There are as many places as packets may be held, or flows, of which this one holds nothing.
            return self.pass(Refusal::TooLarge, out);
        };
        let Some(packet) = &held.packet else { return Verdict::Passed(Refusal::Malformed) };
        let (bytes, spent) = (packet.bytes(), self.now.plus_ns(ns(self.config.hold_budget)));
        held.entry = Entry::new((flow, packet), self.now, spent);
        if let Some(candidate) = candidate {
            held.aggregate = Aggregate::open(packet, candidate, &self.config);
            held.entry.examined = true;
        }
        self.held_packets += 1;
        self.held_bytes += bytes.len();
        self.table.set_held(flow, Some(slot));
        held.entry.fresh = self.fresh.add(slot);
        self.recent.note(bytes, held.entry.successor.ports(), slot);
        self.current = Some(slot);
        Verdict::Opened(refusal)
    }

    /// The packet that has landed leaves at once, because none may be merged after it.
    fn leave_at_once<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        let Some(packet) = self.held.take_landed() else { return };
        self.counters.flushed(Flush::EndFlag, 1, 0);
        self.counters.sent(packet.bytes().len());
        out(packet, Exit::Flushed(Flush::EndFlag));
    }

    /// Merges a packet that fits.
    fn merge<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        let flow = self.held.get(slot).entry.flow;
        if self.make_room(Some(slot), out) {
            return self.open(flow, Some(candidate), None, out);
        }
        let (Some(packet), held) = self.held.landed_and(slot) else {
            return Verdict::Passed(Refusal::Malformed);
        };
        let bytes = packet.bytes().len();
        let ended = held.aggregate.append(candidate, bytes);
        held.entry.successor.expect(held.aggregate.grown.next_sequence);
        if let Some(first) = &mut held.packet {
            if !first.is_merged() {
                first.set_chain(Self::spare_chain(&mut self.chains));
            }
            first.append(packet.into_piece());
        }
        self.held_packets += 1;
        self.held_bytes += bytes;
        self.current = Some(slot);
        match ended {
            Some(reason) => self.flush(slot, reason, out),
            None => self.hasten(slot),
        }
        self.release_at_end(flow, candidate.flags);
        Verdict::Merged
    }

    /// Flushes the data held longest until there is room for one more packet, the one that has
    /// landed. Returns whether the data at `slot`, which the packet would join, was itself flushed.
    #[inline(always)]
    fn make_room<F: FnMut(Packet<B>, Exit)>(&mut self, slot: Option<SlotId>, out: &mut F) -> bool {
        let bytes = self.held.landed().map_or(0, |packet| packet.bytes().len());
        self.lacks_room(bytes) && self.flush_for_room(slot, bytes, out)
    }

    #[inline(always)]
    fn lacks_room(&self, bytes: usize) -> bool {
        self.held_packets >= self.config.max_held_packets.max(1)
            || self.held_bytes + bytes > self.config.max_held_bytes
    }

    #[inline(never)]
    fn flush_for_room<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: Option<SlotId>,
        bytes: usize,
        out: &mut F,
    ) -> bool {
        let mut hit = false;
        while self.lacks_room(bytes) {
            self.settle();
            let Some(oldest) = self.ages.first(0) else { break };
            hit |= Some(oldest) == slot;
            self.flush(oldest, Flush::HeldLimit, out);
        }
        hit
    }

    /// Removes a flow at FIN or RST if flows are created at SYN.
    #[inline(always)]
    pub(super) fn release_at_end(&mut self, flow: FlowId, flags: u16) {
        if self.config.creation == Creation::OnSyn && flags & (tcp_flags::FIN | tcp_flags::RST) != 0
        {
            self.table.release(flow);
            self.counters.flows_released += 1;
        }
    }
}

/// Why held data leaves when the next packet was refused.
pub(super) const fn flush_of(refusal: Refusal) -> Flush {
    match refusal {
        Refusal::SizeLimit | Refusal::SegmentLimit => Flush::Size,
        _ => Flush::Displaced,
    }
}
