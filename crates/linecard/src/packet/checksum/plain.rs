//! The sum without explicit vector instructions: for CPUs without a kernel here, for short inputs,
//! and as the reference of the kernels.

/// Bytes per turn: eight lanes of 64 bits.
const BLOCK: usize = 64;

/// Adds 64-bit words without loss, as every kernel here: `all` wraps and `high` adds the upper
/// halves; the sum of the lower halves is exactly `all` minus 2³² times `high`. Three operations
/// per vector instead of four for widening the halves.
#[derive(Default)]
struct Lanes {
    all: [u64; BLOCK / 8],
    high: [u64; BLOCK / 8],
}

impl Lanes {
    #[inline(always)]
    fn add(&mut self, block: &[u8; BLOCK]) {
        let (words, _) = block.as_chunks::<8>();
        for ((all, high), word) in self.all.iter_mut().zip(&mut self.high).zip(words) {
            let word = u64::from_ne_bytes(*word);
            *all = all.wrapping_add(word);
            *high += word >> 32;
        }
    }

    #[inline(always)]
    fn fold(&self) -> u64 {
        let lanes = self.all.iter().zip(&self.high);
        lanes.map(|(all, high)| all.wrapping_sub(high << 32) + high).sum()
    }
}

/// The 16-bit words of `bytes` added up in native byte order, modulo 65,535.
pub(super) fn sum(bytes: &[u8], mut each_block: impl FnMut()) -> u64 {
    if bytes.len() < 2 * BLOCK {
        return sum_short(bytes);
    }
    let mut lanes = Lanes::default();
    let (pairs, rest) = bytes.as_chunks::<{ 2 * BLOCK }>();
    for pair in pairs {
        each_block();
        for block in pair.as_chunks().0 {
            lanes.add(block);
        }
    }
    lanes.fold() + sum_short(rest)
}

/// [`sum`] of `from`, which is copied to `to` of the same length. Two passes: the compiler's code
/// for one pass is slower.
pub(super) fn copy_and_sum(from: &[u8], to: &mut [u8]) -> u64 {
    to.copy_from_slice(from);
    sum(from, || ())
}

/// Short inputs: headers, and the rest after whole blocks. Inline, because a call and the set-up of
/// vectors would cost more than the sum.
#[inline(always)]
pub(super) fn sum_short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    // Matched, because copying one to three bytes would be a call.
    sum + match *rest {
        [a, b, c] => u64::from(u32::from_ne_bytes([a, b, c, 0])),
        [a, b] => u64::from(u32::from_ne_bytes([a, b, 0, 0])),
        [a] => u64::from(u32::from_ne_bytes([a, 0, 0, 0])),
        _ => 0,
    }
}
