//! The sum with AVX2 and with AVX-512.
//!
//! Speed-up: 1460 B in the second-level cache take 14 ns with AVX-512 and 17 with AVX2, 30 without;
//! 1448 B copied and summed take 29 ns, of which the copy alone takes 27, and 60 without. Both add
//! 64-bit words as the plain reference does, which explains the method.
#![expect(unsafe_code, reason = "vector loads and stores, and calls of code for newer CPUs")]

use core::arch::x86_64::{
    __m256i, __m512i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64,
    _mm256_and_si256, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256,
    _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_sub_epi64, _mm512_add_epi64, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
};

/// Whether the CPU has a feature: detected once at run time, or by the compiler without `std`.
macro_rules! has {
    ($feature:tt) => {{
        #[cfg(feature = "std")]
        {
            std::arch::is_x86_feature_detected!($feature)
        }
        #[cfg(not(feature = "std"))]
        {
            cfg!(target_feature = $feature)
        }
    }};
}

/// Proof that this CPU has AVX-512 with masks for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx512(());

/// Proof that this CPU has AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx2(());

impl Avx512 {
    /// VBMI2 implies BW, whose masks are used; VBMI2 itself only identifies the CPUs (Ice Lake, Zen
    /// 4 and later) that keep their clock when they run 512-bit vectors.
    #[inline]
    pub(super) fn found() -> Option<Self> {
        has!("avx512vbmi2").then_some(Self(()))
    }

    #[inline]
    pub(super) fn sum(self, bytes: &[u8], each_block: impl FnMut()) -> u64 {
        // SAFETY: `self` is evidence that the CPU has what the function is compiled for.
        unsafe { sum_512(bytes, each_block) }
    }

    #[inline]
    pub(super) fn copy_and_sum(self, from: &[u8], to: &mut [u8]) -> u64 {
        assert_eq!(from.len(), to.len(), "a copy has the length of what it copies");
        // SAFETY: `self` is evidence that the CPU has what the function is compiled for; the
        // lengths are equal.
        unsafe { copy_and_sum_512(from.as_ptr(), to.as_mut_ptr(), from.len()) }
    }
}

impl Avx2 {
    /// The fewest bytes that its functions accept.
    pub(super) const MIN_LEN: usize = 2 * V256;

    #[inline]
    pub(super) fn found() -> Option<Self> {
        has!("avx2").then_some(Self(()))
    }

    #[inline]
    pub(super) fn sum(self, bytes: &[u8], each_block: impl FnMut()) -> u64 {
        assert!(bytes.len() >= Self::MIN_LEN, "short sums are for plain code");
        // SAFETY: `self` is evidence that the CPU has what the function is compiled for; there
        // are enough bytes.
        unsafe { sum_256(bytes, each_block) }
    }

    #[inline]
    pub(super) fn copy_and_sum(self, from: &[u8], to: &mut [u8]) -> u64 {
        assert!(from.len() >= Self::MIN_LEN, "short copies are for plain code");
        assert_eq!(from.len(), to.len(), "a copy has the length of what it copies");
        // SAFETY: `self` is evidence that the CPU has what the function is compiled for; there
        // are enough bytes, and the lengths are equal.
        unsafe { copy_and_sum_256(from, to.as_mut_ptr()) }
    }
}

/// Bytes of a vector, and of a cache line: a vector that begins with a line costs one access.
const V512: usize = 64;

/// Length from which stores of whole lines gain more than the masked first vector costs.
const STRAIGHTEN_FROM: usize = 1024;

struct Lanes512 {
    all: __m512i,
    high: __m512i,
}

impl Lanes512 {
    #[inline]
    #[target_feature(enable = "avx512vbmi2")]
    fn zero() -> Self {
        Self { all: _mm512_setzero_si512(), high: _mm512_setzero_si512() }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi2")]
    fn add(&mut self, words: __m512i) {
        self.all = _mm512_add_epi64(self.all, words);
        self.high = _mm512_add_epi64(self.high, _mm512_srli_epi64::<32>(words));
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi2")]
    fn fold(self) -> u64 {
        let low = _mm512_sub_epi64(self.all, _mm512_slli_epi64::<32>(self.high));
        _mm512_reduce_add_epi64(_mm512_add_epi64(low, self.high)) as u64
    }
}

/// Reads whole lines: the first and the last under a mask, which reads nothing else. From the
/// second-level cache that is a fifth faster than vectors that straddle two lines.
#[target_feature(enable = "avx512vbmi2")]
fn sum_512(bytes: &[u8], mut each_block: impl FnMut()) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let before = bytes.as_ptr().addr() % V512;
    let mut line = bytes.as_ptr().wrapping_sub(before);
    let mut left = before + bytes.len();
    let mut lanes = Lanes512::zero();
    let mut mask = u64::MAX << before;
    if left > V512 {
        // SAFETY: the mask leaves out what lies before the bytes, and they go on behind this line.
        lanes.add(unsafe { _mm512_maskz_loadu_epi8(mask, line.cast()) });
        (line, left, mask) = (line.wrapping_add(V512), left - V512, u64::MAX);
        while left > 2 * V512 {
            each_block();
            // SAFETY: more than two vectors are left.
            unsafe {
                lanes.add(_mm512_loadu_si512(line.cast()));
                lanes.add(_mm512_loadu_si512(line.wrapping_add(V512).cast()));
            }
            (line, left) = (line.wrapping_add(2 * V512), left - 2 * V512);
        }
        if left > V512 {
            // SAFETY: more than one vector is left.
            lanes.add(unsafe { _mm512_loadu_si512(line.cast()) });
            (line, left) = (line.wrapping_add(V512), left - V512);
        }
    }
    mask &= u64::MAX >> (V512 - left);
    // SAFETY: the mask leaves out what lies behind the bytes, and before them if this is the only
    // line.
    lanes.add(unsafe { _mm512_maskz_loadu_epi8(mask, line.cast()) });
    unswapped(lanes.fold(), before)
}

/// # Safety
///
/// `left` bytes can be read from `from` and written to `to`, and do not overlap.
#[target_feature(enable = "avx512vbmi2")]
unsafe fn copy_and_sum_512(mut from: *const u8, mut to: *mut u8, mut left: usize) -> u64 {
    let mut lanes = Lanes512::zero();
    let before = if left < STRAIGHTEN_FROM { 0 } else { to.addr() % V512 };
    if before > 0 {
        // Up to the first whole line of the copy: stores that straddle lines cost a tenth.
        // SAFETY: one vector is left; the mask leaves out what lies before it.
        unsafe {
            _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast()));
            let head = from.wrapping_sub(before).cast();
            lanes.add(_mm512_maskz_loadu_epi8(u64::MAX << before, head));
        }
        left -= V512 - before;
        (from, to) = (from.wrapping_add(V512 - before), to.wrapping_add(V512 - before));
    }
    while left >= 2 * V512 {
        // Both loads stand before both stores: of one load and one store in turn the compiler
        // makes a call of memcpy and a second pass for the sum, which takes half as long again.
        // SAFETY: two vectors are left.
        unsafe {
            let first = _mm512_loadu_si512(from.cast());
            let second = _mm512_loadu_si512(from.wrapping_add(V512).cast());
            _mm512_storeu_si512(to.cast(), first);
            _mm512_storeu_si512(to.wrapping_add(V512).cast(), second);
            lanes.add(first);
            lanes.add(second);
        }
        left -= 2 * V512;
        (from, to) = (from.wrapping_add(2 * V512), to.wrapping_add(2 * V512));
    }
    if left >= V512 {
        // SAFETY: one vector is left.
        unsafe {
            let words = _mm512_loadu_si512(from.cast());
            _mm512_storeu_si512(to.cast(), words);
            lanes.add(words);
        }
        left -= V512;
        (from, to) = (from.wrapping_add(V512), to.wrapping_add(V512));
    }
    if left > 0 {
        let mask = u64::MAX >> (V512 - left);
        // SAFETY: the mask leaves out what lies behind the last byte.
        unsafe {
            let words = _mm512_maskz_loadu_epi8(mask, from.cast());
            _mm512_mask_storeu_epi8(to.cast(), mask, words);
            lanes.add(words);
        }
    }
    unswapped(lanes.fold(), before)
}

/// The sum of words that were cut at even addresses, of bytes that begin `before` bytes behind one:
/// if that is odd, all stood in the other half of their words. Rotating by 8 bits multiplies by
/// 256 modulo 65,535, which is what swapping does.
#[inline]
fn unswapped(sum: u64, before: usize) -> u64 {
    if before.is_multiple_of(2) { sum } else { sum.rotate_left(8) }
}

/// Bytes of a vector.
const V256: usize = 32;

/// The masks that AVX2 lacks, for the first or the last bytes of a vector.
static ONES_AMID_ZEROS: [u8; 3 * V256] = {
    let mut bytes = [0; 3 * V256];
    let mut i = V256;
    while i < 2 * V256 {
        bytes[i] = 0xFF;
        i += 1;
    }
    bytes
};

#[inline]
#[target_feature(enable = "avx2")]
fn mask_of_first(count: usize) -> __m256i {
    let mask = &ONES_AMID_ZEROS[2 * V256 - count..][..V256];
    // SAFETY: a slice of one vector.
    unsafe { _mm256_loadu_si256(mask.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn mask_of_last(count: usize) -> __m256i {
    let mask = &ONES_AMID_ZEROS[count..][..V256];
    // SAFETY: a slice of one vector.
    unsafe { _mm256_loadu_si256(mask.as_ptr().cast()) }
}

struct Lanes256 {
    all: __m256i,
    high: __m256i,
}

impl Lanes256 {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Self {
        Self { all: _mm256_setzero_si256(), high: _mm256_setzero_si256() }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, words: __m256i) {
        self.all = _mm256_add_epi64(self.all, words);
        self.high = _mm256_add_epi64(self.high, _mm256_srli_epi64::<32>(words));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn fold(&self, other: &Self) -> u64 {
        let all = _mm256_add_epi64(self.all, other.all);
        let high = _mm256_add_epi64(self.high, other.high);
        let low = _mm256_sub_epi64(all, _mm256_slli_epi64::<32>(high));
        let four = _mm256_add_epi64(low, high);
        let two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
        _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) as u64
    }
}

/// Bytes from `address` to where vectors lie whole in lines. None at an odd address: words must stay
/// whole too.
#[inline]
fn up_to_line(address: usize) -> usize {
    let count = address.wrapping_neg() % V256;
    if count.is_multiple_of(2) { count } else { 0 }
}

/// # Safety
///
/// There are at least two vectors of bytes.
#[target_feature(enable = "avx2")]
unsafe fn sum_256(bytes: &[u8], mut each_block: impl FnMut()) -> u64 {
    let (mut at, mut left) = (bytes.as_ptr(), bytes.len());
    let (mut lanes, mut others) = (Lanes256::zero(), Lanes256::zero());
    let count = up_to_line(at.addr());
    if count > 0 {
        // SAFETY: the first of at least two vectors.
        let words = unsafe { _mm256_loadu_si256(at.cast()) };
        lanes.add(_mm256_and_si256(words, mask_of_first(count)));
        (at, left) = (at.wrapping_add(count), left - count);
    }
    while left >= 4 * V256 {
        each_block();
        // SAFETY: four vectors are left.
        unsafe {
            lanes.add(_mm256_loadu_si256(at.cast()));
            others.add(_mm256_loadu_si256(at.wrapping_add(V256).cast()));
            lanes.add(_mm256_loadu_si256(at.wrapping_add(2 * V256).cast()));
            others.add(_mm256_loadu_si256(at.wrapping_add(3 * V256).cast()));
        }
        (at, left) = (at.wrapping_add(4 * V256), left - 4 * V256);
    }
    while left >= V256 {
        // SAFETY: one vector is left.
        lanes.add(unsafe { _mm256_loadu_si256(at.cast()) });
        (at, left) = (at.wrapping_add(V256), left - V256);
    }
    // SAFETY: more than one vector lies before the end, less than one is left.
    others.add(unsafe { last_words_256(bytes, left) });
    lanes.fold(&others) + odd_byte(bytes)
}

/// The last `left` bytes, but for an odd one, with zeros before them. They begin at an even offset.
///
/// # Safety
///
/// There are more bytes than those of a vector, and of them `left` are less.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn last_words_256(bytes: &[u8], left: usize) -> __m256i {
    let odd = left % 2;
    let start = bytes.as_ptr().wrapping_add(bytes.len() - odd - V256);
    // SAFETY: the vector ends with the last whole word; more bytes than its own lie before.
    let words = unsafe { _mm256_loadu_si256(start.cast()) };
    _mm256_and_si256(words, mask_of_last(left - odd))
}

/// The odd last byte, which is the first of a word.
#[inline]
fn odd_byte(bytes: &[u8]) -> u64 {
    match bytes.last() {
        Some(byte) if bytes.len() % 2 == 1 => u64::from(*byte),
        _ => 0,
    }
}

/// # Safety
///
/// There are at least two vectors of bytes, and as many can be written to `to`.
#[target_feature(enable = "avx2")]
unsafe fn copy_and_sum_256(bytes: &[u8], mut to: *mut u8) -> u64 {
    let (mut at, mut left) = (bytes.as_ptr(), bytes.len());
    let (mut lanes, mut others) = (Lanes256::zero(), Lanes256::zero());
    let count = up_to_line(to.addr());
    if count > 0 {
        // SAFETY: the first of at least two vectors.
        unsafe {
            let words = _mm256_loadu_si256(at.cast());
            _mm256_storeu_si256(to.cast(), words);
            lanes.add(_mm256_and_si256(words, mask_of_first(count)));
        }
        left -= count;
        (at, to) = (at.wrapping_add(count), to.wrapping_add(count));
    }
    while left >= 2 * V256 {
        // Loads before stores, as above.
        // SAFETY: two vectors are left.
        unsafe {
            let first = _mm256_loadu_si256(at.cast());
            let second = _mm256_loadu_si256(at.wrapping_add(V256).cast());
            _mm256_storeu_si256(to.cast(), first);
            _mm256_storeu_si256(to.wrapping_add(V256).cast(), second);
            lanes.add(first);
            others.add(second);
        }
        left -= 2 * V256;
        (at, to) = (at.wrapping_add(2 * V256), to.wrapping_add(2 * V256));
    }
    if left >= V256 {
        // SAFETY: one vector is left.
        unsafe {
            let words = _mm256_loadu_si256(at.cast());
            _mm256_storeu_si256(to.cast(), words);
            lanes.add(words);
        }
        left -= V256;
        (at, to) = (at.wrapping_add(V256), to.wrapping_add(V256));
    }
    let back = V256 - left;
    // The last whole vector is copied once more where it overlaps.
    // SAFETY: less than one vector is left, and more than one lies before.
    unsafe {
        let words = _mm256_loadu_si256(at.wrapping_sub(back).cast());
        _mm256_storeu_si256(to.wrapping_sub(back).cast(), words);
        others.add(last_words_256(bytes, left));
    }
    lanes.fold(&others) + odd_byte(bytes)
}
