//! Notes of the packets of a burst that later ones may join.

use crate::offload::coalesce::successor::Successor;
use crate::packet::Layout;
use alloc::vec::Vec;
use core::ops::Range;

/// The flow of a packet is looked for among so many notes one by one, before all flows of a burst are found.
pub(super) const FEW: usize = 16;

/// The packet that the next packet of a flow may join.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub(super) layout: Layout,
    pub(super) first: u32,
    pub(super) state: State,
    successor: Successor,
}

impl Note {
    /// A note of the packet `first`, whose ports are visible.
    #[inline(always)]
    pub(super) fn new((layout, bytes): (Layout, &[u8]), first: u32) -> Self {
        Self { layout, first, state: State::Alone, successor: Successor::of((&layout, bytes)) }
    }

    pub(super) fn with(self, state: State) -> Self {
        Self { state, ..self }
    }

    /// Expects this sequence number next.
    #[inline(always)]
    pub(super) fn expect(&mut self, sequence: u32) {
        self.successor.expect(sequence);
    }

    /// The sequence number expected next; none of UDP.
    #[inline(always)]
    pub(super) fn next_sequence(&self) -> Option<u32> {
        self.successor.sequence()
    }

    /// Whether the packet is still here, and one with these bytes may continue it, as far as ports, sequence
    /// number and length tell.
    #[inline(always)]
    pub(super) fn may_continue(&self, next: &[u8]) -> bool {
        self.successor.may_be(next) && self.state != State::Gone
    }
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
    /// Hashes of the flows of the first notes.
    few: Vec<u64>,
}

impl Notes {
    /// Forgets all.
    pub(super) fn begin(&mut self) {
        self.notes.clear();
        self.few.clear();
        self.oldest = 0;
    }

    /// Adds a note; returns its number.
    #[inline]
    pub(super) fn add(&mut self, note: Note) -> u32 {
        let number = self.notes.len() as u32;
        self.notes.push(note);
        number
    }

    /// The flow of the next note has this hash, and is looked for by it.
    pub(super) fn add_of_few(&mut self, hash: u64) {
        self.few.push(hash);
    }

    /// The latest note of a flow among those added so, if its packet has not left.
    pub(super) fn find(&self, hash: u64) -> Option<u32> {
        let latest = self.few.iter().rposition(|of| *of == hash)?;
        let note = self.notes.get(latest)?;
        (note.state != State::Gone).then_some(latest as u32)
    }

    /// The notes added so, with the hashes of their flows.
    pub(super) fn few(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(self.few.iter().copied())
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
}
