//! Restores the order of the input: a merged packet takes the place of its first one.

use super::Numbered;
use crate::capture::Record;
use linecard::offload::coalesce::Exit;
use linecard::packet::{Packet, Piece};
use std::collections::VecDeque;

/// The most entries that may wait behind a held one. Beyond that everything held is flushed, so
/// that memory is bounded even if no time passes in a capture.
pub const MAX_WAITING: usize = 65_536;
/// The most bytes that may wait.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// An entry of the output.
#[derive(Debug)]
pub(super) enum Entry {
    /// A packet, merged or not.
    Packet(Packet<Numbered>),
    /// A block other than a packet, or a packet as it was.
    Block(Record),
}

#[derive(Debug)]
enum SlotState {
    /// Not decided: still held.
    Waiting,
    /// Merged into an earlier one.
    Gone,
    Ready(Entry),
}

/// The place of an entry, the bytes that it keeps in memory, and why a packet was flushed.
#[derive(Debug)]
struct Slot {
    place: SlotState,
    bytes: usize,
    exit: Option<Exit>,
}

/// Restores the order of the input.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Those of the entries from `next` on.
    places: VecDeque<Slot>,
    next: u64,
    bytes: usize,
}

impl Order {
    /// Reserves the place of the next entry of the input; returns its number, from 1.
    pub(super) fn reserve(&mut self, bytes: usize) -> u64 {
        self.next = self.next.max(1);
        self.places.push_back(Slot { place: SlotState::Waiting, bytes, exit: None });
        self.bytes += bytes;
        self.next + self.places.len() as u64 - 1
    }

    /// Too much waits: held packets have to be flushed.
    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= MAX_WAITING || self.bytes >= MAX_WAITING_BYTES
    }

    pub(super) fn settle_packet(&mut self, packet: Packet<Numbered>, exit: Exit) {
        if packet.buffer().captured.is_some() {
            return self.settle_parts(packet);
        }
        for piece in packet.chain() {
            self.set(piece.buffer().number, SlotState::Gone, None);
        }
        self.set(packet.buffer().number, SlotState::Ready(Entry::Packet(packet)), Some(exit));
    }

    /// Of a capture that is cut short every packet stays as it was: what merged is not there.
    fn settle_parts(&mut self, packet: Packet<Numbered>) {
        let (first, chain) = packet.into_parts();
        let others = chain.into_iter().map(Piece::into_buffer);
        for Numbered { mut record, number, captured, .. } in std::iter::once(first).chain(others) {
            captured.into_iter().for_each(|captured| record.restore(&captured.0));
            self.settle_block(number, record);
        }
    }

    pub(super) fn settle_block(&mut self, number: u64, record: Record) {
        self.set(number, SlotState::Ready(Entry::Block(record)), None);
    }

    /// The next entry of the output, once it is decided, and why a packet was flushed.
    pub(super) fn pop(&mut self) -> Option<(Entry, Option<Exit>)> {
        while !matches!(self.places.front()?.place, SlotState::Waiting) {
            self.next += 1;
            let Slot { place, bytes, exit } = self.places.pop_front()?;
            self.bytes -= bytes;
            if let SlotState::Ready(entry) = place {
                return Some((entry, exit));
            }
        }
        None
    }

    fn set(&mut self, number: u64, place: SlotState, exit: Option<Exit>) {
        let index = number.wrapping_sub(self.next) as usize;
        if let Some(slot) = self.places.get_mut(index) {
            (slot.place, slot.exit) = (place, exit);
        }
    }
}
