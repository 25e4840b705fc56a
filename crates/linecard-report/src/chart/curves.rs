//! Published points beside curves of a model.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use serde::Serialize;

/// Curves of a model with published points over them, as a figure of a publication has them; below, how far each
/// published point lies from the curve that answers it, in per cent.
///
/// ```
/// use linecard_report::{Axis, Curves, Unit};
/// let axes = [Axis::new("clients", Unit::Count), Axis::new("throughput, Mbit/s", Unit::Plain(""))];
/// let mut chart = Curves::new("figure_2", "Figure 2", axes);
/// chart.model("6 sessions", vec![(7.0, 664.0), (8.0, 750.0), (8.0, 754.0)]);
/// chart.published("in the text", vec![(8.0, 754.0)], Some("6 sessions"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    pub(crate) heading: Heading,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
}

/// A curve, or published points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) is_published: bool,
    /// The curve that answers these points.
    pub(crate) answered_by: Option<String>,
    pub(crate) points: Vec<Point>,
}

/// A point; of several values at one place their mean, with the least and the most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A published point and the model's value there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Residual {
    pub(crate) x: f64,
    /// 0.01 is one per cent more than was published.
    pub(crate) share: f64,
}

impl Curves {
    /// An empty chart with `key` in JSON, and its axes x and y.
    #[must_use]
    pub fn new(key: impl Into<String>, title: impl Into<String>, [x, y]: [Axis; 2]) -> Self {
        Self { heading: Heading::new(key, title), x, y, curves: Vec::new() }
    }

    /// Adds a curve of the model. Several values at one place, as of several seeds, become their mean with an interval
    /// from the least to the most. Points that are not finite are left out.
    pub fn model(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> &mut Self {
        self.push(name.into(), points, None, false)
    }

    /// Adds published points. `answered_by` is the name of the curve that they are compared with, if any is.
    pub fn published(
        &mut self,
        name: impl Into<String>,
        points: Vec<(f64, f64)>,
        answered_by: Option<&str>,
    ) -> &mut Self {
        self.push(name.into(), points, answered_by.map(str::to_owned), true)
    }

    fn push(
        &mut self,
        name: String,
        points: Vec<(f64, f64)>,
        answered_by: Option<String>,
        is_published: bool,
    ) -> &mut Self {
        self.curves.push(Curve { name, is_published, answered_by, points: joined(points) });
        self
    }

    /// How far the model is from published points.
    pub(crate) fn residuals(&self, published: &Curve) -> Vec<Residual> {
        let answer = |name: &String| {
            self.curves.iter().find(|curve| !curve.is_published && curve.name == *name)
        };
        let Some(curve) = published.answered_by.as_ref().and_then(answer) else {
            return Vec::new();
        };
        let residual = |point: &Point| {
            let share = curve.at(point.x)? / point.y - 1.0;
            share.is_finite().then_some(Residual { x: point.x, share })
        };
        published.points.iter().filter_map(residual).collect()
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key.clone(), &self.heading.title);
        let (x, y) = (self.x.name.as_str(), self.y.name.as_str());
        table.columns([("curve", "curve"), ("x", x), ("y", y), ("range", "least to most")]);
        table.columns([("difference", "ours beside it")]);
        for curve in &self.curves {
            let residuals = self.residuals(curve);
            for point in &curve.points {
                let found = residuals.iter().find(|residual| residual.x == point.x);
                let difference = found.map_or(String::new(), |one| one.text());
                let [low, high] = [point.low, point.high].map(|value| self.y.unit.text(value));
                let range = if low == high { String::new() } else { format!("{low} to {high}") };
                table.row(vec![
                    Value::Text(curve.name.clone()),
                    Value::Text(self.x.text(point.x)),
                    Value::Text(self.y.unit.text(point.y)),
                    Value::Text(range),
                    Value::Text(difference),
                ]);
            }
        }
        table
    }
}

impl Residual {
    pub(crate) fn text(self) -> String {
        format!("{:+.1} %", self.share * 100.0).replace('-', "−")
    }
}

impl Curve {
    /// The value at a place: of a point there, otherwise between its neighbours; none beyond the ends.
    fn at(&self, x: f64) -> Option<f64> {
        let after = self.points.iter().position(|point| point.x >= x)?;
        let next = self.points[after];
        if next.x == x {
            return Some(next.y);
        }
        let last = self.points[after.checked_sub(1)?];
        Some(last.y + (next.y - last.y) * (x - last.x) / (next.x - last.x))
    }
}

/// Points in order, one at each place.
fn joined(mut points: Vec<(f64, f64)>) -> Vec<Point> {
    points.retain(|(x, y)| x.is_finite() && y.is_finite());
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let join = |group: &[(f64, f64)]| {
        let values = || group.iter().map(|point| point.1);
        Point {
            x: group[0].0,
            y: values().sum::<f64>() / group.len() as f64,
            low: values().fold(f64::INFINITY, f64::min),
            high: values().fold(f64::NEG_INFINITY, f64::max),
        }
    };
    points.chunk_by(|a, b| a.0 == b.0).map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn chart() -> Curves {
        let axes = [Axis::new("clients", Unit::Count), Axis::new("Mbit/s", Unit::Plain(""))];
        let mut chart = Curves::new("figure", "A figure", axes);
        chart.model("ours", vec![(3.0, 30.0), (1.0, 10.0), (1.0, 14.0), (2.0, f64::NAN)]);
        chart.published("paper", vec![(1.0, 10.0), (2.0, 21.0), (4.0, 40.0)], Some("ours"));
        chart
    }

    #[test]
    fn values_at_one_place_become_a_mean_and_an_interval() {
        let points = &chart().curves[0].points;
        assert_eq!(points.len(), 2);
        assert_eq!(points[0], Point { x: 1.0, y: 12.0, low: 10.0, high: 14.0 });
    }

    #[test]
    fn residuals_are_between_points_but_not_beyond_them() {
        let chart = chart();
        let residuals = chart.residuals(&chart.curves[1]);
        assert_eq!(residuals.len(), 2);
        assert!((residuals[0].share - 0.2).abs() < 1e-9, "{residuals:?}");
        assert!(residuals[1].share.abs() < 1e-9, "{residuals:?}");
        assert_eq!(residuals[0].text(), "+20.0 %");
        assert!(chart.residuals(&chart.curves[0]).is_empty());
    }

    #[test]
    fn an_unknown_curve_answers_nothing() {
        let mut chart = chart();
        chart.published("other", vec![(1.0, 1.0)], Some("none"));
        assert!(chart.residuals(&chart.curves[2]).is_empty());
    }
}
