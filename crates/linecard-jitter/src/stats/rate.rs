//! Rates of rare events: Garwood's interval.
//!
//! F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936): the count k of a
//! Poisson process has the mean's exact bounds at the gamma quantiles of shape k and k + 1.

use super::Interval;
use super::special::gamma_quantile;

/// A rate of events.
///
/// ```
/// use linecard_jitter::stats::rate::Rate;
/// // The paper's dummy: four spikes in a million iterations of 7.41 µs.
/// let rate = Rate::of(4, 7.41, 0.95).unwrap();
/// assert_eq!(rate.to_string(), "0.54/s (95 %: 0.15 to 1.38)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Number of events.
    pub count: u64,
    /// Observed time.
    pub seconds: f64,
    /// Events per second.
    pub per_second: f64,
    /// Confidence interval of the rate, if events are independent.
    pub bounds: Interval,
    /// Confidence level.
    pub confidence: f64,
}

impl Rate {
    /// The rate of `count` events in `seconds`; `None` if the time is not positive or the
    /// confidence is not between 0 and 1.
    #[must_use]
    pub fn of(count: u64, seconds: f64, confidence: f64) -> Option<Self> {
        // NaN fails every comparison.
        if !(seconds > 0.0 && seconds.is_finite() && confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let bounds = mean(count, confidence).scaled(1.0 / seconds);
        Some(Self { count, seconds, per_second: count as f64 / seconds, bounds, confidence })
    }
}

impl core::fmt::Display for Rate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Interval { lower, upper } = self.bounds;
        let (rate, percent) = (self.per_second, self.confidence * 100.0);
        write!(f, "{rate:.2}/s ({percent:.0} %: {lower:.2} to {upper:.2})")
    }
}

/// Confidence interval of the mean of a Poisson variable that was observed as `count`.
#[must_use]
pub fn mean(count: u64, confidence: f64) -> Interval {
    let tail = (1.0 - confidence) / 2.0;
    let k = count as f64;
    let lower = if count == 0 { 0.0 } else { gamma_quantile(k, tail) };
    Interval { lower, upper: gamma_quantile(k + 1.0, 1.0 - tail) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Promise (Jitter): 4 spikes in 7.41 s, as in the paper, are 0.54/s with a 95 % interval of
    /// 0.15 to 1.38.
    ///
    /// jitter.md, E1: "4 spikes (0.54/s, 95 % CI 0.15–1.38)".
    #[test]
    fn the_papers_four_spikes() {
        let rate = Rate::of(4, 7.41, 0.95).unwrap();
        assert_eq!(rate.to_string(), "0.54/s (95 %: 0.15 to 1.38)");
    }

    /// Garwood's table as printed in Pearson and Hartley, "Biometrika Tables", table 40.
    #[test]
    fn bounds_are_as_in_the_table() {
        for (count, lower, upper) in [
            (0, 0.0, 3.69),
            (1, 0.0253, 5.57),
            (4, 1.09, 10.24),
            (10, 4.80, 18.39),
            (30, 20.24, 42.83),
            (50, 37.11, 65.92),
        ] {
            let bounds = mean(count, 0.95);
            assert!((bounds.lower - lower).abs() < 0.006, "{count}: {bounds:?}");
            assert!((bounds.upper - upper).abs() < 0.006, "{count}: {bounds:?}");
        }
    }

    #[test]
    fn no_time_has_no_rate() {
        assert_eq!(Rate::of(1, 0.0, 0.95), None);
        assert_eq!(Rate::of(1, f64::NAN, 0.95), None);
        assert_eq!(Rate::of(1, 1.0, 1.0), None);
        assert!(Rate::of(u64::MAX, 1.0, 0.95).is_some());
    }
}
