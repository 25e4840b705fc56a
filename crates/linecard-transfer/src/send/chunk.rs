//! A chunk in flight: which parts were sent, have arrived or are lost, and what to send next.

use super::repair::Rows;
use crate::layout::Layout;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use linecard::time::Instant;

/// Groups searched for one of which the lane has not carried too much.
const LOOKAHEAD: usize = 64;
/// The most copies in flight that are counted.
const MAX_COPIES: u8 = 15;

/// The lanes that carry a chunk, according to the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// One lane carries all of it: stable throughput.
    One(usize),
    /// All lanes carry it, each as much as it can: low latency.
    All,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    arrived: bool,
    sent: bool,
    duplicated: bool,
    copies: u8,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    /// Next slot, counted from the group's first, and how many there are.
    next: u32,
    slots: u32,
    /// Packets that suffice to repair all others.
    needed: u32,
    arrived: u32,
    /// Packets sent, not arrived, and without a copy in flight.
    lost: u32,
}

/// A chunk in flight.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) id: u32,
    pub(super) layout: Layout,
    pub(super) spread: Spread,
    pub(super) started: Instant,
    slots: Vec<Slot>,
    groups: Vec<Group>,
    /// The first group with packets that were never sent.
    open: usize,
    unsent: u32,
    resend: VecDeque<u32>,
    /// How many packets of each group each lane has carried; empty if irrelevant.
    carried: Vec<u8>,
    lanes: usize,
    pub(super) duplicates: u32,
    pub(super) resent: u32,
    /// Repair packets sent, and losses that they replaced.
    pub(super) repair: u32,
    pub(super) repaired: u32,
    /// Packets sent although their lane carried more of the group than repair can replace.
    pub(super) exposed: u32,
}

impl Chunk {
    /// With as many repair packets as `rows` says, at most those of the layout.
    pub(super) fn new(id: u32, layout: Layout, rows: Rows, lanes: usize, now: Instant) -> Self {
        let group = |number: u32| Group {
            next: 0,
            slots: layout.group_data(number) + if number < rows.from { 0 } else { rows.each },
            needed: layout.group_data(number),
            arrived: 0,
            lost: 0,
        };
        let tracked = if rows.each > 0 { layout.groups() as usize * lanes } else { 0 };
        Self {
            id,
            layout,
            spread: Spread::All,
            started: now,
            slots: vec![Slot::default(); layout.slots() as usize],
            groups: (0..layout.groups()).map(group).collect(),
            open: 0,
            unsent: layout.packets() + (layout.groups() - rows.from) * rows.each,
            resend: VecDeque::new(),
            carried: vec![0; tracked],
            lanes,
            duplicates: 0,
            resent: 0,
            repair: 0,
            repaired: 0,
            exposed: 0,
        }
    }

    /// Whether `lane` may carry it.
    pub(super) fn is_for(&self, lane: usize) -> bool {
        self.spread == Spread::All || self.spread == Spread::One(lane)
    }

    /// Bytes of it that are known to be at the other end; those of packets that repair replaces are not.
    pub(super) fn arrived_bytes(&self) -> u64 {
        let packets = self.groups.iter().map(|group| u64::from(group.arrived.min(group.needed)));
        let bytes = packets.sum::<u64>() * u64::from(self.layout.data_bytes(0));
        bytes.min(self.layout.bytes().into())
    }

    /// Whether there may be something to send.
    pub(super) fn has_work(&self) -> bool {
        self.unsent > 0 || !self.resend.is_empty()
    }

    /// The slot that `lane` should send now: lost ones first. `alive` is the number of working
    /// lanes.
    pub(super) fn take(&mut self, lane: usize, alive: usize) -> Option<u32> {
        while let Some(slot) = self.resend.pop_front() {
            let state = self.slots[slot as usize];
            let group = &mut self.groups[self.layout.group(slot) as usize];
            if state.arrived || state.copies > 0 || group.arrived >= group.needed {
                continue;
            }
            group.lost -= 1;
            self.resent += 1;
            self.launch(slot, lane);
            return Some(slot);
        }
        self.take_unsent(lane, alive)
    }

    fn take_unsent(&mut self, lane: usize, alive: usize) -> Option<u32> {
        self.skip_finished();
        let first = self.open;
        if first >= self.groups.len() {
            return None;
        }
        let chosen = self.group_for(lane, alive).unwrap_or_else(|| {
            self.exposed += 1;
            first
        });
        let group = &mut self.groups[chosen];
        let slot = self.layout.first_slot(chosen as u32) + group.next;
        self.repair += u32::from(group.next >= group.needed);
        group.next += 1;
        self.unsent -= 1;
        self.launch(slot, lane);
        Some(slot)
    }

    /// Moves to the first group with packets to send that it still needs.
    fn skip_finished(&mut self) {
        while let Some(group) = self.groups.get_mut(self.open) {
            if group.next < group.slots && group.arrived < group.needed {
                return;
            }
            self.unsent -= group.slots - group.next;
            group.next = group.slots;
            self.open += 1;
        }
    }

    /// A group of which the lane has carried no more than repair can replace. With too few working
    /// lanes for that, each carries its share.
    fn group_for(&self, lane: usize, alive: usize) -> Option<usize> {
        if self.carried.is_empty() || self.spread != Spread::All || alive < 2 {
            return Some(self.open);
        }
        let end = self.groups.len().min(self.open + LOOKAHEAD);
        (self.open..end).find(|&number| {
            let group = &self.groups[number];
            let rows = group.slots - group.needed;
            let most = rows.max(group.slots.div_ceil(alive as u32));
            let carried = u32::from(self.carried[number * self.lanes + lane]);
            group.next < group.slots && group.arrived < group.needed && carried < most
        })
    }

    fn launch(&mut self, slot: u32, lane: usize) {
        let state = &mut self.slots[slot as usize];
        state.sent = true;
        state.copies = (state.copies + 1).min(MAX_COPIES);
        let at = self.layout.group(slot) as usize * self.lanes + lane;
        if let Some(carried) = self.carried.get_mut(at) {
            *carried = carried.saturating_add(1);
        }
    }

    /// Sends `slot` again although a copy may be in flight. False if that is pointless.
    pub(super) fn duplicate(&mut self, slot: u32, lane: usize) -> bool {
        let state = self.slots[slot as usize];
        let group = self.groups[self.layout.group(slot) as usize];
        let pointless = state.arrived || state.duplicated || group.arrived >= group.needed;
        if pointless || state.copies == 0 {
            return false;
        }
        self.slots[slot as usize].duplicated = true;
        self.duplicates += 1;
        self.launch(slot, lane);
        true
    }

    /// A copy of `slot` arrived; `late` if it had been declared lost.
    pub(super) fn arrived(&mut self, slot: u32, late: bool) {
        let Some(state) = self.slots.get_mut(slot as usize) else { return };
        if !late {
            state.copies = state.copies.saturating_sub(1);
        }
        if state.arrived {
            return;
        }
        state.arrived = true;
        let group = &mut self.groups[self.layout.group(slot) as usize];
        group.arrived += 1;
        if late && state.copies == 0 {
            group.lost -= 1;
        }
    }

    /// A copy of `slot` is lost: it is retransmitted if the group needs it.
    pub(super) fn lost(&mut self, slot: u32) {
        let Some(state) = self.slots.get_mut(slot as usize) else { return };
        state.copies = state.copies.saturating_sub(1);
        if state.arrived || state.copies > 0 {
            return;
        }
        let group = &mut self.groups[self.layout.group(slot) as usize];
        group.lost += 1;
        if group.slots - group.lost < group.needed && group.arrived < group.needed {
            self.resend.push_back(slot);
        } else {
            self.repaired += 1;
        }
    }

    /// Everything is sent, and enough of it has arrived: the other end has all data, or will soon
    /// know.
    #[cfg(test)]
    pub(super) fn is_recovered(&self) -> bool {
        self.groups.iter().all(|group| group.arrived >= group.needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn chunk(packets: u32, scheme: &str, lanes: usize) -> Chunk {
        let layout = Layout::new(packets * 10, 10, scheme.parse().unwrap()).unwrap();
        let rows = Rows { each: layout.repair(), from: 0 };
        Chunk::new(0, layout, rows, lanes, Instant::ZERO)
    }

    /// Sends, loses, delays and repeats at random: in the end enough of each group has arrived, and no
    /// more was sent again than could not be repaired.
    #[test]
    fn it_ends_whatever_happens() {
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let group = ["none", "rs:4,2", "duplicate", "rs:10,3"][rng.below(4) as usize];
            let mut chunk = chunk(1 + rng.below(60) as u32, group, 3);
            let (mut flying, mut gone) = (Vec::new(), Vec::new());
            for _ in 0..100_000 {
                if chunk.is_recovered() {
                    break;
                }
                match rng.below(8) {
                    0..4 => flying.extend(chunk.take(rng.below(3) as usize, 3)),
                    4 if !flying.is_empty() => {
                        let slot = flying[rng.below(flying.len() as u64) as usize];
                        flying.extend(chunk.duplicate(slot, 0).then_some(slot));
                    }
                    5 if !gone.is_empty() => {
                        chunk
                            .arrived(gone.swap_remove(rng.below(gone.len() as u64) as usize), true);
                    }
                    _ if !flying.is_empty() => {
                        let slot = flying.swap_remove(rng.below(flying.len() as u64) as usize);
                        if rng.chance(0.3) {
                            chunk.lost(slot);
                            gone.push(slot);
                        } else {
                            chunk.arrived(slot, false);
                        }
                    }
                    _ => {}
                }
            }
            assert!(chunk.is_recovered(), "seed {seed}");
            assert_eq!(chunk.arrived_bytes(), u64::from(chunk.layout.bytes()), "seed {seed}");
        }
    }

    #[test]
    fn each_lane_carries_what_repair_can_replace() {
        let mut chunk = chunk(28 * 40, "rs:28,4", 8);
        let mut by_lane = vec![[0_u32; 8]; 40];
        for turn in 0..40 * 32 {
            // Lanes in turn, but the second a little ahead of the others.
            let lane = if turn % 50 == 0 { 1 } else { turn % 8 };
            let slot = chunk.take(lane, 8).unwrap();
            by_lane[(slot / 32) as usize][lane] += 1;
        }
        assert_eq!(chunk.take(0, 8), None);
        // The places in a group that the second lane took beyond its share: not more than that.
        assert!(chunk.exposed <= 40 * 32 / 50 + 1, "{}", chunk.exposed);
        assert!(by_lane[..20].iter().flatten().all(|&carried| carried <= 4));
    }

    #[test]
    fn lost_packets_that_repair_replaces_are_not_sent_again() {
        let mut chunk = chunk(4, "rs:4,2", 1);
        let slots: Vec<u32> = core::iter::from_fn(|| chunk.take(0, 1)).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5]);
        chunk.lost(1);
        chunk.lost(4);
        assert_eq!(chunk.take(0, 1), None);
        chunk.lost(2);
        assert_eq!(chunk.take(0, 1), Some(2));
        [0, 3, 5, 2].into_iter().for_each(|slot| chunk.arrived(slot, false));
        assert!(chunk.is_recovered());
    }

    #[test]
    fn packets_that_a_group_no_longer_needs_are_not_sent() {
        let mut chunk = chunk(6, "rs:3,2", 1);
        for slot in 0..3 {
            assert_eq!(chunk.take(0, 1), Some(slot));
            chunk.arrived(slot, false);
        }
        // The repair of the first group is left out, and of the second what comes too late.
        let rest: Vec<u32> = core::iter::from_fn(|| chunk.take(0, 1)).take(4).collect();
        assert_eq!((rest, chunk.repair), (vec![5, 6, 7, 8], 1));
        assert!(chunk.has_work());
        (5..8).for_each(|slot| chunk.arrived(slot, false));
        assert_eq!((chunk.take(0, 1), chunk.has_work()), (None, false));
        assert!(chunk.is_recovered());
    }

    #[test]
    fn a_lane_carries_no_more_of_a_group_than_repair_replaces_or_its_share() {
        for (alive, share) in [(8, 2), (3, 2), (2, 3)] {
            let mut chunk = chunk(12, "rs:4,2", 8);
            let mut sent = [0; 3];
            for _ in 0..3 * share {
                assert_eq!(chunk.exposed, 0);
                sent[(chunk.take(5, alive).unwrap() / 6) as usize] += 1;
            }
            assert_eq!(sent, [share; 3], "{alive} lanes");
            // Rather than none, it takes more, of the first.
            assert!(chunk.take(5, alive).unwrap() < 6);
            assert!(chunk.take(5, alive).unwrap() < 6);
            assert_eq!(chunk.exposed, 2);
            assert!(chunk.take(4, alive).unwrap() < 6);
            assert_eq!(chunk.exposed, 2);
        }
        // Not where one lane works, or carries the chunk alone.
        let mut alone = chunk(12, "rs:4,2", 8);
        alone.spread = Spread::One(5);
        assert!(alone.is_for(5) && !alone.is_for(4));
        let slots: Vec<u32> = (0..6).filter_map(|_| alone.take(5, 8)).collect();
        assert_eq!((slots, alone.exposed), ((0..6).collect(), 0));
        let mut single = chunk(12, "rs:4,2", 8);
        let slots: Vec<u32> = (0..6).filter_map(|_| single.take(5, 1)).collect();
        assert_eq!((slots, single.exposed), ((0..6).collect(), 0));
    }

    #[test]
    fn what_is_lost_repaired_and_sent_again_is_counted() {
        let mut chunk = chunk(4, "rs:4,1", 1);
        while chunk.take(0, 1).is_some() {}
        chunk.lost(0);
        assert_eq!((chunk.resent, chunk.repaired, chunk.take(0, 1)), (0, 1, None));
        chunk.lost(2);
        chunk.lost(3);
        assert_eq!(
            (chunk.take(0, 1), chunk.take(0, 1), chunk.take(0, 1)),
            (Some(2), Some(3), None)
        );
        assert_eq!((chunk.resent, chunk.repaired, chunk.repair), (2, 1, 1));
        // One that was taken for lost has come: the other loss is repaired by it.
        chunk.arrived(0, true);
        chunk.lost(2);
        assert_eq!((chunk.take(0, 1), chunk.repaired), (None, 2));
        // The same again is no other packet.
        chunk.arrived(0, true);
        chunk.arrived(1, false);
        assert_eq!(chunk.arrived_bytes(), 20);
        chunk.arrived(1, false);
        chunk.arrived(4, false);
        assert!(!chunk.is_recovered());
        chunk.arrived(3, false);
        assert!(chunk.is_recovered());
    }

    #[test]
    fn a_packet_is_duplicated_once_while_it_may_help() {
        let mut chunk = chunk(4, "rs:3,1", 2);
        assert!(!chunk.duplicate(0, 1), "it was not sent");
        assert_eq!([chunk.take(0, 1), chunk.take(0, 1)], [Some(0), Some(1)]);
        assert!(chunk.duplicate(0, 1) && !chunk.duplicate(0, 1));
        assert_eq!((chunk.duplicates, chunk.resent), (1, 0));
        // One of the copies is lost, the other comes.
        chunk.lost(0);
        assert_eq!((chunk.take(0, 1), chunk.repaired), (Some(2), 0));
        chunk.arrived(0, false);
        assert!(!chunk.duplicate(0, 1), "it has arrived");
        chunk.lost(2);
        assert!(!chunk.duplicate(2, 1), "no copy is in flight");
        chunk.arrived(1, false);
        assert_eq!(chunk.take(0, 1), Some(3));
        chunk.arrived(3, false);
        assert_eq!(chunk.take(0, 1), Some(4));
        assert!(chunk.duplicate(4, 1), "of another group");
        assert_eq!(chunk.duplicates, 2);
    }

    #[test]
    fn a_group_that_is_complete_before_an_earlier_one_is_left_out() {
        let mut chunk = chunk(12, "rs:4,2", 3);
        let mut two = |lane: usize| [(); 2].map(|()| chunk.take(lane, 3).unwrap());
        assert_eq!([two(0), two(0), two(1), two(1)], [[0, 1], [6, 7], [2, 3], [8, 9]]);
        // The third lane carries its share of the first group, too.
        assert!(chunk.duplicate(0, 2) && chunk.duplicate(1, 2));
        (6..10).for_each(|slot| chunk.arrived(slot, false));
        assert_eq!(chunk.take(2, 3), Some(12));
    }
}
