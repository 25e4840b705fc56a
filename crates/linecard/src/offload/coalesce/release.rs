//! Flushing held data: its deadline has passed, its room is needed, or the caller asks for it.

use super::ids::SlotId;
use super::reason::{Flush, Refusal};
use super::slab::{Entry, Held};
use super::{Coalescer, Exit};
use crate::packet::Packet;
use crate::time::Instant;

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Flushes aggregates that are due at `now`.
    pub fn advance<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.now = self.now.max(now);
        while let Some(slot) = self.due() {
            let deadline = self.deadline(slot);
            if deadline > self.now {
                // Packets that arrived since have moved it.
                self.arm(slot, deadline);
                continue;
            }
            let spent = self.now >= self.held.get(slot).entry.spent;
            self.flush(slot, if spent { Flush::Budget } else { Flush::Idle }, out);
        }
    }

    /// The data whose deadline is the first of those that have passed: that of its timer, or the end of the hold
    /// budget, which comes in the order of opening, so that no timer is needed for it.
    fn due(&mut self) -> Option<SlotId> {
        let spent = |slot: &SlotId| self.held.get(*slot).entry.spent;
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
        let entry = &mut self.held.get_mut(slot).entry;
        if deadline < entry.spent {
            entry.armed = deadline;
            self.wheel.arm(slot, deadline);
        } else if entry.armed != Instant::NEVER {
            entry.armed = Instant::NEVER;
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
        self.held.get(slot).entry.spent.min(self.idle_at(slot))
    }

    /// When the flow of held data is idle.
    #[inline(always)]
    pub(super) fn idle_at(&self, slot: SlotId) -> Instant {
        self.table.idle_at(self.held.get(slot).entry.flow, self.floor_ns)
    }

    /// Sets the timer after an arrival if the deadline has moved closer. If it has moved away, that
    /// is noticed when the timer fires.
    #[inline(always)]
    pub(super) fn hasten(&mut self, slot: SlotId) {
        let entry = &self.held.get(slot).entry;
        if entry.fresh != 0 {
            return;
        }
        let idle = self.idle_at(slot);
        if idle < entry.armed.min(entry.spent) {
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
        self.unlist(slot);
        let Held { entry, packet, aggregate } = self.held.get_mut(slot);
        let Some(packet) = packet else { return };
        let mut len = packet.bytes().len();
        let (mut packets, mut bytes) = (1, len);
        if entry.examined && aggregate.grown.count > 1 {
            aggregate.patch(packet);
            (packets, bytes) = (aggregate.grown.count, aggregate.bytes);
            len = aggregate.frame_len(packet.layout());
        }
        self.table.set_held(entry.flow, None);
        self.held_packets -= usize::from(packets);
        self.held_bytes -= bytes;
        let held_ns = self.now.ns_since(entry.opened);
        self.counters.flushed(reason, packets, held_ns);
        self.counters.sent(len);
        self.held.take(slot).into_iter().for_each(|packet| out(packet, Exit::Flushed(reason)));
    }

    /// Passes the packet held at `slot`, which turned out not to merge when another one was to join it.
    pub(super) fn pass_held<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        slot: SlotId,
        refusal: Refusal,
        out: &mut F,
    ) {
        self.unlist(slot);
        self.table.set_held(self.held.get(slot).entry.flow, None);
        let Some(packet) = self.held.take(slot) else { return };
        self.held_packets -= 1;
        self.held_bytes -= packet.bytes().len();
        self.send_refused(packet, refusal, out);
    }

    /// Takes data that leaves out of all lists.
    #[inline(always)]
    fn unlist(&mut self, slot: SlotId) {
        let Entry { fresh, armed, listed, .. } = self.held.get(slot).entry;
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
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::*;

    /// The order of opening tells when the budget of data ends.
    #[test]
    fn no_timer_is_set_to_the_end_of_the_budget() {
        let traffic = each_traffic().next().expect("one");
        let mut coalescer = Coalescer::new(Config::default());
        coalescer.push(traffic.packet(0, 1), Instant::ZERO, &mut |_, _| ());
        let slot = coalescer.current.expect("it is held");
        let spent = coalescer.held.get(slot).entry.spent;
        let before = Instant::from_ns(spent.as_ns() - 1);
        for (deadline, armed) in [(spent, Instant::NEVER), (before, before)] {
            for _ in 0..2 {
                coalescer.arm(slot, deadline);
                assert_eq!(coalescer.held.get(slot).entry.armed, armed);
            }
        }
        coalescer.arm(slot, spent);
        assert_eq!(coalescer.held.get(slot).entry.armed, Instant::NEVER);
        assert_eq!(coalescer.next_wakeup(), Some(spent));
    }

    #[test]
    fn data_that_leaves_is_not_current_any_more() {
        let traffic = each_traffic().next().expect("one");
        let mut coalescer = Coalescer::new(Config::default());
        let slots = [1, 2].map(|port| {
            let packet = Traffic { ports: (port, 9), ..traffic }.packet(0, 1);
            coalescer.push(packet, Instant::ZERO, &mut |_, _| ());
            coalescer.current.expect("it is held")
        });
        for (slot, current) in slots.into_iter().zip([Some(slots[1]), None]) {
            coalescer.flush(slot, Flush::Stop, &mut |_, _| ());
            assert_eq!(coalescer.current, current);
        }
    }
}
