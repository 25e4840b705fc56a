//! Times as discrete distributions, and their sums.

use alloc::vec::Vec;

/// Bins of a distribution.
const BINS: usize = 512;

/// A distribution of times in bins of equal width, starting at 0. Times beyond the last bin are in
/// none, and count as longer than any bound.
///
/// Times are rounded up to a bin's end: a predicted miss probability is never too low, and a sum of
/// `n` times is too long by at most `n` bins.
///
/// ```
/// use linecard_plan::Distribution;
/// // Two calls of 10 ns, each of which takes 100 ns once in ten times.
/// let mut cycle = Distribution::zero(256.0);
/// cycle.add(&[(10.0, 0.9), (100.0, 0.1)]);
/// cycle.add(&[(10.0, 0.9), (100.0, 0.1)]);
/// assert!((cycle.tail(150.0) - 0.01).abs() < 1e-9);
/// assert!((cycle.tail(50.0) - 0.19).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    bin_ns: f64,
    /// Probability of each bin; bin `n` is the time `n · bin_ns`.
    bins: Vec<f64>,
}

impl Distribution {
    /// The distribution of a sum without terms: 0; later sums are resolved up to `longest_ns`.
    #[must_use]
    pub fn zero(longest_ns: f64) -> Self {
        let mut bins = alloc::vec![0.0; BINS];
        bins[0] = 1.0;
        Self { bin_ns: longest_ns.max(f64::MIN_POSITIVE) / (BINS - 1) as f64, bins }
    }

    /// Adds an independent time, given as `(ns, probability)` pairs: a convolution.
    pub fn add(&mut self, time: &[(f64, f64)]) {
        let mut sum = alloc::vec![0.0; BINS];
        for (ns, share) in time {
            let shift = super::ceil(ns / self.bin_ns);
            let Ok(shift) = usize::try_from(shift) else { continue };
            let moved = sum.iter_mut().skip(shift).zip(&self.bins);
            moved.for_each(|(to, from)| *to += from * share);
        }
        self.bins = sum;
    }

    /// The probability of a time longer than `ns`.
    #[must_use]
    pub fn tail(&self, ns: f64) -> f64 {
        // A time on the edge of a bin belongs to that bin despite rounding.
        let within = (ns / self.bin_ns + 1e-6) as usize;
        let within: f64 = self.bins.iter().take(within.saturating_add(1)).sum();
        (1.0 - within).max(0.0)
    }

    /// The smallest time that is exceeded with a probability of at most `miss`, in nanoseconds;
    /// none if that lies beyond the last bin.
    #[must_use]
    pub fn bound(&self, miss: f64) -> Option<f64> {
        let mut left = 1.0;
        let at = self.bins.iter().position(|share| {
            left -= share;
            // Rounding must not make a bound infinite if nothing lies beyond it.
            left <= miss + 1e-9
        });
        at.map(|bin| bin as f64 * self.bin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// Against drawing: 100,000 cycles of some stages with random spreads.
    #[test]
    fn sums_are_those_that_chance_gives() {
        let mut rng = Rng::new(5);
        for _ in 0..12 {
            let stages: Vec<Vec<(f64, f64)>> =
                (0..2 + rng.below(5)).map(|_| random_time(&mut rng)).collect();
            let mean = |time: &[(f64, f64)]| time.iter().map(|(ns, p)| ns * p).sum::<f64>();
            let all: f64 = stages.iter().map(|time| mean(time)).sum();
            let mut sum = Distribution::zero(8.0 * all);
            stages.iter().for_each(|time| sum.add(time));
            let mut cycles: Vec<f64> = (0..100_000)
                .map(|_| stages.iter().map(|time| draw(time, &mut rng)).sum())
                .collect();
            cycles.sort_by(f64::total_cmp);
            let bins = stages.len() as f64 * sum.bin_ns;
            for factor in [0.8, 1.0, 1.3, 2.0, 4.0] {
                // Between the bins' edges both ways, and what 100,000 draws leave open.
                let drawn = |ns: f64| cycles.iter().filter(|c| **c > ns).count() as f64 / 1e5;
                let (low, high) = (drawn(factor * all + bins), drawn(factor * all - bins));
                let tail = sum.tail(factor * all);
                assert!((low - 0.006..high + 0.006).contains(&tail), "{low} {tail} {high}");
            }
            for miss in [0.5, 0.1, 0.01] {
                let bound = sum.bound(miss).expect("within the bins");
                let exceeded = cycles.iter().filter(|cycle| **cycle > bound).count() as f64 / 1e5;
                assert!(exceeded <= miss + 0.006, "{miss}: {exceeded}");
                let just_below = bound - bins - sum.bin_ns;
                let more = cycles.iter().filter(|cycle| **cycle > just_below).count() as f64 / 1e5;
                assert!(more >= miss - 0.006, "{miss}: {more}");
            }
        }
    }

    fn random_time(rng: &mut Rng) -> Vec<(f64, f64)> {
        let weights: Vec<f64> = (0..4).map(|_| 1.0 + rng.below(100) as f64).collect();
        let all: f64 = weights.iter().sum();
        weights.iter().map(|w| (1.0 + rng.below(1_000) as f64, w / all)).collect()
    }

    fn draw(time: &[(f64, f64)], rng: &mut Rng) -> f64 {
        let mut left = rng.below(1 << 40) as f64 / (1_u64 << 40) as f64;
        for (ns, share) in time {
            left -= share;
            if left < 0.0 {
                return *ns;
            }
        }
        time[time.len() - 1].0
    }

    #[test]
    fn what_is_beyond_all_bins_is_late() {
        let mut long = Distribution::zero(100.0);
        long.add(&[(50.0, 0.5), (1e300, 0.25), (f64::INFINITY, 0.25)]);
        assert!((long.tail(1e308) - 0.5).abs() < 1e-9);
        assert_eq!((long.bound(0.4), long.bound(0.5).is_some()), (None, true));
        assert_eq!(Distribution::zero(0.0).tail(0.0), 0.0);
    }
}
