//! The tables: published values beside ours.

use super::measured::{MODES, Measured, Point, fit};
use super::published::{
    FEC_LATENCY, FEC_THROUGHPUT, LATENCY_EIGHT, LATENCY_ONE, LINE, LOW_LATENCY, OFF_OPTIMAL,
    Published, STABLE, fit as published_fit,
};
use super::scenario::Scenario;
use crate::reproduce::comparison::{Comparison, Row};
use linecard_app::model::transfer::{Spec, mode_name};
use linecard_transfer::send::Mode;
use linecard_transfer::wire::OVERHEAD_BYTES;
use std::ops::RangeInclusive;

/// Why the most is not the paper's.
const NOT_AT_THE_END: &str =
    "the paper has its most between 1 and 8 lanes, and names neither their number nor a cause";

/// The bound that framing leaves, in per cent of the lines: with 63 to 78 bytes beside 4096 of data.
const OF_FRAMING: RangeInclusive<f64> = 98.1..=98.5;

/// All tables.
pub(super) fn all(scenario: &Scenario, measured: &Measured) -> [Comparison; 4] {
    [
        throughput(measured),
        overhead(scenario, measured),
        latency(measured),
        repair(scenario, measured),
    ]
}

fn published(mode: Mode) -> Published {
    if mode == Mode::Stable { STABLE } else { LOW_LATENCY }
}

/// How near throughput has to be, in per cent.
fn within_percent(mode: Mode) -> f64 {
    if mode == Mode::Stable { 0.1 } else { 0.5 }
}

fn throughput(measured: &Measured) -> Comparison {
    let mut table = Comparison::new("throughput", "Throughput, no FEC");
    for mode in MODES {
        let ours = measured.at(mode, 8, false).goodput;
        let row =
            Row::number(format!("{}, 8 lanes", mode_name(mode)), published(mode).throughput, ours);
        table.add(row.unit("Gbit/s").within(within_percent(mode)));
    }
    let stable = measured.points(Mode::Stable, false);
    let each: Vec<f64> = stable.iter().map(|point| point.goodput / point.lanes as f64).collect();
    let spread = spread_percent(&each);
    table.add(Row::shape(
        "stable, over lanes",
        "increases according to the lanes",
        format!("each carries the same within {spread:.2} %"),
        spread < 0.1,
    ));
    table
}

fn overhead(scenario: &Scenario, measured: &Measured) -> Comparison {
    let title = "Overhead in per cent of the lines, to the paper's bound; no FEC";
    let mut table = Comparison::new("overhead", title);
    let Spec { payload_bytes, framing_bytes, .. } = scenario.base;
    let reason = format!(
        "throughput and overhead leave the paper 63 to 65 bytes beside 4096 of data; ours takes {} \
         beside {payload_bytes}, of which {OVERHEAD_BYTES} are header and seal, and has less overhead",
        framing_bytes as usize + OVERHEAD_BYTES
    );
    let ours = measured.at(Mode::Stable, 1, false).framing_bound / LINE * 100.0;
    for mode in MODES {
        let what = format!("{}, throughput and overhead of 8 lanes", mode_name(mode));
        let bound = (published(mode).bound() / LINE * 1e4).round() / 1e2;
        table
            .add(Row::number(what, (bound, 2), ours).unit("%").because(reason.clone(), OF_FRAMING));
    }
    for mode in MODES {
        overhead_over_lanes(mode, measured.points(mode, false), &mut table);
    }
    table
}

fn overhead_over_lanes(mode: Mode, points: &[Point], table: &mut Comparison) {
    let (paper, name) = (published(mode), mode_name(mode));
    let missing: Vec<f64> = points.iter().map(|point| missing_percent(&paper, point)).collect();
    let row = |what: &str, printed: (f64, usize), ours: f64| {
        let row = Row::number(format!("{name}, {what}"), printed, ours).unit("%").within(5.0);
        // Throughput may be so far off, and this is the small rest that it leaves.
        let apart = (ours - printed.0).abs();
        let reason = format!("the rest that throughput leaves, which is {apart:.2} % off here");
        row.because(reason, printed.0 - within_percent(mode)..=printed.0 + within_percent(mode))
    };
    let least = missing.iter().copied().fold(f64::INFINITY, f64::min);
    let most = missing.iter().copied().fold(0.0, f64::max);
    table.add(row("1 lane", (paper.one.1, 2), missing[0]));
    table.add(row("8 lanes", (paper.eight.1, 2), missing[7]));
    table.add(row("the least", paper.least, least));
    let is_less = most < paper.most.0;
    let most_row = row("the most", paper.most, most);
    // Not below what the paper has at either end, as near as throughput has to be.
    let ends = paper.one.1.max(paper.eight.1) - within_percent(mode);
    table.add(if is_less {
        most_row.because(NOT_AT_THE_END, ends..=paper.most.0)
    } else {
        most_row
    });
}

/// What is missing to the paper's bound, in per cent of the lines.
fn missing_percent(paper: &Published, point: &Point) -> f64 {
    let lanes = point.lanes as f64;
    (paper.bound() * lanes - point.goodput) / (LINE * lanes) * 100.0
}

fn latency(measured: &Measured) -> Comparison {
    let mut table = Comparison::new("latency", "Latency of a chunk of 16 MiB, no FEC");
    let low_latency = measured.points(Mode::LowLatency, false);
    let [one, eight] = [1, 8].map(|lanes| measured.at(Mode::LowLatency, lanes, false).latency);
    let row = |what: &str, paper, ours| Row::number(format!("low latency, {what}"), paper, ours);
    table.add(row("1 lane", (LATENCY_ONE, 3), one).unit("ms").within(0.1));
    table.add(row("8 lanes", (LATENCY_EIGHT, 3), eight).unit("ms").within(0.35));
    let off = (eight - one / 8.0) * 1e3;
    table.add(
        row("8 lanes, off an eighth of 1 lane", (OFF_OPTIMAL, 0), off).unit("µs").within(10.0),
    );
    let ((paper_a, paper_b), (a, b)) = (published_fit(), fit(low_latency));
    let rounded = |x: f64, to: f64| (x * to).round() / to;
    table.add(
        row("a of a/L + b, the paper's two", (rounded(paper_a, 1e3), 3), a).unit("ms").within(0.1),
    );
    table.add(row("b", (rounded(paper_b, 10.0), 1), b).unit("µs").within(10.0));
    let latencies: Vec<f64> =
        measured.points(Mode::Stable, false).iter().map(|point| point.latency).collect();
    let spread = spread_percent(&latencies);
    table.add(Row::shape(
        "stable, over lanes",
        "almost constant",
        format!("the same within {spread:.2} %"),
        spread < 0.5,
    ));
    table
}

fn repair(scenario: &Scenario, measured: &Measured) -> Comparison {
    let fec = scenario.fec;
    let title = format!(
        "Offloaded FEC, 8 lanes: the paper names no code; {fec} was chosen for these rows, so that \
         they say no more than what repair costs"
    );
    let mut table = Comparison::new("repair", title);
    for mode in MODES {
        let [without, with] = [false, true].map(|repaired| measured.at(mode, 8, repaired));
        let throughput = (1.0 - with.goodput / without.goodput) * 100.0;
        let latency = (with.latency / without.latency - 1.0) * 100.0;
        // What the packets of repair alone cost.
        let packets = without.framing_bound / with.bound;
        for (what, paper, ours, packets) in [
            ("throughput, lower by", FEC_THROUGHPUT, throughput, 1.0 - 1.0 / packets),
            ("latency, higher by", FEC_LATENCY, latency, packets - 1.0),
        ] {
            let what = format!("{}, {what}", mode_name(mode));
            let row = Row::number(what, paper, ours).unit("%").within(5.0);
            let reason = format!("{fec} adds packets for {:.2} %", packets * 100.0);
            let percent = packets * 100.0;
            table.add(row.because(reason, 0.9 * percent..=1.1 * percent));
        }
    }
    table
}

/// How far the largest is from the least, in per cent of the least.
fn spread_percent(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    (most / least - 1.0) * 100.0
}
