//! Quantiles with distribution-free confidence intervals.
//!
//! Of n independent samples, the number that are at most the quantile `x_q` is binomial (n, q). So
//! `x_q` lies between the l-th and the u-th smallest sample with probability P(l ≤ B < u), whatever
//! the distribution (David and Nagaraja, "Order Statistics", section 7.1). Both tails get half of what
//! may be missed. Where one tail cannot be that thin (the largest sample is below `x_q` with probability
//! qⁿ), the other takes the rest; where even that is not enough, there is no interval:
//! 95 % of p99.99 takes 29,956 samples, the smallest n with 1 - qⁿ - (1-q)ⁿ ≥ 0.95.
//!
//! Samples of a stream come in bursts and are not independent; then this interval is too narrow,
//! and [`super::bootstrap`] gives the wider one.

use super::sorted::Sorted;
use super::special::{binomial_at_least, binomial_at_most};

/// A quantile with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The quantile's order, 0 … 1.
    pub q: f64,
    /// The sample at the quantile.
    pub value_ns: i64,
    /// Its confidence interval.
    pub bounds: Bounds,
}

/// The confidence interval of a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// The interval.
    Between {
        /// The lower bound, itself a sample.
        lower_ns: i64,
        /// The upper bound, itself a sample.
        upper_ns: i64,
    },
    /// There are too few samples for an interval.
    TooFew {
        /// Number of samples.
        n: u64,
        /// Number of samples needed; `u64::MAX` if no number is enough (q of 0 or 1).
        needed: u64,
    },
}

impl Quantile {
    /// Quantile `q` of these samples; `None` without samples or if `q` is outside 0 … 1.
    #[must_use]
    pub fn of(samples: &Sorted, q: f64, confidence: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let value_ns = samples.quantile(q)?;
        let n = samples.n();
        let at = |rank: u64| samples.samples().get(usize::try_from(rank).ok()?.checked_sub(1)?);
        let bounds = ranks(n, q, confidence).and_then(|(lower, upper)| {
            Some(Bounds::Between { lower_ns: *at(lower)?, upper_ns: *at(upper)? })
        });
        let too_few = || Bounds::TooFew { n, needed: samples_needed(q, confidence) };
        Some(Self { q, value_ns, bounds: bounds.unwrap_or_else(too_few) })
    }
}

/// Ranks, from 1, that enclose quantile `q` of the distribution with this confidence; `None` if `n`
/// is too small.
#[must_use]
pub fn ranks(n: u64, q: f64, confidence: f64) -> Option<(u64, u64)> {
    let missed = 1.0 - confidence;
    let (above, below) = outside(n, q);
    // NaN fails every comparison.
    if n == 0 || !(missed > 0.0 && above + below <= missed) {
        return None;
    }
    let half = missed / 2.0;
    let upper_tail = if below > half { missed - below } else { half };
    let lower_tail = if above > half { missed - above } else { half };
    // The smallest u with P(B ≥ u) within its tail; P(B ≥ n) is within it, or is the best possible.
    let upper = first(1, n, |u| binomial_at_least(u, n, q) <= upper_tail);
    // The largest l with P(B < l) within its tail: the one before the first that is not.
    let lower = first(2, n + 1, |l| l > n || binomial_at_most(l - 1, n, q) > lower_tail) - 1;
    Some((lower, upper))
}

/// The fewest samples with which quantile `q` has an interval; `u64::MAX` where none do.
///
/// ```
/// use linecard_jitter::stats::quantile::samples_needed;
/// assert_eq!(samples_needed(0.9999, 0.95), 29_956);
/// ```
#[must_use]
pub fn samples_needed(q: f64, confidence: f64) -> u64 {
    const MOST: u64 = 1 << 60;
    let enough = |n: u64| {
        let (above, below) = outside(n, q);
        above + below <= 1.0 - confidence
    };
    let n = first(1, MOST, enough);
    if n < MOST { n } else { u64::MAX }
}

/// The probabilities that all of `n` samples are below quantile `q`, and that all are above.
fn outside(n: u64, q: f64) -> (f64, f64) {
    let n = n as f64;
    (libm::exp(n * libm::log(q)), libm::exp(n * libm::log1p(-q)))
}

/// The first number in `from..to` for which `holds` is true, if it stays true for all larger ones;
/// `to` if none.
fn first(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    /// Promise (Jitter): Below 29,956 samples, p99.99 has no interval and the output says "n too
    /// small".
    ///
    /// jitter.md: "95 % needs 29,956 samples for p99.99".
    #[test]
    fn p99_99_needs_29956_samples() {
        assert_eq!(samples_needed(0.9999, 0.95), 29_956);
        assert_eq!(ranks(29_955, 0.9999, 0.95), None);
        let (lower, upper) = ranks(29_956, 0.9999, 0.95).unwrap();
        assert!(upper == 29_956 && lower > 29_900, "{lower}");
        // With half of it in each tail it would take 36,888; the bounds meet there.
        assert!(ranks(36_888, 0.9999, 0.95).unwrap().1 == 36_888);
        assert_eq!(samples_needed(0.99, 0.95), 299);
        assert_eq!(samples_needed(0.5, 0.95), 6);
        assert_eq!(samples_needed(1.0, 0.95), u64::MAX);
    }

    /// Published: the 95 % interval of the median of 25 samples is that between the 8th and the 18th
    /// (David and Nagaraja, section 7.1; Conover's table A3 gives the same ranks).
    #[test]
    fn the_median_of_25_lies_between_the_8th_and_the_18th() {
        assert_eq!(ranks(25, 0.5, 0.95), Some((8, 18)));
        assert_eq!(ranks(10, 0.5, 0.95), Some((2, 9)));
        assert_eq!(ranks(5, 0.5, 0.95), None);
    }

    /// Promise (Jitter): The interval of a quantile covers it at least as often as it says.
    ///
    /// The exact coverage, by summing the binomial, is never below the requested one.
    #[test]
    fn coverage_is_at_least_the_confidence() {
        for n in 1..120_u64 {
            for q in [0.05, 0.5, 0.75, 0.9, 0.975] {
                for confidence in [0.5, 0.9, 0.95] {
                    let Some((lower, upper)) = ranks(n, q, confidence) else {
                        assert!(n < samples_needed(q, confidence));
                        continue;
                    };
                    assert!(1 <= lower && lower <= upper && upper <= n, "{n} {q}");
                    let terms: Vec<f64> = (lower..upper).map(|k| term(k, n, q)).collect();
                    let coverage: f64 = terms.iter().sum();
                    assert!(coverage >= confidence - 1e-9, "{n} {q}: {coverage}");
                }
            }
        }
    }

    fn term(k: u64, n: u64, p: f64) -> f64 {
        let choose = (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
        choose * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32)
    }

    /// The 90th percentile of uniform samples is caught about as often as promised.
    #[test]
    fn intervals_catch_the_quantile() {
        let mut rng = Rng::new(9);
        let caught = (0..2_000).filter(|_| {
            let samples = (0..200).map(|_| rng.below(1_000_000) as i64).collect();
            let quantile = Quantile::of(&Sorted::new(samples), 0.9, 0.95).unwrap();
            let Bounds::Between { lower_ns, upper_ns } = quantile.bounds else { return false };
            lower_ns <= 900_000 && 900_000 <= upper_ns
        });
        let caught = caught.count();
        // 1,900 expected at least; 3.1 deviations of a binomial are 30.
        assert!(caught >= 1_870, "{caught}");
    }

    #[test]
    fn too_few_is_said_with_what_would_do() {
        let samples = Sorted::new((0..1_000).collect());
        let quantile = Quantile::of(&samples, 0.9999, 0.95).unwrap();
        assert_eq!(quantile.value_ns, 999);
        assert_eq!(quantile.bounds, Bounds::TooFew { n: 1_000, needed: 29_956 });
        assert_eq!(Quantile::of(&samples, 1.5, 0.95), None);
        assert_eq!(Quantile::of(&Sorted::default(), 0.5, 0.95), None);
    }
}
