//! What one experiment came to, as it is kept in a file: text, JSON and page are made from it.

mod make;
mod page;
mod text;

pub(crate) use make::{not_measured, of_dummy, of_outcome};
pub(crate) use page::{headline, page};
pub(crate) use text::{beside_the_paper, folded, screen};

use serde::{Deserialize, Serialize};

/// The form of the file; another number is another form.
pub(crate) const VERSION: u32 = 1;
/// Spikes that are kept one by one: the largest.
pub(crate) const WORST: usize = 100;
/// Points of a time series that are kept: of each part its least and its most.
pub(crate) const POINTS: usize = 20_000;

/// Whose gaps they are, where there is no stream.
const LAPS: &str = "laps";
/// Of a histogram: from, to, count.
pub(crate) type Buckets = Vec<(f64, f64, u64)>;

/// One experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) version: u32,
    /// "E2", or a word.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What the paper found.
    pub(crate) published: Option<String>,
    /// How true to the paper.
    pub(crate) reality: Option<String>,
    pub(crate) place: String,
    /// When it was measured: `2026-11-22 21:28:03 UTC`.
    #[serde(default)]
    pub(crate) measured: Option<String>,
    /// For people: what was set, and to what.
    pub(crate) conditions: Vec<(String, String)>,
    pub(crate) period_ns: u64,
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) gates: Vec<GateRecord>,
    pub(crate) sender: Option<SeriesRecord>,
    pub(crate) sink: Option<SeriesRecord>,
    pub(crate) transit: Option<SummaryRecord>,
    pub(crate) traced: Option<TracedRecord>,
    /// Why there is no trace.
    pub(crate) untraced: Option<String>,
    /// What else is to be said.
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
    /// Time in seconds, gap in nanoseconds.
    pub(crate) gaps: Vec<(f64, f64)>,
    /// Time in seconds, lateness in nanoseconds.
    pub(crate) lateness: Vec<(f64, f64)>,
    /// Gaps at the sender and in the application.
    pub(crate) histograms: Vec<(String, Buckets)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateRecord {
    pub(crate) name: String,
    pub(crate) passes: bool,
    pub(crate) found: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeriesRecord {
    pub(crate) gaps: Option<SummaryRecord>,
    pub(crate) lateness: Option<SummaryRecord>,
    pub(crate) spikes: u64,
    pub(crate) spikes_per_second: f64,
    pub(crate) spikes_per_second_95: (f64, f64),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SummaryRecord {
    pub(crate) n: u64,
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
    pub(crate) mean_ns: f64,
    pub(crate) deviation_ns: f64,
    pub(crate) quantiles: Vec<QuantileRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuantileRecord {
    pub(crate) q: f64,
    pub(crate) value_ns: i64,
    /// Where it lies, with 95 %; none where n is too small.
    pub(crate) interval_ns: Option<(i64, i64)>,
    /// How many samples it would take, where n is too small.
    pub(crate) needed: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TracedRecord {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) breaks: u64,
    pub(crate) joined: u64,
    pub(crate) cost_ns_per_event: Option<f64>,
    /// "bpf" or "tracefs".
    #[serde(default)]
    pub(crate) means: String,
    /// Packets of the whole host that the kernel's own counters saw come up.
    #[serde(default)]
    pub(crate) counted: Option<u64>,
    pub(crate) absent: Vec<String>,
    pub(crate) stages: Vec<(String, SummaryRecord)>,
    pub(crate) points: Vec<(String, SummaryRecord)>,
    pub(crate) excess_ns: u64,
    pub(crate) spikes: u64,
    pub(crate) named_share: f64,
    pub(crate) causes: Vec<CauseRecord>,
    pub(crate) stage_ledger: Vec<(String, u64, u64)>,
    pub(crate) worst: Vec<SpikeRecord>,
    /// Packets of a poll, in the mean.
    pub(crate) mean_batch: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CauseRecord {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Spikes of which it is the main cause.
    pub(crate) spikes: u64,
    pub(crate) ns: u64,
    pub(crate) remedy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpikeRecord {
    pub(crate) sequence: u64,
    /// Since the stream began.
    pub(crate) at_s: f64,
    pub(crate) gap_ns: u64,
    pub(crate) excess_ns: u64,
    /// Stage, cause, nanoseconds.
    pub(crate) charges: Vec<(String, String, u64)>,
}

impl Record {
    /// Whether the figures carry a verdict.
    pub(crate) fn carries_a_verdict(&self) -> bool {
        self.gates.iter().all(|gate| gate.passes)
    }

    /// Why they do not.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let failed = self.gates.iter().filter(|gate| !gate.passes);
        failed.map(|gate| format!("{}: {}", gate.name, gate.found)).collect()
    }

    /// Whether it is of a busy loop, not of a stream.
    pub(crate) fn is_busy_loop(&self) -> bool {
        self.histograms.iter().any(|(name, _)| name == LAPS)
    }

    /// The gates that do not hold, by name.
    pub(crate) fn failed_gates(&self) -> String {
        let failed = self.gates.iter().filter(|gate| !gate.passes);
        failed.map(|gate| gate.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The causes with the most time, without the packet's own way.
    pub(crate) fn main_causes(&self) -> impl Iterator<Item = &CauseRecord> {
        let causes = self.traced.iter().flat_map(|traced| &traced.causes);
        causes.filter(|cause| cause.kind != "path" && cause.ns > 0)
    }
}

impl SummaryRecord {
    /// One of its quantiles.
    pub(crate) fn at(&self, q: f64) -> Option<&QuantileRecord> {
        self.quantiles.iter().find(|quantile| quantile.q == q)
    }
}
