//! Metrics of `linecard attach` and `linecard jitter watch`, read from the text that a scraper gets.

use super::{code, compare, table};
use linecard_app::attach::{metrics, reasons};
use linecard_app::jitter::watch;
use linecard_io::attach::{AttachStats, MergeStats};
use linecard_io::engine::SpreadCounters;
use linecard_tun::{Counters, Drops};

#[test]
fn metrics_are_those_that_a_scraper_gets() {
    // Every metric, of an attachment with one worker behind a ring.
    let ports = metrics::Ports { near: "xdp:eth0".into(), far: "tap:lc0".into() };
    let account = AttachStats {
        near: vec![Counters::default()],
        far: vec![Counters::default()],
        ingress: vec![MergeStats::default()],
        egress: vec![MergeStats::default()],
        spread: SpreadCounters { packets: vec![0], dropped: vec![0] },
        ..AttachStats::default()
    };
    let rows = rows_of(&metrics::text(&account, &ports));
    assert!(rows.len() > 15, "{rows:?}");
    let mut text = "What `linecard attach … --metrics ADDRESS:PORT` answers, as OpenMetrics text. \
                    [Two ports joined](../howto/attach.md#metrics) describes access. `port` is `near` or \
                    `far`, `direction` is `ingress` (to the far port) or `egress`. Histograms have `_bucket`, `_sum` and \
                    `_count`; times are in seconds.\n\n"
        .to_owned();
    text += &table(&["metric", "type", "labels", "meaning"], rows);
    text += "[Reasons](reasons.md) has those of `linecard_flushed_total` and \
             `linecard_refused_packets_total`. Those of `linecard_dropped_packets_total`:\n\n";
    let reasons = reasons(&Drops::default());
    let reasons = reasons.map(|(name, what, _)| vec![code(name), what.to_owned()]);
    text += &table(&["reason", "meaning"], reasons);
    text += "## Watched streams\n\nWhat `linecard jitter watch … --metrics ADDRESS:PORT` answers. `stream` is the address \
             as it was given; `place` is `before_socket`, `in_socket` or `at_application`.\n\n";
    text += &table(&["metric", "type", "labels", "meaning"], rows_of(&watch::metrics::sample()));
    compare("metrics.md", "Metrics", &text);
}

/// A row for each metric of a sample.
fn rows_of(sample: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for line in sample.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, what) = line.split_once(' ').expect("name and help");
        let kind = described(sample, "TYPE", name).expect("each has a type");
        // As samples are called.
        let shown = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let what = what.trim_end_matches('.').to_owned();
        rows.push(vec![code(&shown), kind.to_owned(), labels(sample, name), what]);
    }
    rows
}

/// The description of a metric in the sample.
fn described<'a>(sample: &'a str, what: &str, name: &str) -> Option<&'a str> {
    sample.lines().find_map(|line| line.strip_prefix(&format!("# {what} {name} ")))
}

/// Names of the labels of its values.
fn labels(sample: &str, name: &str) -> String {
    let mut values = sample.lines().filter(|line| line.starts_with(name));
    let first = values.find_map(|line| line.split_once('{')?.1.split_once('}'));
    let (labels, _) = first.expect("each metric has a value with labels");
    let names = labels.split(',').filter_map(|label| label.split_once('='));
    let names = names.map(|(label, _)| label).filter(|label| *label != "le");
    names.map(code).collect::<Vec<_>>().join(", ")
}
