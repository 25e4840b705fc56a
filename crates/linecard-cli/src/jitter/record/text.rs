//! A record as one screen of text.

use super::{Record, SeriesRecord, SummaryRecord};
use linecard::report::{Report, Section, Value};

/// Causes that are listed.
const LISTED: usize = 8;

/// One screen.
pub(crate) fn report(record: &Record) -> Report {
    let mut report = Report::new("jitter");
    report.push(head(record));
    for (key, title, series) in
        [("sender", "Sender", &record.sender), ("application", "Application", &record.sink)]
    {
        if let Some(series) = series {
            report.push(series_section(Section::new(key, title), series));
        }
    }
    if let Some(traced) = &record.traced {
        let mut stages = Section::new("stages", "Time in each stage: half, 99 %, 99.9 %, most");
        for (name, summary) in &traced.stages {
            stages.add(name.clone(), name.clone(), Value::Text(spread(summary)));
        }
        report.push(stages);
        let title = "Why packets are late: share of all excess, main cause of";
        let mut causes = Section::list("causes", title);
        for cause in record.main_causes().take(LISTED) {
            let share = cause.ns as f64 / traced.excess_ns.max(1) as f64;
            let text =
                format!("{:5.1} %, {} of {} spikes", share * 100.0, cause.spikes, traced.spikes);
            causes.add(cause.kind.clone(), cause.name.clone(), Value::Text(text));
        }
        report.push(causes);
        report.push(trace_section(record));
    }
    for note in notes(record) {
        report.note(note);
    }
    report
}

/// The paper's figure and this one, in a line.
pub(crate) fn beside_the_paper(record: &Record) -> String {
    let gaps = record.sink.as_ref().and_then(|sink| sink.gaps.as_ref());
    let ours = gaps.map_or("nothing came".to_owned(), |gaps| {
        let p999 = gaps.quantiles.iter().find(|quantile| quantile.q == 0.999);
        let [deviation, p999, most] = [
            gaps.deviation_ns,
            p999.map_or(0, |quantile| quantile.value_ns) as f64,
            gaps.max_ns as f64,
        ]
        .map(Value::Ns);
        format!("deviation {deviation}, gap 99.9 % {p999}, most {most}")
    });
    let spikes = record.sink.as_ref().map_or(0, |sink| sink.spikes);
    let reality = record.reality.as_deref().unwrap_or_default();
    let tag = reality.split(':').next().unwrap_or_default();
    let batch = record.traced.as_ref().and_then(|traced| traced.mean_batch);
    let batch = batch.filter(|batch| *batch > 2.0);
    let batch = batch.map_or(String::new(), |batch| format!(", {batch:.1} packets of a poll"));
    let cause = record.main_causes().next();
    let cause = cause.map_or(String::new(), |cause| format!(", mostly {}", cause.name));
    let verdict =
        if record.carries_a_verdict() { "" } else { " (no verdict: a gate does not hold)" };
    let published = record.published.as_deref().unwrap_or_default();
    format!(
        "[{tag}] paper: {published}; ours: {ours}, {spikes} beyond two periods{batch}{cause}{verdict}"
    )
}

fn head(record: &Record) -> Section {
    let mut section =
        Section::new("experiment", format!("{} {}", record.id, record.title).trim().to_owned());
    section.add("place", "over", Value::Text(record.place.clone()));
    section.add("period_ns", "period", Value::Ns(record.period_ns as f64));
    section.add("sent", "packets sent", Value::Count(record.sent));
    section.add("arrived", "packets arrived", Value::Count(record.arrived));
    if let Some(published) = &record.published {
        section.add("published", "the paper", Value::Text(published.clone()));
    }
    if let Some(reality) = &record.reality {
        section.add("reality", "here", Value::Text(reality.clone()));
    }
    section
}

fn series_section(mut section: Section, series: &SeriesRecord) -> Section {
    for (key, label, summary) in
        [("gap", "gap", &series.gaps), ("lateness", "lateness", &series.lateness)]
    {
        let Some(summary) = summary else { continue };
        section.add(format!("{key}_mean_ns"), format!("{label}, mean"), Value::Ns(summary.mean_ns));
        let deviation = Value::Ns(summary.deviation_ns);
        section.add(format!("{key}_deviation_ns"), format!("{label}, deviation"), deviation);
        for quantile in &summary.quantiles {
            // 0.99999 times 100 is 99.99900000000001.
            let percent = (quantile.q * 1e7).round() / 1e5;
            let value = Value::Ns(quantile.value_ns as f64);
            let text = match (quantile.interval_ns, quantile.needed) {
                (Some((lower, upper)), _) => {
                    let [lower, upper] = [lower, upper].map(|ns| Value::Ns(ns as f64));
                    format!("{value} (95 %: {lower} to {upper})")
                }
                (None, Some(needed)) => format!("{value} (n too small: {needed} needed)"),
                (None, None) => value.to_string(),
            };
            section.add(
                format!("{key}_p{percent}"),
                format!("{label}, {percent} %"),
                Value::Text(text),
            );
        }
        section.add(
            format!("{key}_max_ns"),
            format!("{label}, most"),
            Value::Ns(summary.max_ns as f64),
        );
    }
    let (lower, upper) = series.spikes_per_second_95;
    let rate = format!(
        "{} ({:.2}/s, 95 %: {lower:.2} to {upper:.2})",
        series.spikes, series.spikes_per_second
    );
    section.add("spikes", "gaps beyond two periods", Value::Text(rate));
    section
}

fn spread(summary: &SummaryRecord) -> String {
    let at = |q: f64| {
        let found = summary.quantiles.iter().find(|quantile| quantile.q == q);
        Value::Ns(found.map_or(0, |quantile| quantile.value_ns) as f64).to_string()
    };
    let most = Value::Ns(summary.max_ns as f64).to_string();
    format!("{:>9}  {:>9}  {:>9}  {most:>9}", at(0.5), at(0.99), at(0.999))
}

fn trace_section(record: &Record) -> Section {
    let mut section = Section::new("trace", "Trace");
    let Some(traced) = &record.traced else { return section };
    section.add("events", "events", Value::Count(traced.events));
    section.add("lost", "lost", Value::Count(traced.lost));
    section.add("joined", "packets followed", Value::Count(traced.joined));
    if let Some(batch) = traced.mean_batch {
        section.add("mean_batch", "packets of a poll", Value::Number(batch));
    }
    if let Some(cost) = traced.cost_ns_per_event {
        section.add("cost_ns", "cost of an event", Value::Ns(cost));
        let per_packet = traced.events as f64 / record.arrived.max(1) as f64 * cost;
        section.add("cost_ns_per_packet", "of all, per packet", Value::Ns(per_packet));
    }
    section
}

fn notes(record: &Record) -> Vec<String> {
    let mut notes = record.remarks.clone();
    if let Some(untraced) = &record.untraced {
        notes.push(format!("The kernel was not traced: {untraced}. Causes are not known."));
    }
    if let Some(traced) = &record.traced {
        if !traced.absent.is_empty() {
            notes.push(format!("This kernel does not have: {}.", traced.absent.join(", ")));
        }
        if traced.breaks > 0 {
            notes.push(format!(
                "{} times a core was with another thread than the last one seen to take it: the kernel \
                 hides some threads from traces.",
                traced.breaks
            ));
        }
    }
    if record.carries_a_verdict() {
        let remedies =
            record.main_causes().filter_map(|cause| Some((cause, cause.remedy.as_ref()?)));
        for (cause, remedy) in remedies.take(3) {
            notes.push(format!("{}: {remedy}.", cause.name));
        }
    } else {
        notes.push(format!("No verdict: {}.", record.reasons().join("; ")));
    }
    notes
}
