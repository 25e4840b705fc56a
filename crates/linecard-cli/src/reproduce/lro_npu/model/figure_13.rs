//! Figure 13: throughput over the number of connections.

use super::run_all;
use super::scenario::Settings;
use crate::failure::Failure;
use crate::reproduce::comparison::{Comparison, Row};
use linecard_config::Duration;
use linecard_model::npu::{Config, Npu, Outcome, Run, expected_share};
use linecard_report::{Report, Section, Value};

/// Until windows are full of what waits for the host, which then is the bottleneck.
const NORMAL_WARM_UP: Duration = Duration::from_ms(30);

/// What was found for a number of connections.
struct Point {
    connections: u32,
    expected: f64,
    /// Of the plateau: mean over seeds, and its standard error.
    share: f64,
    error: f64,
    bits_per_second: f64,
    aggregate: f64,
    normal: f64,
}

pub(super) fn add(settings: &Settings, report: &mut Report) -> Result<Comparison, Failure> {
    let points: Vec<Point> = settings
        .connections
        .iter()
        .map(|connections| point(settings, *connections))
        .collect::<Result<_, _>>()?;
    let title = format!(
        "Figure 13 in the model: payload per second over connections, mean over {} seeds ± its \
         standard error",
        settings.seeds
    );
    let mut section = Section::list("model_throughput", title);
    for point in &points {
        let plural = if point.connections == 1 { "" } else { "s" };
        section.add("", format!("{} connection{plural}", point.connections), point.value());
    }
    report.push(section);
    Ok(compare(&points, settings))
}

fn point(settings: &Settings, connections: u32) -> Result<Point, Failure> {
    let npu = &settings.base().npu;
    let scenario = |seed: u64| {
        let mut scenario = settings.base();
        scenario.run.seed = settings.seed.wrapping_add(seed);
        scenario.client.connections = connections;
        scenario
    };
    let scenarios: Vec<Config> = (0..settings.seeds).map(scenario).collect();
    let outcomes = run_all(&scenarios)?;
    let normal = run_all(&[normal(&scenario(0))])?;
    let plateau = plateau(settings);
    let shares: Vec<f64> = outcomes.iter().map(|one| one.bits_per_second / plateau).collect();
    let (share, error) = mean(&shares);
    let aggregates: Vec<f64> = outcomes.iter().map(|one| one.mean_aggregate).collect();
    Ok(Point {
        connections,
        expected: expected_share(npu.receive_threads(), connections),
        share,
        error,
        bits_per_second: share * plateau,
        aggregate: mean(&aggregates).0,
        normal: normal.first().map_or(0.0, |one: &Outcome| one.bits_per_second),
    })
}

/// The same without LRO.
fn normal(scenario: &Config) -> Config {
    let Npu { merge, active_ack, dispatch, jitter_percent, .. } = Npu::normal();
    let Run { seed, warm_up, duration } = scenario.run;
    let span_ps = duration.as_ps() - warm_up.as_ps();
    let warm_up = warm_up.max(NORMAL_WARM_UP);
    let duration = Duration::from_ps(warm_up.as_ps() + span_ps);
    Config {
        run: Run { seed, warm_up, duration },
        npu: Npu { merge, active_ack, dispatch, jitter_percent, ..scenario.npu.clone() },
        ..scenario.clone()
    }
}

/// What all threads carry together, in bits per second.
fn plateau(settings: &Settings) -> f64 {
    let Config { npu, client, .. } = settings.base();
    let bits = 8.0 * f64::from(client.segment);
    f64::from(npu.receive_threads()) * bits / (npu.packet_ns.max(1) as f64 * 1e-9)
}

/// Mean, and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

impl Point {
    fn value(&self) -> Value {
        let text = format!(
            "{:>6.2} Gbit/s: {:.3} ± {:.3} of the plateau, {:.3} expected; {:>4.1} packets a piece; \
             {:.2} Gbit/s without LRO",
            self.bits_per_second / 1e9,
            self.share,
            self.error,
            self.expected,
            self.aggregate,
            self.normal / 1e9
        );
        let fields = vec![
            ("connections", Value::Count(self.connections.into())),
            ("bits_per_second", Value::BitRate(self.bits_per_second)),
            ("share", Value::Number(self.share)),
            ("standard_error", Value::Number(self.error)),
            ("expected_share", Value::Number(self.expected)),
            ("mean_aggregate", Value::Number(self.aggregate)),
            ("bits_per_second_without_lro", Value::BitRate(self.normal)),
        ];
        Value::Fields(text, fields)
    }

    /// Whether the mean is as expected: within three standard errors and 1 %.
    fn is_as_expected(&self) -> bool {
        (self.share - self.expected).abs() < 3.0 * self.error + 0.01 * self.expected
    }
}

fn compare(points: &[Point], settings: &Settings) -> Comparison {
    let threads = settings.base().npu.receive_threads();
    let title = "Figure 13, paper and model (the time of a thread for a packet is calibrated)";
    let mut table = Comparison::new("model_figure_13", title);
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let what = format!("plateau, at {} connections", last.connections);
        let row = Row::number(what, (4.75, 2), last.bits_per_second / 1e9);
        table.add(row.unit("Gbit/s").within(2.0));
        let rises = points.windows(2).all(|pair| pair[0].share < pair[1].share + 0.01);
        let text = format!(
            "{:.2} to {:.2} Gbit/s",
            first.bits_per_second / 1e9,
            last.bits_per_second / 1e9
        );
        table.add(Row::shape("over connections", "increases, then stabilizes", text, rises));
    }
    let wrong = points.iter().filter(|point| !point.is_as_expected()).count();
    let text =
        format!("1 − (1 − 1/{threads})^k at {} of {} points", points.len() - wrong, points.len());
    let paper = "a subset, other threads are left free";
    table.add(Row::shape("threads at work with k connections", paper, text, wrong == 0));
    let normal = || points.iter().map(|point| point.normal / 1e9);
    let (least, most) = (normal().fold(f64::INFINITY, f64::min), normal().fold(0.0, f64::max));
    let text = format!("{least:.2} to {most:.2} Gbit/s");
    table.add(Row::shape("over connections without LRO", "irrelevant", text, most < 1.02 * least));
    table
}
