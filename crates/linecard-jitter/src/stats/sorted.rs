//! Sorted samples: exact order statistics, mean and deviation.
//!
//! Histograms round and sketches estimate, but the tails matter here; so all samples are kept, 8
//! bytes each.

use alloc::vec::Vec;

/// Samples in nanoseconds, sorted.
///
/// ```
/// use linecard_jitter::stats::sorted::Sorted;
/// let gaps = Sorted::new(vec![7_412, 7_400, 15_100, 7_412]);
/// assert_eq!((gaps.min(), gaps.max(), gaps.quantile(0.5)), (Some(7_400), Some(15_100), Some(7_412)));
/// assert_eq!(gaps.mean_ns(), 9_331.0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sorted(Vec<i64>);

impl Sorted {
    /// Sorts samples.
    #[must_use]
    pub fn new(mut samples: Vec<i64>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    /// Sorts unsigned samples; those beyond `i64::MAX` (292 years) are clamped to it.
    #[must_use]
    pub fn of_unsigned(samples: &[u64]) -> Self {
        Self::new(samples.iter().map(|&ns| i64::try_from(ns).unwrap_or(i64::MAX)).collect())
    }

    /// The samples in ascending order.
    #[must_use]
    pub fn samples(&self) -> &[i64] {
        &self.0
    }

    /// Number of samples.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.0.len() as u64
    }

    /// Minimum.
    #[must_use]
    pub fn min(&self) -> Option<i64> {
        self.0.first().copied()
    }

    /// Maximum.
    #[must_use]
    pub fn max(&self) -> Option<i64> {
        self.0.last().copied()
    }

    /// The mean; 0 when empty. The sum is exact.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let sum: i128 = self.0.iter().map(|&ns| i128::from(ns)).sum();
        if self.0.is_empty() { 0.0 } else { sum as f64 / self.0.len() as f64 }
    }

    /// The standard deviation with n - 1 in its denominator; 0 below two samples.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        if self.0.len() < 2 {
            return 0.0;
        }
        // Relative to the median in integers, so that large, close values lose no digits.
        let centre = i128::from(self.0[self.0.len() / 2]);
        let (mut sum, mut squares) = (0.0, 0.0);
        for &ns in &self.0 {
            let off = (i128::from(ns) - centre) as f64;
            sum += off;
            squares += off * off;
        }
        let n = self.0.len() as f64;
        libm::sqrt(((squares - sum * sum / n) / (n - 1.0)).max(0.0))
    }

    /// The smallest sample that at least the share `q` of all samples does not exceed; `None`
    /// without samples.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let rank = rank(q, self.n());
        self.0.get(usize::try_from(rank.checked_sub(1)?).ok()?).copied()
    }

    /// Number of samples above `limit_ns`.
    #[must_use]
    pub fn above(&self, limit_ns: i64) -> u64 {
        (self.0.len() - self.0.partition_point(|&ns| ns <= limit_ns)) as u64
    }
}

/// The rank of quantile `q` among `n` samples, from 1; 0 when there are none.
fn rank(q: f64, n: u64) -> u64 {
    // Products such as 0.9999 · 10000 may come out a little too large.
    let wanted = libm::ceil(q.clamp(0.0, 1.0) * n as f64 * (1.0 - 4.0 * f64::EPSILON));
    (wanted as u64).clamp(n.min(1), n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// Against the definitions, by counting.
    #[test]
    fn figures_equal_their_definitions() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let n = 1 + rng.below(60) as usize;
            let samples: Vec<i64> = (0..n).map(|_| rng.below(40) as i64 - 20).collect();
            let sorted = Sorted::new(samples.clone());
            let mean = samples.iter().sum::<i64>() as f64 / n as f64;
            assert!((sorted.mean_ns() - mean).abs() < 1e-12, "seed {seed}");
            let squares: f64 = samples.iter().map(|&x| (x as f64 - mean).powi(2)).sum();
            let deviation = if n < 2 { 0.0 } else { (squares / (n as f64 - 1.0)).sqrt() };
            assert!((sorted.deviation_ns() - deviation).abs() < 1e-9, "seed {seed}");
            for percent in 0..=100_u64 {
                let twin = samples.iter().copied().filter(|&x| {
                    let below = samples.iter().filter(|&&y| y <= x).count() as u64;
                    below * 100 >= percent * n as u64
                });
                let q = percent as f64 / 100.0;
                assert_eq!(sorted.quantile(q), twin.min(), "seed {seed}, {percent} %");
            }
            assert_eq!(sorted.above(3), samples.iter().filter(|&&x| x > 3).count() as u64);
        }
    }

    #[test]
    fn extreme_samples_do_not_overflow() {
        let sorted = Sorted::new(vec![i64::MIN, i64::MAX, i64::MAX, i64::MIN]);
        assert_eq!(sorted.mean_ns(), -0.5);
        assert!((sorted.deviation_ns() / 1.065e19 - 1.0).abs() < 0.001);
        assert_eq!(Sorted::of_unsigned(&[u64::MAX]).max(), Some(i64::MAX));
    }

    #[test]
    fn a_rank_is_exact_where_its_product_is_not() {
        assert_eq!(rank(0.9999, 10_000), 9_999);
    }
}
