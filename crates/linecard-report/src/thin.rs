//! Reduces points but keeps their appearance: minimum and maximum of equally many neighbours.
//!
//! No spike is lost, however short: both extremes of each group of points are kept at their own
//! positions. Only the frequency of values between them is lost; a histogram shows that.

/// Position and value.
pub(crate) type Point = (f64, f64);

/// Maximum points of a drawn series.
pub(crate) const MOST_POINTS: usize = 4_000;

/// Reduced points, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thinned {
    pub(crate) points: Vec<Point>,
    /// Original number of points.
    pub(crate) of: usize,
    /// How many neighbours each pair of points stands for, if points were left out.
    pub(crate) run: Option<usize>,
}

/// At most `most` points (and at least two). Points must be sorted by position.
pub(crate) fn thinned(points: &[Point], most: usize) -> Thinned {
    let runs = (most / 2).max(1);
    if points.len() <= runs * 2 {
        return Thinned { points: points.to_vec(), of: points.len(), run: None };
    }
    let run = points.len().div_ceil(runs);
    let kept = points.chunks(run).flat_map(extremes).collect();
    Thinned { points: kept, of: points.len(), run: Some(run) }
}

/// Returns only the points: for series that are stored in a file.
///
/// ```
/// let points = (0..100_000).map(|n| (f64::from(n), f64::from(n % 777))).collect::<Vec<_>>();
/// let kept = linecard_report::kept(&points, 1_000);
/// assert!(kept.len() <= 1_000 && kept.iter().any(|point| point.1 == 776.0));
/// ```
#[must_use]
pub fn kept(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    thinned(points, most).points
}

/// Minimum and maximum of a group, sorted by position.
fn extremes(run: &[Point]) -> impl Iterator<Item = Point> {
    let (mut least, mut most) = (0, 0);
    for (index, point) in run.iter().enumerate() {
        if point.1 < run[least].1 {
            least = index;
        }
        if point.1 > run[most].1 {
            most = index;
        }
    }
    let last = (least != most).then(|| run[least.max(most)]);
    std::iter::once(run[least.min(most)]).chain(last)
}

/// The finite points, sorted by position.
pub(crate) fn ordered(mut points: Vec<Point>) -> Vec<Point> {
    points.retain(|(x, y)| x.is_finite() && y.is_finite());
    if !points.is_sorted_by(|a, b| a.0 <= b.0) {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn of_values(values: &[f64]) -> Vec<Point> {
        values.iter().enumerate().map(|(index, value)| (index as f64, *value)).collect()
    }

    /// Promise (Command): Thinning a series for a page loses no spike: the extremes of each run of
    /// points are kept.
    ///
    /// For each window of whole runs: drawn values have the same least and most as measured ones.
    #[test]
    fn no_extreme_is_lost() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.below(5_000) as usize;
            let spike = |rng: &mut Rng| if rng.below(100) == 0 { 1e6 } else { 0.0 };
            let values: Vec<f64> =
                (0..count).map(|_| rng.below(50) as f64 - 25.0 + spike(&mut rng)).collect();
            let points = of_values(&values);
            let most = 2 + rng.below(600) as usize;
            let thin = thinned(&points, most);
            assert!(thin.points.len() <= most && thin.of == count, "seed {seed}");
            assert!(thin.points.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}");
            assert!(thin.points.iter().all(|point| values[point.0 as usize] == point.1));
            let Some(run) = thin.run else {
                assert_eq!(thin.points, points, "seed {seed}");
                continue;
            };
            for (number, window) in values.chunks(run).enumerate() {
                let within = number * run..(number + 1) * run;
                let drawn = || thin.points.iter().filter(|p| within.contains(&(p.0 as usize)));
                let (least, most) = (drawn().map(|p| p.1), drawn().map(|p| p.1));
                assert_eq!(least.reduce(f64::min), window.iter().copied().reduce(f64::min));
                assert_eq!(most.reduce(f64::max), window.iter().copied().reduce(f64::max));
            }
        }
    }

    #[test]
    fn few_points_stay_as_they_are() {
        for count in 0..5 {
            let points = of_values(&vec![1.0; count]);
            assert_eq!(thinned(&points, 4).points.len(), count.min(4));
        }
        assert_eq!(thinned(&of_values(&[1.0; 100]), 0).points.len(), 1);
    }

    #[test]
    fn what_is_no_number_is_left_out_and_the_rest_put_in_order() {
        let points = vec![(2.0, 1.0), (f64::NAN, 1.0), (1.0, 3.0), (0.0, f64::INFINITY)];
        assert_eq!(ordered(points), [(1.0, 3.0), (2.0, 1.0)]);
    }
}
