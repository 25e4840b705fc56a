//! The page of a sweep: what designs carry over the key that has most values, a curve for each combination of the others.

use super::axis::Grid;
use linecard_config::Rate;
use linecard_report::{Axis, Curves, Page, Unit, Value as Shown};
use serde_json::Value;

/// Curves that can be told apart, and points that can be seen, of each.
const MOST_CURVES: usize = 8;
const MOST_POINTS: usize = 10_000;
const CARRIED: &str = "wire_bits_per_second";

/// Points as they come.
#[derive(Debug)]
pub(super) struct Drawn {
    keys: Vec<String>,
    /// Key of the points' places, and column of their values.
    x: usize,
    y: usize,
    curves: Vec<(String, Vec<(f64, f64)>)>,
    left_out: u64,
    /// The most, and the point that carries it.
    most: Option<(f64, String)>,
}

impl Drawn {
    /// `columns` are what points come to.
    pub(super) fn new(grid: &Grid, columns: &[&str]) -> Self {
        let keys = grid.names();
        let numbers = |key: &String| grid.values_of(key).iter().filter_map(number).count();
        let x = (0..keys.len()).max_by_key(|at| numbers(&keys[*at])).unwrap_or_default();
        let y = columns.iter().position(|name| *name == CARRIED).unwrap_or_default();
        Self { keys, x, y, curves: Vec::new(), left_out: 0, most: None }
    }

    /// Takes the next point: its values of the keys, and what it came to.
    pub(super) fn add(&mut self, point: &[Value], found: &[Value]) {
        let carried = found.get(self.y).and_then(Value::as_f64);
        let place = point.get(self.x).and_then(number);
        let (Some(carried), Some(place)) = (carried, place) else {
            self.left_out += 1;
            return;
        };
        if self.most.as_ref().is_none_or(|(most, _)| carried > *most) {
            self.most = Some((carried, self.named(point, |_| true)));
        }
        let name = self.named(point, |at| at != self.x);
        let at = self.curves.iter().position(|(known, _)| *known == name).or_else(|| {
            let has_room = self.curves.len() < MOST_CURVES;
            has_room.then(|| self.curves.push((name, Vec::new())))?;
            Some(self.curves.len() - 1)
        });
        match at.map(|at| &mut self.curves[at].1).filter(|points| points.len() < MOST_POINTS) {
            Some(points) => points.push((place, carried / 1e9)),
            None => self.left_out += 1,
        }
    }

    fn named(&self, point: &[Value], is_named: impl Fn(usize) -> bool) -> String {
        let all = self.keys.iter().zip(point).enumerate().filter(|(at, _)| is_named(*at));
        let texts = all.map(|(_, (key, value))| match value {
            Value::String(text) => format!("{key}={text}"),
            value => format!("{key}={value}"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn page(&self, points: u64) -> Page {
        let mut page = Page::new("Sweep");
        if let Some((most, point)) = &self.most {
            let most = Shown::BitRate(*most);
            page.headline(format!(
                "{points} points; the most is {most} on the line, first with {point}."
            ));
        }
        let key = self.keys.get(self.x).map_or("", String::as_str);
        let axes =
            [key, "carried on the line, Gbit/s"].map(|name| Axis::new(name, Unit::Plain("")));
        let mut chart = Curves::new("carried", format!("What the line carries over {key}"), axes);
        for (name, points) in &self.curves {
            chart.model(if name.is_empty() { "carried" } else { name }, points.clone());
        }
        if self.left_out > 0 {
            chart.caption(format!("{} points are left out: rows have all.", self.left_out));
        }
        page.chart(chart);
        page
    }
}

/// A place on an axis: a number, or a rate in Gbit/s.
fn number(value: &Value) -> Option<f64> {
    let rate = || value.as_str()?.parse::<Rate>().ok();
    value.as_f64().or_else(|| Some(rate()?.bits_per_second() as f64 / 1e9))
}
