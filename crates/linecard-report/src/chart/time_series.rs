//! Values over time, as dots or lines.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use crate::thin::{Point, Thinned, ordered, thinned};
use crate::unit::Unit;

/// Values over time: hundreds of thousands are fine.
///
/// Of more than 4,000 points of a series the page shows the least and the most of each run of
/// neighbours, so that no spike is lost, and says so; JSON has them all.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSeries {
    pub(crate) heading: Heading,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// A series of points in the order of their places, all of them numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) is_dots: bool,
    pub(crate) points: Vec<Point>,
    /// Points that were given and are no numbers.
    pub(crate) left_out: usize,
}

impl TimeSeries {
    /// An empty chart: `key` in JSON. Its axes are a time in seconds and a number until they are set.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>) -> Self {
        let x = Axis::new("time", Unit::Seconds);
        let y = Axis::new("value", Unit::Plain(""));
        Self { heading: Heading::new(key, title), x, y, lines: Vec::new() }
    }

    /// Sets what is laid off to the right.
    pub fn x(&mut self, axis: Axis) -> &mut Self {
        self.x = axis;
        self
    }

    /// Sets what is laid off upwards.
    pub fn y(&mut self, axis: Axis) -> &mut Self {
        self.y = axis;
        self
    }

    /// Adds points, each for itself: place and value. They are put in order if they are not; what is
    /// not a number is left out, and the page says how many.
    pub fn dots(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> &mut Self {
        self.push(name.into(), true, points)
    }

    /// Adds points that a line joins.
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

    /// What each series comes to.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key, &self.heading.title);
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
    /// As many as a picture is to have.
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
