//! Gaps, lateness and spikes of one series of times, for a report.

use linecard_jitter::linux::switches::Switches;
use linecard_jitter::stats::quantile::{Bounds, Quantile};
use linecard_jitter::stats::rate::Rate;
use linecard_jitter::stats::summary::Sorted;
use linecard_report::{Section, Value};

/// Of all intervals.
const CONFIDENCE: f64 = 0.95;

/// The quantiles that are shown, with their keys.
const QUANTILES: [(f64, &str, &str); 5] = [
    (0.5, "p50", "median"),
    (0.9, "p90", "p90"),
    (0.99, "p99", "p99"),
    (0.999, "p999", "p99.9"),
    (0.9999, "p9999", "p99.99"),
];

/// Quantiles of times, each with its interval, and the largest.
pub(crate) fn quantiles(key: &'static str, title: &'static str, times: &Sorted) -> Section {
    let mut section = Section::new(key, title);
    for (q, key, label) in QUANTILES {
        if let Some(quantile) = Quantile::of(times, q, CONFIDENCE) {
            section.add(key, label, value(&quantile));
        }
    }
    if let (Some(min), Some(max)) = (times.min(), times.max()) {
        section.add("min_ns", "smallest", Value::Ns(min as f64));
        section.add("max_ns", "largest", Value::Ns(max as f64));
        section.add("mean_ns", "mean", Value::Ns(times.mean_ns()));
        section.add("deviation_ns", "standard deviation", Value::Ns(times.deviation_ns()));
    }
    section
}

fn value(quantile: &Quantile) -> Value {
    let ns = Value::Ns(quantile.value_ns as f64);
    match quantile.bounds {
        Bounds::Between { lower_ns, upper_ns } => {
            let text = super::with_interval(quantile.value_ns, [lower_ns, upper_ns]);
            let [lower, upper] = [lower_ns, upper_ns].map(|ns| Value::Ns(ns as f64));
            Value::Fields(text, vec![("ns", ns), ("lower_ns", lower), ("upper_ns", upper)])
        }
        Bounds::TooFew { n, needed } => {
            let text = format!("{ns}  (no interval: {n} of {needed} samples)");
            Value::Fields(text, vec![("ns", ns), ("samples_needed", Value::Count(needed))])
        }
    }
}

/// Gaps of more than two periods, and how often they come.
pub(crate) fn spikes(gaps: &Sorted, period_ps: u64, seconds: f64) -> Section {
    let mut section = Section::new("spikes", "Spikes (gaps of more than two periods)");
    let limit_ns = i64::try_from(period_ps.div_ceil(500)).unwrap_or(i64::MAX);
    let count = gaps.above(limit_ns);
    section.add("period_ns", "period", Value::Ns(period_ps as f64 / 1_000.0));
    section.add("count", "spikes", Value::Count(count));
    if let Some(rate) = Rate::of(count, seconds, CONFIDENCE) {
        let fields = vec![
            ("per_second", Value::Number(rate.per_second)),
            ("lower", Value::Number(rate.bounds.lower)),
            ("upper", Value::Number(rate.bounds.upper)),
        ];
        section.add("rate", "rate", Value::Fields(rate.to_string(), fields));
    }
    section
}

/// What the thread has been through.
pub(crate) fn host(switches: Option<Switches>) -> Section {
    let mut section = Section::new("thread", "The measuring thread");
    if let Some(Switches { voluntary, involuntary }) = switches {
        section.add("voluntary_switches", "waited", Value::Count(voluntary));
        section.add("involuntary_switches", "was displaced", Value::Count(involuntary));
    }
    section
}

/// From each time to the next; 0 where it goes back, which it does not on one clock.
pub(crate) fn gaps(times_ns: impl Iterator<Item = u64>) -> Sorted {
    let mut last_ns = None;
    let gaps = times_ns.filter_map(|at_ns| {
        let before_ns = last_ns.replace(at_ns)?;
        Some(at_ns.saturating_sub(before_ns))
    });
    sorted(gaps)
}

/// Times in order; those of more than 292 years count as that.
pub(crate) fn sorted(times_ns: impl Iterator<Item = u64>) -> Sorted {
    Sorted::new(times_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_more_than_two_periods() {
        let gaps = gaps([0, 100, 300, 501, 502].into_iter());
        assert_eq!(gaps.samples(), [1, 100, 200, 201]);
        let text = spikes(&gaps, 100_000, 1.0).to_string();
        assert!(text.contains("spikes  1") || text.contains("spikes       1"), "{text}");
        assert!(text.contains("1.00/s"), "{text}");
    }

    #[test]
    fn few_samples_have_no_interval() {
        let text = quantiles("gaps", "Gaps", &Sorted::new((0..100).collect())).to_string();
        assert!(text.contains("49 ns (95 %: 39 ns to 60 ns)"), "{text}");
        assert!(text.contains("100 of 29956 samples"), "{text}");
        let same = quantiles("gaps", "Gaps", &Sorted::new(vec![5; 100])).to_string();
        assert!(same.contains("5 ns") && !same.contains("5 ns to 5 ns"), "{same}");
        assert_eq!(quantiles("gaps", "Gaps", &Sorted::default()).to_string(), "Gaps\n");
    }
}
