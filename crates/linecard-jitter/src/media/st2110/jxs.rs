//! ST 2110-22 with JPEG XS: the payload header of RFC 9134, section 4.3.
//!
//! The header has no length or checksum; a stream is JPEG XS if the counters of all its packets count, and a
//! codestream begins where they begin again.

/// Octets of the header.
const HEADER: usize = 4;
/// The packet counter and the counter of its overflows have 11 bits each.
const COUNTER: u32 = 1 << 11;
/// A codestream begins with a box for its profile and level (ISO/IEC 21122-3), or with its first marker.
const FIRST_BOX: [u8; 4] = *b"jpvs";
const START_OF_CODESTREAM: [u8; 2] = [0xFF, 0x10];

/// The payload header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// K: packets hold slices rather than any piece of the codestream.
    pub slices: bool,
    /// I: 0 for progressive, 2 and 3 for the fields.
    pub field: u8,
    /// F: the frame, modulo 32.
    pub frame: u8,
    /// SEP: which slice, or which round of the packet counter.
    pub slice: u16,
    /// P: the packet.
    pub packet: u16,
}

impl Header {
    /// Reads a header; `None` if there is none, or for the interlacing that is reserved.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let word = u32::from_be_bytes(*payload.first_chunk::<HEADER>()?);
        let field = (word >> 27 & 3) as u8;
        (field != 1).then_some(Self {
            slices: word >> 30 & 1 == 1,
            field,
            frame: (word >> 22 & 0x1F) as u8,
            slice: (word >> 11 & (COUNTER - 1)) as u16,
            packet: (word & (COUNTER - 1)) as u16,
        })
    }

    /// Whether it is the first packet of a frame or field.
    #[must_use]
    pub fn starts(&self) -> bool {
        self.slice == 0 && self.packet == 0
    }

    /// Whether this header comes after `before`, in the same frame or field.
    fn follows(&self, before: &Self) -> bool {
        let position = |header: &Self| u32::from(header.slice) * COUNTER + u32::from(header.packet);
        let next = (position(before) + 1) % (COUNTER * COUNTER);
        let next_slice = self.slices && self.packet == 0 && self.slice == before.slice + 1;
        (self.slices, self.field, self.frame) == (before.slices, before.field, before.frame)
            && (position(self) == next || next_slice)
    }
}

/// Packets of a flow that may be JPEG XS.
#[derive(Debug, Clone, Default)]
pub struct Codestreams {
    /// Number and time stamp of the last packet, and its header.
    last: Option<(i64, i64, Header)>,
    /// Codestreams that begin in the flow.
    pub begun: u64,
}

impl Codestreams {
    /// Takes a packet by its number, its time stamp and its payload; `None` if it does not belong to a stream of JPEG XS.
    pub fn push(&mut self, (number, stamp): (i64, i64), payload: &[u8]) -> Option<Header> {
        let header = Header::read(payload)?;
        let last = self.last.replace((number, stamp, header));
        if header.starts() {
            let content = &payload[HEADER..];
            let is_box = content.get(HEADER..2 * HEADER) == Some(&FIRST_BOX);
            if !is_box && !content.starts_with(&START_OF_CODESTREAM) {
                return None;
            }
            self.begun += 1;
        }
        let before = last.filter(|(before, ..)| before.checked_add(1) == Some(number));
        let counts = before.is_none_or(|(_, before_stamp, before)| {
            if before_stamp == stamp && !header.starts() {
                header.follows(&before)
            } else {
                header.starts()
            }
        });
        counts.then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn payload(frame: u32, position: u32) -> Vec<u8> {
        let word = 1 << 31 | frame << 22 | position;
        let mut payload = word.to_be_bytes().to_vec();
        payload.extend(if position == 0 { *b"\0\0\0*jpvs" } else { [7; 8] });
        payload
    }

    #[test]
    fn counters_of_a_codestream_count() {
        let mut found = Codestreams::default();
        // From the middle of frame 3; its counter of packets overflows.
        for position in 2_040..2_060 {
            let header = found.push((position.into(), 9), &payload(3, position)).unwrap();
            assert!(!header.starts() && header.frame == 3, "{header:?}");
        }
        assert_eq!(found.begun, 0);
        assert!(found.push((2_060, 10), &payload(4, 0)).unwrap().starts());
        assert_eq!(found.begun, 1);
        // Packet 2,061 is lost.
        assert!(found.push((2_062, 10), &payload(4, 2)).is_some());
        assert_eq!(found.push((2_063, 10), &payload(4, 2)), None);
    }

    #[test]
    fn other_payloads_are_no_codestream() {
        assert_eq!(Codestreams::default().push((0, 0), &[0x80, 0, 0]), None);
        // Interlacing 1 is reserved; a first packet without a codestream.
        assert_eq!(Codestreams::default().push((0, 0), &[0x88, 0, 0, 1]), None);
        assert_eq!(Codestreams::default().push((0, 0), &[0x80, 0, 0, 0, 1, 2, 3, 4, 5, 6]), None);
        let raw = Codestreams::default().push((0, 0), &[0x80, 0, 0, 0, 0xFF, 0x10]);
        assert!(raw.is_some_and(|header| header.starts()));
    }
}
