//! Selects the fastest checksum code that the CPU can run.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::neon;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512};
use super::{Sum, plain};
use crate::packet::prefetch::Lines;

/// Below this length, vectors do not pay.
const SHORT: usize = 128;

/// Bytes that every kernel can sum without overflow of its lanes. Smaller in tests, to save memory.
const LONGEST: usize = if cfg!(test) { 3 << 18 } else { 1 << 30 };

/// Code for one set of vector instructions that this CPU has.
///
/// [`Sum`](super::Sum) uses the best; all give the same sums. This is for tests, benchmarks and
/// reports.
///
/// ```
/// use linecard::packet::checksum::{Kernel, Sum};
/// let bytes = [0x5A; 1448];
/// for kernel in Kernel::available() {
///     assert_eq!(kernel.sum(&bytes).fold(), Sum::of(&bytes).fold(), "{}", kernel.name());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Code);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon,
}

impl Kernel {
    /// The fastest on this CPU. Without the feature `std`, chosen by the compiler's target
    /// features.
    #[must_use]
    #[inline]
    pub fn best() -> Self {
        Self(vectors().unwrap_or(Code::Plain))
    }

    /// All that this CPU can run, the plain one first.
    pub fn available() -> impl Iterator<Item = Self> {
        let all = [
            Some(Code::Plain),
            #[cfg(target_arch = "x86_64")]
            Avx2::found().map(Code::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx512::found().map(Code::Avx512),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Some(Code::Neon),
        ];
        all.into_iter().flatten().map(Self)
    }

    /// Its name: `plain`, `AVX2`, `AVX-512` or `NEON`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Code::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(_) => "AVX-512",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Code::Neon => "NEON",
        }
    }

    /// [`Sum::of`] with this code.
    #[must_use]
    #[inline]
    pub fn sum(self, bytes: &[u8]) -> Sum {
        self.sum_each(bytes, || ())
    }

    /// [`Sum::of_ahead`] with this code.
    #[must_use]
    #[inline]
    pub fn sum_ahead(self, bytes: &[u8], ahead: &[u8]) -> Sum {
        let mut lines = Lines::of(ahead);
        let sum = self.sum_each(bytes, || lines.ask_two());
        lines.ask_rest();
        sum
    }

    /// [`Sum::of_copy`] with this code.
    ///
    /// # Panics
    ///
    /// When `to` is shorter than `from`.
    #[inline]
    pub fn copy(self, from: &[u8], to: &mut [u8]) -> Sum {
        let to = &mut to[..from.len()];
        if from.len() > LONGEST {
            return self.copy_chunks(from, to);
        }
        Sum::from_native(match self.0 {
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(found) => found.copy_and_sum(from, to),
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(found) if from.len() >= Avx2::MIN_LEN => found.copy_and_sum(from, to),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Code::Neon => neon::copy_and_sum(from, to),
            _ => plain::copy_and_sum(from, to),
        })
    }

    /// Calls `each_block` before each 128 bytes except the last few.
    #[inline]
    fn sum_each(self, bytes: &[u8], each_block: impl FnMut()) -> Sum {
        if bytes.len() > LONGEST {
            return self.sum_chunks(bytes);
        }
        Sum::from_native(match self.0 {
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(found) => found.sum(bytes, each_block),
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(found) if bytes.len() >= Avx2::MIN_LEN => found.sum(bytes, each_block),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Code::Neon => neon::sum(bytes, each_block),
            _ => plain::sum(bytes, each_block),
        })
    }

    // A separate function, because recursion would keep the rest from being inlined.
    #[cold]
    #[inline(never)]
    fn copy_chunks(self, from: &[u8], to: &mut [u8]) -> Sum {
        let chunks = from.chunks(LONGEST).zip(to.chunks_mut(LONGEST));
        chunks.fold(Sum::ZERO, |sum, (from, to)| sum.plus(self.copy(from, to)))
    }

    #[cold]
    #[inline(never)]
    fn sum_chunks(self, bytes: &[u8]) -> Sum {
        let chunks = bytes.chunks(LONGEST);
        chunks.fold(Sum::ZERO, |sum, chunk| sum.plus(self.sum(chunk)))
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn vectors() -> Option<Code> {
    Avx512::found().map(Code::Avx512).or_else(|| Avx2::found().map(Code::Avx2))
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
#[inline]
fn vectors() -> Option<Code> {
    Some(Code::Neon)
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon"))))]
#[inline]
fn vectors() -> Option<Code> {
    None
}

/// Short inputs are summed inline, long ones by the best kernel.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> Sum {
    if bytes.len() < SHORT { Sum::from_native(plain::sum_short(bytes)) } else { sum_long(bytes) }
}

// Not inline: selecting the kernel takes code that summing a header does not need.
#[inline(never)]
fn sum_long(bytes: &[u8]) -> Sum {
    Kernel::best().sum(bytes)
}

#[inline(never)]
pub(super) fn sum_ahead(bytes: &[u8], ahead: &[u8]) -> Sum {
    Kernel::best().sum_ahead(bytes, ahead)
}

#[inline(never)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) -> Sum {
    Kernel::best().copy(from, to)
}
