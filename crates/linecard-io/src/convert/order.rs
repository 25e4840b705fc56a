//! Restores the order of the input: a merged packet takes the place of its first one.

use super::Numbered;
use crate::capture::Record;
use linecard::packet::Packet;
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
    /// A block other than a packet.
    Block(Record),
}

#[derive(Debug)]
enum Place {
    /// Not decided: still held.
    Waiting,
    /// Merged into an earlier one.
    Gone,
    Ready(Entry),
}

/// Restores the order of the input.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Places of the entries from `next` on, and the bytes of each.
    places: VecDeque<(Place, usize)>,
    next: u64,
    bytes: usize,
}

impl Order {
    /// Reserves the place of the next entry of the input; returns its number, from 1.
    pub(super) fn reserve(&mut self, bytes: usize) -> u64 {
        self.next = self.next.max(1);
        self.places.push_back((Place::Waiting, bytes));
        self.bytes += bytes;
        self.next + self.places.len() as u64 - 1
    }

    /// Too much waits: held packets have to be flushed.
    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= MAX_WAITING || self.bytes >= MAX_WAITING_BYTES
    }

    pub(super) fn settle_packet(&mut self, packet: Packet<Numbered>) {
        for piece in packet.chain() {
            self.set(piece.buffer().number, Place::Gone);
        }
        self.set(packet.buffer().number, Place::Ready(Entry::Packet(packet)));
    }

    pub(super) fn settle_block(&mut self, number: u64, record: Record) {
        self.set(number, Place::Ready(Entry::Block(record)));
    }

    /// The next entry of the output, once it is decided.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        while !matches!(self.places.front()?, (Place::Waiting, _)) {
            self.next += 1;
            let (place, bytes) = self.places.pop_front()?;
            self.bytes -= bytes;
            if let Place::Ready(entry) = place {
                return Some(entry);
            }
        }
        None
    }

    fn set(&mut self, number: u64, place: Place) {
        let index = number.wrapping_sub(self.next) as usize;
        if let Some((waiting, _)) = self.places.get_mut(index) {
            *waiting = place;
        }
    }
}
