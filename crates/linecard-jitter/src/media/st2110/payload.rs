//! Recognises an RTP payload by its own headers: video, ancillary data, or neither.
//!
//! RTP does not name a dynamic payload type; a session description does, but a capture has none. So
//! headers are checked for plausibility, and a stream is of the type that all of its packets can
//! be.

/// Lines in one packet of ST 2110-20: at most three (section 6.1.4).
const MAX_LINES: usize = 3;
/// Octets of the extended sequence number of RFC 4175.
const EXTENDED: usize = 2;
/// Octets of one line's header.
const LINE: usize = 6;
/// Lines of the largest picture, and pixels of its longest line; the fields can hold 32,767.
const MAX_LINE_NUMBER: u16 = 8_640;

/// A piece of a line in a video packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segment {
    /// Octets of video.
    pub octets: u16,
    /// Its line, from 0 on in each field.
    pub line: u16,
    /// Whether the line is in the second field.
    pub second_field: bool,
    /// Position of its first pixel in the line.
    pub offset: u16,
}

/// A video packet: ST 2110-20, with the payload of RFC 4175.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Video {
    /// The upper half of the sequence number.
    pub sequence_high: u16,
    segments: [Segment; MAX_LINES],
    count: usize,
}

impl Video {
    /// Reads the payload's headers; `payload` may be the first octets of `len`. `None` unless they
    /// agree exactly with the payload's length.
    #[must_use]
    pub fn read(payload: &[u8], len: usize) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes(*payload.get(at..)?.first_chunk()?));
        let (mut at, mut octets) = (EXTENDED, 0);
        let mut video =
            Self { sequence_high: word(0)?, segments: [Segment::default(); MAX_LINES], count: 0 };
        for segment in &mut video.segments {
            let (length, line, offset) = (word(at)?, word(at + 2)?, word(at + 4)?);
            at += LINE;
            // A line without data must be the only one.
            if line & 0x7FFF > MAX_LINE_NUMBER || (length == 0 && octets > 0) {
                return None;
            }
            octets += usize::from(length);
            *segment = Segment {
                octets: length,
                line: line & 0x7FFF,
                second_field: line & 0x8000 != 0,
                offset: offset & 0x7FFF,
            };
            video.count += 1;
            if offset & 0x8000 == 0 {
                break;
            }
        }
        let continues = word(at - 2)? & 0x8000 != 0;
        let last_line = video.segments().last()?.line;
        let fits = at + octets == len && octets > 0 && !continues;
        (fits && last_line >= video.first().line).then_some(video)
    }

    /// The first segment.
    #[must_use]
    pub fn first(&self) -> &Segment {
        &self.segments[0]
    }

    /// All segments, at least one.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.count]
    }
}

/// A packet of ancillary data: ST 2110-40, with the payload of RFC 8331.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancillary {
    /// Number of ANC data packets in it.
    pub count: u8,
    /// F: 0 for progressive, 2 and 3 for the fields.
    pub field: u8,
}

impl Ancillary {
    /// Octets of the header.
    const HEADER: usize = 8;

    /// Reads the payload's header; `None` unless it agrees with the payload's length.
    #[must_use]
    pub fn read(payload: &[u8], len: usize) -> Option<Self> {
        let [_, _, high, low, count, field, r1, r0] = *payload.first_chunk::<{ Self::HEADER }>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        // The length counts the octets after the header; 22 reserved bits are zero; F is not 1.
        let reserved = u32::from(field & 0x3F) << 16 | u32::from(r1) << 8 | u32::from(r0);
        let possible = reserved == 0
            && field >> 6 != 1
            && length + Self::HEADER == len
            && length.is_multiple_of(4)
            && (count > 0) == (length > 0);
        possible.then_some(Self { count, field: field >> 6 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The first packet of pi-list's 1080i59.94: 1,200 octets of line 0.
    #[test]
    fn a_packet_of_a_picture() {
        let mut payload = alloc::vec![0, 0, 0x04, 0xB0, 0, 0, 0, 0];
        let first = *Video::read(&payload, 1_208).unwrap().first();
        assert_eq!((first.line, first.second_field, first.octets), (0, false, 1_200));
        assert_eq!(Video::read(&payload, 1_209), None);
        payload[4] = 0x80;
        assert!(Video::read(&payload, 1_208).unwrap().first().second_field);
        // Two pieces: the rest of line 3 and the start of line 4.
        let two = [0, 1, 0, 10, 0, 3, 0x87, 0x0C, 0, 20, 0, 4, 0, 0];
        let video = Video::read(&two, 14 + 30).unwrap();
        let pieces: Vec<(u16, u16, u16)> =
            video.segments().iter().map(|piece| (piece.line, piece.offset, piece.octets)).collect();
        assert_eq!(pieces, [(3, 0x70C, 10), (4, 0, 20)]);
        assert_eq!(Video::read(&two[..10], 44), None);
        assert_eq!(Video::read(&[0; 8], 8), None);
    }

    /// Two packets of pi-list's ancillary data: one without, one with a timecode.
    #[test]
    fn a_packet_of_ancillary_data() {
        let empty = [0, 0x80, 0, 0, 0, 0x80, 0, 0];
        assert_eq!(Ancillary::read(&empty, 8), Some(Ancillary { count: 0, field: 2 }));
        let timecode = [0, 0x80, 0, 0x20, 1, 0xC0, 0, 0];
        assert_eq!(Ancillary::read(&timecode, 40), Some(Ancillary { count: 1, field: 3 }));
        assert_eq!(Ancillary::read(&timecode, 41), None);
        assert_eq!(Ancillary::read(&timecode[..7], 40), None);
        let reserved = [0, 0x80, 0, 0x20, 1, 0xC1, 0, 0];
        assert_eq!(Ancillary::read(&reserved, 40), None);
    }
}
