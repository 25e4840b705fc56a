//! Figure 13: throughput over the number of connections.

use super::super::Say;
use super::scenario::Scenario;
use super::session::{Session, by_linux, median};
use crate::Error;
use linecard_io::attach::{AttachStats, Merge, Settings};
use linecard_report::{Item, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// Where the paper's curve ends, in bits per second.
const PAPER_PLATEAU: f64 = 4.75e9;

/// Measurements for a number of connections.
#[derive(Serialize, JsonSchema)]
pub(super) struct Point {
    connections: u32,
    merged_bits_per_second: f64,
    apart_bits_per_second: f64,
    /// Without linecard, merged by Linux (GRO).
    linux_bits_per_second: f64,
    mean_aggregate: f64,
    ratio: f64,
}

fn connections(count: u32) -> String {
    format!("{count} connection{}", if count == 1 { "" } else { "s" })
}

impl Point {
    pub(super) fn text(&self) -> String {
        format!(
            "{} merged ({:.1} packets a piece), {} as they come: {:.1} times; {} merged by Linux",
            Value::BitRate(self.merged_bits_per_second),
            self.mean_aggregate,
            Value::BitRate(self.apart_bits_per_second),
            self.ratio,
            Value::BitRate(self.linux_bits_per_second)
        )
    }
}

/// Measures a point for each number of connections.
pub(super) fn measure(scenario: &Scenario, say: Say<'_>) -> Result<Vec<Item<Point>>, Error> {
    let counts = &scenario.throughput.connections;
    // Rounds are interleaved: what else the machine does meets all alike.
    let mut rates = vec![[const { Vec::new() }; 4]; counts.len()];
    for round in 0..scenario.throughput.rounds {
        for (&count, rates) in counts.iter().zip(&mut rates) {
            let (merged, aggregate) = once(scenario, count, true)?;
            let (apart, _) = once(scenario, count, false)?;
            let linux = by_linux(scenario, count)?;
            let [ours, as_they_come, theirs] = [merged, apart, linux].map(Value::BitRate);
            say(&format!(
                "round {}, {}: {ours} merged, {as_they_come} as they come, {theirs} merged by Linux",
                round + 1,
                connections(count)
            ));
            for (values, value) in rates.iter_mut().zip([merged, apart, linux, aggregate]) {
                values.push(value);
            }
        }
    }
    let point = |(&count, rates): (&u32, [Vec<f64>; 4])| {
        let [merged, apart, linux, mean_aggregate] = rates.map(median);
        let value = Point {
            connections: count,
            merged_bits_per_second: merged,
            apart_bits_per_second: apart,
            linux_bits_per_second: linux,
            mean_aggregate,
            ratio: merged / apart.max(1.0),
        };
        Item { label: connections(count), value }
    };
    Ok(counts.iter().zip(rates).map(point).collect())
}

/// One measurement: the rate, and the mean aggregate.
fn once(scenario: &Scenario, connections: u32, merge: bool) -> Result<(f64, f64), Error> {
    let change = |settings: &mut Settings| {
        settings.engine.workers = scenario.throughput.workers;
        if !merge {
            settings.merge = Merge::default();
            settings.far.offloads = Some(false);
        }
    };
    let session = Session::start(scenario, false, change)?;
    let rate = session.iperf(connections, scenario.throughput.seconds)?;
    let account = session.finish()?;
    Ok((rate, AttachStats::merged(&account.ingress).mean_aggregate()))
}

/// The paper's statements about its figure, which has no numbers but one.
pub(super) fn compare(points: &[Item<Point>]) -> Vec<Item<String>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let item = |label: &str, value| Item { label: label.to_owned(), value };
    let (least_merged, merged) =
        (first.value.merged_bits_per_second, last.value.merged_bits_per_second);
    let plateau = merged / PAPER_PLATEAU;
    let rate = format!(
        "paper {}, ours {}: {plateau:.2} times. The paper's is the limit of 13 threads of an NPU; ours \
         of a core that the host's TCP shares",
        Value::BitRate(PAPER_PLATEAU),
        Value::BitRate(merged)
    );
    let growth = merged / least_merged.max(1.0);
    let grown = format!(
        "paper \"increases\", ours {growth:.2} times from {} to {}. {}",
        first.label,
        last.label,
        if growth > 1.2 {
            "As in the paper"
        } else {
            "Differs: a slow hardware thread serves a connection there, a whole core all of them here"
        }
    );
    let apart = points.iter().map(|point| point.value.apart_bits_per_second);
    let least = apart.clone().fold(f64::INFINITY, f64::min);
    let spread = apart.fold(0.0, f64::max) / least.max(1.0);
    let spreads = format!(
        "paper \"irrelevant\", ours {spread:.2} times between the least and the most. {}",
        if spread < 1.5 { "As in the paper" } else { "Differs" }
    );
    let gains = points.iter().map(|Item { value, .. }| {
        let gain = value.merged_bits_per_second / value.linux_bits_per_second.max(1.0) - 1.0;
        format!("{:+.0}", gain * 100.0)
    });
    let gain = format!(
        "paper \"% performance gain\", without its number, ours {} % by connections. Linux merges on the core that \
         receives; ours is a program that hands packets back to it",
        gains.collect::<Vec<_>>().join(", ")
    );
    vec![
        item("rate at most connections", rate),
        item("growth with connections", grown),
        item("connections without LRO", spreads),
        item("gain over Linux's own merging", gain),
    ]
}
