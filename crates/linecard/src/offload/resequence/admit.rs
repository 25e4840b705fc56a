//! Handles a packet: it passes, or is held at its position.

use super::flow::Flow;
use super::reason::{Pass, Release};
use super::{Exit, Resequencer, Verdict};
use crate::offload::coalesce::{has_ip_options, may_belong_to_a_flow};
use crate::offload::flows::{FlowId, Placement};
use crate::offload::tcp::{Segment, distance, frame_len, vouch};
use crate::packet::header::tcp_flags;
use crate::packet::{LayerKind, Packet, same_ends};

/// Flags that make a segment more than data.
const CONTROL: u16 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;

/// The position of data relative to the expected sequence number.
enum Position {
    Expected,
    Before,
    Ahead,
    Outside,
}

/// Why a packet cannot be held.
enum Obstacle {
    /// It exceeds a bound of the configuration by itself.
    Size,
    FlowLimit,
    HeldLimit,
}

impl<B: AsRef<[u8]>> Resequencer<B> {
    pub(super) fn take<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        mut packet: Packet<B>,
        out: &mut F,
    ) -> Verdict {
        let hash =
            self.hasher.flow(&packet).filter(|_| !has_ip_options(packet.bytes(), packet.layout()));
        let Some(hash) = hash else {
            if may_belong_to_a_flow(packet.layout().protocol()) {
                self.release_ends(&packet, out);
            }
            return self.pass(packet, Pass::NoFlow, out);
        };
        if packet.layout().transport().is_none_or(|layer| layer.kind != LayerKind::Tcp) {
            return self.pass(packet, Pass::NotTcp, out);
        }
        let segment = Segment::read(&packet).filter(|_| vouch(&mut packet, self.config.checksum));
        match segment {
            None => self.bypass(hash, packet, Pass::Checksum, out),
            Some(segment) if segment.has(CONTROL | tcp_flags::URG) => {
                self.control(hash, packet, &segment, out)
            }
            Some(segment) if segment.len == 0 => self.bypass(hash, packet, Pass::NoPayload, out),
            Some(segment) => self.admit(hash, packet, &segment, out),
        }
    }

    /// Passes a packet of a flow that does not affect its sequence.
    fn bypass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        hash: u64,
        packet: Packet<B>,
        why: Pass,
        out: &mut F,
    ) -> Verdict {
        if let Some(id) = self.flows.find(hash) {
            self.release_all(id, Release::Bypass, out);
        }
        self.pass(packet, why, out)
    }

    /// Passes a control packet, and updates the expected sequence number.
    fn control<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        hash: u64,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let found = self.flows.find(hash);
        if let Some(id) = found {
            self.release_all(id, Release::Bypass, out);
        }
        match found {
            // A SYN defines where data begins (RFC 9293, section 3.4).
            _ if segment.has(tcp_flags::SYN) => {
                let id = found.unwrap_or_else(|| self.make(hash, out));
                *self.flows.get_mut(id) = Flow::new(segment, self.now);
            }
            Some(id) if segment.has(tcp_flags::FIN | tcp_flags::RST) => {
                self.flows.release(id);
                self.counters.flows_removed += 1;
            }
            // Urgent data is part of the sequence, at whatever position.
            Some(id) => {
                let flow = self.flows.get_mut(id);
                flow.skip_to(segment.sequence);
                flow.advance(segment.end());
            }
            None => {}
        }
        let urgent = !segment.has(CONTROL);
        self.pass(packet, if urgent { Pass::Urgent } else { Pass::Control }, out)
    }

    /// Passes data, or holds it at its position (Li, Chen, Su, Algorithm 1).
    fn admit<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        hash: u64,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let Some(id) = self.flows.find(hash) else {
            let id = self.make(hash, out);
            *self.flows.get_mut(id) = Flow::new(segment, self.now);
            return self.pass(packet, Pass::First, out);
        };
        self.flows.get_mut(id).arrived(self.now);
        if self.flows.get(id).count > 0 {
            // The interval has changed, and so may the deadline.
            self.settle(id);
        }
        let bytes = frame_len(&packet);
        // Each iteration releases a packet, so there is at most one more than held packets.
        loop {
            match self.position(id, segment) {
                Position::Expected => return self.go_on(id, packet, segment, out),
                Position::Before => return self.give_late(id, packet, segment, out),
                Position::Outside => return self.stray(id, packet, segment, out),
                Position::Ahead => {}
            }
            match self.obstacle(id, bytes) {
                None => return self.hold(id, packet, segment, out),
                Some(Obstacle::Size) => return self.give_large(id, packet, segment, out),
                Some(Obstacle::FlowLimit) => self.give_up_gap(id, Release::FlowLimit, out),
                Some(Obstacle::HeldLimit) => self.release_oldest(out),
            }
        }
    }

    fn position(&self, id: FlowId, segment: &Segment) -> Position {
        let flow = self.flows.get(id);
        // Bounded at construction, far below 2³¹.
        let window = self.config.max_flow_bytes as i32;
        let reach = distance(flow.next, segment.end());
        match flow.ahead(segment) {
            0 => Position::Expected,
            ahead if ahead > 0 && (reach > window || reach < ahead) => Position::Outside,
            ahead if ahead > 0 => Position::Ahead,
            behind if behind < -window && reach <= 0 => Position::Outside,
            _ => Position::Before,
        }
    }

    /// Passes expected data, and releases held data that follows it.
    fn go_on<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let flow = self.flows.get_mut(id);
        flow.strayed = None;
        flow.advance(segment.end());
        let verdict = self.pass(packet, Pass::InOrder, out);
        self.release_ready(id, Release::Filled, out);
        verdict
    }

    /// Passes data that starts before the expected sequence number; its end may be new.
    fn give_late<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let flow = self.flows.get_mut(id);
        flow.strayed = None;
        if self.config.drop_duplicates && flow.has_given_on(segment) {
            self.counters.dropped += 1;
            return Verdict::Dropped;
        }
        flow.advance(segment.end());
        let verdict = self.pass(packet, Pass::Old, out);
        self.release_ready(id, Release::Filled, out);
        verdict
    }

    /// Passes data from outside the window. A single forged packet must not move the expected
    /// sequence number: a second packet has to continue it.
    fn stray<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let flow = self.flows.get(id);
        let (ahead, agrees) = (flow.ahead(segment) > 0, flow.strayed == Some(segment.sequence));
        if ahead || agrees {
            self.release_all(id, Release::Stray, out);
        }
        let flow = self.flows.get_mut(id);
        if agrees {
            flow.restart(segment);
            self.counters.restarts += 1;
        } else {
            flow.strayed = Some(segment.end());
        }
        self.pass(packet, Pass::Stray, out)
    }

    /// Passes data that is larger than may be held, after all data held before it.
    fn give_large<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        self.release_all(id, Release::FlowLimit, out);
        let flow = self.flows.get_mut(id);
        flow.skip_to(segment.sequence);
        flow.advance(segment.end());
        self.pass(packet, Pass::TooLarge, out)
    }

    fn obstacle(&self, id: FlowId, bytes: usize) -> Option<Obstacle> {
        let (flow, config) = (self.flows.get(id), &self.config);
        if bytes > config.max_flow_bytes.min(config.max_held_bytes) {
            return Some(Obstacle::Size);
        }
        let beyond = flow.bytes + bytes > config.max_flow_bytes;
        if beyond || flow.count >= config.max_flow_packets {
            return Some(Obstacle::FlowLimit);
        }
        let beyond = self.held.bytes() + bytes > config.max_held_bytes;
        (beyond || self.held.len() >= config.max_held_packets).then_some(Obstacle::HeldLimit)
    }

    /// Holds data at its position (Li, Chen, Su, Algorithm 2).
    fn hold<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let flow = self.flows.get_mut(id);
        flow.strayed = None;
        let spot = self.held.spot(flow, segment);
        if spot.duplicate && self.config.drop_duplicates {
            self.counters.dropped += 1;
            return Verdict::Dropped;
        }
        let first = flow.count == 0;
        if first {
            self.ages.insert(0, id);
            self.ends.enter(&self.hasher, &packet, id);
        }
        if let Err(packet) = self.held.insert((id, flow), spot, segment, (packet, self.now)) {
            // There is no place at all: nothing is held, so nothing is overtaken.
            self.settle(id);
            return self.pass(packet, Pass::TooLarge, out);
        }
        self.counters.steps.record(spot.steps.into());
        if first {
            self.settle(id);
        }
        Verdict::Held
    }

    /// A place for a new flow; if none is free, evicts the flow that holds nothing and has been
    /// idle longest, or else the one that has held longest.
    fn make<F: FnMut(Packet<B>, Exit)>(&mut self, hash: u64, out: &mut F) -> FlowId {
        let held = &self.held;
        let worth = |id, flow: &Flow| match held.earliest(id) {
            None => (false, flow.last_arrival),
            Some(earliest) => (true, earliest.arrived),
        };
        let id = match self.flows.place(hash, worth) {
            Placement::Free(id) => id,
            Placement::Occupied(id) => {
                self.release_all(id, Release::TableFull, out);
                self.counters.flows_evicted += 1;
                id
            }
        };
        self.flows.occupy(id, hash, Flow::default());
        self.counters.flows_made += 1;
        id
    }

    /// Releases everything held between the addresses of a packet.
    fn release_ends<F: FnMut(Packet<B>, Exit)>(&mut self, packet: &Packet<B>, out: &mut F) {
        loop {
            let (flows, held) = (&self.flows, &self.held);
            let holds = |id: u32| {
                held.get(flows.get(id).first).is_some_and(|held| same_ends(&held.packet, packet))
            };
            let Some(id) = self.ends.find(&self.hasher, packet, holds) else { return };
            self.release_all(id, Release::Bypass, out);
        }
    }

    fn pass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        why: Pass,
        out: &mut F,
    ) -> Verdict {
        self.counters.passed.count(why);
        self.counters.sent(frame_len(&packet));
        out(packet, Exit::Passed(why));
        Verdict::Passed(why)
    }
}
