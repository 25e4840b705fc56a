//! The main job: large sends, segmented, over lanes in memory, merged, every byte verified.

mod config;

pub use config::{Coalesce, Config, IpVersion, Lanes, Load, Run};

use crate::offload::{Classes, Merging, draw_merging};
use crate::{Context, Error, Failure, Job};
use linecard::offload::coalesce::{Counters, Flush, Refusal};
use linecard_io::run::{self, RunSpec, Times, run_with_progress};
use linecard_report::{
    Axis, BitRate, ByteCount, Ledger, Named, Nanoseconds, Page, Reasons, Seconds, Unit, Value,
    section_of,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// The job.
#[derive(Debug)]
pub struct MemoryRun;

/// The outcome.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunOutcome {
    /// The run
    pub summary: Summary,
    /// Time per packet on the lanes, by stage
    pub ns_per_packet: StageTimes,
    /// Segmenting (LSO)
    pub segmenting: Classes,
    /// Lanes
    pub lanes: Named<u64>,
    /// Merging (LRO)
    pub merging: Merging,
    /// Why held packets were flushed
    pub flushed: Reasons<Flush>,
    /// Why packets did not merge
    pub refused: Reasons<Refusal>,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    counters: Counters,
    /// The error in the bytes that arrived.
    #[serde(skip)]
    wrong: Option<String>,
}

/// The run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// time
    pub seconds: Seconds,
    /// sent by applications
    pub sent_bytes: ByteCount,
    /// verified on arrival
    pub verified_bytes: ByteCount,
    /// lost on purpose
    pub lost_bytes: ByteCount,
    /// corrupted on purpose, and noticed
    pub corrupted_bytes: Option<ByteCount>,
    /// rate, everything on one core
    pub bits_per_second_core: BitRate,
    /// rate, the two offloads alone
    pub bits_per_second_offloads: BitRate,
}

/// Time of a packet on the lanes, by stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StageTimes {
    /// application writes data
    pub application: Nanoseconds,
    /// segment: divide, copy, checksum
    pub segment: Nanoseconds,
    /// lanes: hand over
    pub lanes: Nanoseconds,
    /// coalesce: parse, checksum, merge
    pub coalesce: Nanoseconds,
    /// verify every byte
    pub verify: Nanoseconds,
}

impl Job for MemoryRun {
    const NAME: &'static str = "run";
    type Config = Config;
    type Outcome = RunOutcome;

    fn title(_: &Config) -> String {
        "Large sends, segmented, over lanes, merged, verified".to_owned()
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<RunOutcome, Error> {
        linecard_config::check(config)?;
        let spec = config.spec()?;
        let outcome = run_with_progress(&spec, context.progress);
        context.go_on()?;
        Ok(RunOutcome::new(&spec, outcome))
    }

    fn draw(outcome: &RunOutcome, page: &mut Page) {
        let axis = Axis::new("time of a packet on the lanes", Unit::Ns);
        let mut stages = Ledger::new("ns_per_packet", "Where the time of a packet goes", axis);
        for row in section_of("", "", &outcome.ns_per_packet).rows() {
            if let Value::Ns(ns) = row.value() {
                stages.cause(row.label(), *ns, None);
            }
        }
        page.chart(stages);
        draw_merging(page, "", &outcome.counters);
    }

    /// Success only if every byte is where it belongs.
    fn check(outcome: &RunOutcome) -> Result<(), Error> {
        outcome.wrong.clone().map_or(Ok(()), |wrong| Err(Failure::Wrong.with(wrong)))
    }
}

impl RunOutcome {
    fn new(spec: &RunSpec, outcome: run::RunOutcome) -> Self {
        Self {
            summary: Summary::new(spec, &outcome),
            ns_per_packet: StageTimes::new(&outcome),
            segmenting: Classes::from(&outcome.segment),
            lanes: lanes(spec, &outcome),
            merging: Merging::from(&outcome.coalesce),
            flushed: Reasons::from(&outcome.coalesce.flushed),
            refused: Reasons::from(&outcome.coalesce.refused),
            title: title(spec),
            wrong: wrong(spec, &outcome),
            counters: outcome.coalesce,
        }
    }
}

impl linecard_report::Outcome for RunOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "summary").then(|| self.title.clone())
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        let lane = key.strip_prefix("lane_").and_then(|rest| rest.strip_suffix("_received"));
        (section == "lanes").then(|| match (lane, key) {
            (Some(lane), _) => format!("lane {lane}, packets received"),
            (None, "reordered") => "packets overtaken".to_owned(),
            (None, key) => format!("packets {key}"),
        })
    }

    fn notes(&self) -> Vec<String> {
        let right = "Every byte sent arrived where it belongs, or is one that a lane was told to lose or \
                     corrupt.";
        if self.wrong.is_none() { vec![right.to_owned()] } else { Vec::new() }
    }
}

fn title(spec: &RunSpec) -> String {
    let RunSpec { flows, send_len, mtu, lanes, seed, .. } = spec;
    let s = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "{flows} flow{}, sends of {send_len} bytes, MTU {mtu}, {lanes} lane{}, one core, seed {seed}",
        s(*flows),
        s(*lanes)
    )
}

fn wrong(spec: &RunSpec, outcome: &run::RunOutcome) -> Option<String> {
    let verify = outcome.verify;
    (!outcome.is_right()).then(|| {
        format!(
            "verification failed: {} bytes sent, {} good, {} lost on purpose; {} packets with wrong or \
             repeated data, {} with a wrong checksum, {} out of order (seed {})",
            outcome.sent,
            verify.good,
            outcome.faults.lost_payload,
            verify.bad,
            verify.bad_checksum,
            verify.late,
            spec.seed
        )
    })
}

impl Summary {
    fn new(spec: &RunSpec, outcome: &run::RunOutcome) -> Self {
        let (good, seconds) = (outcome.verify.good, outcome.elapsed.as_secs_f64());
        let rate = |seconds: f64| BitRate(good as f64 * 8.0 / seconds.max(1e-9));
        let corrupted = ByteCount(outcome.verify.rejected);
        Self {
            seconds: Seconds(seconds),
            sent_bytes: ByteCount(outcome.sent),
            verified_bytes: ByteCount(good),
            lost_bytes: ByteCount(outcome.faults.lost_payload),
            corrupted_bytes: (spec.faults.corrupt > 0.0).then_some(corrupted),
            bits_per_second_core: rate(seconds),
            bits_per_second_offloads: rate(
                (outcome.times.segment + outcome.times.coalesce).as_secs_f64(),
            ),
        }
    }
}

impl StageTimes {
    fn new(outcome: &run::RunOutcome) -> Self {
        let packets = outcome.segment.segments().max(1) as f64;
        let Times { application, segment, lanes, coalesce, verify } = outcome.times;
        let each = |time: Duration| Nanoseconds(time.as_nanos() as f64 / packets);
        Self {
            application: each(application),
            segment: each(segment),
            lanes: each(lanes),
            coalesce: each(coalesce),
            verify: each(verify),
        }
    }
}

/// Packets that each lane received, and those that lanes dropped or changed on purpose, where they were told to.
fn lanes(spec: &RunSpec, outcome: &run::RunOutcome) -> Named<u64> {
    let received = outcome.lanes.iter().enumerate();
    let received = received.map(|(index, lane)| (format!("lane_{index}_received"), lane.received));
    let (rates, counts) = (&spec.faults, &outcome.faults);
    let faults = [
        ("lost", rates.loss, counts.lost),
        ("reordered", rates.reorder, counts.reordered),
        ("corrupted", rates.corrupt, counts.corrupted),
    ];
    let faults = faults.into_iter().filter(|(_, rate, _)| *rate > 0.0);
    Named(received.chain(faults.map(|(name, _, count)| (name.to_owned(), count))).collect())
}
