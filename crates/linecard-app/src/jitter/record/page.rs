//! Records as one page.

use super::{QuantileRecord, Record, SummaryRecord, text};
use linecard_report::{
    Axis, Finding, Histograms, Ledger, Page, Spread, Table, TimeSeries, Unit, Value, Verdict,
    Verdicts,
};

/// Causes that have a bar of their own.
const BARS: usize = 12;
/// Spikes that are shown one by one.
const SHOWN: usize = 20;

/// A page of all, one behind the other, with their summary first.
pub fn page(title: &str, records: &[Record]) -> Page {
    let mut page = Page::new(title);
    page.headline(headline(records));
    if records.len() > 1 {
        page.table(overview(records));
    }
    for record in records {
        one(&mut page, record, records.len() > 1);
    }
    let gates = gates(records);
    page.heading("Gates").verdicts(gates);
    page
}

/// How late, how sure, and why.
pub fn headline(records: &[Record]) -> String {
    match records {
        [] => "Nothing was measured.".to_owned(),
        [one] if one.id.is_empty() => sentence(one),
        [one] => format!("{}: {}", name(one), sentence(one)),
        several => of_several(several),
    }
}

/// Which experiments show the host without a disturbance of the lab's own making, the best first.
const BASELINES: [&str; 3] = ["E2", "E3", "E0"];

/// The baseline is the host's jitter; the others add a source each, and stand beside it by name.
fn of_several(records: &[Record]) -> String {
    let is_measured = |record: &&Record| record.arrived > 0;
    let baseline = BASELINES.iter().find_map(|id| {
        records.iter().filter(is_measured).find(|record| record.id.eq_ignore_ascii_case(id))
    });
    let host = baseline.map_or_else(
        || "The host without a disturbance (E2) was not measured.".to_owned(),
        |baseline| format!("This host, nothing added ({}): {}", name(baseline), sentence(baseline)),
    );
    let each: Vec<String> = records.iter().map(each).collect();
    let doubtful = records.iter().filter(|record| record.arrived > 0 && !record.gives_a_verdict());
    let doubtful: Vec<&str> = doubtful.map(|record| record.id.as_str()).collect();
    let doubt = match doubtful.as_slice() {
        [] => String::new(),
        ids => format!(" No verdict for {}.", ids.join(", ")),
    };
    format!("{host} Late at 99.9 %, each experiment by itself: {}.{doubt}", each.join(", "))
}

/// Result of one of several.
fn each(record: &Record) -> String {
    let late = record.sink.as_ref().and_then(|sink| sink.lateness.as_ref());
    let late = late.and_then(|late| late.at(0.999)).map(|late| Value::Ns(late.value_ns as f64));
    format!("{} {}", record.id, late.map_or("not measured".to_owned(), |late| late.to_string()))
}

fn name(record: &Record) -> String {
    format!("{} {}", record.id, record.title).trim().to_owned()
}

/// How late the packets of one experiment were, and why.
fn sentence(record: &Record) -> String {
    let late = record.sink.as_ref().and_then(|sink| sink.lateness.as_ref());
    let late = late.map_or(String::new(), |late| {
        let at = |q: f64| Value::Ns(late.at(q).map_or(0, |quantile| quantile.value_ns) as f64);
        let most = Value::Ns(late.max_ns as f64);
        let what = if record.is_busy_loop() { "laps" } else { "packets" };
        format!(
            "Half the {what} are at most {} late, 99.9 % {}, the latest {most}. ",
            at(0.5),
            at(0.999)
        )
    });
    if record.arrived == 0 {
        return format!("Nothing was measured: {}.", record.reasons().join("; "));
    }
    let causes: Vec<&str> = record.main_causes().take(3).map(|cause| cause.name.as_str()).collect();
    let why = if causes.is_empty() {
        String::new()
    } else {
        format!("Most of the delay: {}. ", causes.join("; "))
    };
    let sure = if record.gives_a_verdict() {
        "All gates hold.".to_owned()
    } else {
        format!("No verdict, for what was found at: {}.", record.failed_gates())
    };
    format!("{late}{why}{sure}")
}

fn gates(records: &[Record]) -> Verdicts {
    let all = records.iter().flat_map(|record| &record.gates);
    let (count, holds) = (all.clone().count(), all.filter(|gate| gate.passes).count());
    let title = format!("Conditions for a verdict: {holds} of {count} gates hold");
    let mut verdicts = Verdicts::new("gates", title);
    verdicts.folded();
    for record in records {
        for gate in &record.gates {
            verdicts.push(Verdict {
                key: "gate",
                name: format!("{} {}", record.id, gate.name).trim().to_owned(),
                outcome: if gate.passes { Finding::Pass } else { Finding::Withheld },
                measured: None,
                limit: String::new(),
                why: gate.found.clone(),
            });
        }
    }
    verdicts
}

fn overview(records: &[Record]) -> Table {
    let mut table = Table::new("experiments", "Experiments");
    table.columns([
        ("id", "experiment"),
        ("title", "what"),
        ("deviation_ns", "deviation of gaps"),
        ("p999_ns", "gap, 99.9 %"),
        ("max_ns", "gap, most"),
        ("spikes", "beyond two periods"),
        ("published", "the paper"),
        ("reality", "here"),
    ]);
    for record in records {
        let gaps = record.sink.as_ref().and_then(|sink| sink.gaps.as_ref());
        let at = |value: Option<f64>| value.map_or(Value::Text("–".to_owned()), Value::Ns);
        let p999 = gaps.and_then(|gaps| gaps.at(0.999));
        table.row(vec![
            Value::Text(record.id.clone()),
            Value::Text(record.title.clone()),
            at(gaps.map(|gaps| gaps.deviation_ns)),
            at(p999.map(|quantile| quantile.value_ns as f64)),
            at(gaps.map(|gaps| gaps.max_ns as f64)),
            Value::Count(record.sink.as_ref().map_or(0, |sink| sink.spikes)),
            Value::Text(record.published.clone().unwrap_or_default()),
            Value::Text(record.reality.clone().unwrap_or_default()),
        ]);
    }
    table
}

/// One experiment: its answer, its charts, and then its figures.
fn one(page: &mut Page, record: &Record, is_of_several: bool) {
    page.heading(name(record));
    if is_of_several {
        page.note(sentence(record));
    }
    if record.period_ns == 0 {
        page.summary(&text::report(record));
        return;
    }
    ledger(page, record);
    let time = || Axis::new("time", Unit::Seconds);
    if !record.gaps.is_empty() {
        let mut chart = TimeSeries::new("gaps", "Time from packet to packet in the application");
        chart.x(time()).y(Axis::new("gap", Unit::Ns).log()).dots("gap", record.gaps.clone());
        page.chart(chart);
        let mut chart = TimeSeries::new("lateness", "Lateness in the application");
        chart
            .x(time())
            .y(Axis::new("lateness", Unit::Ns))
            .dots("lateness", record.lateness.clone());
        page.chart(chart);
    }
    let mut chart = Histograms::new("gap_histogram", "Distribution of gaps", "gaps");
    chart.x(Axis::new("gap", Unit::Ns).log());
    for (name, buckets) in &record.histograms {
        chart.push(name.clone(), buckets.clone());
    }
    page.chart(chart);
    traced(page, record);
    page.summary(&text::report(record));
    page.table(all_quantiles(record)).table(conditions(record));
}

fn conditions(record: &Record) -> Table {
    let mut table = Table::new("conditions", "Conditions");
    table.columns([("what", "what"), ("value", "value")]);
    let measured = record.measured.iter().map(|at| ("measured", at.as_str()));
    let conditions = record.conditions.iter().map(|(what, value)| (what.as_str(), value.as_str()));
    for (what, value) in measured.chain(conditions) {
        table.row(vec![Value::Text(what.to_owned()), Value::Text(value.to_owned())]);
    }
    table.folded();
    table
}

/// Each quantile of gaps and lateness at both ends, with where it lies.
fn all_quantiles(record: &Record) -> Table {
    let mut table = Table::new("quantiles", "Quantiles, with intervals (95 %)");
    table.columns([
        ("of", "of"),
        ("share", "share"),
        ("value_ns", "value"),
        ("lower_ns", "from"),
        ("upper_ns", "to"),
        ("needed", "samples needed"),
    ]);
    for (end, series) in [("sender", &record.sender), ("application", &record.sink)] {
        let Some(series) = series else { continue };
        for (name, summary) in [("gap", &series.gaps), ("lateness", &series.lateness)] {
            for quantile in summary.iter().flat_map(|summary| &summary.quantiles) {
                table.row(quantile_row(format!("{end}, {name}"), quantile));
            }
        }
    }
    table.folded();
    table
}

fn quantile_row(of: String, quantile: &QuantileRecord) -> Vec<Value> {
    let none = || Value::Text("–".to_owned());
    let ns = |ns: i64| Value::Ns(ns as f64);
    let [lower, upper] =
        quantile.interval_ns.map_or([none(), none()], |(lower, upper)| [ns(lower), ns(upper)]);
    vec![
        Value::Text(of),
        Value::Text(percent(quantile.q)),
        ns(quantile.value_ns),
        lower,
        upper,
        quantile.needed.map_or_else(none, Value::Count),
    ]
}

/// A share without what binary fractions add: 99.999 %, not 99.99900000000001 %.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Where the time went that made packets late.
fn ledger(page: &mut Page, record: &Record) {
    let Some(traced) = &record.traced else { return };
    let mut chart = Ledger::new("ledger", "Where the excess went", Axis::new("excess", Unit::Ns));
    chart.whole(traced.excess_ns as f64);
    for cause in traced.causes.iter().take(BARS) {
        chart.cause(cause.name.clone(), cause.ns as f64, cause.spikes);
    }
    // A kept result may have been edited.
    let rest = traced.causes.iter().skip(BARS).map(|cause| cause.ns);
    let rest = rest.fold(0, u64::saturating_add);
    if rest > 0 {
        chart.rest("all others", rest as f64);
    }
    page.chart(chart);
}

fn traced(page: &mut Page, record: &Record) {
    let Some(traced) = &record.traced else { return };
    for (key, title, rows) in [
        ("stage_spread", "Time in each stage of a packet's path", &traced.stages),
        ("gap_spread", "Gaps between the points of the path", &traced.points),
    ] {
        let mut chart = Spread::new(key, title, Axis::new("time", Unit::Ns).log());
        for (name, summary) in rows {
            chart.stage(name.clone(), summary.n, quantiles(summary));
        }
        page.chart(chart);
    }
    let mut table = Table::new("spikes", "The largest spikes");
    table.columns([
        ("at_seconds", "at"),
        ("sequence", "packet"),
        ("gap_ns", "gap"),
        ("excess_ns", "excess"),
        ("charges", "charged to"),
    ]);
    for spike in traced.worst.iter().take(SHOWN) {
        let charges = spike.charges.iter().take(3);
        let charges: Vec<String> = charges
            .map(|(stage, cause, ns)| format!("{} {cause} ({stage})", Value::Ns(*ns as f64)))
            .collect();
        table.row(vec![
            Value::Seconds(spike.at_seconds),
            Value::Count(spike.sequence),
            Value::Ns(spike.gap_ns as f64),
            Value::Ns(spike.excess_ns as f64),
            Value::Text(charges.join("; ")),
        ]);
    }
    page.table(table);
}

/// 1 %, 50 %, 99 %, 99.99 % and the most, as the chart has them.
fn quantiles(summary: &SummaryRecord) -> [Option<f64>; 5] {
    let at = |q: f64| {
        let found = summary.at(q)?;
        found.interval_ns.map(|_| above_zero(found.value_ns))
    };
    [at(0.01), at(0.5), at(0.99), at(0.9999), Some(above_zero(summary.max_ns))]
}

/// Logarithmic axes begin above zero.
fn above_zero(ns: i64) -> f64 {
    ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::{CauseRecord, GateRecord, SeriesRecord, SpikeRecord, TracedRecord};
    use super::*;

    /// An experiment whose packets are that late at 50 and 99.9 %.
    fn record(id: &str, title: &str, late_ns: [i64; 2]) -> Record {
        let quantile =
            |(q, value_ns)| QuantileRecord { q, value_ns, interval_ns: None, needed: None };
        let lateness = SummaryRecord {
            n: 100,
            min_ns: 0,
            max_ns: 2 * late_ns[1],
            mean_ns: 1.0,
            deviation_ns: 1.0,
            quantiles: [0.5, 0.999].into_iter().zip(late_ns).map(quantile).collect(),
        };
        let series = SeriesRecord {
            gaps: Some(lateness.clone()),
            lateness: Some(lateness),
            spikes: 0,
            spikes_per_second: 0.0,
            spikes_per_second_95: (0.0, 1.0),
        };
        let gate = GateRecord { name: "generator".into(), passes: true, found: "good".into() };
        Record {
            id: id.into(),
            title: title.into(),
            period_ns: 7_420,
            sent: 100,
            arrived: 100,
            gates: vec![gate],
            sink: Some(series),
            traced: Some(traced()),
            gaps: vec![(0.0, 1.0)],
            ..Record::default()
        }
    }

    fn traced() -> TracedRecord {
        let cause = "interrupt 24 virtio0-input.0 and what it takes to get there and back";
        TracedRecord {
            events: 700,
            lost: 0,
            breaks: 0,
            joined: 100,
            cost_ns_per_event: None,
            means: "bpf".into(),
            counted: None,
            absent: Vec::new(),
            stages: Vec::new(),
            points: Vec::new(),
            excess_ns: 10,
            spikes: 1,
            named_share: 1.0,
            causes: vec![CauseRecord {
                kind: "interrupt".into(),
                name: cause.into(),
                spikes: 1,
                ns: 10,
                remedy: None,
            }],
            stage_ledger: Vec::new(),
            worst: vec![SpikeRecord {
                sequence: 7,
                at_seconds: 0.5,
                gap_ns: 20_000,
                excess_ns: 12_000,
                charges: vec![("softirq".into(), cause.into(), 12_000); 3],
            }],
            mean_batch: None,
        }
    }

    #[test]
    fn the_headline_is_of_the_baseline() {
        let throttled = || record("E8", "interrupts throttled", [50_000, 98_000]);
        let all = [
            record("E0", "quality", [1_000, 3_000]),
            record("E2", "baseline", [2_000, 5_000]),
            Record { id: "E5".into(), ..Record::default() },
            throttled(),
        ];
        let text = headline(&all);
        assert!(
            text.starts_with("This host, nothing added (E2 baseline): Half the packets"),
            "{text}"
        );
        let (host, each) = text.split_once("Late at 99.9 %").unwrap();
        assert!(host.contains("2.00 µs") && !host.contains("98"), "{text}");
        assert!(each.contains("E8 98.00 µs") && !each.contains("No verdict"), "{text}");
        assert!(each.contains("E2 5.00 µs") && each.contains("E5 not measured"), "{text}");
        let text = headline(&[throttled(), throttled()]);
        assert!(text.starts_with("The host without a disturbance (E2) was not measured"), "{text}");
        assert!(headline(&[throttled()]).starts_with("E8 interrupts throttled: Half"));
        assert_eq!(headline(&[]), "Nothing was measured.");
    }

    #[test]
    fn charts_come_before_gates() {
        let html = page("Jitter", &[record("E2", "baseline", [2_000, 5_000])]).html();
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}: {html}"));
        assert!(at("Half the packets") < at("<figure"));
        assert!(at("Where the excess went") < at("Time from packet to packet"));
        assert!(at("<figure") < at("1 of 1 gates hold"));
        assert!(html.contains("<summary>Conditions for a verdict"));
        // A number does not break into lines: in its column causes would be cut off.
        assert!(html.contains("\"charged to\">12.00 µs interrupt 24"), "{html}");
    }

    #[test]
    fn shares_read_well() {
        for (share, text) in
            [(0.01, "1 %"), (0.5, "50 %"), (0.999, "99.9 %"), (0.99999, "99.999 %"), (1.0, "100 %")]
        {
            assert_eq!(percent(share), text);
        }
    }
}
