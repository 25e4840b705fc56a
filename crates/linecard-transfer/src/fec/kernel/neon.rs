//! Vectors with NEON, which every 64-bit ARM has that runs a general operating system: products
//! with both halves of a byte are looked up, as with AVX2. Its speedup is not measured.
#![expect(unsafe_code, reason = "vector loads and stores")]

use super::Product;
use super::vectors::{Vectors, by_vectors};
use crate::fec::field::HALVES;
use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

/// Evidence that this CPU has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Neon(());

impl Neon {
    /// This module is compiled only where every CPU has it.
    pub(super) fn found() -> Self {
        Self(())
    }

    pub(super) fn compute(self, product: &Product<'_>, rows: &mut [&mut [u8]]) {
        // SAFETY: `self` is evidence that the CPU has what the function is compiled for.
        unsafe { compute_neon(self, product, rows) }
    }
}

#[target_feature(enable = "neon")]
fn compute_neon(vectors: Neon, product: &Product<'_>, rows: &mut [&mut [u8]]) {
    by_vectors::<_, 16, 4>(vectors, product, rows);
}

impl Vectors<16> for Neon {
    type Vector = uint8x16_t;
    /// Products with low and with high halves of bytes.
    type Factor = [uint8x16_t; 2];

    #[inline(always)]
    fn zero(self) -> uint8x16_t {
        // SAFETY: `self` is evidence of NEON.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 16]) -> uint8x16_t {
        // SAFETY: `self` is evidence of NEON; the array has the size of a vector.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, vector: uint8x16_t, bytes: &mut [u8; 16]) {
        // SAFETY: `self` is evidence of NEON; the array has the size of a vector.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), vector) }
    }

    #[inline(always)]
    fn add(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` is evidence of NEON.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> [uint8x16_t; 2] {
        let halves = &HALVES[usize::from(factor)];
        [self.load(&halves.low), self.load(&halves.high)]
    }

    #[inline(always)]
    fn multiply(self, vector: uint8x16_t, [low, high]: [uint8x16_t; 2]) -> uint8x16_t {
        // SAFETY: `self` is evidence of NEON.
        unsafe {
            let lows = vqtbl1q_u8(low, vandq_u8(vector, vdupq_n_u8(15)));
            let highs = vqtbl1q_u8(high, vshrq_n_u8::<4>(vector));
            veorq_u8(lows, highs)
        }
    }
}
