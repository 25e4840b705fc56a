//! The Internet checksum (RFC 1071): ones'-complement sums that add, subtract and swap.
//!
//! Because such sums add, the checksum of a merged packet follows from the checksum fields of
//! its segments without reading their payload, and a corrupted segment still fails at the
//! receiver ([RFC 1624] gives the arithmetic for headers).
//!
//! [RFC 1624]: https://www.rfc-editor.org/rfc/rfc1624

mod kernel;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use kernel::Kernel;

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
        kernel::sum(bytes)
    }

    /// The sum over a short header, a multiple of 4 bytes: there is nothing to choose or to divide.
    #[must_use]
    #[inline(always)]
    pub(crate) fn of_words<const LEN: usize>(header: &[u8; LEN]) -> Self {
        const { assert!(LEN.is_multiple_of(4)) };
        let words = header.as_chunks::<4>().0.iter();
        Self::from_native(words.map(|word| u64::from(u32::from_ne_bytes(*word))).sum())
    }

    /// [`Sum::of`], which also prefetches all lines of `ahead` into the second-level cache.
    ///
    /// For packets in memory whose buffers are scattered; `ahead` is best the packet after the
    /// next. Data that is cached, or follows `bytes` in memory, only gets slower (by 6 ns for 1460
    /// bytes), because the hardware prefetches it.
    #[must_use]
    #[inline]
    pub fn of_ahead(bytes: &[u8], ahead: &[u8]) -> Self {
        kernel::sum_ahead(bytes, ahead)
    }

    /// Copies `from` to the front of `to` and returns its sum: one pass instead of two.
    ///
    /// # Panics
    ///
    /// When `to` is shorter than `from`.
    #[inline]
    pub fn of_copy(from: &[u8], to: &mut [u8]) -> Self {
        kernel::copy(from, to)
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

    /// The sum of `self` and `other`.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        // Folded sums stay below 2³³, so a chain of 2³⁰ additions cannot overflow.
        Self(self.partly_folded() + other.partly_folded())
    }

    /// The sum of `self` and `other` without folding; their total must be below 2⁶⁴. An unfolded
    /// sum of 64 KiB may be 2⁶².
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

    /// The sum of `count` equal sums.
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
        // Rotating by 8 bits multiplies by 256 modulo 65,535, which is what swapping does.
        Self(if cfg!(target_endian = "little") { sum.rotate_left(8) } else { sum })
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
    use alloc::vec::Vec;

    /// Miri takes a thousand times as long: it tries one of so many cases.
    const EVERY: usize = if cfg!(miri) { 211 } else { 1 };

    /// Random bytes, and those that carry always or never, with room for any alignment.
    fn patterns(len: usize) -> [Vec<u8>; 3] {
        let mut random = vec![0; len];
        Rng::new(1).fill(&mut random);
        [random, vec![0xFF; len], vec![0; len]]
    }

    fn zero_only_for_zeros(sum: Sum, bytes: &[u8]) -> bool {
        (sum.fold() == 0) == bytes.iter().all(|byte| *byte == 0)
    }

    /// Promise (Offloads): Every checksum kernel equals the plain reference on all lengths below
    /// 600, 9 alignments and all carries, also while copying.
    #[test]
    fn every_kernel_equals_the_reference_on_all_lengths_and_alignments() {
        for bytes in &patterns(64 + 700 + 64) {
            let line = bytes.as_ptr().align_offset(64);
            for start in 0..64 {
                for len in (0..=700_usize).filter(|len| (start * 7 + len).is_multiple_of(EVERY)) {
                    let part = &bytes[line + start..][..len];
                    let expected = reference_sum(part);
                    assert_eq!(Sum::of(part).fold(), expected, "{start} {len}");
                    for kernel in Kernel::available() {
                        let sum = kernel.sum(part);
                        assert_eq!(sum.fold(), expected, "{} {start} {len}", kernel.name());
                        assert!(zero_only_for_zeros(sum, part), "{}", kernel.name());
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_copies_what_it_sums_and_nothing_else() {
        for bytes in &patterns(64 + 700 + 64) {
            let mut room = vec![0xAA; 64 + 64 + 700 + 64];
            let line = room.as_ptr().align_offset(64);
            for len in (0..=700).step_by(EVERY) {
                // 37 and 29 are coprime to 64, so every alignment of both ends meets many lengths.
                let part = &bytes[len * 37 % 64..][..len];
                let expected = reference_sum(part);
                for (index, kernel) in Kernel::available().enumerate() {
                    let start = line + (len / 64 + index * 5 + len * 29) % 64;
                    let sum = kernel.copy(part, &mut room[start..]);
                    assert_eq!(sum.fold(), expected, "{} {len}", kernel.name());
                    assert_eq!(&room[start..][..len], part, "{} {len}", kernel.name());
                    room[start..][..len].fill(0xAA);
                    assert!(room.iter().all(|byte| *byte == 0xAA), "{} {len}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn every_kernel_agrees_on_random_places_and_sizes() {
        let mut rng = Rng::new(3);
        let mut bytes = vec![0; if cfg!(miri) { 2_000 } else { 20_000 }];
        rng.fill(&mut bytes);
        let mut room = vec![0; bytes.len()];
        for _ in 0..3_000 / EVERY {
            let start = rng.below(bytes.len() as u64) as usize;
            let len = rng.below((bytes.len() - start) as u64) as usize;
            let part = &bytes[start..][..len];
            let to = rng.below((room.len() - len) as u64) as usize;
            let ahead = &bytes[rng.below(bytes.len() as u64) as usize..];
            let expected = reference_sum(part);
            assert_eq!(Sum::of_ahead(part, ahead).fold(), expected, "{start} {len}");
            for kernel in Kernel::available() {
                assert_eq!(kernel.sum(part).fold(), expected, "{} {start} {len}", kernel.name());
                assert_eq!(kernel.sum_ahead(part, ahead).fold(), expected, "{}", kernel.name());
                assert_eq!(kernel.copy(part, &mut room[to..]).fold(), expected);
                assert_eq!(&room[to..][..len], part, "{} {start} {len}", kernel.name());
            }
        }
    }

    #[test]
    fn adds_by_parts_at_any_cut() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 / EVERY {
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
    fn long_runs_of_ones_carry_and_do_not_overflow() {
        let mut room = vec![0; 1 << 20];
        for len in [8948, 65_535, (1 << 20) - 3, 1 << 20].into_iter().step_by(EVERY) {
            let bytes = &vec![0xFF; len][..];
            let expected = reference_sum(bytes);
            for kernel in Kernel::available() {
                assert_eq!(kernel.sum(bytes).fold(), expected, "{} {len}", kernel.name());
                assert_eq!(kernel.copy(bytes, &mut room).fold(), expected, "{}", kernel.name());
            }
        }
        assert!(Sum::of(&vec![0xFF; 1 << 20]).is_valid());
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_copy_needs_room() {
        Sum::of_copy(&[1; 200], &mut [0; 199]);
    }
}
