//! Packets leave a burst.

use super::notes::State;
use super::{Lent, Merged, Merger};
use crate::offload::coalesce::candidate::ChecksumKind;
use crate::offload::coalesce::reason::Flush;
use crate::offload::virtio::{Frame, Header};
use crate::packet::{ChecksumState, Layout, Meta, Packet};
use alloc::vec::Vec;

impl Merger {
    /// The packet noted leaves, if it has not yet.
    pub(super) fn emit<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        reason: Flush,
        lent: &mut Lent<F>,
    ) {
        let noted = self.notes.get_mut(note);
        let (first, layout) = (noted.first as usize, noted.layout);
        match core::mem::replace(&mut noted.state, State::Gone) {
            State::Gone => return,
            State::Open(open) if self.open[open as usize].aggregate.grown.count > 1 => {
                self.emit_merged((first, layout), open, lent);
            }
            State::Open(_) | State::Alone => self.emit_alone(first, lent),
        }
        self.counters.flushed.count(reason);
    }

    pub(super) fn emit_alone<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        lent: &mut Lent<F>,
    ) {
        self.counters.packets_out += 1;
        let bytes = &lent.buffer[self.places[at].range()];
        let header = Header::default();
        (lent.out)(Merged { header, slices: &[bytes], first: at, packets: 1 });
    }

    #[inline(never)]
    fn emit_merged<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        (first, layout): (usize, Layout),
        open: u32,
        lent: &mut Lent<F>,
    ) {
        let aggregate = &mut self.open[open as usize].aggregate;
        let packets = usize::from(aggregate.grown.count);
        self.counters.packets_out += 1;
        self.counters.merged += packets as u64 - 1;
        // A device requires that the checksum is left to it.
        aggregate.checksum = ChecksumKind::Partial;
        let bytes = &mut lent.buffer[self.places[first].range()];
        let mut packet = Packet::with_layout(bytes, self.link, layout, Meta::default());
        aggregate.patch(&mut packet);
        let gso = packet.meta.gso;
        let buffer = &*lent.buffer;
        let bytes = &buffer[self.places[first].range()];
        let frame = Frame {
            bytes,
            layout: &layout,
            payload_len: aggregate.grown.payload_len as usize,
            checksum: ChecksumState::Partial,
        };
        // What cannot be described has been refused.
        let header = Header::of_frame(&frame, gso, self.device.identifications);
        let mut slices: Vec<&[u8]> = core::mem::take(&mut self.slices);
        slices.push(bytes);
        let mut next = self.places[first].next;
        while let Some(place) = self.places.get(next as usize) {
            slices.push(&buffer[place.range()][layout.header_len()..]);
            next = place.next;
        }
        let header = header.unwrap_or_default();
        (lent.out)(Merged { header, slices: &slices, first, packets });
        slices.clear();
        // Of an empty list, this keeps only the memory.
        self.slices = slices.into_iter().map(|_| &[][..]).collect();
    }
}
