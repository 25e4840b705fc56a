//! Vectors with GFNI, 512 or 256 bits wide, and with AVX2.
//!
//! GFNI multiplies each byte by a matrix of bits, here that of a factor, in one instruction. AVX2 looks up the products
//! with both halves of a byte, in two (J. S. Plank and others, "Screaming Fast Galois Field Arithmetic Using Intel SIMD
//! Instructions", FAST 2013). Their speedup over plain code is in docs/results/fec.md.
#![expect(unsafe_code, reason = "vector loads and stores, and calls of code for newer CPUs")]

use super::Product;
use super::vectors::{Vectors, by_vectors};
use crate::fec::field::{HALVES, MATRICES};
use core::arch::x86_64::{
    __m256i, __m512i, _mm_load_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

/// Whether the CPU has a feature: asked once while running, or of the compiler without std.
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

/// Evidence that this CPU has some features, with the product that is compiled for them: `count` vectors of
/// `len` bytes at once. With four rows, sums, bytes and factors fit 32 registers of 512 bits, or 16 of 256.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident: $features:tt = $first:tt $second:tt, $len:tt * $count:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) struct $name(());

        impl $name {
            pub(super) fn found() -> Option<Self> {
                (has!($first) && has!($second)).then_some(Self(()))
            }

            pub(super) fn compute(self, product: &Product<'_>, rows: &mut [&mut [u8]]) {
                #[target_feature(enable = $features)]
                fn compute(vectors: $name, product: &Product<'_>, rows: &mut [&mut [u8]]) {
                    by_vectors::<_, $len, $count>(vectors, product, rows);
                }
                // SAFETY: `self` is evidence that the CPU has what the function is compiled for.
                unsafe { compute(self, product, rows) }
            }
        }
    )*};
}

kernels! {
    /// Evidence that this CPU has GFNI and AVX-512. CPUs that have both (Ice Lake, Zen 4 and later) keep
    /// their clock when they meet vectors of 512 bits.
    Gfni512: "gfni,avx512f" = "gfni" "avx512f", 64 * 4;
    /// Evidence that this CPU has GFNI and AVX2.
    Gfni256: "gfni,avx2" = "gfni" "avx2", 32 * 2;
    /// Evidence that this CPU has AVX2.
    Avx2: "avx2" = "avx" "avx2", 32 * 2;
}

impl Vectors<64> for Gfni512 {
    type Vector = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` is evidence of AVX-512.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> __m512i {
        // SAFETY: `self` is evidence of AVX-512; the array has the size of a vector.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512i, bytes: &mut [u8; 64]) {
        // SAFETY: `self` is evidence of AVX-512; the array has the size of a vector.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` is evidence of AVX-512.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> __m512i {
        // SAFETY: `self` is evidence of AVX-512.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(factor)].cast_signed()) }
    }

    #[inline(always)]
    fn multiply(self, vector: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: `self` is evidence of GFNI and AVX-512.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(vector, factor) }
    }
}

/// Common code of all kernels of 256 bits.
macro_rules! avx2_vectors {
    () => {
        #[inline(always)]
        fn zero(self) -> __m256i {
            // SAFETY: `self` is evidence of AVX2.
            unsafe { _mm256_setzero_si256() }
        }

        #[inline(always)]
        fn load(self, bytes: &[u8; 32]) -> __m256i {
            // SAFETY: `self` is evidence of AVX2; the array has the size of a vector.
            unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
        }

        #[inline(always)]
        fn store(self, vector: __m256i, bytes: &mut [u8; 32]) {
            // SAFETY: `self` is evidence of AVX2; the array has the size of a vector.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
        }

        #[inline(always)]
        fn add(self, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: `self` is evidence of AVX2.
            unsafe { _mm256_xor_si256(a, b) }
        }
    };
}

impl Vectors<32> for Gfni256 {
    type Vector = __m256i;
    type Factor = __m256i;

    avx2_vectors!();

    #[inline(always)]
    fn factor(self, factor: u8) -> __m256i {
        // SAFETY: `self` is evidence of AVX2.
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(factor)].cast_signed()) }
    }

    #[inline(always)]
    fn multiply(self, vector: __m256i, factor: __m256i) -> __m256i {
        // SAFETY: `self` is evidence of GFNI and AVX2.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(vector, factor) }
    }
}

impl Vectors<32> for Avx2 {
    type Vector = __m256i;
    /// Products with low and with high halves of bytes, twice each.
    type Factor = [__m256i; 2];

    avx2_vectors!();

    #[inline(always)]
    fn factor(self, factor: u8) -> [__m256i; 2] {
        let halves = &HALVES[usize::from(factor)];
        // SAFETY: `self` is evidence of AVX2; both arrays have the size of half a vector and are
        // aligned to it.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_load_si128(halves.low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_load_si128(halves.high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn multiply(self, vector: __m256i, [low, high]: [__m256i; 2]) -> __m256i {
        // SAFETY: `self` is evidence of AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            let lows = _mm256_and_si256(vector, mask);
            let highs = _mm256_and_si256(_mm256_srli_epi64::<4>(vector), mask);
            _mm256_xor_si256(_mm256_shuffle_epi8(low, lows), _mm256_shuffle_epi8(high, highs))
        }
    }
}
