//! Confidence intervals for series whose samples come in bursts: the moving-block bootstrap.
//!
//! H. R. Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of
//! Statistics 17 (1989). Whole blocks of the series are drawn, which preserves the dependence
//! within a block. Assumes that the series is stationary, and that a block is longer than a burst.

use super::Interval;
use alloc::vec::Vec;
use linecard::rng::Rng;

/// Maximum resamples of one interval: more only cost time.
pub const MAX_RESAMPLES: usize = 100_000;

/// Parameters of the resampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Samples per block, at least 1; longer than the bursts in the series.
    pub block: usize,
    /// Number of resamples, 100 … [`MAX_RESAMPLES`].
    pub resamples: usize,
    /// Confidence level of the interval.
    pub confidence: f64,
}

impl Plan {
    /// Blocks of n^⅓ samples, the optimal order for a variance (Künsch, section 3.3), and at least
    /// `burst`, the longest expected burst; 1,000 resamples; 95 %.
    #[must_use]
    pub fn of(n: usize, burst: usize) -> Self {
        let block = (libm::ceil(libm::cbrt(n as f64)) as usize).max(burst).max(1);
        Self { block, resamples: 1_000, confidence: super::CONFIDENCE }
    }
}

/// Confidence interval of a statistic of the series: percentiles of its values on resampled series.
/// `None` if the series has fewer than two blocks, or the statistic is not a number. Calls
/// `statistic` `resamples` times.
///
/// ```
/// use linecard::rng::Rng;
/// use linecard_jitter::stats::bootstrap::{Plan, interval};
/// let series: Vec<f64> = (0..500).map(|n| f64::from(n % 7)).collect();
/// let mean = |series: &[f64]| series.iter().sum::<f64>() / series.len() as f64;
/// let found = interval(&series, Plan::of(500, 10), &mut Rng::new(1), mean).unwrap();
/// assert!(found.contains(3.0));
/// ```
pub fn interval(
    series: &[f64],
    plan: Plan,
    rng: &mut Rng,
    mut statistic: impl FnMut(&[f64]) -> f64,
) -> Option<Interval> {
    let block = plan.block.max(1);
    if series.len() / 2 < block {
        return None;
    }
    let starts = (series.len() - block + 1) as u64;
    let resamples = plan.resamples.clamp(100, MAX_RESAMPLES);
    let mut drawn = Vec::with_capacity(series.len() + block);
    let mut found = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        drawn.clear();
        while drawn.len() < series.len() {
            let start = rng.below(starts) as usize;
            drawn.extend_from_slice(&series[start..start + block]);
        }
        drawn.truncate(series.len());
        found.push(statistic(&drawn));
    }
    percentiles(found, plan.confidence)
}

fn percentiles(mut found: Vec<f64>, confidence: f64) -> Option<Interval> {
    if found.iter().any(|x| x.is_nan()) || !(0.0..1.0).contains(&confidence) {
        return None;
    }
    found.sort_by(f64::total_cmp);
    let last = found.len() - 1;
    let tail = (1.0 - confidence) / 2.0;
    let low = libm::floor(tail * last as f64) as usize;
    Some(Interval { lower: *found.get(low)?, upper: *found.get(last - low.min(last))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(series: &[f64]) -> f64 {
        series.iter().sum::<f64>() / series.len() as f64
    }

    /// A series that stays high or low for long: single samples give a far too narrow interval,
    /// stretches one that catches the mean about as often as promised.
    #[test]
    fn stretches_see_bursts_that_single_samples_miss() {
        let (mut by_block, mut by_sample) = (0, 0);
        let runs = 200;
        for seed in 0..runs {
            let mut rng = Rng::new(seed);
            let mut high = rng.chance(0.5);
            let series: Vec<f64> = (0..2_000)
                .map(|_| {
                    high ^= rng.chance(0.05);
                    f64::from(u8::from(high))
                })
                .collect();
            let plan = |block| Plan { block, resamples: 200, confidence: 0.95 };
            let caught = |block, rng: &mut Rng| {
                interval(&series, plan(block), rng, mean).is_some_and(|found| found.contains(0.5))
            };
            by_block += u32::from(caught(100, &mut rng));
            by_sample += u32::from(caught(1, &mut rng));
        }
        // 95 % requested; the bootstrap of a short series falls a little short of it.
        assert!(by_block >= 172, "{by_block} of {runs}");
        assert!(by_sample <= 140, "{by_sample} of {runs}");
    }

    #[test]
    fn too_short_a_series_has_no_interval() {
        let mut rng = Rng::new(1);
        assert_eq!(interval(&[1.0; 9], Plan::of(9, 5), &mut rng, mean), None);
        assert_eq!(interval(&[], Plan::of(0, 0), &mut rng, mean), None);
        let nan = |_: &[f64]| f64::NAN;
        assert_eq!(interval(&[1.0; 100], Plan::of(100, 1), &mut rng, nan), None);
        let same = interval(&[2.0; 100], Plan::of(100, 1), &mut rng, mean).unwrap();
        assert_eq!((same.lower, same.upper), (2.0, 2.0));
    }
}
