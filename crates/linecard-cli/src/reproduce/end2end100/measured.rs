//! Our runs: each number of lanes, both modes, without repair and with it.

use super::published::LANES;
use super::scenario::Scenario;
use crate::failure::Failure;
use crate::watch;
use linecard_app::Context;
use linecard_app::model::parallel;
use linecard_app::model::transfer::{Spec, mode_name, simulate};
use linecard_report::{Section, Value};
use linecard_transfer::fec::Scheme;
use linecard_transfer::layout::LayoutError;
use linecard_transfer::send::Mode;

/// The two modes of the paper.
pub(super) const MODES: [Mode; 2] = [Mode::Stable, Mode::LowLatency];

/// A run and what came of it. Rates in Gbit/s, times in ms.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) lanes: u64,
    pub(super) goodput: f64,
    /// What framing leaves for data.
    pub(super) framing_bound: f64,
    /// What framing and repair leave for data.
    pub(super) bound: f64,
    /// The median chunk's, until the sender knows.
    pub(super) latency: f64,
    resent: u64,
}

/// Runs of one mode, without repair or with it, from 1 lane on.
#[derive(Debug)]
pub(super) struct Curve {
    mode: Mode,
    fec: Scheme,
    points: Vec<Point>,
}

/// All runs.
#[derive(Debug)]
pub(super) struct Measured {
    curves: Vec<Curve>,
}

impl Measured {
    /// Runs the scenario, on as many threads as there are cores.
    pub(super) fn run(scenario: &Scenario) -> Result<Self, Failure> {
        let mut curves = Vec::new();
        for fec in [Scheme::NONE, scenario.fec] {
            for mode in MODES {
                let base = Spec { mode, fec, ..scenario.base };
                let specs = (1..=LANES).map(|lanes| Spec { lanes, ..base });
                curves.push(specs.map(|spec| with_chunks(spec, scenario)).collect::<Vec<_>>());
            }
        }
        let specs = curves.concat();
        let points = parallel::map(&specs, parallel::threads(), measure);
        let mut points = points.into_iter();
        let curves = curves.iter().map(|specs| {
            let points = points.by_ref().take(specs.len()).collect::<Result<_, Failure>>()?;
            let Spec { mode, fec, .. } = specs.first().copied().unwrap_or_default();
            Ok(Curve { mode, fec, points })
        });
        Ok(Self { curves: curves.collect::<Result<_, Failure>>()? })
    }

    /// The runs of a mode from 1 lane on; `repaired` with repair.
    pub(super) fn points(&self, mode: Mode, repaired: bool) -> &[Point] {
        let both = self.curves.iter().filter(|curve| curve.mode == mode);
        both.skip(usize::from(repaired)).map(|curve| &curve.points[..]).next().unwrap_or_default()
    }

    /// One run.
    pub(super) fn at(&self, mode: Mode, lanes: usize, repaired: bool) -> &Point {
        &self.points(mode, repaired)[lanes - 1]
    }

    /// All figures, a section for each curve.
    pub(super) fn sections(&self) -> impl Iterator<Item = Section> + '_ {
        let keys = ["stable", "low_latency", "stable_repaired", "low_latency_repaired"];
        keys.into_iter().zip(&self.curves).map(|(key, curve)| curve.section(key))
    }
}

/// The line a/L + b through latencies over 1 lane, 2, …, by least squares: a in ms, b in µs.
pub(super) fn fit(points: &[Point]) -> (f64, f64) {
    let count = points.len() as f64;
    let of = |point: &Point| (1.0 / point.lanes as f64, point.latency);
    let mean = |pick: fn((f64, f64)) -> f64| points.iter().map(of).map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|at| at.0), mean(|at| at.1));
    let (xy, xx) = (mean(|at| at.0 * at.1), mean(|at| at.0 * at.0));
    let a = (xy - x * y) / (xx - x * x);
    (a, (y - a * x) * 1e3)
}

fn with_chunks(spec: Spec, scenario: &Scenario) -> Spec {
    match spec.mode {
        Mode::Stable => Spec { chunks: scenario.stable_chunks * spec.lanes, ..spec },
        // The paper's waits for each.
        _ => Spec { chunks: scenario.low_latency_chunks, under_way: 1, ..spec },
    }
}

fn measure(spec: &Spec) -> Result<Point, Failure> {
    let progress = watch::any();
    let outcome = simulate(spec, &Context::new(&progress))?;
    Ok(Point {
        lanes: spec.lanes,
        goodput: outcome.goodput_bps() / 1e9,
        framing_bound: spec.framing_bound_bps().map_err(uncut)? / 1e9,
        bound: spec.repair_bound_bps().map_err(uncut)? / 1e9,
        latency: outcome.median_latency_ns() as f64 / 1e6,
        resent: outcome.send.resent,
    })
}

impl Point {
    /// Management overhead: what is missing to the bound, in per cent of it.
    pub(super) fn overhead(&self) -> f64 {
        (1.0 - self.goodput / self.bound) * 100.0
    }
}

impl Curve {
    fn section(&self, key: &'static str) -> Section {
        let repair = match self.fec {
            Scheme::NONE => "no repair".to_owned(),
            fec => format!("with {fec}"),
        };
        let title = format!("Ours, {}, {repair}", mode_name(self.mode));
        let mut section = Section::list(key, title);
        for point in &self.points {
            let s = if point.lanes == 1 { "" } else { "s" };
            section.add("", format!("{} lane{s}", point.lanes), point.value());
        }
        section
    }
}

impl Point {
    fn value(&self) -> Value {
        let Self { goodput, bound, latency, .. } = self;
        let overhead = self.overhead();
        let text = format!(
            "{goodput:6.3} of {bound:6.3} Gbit/s, overhead {overhead:4.2} %, chunk in {latency:6.3} ms"
        );
        let fields = vec![
            ("lanes", Value::Count(self.lanes)),
            ("goodput_bits_per_second", Value::BitRate(goodput * 1e9)),
            ("framing_bound_bits_per_second", Value::BitRate(self.framing_bound * 1e9)),
            ("bound_bits_per_second", Value::BitRate(bound * 1e9)),
            ("management_overhead_percent", Value::Number(overhead)),
            ("chunk_latency_p50_ns", Value::Ns((latency * 1e6).round())),
            ("resent", Value::Count(self.resent)),
        ];
        Value::Fields(text, fields)
    }
}

/// A chunk that cannot be cut.
fn uncut(error: LayoutError) -> Failure {
    Failure::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let point = |lanes: u64| Point {
            lanes,
            goodput: 0.0,
            framing_bound: 0.0,
            bound: 0.0,
            latency: 13.675 / lanes as f64 + 0.0386,
            resent: 0,
        };
        let (a, b) = fit(&(1..=8).map(point).collect::<Vec<_>>());
        assert!((a - 13.675).abs() < 1e-9 && (b - 38.6).abs() < 1e-6, "{a} {b}");
    }
}
