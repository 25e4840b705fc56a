//! Two runs side by side: what has changed from one to the other, and whether that is more than chance.

use super::page::percent;
use super::{QuantileRecord, Record, SeriesRecord};
use linecard_report::{Axis, Histograms, Page, Table, Unit, Value};

/// Causes of an experiment that are compared.
const CAUSES: usize = 12;
/// The quantile of lateness that the headline compares.
const TOLD: f64 = 0.999;

/// Kept results of one run.
#[derive(Debug, Clone, Copy)]
pub struct RunRecords<'a> {
    /// Its name, as that of its folder.
    pub name: &'a str,
    /// Its experiments.
    pub records: &'a [Record],
}

/// A page of two runs: experiments that both have, side by side.
#[must_use]
pub fn compare(title: &str, runs: [RunRecords<'_>; 2]) -> Page {
    let mut page = Page::new(title);
    let shared = shared(runs);
    page.headline(headline(runs, &shared));
    page.table(figures(runs, &shared));
    page.note(
        "Intervals are of packets within each run: they do not cover how much runs differ from each other. `linecard \
         jitter ab` repeats both in turns, and says how sure a difference is.",
    );
    for pair in &shared {
        page.heading(format!("{} {}", pair[0].id, pair[0].title).trim());
        page.chart(gaps(runs, pair));
        if pair.iter().any(|record| record.traced.is_some()) {
            page.table(causes(runs, pair));
        }
        page.table(conditions(runs, pair));
    }
    page
}

/// Experiments of both runs that were measured, by name.
fn shared<'a>([first, second]: [RunRecords<'a>; 2]) -> Vec<[&'a Record; 2]> {
    let of_second = |id: &str| second.records.iter().find(|record| record.id == id);
    let pair = |record: &'a Record| Some([record, of_second(&record.id)?]);
    let mut pairs: Vec<[&Record; 2]> = first.records.iter().filter_map(pair).collect();
    pairs.retain(|pair| pair.iter().all(|record| record.arrived > 0));
    pairs
}

/// A figure of both, with the interval in which each is with 95 %.
struct Compared {
    name: String,
    values: [Value; 2],
    numbers: [f64; 2],
    intervals: [Option<(f64, f64)>; 2],
}

impl Compared {
    fn of_quantiles(name: String, both: [&QuantileRecord; 2]) -> Self {
        let interval = |one: &QuantileRecord| {
            one.interval_ns.map(|(lower, upper)| (lower as f64, upper as f64))
        };
        Self {
            name,
            values: both.map(|one| Value::Ns(one.value_ns as f64)),
            numbers: both.map(|one| one.value_ns as f64),
            intervals: both.map(interval),
        }
    }

    fn change(&self) -> Value {
        let [before, after] = self.numbers;
        if before <= 0.0 {
            return Value::Text("–".to_owned());
        }
        Value::Text(format!("{:+.0} %", 100.0 * (after / before - 1.0)))
    }

    /// Whether the intervals have nothing in common; nothing where one is missing.
    fn differs(&self) -> Option<bool> {
        let [Some(before), Some(after)] = self.intervals else { return None };
        Some(before.1 < after.0 || after.1 < before.0)
    }
}

/// The name of a quantile of lateness.
fn late_at(share: f64) -> String {
    format!("lateness, {}", percent(share))
}

/// The figures that a reader compares first.
fn compared(pair: &[&Record; 2]) -> Vec<Compared> {
    let [Some(first), Some(second)] = pair.map(|record| record.sink.as_ref()) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let summaries =
        |of: fn(&SeriesRecord) -> Option<&super::SummaryRecord>| of(first).zip(of(second));
    if let Some((before, after)) = summaries(|series| series.lateness.as_ref()) {
        for quantile in &before.quantiles {
            let Some(other) = after.at(quantile.q) else { continue };
            all.push(Compared::of_quantiles(late_at(quantile.q), [quantile, other]));
        }
        all.push(Compared {
            name: "lateness, most".to_owned(),
            values: [before, after].map(|summary| Value::Ns(summary.max_ns as f64)),
            numbers: [before, after].map(|summary| summary.max_ns as f64),
            intervals: [None; 2],
        });
    }
    let both = [first, second];
    all.push(Compared {
        name: "gaps beyond two periods, per second".to_owned(),
        values: both.map(|series| Value::Text(format!("{:.2}", series.spikes_per_second))),
        numbers: both.map(|series| series.spikes_per_second),
        intervals: both.map(|series| Some(series.spikes_per_second_95)),
    });
    all
}

fn verdict(record: &Record) -> &'static str {
    if record.gives_a_verdict() { "yes" } else { "withheld" }
}

fn headline(runs: [RunRecords<'_>; 2], shared: &[[&Record; 2]]) -> String {
    if shared.is_empty() {
        return format!("{} and {} have no experiment in common.", runs[0].name, runs[1].name);
    }
    let told = |pair: &[&Record; 2]| {
        let lateness = |record: &Record| {
            let summary = record.sink.as_ref()?.lateness.as_ref()?;
            Some(Value::Ns(summary.at(TOLD)?.value_ns as f64).to_string())
        };
        let [before, after] = pair.map(|record| lateness(record).unwrap_or("?".to_owned()));
        let name = late_at(TOLD);
        let differs =
            compared(pair).iter().find(|one| one.name == name).and_then(Compared::differs);
        let how = match differs {
            Some(true) => "",
            Some(false) => ", by chance, perhaps",
            None => " (too few packets for an interval)",
        };
        format!("{} {before} to {after}{how}", pair[0].id).trim().to_owned()
    };
    let each: Vec<String> = shared.iter().map(told).collect();
    let is_withheld = |pair: &&[&Record; 2]| !pair.iter().all(|record| record.gives_a_verdict());
    let withheld: Vec<&str> =
        shared.iter().filter(is_withheld).map(|pair| pair[0].id.as_str()).collect();
    let doubt = match withheld.as_slice() {
        [] => String::new(),
        ids => format!(
            " No verdict for {}: one of the runs, or both, describe a disturbance.",
            ids.join(", ")
        ),
    };
    format!(
        "Late at {}, from {} to {}: {}.{doubt}",
        percent(TOLD),
        runs[0].name,
        runs[1].name,
        each.join("; ")
    )
}

fn figures(runs: [RunRecords<'_>; 2], shared: &[[&Record; 2]]) -> Table {
    let mut table = Table::new("compared", "Both runs");
    table.columns([
        ("id", "experiment".to_owned()),
        ("figure", "figure".to_owned()),
        ("first", runs[0].name.to_owned()),
        ("second", runs[1].name.to_owned()),
        ("change", "change".to_owned()),
        ("differs", "intervals (95 %) apart".to_owned()),
        ("verdicts", "verdicts".to_owned()),
    ]);
    for pair in shared {
        for one in compared(pair) {
            let differs = match one.differs() {
                Some(true) => "yes",
                Some(false) => "no",
                None => "no interval",
            };
            let change = one.change();
            let [first, second] = one.values;
            table.row(vec![
                Value::Text(pair[0].id.clone()),
                Value::Text(one.name),
                first,
                second,
                change,
                Value::Text(differs.to_owned()),
                Value::Text(pair.map(verdict).join(", ")),
            ]);
        }
    }
    table
}

/// The gaps of both in the application.
fn gaps(runs: [RunRecords<'_>; 2], pair: &[&Record; 2]) -> Histograms {
    let mut chart = Histograms::new("gap_histogram", "Gaps in the application", "gaps");
    chart.x(Axis::new("gap", Unit::Ns).log());
    for (run, record) in runs.iter().zip(pair) {
        // The application is the last point.
        if let Some((_, buckets)) = record.histograms.last() {
            chart.push(run.name, buckets.clone());
        }
    }
    chart
}

/// Time of each cause for a million packets.
fn causes(runs: [RunRecords<'_>; 2], pair: &[&Record; 2]) -> Table {
    let time_ns = |record: &Record, name: &str| {
        let causes = record.traced.iter().flat_map(|traced| &traced.causes);
        let ns = causes.filter(|cause| cause.name == name).map(|cause| cause.ns as f64);
        ns.sum::<f64>() * 1e6 / record.arrived.max(1) as f64
    };
    let causes = pair.iter().flat_map(|record| &record.traced).flat_map(|traced| &traced.causes);
    let mut names = distinct(causes.map(|cause| cause.name.as_str()));
    let most = |name: &str| pair.iter().map(|record| time_ns(record, name)).fold(0.0, f64::max);
    names.sort_by(|one, other| most(other).total_cmp(&most(one)));
    let mut table = Table::new("causes", "Time of causes, for a million packets");
    table.columns([("cause", "cause"), ("first_ns", runs[0].name), ("second_ns", runs[1].name)]);
    for name in names.into_iter().take(CAUSES) {
        let [first, second] = pair.map(|record| Value::Ns(time_ns(record, name)));
        table.row(vec![Value::Text(name.to_owned()), first, second]);
    }
    table
}

/// Each name once, in the order of the first of them.
fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Conditions that are not the same.
fn conditions(runs: [RunRecords<'_>; 2], pair: &[&Record; 2]) -> Table {
    let of = |record: &Record, name: &str| {
        let found = record.conditions.iter().find(|(what, _)| what == name);
        found.map_or(String::new(), |(_, value)| value.clone())
    };
    let mut table = Table::new("conditions", "Conditions that differ");
    table.columns([("what", "what"), ("first", runs[0].name), ("second", runs[1].name)]);
    let measured = pair.map(|record| record.measured.clone().unwrap_or_default());
    let [first, second] = measured.map(Value::Text);
    table.row(vec![Value::Text("measured".to_owned()), first, second]);
    let names = pair.iter().flat_map(|record| &record.conditions).map(|(name, _)| name.as_str());
    for name in distinct(names) {
        let values = pair.map(|record| of(record, name));
        if values[0] != values[1] {
            let [first, second] = values.map(Value::Text);
            table.row(vec![Value::Text(name.to_owned()), first, second]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::{CauseRecord, SummaryRecord, TracedRecord};
    use super::*;

    fn record(late_ns: i64, width_ns: i64, gzip_ns: u64) -> Record {
        let quantile = QuantileRecord {
            q: TOLD,
            value_ns: late_ns,
            interval_ns: Some((late_ns - width_ns, late_ns + width_ns)),
            needed: None,
        };
        let lateness = SummaryRecord {
            n: 1_000_000,
            min_ns: 0,
            max_ns: 2 * late_ns,
            mean_ns: 1.0,
            deviation_ns: 1.0,
            quantiles: vec![quantile],
        };
        let sink = SeriesRecord {
            gaps: None,
            lateness: Some(lateness),
            spikes: 3,
            spikes_per_second: 3.0,
            spikes_per_second_95: (1.0, 5.0),
        };
        let cause = CauseRecord {
            kind: "thread".to_owned(),
            name: "thread gzip".to_owned(),
            spikes: 1,
            ns: gzip_ns,
            remedy: None,
        };
        let traced = TracedRecord {
            events: 1,
            lost: 0,
            breaks: 0,
            joined: 1,
            cost_ns_per_event: None,
            means: String::new(),
            counted: None,
            absent: Vec::new(),
            stages: Vec::new(),
            points: Vec::new(),
            excess_ns: 1,
            spikes: 1,
            named_share: 1.0,
            causes: vec![cause],
            stage_ledger: Vec::new(),
            worst: Vec::new(),
            mean_batch: None,
        };
        Record {
            id: "E2".to_owned(),
            arrived: 2_000_000,
            sink: Some(sink),
            traced: Some(traced),
            conditions: vec![(format!("{} cores", late_ns % 7), late_ns.to_string())],
            histograms: vec![("application".to_owned(), vec![(1.0, 2.0, 7)])],
            ..Record::default()
        }
    }

    fn beside(records: [&[Record]; 2]) -> (String, serde_json::Value) {
        let [first, second] = records;
        let runs = [("before", first), ("after", second)];
        let page = compare("Two runs", runs.map(|(name, records)| RunRecords { name, records }));
        (page.html(), serde_json::from_str(&page.json()).expect("JSON"))
    }

    #[test]
    fn what_differs_by_more_than_its_interval_is_named() {
        let (before, after) = (record(10_000, 500, 4_000_000), record(20_000, 500, 8_000_000));
        let (html, json) = beside([&[before], &[after]]);
        assert!(html.contains("from before to after: E2 10.00 µs to 20.00 µs."), "{html}");
        let row = &json["tables"][0]["rows"][0];
        assert_eq!((&row["change"], &row["differs"]), (&"+100 %".into(), &"yes".into()), "{row}");
        // 4 ms in two million packets.
        assert_eq!(json["tables"][1]["rows"][0]["first_ns"], 2_000_000.0, "{json}");
        // One that only the second has.
        assert_eq!(json["tables"][2]["rows"][2]["second"], "20000", "{json}");
    }

    #[test]
    fn what_may_be_chance_is_said() {
        let (html, json) = beside([&[record(10_000, 900, 1)], &[record(11_000, 900, 1)]]);
        assert!(html.contains("10.00 µs to 11.00 µs, by chance, perhaps"), "{html}");
        assert_eq!(json["tables"][0]["rows"][0]["differs"], "no");
        let (html, _) = beside([&[], &[record(1, 1, 1)]]);
        assert!(html.contains("no experiment in common"), "{html}");
    }
}
