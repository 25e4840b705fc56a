//! ST 2110-40: the ANC data packets in the payload of RFC 8331, section 2.1.

use alloc::vec::Vec;

/// Octets of the payload header before the first ANC data packet.
const HEADER: usize = 8;
/// Bits before the data identification: flags, line, offset, stream.
const PLACE_BITS: usize = 32;
/// Bits of a word of ancillary data.
const WORD_BITS: usize = 10;
/// Kinds of ANC data packets that are counted; further ones are not.
pub const MAX_KINDS: usize = 64;

/// The kind of an ANC data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Line of the picture: 2,047 for none in particular (RFC 8331, section 2.1).
    pub line: u16,
    /// Data identification, without parity.
    pub did: u8,
    /// Secondary data identification (or the data block number, for a `did` of 128 or more), without parity.
    pub sdid: u8,
}

impl Kind {
    /// Its name in the register of SMPTE, for some usual kinds.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        Some(match (self.did, self.sdid) {
            (0x41, 0x01) => "payload identifier, ST 352",
            (0x41, 0x05) => "AFD and bar data, ST 2016-3",
            (0x41, 0x07) => "SCTE 104",
            (0x43, 0x02) => "subtitles, OP-47",
            (0x60, 0x60) => "timecode, ST 12-2",
            (0x61, 0x01) => "captions, CEA-708",
            (0x61, 0x02) => "captions, CEA-608",
            _ => return None,
        })
    }
}

/// The ANC data packets of a flow, by kind.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    kinds: Vec<(Kind, u64)>,
    /// Those with a wrong parity or checksum, or whose payload ends before their data do.
    pub damaged: u64,
}

impl Counts {
    /// Takes a payload of `len` octets with `count` ANC data packets; a capture may have only its beginning, and then
    /// counts the kinds that are in it.
    pub fn push(&mut self, payload: &[u8], len: usize, count: u8) {
        let mut bits = Bits { bytes: payload.get(HEADER..).unwrap_or(&[]), at: 0 };
        for _ in 0..count {
            let kind = bits.kind();
            if let Some((kind, ..)) = kind {
                self.add(kind);
            }
            let is_right = kind.and_then(|(_, words)| bits.data(words));
            if is_right.is_none() && payload.len() < len {
                return;
            }
            self.damaged += u64::from(is_right != Some(true));
            if is_right.is_none() {
                return;
            }
        }
    }

    fn add(&mut self, kind: Kind) {
        match self.kinds.binary_search_by_key(&kind, |(kind, _)| *kind) {
            Ok(at) => self.kinds[at].1 += 1,
            Err(at) if self.kinds.len() < MAX_KINDS => self.kinds.insert(at, (kind, 1)),
            Err(_) => {}
        }
    }

    /// Kinds by line and identification, each with its number of packets.
    #[must_use]
    pub fn kinds(&self) -> &[(Kind, u64)] {
        &self.kinds
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next bits as a number; `None` beyond the end.
    fn take(&mut self, bits: usize) -> Option<u16> {
        let number = (self.at..self.at + bits).try_fold(0, |number, at| {
            let bit = self.bytes.get(at / 8)? >> (7 - at % 8) & 1;
            Some(number << 1 | u16::from(bit))
        })?;
        self.at += bits;
        Some(number)
    }

    /// The kind of the next packet, and its words from its identification to its length.
    fn kind(&mut self) -> Option<(Kind, [u16; 3])> {
        let start = self.at;
        self.take(1)?;
        let line = self.take(11)?;
        self.at = start + PLACE_BITS;
        let [did, sdid] = [self.take(WORD_BITS)?, self.take(WORD_BITS)?];
        let words = [did, sdid, self.take(WORD_BITS)?];
        let [did, sdid] = [did, sdid].map(|word| (word & 0xFF) as u8);
        Some((Kind { line, did, sdid }, words))
    }

    /// Whether the parities and the checksum of the packet with these words are right; `None` if it ends too early.
    fn data(&mut self, words: [u16; 3]) -> Option<bool> {
        let mut sum = words.iter().fold(0, |sum: u16, word| sum.wrapping_add(word & 0x1FF));
        for _ in 0..words[2] & 0xFF {
            sum = sum.wrapping_add(self.take(WORD_BITS)? & 0x1FF);
        }
        let checksum = self.take(WORD_BITS)?;
        // Packets begin on multiples of 32 bits.
        self.at = self.at.next_multiple_of(32);
        let has_parities = words.iter().all(|word| has_parity(*word));
        Some(has_parities && checksum & 0x1FF == sum & 0x1FF)
    }
}

/// Whether bit 8 makes the number of ones even, and bit 9 is its opposite (ST 291-1, section 6.1).
fn has_parity(word: u16) -> bool {
    let is_odd = (word & 0xFF).count_ones() % 2 == 1;
    (word >> 8 & 1 == 1) == is_odd && (word >> 9 & 1 == 1) != is_odd
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timecode of pi-list: line 9, 16 words.
    const TIMECODE: [u8; 40] = [
        0x00, 0x80, 0x00, 0x20, 0x01, 0x80, 0x00, 0x00, 0x00, 0x97, 0xd0, 0x00, 0x98, 0x26, 0x04,
        0x41, 0x68, 0x80, 0x20, 0x08, 0x01, 0x40, 0x80, 0x14, 0x08, 0x02, 0x00, 0x80, 0x20, 0x08,
        0x01, 0x10, 0x80, 0x20, 0x08, 0x02, 0xc8, 0x00, 0x00, 0x00,
    ];

    #[test]
    fn a_timecode_is_read() {
        let mut counts = Counts::default();
        counts.push(&TIMECODE, 40, 1);
        let kind = Kind { line: 9, did: 0x60, sdid: 0x60 };
        assert_eq!((counts.kinds(), counts.damaged), (&[(kind, 1)][..], 0));
        assert_eq!(kind.name(), Some("timecode, ST 12-2"));
    }

    #[test]
    fn damage_is_counted() {
        let mut counts = Counts::default();
        let mut wrong = TIMECODE;
        wrong[20] ^= 0x10;
        counts.push(&wrong, 40, 1);
        assert_eq!((counts.kinds().len(), counts.damaged), (1, 1));
        // A length that ends within the data, and a second packet that is not there.
        counts.push(&TIMECODE[..30], 30, 1);
        counts.push(&TIMECODE, 40, 2);
        assert_eq!((counts.kinds()[0].1, counts.damaged), (3, 3));
        // The capture has only the first octets.
        counts.push(&TIMECODE[..30], 40, 1);
        counts.push(&[], 40, 255);
        assert_eq!((counts.kinds()[0].1, counts.damaged), (4, 3));
    }
}
