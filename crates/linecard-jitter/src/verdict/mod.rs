//! The result of a measurement: lateness, uncertainty, causes, and whether that gives a verdict.

mod gate;
mod remedy;

pub use gate::{Gate, Gates, JOINED, MISSING, NAMED, of_ends, of_trace};
pub use remedy::remedy;

use crate::ledger::Ledger;
use crate::stats::rate::Rate;
use crate::stats::sorted::Sorted;
use crate::stats::summary::Summary;
use crate::stream::{Arrival, Measured, Schedule};
use crate::trace::{Counts, Joined, Stage, Timeline, Trace};
use alloc::vec::Vec;

/// The quantiles shown.
pub const QUANTILES: [f64; 6] = [0.01, 0.5, 0.99, 0.999, 0.9999, 0.99999];
/// Confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Figures of a series of times that should be one period apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Time between successive points.
    pub gaps: Option<Summary>,
    /// Time after the due time.
    pub lateness: Option<Summary>,
    /// Gaps that exceed the scheduled one by more than a period.
    pub spikes: Rate,
}

/// Figures of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Figures at the sender.
    pub sender: Option<Series>,
    /// Figures at the application.
    pub sink: Option<Series>,
    /// Time from the hand-over to the kernel to the application.
    pub transit: Option<Summary>,
    /// Results of the trace, if there is one.
    pub traced: Option<Traced>,
    /// Conditions of a verdict.
    pub gates: Gates,
}

/// Results of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// How many packets were joined.
    pub counts: Counts,
    /// Missing events, as found by the threads on the cores.
    pub breaks: u64,
    /// Number of recorded events.
    pub events: u64,
    /// Time spent in each stage.
    pub stages: Vec<(Stage, Summary)>,
    /// Gaps between packets at the start of each stage, and finally at the application.
    pub points: Vec<(&'static str, Summary)>,
    /// Spikes and causes.
    pub ledger: Ledger,
}

impl Analysis {
    /// Analyses the measurements of both ends, and the trace if there is one.
    #[must_use]
    pub fn of(measured: &Measured, trace: Option<&Trace>) -> Self {
        let mut gates = of_ends(measured);
        let traced = trace.map(|trace| {
            let (joined, timeline) = (Joined::of(trace, measured), Timeline::of(trace));
            let ledger = Ledger::of_joined(trace, measured, &joined, &timeline);
            gates.extend(of_trace(trace, &joined, &ledger));
            Traced::of(trace, &joined, &timeline, ledger)
        });
        let sent = (0..).zip(&measured.sent_ns).filter(|(_, at_ns)| **at_ns > 0);
        let sent: Vec<Arrival> =
            sent.map(|(sequence, at_ns)| Arrival { sequence, at_ns: *at_ns }).collect();
        Self {
            sender: Series::of(measured.schedule, &sent),
            sink: Series::of(measured.schedule, &measured.arrivals),
            transit: summary(&transit_ns(measured)),
            traced,
            gates: Gates(gates),
        }
    }
}

impl Series {
    /// Figures of times that should follow a schedule; `None` with fewer than two.
    #[must_use]
    pub fn of(schedule: Schedule, arrivals: &[Arrival]) -> Option<Self> {
        let mut gaps = Vec::with_capacity(arrivals.len());
        let (mut spikes, period_ns) = (0, schedule.period_ns());
        for pair in arrivals.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            if after.sequence <= before.sequence {
                continue;
            }
            let gap = after.at_ns.saturating_sub(before.at_ns);
            let due = schedule.due_ns(after.sequence) - schedule.due_ns(before.sequence);
            spikes += u64::from(gap.saturating_sub(due) > period_ns);
            gaps.push(gap);
        }
        let lateness = arrivals.iter().map(|arrival| {
            let due_ns = schedule.due_ns(arrival.sequence);
            i64::try_from(arrival.at_ns).unwrap_or(i64::MAX)
                - i64::try_from(due_ns).unwrap_or(i64::MAX)
        });
        let lateness = Sorted::new(lateness.collect());
        let (first, last) = (arrivals.first()?, arrivals.last()?);
        let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
        Some(Self {
            gaps: summary(&gaps),
            lateness: lateness.summary(&QUANTILES, CONFIDENCE),
            spikes: Rate::of(spikes, seconds, CONFIDENCE)?,
        })
    }
}

impl Traced {
    fn of(trace: &Trace, joined: &Joined, timeline: &Timeline, ledger: Ledger) -> Self {
        let stages = Stage::ALL.into_iter().filter_map(|stage| {
            Some((stage, summary(&joined.durations_ns(stage).collect::<Vec<_>>())?))
        });
        Self {
            counts: joined.counts,
            breaks: timeline.breaks(),
            events: trace.events.len() as u64,
            stages: stages.collect(),
            points: points(joined),
            ledger,
        }
    }
}

/// Gaps at the points of the path that every packet passes.
fn points(joined: &Joined) -> Vec<(&'static str, Summary)> {
    const POINTS: [(&str, Stage); 5] = [
        ("handed to the kernel", Stage::Send),
        ("transmitted", Stage::Notify),
        ("asked for", Stage::Softirq),
        ("received", Stage::Protocols),
        ("in the socket", Stage::Wakeup),
    ];
    let whole: Vec<_> = joined.passages.iter().filter(|passage| passage.is_whole()).collect();
    let gaps = |at: &dyn Fn(usize) -> u64| {
        let pairs = 1..whole.len();
        let gaps = pairs.map(|index| at(index).saturating_sub(at(index - 1)));
        summary(&gaps.collect::<Vec<_>>())
    };
    // Those of another host are transmitted there.
    let is_foreign = whole.iter().any(|passage| passage.is_foreign);
    let mut found = Vec::new();
    for (name, stage) in POINTS {
        if is_foreign && stage == Stage::Notify {
            continue;
        }
        if let Some(summary) = gaps(&|index| whole[index].begin_ns(stage)) {
            found.push((name, summary));
        }
    }
    if let Some(summary) = gaps(&|index| whole[index].arrived_ns) {
        found.push(("in the application", summary));
    }
    found
}

fn transit_ns(measured: &Measured) -> Vec<u64> {
    let of = |arrival: &Arrival| {
        let sent_ns = measured.sent_ns.get(usize::try_from(arrival.sequence).ok()?)?;
        (*sent_ns > 0).then(|| arrival.at_ns.saturating_sub(*sent_ns))
    };
    measured.arrivals.iter().filter_map(of).collect()
}

fn summary(samples: &[u64]) -> Option<Summary> {
    Sorted::of_unsigned(samples).summary(&QUANTILES, CONFIDENCE)
}
