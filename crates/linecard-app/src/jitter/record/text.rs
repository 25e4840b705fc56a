//! A record as one screen of text.

use super::{QuantileRecord, Record, SeriesRecord, SummaryRecord};
use crate::jitter::with_interval;
use linecard_report::{Report, Section, Value};

/// Causes that are listed.
const LISTED: usize = 5;
/// Columns of a screen.
const WIDTH: usize = 100;
/// A summary on one line, with the maximum.
const COLUMNS: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// One screen: at most 50 lines of 100 columns. All quantiles are in JSON and on the page.
pub fn screen(record: &Record) -> String {
    let sections = report(record).sections().iter().map(ToString::to_string).collect::<Vec<_>>();
    let notes: String = notes(record).iter().map(|note| folded(note)).collect();
    let between = if notes.is_empty() { "" } else { "\n" };
    sections.join("\n") + between + &notes
}

/// The heading of the text and of the page.
pub(super) fn report(record: &Record) -> Report {
    let mut report = Report::new("jitter");
    report.push(head(record));
    let sink = if record.is_busy_loop() { "Busy loop" } else { "Application" };
    for (key, title, series) in
        [("sender", "Sender", &record.sender), ("application", sink, &record.sink)]
    {
        if let Some(series) = series {
            let title = format!("{title}: half, 99 %, 99.9 %, 99.99 %, most");
            report.push(series_section(Section::new(key, title), series));
        }
    }
    if let Some(traced) = &record.traced {
        let mut stages =
            Section::new("stages", "Time in each stage: half, 99 %, 99.9 %, 99.99 %, most");
        for (name, summary) in &traced.stages {
            stages.add(name.clone(), name.clone(), Value::Text(columns(summary)));
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
pub(in crate::jitter) fn beside_the_paper(record: &Record) -> String {
    let gaps = record.sink.as_ref().and_then(|sink| sink.gaps.as_ref());
    if let (None, Some(reality)) = (gaps, &record.reality) {
        return reality.clone();
    }
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
    let verdict = if record.gives_a_verdict() { "" } else { " (no verdict: a gate does not hold)" };
    let published = record.published.as_deref().unwrap_or_default();
    format!(
        "[{tag}] paper: {published}; ours: {ours}, {spikes} beyond two periods{batch}{cause}{verdict}"
    )
}

fn head(record: &Record) -> Section {
    let mut section =
        Section::new("experiment", format!("{} {}", record.id, record.title).trim().to_owned());
    section.add("place", "over", Value::Text(record.place.clone()));
    let [sent, arrived] = [record.sent, record.arrived].map(Value::Count);
    let period = Value::Ns(record.period_ns as f64);
    let stream = if record.is_busy_loop() {
        format!("{sent} laps, one each {period}")
    } else {
        format!("{sent} packets, one each {period}; {arrived} arrived")
    };
    if record.period_ns > 0 {
        section.add("stream", "stream", Value::Text(stream));
    }
    if let Some(published) = &record.published {
        section.add("published", "the paper", Value::Text(published.clone()));
    }
    if let Some(reality) = &record.reality {
        section.add("reality", "here", Value::Text(reality.clone()));
    }
    section
}

fn series_section(mut section: Section, series: &SeriesRecord) -> Section {
    let both = [("gap", &series.gaps), ("lateness", &series.lateness)];
    let both = both.into_iter().filter_map(|(name, summary)| Some((name, summary.as_ref()?)));
    let both: Vec<(&'static str, &SummaryRecord)> = both.collect();
    for (name, summary) in &both {
        section.add(*name, *name, Value::Text(columns(summary)));
    }
    for (name, summary) in &both {
        let Some(quantile) = summary.at(0.999) else { continue };
        let text = Value::Text(how_sure(quantile));
        section.add(format!("{name}_p999"), format!("{name}, 99.9 %"), text);
    }
    let (lower, upper) = series.spikes_per_second_95;
    let deviation = series.gaps.as_ref().map_or(0.0, |gaps| gaps.deviation_ns);
    let rate = format!(
        "{}, {:.2}/s (95 %: {lower:.2} to {upper:.2}); deviation {}",
        series.spikes,
        series.spikes_per_second,
        Value::Ns(deviation)
    );
    section.add("spikes", "gaps beyond two periods", Value::Text(rate));
    section
}

/// A quantile, and how sure it is.
fn how_sure(quantile: &QuantileRecord) -> String {
    let value = Value::Ns(quantile.value_ns as f64);
    match (quantile.interval_ns, quantile.needed) {
        (Some((lower, upper)), _) => with_interval(quantile.value_ns, [lower, upper]),
        (None, Some(needed)) => {
            format!("{value} (too few for an interval: {} needed)", Value::Count(needed))
        }
        (None, None) => value.to_string(),
    }
}

/// Of a summary, what fits one line.
fn columns(summary: &SummaryRecord) -> String {
    let at = |q: f64| summary.at(q).map_or(0, |quantile| quantile.value_ns);
    let values = COLUMNS.map(at).into_iter().chain([summary.max_ns]);
    let columns = values.map(|ns| format!("{:>9}", Value::Ns(ns as f64)));
    columns.collect::<Vec<_>>().join("  ")
}

fn trace_section(record: &Record) -> Section {
    let mut section = Section::new("trace", "Trace");
    let Some(traced) = &record.traced else { return section };
    let [events, lost, joined] = [traced.events, traced.lost, traced.joined].map(Value::Count);
    let means = &traced.means;
    section.add("events", "events", Value::Text(format!("{events} by {means}, {lost} lost")));
    let batch = traced.mean_batch.map_or(String::new(), |batch| format!(", {batch:.2} to a poll"));
    let counted = traced.counted.map(Value::Count);
    let counted =
        counted.map_or(String::new(), |n| format!("; the kernel counts {n} of all streams"));
    section.add("joined", "packets followed", Value::Text(format!("{joined}{batch}{counted}")));
    if let Some(cost) = traced.cost_ns_per_event {
        let per_packet = traced.events as f64 / record.arrived.max(1) as f64 * cost;
        // Measured as a difference of two times.
        let text = if cost > 0.0 {
            format!("{} an event, {} a packet", Value::Ns(cost), Value::Ns(per_packet))
        } else {
            "less than can be measured on a host as busy as this".to_owned()
        };
        section.add("cost", "its cost", Value::Text(text));
    }
    section
}

/// Broken at spaces into lines that fit the screen.
pub fn folded(text: &str) -> String {
    let (mut folded, mut column) = (String::with_capacity(text.len() + 1), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 {
            let fits = column + 1 + length <= WIDTH;
            folded.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        folded += word;
        column += length;
    }
    folded + "\n"
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
                "{} times a core ran another thread than the last one that was seen to be \
                 scheduled there: the kernel hides some threads from traces.",
                traced.breaks
            ));
        }
    }
    if record.gives_a_verdict() {
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

#[cfg(test)]
mod tests {
    use super::super::{CauseRecord, GateRecord, TracedRecord};
    use super::*;

    fn summary() -> SummaryRecord {
        let quantile = |q| QuantileRecord {
            q,
            value_ns: 123_456,
            interval_ns: Some((123_456, 999_000)),
            needed: None,
        };
        let quantiles = [0.01, 0.5, 0.99, 0.999, 0.9999, 0.99999].map(quantile).into();
        let (mean_ns, deviation_ns) = (7_412.345, 123_456.7);
        SummaryRecord { n: 9, min_ns: 1, max_ns: 888_000_000, mean_ns, deviation_ns, quantiles }
    }

    /// All that there can be, at its longest.
    fn record() -> Record {
        let series = SeriesRecord {
            gaps: Some(summary()),
            lateness: Some(summary()),
            spikes: 1_000_000,
            spikes_per_second: 99_999.99,
            spikes_per_second_95: (99_999.99, 99_999.99),
        };
        let cause = CauseRecord {
            kind: "thread".into(),
            name: "thread migration/1 (SCHED_FIFO) instead of the sink".into(),
            spikes: 1_000_000,
            ns: 1,
            remedy: Some("a remedy of some words, ".repeat(6)),
        };
        let traced = TracedRecord {
            events: 12_000_000,
            lost: 12_000_000,
            breaks: 9,
            joined: 1_000_000,
            cost_ns_per_event: Some(160.0),
            absent: vec!["irq_vectors:local_timer_entry".into()],
            stages: vec![("from the driver to the softirq".into(), summary()); 8],
            points: Vec::new(),
            excess_ns: 20,
            spikes: 1_000_000,
            named_share: 1.0,
            causes: vec![cause; 20],
            stage_ledger: Vec::new(),
            worst: Vec::new(),
            mean_batch: Some(1.0),
            means: "tracefs".into(),
            counted: Some(1_000_000),
        };
        Record {
            id: "E2".into(),
            published: Some("a band".into()),
            reality: Some("real".into()),
            sender: Some(series.clone()),
            sink: Some(series),
            traced: Some(traced),
            ..Record::default()
        }
    }

    #[test]
    fn a_record_fits_one_screen() {
        let withheld = GateRecord {
            name: "generator".into(),
            passes: false,
            found: "its lateness is 1 µs at 99.9 % (limit 2), ".repeat(3),
        };
        for gates in [vec![], vec![withheld; 3]] {
            let text = screen(&Record { gates, ..record() });
            assert!(text.lines().count() <= 50, "{} lines: {text}", text.lines().count());
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    #[test]
    fn long_notes_are_folded() {
        let [long, short] = ["l".repeat(WIDTH - 2), "s".repeat(2)];
        assert_eq!(folded(&format!("{long} a {short}")), format!("{long} a\n{short}\n"));
        assert_eq!(folded(&format!("{long} {short} a")), format!("{long}\n{short} a\n"));
        assert_eq!(folded(&format!("a {long}{short}b")), format!("a\n{long}{short}b\n"));
        assert_eq!(folded(""), "\n");
    }
}
