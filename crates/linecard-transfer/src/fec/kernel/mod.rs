//! Sums of products of packets: all arithmetic that touches payload.
//!
//! Both making repair packets and undoing losses are one operation: several rows, each the sum of
//! the same packets times factors of its own.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
mod vectors;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::field::HALVES;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use neon::Neon;
#[cfg(target_arch = "x86_64")]
use x86::{Avx2, Gfni256, Gfni512};

/// Rows whose sums are in registers together.
pub(super) const ROWS_AT_ONCE: usize = 4;

/// Code for one set of vector instructions that this CPU has.
///
/// [`Code`](super::Code) uses the best; all give the same bytes. This is for tests, benchmarks and
/// reports.
///
/// ```
/// use linecard_transfer::fec::{Code, Kernel, Scheme};
/// let scheme = Scheme::reed_solomon(2, 1)?;
/// for kernel in Kernel::available() {
///     let mut repair = [0; 3];
///     Code::with_kernel(scheme, kernel).encode(&[&[1, 2, 3], &[7]], &mut [&mut repair])?;
///     assert_eq!(repair, [6, 2, 3], "{}", kernel.name());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Gfni256(Gfni256),
    #[cfg(target_arch = "x86_64")]
    Gfni512(Gfni512),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon(Neon),
}

impl Kernel {
    /// The fastest on this CPU. Without the feature `std` it is what the compiler may assume.
    #[must_use]
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self(Instructions::Plain))
    }

    /// All that this CPU can run, from the slowest, the plain one, to the fastest.
    pub fn available() -> impl Iterator<Item = Self> {
        let all = [
            Some(Instructions::Plain),
            #[cfg(target_arch = "x86_64")]
            Avx2::found().map(Instructions::Avx2),
            #[cfg(target_arch = "x86_64")]
            Gfni256::found().map(Instructions::Gfni256),
            #[cfg(target_arch = "x86_64")]
            Gfni512::found().map(Instructions::Gfni512),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Some(Instructions::Neon(Neon::found())),
        ];
        all.into_iter().flatten().map(Self)
    }

    /// Its name: `plain`, `AVX2`, `GFNI-256`, `GFNI-512` or `NEON`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni256(_) => "GFNI-256",
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni512(_) => "GFNI-512",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Instructions::Neon(_) => "NEON",
        }
    }

    /// Computes the rows of `product`.
    pub(super) fn compute(self, product: &Product<'_>, rows: &mut [&mut [u8]]) {
        debug_assert!(rows.len() <= product.stride || product.sources.is_empty());
        match self.0 {
            Instructions::Plain => plain(product, rows),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(found) => found.compute(product, rows),
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni256(found) => found.compute(product, rows),
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni512(found) => found.compute(product, rows),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Instructions::Neon(found) => found.compute(product, rows),
        }
    }
}

/// The product to compute: row `r` is the sum over `s` of `sources[s]` times `factors[s · stride +
/// r]`. A source shorter than a row counts as followed by zeros, of a longer one only as many bytes
/// count.
#[derive(Debug)]
pub(super) struct Product<'a> {
    pub(super) sources: &'a [&'a [u8]],
    pub(super) factors: &'a [u8],
    /// Factors of each source, at least as many as there are rows.
    pub(super) stride: usize,
    /// Whether to add to what the rows hold.
    pub(super) adds: bool,
}

impl Product<'_> {
    /// Each source with its factors.
    #[inline(always)]
    fn terms(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.sources.iter().copied().zip(self.factors.chunks(self.stride.max(1)))
    }
}

/// The slow twin: one byte after the other.
fn plain(product: &Product<'_>, rows: &mut [&mut [u8]]) {
    for (index, row) in rows.iter_mut().enumerate() {
        if !product.adds {
            row.fill(0);
        }
        for (source, factors) in product.terms() {
            match factors[index] {
                1 => row.iter_mut().zip(source).for_each(|(sum, byte)| *sum ^= byte),
                factor => add_multiple(row, source, factor),
            }
        }
    }
}

fn add_multiple(row: &mut [u8], source: &[u8], factor: u8) {
    let halves = &HALVES[usize::from(factor)];
    for (sum, byte) in row.iter_mut().zip(source) {
        *sum ^= halves.low[usize::from(byte & 15)] ^ halves.high[usize::from(byte >> 4)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::field::multiply_by_bits;
    use alloc::vec;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        bytes
    }

    #[test]
    fn kernels_are_named_in_their_order_from_the_plain_one_to_the_fastest() {
        let all = ["plain", "AVX2", "GFNI-256", "GFNI-512", "NEON"];
        let names: Vec<&str> = Kernel::available().map(Kernel::name).collect();
        assert!(names.starts_with(&["plain"]) && names.ends_with(&[Kernel::best().name()]));
        let places: Vec<usize> =
            names.iter().filter_map(|name| all.iter().position(|known| known == name)).collect();
        assert!(places.len() == names.len() && places.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn every_kernel_multiplies_by_every_factor_at_every_length_and_alignment() {
        let source = random(&mut Rng::new(1), 256);
        for kernel in Kernel::available() {
            for factor in (0..=255).step_by(if cfg!(miri) { 127 } else { 1 }) {
                for len in (0..=200).step_by(if cfg!(miri) { 40 } else { 1 }) {
                    let (from, to) = (len % 7, (len + usize::from(factor)) % 5);
                    let mut row = vec![0xA5; to + len + 3];
                    let product = Product {
                        sources: &[&source[from..from + len]],
                        factors: &[factor],
                        stride: 1,
                        adds: false,
                    };
                    kernel.compute(&product, &mut [&mut row[to..to + len]]);
                    for (byte, from) in row[to..to + len].iter().zip(&source[from..]) {
                        assert_eq!(*byte, multiply_by_bits(*from, factor), "{}", kernel.name());
                    }
                    assert!(row[..to].iter().chain(&row[to + len..]).all(|byte| *byte == 0xA5));
                }
            }
        }
    }

    /// Promise (Transfer): Every kernel of error correction computes what the plain one does.
    ///
    /// Several rows and sources of all lengths, whole blocks and ends, new sums and added ones.
    #[test]
    fn every_kernel_computes_what_the_plain_one_does() {
        let mut rng = Rng::new(2);
        for _ in 0..if cfg!(miri) { 3 } else { 1_500 } {
            let (rows, stride) = (1 + rng.below(9) as usize, 9 + rng.below(3) as usize);
            let sources = rng.below(6) as usize;
            let sources: Vec<Vec<u8>> = (0..sources)
                .map(|_| {
                    let len = rng.below(700) as usize;
                    random(&mut rng, len)
                })
                .collect();
            let factors = random(&mut rng, stride * sources.len());
            let held: Vec<Vec<u8>> = (0..rows)
                .map(|_| {
                    let len = rng.below(700) as usize;
                    random(&mut rng, len)
                })
                .collect();
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let product =
                Product { sources: &sources, factors: &factors, stride, adds: rng.chance(0.5) };
            let run = |kernel: Kernel| {
                let mut held = held.clone();
                let mut rows: Vec<&mut [u8]> = held.iter_mut().map(Vec::as_mut_slice).collect();
                kernel.compute(&product, &mut rows);
                held
            };
            let expected = run(Kernel(Instructions::Plain));
            for kernel in Kernel::available() {
                assert!(run(kernel) == expected, "{} differs", kernel.name());
            }
        }
    }
}
