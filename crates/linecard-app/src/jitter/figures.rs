//! Gaps, lateness and spikes of one series of times.

use super::with_interval;
use linecard_jitter::linux::switches::Switches;
use linecard_jitter::stats::CONFIDENCE;
use linecard_jitter::stats::quantile::{Bounds, Quantile};
use linecard_jitter::stats::rate::Rate;
use linecard_jitter::stats::sorted::Sorted;
use linecard_report::{Nanoseconds, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// The distribution of times; without values where there are no times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Times {
    /// median
    pub p50: Option<TimeQuantile>,
    /// p90
    pub p90: Option<TimeQuantile>,
    /// p99
    pub p99: Option<TimeQuantile>,
    /// p99.9
    pub p999: Option<TimeQuantile>,
    /// p99.99
    pub p9999: Option<TimeQuantile>,
    /// smallest
    pub min_ns: Option<Nanoseconds>,
    /// largest
    pub max_ns: Option<Nanoseconds>,
    /// mean
    pub mean_ns: Option<Nanoseconds>,
    /// standard deviation
    pub deviation_ns: Option<Nanoseconds>,
}

/// A quantile with its interval of 95 %, or how many samples that would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TimeQuantile {
    /// The quantile.
    pub ns: f64,
    /// The lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_ns: Option<f64>,
    /// The upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_ns: Option<f64>,
    /// Samples that an interval takes, where they are too few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_needed: Option<u64>,
    #[serde(skip)]
    quantile: Quantile,
}

/// Gaps of more than two periods.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Spikes {
    /// period
    pub period_ns: Nanoseconds,
    /// spikes
    pub count: u64,
    /// rate
    pub rate: Option<SpikesPerSecond>,
}

/// How often they come, with the interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SpikesPerSecond {
    /// The rate.
    pub per_second: f64,
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
}

/// Events of the thread; without values where the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Thread {
    /// waited
    pub voluntary_switches: Option<u64>,
    /// was displaced
    pub involuntary_switches: Option<u64>,
    /// ticks taken by the hypervisor
    pub stolen_ticks: Option<u64>,
}

impl Times {
    pub(super) fn of(times: &Sorted) -> Self {
        let (Some(min), Some(max)) = (times.min(), times.max()) else { return Self::default() };
        let quantile = |q| Quantile::of(times, q, CONFIDENCE).map(TimeQuantile::new);
        Self {
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            min_ns: Some(Nanoseconds(min as f64)),
            max_ns: Some(Nanoseconds(max as f64)),
            mean_ns: Some(Nanoseconds(times.mean_ns())),
            deviation_ns: Some(Nanoseconds(times.deviation_ns())),
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        let quantile = match key {
            "p50" => self.p50,
            "p90" => self.p90,
            "p99" => self.p99,
            "p999" => self.p999,
            "p9999" => self.p9999,
            _ => None,
        };
        quantile.map(TimeQuantile::text)
    }
}

impl TimeQuantile {
    fn new(quantile: Quantile) -> Self {
        let (bounds, samples_needed) = match quantile.bounds {
            Bounds::Between { lower_ns, upper_ns } => {
                (Some([lower_ns, upper_ns].map(|ns| ns as f64)), None)
            }
            Bounds::TooFew { needed, .. } => (None, Some(needed)),
        };
        Self {
            ns: quantile.value_ns as f64,
            lower_ns: bounds.map(|[lower, _]| lower),
            upper_ns: bounds.map(|[_, upper]| upper),
            samples_needed,
            quantile,
        }
    }

    fn text(self) -> String {
        match self.quantile.bounds {
            Bounds::Between { lower_ns, upper_ns } => {
                with_interval(self.quantile.value_ns, [lower_ns, upper_ns])
            }
            Bounds::TooFew { n, needed } => {
                format!("{}  (no interval: {n} of {needed} samples)", Value::Ns(self.ns))
            }
        }
    }
}

impl Spikes {
    pub(super) fn of(gaps: &Sorted, period_ps: u64, seconds: f64) -> Self {
        let limit_ns = i64::try_from(period_ps.div_ceil(500)).unwrap_or(i64::MAX);
        let count = gaps.above(limit_ns);
        let rate = Rate::of(count, seconds, CONFIDENCE);
        Self {
            period_ns: Nanoseconds(period_ps as f64 / 1_000.0),
            count,
            rate: rate.map(|Rate { per_second, bounds, .. }| SpikesPerSecond {
                per_second,
                lower: bounds.lower,
                upper: bounds.upper,
            }),
        }
    }

    pub(super) fn text(self) -> Option<String> {
        let SpikesPerSecond { per_second, lower, upper } = self.rate?;
        Some(format!("{per_second:.2}/s (95 %: {lower:.2} to {upper:.2})"))
    }
}

impl Thread {
    pub(super) fn new(switches: Option<Switches>) -> Self {
        Self {
            voluntary_switches: switches.map(|switches| switches.voluntary),
            involuntary_switches: switches.map(|switches| switches.involuntary),
            stolen_ticks: None,
        }
    }
}

/// From each time to the next; 0 where it goes back, which it does not on one clock.
pub(super) fn gaps(times_ns: impl Iterator<Item = u64>) -> Sorted {
    let mut last_ns = None;
    let gaps = times_ns.filter_map(|at_ns| {
        let before_ns = last_ns.replace(at_ns)?;
        Some(at_ns.saturating_sub(before_ns))
    });
    sorted(gaps)
}

/// Times in order; those of more than 292 years count as that.
pub(super) fn sorted(times_ns: impl Iterator<Item = u64>) -> Sorted {
    Sorted::new(times_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_more_than_two_periods() {
        let gaps = gaps([0, 100, 300, 501, 502].into_iter());
        assert_eq!(gaps.samples(), [1, 100, 200, 201]);
        let spikes = Spikes::of(&gaps, 100_000, 1.0);
        assert_eq!(spikes.count, 1);
        assert!(spikes.text().is_some_and(|text| text.starts_with("1.00/s")), "{spikes:?}");
    }

    #[test]
    fn few_samples_have_no_interval() {
        let text = |times: Vec<i64>, key| Times::of(&Sorted::new(times)).text(key);
        let all = || (0..100).collect();
        assert_eq!(text(all(), "p50").as_deref(), Some("49 ns (95 %: 39 ns to 60 ns)"));
        let few = text(all(), "p9999");
        assert_eq!(few.as_deref(), Some("99 ns  (no interval: 100 of 29956 samples)"));
        assert_eq!(text(vec![5; 100], "p50").as_deref(), Some("5 ns"));
        assert_eq!(Times::of(&Sorted::default()), Times::default());
    }
}
