//! `linecard run`.

mod scenario;
mod settings;

use crate::account;
use crate::args::RunArguments;
use crate::failure::Failure;
use linecard::report::{Report, Section, Value};
use linecard_host::run::{RunOutcome, RunSpec, Times, run};
use std::time::Duration;

/// Runs the command.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Failure> {
    let spec = settings::spec(arguments)?;
    let outcome = run(&spec);
    account::print(&report(&spec, &outcome), arguments.json, None)?;
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

/// Time by part of the way, per packet on the lanes.
fn times(outcome: &RunOutcome) -> Section {
    let mut section = Section::new("ns_per_packet", "Time per packet on the lanes, by stage");
    let packets = outcome.segment.segments().max(1) as f64;
    let Times { application, segment, lanes, coalesce, verify } = outcome.times;
    let mut add = |key, label, time: Duration| {
        section.add(key, label, Value::Ns(time.as_nanos() as f64 / packets));
    };
    add("application", "application writes data", application);
    add("segment", "segment: cut, copy, checksum", segment);
    add("lanes", "lanes: hand over", lanes);
    add("coalesce", "coalesce: parse, checksum, merge", coalesce);
    add("verify", "verify every byte", verify);
    section
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
