//! Flushing held data: its deadline has passed, its room is needed, or the caller asks for it.

use super::aggregate::Aggregate;
use super::ids::SlotId;
use super::reason::Flush;
use super::{Coalescer, Exit};
use crate::packet::Packet;
use crate::time::Instant;

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Flushes what is due at `now`.
    pub fn advance<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.now = self.now.max(now);
        while let Some(slot) = self.due() {
            let deadline = self.deadline(slot);
            if deadline > self.now {
                // Packets that arrived since have moved it.
                self.arm(slot, deadline);
                continue;
            }
            let spent = self.now >= self.held.get(slot).aggregate.spent;
            self.flush(slot, if spent { Flush::Budget } else { Flush::Idle }, out);
        }
    }

    /// The data whose deadline is the first of those that have passed: that of its timer, or the end of the hold
    /// budget, which comes in the order of opening, so that no timer is needed for it.
    fn due(&mut self) -> Option<SlotId> {
        let spent = |slot: &SlotId| self.held.get(*slot).aggregate.spent;
        let oldest = self.ages.first(0).filter(|slot| spent(slot) <= self.now);
        let idle = self.wheel.due(self.now);
        match (oldest, idle) {
            (Some(oldest), Some(idle)) => {
                Some(if spent(&oldest) <= self.wheel.deadline(idle) { oldest } else { idle })
            }
            (oldest, idle) => oldest.or(idle),
        }
    }

    /// Sets the timer of held data, unless the hold budget ends before.
    #[inline]
    fn arm(&mut self, slot: SlotId, deadline: Instant) {
        let aggregate = &mut self.held.get_mut(slot).aggregate;
        if deadline < aggregate.spent {
            aggregate.armed = deadline;
            self.wheel.arm(slot, deadline);
        } else if aggregate.armed != Instant::NEVER {
            aggregate.armed = Instant::NEVER;
            self.wheel.disarm(slot);
        }
    }

    /// Flushes everything, in the order in which it was opened.
    pub fn flush_all<F: FnMut(Packet<B>, Exit)>(&mut self, reason: Flush, out: &mut F) {
        while let Some(slot) = self.ages.first(0) {
            self.flush(slot, reason, out);
        }
        self.flush_fresh(reason, out);
    }

    /// Starts a new timeline, for captures whose clock was set back: flushes everything, after
    /// which `now` may lie before earlier times.
    pub fn restart_clock<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.flush_all(Flush::Stop, out);
        self.wheel.restart(now);
        self.table.restart_clock();
        self.now = now;
    }

    /// When held data is due: its flow is idle, or the budget is used up, whichever comes first.
    #[inline(always)]
    pub(super) fn deadline(&self, slot: SlotId) -> Instant {
        self.held.get(slot).aggregate.spent.min(self.idle_at(slot))
    }

    /// When the flow of held data is idle.
    #[inline(always)]
    pub(super) fn idle_at(&self, slot: SlotId) -> Instant {
        self.table.idle_at(self.held.get(slot).aggregate.flow, self.floor_ns)
    }

    /// Sets the timer after an arrival if the deadline has moved closer. If it has moved away, that
    /// is noticed when the timer fires.
    #[inline(always)]
    pub(super) fn hasten(&mut self, slot: SlotId) {
        let aggregate = &self.held.get(slot).aggregate;
        if aggregate.fresh != 0 {
            return;
        }
        let idle = self.idle_at(slot);
        if idle < aggregate.armed.min(aggregate.spent) {
            self.arm(slot, idle);
        }
    }

    /// Flushes the data held at `slot`.
    #[inline(never)]
    pub(super) fn flush<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        reason: Flush,
        out: &mut F,
    ) {
        let Aggregate { fresh, armed, listed, .. } = self.held.get(slot).aggregate;
        match fresh {
            0 => {
                self.ages.remove(slot);
                if armed != Instant::NEVER {
                    self.wheel.disarm(slot);
                }
                if listed {
                    self.ends.leave(slot);
                }
            }
            place => self.fresh.forget(place),
        }
        if self.current == Some(slot) {
            self.current = None;
        }
        let held = self.held.get_mut(slot);
        let (aggregate, Some(packet)) = (&held.aggregate, &mut held.packet) else { return };
        if aggregate.grown.count > 1 {
            aggregate.patch(packet);
        }
        let len = packet.bytes().len() + aggregate.behind_first();
        self.table.set_held(aggregate.flow, None);
        self.held_packets -= usize::from(aggregate.grown.count);
        self.held_bytes -= aggregate.bytes;
        let held_ns = self.now.ns_since(aggregate.opened);
        self.counters.flushed(reason, aggregate.grown.count, held_ns);
        self.counters.sent(len);
        self.held.take(slot).into_iter().for_each(|packet| out(packet, Exit::Flushed(reason)));
    }
}
