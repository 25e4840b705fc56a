//! Notes of the packets of a burst that later ones may join, by flow.

use crate::packet::{LayerKind, Layout};
use alloc::vec::Vec;
use core::ops::Range;

/// Marks a free place of the table.
const NONE: u32 = u32::MAX;

/// The packet that the next packet of a flow may join.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub(super) hash: u64,
    pub(super) layout: Layout,
    pub(super) first: u32,
    pub(super) state: State,
    /// Ports of the next packet, and its sequence number; of UDP, the ports only.
    expected: u64,
    /// Bytes of the frame: the next one is not longer.
    len: u32,
    /// Offset of the transport header.
    transport: u16,
    is_tcp: bool,
}

impl Note {
    /// A note of the packet `first`, whose ports are visible.
    #[inline(always)]
    pub(super) fn new(hash: u64, (layout, bytes): (Layout, &[u8]), first: u32) -> Self {
        let transport = layout.transport();
        let at = transport.map_or(0, |layer| layer.offset);
        let is_tcp = transport.is_some_and(|layer| layer.kind == LayerKind::Tcp);
        let start = start(bytes, at).unwrap_or_default();
        let len = bytes.len() as u32;
        let state = State::Alone;
        let mut note =
            Self { hash, layout, first, state, expected: start, len, transport: at, is_tcp };
        note.expect((start as u32).wrapping_add(layout.payload().len() as u32));
        note
    }

    pub(super) fn with(self, state: State) -> Self {
        Self { state, ..self }
    }

    /// Expects this sequence number next.
    #[inline(always)]
    pub(super) fn expect(&mut self, sequence: u32) {
        self.expected = self.expected >> 32 << 32 | u64::from(sequence);
    }

    /// The sequence number expected next; none of UDP.
    #[inline(always)]
    pub(super) fn next_sequence(&self) -> Option<u32> {
        self.is_tcp.then_some(self.expected as u32)
    }

    /// Whether the packet is still here, and one with these bytes may continue it, as far as ports, sequence
    /// number and length tell.
    #[inline(always)]
    pub(super) fn may_continue(&self, next: &[u8]) -> bool {
        let Some(start) = start(next, self.transport) else { return false };
        let unlike = (start ^ self.expected) >> if self.is_tcp { 0 } else { 32 };
        unlike == 0 && next.len() <= self.len as usize && self.state != State::Gone
    }
}

/// The ports, and what follows them.
#[inline(always)]
fn start(bytes: &[u8], transport: u16) -> Option<u64> {
    bytes.get(transport.into()..)?.first_chunk().map(|start| u64::from_be_bytes(*start))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// One packet, not examined yet.
    Alone,
    /// Examined, and possibly merged with others: the place of its aggregate.
    Open(u32),
    /// It has left.
    Gone,
}

/// The notes of a burst, in the order of their first packets.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<Note>,
    /// The first note that may not be gone.
    oldest: usize,
    /// The latest note of each flow, by hash, with open addressing.
    table: Vec<u32>,
}

impl Notes {
    /// Forgets all, and makes room for a burst of so many packets.
    pub(super) fn begin(&mut self, packets: usize) {
        self.notes.clear();
        self.oldest = 0;
        self.table.clear();
        self.table.resize((2 * packets).next_power_of_two(), NONE);
    }

    /// Adds a note; returns its number.
    #[inline]
    pub(super) fn add(&mut self, note: Note) -> u32 {
        let number = self.notes.len() as u32;
        let place = self.place_of(note.hash);
        self.table[place] = number;
        self.notes.push(note);
        number
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> &Note {
        &self.notes[number as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Note {
        &mut self.notes[number as usize]
    }

    /// Whether there has been none yet.
    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// The numbers of all notes that may not be gone.
    pub(super) fn here(&self) -> Range<u32> {
        self.oldest as u32..self.notes.len() as u32
    }

    /// All notes so far are gone.
    pub(super) fn all_gone(&mut self) {
        self.oldest = self.notes.len();
    }

    /// The note of a flow whose packet has not left.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<u32> {
        let number = self.table[self.place_of(hash)];
        self.notes.get(number as usize).filter(|note| note.state != State::Gone).map(|_| number)
    }

    /// The place of a flow in the table, or a free one for it: at least half of the table is free.
    #[inline]
    fn place_of(&self, hash: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        while let Some(note) = self.notes.get(self.table[place] as usize)
            && note.hash != hash
        {
            place = (place + 1) & mask;
        }
        place
    }
}
