//! The page of a sweep: throughput over the key with the most values, one curve for each combination of the others.

use super::axis::{self, Grid};
use linecard_config::{Bytes, Duration, Frequency, Rate};
use linecard_report::{Axis, Curves, Page, Unit, Value as Shown};
use serde_json::Value;

/// Curves that can be distinguished, and points of each that can be seen.
const MOST_CURVES: usize = 8;
const MOST_POINTS: usize = 10_000;
/// Names that can be read along an axis.
const MOST_NAMES: usize = 40;
const CARRIED: &str = "wire_bits_per_second";

/// Points as they come.
#[derive(Debug)]
pub(super) struct Drawn {
    keys: Vec<String>,
    /// Key of the points' places, and column of their values.
    x: usize,
    y: usize,
    places: Places,
    curves: Vec<(String, Vec<(f64, f64)>)>,
    left_out: u64,
    /// The most, and the point that carries it.
    most: Option<(f64, String)>,
}

/// Where values of a key lie on an axis.
#[derive(Debug)]
enum Places {
    /// Where numbers say, in this unit.
    Numbers(Unit, Read),
    /// One beside the other, in this order.
    Names(Vec<String>),
}

/// A number of its unit, of a value's text.
type Read = fn(&str) -> Option<f64>;

impl Drawn {
    /// `columns` are the results of points.
    pub(super) fn new(grid: &Grid, columns: &[&str]) -> Self {
        let axes = grid.axes();
        let rank = |at: &usize| {
            let is_number = matches!(Places::of(&axes[*at]), Places::Numbers(..));
            let count = axes[*at].values.len();
            (is_number && count > 1, count)
        };
        let x = (0..axes.len()).max_by_key(rank).unwrap_or_default();
        let y = columns.iter().position(|name| *name == CARRIED).unwrap_or_default();
        let places = axes.get(x).map_or(Places::Names(Vec::new()), Places::of);
        let keys = grid.names();
        Self { keys, x, y, places, curves: Vec::new(), left_out: 0, most: None }
    }

    /// Takes the next point: its values of the keys, and its results.
    pub(super) fn add(&mut self, point: &[Value], found: &[Value]) {
        let carried = found.get(self.y).and_then(Value::as_f64);
        let place = point.get(self.x).and_then(|value| self.places.find(value));
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
            Some(points) => points.push((place, carried)),
            None => self.left_out += 1,
        }
    }

    fn named(&self, point: &[Value], is_named: impl Fn(usize) -> bool) -> String {
        let all = self.keys.iter().zip(point).enumerate().filter(|(at, _)| is_named(*at));
        let texts = all.map(|(_, (key, value))| format!("{key}={}", text(value)));
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
        let x = match &self.places {
            Places::Numbers(unit, _) => Axis::new(key, *unit),
            Places::Names(names) => Axis::of_names(key, names.clone()),
        };
        let axes = [x, Axis::new("carried on the line", Unit::BitRate)];
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

impl Places {
    /// Numbers if all values are, of one unit.
    fn of(axis: &axis::Axis) -> Self {
        let number: Read = |text| text.parse().ok();
        let (unit, read): (Unit, Read) = match axis.parameter.format.as_str() {
            Rate::FORMAT => {
                (Unit::BitRate, |text| Some(text.parse::<Rate>().ok()?.bits_per_second() as f64))
            }
            Duration::FORMAT => {
                (Unit::Ns, |text| Some(text.parse::<Duration>().ok()?.as_ps() as f64 / 1e3))
            }
            Bytes::FORMAT => (Unit::Bytes, |text| Some(text.parse::<Bytes>().ok()?.get() as f64)),
            Frequency::FORMAT => {
                (Unit::Plain("MHz"), |text| Some(text.parse::<Frequency>().ok()?.hz() as f64 / 1e6))
            }
            _ => (Unit::Plain(""), number),
        };
        // Multiples of another parameter.
        let factors: (Unit, Read) = (Unit::Plain("x"), |text| text.strip_suffix('x')?.parse().ok());
        let are = |read: Read| axis.values.iter().all(|value| read(&text(value)).is_some());
        match [(unit, read), factors].into_iter().find(|(_, read)| are(*read)) {
            Some((unit, read)) => Self::Numbers(unit, read),
            None => Self::Names(axis.values.iter().take(MOST_NAMES).map(text).collect()),
        }
    }

    fn find(&self, value: &Value) -> Option<f64> {
        let text = text(value);
        match self {
            Self::Numbers(_, read) => read(&text),
            Self::Names(names) => names.iter().position(|name| *name == text).map(|at| at as f64),
        }
    }
}

/// A value as scenarios have it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_config::Document;
    use serde_json::json;

    /// The chart's axis along x, and the places of its points.
    fn chart(vary: &[&str]) -> (Value, Vec<f64>) {
        let document = Document::of_text("", "").expect("a scenario");
        let axes = vary
            .iter()
            .map(|text| axis::Axis::parse(text, &document).unwrap_or_else(|why| panic!("{why}")));
        let grid = Grid::new(axes.collect()).unwrap_or_else(|why| panic!("{why}"));
        let mut drawn = Drawn::new(&grid, &[CARRIED]);
        for point in 0..grid.points() {
            drawn.add(&grid.values(point), &[json!(1e9)]);
        }
        let page = serde_json::to_value(drawn.page(grid.points())).expect("JSON");
        let chart = &page["charts"][0];
        assert_eq!((&chart["y"]["unit"], &chart["caption"]), (&json!("bit/s"), &Value::Null));
        let points = chart["curves"][0]["points"].as_array().expect("points");
        let places = points.iter().filter_map(|point| point["x"].as_f64()).collect();
        (chart["x"].clone(), places)
    }

    #[test]
    fn values_with_a_unit_are_numbers_and_others_names() {
        for (vary, unit, places) in [
            ("host.interrupt=500ns,5us", "ns", [500.0, 5_000.0]),
            ("line.rate=40G,100G", "bit/s", [4e10, 1e11]),
            ("line.sbi=64K,1M", "B", [65_536.0, 1_048_576.0]),
            ("core.mhz=100,423.5", "MHz", [100.0, 423.5]),
            ("dma.mhz=1x,2.5x", "x", [1.0, 2.5]),
            ("core.count=1,2", "", [1.0, 2.0]),
        ] {
            let (x, found) = chart(&[vary]);
            assert_eq!((x["unit"].as_str(), &found[..]), (Some(unit), &places[..]), "{vary}");
            assert!(x.get("names").is_none(), "{x}");
        }
        for (vary, names) in [
            ("line.rate=40G,unlimited", ["40G", "unlimited"]),
            ("bus.policy=hold,dual-port", ["hold", "dual-port"]),
            ("dma.mhz=2115,5x", ["2115", "5x"]),
        ] {
            // A key with one value is not an axis.
            let (x, found) = chart(&[vary, "core.mhz=100"]);
            assert_eq!((&x["names"], &found[..]), (&json!(names), &[0.0, 1.0][..]), "{vary}");
        }
        let (x, _) = chart(&["bus.policy=hold,interleave,dual-port", "core.count=1,2"]);
        assert_eq!(x["name"], "core.count", "numbers come before names");
    }
}
