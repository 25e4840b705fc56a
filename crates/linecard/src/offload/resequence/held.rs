//! Held packets in one store of fixed size, linked in sequence order for each flow.

use super::flow::{Flow, NONE, Slot};
use crate::offload::flows::FlowId;
use crate::offload::lists::Lists;
use crate::offload::tcp::{Segment, distance, frame_len};
use crate::packet::Packet;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A packet that waits for earlier data.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) packet: Packet<B>,
    pub(super) sequence: u32,
    pub(super) end: u32,
    pub(super) arrived: Instant,
    before: Slot,
    behind: Slot,
}

/// The position of a segment among the held ones of its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// The held packet before it.
    behind: Slot,
    /// Packets visited to find it.
    pub(super) steps: u32,
    /// The packets before it start at the same position and contain all its bytes.
    pub(super) duplicate: bool,
}

/// The store.
#[derive(Debug)]
pub(super) struct Store<B> {
    slots: Box<[Option<Held<B>>]>,
    free: Vec<Slot>,
    bytes: usize,
    /// A list per flow, in order of arrival.
    arrivals: Lists,
}

impl<B: AsRef<[u8]>> Store<B> {
    pub(super) fn new(packets: usize, flows: usize) -> Self {
        let count = u32::try_from(packets).unwrap_or(NONE);
        Self {
            slots: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            bytes: 0,
            arrivals: Lists::new(flows, count as usize),
        }
    }

    /// Packets held in total.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes of frames held in total.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Held<B>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The packet of a flow that has been held longest.
    pub(super) fn earliest(&self, id: FlowId) -> Option<&Held<B>> {
        self.get(self.arrivals.first(id as usize)?)
    }

    /// The position of a segment, after all that do not start later. Searched from the end, where
    /// most segments belong. (From the front, each packet takes 22 steps if 45 are held.)
    pub(super) fn spot(&self, flow: &Flow, segment: &Segment) -> Spot {
        let start = |held: &Held<B>| distance(held.sequence, segment.sequence);
        // Descending sequence numbers must not cost a full search per packet.
        if self.get(flow.first).is_some_and(|first| start(first) < 0) {
            return Spot { behind: NONE, steps: 1, duplicate: false };
        }
        let (mut behind, mut steps) = (flow.last, 0);
        while let Some(held) = self.get(behind) {
            steps += 1;
            if start(held) >= 0 {
                let covers = distance(segment.end(), held.end) >= 0;
                return Spot { behind, steps, duplicate: start(held) == 0 && covers };
            }
            behind = held.before;
        }
        Spot { behind: NONE, steps, duplicate: false }
    }

    /// Stores a packet at its position. The packet is returned if the store is full, which the
    /// caller has to prevent.
    pub(super) fn insert(
        &mut self,
        (id, flow): (FlowId, &mut Flow),
        spot: Spot,
        segment: &Segment,
        (packet, now): (Packet<B>, Instant),
    ) -> Result<(), Packet<B>> {
        let Some(slot) = self.free.pop() else { return Err(packet) };
        let bytes = frame_len(&packet);
        let behind = self.get(spot.behind).map_or(flow.first, |held| held.behind);
        match self.get_mut(spot.behind) {
            Some(held) => held.behind = slot,
            None => flow.first = slot,
        }
        match self.get_mut(behind) {
            Some(held) => held.before = slot,
            None => flow.last = slot,
        }
        self.slots[slot as usize] = Some(Held {
            packet,
            sequence: segment.sequence,
            end: segment.end(),
            arrived: now,
            before: spot.behind,
            behind,
        });
        self.arrivals.insert(id as usize, slot);
        self.bytes += bytes;
        flow.bytes += bytes;
        flow.count += 1;
        Ok(())
    }

    /// Removes the first packet of a flow.
    pub(super) fn take_first(&mut self, flow: &mut Flow) -> Option<Held<B>> {
        let slot = flow.first;
        let held = self.slots.get_mut(slot as usize)?.take()?;
        flow.first = held.behind;
        match self.get_mut(held.behind) {
            Some(next) => next.before = NONE,
            None => flow.last = NONE,
        }
        self.arrivals.remove(slot);
        self.free.push(slot);
        let bytes = frame_len(&held.packet);
        self.bytes -= bytes;
        flow.bytes -= bytes;
        flow.count -= 1;
        Some(held)
    }

    fn get_mut(&mut self, slot: Slot) -> Option<&mut Held<B>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }
}
