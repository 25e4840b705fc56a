//! Histograms of one quantity, or of the same quantity at several points.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use crate::unit::Unit;
use linecard::stats::Histogram;
use serde::Serialize;

/// With more buckets than this, neighbours are joined.
const MOST_BUCKETS: usize = 2_000;
/// Maximum rows of the table; the chart has more.
const TABLE_ROWS: usize = 200;

/// Distributions over one axis. Counts have a logarithmic axis, so that one packet among a million
/// is visible.
#[derive(Debug, Clone, PartialEq)]
pub struct Histograms {
    pub(crate) heading: Heading,
    pub(crate) x: Axis,
    pub(crate) counted: String,
    pub(crate) distributions: Vec<Distribution>,
}

/// One distribution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Distribution {
    pub(crate) name: String,
    /// From, to (exclusive), count; sorted and without overlaps.
    pub(crate) buckets: Vec<(f64, f64, u64)>,
}

impl Histograms {
    /// An empty chart with `key` in JSON. `counted` names the counted things, such as "packets".
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>, counted: impl Into<String>) -> Self {
        Self {
            heading: Heading::new(key, title),
            x: Axis::new("value", Unit::Plain("")),
            counted: counted.into(),
            distributions: Vec::new(),
        }
    }

    /// Sets the horizontal axis.
    pub fn x(&mut self, axis: Axis) -> &mut Self {
        self.x = axis;
        self
    }

    /// Adds a distribution given as from, to (exclusive) and count, in any order. Drops buckets
    /// that are empty or end before they begin. Distributions of one chart should have buckets of
    /// equal width, otherwise their heights are not comparable.
    pub fn push(&mut self, name: impl Into<String>, buckets: Vec<(f64, f64, u64)>) -> &mut Self {
        let mut buckets = buckets;
        buckets.retain(|(from, to, n)| from.is_finite() && to.is_finite() && from < to && *n > 0);
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let joined = joined(&buckets);
        self.distributions.push(Distribution { name: name.into(), buckets: joined });
        self
    }

    /// Adds a histogram of integers, with `size` axis units per integer: its buckets are up to 12.5
    /// % wide.
    pub fn histogram(
        &mut self,
        name: impl Into<String>,
        counted: &Histogram,
        size: f64,
    ) -> &mut Self {
        let buckets = counted.buckets();
        let edge = |value: u64| value as f64 * size;
        let all =
            buckets.map(|(from, to, n)| (edge(from), edge(to.saturating_add(1)), n)).collect();
        self.push(name, all)
    }

    /// Adds the distribution of these values in `count` buckets of equal width on the axis (1 to
    /// 2,000).
    pub fn values(&mut self, name: impl Into<String>, values: &[f64], count: usize) -> &mut Self {
        self.compare([(name.into(), values)], count)
    }

    /// Adds several distributions over the same `count` buckets, so that their heights are
    /// comparable.
    ///
    /// ```
    /// use linecard_report::{Axis, Histograms, Unit};
    /// let mut gaps = Histograms::new("gaps", "Gaps by stage", "packets");
    /// gaps.x(Axis::new("gap", Unit::Ns).log());
    /// gaps.compare([("wire", &[7_400.0, 7_420.0][..]), ("application", &[7_100.0, 15_020.0])], 100);
    /// ```
    pub fn compare<'v, N: Into<String>>(
        &mut self,
        named: impl IntoIterator<Item = (N, &'v [f64])>,
        count: usize,
    ) -> &mut Self {
        let named: Vec<(N, &[f64])> = named.into_iter().collect();
        let count = count.clamp(1, MOST_BUCKETS);
        let all = named.iter().flat_map(|(_, values)| values.iter().copied());
        let scale = self.x.scale(all, count as f64);
        for (name, values) in named {
            let mut counts = vec![0; count];
            for value in values.iter().filter(|value| value.is_finite()) {
                counts[(scale.at(*value) as usize).min(count - 1)] += 1;
            }
            let edge = |index: usize| scale.value(index as f64);
            let buckets = counts.into_iter().enumerate();
            self.push(name, buckets.map(|(index, n)| (edge(index), edge(index + 1), n)).collect());
        }
        self
    }

    /// All edges, and the count of each distribution between successive edges.
    pub(crate) fn steps(&self) -> (Vec<f64>, Vec<Vec<u64>>) {
        let all = self.distributions.iter().flat_map(|distribution| &distribution.buckets);
        let mut edges: Vec<f64> = all.flat_map(|&(from, to, _)| [from, to]).collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        if let [first @ 0.0, second, ..] = &mut edges[..] {
            // A logarithmic axis has no zero.
            *first = if self.x.is_log { *second / 2.0 } else { 0.0 };
        }
        let counts = self.distributions.iter().map(|one| one.counts_from(&edges)).collect();
        (edges, counts)
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key.clone(), &self.heading.title);
        table.columns([
            ("name", "of"),
            ("from", "from"),
            ("to", "up to"),
            ("count", self.counted.as_str()),
        ]);
        let text = |value: f64| Value::Text(self.x.unit.text(value));
        for one in &self.distributions {
            for &(from, to, count) in &one.buckets {
                let name = Value::Text(one.name.clone());
                table.row(vec![name, text(from), text(to), Value::Count(count)]);
            }
        }
        table.most(TABLE_ROWS);
        table
    }
}

impl Distribution {
    /// Zero in buckets that the distribution lacks.
    fn counts_from(&self, edges: &[f64]) -> Vec<u64> {
        let mut buckets = self.buckets.iter().peekable();
        let mut counts = Vec::with_capacity(edges.len());
        for edge in edges {
            while buckets.next_if(|bucket| bucket.1 <= *edge).is_some() {}
            let here = buckets.peek().filter(|bucket| bucket.0 <= *edge);
            counts.push(here.map_or(0, |bucket| bucket.2));
        }
        counts
    }
}

/// At most [`MOST_BUCKETS`] buckets, by joining neighbours.
fn joined(buckets: &[(f64, f64, u64)]) -> Vec<(f64, f64, u64)> {
    let run = buckets.len().div_ceil(MOST_BUCKETS).max(1);
    let join = |run: &[(f64, f64, u64)]| {
        let to = run.iter().map(|bucket| bucket.1).fold(f64::NEG_INFINITY, f64::max);
        (run[0].0, to, run.iter().map(|bucket| bucket.2).fold(0, u64::saturating_add))
    };
    buckets.chunks(run).map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_are_counted_once() {
        for axis in [Axis::new("", Unit::Ns), Axis::new("", Unit::Ns).log()] {
            let values: Vec<f64> = (1..=1_000).map(f64::from).collect();
            let mut chart = Histograms::new("h", "H", "packets");
            chart.x(axis).compare([("a", &values[..]), ("few", &[5.0; 7])], 50);
            assert!(chart.steps().0.len() <= 51, "one set of edges");
            chart.values("one", &[5.0; 3], 10);
            let sums =
                chart.distributions.iter().map(|d| d.buckets.iter().map(|b| b.2).sum::<u64>());
            assert_eq!(sums.collect::<Vec<_>>(), [1_000, 7, 3]);
        }
    }

    #[test]
    fn distributions_with_other_edges_share_an_axis() {
        let mut chart = Histograms::new("h", "H", "packets");
        chart.push("a", vec![(0.0, 2.0, 5), (4.0, 6.0, 1)]).push("b", vec![(1.0, 5.0, 9)]);
        let (edges, counts) = chart.steps();
        assert_eq!(edges, [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]);
        assert_eq!(counts, [[5, 5, 0, 1, 1, 0], [0, 9, 9, 9, 0, 0]]);
    }

    #[test]
    fn a_logarithmic_axis_begins_above_zero() {
        let mut counted = Histogram::default();
        [0, 0, 5].into_iter().for_each(|value| counted.record(value));
        let mut chart = Histograms::new("h", "H", "packets");
        chart.x(Axis::new("held", Unit::Ns).log()).histogram("a", &counted, 1.0);
        assert_eq!(chart.steps(), (vec![0.5, 1.0, 5.0, 6.0], vec![vec![2, 0, 1, 0]]));
        assert_eq!(chart.distributions[0].buckets, [(0.0, 1.0, 2), (5.0, 6.0, 1)]);
    }

    #[test]
    fn what_is_no_bucket_is_left_out() {
        let mut chart = Histograms::new("h", "H", "packets");
        chart.push("a", vec![(2.0, 1.0, 5), (f64::NAN, 6.0, 1), (1.0, 2.0, 0)]);
        assert!(chart.distributions[0].buckets.is_empty());
        assert_eq!(chart.steps(), (vec![], vec![vec![]]));
        assert_eq!(joined(&vec![(0.0, 1.0, 1); 5_000]).iter().map(|b| b.2).sum::<u64>(), 5_000);
    }
}
