//! Cutting a packet into the caller's memory: everything is checked first, then nothing can fail.

use crate::error::Error;
use crate::types::{
    LINECARD_CLASS_BEGINNING, LINECARD_CLASS_CONTINUATION, LINECARD_CLASS_END,
    LINECARD_CLASS_SINGLE, Plan, Segment, Slice,
};
use linecard::offload::segment::{Class, Segments, segment};
use linecard::packet::{Gso, Packet};

/// What the segments of `packet` take.
pub(crate) fn plan(packet: &Packet<&[u8]>, gso: Gso) -> Result<Plan, Error> {
    Ok(room_for(&segment(packet, gso)?, packet, gso))
}

fn room_for(segments: &Segments<'_, &[u8]>, packet: &Packet<&[u8]>, gso: Gso) -> Plan {
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

/// Writes all segments one behind the other.
pub(crate) fn write(
    packet: &Packet<&[u8]>,
    gso: Gso,
    out: &mut [u8],
    list: &mut [Segment],
) -> Result<usize, Error> {
    let mut segments = segment(packet, gso)?;
    let plan = room_for(&segments, packet, gso);
    if out.len() < plan.bytes || list.len() < plan.segments {
        return Err(Error::NoRoom);
    }
    let mut start = 0;
    for place in &mut *list {
        let Some(written) = segments.write_next(&mut out[start..])? else { break };
        let position = position(written.class);
        *place = Segment { start, slices: 0, len: written.len, position };
        start += written.len;
    }
    Ok(plan.segments)
}

/// Zeros that a short frame is padded with.
static ZEROS: [u8; 64] = [0; 64];

/// The caller's memory for segments in slices.
pub(crate) struct Room<'a> {
    pub(crate) headers: &'a mut [u8],
    pub(crate) slices: &'a mut [Slice],
    pub(crate) list: &'a mut [Segment],
}

/// Writes all headers one behind the other, and lists the slices of all segments.
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
        header.copy_from_slice(segment.header);
        let padding = &ZEROS[..segment.padding];
        let parts = segment.payload.chain(Some(padding).filter(|zeros| !zeros.is_empty()));
        let header = Slice { data: header.as_mut_ptr(), len: header.len() };
        // A slice is as C's iovec, which does not know const; payload is not written.
        let parts = parts.map(|part| Slice { data: part.as_ptr().cast_mut(), len: part.len() });
        let mut made = Segment { position: position(segment.class), ..Segment::default() };
        for part in std::iter::once(header).chain(parts) {
            let (index, slice) = slices.next().ok_or(Error::NoRoom)?;
            if made.slices == 0 {
                made.start = index;
            }
            *slice = part;
            made.slices += 1;
            made.len += part.len;
        }
        *place = made;
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

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{LinkType, Meta, Piece};
    use linecard::time::Instant;

    /// UDP with 9 bytes of payload, of which the last 6 lie in pieces of 2.
    fn gathered<'a>(head: &'a mut Vec<u8>, rest: &'a [u8; 6]) -> Packet<&'a [u8]> {
        head.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        head.extend([0x45, 0, 0, 37, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        head.extend([0, 7, 0, 9, 0, 17, 1, 1, 1, 2, 3]);
        let piece = |bytes| Piece::new(bytes, 0..2, Instant::ZERO).expect("inside");
        let pieces = rest.chunks(2).map(piece).collect();
        Packet::gather(&head[..], pieces, LinkType::Ethernet, Meta::default()).expect("a datagram")
    }

    #[test]
    fn both_ways_make_the_same_in_the_room_that_was_planned() {
        const NONE: Slice = Slice { data: std::ptr::null_mut(), len: 0 };
        let mut head = Vec::new();
        let packet = gathered(&mut head, &[4, 5, 6, 7, 8, 9]);
        for (size, padded) in (1..=10).flat_map(|size| [(size, false), (size, true)]) {
            let gso = Gso { size, padded, ..Gso::default() };
            let plan = plan(&packet, gso).expect("it can be cut");
            let mut list = vec![Segment::default(); plan.segments];
            let mut out = vec![0; plan.bytes];
            assert_eq!(write(&packet, gso, &mut out[1..], &mut list), Err(Error::NoRoom));
            assert_eq!(write(&packet, gso, &mut out, &mut list), Ok(plan.segments));
            let end = list.last().map(|last| last.start + last.len);
            assert_eq!(end, Some(plan.bytes), "{gso:?}");
            let written: Vec<_> = list.iter().map(|one| (one.len, one.position)).collect();

            let (mut headers, mut slices) = (vec![0; plan.header_bytes], vec![NONE; plan.slices]);
            let room = Room { headers: &mut headers, slices: &mut slices, list: &mut list };
            assert_eq!(gather(&packet, gso, room), Ok(plan.segments));
            let gathered: Vec<_> = list.iter().map(|one| (one.len, one.position)).collect();
            assert_eq!(gathered, written);
            // Headers lie one behind the other, and slices are used from the first on.
            let mut next = 0;
            for (one, header) in list.iter().zip(headers.chunks(packet.layout().header_len())) {
                assert_eq!(one.start, next);
                next += one.slices;
                let own = &slices[one.start..next];
                assert_eq!(own[0].data.cast_const(), header.as_ptr());
                assert_eq!(own.iter().map(|slice| slice.len).sum::<usize>(), one.len);
                assert!(own.iter().all(|slice| slice.len > 0));
            }
        }
    }
}
