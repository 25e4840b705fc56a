//! `linecard run`.

pub(crate) mod lanes;
mod scenario;
mod settings;
pub(crate) mod sim;

use crate::account;
use crate::args::RunArguments;
use crate::failure::Failure;
use crate::found;
use crate::page;
use crate::watch;
use linecard_app::Finished;
use linecard_io::run::{RunOutcome, RunSpec, Times, run_watched};
use linecard_report::{Axis, Ledger, Page, Report, Section, Unit, Value};
pub(crate) use settings::spec;
use std::time::Duration;

/// Runs the command.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Failure> {
    let scenario: Vec<_> = arguments.scenario.iter().map(AsRef::as_ref).collect();
    let page = arguments.page.check(&scenario)?;
    found::show(find(arguments)?, arguments.json, None, &page)
}

/// Does it, in memory or in virtual time, and says where the time went.
pub(crate) fn find(arguments: &RunArguments) -> Result<Finished, Failure> {
    let lanes = lanes::Lanes::of(&arguments.lanes)?;
    if lanes.are_simulated {
        return sim::find(arguments, lanes.count);
    }
    sim::refuse(&arguments.sim)?;
    let spec = spec(arguments, lanes.count)?;
    let outcome = run_watched(&spec, &watch::any());
    let title = "Large sends, segmented, over lanes, merged, verified";
    let mut found = Finished::of_report(title, report(&spec, &outcome));
    charts(&mut found.page, &outcome);
    found.failure = ending(&spec, &outcome).err();
    Ok(found)
}

/// Success only if every byte is where it belongs.
fn ending(spec: &RunSpec, outcome: &RunOutcome) -> Result<(), Failure> {
    if outcome.is_right() {
        return Ok(());
    }
    let verify = outcome.verify;
    Err(Failure::Wrong(format!(
        "verification failed: {} bytes sent, {} good, {} lost on purpose; {} packets with wrong or \
         repeated data, {} with a wrong checksum, {} out of order (seed {})",
        outcome.sent,
        verify.good,
        outcome.faults.lost_payload,
        verify.bad,
        verify.bad_checksum,
        verify.late,
        spec.seed
    )))
}

fn charts(page: &mut Page, outcome: &RunOutcome) {
    let axis = Axis::new("time of a packet on the lanes", Unit::Ns);
    let mut stages = Ledger::new("ns_per_packet", "Where the time of a packet goes", axis);
    for (_, label, ns) in stage_times(outcome) {
        stages.cause(label, ns, None);
    }
    page.chart(stages);
    page::merging(page, "", &outcome.coalesce);
}

fn report(spec: &RunSpec, outcome: &RunOutcome) -> Report {
    let mut report = Report::new("run");
    report.push(summary(spec, outcome));
    report.push(times(outcome));
    report.push(account::classes(&outcome.segment));
    report.push(lanes(spec, outcome));
    report.push(account::merging(&outcome.coalesce));
    account::reasons(&outcome.coalesce).into_iter().for_each(|section| report.push(section));
    if outcome.is_right() {
        report.note(
            "Every byte sent arrived where it belongs, or is one that a lane was told to lose or \
             corrupt.",
        );
    }
    report
}

fn summary(spec: &RunSpec, outcome: &RunOutcome) -> Section {
    let title = format!(
        "{} flows, sends of {} bytes, MTU {}, {} lane{}, one core, seed {}",
        spec.flows,
        spec.send_len,
        spec.mtu,
        spec.lanes,
        if spec.lanes == 1 { "" } else { "s" },
        spec.seed
    );
    let mut section = Section::new("summary", title);
    let seconds = outcome.elapsed.as_secs_f64();
    let rate = |bytes: u64, time: f64| Value::BitRate(bytes as f64 * 8.0 / time.max(1e-9));
    section.add("seconds", "time", Value::Seconds(seconds));
    section.add("sent_bytes", "sent by applications", Value::Bytes(outcome.sent));
    section.add("verified_bytes", "verified on arrival", Value::Bytes(outcome.verify.good));
    section.add("lost_bytes", "lost on purpose", Value::Bytes(outcome.faults.lost_payload));
    if spec.faults.corrupt > 0.0 {
        let rejected = Value::Bytes(outcome.verify.rejected);
        section.add("corrupted_bytes", "corrupted on purpose, and noticed", rejected);
    }
    section.add(
        "bits_per_second_core",
        "rate, everything on one core",
        rate(outcome.verify.good, seconds),
    );
    let times = &outcome.times;
    let offloads = (times.segment + times.coalesce).as_secs_f64();
    section.add(
        "bits_per_second_offloads",
        "rate, the two offloads alone",
        rate(outcome.verify.good, offloads),
    );
    section
}

fn times(outcome: &RunOutcome) -> Section {
    let mut section = Section::new("ns_per_packet", "Time per packet on the lanes, by stage");
    for (key, label, ns) in stage_times(outcome) {
        section.add(key, label, Value::Ns(ns));
    }
    section
}

/// Time by part of the way, per packet on the lanes: key, label, nanoseconds.
fn stage_times(outcome: &RunOutcome) -> [(&'static str, &'static str, f64); 5] {
    let packets = outcome.segment.segments().max(1) as f64;
    let Times { application, segment, lanes, coalesce, verify } = outcome.times;
    let each = |time: Duration| time.as_nanos() as f64 / packets;
    [
        ("application", "application writes data", each(application)),
        ("segment", "segment: cut, copy, checksum", each(segment)),
        ("lanes", "lanes: hand over", each(lanes)),
        ("coalesce", "coalesce: parse, checksum, merge", each(coalesce)),
        ("verify", "verify every byte", each(verify)),
    ]
}

fn lanes(spec: &RunSpec, outcome: &RunOutcome) -> Section {
    let mut section = Section::new("lanes", "Lanes");
    for (index, lane) in outcome.lanes.iter().enumerate() {
        let label = format!("lane {index}, packets received");
        section.add(format!("lane_{index}_received"), label, Value::Count(lane.received));
    }
    if spec.faults.loss > 0.0 {
        section.add("lost", "packets lost", Value::Count(outcome.faults.lost));
    }
    if spec.faults.reorder > 0.0 {
        section.add("reordered", "packets overtaken", Value::Count(outcome.faults.reordered));
    }
    if spec.faults.corrupt > 0.0 {
        section.add("corrupted", "packets corrupted", Value::Count(outcome.faults.corrupted));
    }
    section
}
