//! Records as one page.

use super::{QuantileRecord, Record, SummaryRecord, text};
use linecard::report::Value;
use linecard_report::{
    Axis, Histograms, Ledger, Outcome, Page, Spread, Table, TimeSeries, Unit, Verdict, Verdicts,
};

/// Causes that have a bar of their own.
const BARS: usize = 12;
/// Spikes that are shown one by one.
const SHOWN: usize = 20;

/// A page of all, one behind the other, with what they come to first.
pub(crate) fn page(title: &str, records: &[Record]) -> Page {
    let mut page = Page::new(title);
    page.headline(headline(records));
    page.verdicts(gates(records));
    if records.len() > 1 {
        page.table(overview(records));
    }
    for record in records {
        one(&mut page, record);
    }
    page
}

/// How late, how sure, and why.
pub(crate) fn headline(records: &[Record]) -> String {
    let Some(record) =
        records.iter().rev().find(|record| record.traced.is_some()).or(records.last())
    else {
        return "Nothing was measured.".to_owned();
    };
    let late = record.sink.as_ref().and_then(|sink| sink.lateness.as_ref());
    let late = late.map_or(String::new(), |late| {
        let at = |q: f64| Value::Ns(late.at(q).map_or(0, |quantile| quantile.value_ns) as f64);
        let most = Value::Ns(late.max_ns as f64);
        format!(
            "Half the packets are at most {} late, 99.9 % {}, the latest {most}. ",
            at(0.5),
            at(0.999)
        )
    });
    let causes: Vec<&str> = record.main_causes().take(3).map(|cause| cause.name.as_str()).collect();
    let why = if causes.is_empty() {
        String::new()
    } else {
        format!("Most of the delay: {}. ", causes.join("; "))
    };
    let sure = if record.carries_a_verdict() {
        "All gates hold.".to_owned()
    } else {
        format!("No verdict, for what was found at: {}.", record.failed_gates())
    };
    format!("{late}{why}{sure}")
}

fn gates(records: &[Record]) -> Verdicts {
    let mut verdicts =
        Verdicts::new("gates", "Gates: what has to hold before figures carry a verdict");
    for record in records {
        for gate in &record.gates {
            verdicts.push(Verdict {
                key: "gate",
                name: format!("{} {}", record.id, gate.name).trim().to_owned(),
                outcome: if gate.passes { Outcome::Pass } else { Outcome::Withheld },
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

fn one(page: &mut Page, record: &Record) {
    page.heading(format!("{} {}", record.id, record.title).trim().to_owned());
    page.summary(&text::report(record));
    if record.period_ns == 0 {
        return;
    }
    let mut conditions = Table::new("conditions", "Conditions");
    conditions.columns([("what", "what"), ("value", "value")]);
    for (what, value) in &record.conditions {
        conditions.row(vec![Value::Text(what.clone()), Value::Text(value.clone())]);
    }
    page.table(conditions);
    page.table(all_quantiles(record));
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
    let mut chart = Histograms::new("gap_histogram", "How often which gap", "gaps");
    chart.x(Axis::new("gap", Unit::Ns).log());
    for (name, buckets) in &record.histograms {
        chart.push(name.clone(), buckets.clone());
    }
    page.chart(chart);
    traced(page, record);
}

/// Each quantile of gaps and lateness at both ends, with where it lies.
fn all_quantiles(record: &Record) -> Table {
    let mut table = Table::new("quantiles", "Quantiles, with where they lie (95 %)");
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
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn traced(page: &mut Page, record: &Record) {
    let Some(traced) = &record.traced else { return };
    for (key, title, rows) in [
        ("stage_spread", "Time in each stage of a packet's way", &traced.stages),
        ("gap_spread", "Gaps from point to point of the way", &traced.points),
    ] {
        let mut chart = Spread::new(key, title, Axis::new("time", Unit::Ns).log());
        for (name, summary) in rows {
            chart.stage(name.clone(), summary.n, quantiles(summary));
        }
        page.chart(chart);
    }
    let mut chart = Ledger::new("ledger", "Where the excess went", Axis::new("excess", Unit::Ns));
    chart.whole(traced.excess_ns as f64);
    for cause in traced.causes.iter().take(BARS) {
        chart.cause(cause.name.clone(), cause.ns as f64, cause.spikes);
    }
    // A kept result may have been changed by anybody.
    let rest = traced.causes.iter().skip(BARS).map(|cause| cause.ns);
    let rest = rest.fold(0, u64::saturating_add);
    if rest > 0 {
        chart.rest("all others", rest as f64);
    }
    page.chart(chart);
    let mut table = Table::new("spikes", "The largest spikes");
    table.columns([
        ("at_s", "at"),
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
            Value::Seconds(spike.at_s),
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
    #[test]
    fn shares_read_well() {
        for (share, text) in
            [(0.01, "1 %"), (0.5, "50 %"), (0.999, "99.9 %"), (0.99999, "99.999 %"), (1.0, "100 %")]
        {
            assert_eq!(super::percent(share), text);
        }
    }
}
