//! Values over time, as dots or lines.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use crate::thin::{Point, Thinned, ordered, thinned};
use crate::unit::Unit;

/// Values over time: hundreds of thousands are fine.
///
/// Of a series with more than 4,000 points, the page shows the minimum and the maximum of each
/// group of neighbours, which keeps all spikes, and says so; JSON has all points.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSeries {
    pub(crate) heading: Heading,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// A series of finite points, sorted by position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) is_dots: bool,
    pub(crate) points: Vec<Point>,
    /// Number of given points that are not finite.
    pub(crate) left_out: usize,
}

impl TimeSeries {
    /// An empty chart with `key` in JSON. By default, its axes are a time in seconds and a number.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>) -> Self {
        let x = Axis::new("time", Unit::Seconds);
        let y = Axis::new("value", Unit::Plain(""));
        Self { heading: Heading::new(key, title), x, y, lines: Vec::new() }
    }

    /// Sets the horizontal axis.
    pub fn x(&mut self, axis: Axis) -> &mut Self {
        self.x = axis;
        self
    }

    /// Sets the vertical axis.
    pub fn y(&mut self, axis: Axis) -> &mut Self {
        self.y = axis;
        self
    }

    /// Adds separate points: position and value. Sorts them if necessary; points that are not
    /// finite are left out, and the page states how many.
    pub fn dots(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> &mut Self {
        self.push(name.into(), true, points)
    }

    /// Adds points joined by a line.
    pub fn line(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> &mut Self {
        self.push(name.into(), false, points)
    }

    fn push(&mut self, name: String, is_dots: bool, points: Vec<Point>) -> &mut Self {
        let given = points.len();
        let points = ordered(points);
        let left_out = given - points.len();
        self.lines.push(Line { name, is_dots, points, left_out });
        self
    }

    /// A summary of each series.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key.clone(), &self.heading.title);
        table.columns([
            ("series", "series"),
            ("points", "points"),
            ("least", "least"),
            ("median", "median"),
            ("p99", "99 %"),
            ("most", "most"),
            ("most_at", "most at"),
        ]);
        for line in &self.lines {
            table.row(line.summary(self.x.unit, self.y.unit));
        }
        table
    }
}

impl Line {
    /// The points to draw.
    pub(crate) fn drawn(&self, most: usize) -> Thinned {
        thinned(&self.points, most)
    }

    fn summary(&self, x: Unit, y: Unit) -> Vec<Value> {
        let mut values: Vec<f64> = self.points.iter().map(|point| point.1).collect();
        values.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let rank = ((values.len() as f64 * q).ceil() as usize).saturating_sub(1);
            Value::Text(values.get(rank).map_or("–".to_owned(), |value| y.text(*value)))
        };
        let most = self.points.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        vec![
            Value::Text(self.name.clone()),
            Value::Count(self.points.len() as u64),
            quantile(0.0),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            Value::Text(most.map_or("–".to_owned(), |point| x.text(point.0))),
        ]
    }
}
