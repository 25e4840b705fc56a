//! What happens to a packet that may merge: it joins its flow's held data, or is held as the first
//! of new data.

use super::aggregate::Aggregate;
use super::candidate::Candidate;
use super::config::Creation;
use super::reason::{Flush, Refusal};
use super::slab::SlotId;
use super::table::{FlowId, Place};
use super::{CHAIN_ROOM, Coalescer, Exit, Verdict, merge};
use crate::packet::header::tcp_flags;
use crate::packet::{LayerKind, Packet};
use alloc::vec::Vec;

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Merges a candidate into its flow's held data, or holds it as the first of new data.
    #[inline(always)]
    pub(super) fn admit<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        // Most packets follow one of their flow: then their headers say so, and nothing is hashed.
        if let Some(slot) = self.current
            && self.continues(slot, &packet)
        {
            let flow = self.held.get(slot).aggregate.flow;
            self.table.arrived(flow, self.now);
            return self.join(slot, packet, candidate, out);
        }
        self.admit_by_hash(packet, candidate, out)
    }

    /// Whether the headers of a packet are those of what is held at `slot`.
    #[inline(always)]
    fn continues(&mut self, slot: SlotId, packet: &Packet<B>) -> bool {
        let Some(first) = &self.held.get(slot).packet else { return false };
        let layout = packet.layout();
        first.layout().same_headers(layout)
            && first.meta.lane == packet.meta.lane
            && self
                .hasher
                .shape(layout)
                .is_some_and(|shape| shape.mergeable(first.bytes(), packet.bytes()))
    }

    #[inline(never)]
    fn admit_by_hash<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        let Some(hash) = self.hasher.flow(&packet) else {
            return self.pass(packet, Refusal::Malformed, out);
        };
        let Some(flow) = self.flow_of(hash, candidate, out) else {
            return self.pass(packet, Refusal::NoFlow, out);
        };
        let Some(slot) = self.table.held(flow) else {
            return self.open((flow, packet), candidate, None, out);
        };
        if self.continues(slot, &packet) {
            return self.join(slot, packet, candidate, out);
        }
        let first = self.held.get(slot).packet.as_ref();
        let refusal = first.and_then(|first| merge::difference(first, &packet));
        self.displace(slot, packet, candidate, (refusal.unwrap_or(Refusal::Envelope), out))
    }

    /// Merges a packet with equal headers, if nothing else is in the way.
    #[inline(always)]
    fn join<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        packet: Packet<B>,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        match self.held.get(slot).aggregate.fits(candidate, packet.meta.mark) {
            Ok(step) => {
                let candidate = Candidate { padding: step.padding, ..*candidate };
                self.held.get_mut(slot).aggregate.fixed_ids = step.fixed_ids;
                self.merge(slot, packet, &candidate, out)
            }
            Err(refusal) => self.displace(slot, packet, candidate, (refusal, out)),
        }
    }

    /// Lets go what is held, and holds the packet in its place.
    #[inline(never)]
    fn displace<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        packet: Packet<B>,
        candidate: &Candidate,
        (refusal, out): (Refusal, &mut F),
    ) -> Verdict {
        let flow = self.held.get(slot).aggregate.flow;
        self.counters.refused.count(refusal);
        self.flush(slot, flush_of(refusal), out);
        self.open((flow, packet), candidate, Some(refusal), out)
    }

    /// The flow's place, made if that is allowed; its clock is kept.
    fn flow_of<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        hash: u64,
        candidate: &Candidate,
        out: &mut F,
    ) -> Option<FlowId> {
        if let Some(flow) = self.table.find(hash) {
            self.table.arrived(flow, self.now);
            return Some(flow);
        }
        if self.config.creation == Creation::OnSyn && candidate.kind == LayerKind::Tcp {
            if candidate.flags & tcp_flags::SYN == 0 {
                return None;
            }
            self.counters.flows_on_syn += 1;
        } else {
            self.counters.flows_on_data += 1;
        }
        Some(self.create(hash, out))
    }

    /// Makes a flow, in the place of an older one when there is none free.
    pub(super) fn create<F: FnMut(Packet<B>, Exit)>(&mut self, hash: u64, out: &mut F) -> FlowId {
        let held = &self.held;
        let flow = match self.table.place(hash, |slot| held.get(slot).aggregate.opened) {
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

    #[inline(never)]
    fn open<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        (flow, packet): (FlowId, Packet<B>),
        candidate: &Candidate,
        refusal: Option<Refusal>,
        out: &mut F,
    ) -> Verdict {
        self.make_room(&packet, None, out);
        let bytes = packet.bytes().len();
        let aggregate = Aggregate::open((flow, &packet), candidate, &self.config, self.now);
        let slot = match self.held.open(packet, aggregate) {
            Ok(slot) => slot,
            // There is no place at all: nothing is held, so nothing is overtaken.
            Err(packet) => return self.pass(packet, Refusal::TooLarge, out),
        };
        self.held_packets += 1;
        self.held_bytes += bytes;
        self.table.set_held(flow, Some(slot));
        self.ages.insert(0, slot);
        self.register_ends(slot);
        self.wheel.arm(slot, self.deadline(slot));
        self.current = Some(slot);
        if candidate.ends() {
            self.flush(slot, Flush::EndFlag, out);
        }
        self.release_at_end(flow, candidate.flags);
        Verdict::Opened(refusal)
    }

    /// Merges a packet that fits.
    #[inline(always)]
    pub(super) fn merge<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        packet: Packet<B>,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        let flow = self.held.get(slot).aggregate.flow;
        if self.needs_room(&packet) && self.make_room(&packet, Some(slot), out) {
            return self.open((flow, packet), candidate, None, out);
        }
        let bytes = packet.bytes().len();
        let held = self.held.get_mut(slot);
        let ended = held.aggregate.append(candidate, bytes);
        if let Some(first) = &mut held.packet {
            if !first.is_merged() {
                let spare = self.chains.pop();
                first.set_chain(spare.unwrap_or_else(|| Vec::with_capacity(CHAIN_ROOM)));
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

    #[inline(always)]
    fn needs_room(&self, packet: &Packet<B>) -> bool {
        self.held_packets >= self.config.max_held_packets.max(1)
            || self.held_bytes + packet.bytes().len() > self.config.max_held_bytes
    }

    /// Lets go what has been held longest until one more packet may be held; tells whether what is
    /// at `slot` was let go itself.
    fn make_room<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: &Packet<B>,
        slot: Option<SlotId>,
        out: &mut F,
    ) -> bool {
        let mut hit = false;
        while self.needs_room(packet) || (slot.is_none() && self.held.is_full()) {
            let Some(oldest) = self.ages.first(0) else { break };
            hit |= Some(oldest) == slot;
            self.flush(oldest, Flush::HeldLimit, out);
        }
        hit
    }

    /// FIN and RST remove a flow, where flows open on SYN.
    #[inline(always)]
    pub(super) fn release_at_end(&mut self, flow: FlowId, flags: u16) {
        if self.config.creation == Creation::OnSyn && flags & (tcp_flags::FIN | tcp_flags::RST) != 0
        {
            self.table.release(flow);
            self.counters.flows_released += 1;
        }
    }
}

fn flush_of(refusal: Refusal) -> Flush {
    match refusal {
        Refusal::SizeLimit | Refusal::SegmentLimit => Flush::Size,
        _ => Flush::Displaced,
    }
}
