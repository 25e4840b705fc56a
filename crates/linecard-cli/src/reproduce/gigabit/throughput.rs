//! Figures 2 to 5: throughput over clients, sessions, processors and their clock.

use super::scenario::{Points, Throughput};
use super::{FITTED, run};
use crate::failure::Failure;
use crate::reproduce::Reproduced;
use crate::reproduce::comparison::{Comparison, Row, add_all};
use linecard_model::pci::{Config, Load, Outcome, Server};
use linecard_report::{Report, Section, Value};
use std::path::Path;

/// What a link of 100 Mbit/s carries of data, in Mbit/s.
const CLIENT_MBPS: f64 = 94.9;
/// The paper's line through the peaks, figure 5.
const SLOPE: f64 = 0.7242;
const INTERCEPT: f64 = 249.64;
/// What the paper found in the traces, in Mbit/s at so many MHz.
const TRACES: [(f64, f64); 2] = [(400.0, 500.0), (700.0, 754.0)];

/// Why ours is not on that line.
const OFF_THE_LINE: &str = "the paper's line passes 39 Mbit/s above its own trace at 400 MHz, to which our costs are fitted";

/// How far our line may be from the paper's trace at 400 MHz, in Mbit/s: 10.1 when this was written.
const MOST_APART: f64 = 12.0;

/// How far the paper's line passes above its own trace at 400 MHz, in Mbit/s.
fn above_trace() -> f64 {
    let [(mhz, traced), _] = TRACES;
    SLOPE * mhz + INTERCEPT - traced
}

/// Runs the scenario, paper and ours side by side.
pub(in super::super) fn reproduce(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let scenario = Throughput::read(path)?;
    let clients = measure(&scenario, &scenario.clients, (scenario.mhz, 4))?;
    let (mut processors, mut speeds) = (Vec::new(), Vec::new());
    for &cpus in &scenario.processors {
        let at = (scenario.processors_mhz, cpus);
        processors.extend(measure(&scenario, &scenario.processors_at, at)?);
    }
    for &mhz in &scenario.speeds {
        speeds.extend(measure(&scenario, &scenario.speed_at, (mhz, 4))?);
    }
    let peaks = peaks(&scenario)?;
    let mut report = Report::new("reproduce");
    let tables = [figure_2(&clients), figure_3(&processors), figure_4(&speeds), figure_5(&peaks)];
    let unexplained = add_all(&tables, &mut report);
    report.push(curves("figure_2_ours", "Figure 2, ours: clients and sessions", &clients));
    report.push(curves("figure_3_ours", "Figure 3, ours: processors", &processors));
    report.push(curves("figure_4_ours", "Figure 4, ours: clock", &speeds));
    report.note(FITTED);
    Ok(Reproduced { report, unexplained })
}

/// A run and what it had.
struct Point {
    server: Server,
    clients: u32,
    sessions: u32,
    outcome: Outcome,
}

fn measure(
    scenario: &Throughput,
    points: &Points,
    (mhz, cpus): (u32, u8),
) -> Result<Vec<Point>, Failure> {
    let mut measured = Vec::new();
    for &sessions in &points.sessions {
        for &clients in &points.clients {
            let base = &scenario.base;
            let server = Server { mhz, cpus, ..base.server };
            let config =
                Config { server, load: Load { clients, sessions, ..base.load }, ..base.clone() };
            measured.push(Point { server, clients, sessions, outcome: run(&config)? });
        }
    }
    Ok(measured)
}

/// The most with any of the loads, at each clock.
fn peaks(scenario: &Throughput) -> Result<Vec<(f64, f64)>, Failure> {
    let points = Points {
        clients: scenario.speed_at.clients.clone(),
        sessions: scenario.peak_sessions.clone(),
    };
    let peak = |&mhz: &u32| {
        let measured = measure(scenario, &points, (mhz, 4))?;
        Ok((f64::from(mhz), most(measured.iter())))
    };
    scenario.speeds.iter().map(peak).collect()
}

fn most<'p>(points: impl Iterator<Item = &'p Point>) -> f64 {
    points.map(|point| point.outcome.mbps()).fold(0.0, f64::max)
}

fn figure_2(points: &[Point]) -> Comparison {
    let mut table = Comparison::new("figure_2", "Figure 2: clients and sessions at 700 MHz");
    let at = |clients: u32| most(points.iter().filter(|point| point.clients == clients));
    let mut counts: Vec<u32> = points.iter().map(|point| point.clients).collect();
    counts.sort_unstable();
    counts.dedup();
    for &clients in counts.iter().filter(|&&clients| clients < 8) {
        let what = format!("{clients} client{}", if clients == 1 { "" } else { "s" });
        let paper = (f64::from(clients) * CLIENT_MBPS, 1);
        table.add(Row::number(what, paper, at(clients)).unit("Mbit/s").within(1.0));
    }
    table.add(Row::number("8 clients", 754, at(8)).unit("Mbit/s").within(1.0));
    let beyond = most(points.iter().filter(|point| point.clients > 8));
    table.add(Row::shape(
        "more than 8 clients",
        "no increase",
        format!("{beyond:.0} Mbit/s at most"),
        beyond <= at(8) * 1.01,
    ));
    let few = points.iter().map(|point| point.sessions).min().unwrap_or(0);
    let with =
        |wanted: &dyn Fn(u32) -> bool| most(points.iter().filter(|point| wanted(point.sessions)));
    let (least, more) = (with(&|sessions| sessions == few), with(&|sessions| sessions > few));
    table.add(Row::shape(
        "more sessions",
        "carry more",
        format!("{least:.0} Mbit/s with {few}, {more:.0} with more"),
        more > least,
    ));
    table
}

fn figure_3(points: &[Point]) -> Comparison {
    let mut table = Comparison::new("figure_3", "Figure 3: processors at 550 MHz");
    let peak =
        |wanted: &dyn Fn(u8) -> bool| most(points.iter().filter(|point| wanted(point.server.cpus)));
    let (one, two, more) =
        (peak(&|cpus| cpus == 1), peak(&|cpus| cpus == 2), peak(&|cpus| cpus > 2));
    table.add(Row::shape(
        "a second processor",
        "helps",
        format!("{one:.0} to {two:.0} Mbit/s"),
        two > one * 1.05,
    ));
    table.add(Row::shape(
        "a third and a fourth",
        "do not",
        format!("{two:.0} to {more:.0} Mbit/s"),
        (more / two.max(1.0) - 1.0).abs() < 0.02,
    ));
    let seven = points.iter().find(|point| point.server.cpus == 4 && point.clients == 7);
    if let Some(Point { outcome, .. }) = seven {
        let percent = |cpu| outcome.utilisation(cpu) * 100.0;
        let first = Row::number("busiest processor, 7 clients", 100, percent(0)).unit("%");
        table.add(first.within(5.0));
        let others = (percent(1) + percent(2) + percent(3)) / 3.0;
        let row = Row::number("each of the others", 10, others).unit("%").within(10.0);
        table.add(row.because(
            "what the application costs is a guess from this \"approximately 10 %\"",
            8.0..=12.0,
        ));
    }
    table
}

fn figure_4(points: &[Point]) -> Comparison {
    let mut table = Comparison::new("figure_4", "Figure 4: clients and clock, two sessions");
    let mut clocks: Vec<u32> = points.iter().map(|point| point.server.mhz).collect();
    clocks.sort_unstable();
    clocks.dedup();
    let peak = |&mhz: &u32| most(points.iter().filter(|point| point.server.mhz == mhz));
    let peaks: Vec<f64> = clocks.iter().map(peak).collect();
    let texts: Vec<String> = peaks.iter().map(|peak| format!("{peak:.0}")).collect();
    table.add(Row::shape(
        "most, over the clock",
        "increases",
        texts.join(", ") + " Mbit/s",
        peaks.is_sorted(),
    ));
    table
}

fn figure_5(peaks: &[(f64, f64)]) -> Comparison {
    let title = "Figure 5: the most at each clock, and a line through it";
    let mut table = Comparison::new("figure_5", title);
    for &(mhz, mbps) in peaks {
        let what = format!("{mhz} MHz, on the paper's line");
        let printed = SLOPE * mhz + INTERCEPT;
        let row = Row::number(what, (printed, 1), mbps).unit("Mbit/s");
        table.add(row.within(3.0).because(OFF_THE_LINE, printed - above_trace()..=printed));
    }
    let traced = |mhz: f64| peaks.iter().find(|peak| peak.0 == mhz);
    for ((mhz, paper), peak) in TRACES.map(|trace| (trace, traced(trace.0))) {
        if let Some(&(_, ours)) = peak {
            let row = Row::number(format!("{mhz} MHz, as traced"), (paper, 0), ours);
            table.add(row.unit("Mbit/s").within(2.0));
        }
    }
    let (trace_mhz, trace) = TRACES[0];
    let own = SLOPE * trace_mhz + INTERCEPT;
    let row = Row::number("the paper's line at its own trace", (trace, 0), own).unit("Mbit/s");
    // Both numbers are the paper's.
    let apart = own - 0.1..=own + 0.1;
    table.add(row.within(1.0).because("figure 5 of the paper and its trace disagree", apart));
    let (slope, intercept, fit) = line(peaks);
    let (paper_slope, paper_intercept, _) = line(&TRACES);
    table.add(
        Row::number("slope", (SLOPE, 4), slope)
            .unit("Mbit/s/MHz")
            .within(1.0)
            // From the paper's line to the one through its traces.
            .because(OFF_THE_LINE, SLOPE..=paper_slope),
    );
    table.add(
        Row::number("intercept", (INTERCEPT, 2), intercept)
            .unit("Mbit/s")
            .within(1.0)
            .because(OFF_THE_LINE, paper_intercept..=INTERCEPT),
    );
    let row = Row::number("slope between the traces", (paper_slope, 4), slope).unit("Mbit/s/MHz");
    table.add(row.within(5.0));
    let row = Row::number("intercept from the traces", (paper_intercept, 2), intercept);
    let row = row.unit("Mbit/s").within(10.0);
    let apart = (slope * trace_mhz + intercept - trace).abs();
    table.add(row.because_measured(
        format!("far outside what was measured: at 400 MHz the lines are {apart:.0} Mbit/s apart"),
        (apart, "Mbit/s at 400 MHz"),
        0.0..=MOST_APART,
    ));
    table.add(Row::shape(
        "over the clock",
        "almost linear, R² 0.9972",
        format!("R² {fit:.4}"),
        fit > 0.99,
    ));
    table
}

/// Slope, intercept and R² of the line with the least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let xx = mean(&|point| (point.0 - x).powi(2));
    let yy = mean(&|point| (point.1 - y).powi(2));
    let xy = mean(&|point| (point.0 - x) * (point.1 - y));
    let slope = xy / xx;
    (slope, y - slope * x, xy * xy / (xx * yy))
}

fn curves(key: &'static str, title: &'static str, points: &[Point]) -> Section {
    let mut section = Section::list(key, title);
    for Point { server, clients, sessions, outcome } in points {
        let busy = outcome.utilisation(0);
        let text = format!("{:6.1} Mbit/s, first busy {:3.0} %", outcome.mbps(), busy * 100.0);
        let fields = vec![
            ("mhz", Value::Count(server.mhz.into())),
            ("processors", Value::Count(server.cpus.into())),
            ("clients", Value::Count((*clients).into())),
            ("sessions", Value::Count((*sessions).into())),
            ("mbps", Value::Number(outcome.mbps())),
            ("busy", Value::Share(busy)),
            ("received", Value::Count(outcome.frames.received)),
            ("delivered", Value::Count(outcome.frames.delivered)),
            ("dropped", Value::Count(outcome.frames.dropped)),
            ("held", Value::Count(outcome.frames.held)),
        ];
        let (cpus, mhz) = (server.cpus, server.mhz);
        let label = format!("clients × sessions: {clients} × {sessions}, {cpus} × {mhz} MHz");
        section.add("", label, Value::Fields(text, fields));
    }
    section
}
