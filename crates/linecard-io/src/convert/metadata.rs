//! Metadata of a merged packet's segments, from which they can be restored.

use linecard::packet::{Gso, MAX_TUNNELS};

/// The pcapng option that carries a [`SegmentMetadata`]: codes with the highest bit set are for local use
/// (draft-ietf-opsawg-pcapng, section 3.5).
pub const METADATA_OPTION: u16 = 0xCC4C;
/// How comments on merged packets begin, which segmenting takes away.
pub(super) const COMMENT: &str = "linecard: merged from ";
/// Prefix of the option's value: another program may use the same local code.
const MAGIC: [u8; 4] = *b"LCT1";

/// Bits of the flags; the bits of constant identifications are for the innermost IPv4 header and up
/// to three around it.
const FIXED_ID: u8 = 1;
const ACCECN: u8 = 2;
const PADDED: u8 = 4;
const PARTIAL: u8 = 8;
const CHECKSUMS: u8 = 16;
const FIXED_OUTER_SHIFT: u32 = 4;
const _: () = assert!(MAX_TUNNELS == 3, "three bits of flags are left");

/// Segment size and count, and for every segment but the first its distance from the one before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentMetadata {
    /// Segment size and count.
    pub gso: Gso,
    /// Checksum fields hold only the sum of the pseudo header.
    pub partial_checksum: bool,
    /// One for each segment but the first.
    pub steps: Vec<Step>,
    /// Checksum fields of all segments, innermost header first within a segment, if they were
    /// trusted and may be wrong; else none.
    pub checksums: Vec<u16>,
}

/// The distance of a segment from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// In entries of the capture, at least 1.
    pub entries: u64,
    /// In time, in the units of the interface.
    pub ticks: i64,
}

impl SegmentMetadata {
    /// The option's value: magic, flags (1 byte), segment size and count (2 bytes each, network
    /// byte order), then two variable-length numbers for each step, then the checksums.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let gso = self.gso;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let mut bytes = MAGIC.to_vec();
        bytes.push(
            (gso.fixed_ids & FIXED_ID)
                | (gso.fixed_ids & !FIXED_ID) << FIXED_OUTER_SHIFT
                | flag(gso.accecn, ACCECN)
                | flag(gso.padded, PADDED)
                | flag(self.partial_checksum, PARTIAL)
                | flag(!self.checksums.is_empty(), CHECKSUMS),
        );
        bytes.extend(gso.size.to_be_bytes());
        bytes.extend(gso.segments.to_be_bytes());
        for step in &self.steps {
            put(&mut bytes, step.entries);
            // The sign comes last, so that small differences of either sign are short.
            put(&mut bytes, (step.ticks << 1 ^ step.ticks >> 63) as u64);
        }
        bytes.extend(self.checksums.iter().flat_map(|field| field.to_be_bytes()));
        bytes
    }

    /// Decodes an option's value; none if it is not ours, of a later version, or damaged.
    #[must_use]
    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut rest = value.strip_prefix(&MAGIC)?;
        let (fixed, steps) = rest.split_first_chunk::<5>()?;
        let [flags, size_high, size_low, count_high, count_low] = *fixed;
        rest = steps;
        let gso = Gso {
            size: u16::from_be_bytes([size_high, size_low]),
            segments: u16::from_be_bytes([count_high, count_low]),
            fixed_ids: flags & FIXED_ID | flags >> FIXED_OUTER_SHIFT & 0x0E,
            accecn: flags & ACCECN != 0,
            padded: flags & PADDED != 0,
        };
        if gso.size == 0 || gso.segments < 2 {
            return None;
        }
        let mut steps = Vec::new();
        for _ in 1..gso.segments {
            let entries = take(&mut rest)?;
            let ticks = take(&mut rest)?;
            steps.push(Step { entries, ticks: (ticks >> 1) as i64 ^ -((ticks & 1) as i64) });
        }
        let mut checksums = Vec::new();
        if flags & CHECKSUMS != 0 {
            let (fields, behind) = rest.as_chunks::<2>();
            checksums.extend(fields.iter().map(|field| u16::from_be_bytes(*field)));
            rest = behind;
            if checksums.is_empty() || !checksums.len().is_multiple_of(gso.segments.into()) {
                return None;
            }
        }
        let partial_checksum = flags & PARTIAL != 0;
        rest.is_empty().then_some(Self { gso, partial_checksum, steps, checksums })
    }
}

/// Seven bits per byte, lowest first; the highest bit is set if more follow (LEB128).
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn random(rng: &mut Rng) -> SegmentMetadata {
        let segments = 2 + rng.below(50) as u16;
        let steps = (1..segments)
            .map(|_| Step {
                entries: rng.next_u64() >> rng.below(64),
                ticks: rng.next_u64() as i64 >> rng.below(64),
            })
            .collect();
        let gso = Gso {
            size: 1 + rng.below(65_535) as u16,
            segments,
            fixed_ids: rng.below(16) as u8,
            accecn: rng.chance(0.5),
            padded: rng.chance(0.5),
        };
        let fields = segments * rng.below(4) as u16;
        let checksums = (0..fields).map(|_| rng.next_u64() as u16).collect();
        SegmentMetadata { gso, partial_checksum: rng.chance(0.5), steps, checksums }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let metadata = random(&mut rng);
            let bytes = metadata.encode();
            assert_eq!(SegmentMetadata::decode(&bytes), Some(metadata));
            assert_eq!(SegmentMetadata::decode(&bytes[..bytes.len() - 1]), None);
            let mut damaged = bytes.clone();
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] ^= 1 << rng.below(8);
            let _any = SegmentMetadata::decode(&damaged);
        }
        assert_eq!(SegmentMetadata::decode(b""), None);
        assert_eq!(SegmentMetadata::decode(b"LCT2\0\0\x01\0\x02\x01\0"), None);
    }
}
