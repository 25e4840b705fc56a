//! Figures of any stream of constant rate: its period, lateness and gaps.
//!
//! The gap between packets alone hides lateness: after one long stop a sink that catches up has short
//! gaps and every packet late. So lateness is taken against an absolute schedule, whose period is fitted
//! to the stream, because the sender's clock and the capture's differ by some millionths.
//!
//! The fit is that of Theil and Sen (P. K. Sen, Journal of the American Statistical Association 63, 1968)
//! over the medians of up to 64 stretches: the median of the slopes between all pairs of them. Up to
//! 29 % of the stretches may be disturbed in any way without the slope following them; inside a
//! stretch, half of the packets. Packet 0 of the schedule is placed so that the earliest packet is on
//! time: what delay all packets have in common cannot be seen from here.

use crate::stats::sorted::Sorted;
use alloc::vec::Vec;

/// Segments of the fit: 2,016 pairs.
pub const STRETCHES: usize = 64;
/// A gap of more than this many periods is a spike.
pub const SPIKE_PERIODS: u64 = 2;

/// A packet of the stream: its number and its time of arrival.
pub type Point = (i64, u64);

/// The schedule that fits a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Time between packets, in the capture's nanoseconds.
    pub period_ns: f64,
    /// Due time of packet `first`.
    pub start_ns: f64,
    /// Packet number that `start_ns` belongs to.
    pub first: i64,
    /// Time that `start_ns` is relative to.
    pub epoch_ns: u64,
}

impl Fit {
    /// Fits a schedule to these packets; `None` with fewer than three packets, or if all times are
    /// equal.
    #[must_use]
    pub fn of(points: &[Point]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let (first, epoch_ns) = *points.first()?;
        let stretch = points.len().div_ceil(STRETCHES);
        let medians: Vec<(f64, f64)> =
            points.chunks(stretch).map(|stretch| medians(stretch, first, epoch_ns)).collect();
        let period_ns = median(slopes(&medians))?;
        let fit = Self { period_ns, start_ns: 0.0, first, epoch_ns };
        let earliest = points.iter().map(|point| fit.late_ns(*point)).min_by(f64::total_cmp)?;
        (period_ns > 0.0 && period_ns.is_finite()).then_some(Self { start_ns: earliest, ..fit })
    }

    /// Lateness of a packet; at least 0 for the packets that were fitted.
    #[must_use]
    pub fn late_ns(&self, (number, at_ns): Point) -> f64 {
        let number = (i128::from(number) - i128::from(self.first)) as f64;
        let at_ns = (i128::from(at_ns) - i128::from(self.epoch_ns)) as f64;
        at_ns - self.start_ns - number * self.period_ns
    }

    /// Lateness of all points, rounded to nanoseconds.
    #[must_use]
    pub fn lateness(&self, points: &[Point]) -> Sorted {
        let late = |point: &Point| libm::round(self.late_ns(*point)) as i64;
        Sorted::new(points.iter().map(late).collect())
    }

    /// Parts per million by which the period exceeds `nominal_ns`: the sender's clock is that much
    /// slower than the capture's.
    #[must_use]
    pub fn skew_ppm(&self, nominal_ns: f64) -> f64 {
        (self.period_ns / nominal_ns - 1.0) * 1e6
    }
}

/// Gaps and lateness of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Cbr {
    /// The schedule.
    pub fit: Fit,
    /// Time from each packet to the next in nanoseconds; negative where the capture's clock was set
    /// back.
    pub gaps: Sorted,
    /// Lateness of each packet, in whole nanoseconds.
    pub lateness: Sorted,
    /// Gaps of more than [`SPIKE_PERIODS`] periods, except gaps at lost packets.
    pub spikes: u64,
    /// Time from the first packet to the last.
    pub span_ns: u64,
}

impl Cbr {
    /// Figures relative to the fitted schedule. `points` are packets in order of arrival. `None` as
    /// for [`Fit::of`].
    #[must_use]
    pub fn of(points: &[Point]) -> Option<Self> {
        Some(Self::against(Fit::of(points)?, points))
    }

    /// Figures relative to a given schedule.
    #[must_use]
    pub fn against(fit: Fit, points: &[Point]) -> Self {
        let gap = |pair: &[Point]| {
            i64::try_from(i128::from(pair[1].1) - i128::from(pair[0].1)).unwrap_or(i64::MAX)
        };
        let limit_ns = SPIKE_PERIODS as f64 * fit.period_ns;
        let is_spike = |pair: &&[Point]| {
            pair[1].0.checked_sub(pair[0].0) == Some(1) && gap(pair) as f64 > limit_ns
        };
        let span_ns = match (points.first(), points.last()) {
            (Some(first), Some(last)) => last.1.saturating_sub(first.1),
            _ => 0,
        };
        Self {
            fit,
            gaps: Sorted::new(points.windows(2).map(gap).collect()),
            lateness: fit.lateness(points),
            spikes: points.windows(2).filter(is_spike).count() as u64,
            span_ns,
        }
    }
}

/// Samples counted by size, in bins of equal width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Lower edge of the first bin.
    pub from_ns: i64,
    /// Width of each bin, 1, 2 or 5 times a power of ten.
    pub step_ns: i64,
    /// Samples in each bin.
    pub counts: Vec<u64>,
    /// Samples above the last bin.
    pub above: u64,
}

impl Histogram {
    /// Up to `steps` bins from the smallest sample to the 99.9th percentile; `None` without
    /// samples.
    #[must_use]
    pub fn of(samples: &Sorted, steps: usize) -> Option<Self> {
        let (least, most) = (samples.min()?, samples.quantile(0.999)?);
        let steps = i128::try_from(steps.clamp(1, 10_000)).ok()?;
        let width = i128::from(most) - i128::from(least) + 1;
        let mut power = 1_i128;
        let step = loop {
            let fits = [1, 2, 5].into_iter().find(|m| m * power * (steps - 1).max(1) >= width);
            match fits {
                Some(m) => break m * power,
                None => power *= 10,
            }
        };
        let step_ns = i64::try_from(step).ok()?;
        let from_ns = least.saturating_sub(least.rem_euclid(step_ns));
        let edge = |n: i128| i128::from(from_ns) + n * step;
        let up_to = |edge: i128| samples.samples().partition_point(|&ns| i128::from(ns) < edge);
        let last = (i128::from(most) - i128::from(from_ns)) / step + 1;
        let counts = (0..last).map(|n| (up_to(edge(n + 1)) - up_to(edge(n))) as u64).collect();
        let above = (samples.samples().len() - up_to(edge(last))) as u64;
        Some(Self { from_ns, step_ns, counts, above })
    }
}

fn medians(stretch: &[Point], first: i64, epoch_ns: u64) -> (f64, f64) {
    let number = |point: &Point| (i128::from(point.0) - i128::from(first)) as f64;
    let at_ns = |point: &Point| (i128::from(point.1) - i128::from(epoch_ns)) as f64;
    let numbers = median(stretch.iter().map(number).collect());
    let times = median(stretch.iter().map(at_ns).collect());
    (numbers.unwrap_or(0.0), times.unwrap_or(0.0))
}

fn slopes(medians: &[(f64, f64)]) -> Vec<f64> {
    let pairs = medians
        .iter()
        .enumerate()
        .flat_map(|(index, a)| medians[index + 1..].iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)));
    pairs.filter(|slope| slope.is_finite()).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let (low, high) = (values.get(n.checked_sub(1)? / 2)?, values.get(n / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// A stream of this period with up to 500 ns of delay, and every so often a stop of a millisecond
    /// after which packets come in a burst.
    fn stream(seed: u64, n: u64, period_ps: u64) -> Vec<Point> {
        let mut rng = Rng::new(seed);
        let (mut until, start) = (0, 1_516_906_244_000_000_000_u64);
        (0..n)
            .map(|number| {
                let due = start + number * period_ps / 1_000;
                if rng.chance(0.000_3) {
                    until = due + 1_000_000;
                }
                (number as i64 + 77, due.max(until) + rng.below(500))
            })
            .collect()
    }

    #[test]
    fn the_period_is_found_within_a_millionth() {
        for seed in 0..20 {
            let points = stream(seed, 100_000, 7_419_761);
            let fit = Fit::of(&points).unwrap();
            let skew = fit.skew_ppm(7_419.761);
            assert!(skew.abs() < 1.0, "seed {seed}: {skew} ppm");
            assert!(points.iter().all(|point| fit.late_ns(*point) >= -1e-3));
        }
    }

    #[test]
    fn a_clock_that_differs_is_seen() {
        let points = stream(1, 100_000, 7_419_761 + 742);
        let skew = Fit::of(&points).unwrap().skew_ppm(7_419.761);
        assert!((skew - 100.0).abs() < 1.0, "{skew}");
    }

    /// A stop makes one long gap and a hundred late packets: only lateness tells.
    #[test]
    fn gaps_and_lateness_by_hand() {
        let mut points: Vec<Point> = (0..1_000).map(|n| (n, 1_000 + 10_000 * n as u64)).collect();
        for (n, point) in points[500..600].iter_mut().enumerate() {
            point.1 = 1_000 + 6_000_000 + n as u64;
        }
        points.remove(700);
        let cbr = Cbr::of(&points).unwrap();
        assert!((cbr.fit.period_ns - 10_000.0).abs() < 1e-6, "{:?}", cbr.fit);
        assert_eq!((cbr.spikes, cbr.gaps.max()), (1, Some(1_010_000)));
        assert_eq!(cbr.lateness.above(0), 100);
        assert_eq!(cbr.lateness.max(), Some(1_000_000));
        assert_eq!(cbr.span_ns, 9_990_000);
    }

    #[test]
    fn what_has_no_period_has_no_fit() {
        assert_eq!(Fit::of(&[(0, 0), (1, 1)]), None);
        assert_eq!(Fit::of(&[(0, 5); 9]), None);
        assert_eq!(Fit::of(&[(0, 5), (1, 5), (2, 5), (3, 5)]), None);
        let extremes = [(i64::MIN, u64::MAX), (i64::MAX, 0), (0, 0), (1, u64::MAX)];
        let _ = Cbr::of(&extremes);
    }

    #[test]
    fn histograms_count_every_sample_once() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let samples: Vec<i64> = (0..1 + rng.below(2_000))
                .map(|_| {
                    let scale = rng.below(40);
                    rng.below(1 << scale) as i64 - 1_000
                })
                .collect();
            let histogram = Histogram::of(&Sorted::new(samples.clone()), 50).unwrap();
            assert!(histogram.counts.len() <= 51, "seed {seed}");
            for (n, count) in histogram.counts.iter().enumerate() {
                let from = histogram.from_ns + n as i64 * histogram.step_ns;
                let inside = |x: &&i64| (from..from + histogram.step_ns).contains(*x);
                assert_eq!(samples.iter().filter(inside).count() as u64, *count, "seed {seed}");
            }
            let all = histogram.counts.iter().sum::<u64>() + histogram.above;
            assert_eq!(all, samples.len() as u64, "seed {seed}");
        }
        assert_eq!(Histogram::of(&Sorted::default(), 10), None);
        let extremes = Histogram::of(&Sorted::new(alloc::vec![i64::MIN, i64::MAX]), 10);
        assert!(extremes.is_none_or(|found| found.counts.iter().sum::<u64>() + found.above == 2));
    }
}
