//! What a job has done, put into a report.

use crate::failure::Failure;
use linecard::offload::coalesce::{Counters, Flush, Refusal};
use linecard_report::{Report, Section, Value};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Prints a report to stdout, or to stderr when data goes to stdout.
pub(crate) fn print(report: &Report, json: bool, output: Option<&Path>) -> Result<(), Failure> {
    if json && output != Some(Path::new("-")) {
        return print_json(report);
    }
    let text = if json { pretty(report)? } else { report.to_string() };
    let result = if output == Some(Path::new("-")) {
        std::io::stderr().write_all(text.as_bytes())
    } else {
        std::io::stdout().write_all(text.as_bytes())
    };
    unless_seen_enough(result)
}

/// Prints a value as JSON to stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    unless_seen_enough(std::io::stdout().write_all(pretty(value)?.as_bytes()))
}

/// Prints text to stdout.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    unless_seen_enough(std::io::stdout().write_all(text.as_bytes()))
}

fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(std::io::Error::from)? + "\n")
}

/// A reader that has seen enough is no error, and hides none that is still to be said.
fn unless_seen_enough(result: std::io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// What merged, and how large it became.
pub(crate) fn merging(counters: &Counters) -> Section {
    merging_in(Section::new("merging", "Merging (LRO)"), counters)
}

/// The same in this section.
pub(crate) fn merging_in(mut section: Section, counters: &Counters) -> Section {
    section.add("packets_in", "packets in", Value::Count(counters.packets_in));
    section.add("bytes_in", "bytes in", Value::Bytes(counters.bytes_in));
    section.add("packets_out", "packets out", Value::Count(counters.packets_out));
    section.add("bytes_out", "bytes out", Value::Bytes(counters.bytes_out));
    section.add("merged", "merged into another", Value::Count(counters.merged));
    section.add("passed", "passed, never held", Value::Count(counters.passed));
    if counters.segments.count() > 0 {
        section.add("mean_aggregate", "mean aggregate", Value::Number(counters.mean_aggregate()));
        let largest = Value::Count(counters.segments.max());
        section.add("largest_aggregate", "largest aggregate", largest);
        let hold = |q| Value::Ns(counters.hold_ns.quantile(q) as f64);
        section.add("hold_ns_p50", "held, median", hold(0.5));
        section.add("hold_ns_p99", "held, 99th percentile", hold(0.99));
        section.add("hold_ns_max", "held, longest", Value::Ns(counters.hold_ns.max() as f64));
    }
    if counters.flows_evicted > 0 {
        let evicted = Value::Count(counters.flows_evicted);
        section.add("flows_evicted", "flows pushed out", evicted);
    }
    section
}

/// Why held packets were let go, and why packets did not merge.
pub(crate) fn reasons(counters: &Counters) -> [Section; 2] {
    let flushed = Section::new("flushed", "Why held packets were let go");
    reasons_in([flushed, Section::new("refused", "Why packets did not merge")], counters)
}

/// The same in these sections.
pub(crate) fn reasons_in(sections: [Section; 2], counters: &Counters) -> [Section; 2] {
    let [mut flushed, mut refused] = sections;
    for reason in by_count(Flush::ALL, |reason| counters.flushed.of(reason)) {
        let count = counters.flushed.of(reason);
        flushed.add_reason(reason.name(), reason.explanation(), count);
    }
    for reason in by_count(Refusal::ALL, |reason| counters.refused.of(reason)) {
        let count = counters.refused.of(reason);
        refused.add_reason(reason.name(), reason.explanation(), count);
    }
    [flushed, refused]
}

fn by_count<R: Copy>(reasons: &[R], count: impl Fn(R) -> u64) -> Vec<R> {
    let mut sorted = reasons.to_vec();
    sorted.sort_by_key(|reason| std::cmp::Reverse(count(*reason)));
    sorted
}
