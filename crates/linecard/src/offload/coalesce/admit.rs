//! Handles a packet that may merge: it joins the held data of its flow, or is held as the first of
//! new data. The packet is in the slab already.

use super::aggregate::Aggregate;
use super::ahead::Known;
use super::candidate::Candidate;
use super::config::Creation;
use super::ids::{FlowId, SlotId};
use super::reason::{Flush, Refusal};
use super::table::Place;
use super::{Coalescer, Exit, Verdict, merge};
use crate::packet::header::tcp_flags;
use crate::packet::{LayerKind, Packet};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Merges a candidate into the held data of its flow, or holds it as the first of new data. The
    /// flow hash may be known already.
    #[inline]
    pub(super) fn admit<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        candidate: &Candidate,
        known: Known,
        out: &mut F,
    ) -> Verdict {
        let Some(hash) = known.hash.or_else(|| self.flow_of_landed()) else {
            return self.pass(Refusal::Malformed, out);
        };
        let Some(flow) = self.flow_of((hash, known.flow), candidate, out) else {
            return self.pass(Refusal::NoFlow, out);
        };
        match self.table.held(flow) {
            None => self.open(flow, candidate, None, out),
            Some(slot) if self.continues(slot) => self.join(slot, candidate, out),
            Some(slot) => {
                let first = self.held.get(slot).packet.as_ref();
                let refusal = first.zip(self.held.landed());
                let refusal = refusal.and_then(|(first, next)| merge::difference(first, next));
                self.displace(slot, candidate, (refusal.unwrap_or(Refusal::Envelope), out))
            }
        }
    }

    /// The hash of the flow of the packet that has landed.
    fn flow_of_landed(&mut self) -> Option<u64> {
        let packet = self.held.landed()?;
        self.hasher.usual_flow_of(packet.bytes(), packet.layout(), packet.meta.lane)
    }

    /// Whether the headers of the packet equal those of the data held at `slot`.
    #[inline(always)]
    fn continues(&mut self, slot: SlotId) -> bool {
        let (Some(first), Some(packet)) = (&self.held.get(slot).packet, self.held.landed()) else {
            return false;
        };
        let layout = packet.layout();
        first.layout().same_headers(layout)
            && first.meta.lane == packet.meta.lane
            && self
                .hasher
                .shape(layout)
                .is_some_and(|shape| shape.mergeable(first.bytes(), packet.bytes()))
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
            Err(refusal) => self.displace(slot, candidate, (refusal, out)),
        }
    }

    /// Flushes the held data, and holds the packet in its place.
    fn displace<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        candidate: &Candidate,
        (refusal, out): (Refusal, &mut F),
    ) -> Verdict {
        let flow = self.held.get(slot).aggregate.flow;
        self.counters.refused.count(refusal);
        self.flush(slot, flush_of(refusal), out);
        self.open(flow, candidate, Some(refusal), out)
    }

    /// The flow's place, created if allowed; its clock is updated.
    fn flow_of<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        (hash, hint): (u64, Option<FlowId>),
        candidate: &Candidate,
        out: &mut F,
    ) -> Option<FlowId> {
        if let Some(flow) = self.table.find_near(hash, hint) {
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

    /// Creates a flow, evicting an older one if no place is free.
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

    fn open<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        flow: FlowId,
        candidate: &Candidate,
        refusal: Option<Refusal>,
        out: &mut F,
    ) -> Verdict {
        self.make_room(None, out);
        let Some((slot, held)) = self.held.open() else {
            // There is no place at all: nothing is held, so nothing is overtaken.
            return self.pass(Refusal::TooLarge, out);
        };
        let Some(packet) = &held.packet else { return Verdict::Passed(Refusal::Malformed) };
        held.aggregate = Aggregate::open((flow, packet), candidate, &self.config, self.now);
        self.held_packets += 1;
        self.held_bytes += held.aggregate.bytes;
        self.table.set_held(flow, Some(slot));
        held.aggregate.fresh = self.fresh.add(slot);
        self.recent.note(packet.bytes(), held.aggregate.ports.into(), slot);
        self.current = Some(slot);
        if candidate.ends() {
            self.flush(slot, Flush::EndFlag, out);
        }
        self.release_at_end(flow, candidate.flags);
        Verdict::Opened(refusal)
    }

    /// Merges a packet that fits.
    fn merge<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        let flow = self.held.get(slot).aggregate.flow;
        if self.make_room(Some(slot), out) {
            return self.open(flow, candidate, None, out);
        }
        let (Some(packet), held) = self.held.landed_and(slot) else {
            return Verdict::Passed(Refusal::Malformed);
        };
        let bytes = packet.bytes().len();
        let ended = held.aggregate.append(candidate, bytes);
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
    #[inline]
    fn make_room<F: FnMut(Packet<B>, Exit)>(&mut self, slot: Option<SlotId>, out: &mut F) -> bool {
        let bytes = self.held.landed().map_or(0, |packet| packet.bytes().len());
        let mut hit = false;
        while self.held_packets >= self.config.max_held_packets.max(1)
            || self.held_bytes + bytes > self.config.max_held_bytes
            || (slot.is_none() && self.held.is_full())
        {
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
