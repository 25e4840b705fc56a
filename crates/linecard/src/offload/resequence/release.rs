//! Releasing held data: the gap was filled, its timeout has expired, its room is needed, or the
//! caller asks for it.

use super::reason::Release;
use super::{Exit, Resequencer};
use crate::offload::flows::FlowId;
use crate::offload::tcp::{distance, frame_len};
use crate::packet::Packet;
use crate::time::{Instant, ns};

impl<B: AsRef<[u8]>> Resequencer<B> {
    /// Releases packets that are due at `now`.
    pub fn advance<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.now = self.now.max(now);
        while let Some(id) = self.wheel.due(self.now) {
            // Later arrivals may have moved the deadline.
            while let Some(arrived) =
                self.longest_held(id).filter(|_| self.deadline(id) <= self.now)
            {
                let spent = self.now.ns_since(arrived) >= ns(self.config.hold_budget);
                self.give_up_gap(id, if spent { Release::Budget } else { Release::Gap }, out);
            }
            self.settle(id);
        }
    }

    /// Releases everything: flows in the order in which they began to hold, each in sequence.
    pub fn flush_all<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        while let Some(id) = self.ages.first(0) {
            self.release_all(id, Release::Stop, out);
        }
    }

    /// Starts a new timeline, for captures whose clock was set back: releases everything, after
    /// which `now` may lie before earlier times.
    pub fn restart_clock<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.flush_all(out);
        self.wheel.restart(now);
        self.flows.states_mut().for_each(|flow| flow.forget_times(now));
        self.now = now;
    }

    /// Releases the data that has become next (Li, Chen, Su, Algorithm 3).
    pub(super) fn release_ready<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        why: Release,
        out: &mut F,
    ) {
        let before = self.flows.get(id).count;
        while self.first_is_ready(id) {
            let flow = self.flows.get_mut(id);
            let Some(held) = self.held.take_first(flow) else { break };
            flow.advance(held.end);
            self.counters.released(why, self.now.ns_since(held.arrived));
            self.counters.sent(frame_len(&held.packet));
            out(held.packet, Exit::Released(why));
        }
        if self.flows.get(id).count < before {
            self.settle(id);
        }
    }

    /// Stops waiting for the gap before the first held packet.
    pub(super) fn give_up_gap<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        why: Release,
        out: &mut F,
    ) {
        let flow = self.flows.get_mut(id);
        if let Some(first) = self.held.get(flow.first) {
            flow.skip_to(first.sequence);
        }
        self.release_ready(id, why, out);
    }

    /// Releases everything that a flow holds.
    pub(super) fn release_all<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        why: Release,
        out: &mut F,
    ) {
        while self.flows.get(id).count > 0 {
            self.give_up_gap(id, why, out);
        }
    }

    /// Releases the data of the flow that has held longest.
    pub(super) fn release_oldest<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        if let Some(id) = self.ages.first(0) {
            self.release_all(id, Release::HeldLimit, out);
        }
    }

    /// Sets or clears a flow's deadline after its held data has changed.
    pub(super) fn settle(&mut self, id: FlowId) {
        if self.flows.get(id).count == 0 {
            self.wheel.disarm(id);
            self.ages.remove(id);
            self.ends.leave(id);
        } else {
            self.wheel.arm(id, self.deadline(id).max(self.now));
        }
    }

    /// When a gap of the flow times out.
    fn deadline(&self, id: FlowId) -> Instant {
        let patience = (self.flows.get(id))
            .patience_ns(ns(self.config.gap_floor), ns(self.config.hold_budget));
        self.longest_held(id).map_or(Instant::NEVER, |arrived| arrived.plus_ns(patience))
    }

    /// The arrival of the packet of a flow that has been held longest.
    fn longest_held(&self, id: FlowId) -> Option<Instant> {
        self.held.earliest(id).map(|held| held.arrived)
    }

    fn first_is_ready(&self, id: FlowId) -> bool {
        let flow = self.flows.get(id);
        let first = self.held.get(flow.first);
        first.is_some_and(|first| distance(flow.next, first.sequence) <= 0)
    }
}
