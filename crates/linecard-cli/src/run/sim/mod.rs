//! `linecard run --lanes sim`: a transfer in virtual time, over lanes that are made up.
//!
//! Both ends are as they are on real lanes ([`linecard_transfer`]); packets are counted, their bytes are
//! not moved. The same seed gives the same text, byte for byte.

mod args;
mod spec;

pub(crate) use args::SimArguments;
pub(crate) use spec::{MAX_PACKETS, Spec};

use crate::args::RunArguments;
use crate::failure::Failure;
use crate::found::Found;
use crate::watch;
use linecard_report::{Axis, Histograms, Report, Section, Unit, Value};
use linecard_transfer::fec::Scheme;
use linecard_transfer::layout::LayoutError;
use linecard_transfer::send::Mode;
use linecard_transfer::sim::{self, Outcome};

/// Buckets of the latencies' chart.
const BUCKETS: usize = 100;

/// Transfers, and says how long that took.
pub(crate) fn find(arguments: &RunArguments, lanes: Option<u64>) -> Result<Found, Failure> {
    found("run", &args::spec(arguments, lanes)?)
}

/// The same for what is to be transferred, as the report of `job`.
pub(crate) fn found(job: &'static str, spec: &Spec) -> Result<Found, Failure> {
    let outcome = run(spec)?;
    let report = report(job, spec, &outcome).map_err(uncut)?;
    let mut found = Found::new("A transfer over many lanes, in virtual time", report);
    let latencies: Vec<f64> = outcome.latencies_ns.iter().map(|&ns| ns as f64).collect();
    let mut chart = Histograms::new("latency_ns", "How long chunks took", "chunks");
    chart.x(Axis::new("from the first packet to the news", Unit::Ns));
    chart.values("chunks", &latencies, BUCKETS);
    found.page.chart(chart);
    Ok(found)
}

/// Runs a transfer to its end.
pub(crate) fn run(spec: &Spec) -> Result<Outcome, Failure> {
    sim::run_watched(&spec.settings(), &watch::any()).map_err(|error| {
        let seed = spec.seed;
        Failure::Wrong(format!("the transfer did not come to its end: {error} (seed {seed})"))
    })
}

/// What a mode is called.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Stable => "stable",
        Mode::LowLatency => "low latency",
        Mode::Auto => "auto",
    }
}

/// A chunk that cannot be cut.
pub(crate) fn uncut(error: LayoutError) -> Failure {
    Failure::Usage(error.to_string())
}

fn report(job: &'static str, spec: &Spec, outcome: &Outcome) -> Result<Report, LayoutError> {
    let mut report = Report::new(job);
    report.push(summary(spec, outcome)?);
    report.push(latency(outcome));
    report.push(packets(outcome));
    report.push(lanes(outcome));
    report.note(
        "Virtual time: both ends are the real ones, the lanes are made up, and packets are counted \
         without their bytes. Management overhead is 1 - goodput / framing bound; repair, where there \
         is any, is part of the bound.",
    );
    Ok(report)
}

fn summary(spec: &Spec, outcome: &Outcome) -> Result<Section, LayoutError> {
    let fec = if spec.fec == Scheme::NONE { "no repair".to_owned() } else { spec.fec.to_string() };
    let title = format!(
        "{} chunks of {} bytes over {} lane{} of {} in virtual time, {}, {fec}, seed {}",
        spec.chunks,
        spec.chunk_bytes,
        spec.lanes,
        if spec.lanes == 1 { "" } else { "s" },
        Value::BitRate(spec.rate_bps as f64),
        mode_name(spec.mode),
        spec.seed
    );
    let mut section = Section::new("summary", title);
    let goodput_bps = outcome.goodput_bps();
    let bound_bps = spec.repair_bound_bps()?;
    section.add("virtual_ns", "virtual time", Value::Ns(outcome.end.as_ns() as f64));
    section.add("bytes", "data", Value::Bytes(outcome.bytes));
    section.add("goodput_bits_per_second", "goodput", Value::BitRate(goodput_bps));
    let framing = Value::BitRate(spec.framing_bound_bps()?);
    section.add("framing_bound_bits_per_second", "framing bound", framing);
    if spec.fec != Scheme::NONE {
        let repair = Value::BitRate(bound_bps);
        section.add("repair_bound_bits_per_second", "the same with repair", repair);
    }
    let overhead = (1.0 - goodput_bps / bound_bps) * 100.0;
    let label = "management overhead, per cent";
    section.add("management_overhead_percent", label, Value::Number(overhead));
    Ok(section)
}

fn latency(outcome: &Outcome) -> Section {
    let title = "Latency of a chunk, from its first packet to the news that it is whole";
    let mut section = Section::new("chunk_latency", title);
    let of = |ns: Option<&u64>| Value::Ns(ns.copied().unwrap_or(0) as f64);
    section.add("min_ns", "least", of(outcome.latencies_ns.iter().min()));
    section.add("p50_ns", "median", of(Some(&outcome.median_latency_ns())));
    section.add("max_ns", "most", of(outcome.latencies_ns.iter().max()));
    section
}

fn packets(outcome: &Outcome) -> Section {
    let mut section = Section::new("packets", "Packets");
    let sent = outcome.lanes.iter().map(|lane| lane.packets).sum();
    let lost = outcome.links.iter().map(|link| link.lost).sum();
    let reordered = outcome.links.iter().map(|link| link.reordered).sum();
    for (key, label, count) in [
        ("sent", "sent, data and repair", sent),
        ("lost", "lost by lanes, probes included", lost),
        ("reordered", "overtaken", reordered),
        ("resent", "sent again because one was lost", outcome.send.resent),
        ("duplicates", "sent twice to be there sooner", outcome.send.duplicates),
        ("groups_repaired", "groups repaired", outcome.receive.repaired),
        ("repeated", "arrived without need", outcome.receive.repeated),
        ("acks", "acknowledgments", outcome.receive.acks),
    ] {
        section.add(key, label, Value::Count(count));
    }
    section
}

fn lanes(outcome: &Outcome) -> Section {
    let mut section = Section::new("lanes", "Bytes on the lines");
    for (index, lane) in outcome.lanes.iter().enumerate() {
        let label = format!("lane {index}");
        section.add(format!("lane_{index}_bytes"), label, Value::Bytes(lane.line_bytes));
    }
    section
}
