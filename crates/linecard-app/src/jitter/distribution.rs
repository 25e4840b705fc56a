//! Charts of gaps and lateness, of jobs that have no trace.

use linecard::stats::Histogram;
use linecard_jitter::stats::sorted::Sorted;
use linecard_report::{Axis, Histograms, Page, TimeSeries, Unit, kept};

/// From, to, count.
type Buckets = Vec<(f64, f64, u64)>;

/// Points of a chart over time that are kept: of each part the least and the most.
const POINTS: usize = 20_000;

/// Distributions of gaps and lateness of some series. Not part of the figures: equal figures have equal charts.
#[derive(Debug, Clone, Default)]
pub(super) struct Distributions {
    counted: &'static str,
    over_time: Vec<(String, Vec<(f64, f64)>)>,
    gaps: Vec<(String, Buckets)>,
    lateness: Vec<(String, Buckets)>,
}

impl PartialEq for Distributions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Distributions {
    /// Empty; `counted` names what has gaps, as packets.
    pub(super) fn new(counted: &'static str) -> Self {
        Self { counted, ..Self::default() }
    }

    /// Adds the gaps of a series.
    pub(super) fn add_gaps(&mut self, name: &str, gaps: &Sorted) {
        self.gaps.push((name.to_owned(), buckets(gaps)));
    }

    /// Adds the lateness of a series.
    pub(super) fn add_lateness(&mut self, name: &str, lateness: &Sorted) {
        self.lateness.push((name.to_owned(), buckets(lateness)));
    }

    /// Adds the gaps of a series over time, by when its packets came, in ns.
    pub(super) fn add_times(&mut self, name: &str, times_ns: &[u64]) {
        let start_ns = times_ns.first().copied().unwrap_or(0);
        let gap = |pair: &[u64]| {
            let at_seconds = pair[1].saturating_sub(start_ns) as f64 / 1e9;
            (at_seconds, pair[1].saturating_sub(pair[0]).max(1) as f64)
        };
        let gaps: Vec<(f64, f64)> = times_ns.windows(2).map(gap).collect();
        self.over_time.push((name.to_owned(), kept(&gaps, POINTS)));
    }

    pub(super) fn draw(&self, page: &mut Page) {
        if !self.over_time.is_empty() {
            let mut chart = TimeSeries::new("gaps", "Time from packet to packet");
            chart.x(Axis::new("time", Unit::Seconds)).y(Axis::new("gap", Unit::Ns).log());
            for (name, points) in &self.over_time {
                chart.dots(name, points.clone());
            }
            page.chart(chart);
        }
        for (key, title, axis, series) in [
            ("gap_histogram", "Distribution of gaps", "gap", &self.gaps),
            ("lateness_histogram", "Distribution of lateness", "lateness", &self.lateness),
        ] {
            if series.iter().all(|(_, buckets)| buckets.is_empty()) {
                continue;
            }
            let mut chart = Histograms::new(key, title, self.counted);
            chart.x(Axis::new(axis, Unit::Ns).log());
            for (name, buckets) in series {
                chart.push(name, buckets.clone());
            }
            page.chart(chart);
        }
    }
}

/// Counts of times; early ones count as not late.
fn buckets(times: &Sorted) -> Buckets {
    let mut counted = Histogram::default();
    times.samples().iter().for_each(|ns| counted.record((*ns).max(0) as u64));
    let edges = |(from, to, n): (u64, u64, u64)| (from as f64, to.saturating_add(1) as f64, n);
    counted.buckets().map(edges).collect()
}
