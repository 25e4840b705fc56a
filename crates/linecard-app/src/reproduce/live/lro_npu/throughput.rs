//! Figure 13: throughput over the number of connections.

use super::super::Say;
use super::scenario::Scenario;
use super::session::{Session, median};
use crate::Error;
use linecard_io::attach::{AttachStats, Merge, Settings};
use linecard_report::{Report, Section, Value};

/// Where the paper's curve ends, in bits per second.
const PAPER_PLATEAU: f64 = 4.75e9;

/// Measurements for a number of connections.
struct Point {
    connections: u32,
    merged: f64,
    apart: f64,
    aggregate: f64,
}

/// Measures, and adds what came out.
pub(super) fn add(scenario: &Scenario, say: Say<'_>, report: &mut Report) -> Result<(), Error> {
    let points = measure(scenario, say)?;
    let mut section = Section::list(
        "throughput",
        "Figure 13: TCP received over connections, merged and as packets come",
    );
    for point in &points {
        section.add("", connections(point.connections), point.value());
    }
    report.push(section);
    report.push(compare(&points));
    Ok(())
}

fn connections(count: u32) -> String {
    format!("{count} connection{}", if count == 1 { "" } else { "s" })
}

impl Point {
    fn value(&self) -> Value {
        let ratio = self.merged / self.apart.max(1.0);
        let text = format!(
            "{} merged ({:.1} packets a piece), {} as they come: {ratio:.1} times",
            Value::BitRate(self.merged),
            self.aggregate,
            Value::BitRate(self.apart)
        );
        let fields = vec![
            ("connections", Value::Count(self.connections.into())),
            ("merged_bits_per_second", Value::BitRate(self.merged)),
            ("apart_bits_per_second", Value::BitRate(self.apart)),
            ("mean_aggregate", Value::Number(self.aggregate)),
            ("ratio", Value::Number(ratio)),
        ];
        Value::Fields(text, fields)
    }
}

fn measure(scenario: &Scenario, say: Say<'_>) -> Result<Vec<Point>, Error> {
    let counts = &scenario.throughput.connections;
    // Rounds are interleaved: what else the machine does meets all alike.
    let mut rates = vec![[Vec::new(), Vec::new(), Vec::new()]; counts.len()];
    for round in 0..scenario.throughput.rounds {
        for (&count, rates) in counts.iter().zip(&mut rates) {
            let (merged, aggregate) = once(scenario, count, true)?;
            let (apart, _) = once(scenario, count, false)?;
            let (merged_text, apart_text) = (Value::BitRate(merged), Value::BitRate(apart));
            say(&format!(
                "round {}, {}: {merged_text} merged, {apart_text} as they come",
                round + 1,
                connections(count)
            ));
            for (values, value) in rates.iter_mut().zip([merged, apart, aggregate]) {
                values.push(value);
            }
        }
    }
    let point = |(&connections, [merged, apart, aggregate]): (&u32, [Vec<f64>; 3])| Point {
        connections,
        merged: median(merged),
        apart: median(apart),
        aggregate: median(aggregate),
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
fn compare(points: &[Point]) -> Section {
    let mut section = Section::list("throughput_verdict", "Figure 13, paper and ours");
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return section };
    let plateau = last.merged / PAPER_PLATEAU;
    let text = format!(
        "paper {}, ours {}: {plateau:.2} times. The paper's is the limit of 13 threads of an NPU; ours \
         of a core that the host's TCP shares",
        Value::BitRate(PAPER_PLATEAU),
        Value::BitRate(last.merged)
    );
    section.add("", "rate at most connections", Value::Text(text));
    let growth = last.merged / first.merged.max(1.0);
    let text = format!(
        "paper \"increases\", ours {growth:.2} times from {} to {}. {}",
        connections(first.connections),
        connections(last.connections),
        if growth > 1.2 {
            "As in the paper"
        } else {
            "Differs: a slow hardware thread serves a connection there, a whole core all of them here"
        }
    );
    section.add("", "growth with connections", Value::Text(text));
    let apart = |point: &Point| point.apart;
    let most = points.iter().map(apart).fold(0.0, f64::max);
    let least = points.iter().map(apart).fold(f64::INFINITY, f64::min);
    let spread = most / least.max(1.0);
    let text = format!(
        "paper \"irrelevant\", ours {spread:.2} times between the least and the most. {}",
        if spread < 1.5 { "As in the paper" } else { "Differs" }
    );
    section.add("", "connections without LRO", Value::Text(text));
    section
}
