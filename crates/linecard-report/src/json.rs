//! Figures as JSON: those that a page's script draws, and all of them for programs.

use crate::axis::Axis;
use crate::chart::{
    Chart, Curves, Distribution, Effects, Histograms, Ledger, Line, Spread, TimeSeries,
};
use crate::chart::{Effect, QUANTILE_KEYS, Stage};
use crate::number::{Places, Short};
use crate::page::{Block, Page};
use crate::report::Value;
use crate::table::Table;
use crate::thin::{MOST_POINTS, Thinned, thinned};
use crate::unit::{Steps, Unit};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

/// Format version of the JSON file that accompanies a page.
const VERSION: u32 = 1;
/// Maximum points of all charts in that file: about 60 MB.
const MOST_POINTS_BESIDE: usize = 2_000_000;

/// The charts that the script draws, in order; `None` without such charts.
pub(crate) fn figures(page: &Page) -> Option<String> {
    let drawn: Vec<Option<Drawn<'_>>> = page.charts().map(Drawn::of).collect();
    let any = drawn.iter().any(Option::is_some);
    any.then(|| serde_json::to_string(&drawn).unwrap_or_else(|_| "[]".to_owned()))
}

/// A chart that the script draws: positions on one axis, and series over it.
#[derive(Serialize)]
struct Drawn<'d> {
    kind: &'static str,
    x: DrawnAxis<'d>,
    y: DrawnAxis<'d>,
    lines: Vec<DrawnLine<'d>>,
}

#[derive(Serialize)]
struct DrawnAxis<'d> {
    name: &'d str,
    #[serde(flatten)]
    unit: Steps,
    log: bool,
}

#[derive(Serialize)]
struct DrawnLine<'d> {
    name: &'d str,
    dots: bool,
    /// Logarithms of the positions if the axis is logarithmic.
    x: Places,
    y: Vec<Short>,
}

impl<'d> Drawn<'d> {
    fn of(chart: &'d Chart) -> Option<Self> {
        match chart {
            Chart::TimeSeries(chart) => Some(Self::points(chart)),
            Chart::Histograms(chart) => Some(Self::steps(chart)),
            _ => None,
        }
    }

    fn points(chart: &'d TimeSeries) -> Self {
        let places = chart.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
        let values = chart.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let (x, y) = (DrawnAxis::of(&chart.x, places), DrawnAxis::of(&chart.y, values));
        let lines = chart.lines.iter().map(|line| DrawnLine::of(line, &x)).collect();
        Self { kind: "points", x, y, lines }
    }

    fn steps(chart: &'d Histograms) -> Self {
        let (edges, counts) = chart.steps();
        let x = DrawnAxis::of(&chart.x, edges.iter().copied());
        let one = |(distribution, counts): (&'d Distribution, Vec<u64>)| DrawnLine {
            name: &distribution.name,
            dots: false,
            x: x.places(&edges),
            y: counts.into_iter().map(|count| Short(count as f64)).collect(),
        };
        let lines = chart.distributions.iter().zip(counts).map(one).collect();
        let y = DrawnAxis { name: &chart.counted, unit: Steps(Unit::Count), log: true };
        Self { kind: "steps", x, y, lines }
    }
}

impl<'d> DrawnAxis<'d> {
    /// Logarithmic only if all values are positive.
    fn of(axis: &'d Axis, mut values: impl Iterator<Item = f64>) -> Self {
        let log = axis.is_log && values.all(|value| value > 0.0);
        Self { name: &axis.name, unit: Steps(axis.unit), log }
    }

    fn places(&self, places: &[f64]) -> Places {
        if !self.log {
            return Places::of(places);
        }
        Places::of(&places.iter().map(|place| place.ln()).collect::<Vec<_>>())
    }
}

impl<'d> DrawnLine<'d> {
    fn of(line: &'d Line, x: &DrawnAxis<'_>) -> Self {
        let Thinned { points, .. } = line.drawn(MOST_POINTS);
        let places: Vec<f64> = points.iter().map(|point| point.0).collect();
        let y = points.iter().map(|point| Short(point.1)).collect();
        Self { name: &line.name, dots: line.is_dots, x: x.places(&places), y }
    }
}

/// All contents of a page.
pub(crate) fn whole<S: Serializer>(page: &Page, serializer: S) -> Result<S::Ok, S::Error> {
    let points: usize = page.charts().map(Chart::point_count).sum();
    let share = (MOST_POINTS_BESIDE as f64 / points.max(1) as f64).min(1.0);
    let charts: Vec<Whole<'_>> = page.charts().map(|chart| Whole { chart, share }).collect();
    let blocks = || page.blocks.iter();
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("format", &VERSION)?;
    map.serialize_entry("title", &page.title)?;
    map.serialize_entry("headline", &page.headline)?;
    if let Some(origin) = &page.origin {
        map.serialize_entry("origin", origin)?;
    }
    let reports = blocks().filter_map(|block| match block {
        Block::Summary(report) => Some(report),
        _ => None,
    });
    map.serialize_entry("reports", &reports.collect::<Vec<_>>())?;
    let verdicts = blocks().filter_map(|block| match block {
        Block::Verdicts(all) => {
            Some(Keyed { key: all.key, title: &all.title, rows: &all.verdicts })
        }
        _ => None,
    });
    map.serialize_entry("verdicts", &verdicts.collect::<Vec<_>>())?;
    let tables = blocks().filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    map.serialize_entry("tables", &tables.collect::<Vec<_>>())?;
    map.serialize_entry("charts", &charts)?;
    let notes = blocks().filter_map(|block| match block {
        Block::Note(text) => Some(text),
        _ => None,
    });
    map.serialize_entry("notes", &notes.collect::<Vec<_>>())?;
    map.end()
}

/// A chart with all its points.
pub(crate) fn chart(chart: &Chart) -> String {
    // All maps have string keys, so this cannot fail.
    serde_json::to_string(&Whole { chart, share: 1.0 }).unwrap_or_default()
}

#[derive(Serialize)]
struct Keyed<'k, R: Serialize> {
    key: &'k str,
    title: &'k str,
    rows: R,
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.iter().map(|values| Named { columns: &self.columns, values });
        let rows: Vec<Named<'_>> = rows.collect();
        Keyed { key: &self.key, title: &self.title, rows }.serialize(serializer)
    }
}

/// A row of a table as an object.
struct Named<'n> {
    columns: &'n [(&'static str, String)],
    values: &'n [Value],
}

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = self.columns.iter().map(|(key, _)| key).zip(self.values);
        serializer.collect_map(named)
    }
}

/// A chart with all its points, or with its share of the maximum.
struct Whole<'w> {
    chart: &'w Chart,
    share: f64,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let heading = self.chart.heading();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &heading.key)?;
        map.serialize_entry("title", &heading.title)?;
        map.serialize_entry("caption", &heading.caption)?;
        match self.chart {
            Chart::TimeSeries(chart) => self.time_series(chart, &mut map)?,
            Chart::Histograms(chart) => histograms(chart, &mut map)?,
            Chart::Spread(chart) => spread(chart, &mut map)?,
            Chart::Ledger(chart) => ledger(chart, &mut map)?,
            Chart::Effects(chart) => effects(chart, &mut map)?,
            Chart::Curves(chart) => curves(chart, &mut map)?,
        }
        map.end()
    }
}

impl Whole<'_> {
    fn time_series<M: SerializeMap>(
        &self,
        chart: &TimeSeries,
        map: &mut M,
    ) -> Result<(), M::Error> {
        map.serialize_entry("kind", "time_series")?;
        map.serialize_entry("x", &chart.x)?;
        map.serialize_entry("y", &chart.y)?;
        let series = |line| WholeLine { line, share: self.share };
        map.serialize_entry("series", &chart.lines.iter().map(series).collect::<Vec<_>>())
    }
}

struct WholeLine<'w> {
    line: &'w Line,
    share: f64,
}

impl Serialize for WholeLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Line { name, points, left_out, .. } = self.line;
        let most = (points.len() as f64 * self.share).ceil() as usize;
        let few = (most < points.len()).then(|| thinned(points, most));
        let shown = few.as_ref().map_or(points.as_slice(), |thin| thin.points.as_slice());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("point_count", &points.len())?;
        map.serialize_entry("not_numbers", left_out)?;
        // Of this many neighbours, only the minimum and the maximum are included; null if all
        // points are.
        map.serialize_entry("thinned_by", &few.as_ref().and_then(|thin| thin.run))?;
        map.serialize_entry("points", shown)?;
        map.end()
    }
}

fn histograms<M: SerializeMap>(chart: &Histograms, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("kind", "histograms")?;
    map.serialize_entry("x", &chart.x)?;
    map.serialize_entry("counted", &chart.counted)?;
    map.serialize_entry("distributions", &chart.distributions)
}

fn spread<M: SerializeMap>(chart: &Spread, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("kind", "spread")?;
    map.serialize_entry("axis", &chart.axis)?;
    map.serialize_entry("stages", &chart.stages)
}

fn ledger<M: SerializeMap>(chart: &Ledger, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("kind", "ledger")?;
    map.serialize_entry("axis", &chart.axis)?;
    map.serialize_entry("whole", &chart.total())?;
    map.serialize_entry("causes", &chart.causes)
}

fn effects<M: SerializeMap>(chart: &Effects, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("kind", "effects")?;
    map.serialize_entry("axis", &chart.axis)?;
    map.serialize_entry("level", &chart.level)?;
    map.serialize_entry("effects", &chart.effects)
}

fn curves<M: SerializeMap>(chart: &Curves, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("kind", "curves")?;
    map.serialize_entry("x", &chart.x)?;
    map.serialize_entry("y", &chart.y)?;
    map.serialize_entry("curves", &chart.curves)
}

impl Serialize for Axis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut axis = serializer.serialize_map(None)?;
        axis.serialize_entry("name", &self.name)?;
        axis.serialize_entry("unit", &self.unit)?;
        if !self.names.is_empty() {
            axis.serialize_entry("names", &self.names)?;
        }
        axis.end()
    }
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("samples", &self.samples)?;
        let mut named = QUANTILE_KEYS.into_iter().zip(self.quantiles);
        named.try_for_each(|(key, value)| map.serialize_entry(key, &value))?;
        map.end()
    }
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut effect = serializer.serialize_struct("Effect", 6)?;
        effect.serialize_field("name", &self.name)?;
        effect.serialize_field("estimate", &self.estimate)?;
        effect.serialize_field("low", &self.low)?;
        effect.serialize_field("high", &self.high)?;
        effect.serialize_field("p", &self.p)?;
        effect.serialize_field("is_clear", &self.is_clear())?;
        effect.end()
    }
}
