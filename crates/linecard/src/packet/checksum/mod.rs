//! The Internet checksum (RFC 1071): ones'-complement sums that add, subtract and swap.
//!
//! Because such sums add, the checksum of a merged packet follows from the checksum fields of
//! its segments without reading their payload, and a corrupted segment still fails at the
//! receiver ([RFC 1624] gives the arithmetic for headers).
//!
//! [RFC 1624]: https://www.rfc-editor.org/rfc/rfc1624

mod simd;

/// A partial sum of 16-bit big-endian words in ones'-complement arithmetic.
///
/// Sums are equal when they are congruent modulo 65,535; [`Sum::fold`] gives the 16-bit form.
///
/// ```
/// use linecard::packet::checksum::Sum;
/// // RFC 1071, section 3: the sum of these bytes is DDF2.
/// let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
/// // It adds by parts; a part that starts at an odd offset is swapped.
/// let (a, b) = bytes.split_at(3);
/// assert_eq!(Sum::of(a).plus(Sum::of(b).swapped()).fold(), 0xddf2);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    pub const ZERO: Self = Self(0);

    /// The sum over `bytes`, taken to start at an even offset; an odd last byte is padded with
    /// zero (RFC 1071, section 1).
    #[must_use]
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_native(simd::sum(bytes))
    }

    /// Copies `from` to the front of `to` and returns its sum: one pass instead of two.
    ///
    /// # Panics
    ///
    /// When `to` is shorter than `from`.
    #[inline]
    pub fn of_copy(from: &[u8], to: &mut [u8]) -> Self {
        Self::from_native(simd::copy_and_sum(from, &mut to[..from.len()]))
    }

    /// The sum over `bytes`, while the lines of `ahead` are fetched into the cache.
    #[must_use]
    #[inline]
    pub fn of_ahead(bytes: &[u8], _ahead: &[u8]) -> Self {
        Self::of(bytes)
    }

    /// The sum of one 16-bit word.
    #[must_use]
    #[inline]
    pub fn word(word: u16) -> Self {
        Self(u64::from(word))
    }

    /// The sum of the two halves of a 32-bit word.
    #[must_use]
    #[inline]
    pub fn double(word: u32) -> Self {
        Self(u64::from(word))
    }

    /// The sum of both.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        // Folded sums stay below 2³³, so a chain of 2³⁰ additions cannot overflow.
        Self(self.partly_folded() + other.partly_folded())
    }

    /// The sum of both, where there are few and none is as large as 2⁴⁸.
    #[must_use]
    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The difference.
    #[must_use]
    #[inline]
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// The sum of `count` equal ones.
    #[must_use]
    #[inline]
    pub fn times(self, count: u32) -> Self {
        Self(u64::from(self.fold()) * u64::from(count))
    }

    /// The sum of words added up as plain integers.
    #[must_use]
    #[inline]
    pub(crate) fn from_fields(sum: u64) -> Self {
        Self(sum)
    }

    /// The additive inverse.
    #[must_use]
    #[inline]
    pub fn negated(self) -> Self {
        Self(u64::from(!self.fold()))
    }

    /// The sum of the same bytes when they start at an odd offset (RFC 1071, section 2B).
    #[must_use]
    #[inline]
    pub fn swapped(self) -> Self {
        Self(u64::from(self.fold().swap_bytes()))
    }

    /// The 16-bit sum: 0 only when every summed byte was 0.
    #[must_use]
    #[inline]
    pub fn fold(self) -> u16 {
        // Adding a word to itself turned by half leaves the sum of both halves, with the carry
        // brought around, in the upper half.
        let sum = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
    }

    /// The checksum field for data with this sum: its complement.
    #[must_use]
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Whether data that includes its own checksum field is intact.
    #[must_use]
    #[inline]
    pub fn is_valid(self) -> bool {
        self.fold() == 0xFFFF
    }

    #[inline]
    fn partly_folded(self) -> u64 {
        (self.0 & 0xFFFF_FFFF) + (self.0 >> 32)
    }

    /// `sum` adds words in the byte order of this machine; swapping commutes with adding.
    #[inline]
    fn from_native(sum: u64) -> Self {
        let native = Self(sum).fold();
        Self(u64::from(u16::from_be(native)))
    }
}

/// The obvious sum, kept as the slow twin that every fast form is compared with.
#[must_use]
pub fn reference_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for (index, byte) in bytes.iter().enumerate() {
        let word = if index % 2 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) };
        sum += word;
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec;

    #[test]
    fn equals_the_reference_on_all_lengths_alignments_and_carries() {
        let mut rng = Rng::new(1);
        let mut random = vec![0_u8; 700];
        rng.fill(&mut random);
        let patterns = [random, vec![0xFF; 700], vec![0; 700]];
        for bytes in &patterns {
            for start in 0..9 {
                for len in 0..600 {
                    let part = &bytes[start..start + len];
                    let expected = reference_sum(part);
                    assert_eq!(Sum::of(part).fold(), expected, "{start} {len}");
                    let mut copy = vec![0xAA; len + 1];
                    assert_eq!(Sum::of_copy(part, &mut copy).fold(), expected);
                    assert_eq!(&copy[..len], part);
                    assert_eq!(copy[len], 0xAA);
                }
            }
        }
    }

    #[test]
    fn adds_by_parts_at_any_cut() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let mut bytes = vec![0; 2 + rng.below(200) as usize];
            rng.fill(&mut bytes);
            let (a, b) = bytes.split_at(rng.below(bytes.len() as u64) as usize);
            let second = if a.len() % 2 == 1 { Sum::of(b).swapped() } else { Sum::of(b) };
            let whole = reference_sum(&bytes);
            assert_eq!(Sum::of(a).plus(second).fold(), whole);
            let rest = Sum::of(&bytes).minus(Sum::of(a));
            assert_eq!(rest.fold() % 0xFFFF, second.fold() % 0xFFFF);
        }
    }

    #[test]
    fn survives_a_long_run_of_ones() {
        let bytes = vec![0xFF; 1 << 20];
        assert_eq!(Sum::of(&bytes).fold(), 0xFFFF);
        assert!(Sum::of(&bytes).is_valid());
    }
}
