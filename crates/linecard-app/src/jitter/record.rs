//! Result of one experiment, as it is kept in a file: text, JSON and page are made from it.

mod compare;
mod make;
mod page;
mod text;

pub use compare::{RunRecords, compare};
pub(super) use make::{not_measured, of_dummy, of_outcome};
pub use page::{headline, page};
pub(super) use text::beside_the_paper;
pub use text::{folded, screen};

use super::error::JitterError;
use crate::Error;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The form of the file; another number is another form.
pub(super) const VERSION: u32 = 1;
/// Bytes of a kept result, at most: over thirty times the longest.
pub(super) const MAX_BYTES: u64 = 32 << 20;
/// Spikes that are kept one by one: the largest.
const WORST: usize = 100;
/// Points of a time series that are kept: of each part its least and its most.
const POINTS: usize = 20_000;

/// Whose gaps they are, where there is no stream.
const LAPS: &str = "laps";
/// Of a histogram: from, to, count.
pub type Buckets = Vec<(f64, f64, u64)>;

/// One experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The form of the file.
    pub version: u32,
    /// "E2"; empty for a stream that is not an experiment.
    pub id: String,
    /// Its steps.
    pub title: String,
    /// Finding of the paper.
    pub published: Option<String>,
    /// How true to the paper.
    pub reality: Option<String>,
    /// Over which way the stream went.
    pub place: String,
    /// When it was measured: `2026-11-22 21:28:03 UTC`.
    #[serde(default)]
    pub measured: Option<String>,
    /// For people: what was set, and to what.
    pub conditions: Vec<(String, String)>,
    /// From packet to packet; 0 where nothing was measured.
    pub period_ns: u64,
    /// Packets sent, or laps.
    pub sent: u64,
    /// Packets that arrived, or laps.
    pub arrived: u64,
    /// Conditions for a verdict.
    pub gates: Vec<GateRecord>,
    /// As packets left.
    pub sender: Option<SeriesRecord>,
    /// As the application had them.
    pub sink: Option<SeriesRecord>,
    /// From the sender to the application.
    pub transit: Option<SummaryRecord>,
    /// Observed activity of the kernel.
    pub traced: Option<TracedRecord>,
    /// Why there is no trace.
    pub untraced: Option<String>,
    /// Further remarks.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Time in seconds, gap in nanoseconds.
    pub gaps: Vec<(f64, f64)>,
    /// Time in seconds, lateness in nanoseconds.
    pub lateness: Vec<(f64, f64)>,
    /// Gaps at the sender and in the application.
    pub histograms: Vec<(String, Buckets)>,
}

/// A condition, and whether it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateRecord {
    /// A word for it.
    pub name: String,
    /// Whether it holds.
    pub passes: bool,
    /// The finding, with figures.
    pub found: String,
}

/// Times at one end of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesRecord {
    /// From packet to packet.
    pub gaps: Option<SummaryRecord>,
    /// Against the schedule.
    pub lateness: Option<SummaryRecord>,
    /// Gaps of more than two periods.
    pub spikes: u64,
    /// How often they come.
    pub spikes_per_second: f64,
    /// The interval of 95 % of that.
    pub spikes_per_second_95: (f64, f64),
}

/// The distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    /// Number of samples.
    pub n: u64,
    /// The smallest.
    pub min_ns: i64,
    /// The largest.
    pub max_ns: i64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub deviation_ns: f64,
    /// Some quantiles, in order.
    pub quantiles: Vec<QuantileRecord>,
}

/// A quantile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantileRecord {
    /// Which, 0 to 1.
    pub q: f64,
    /// The sample at it.
    pub value_ns: i64,
    /// Where it lies, with 95 %; none where n is too small.
    pub interval_ns: Option<(i64, i64)>,
    /// How many samples it would take, where n is too small.
    pub needed: Option<u64>,
}

/// Observed activity of the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracedRecord {
    /// Events of the trace.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Times a core was with another thread than the last one seen to take it.
    pub breaks: u64,
    /// Packets followed from end to end.
    pub joined: u64,
    /// Cost of recording an event.
    pub cost_ns_per_event: Option<f64>,
    /// "bpf" or "tracefs".
    #[serde(default)]
    pub means: String,
    /// Packets of the whole host that the kernel's own counters saw come up.
    #[serde(default)]
    pub counted: Option<u64>,
    /// Tracepoints that the kernel lacks.
    pub absent: Vec<String>,
    /// Time in each stage of a packet's path.
    pub stages: Vec<(String, SummaryRecord)>,
    /// Gaps at each point of the way.
    pub points: Vec<(String, SummaryRecord)>,
    /// By how much all spikes together exceed the period.
    pub excess_ns: u64,
    /// Gaps of more than two periods.
    pub spikes: u64,
    /// The share of spikes with a cause that is known.
    pub named_share: f64,
    /// Causes, those with the most time first.
    pub causes: Vec<CauseRecord>,
    /// Stage, spikes, nanoseconds.
    pub stage_ledger: Vec<(String, u64, u64)>,
    /// The largest spikes.
    pub worst: Vec<SpikeRecord>,
    /// Packets of a poll, in the mean.
    pub mean_batch: Option<f64>,
}

/// A cause of late packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseRecord {
    /// Which kind: "softirq", "thread", "path" …
    pub kind: String,
    /// Which one.
    pub name: String,
    /// Spikes of which it is the main cause.
    pub spikes: u64,
    /// Time that it is charged with.
    pub ns: u64,
    /// The setting to change.
    pub remedy: Option<String>,
}

/// A gap of more than two periods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpikeRecord {
    /// The packet after it.
    pub sequence: u64,
    /// Since the stream began.
    pub at_seconds: f64,
    /// How long it was.
    pub gap_ns: u64,
    /// By how much it exceeds the period.
    pub excess_ns: u64,
    /// Stage, cause, nanoseconds.
    pub charges: Vec<(String, String, u64)>,
}

impl Record {
    /// Reads a kept result.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is longer than any result, no result, or one of another version.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map(|file| file.take(MAX_BYTES + 1));
        let mut text = Vec::new();
        let read = file.and_then(|mut file| file.read_to_end(&mut text));
        read.map_err(|source| Error::Open { path: path.into(), source })?;
        let path = path.to_owned();
        if text.len() as u64 > MAX_BYTES {
            return Err(JitterError::TooLong { path }.into());
        }
        let record: Self = match serde_json::from_slice(&text) {
            Ok(record) => record,
            Err(source) => return Err(JitterError::NotResult { path, source }.into()),
        };
        if record.version != VERSION {
            return Err(JitterError::Version { path, version: record.version }.into());
        }
        Ok(record)
    }

    /// Whether the figures give a verdict: all gates hold.
    pub fn gives_a_verdict(&self) -> bool {
        self.gates.iter().all(|gate| gate.passes)
    }

    /// Why they do not: the gates that do not hold, with what was found.
    pub fn reasons(&self) -> Vec<String> {
        let failed = self.gates.iter().filter(|gate| !gate.passes);
        failed.map(|gate| format!("{}: {}", gate.name, gate.found)).collect()
    }

    /// Whether it is of a busy loop, not of a stream.
    pub fn is_busy_loop(&self) -> bool {
        self.histograms.iter().any(|(name, _)| name == LAPS)
    }

    /// The gates that do not hold, by name.
    pub fn failed_gates(&self) -> String {
        let failed = self.gates.iter().filter(|gate| !gate.passes);
        failed.map(|gate| gate.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The causes with the most time, without the packet's own way.
    pub fn main_causes(&self) -> impl Iterator<Item = &CauseRecord> {
        let causes = self.traced.iter().flat_map(|traced| &traced.causes);
        causes.filter(|cause| cause.kind != "path" && cause.ns > 0)
    }
}

impl SummaryRecord {
    /// One of its quantiles.
    pub fn at(&self, q: f64) -> Option<&QuantileRecord> {
        self.quantiles.iter().find(|quantile| quantile.q == q)
    }
}
