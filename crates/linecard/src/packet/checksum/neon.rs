//! The sum with NEON, which every 64-bit ARM has that runs a general operating system.
//!
//! Its speed-up is not measured; `scripts/test-processors.sh` runs it. One instruction adds
//! neighbouring words of 32 bits to lanes of 64, so nothing is lost and no folding is needed in
//! between.
#![expect(unsafe_code, reason = "vector loads and stores")]

use core::arch::aarch64::{
    uint64x2_t, vaddq_u64, vaddvq_u64, vdupq_n_u64, vld1q_u8, vpadalq_u32, vreinterpretq_u32_u8,
    vst1q_u8,
};

/// Bytes of a vector.
const V128: usize = 16;
/// Bytes per turn.
const BLOCK: usize = 4 * V128;

/// Words added to four independent lanes, as one addition waits for the one before.
struct Lanes([uint64x2_t; 4]);

impl Lanes {
    #[inline]
    #[target_feature(enable = "neon")]
    fn zero() -> Self {
        Self([vdupq_n_u64(0); 4])
    }

    /// Adds a block, and copies it to `to` if there is one.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add(&mut self, block: &[u8; BLOCK], to: Option<&mut [u8; BLOCK]>) {
        let at = block.as_ptr();
        // SAFETY: four vectors make a block.
        let words = unsafe {
            [
                vld1q_u8(at),
                vld1q_u8(at.add(V128)),
                vld1q_u8(at.add(2 * V128)),
                vld1q_u8(at.add(3 * V128)),
            ]
        };
        if let Some(to) = to {
            let (parts, _) = to.as_chunks_mut::<V128>();
            for (part, words) in parts.iter_mut().zip(words) {
                // SAFETY: the part has the size of a vector.
                unsafe { vst1q_u8(part.as_mut_ptr(), words) };
            }
        }
        for (lane, words) in self.0.iter_mut().zip(words) {
            *lane = vpadalq_u32(*lane, vreinterpretq_u32_u8(words));
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn fold(self) -> u64 {
        let [a, b, c, d] = self.0;
        vaddvq_u64(vaddq_u64(vaddq_u64(a, b), vaddq_u64(c, d)))
    }
}

#[target_feature(enable = "neon")]
fn sum_neon(bytes: &[u8], mut each_block: impl FnMut()) -> u64 {
    let mut lanes = Lanes::zero();
    let (pairs, rest) = bytes.as_chunks::<{ 2 * BLOCK }>();
    for pair in pairs {
        each_block();
        for block in pair.as_chunks().0 {
            lanes.add(block, None);
        }
    }
    lanes.fold() + super::plain::sum_short(rest)
}

#[target_feature(enable = "neon")]
fn copy_and_sum_neon(from: &[u8], to: &mut [u8]) -> u64 {
    let mut lanes = Lanes::zero();
    let (blocks, rest) = from.as_chunks();
    let (to_blocks, to_rest) = to.as_chunks_mut();
    for (block, target) in blocks.iter().zip(to_blocks) {
        lanes.add(block, Some(target));
    }
    to_rest.copy_from_slice(rest);
    lanes.fold() + super::plain::sum_short(rest)
}

/// [`super::plain::sum`] with vectors.
pub(super) fn sum(bytes: &[u8], each_block: impl FnMut()) -> u64 {
    // SAFETY: this module is compiled only where every CPU has NEON.
    unsafe { sum_neon(bytes, each_block) }
}

/// [`super::plain::copy_and_sum`] with vectors.
pub(super) fn copy_and_sum(from: &[u8], to: &mut [u8]) -> u64 {
    // SAFETY: this module is compiled only where every CPU has NEON.
    unsafe { copy_and_sum_neon(from, to) }
}
