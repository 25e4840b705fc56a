//! Segmenting into the caller's memory: all checks come first, then nothing can fail.

use crate::error::Error;
use crate::types::{
    LINECARD_CLASS_BEGINNING, LINECARD_CLASS_CONTINUATION, LINECARD_CLASS_END,
    LINECARD_CLASS_SINGLE, Plan, Segment, Slice,
};
use linecard::offload::segment::{Class, Segments, segment};
use linecard::packet::checksum::Sum;
use linecard::packet::{Gso, Packet, Piece};
use std::iter;
use std::mem::MaybeUninit;

/// Sizes of the segments of `packet`.
pub(crate) fn plan(packet: &Packet<&[u8]>, gso: Gso) -> Result<Plan, Error> {
    Ok(room_for(&segment(packet, gso)?, packet, gso))
}

fn room_for(segments: &Segments<'_, Piece<&[u8]>>, packet: &Packet<&[u8]>, gso: Gso) -> Plan {
    let (count, longest) = (segments.count(), segments.max_len());
    let header_bytes = count * packet.layout().header_len();
    let padding = if gso.padded { count } else { 0 };
    Plan {
        segments: count,
        bytes: if gso.padded { count * longest } else { header_bytes + packet.payload_len() },
        header_bytes,
        // Each segment and each piece but the first begins a slice of payload.
        slices: 2 * count + packet.chain().len() + padding,
        longest,
    }
}

/// Writes all segments contiguously.
pub(crate) fn write(
    packet: &Packet<&[u8]>,
    gso: Gso,
    out: &mut [MaybeUninit<u8>],
    list: &mut [MaybeUninit<Segment>],
) -> Result<usize, Error> {
    let mut segments = segment(packet, gso)?;
    let plan = room_for(&segments, packet, gso);
    if out.len() < plan.bytes || list.len() < plan.segments {
        return Err(Error::NoRoom);
    }
    let mut start = 0;
    for place in &mut *list {
        // Its sum has been read: the copy comes from the cache.
        let Some(segment) = segments.next_segment() else { break };
        let mut end = start;
        let padding = &ZEROS[..segment.padding];
        for part in iter::once(segment.header).chain(segment.payload).chain(iter::once(padding)) {
            copy(part, &mut out[end..end + part.len()]);
            end += part.len();
        }
        let position = position(segment.class);
        place.write(Segment { start, slices: 0, len: end - start, position });
        start = end;
    }
    Ok(plan.segments)
}

/// Sums `from`, and copies it to `to`, which has the same length.
pub(crate) fn copy_and_sum(from: &[u8], to: &mut [MaybeUninit<u8>]) -> Sum {
    let sum = Sum::of(from);
    copy(from, to);
    sum
}

/// `write_copy_of_slice`, which Rust has from 1.93 on.
#[inline]
fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    assert_eq!(from.len(), to.len(), "the room for a part is as long as the part");
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
}

/// Zeros that a short frame is padded with.
static ZEROS: [u8; 64] = [0; 64];

/// The caller's memory for segments in slices.
pub(crate) struct Room<'a> {
    pub(crate) headers: &'a mut [MaybeUninit<u8>],
    pub(crate) slices: &'a mut [MaybeUninit<Slice>],
    pub(crate) list: &'a mut [MaybeUninit<Segment>],
}

/// Writes all headers contiguously, and lists the slices of all segments.
pub(crate) fn gather(packet: &Packet<&[u8]>, gso: Gso, room: Room<'_>) -> Result<usize, Error> {
    let mut segments = segment(packet, gso)?;
    let plan = room_for(&segments, packet, gso);
    let Room { headers, slices, list } = room;
    let fits = headers.len() >= plan.header_bytes
        && slices.len() >= plan.slices
        && list.len() >= plan.segments;
    if !fits {
        return Err(Error::NoRoom);
    }
    let mut headers = headers.chunks_exact_mut(packet.layout().header_len().max(1));
    let mut slices = slices.iter_mut().enumerate();
    for place in &mut *list {
        let Some(segment) = segments.next_segment() else { break };
        let header = headers.next().ok_or(Error::NoRoom)?;
        copy(segment.header, header);
        let padding = &ZEROS[..segment.padding];
        let parts = segment.payload.chain(Some(padding).filter(|zeros| !zeros.is_empty()));
        let header = Slice { data: header.as_mut_ptr().cast(), len: header.len() };
        // A slice is laid out as C's iovec, which has no const; payload is not written.
        let parts = parts.map(|part| Slice { data: part.as_ptr().cast_mut(), len: part.len() });
        let mut made = Segment { position: position(segment.class), ..Segment::default() };
        for part in iter::once(header).chain(parts) {
            let (index, slice) = slices.next().ok_or(Error::NoRoom)?;
            if made.slices == 0 {
                made.start = index;
            }
            slice.write(part);
            made.slices += 1;
            made.len += part.len;
        }
        place.write(made);
    }
    Ok(plan.segments)
}

fn position(class: Class) -> u8 {
    match class {
        Class::Ssm => LINECARD_CLASS_SINGLE,
        Class::Bom => LINECARD_CLASS_BEGINNING,
        Class::Com => LINECARD_CLASS_CONTINUATION,
        Class::Eom => LINECARD_CLASS_END,
    }
}
