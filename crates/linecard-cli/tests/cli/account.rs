//! The account as text and as JSON: the same values.

use crate::folder::Folder;
use linecard_report::Value;
use serde_json::Value as Json;

type Show = fn(f64) -> Value;

const COUNT: Show = |number| Value::Count(number as u64);
const BYTES: Show = |number| Value::Bytes(number as u64);
const NUMBER: Show = Value::Number;
const NS: Show = Value::Ns;

const MERGING: [(&str, &str, Show); 11] = [
    ("packets_in", "packets in", COUNT),
    ("bytes_in", "bytes in", BYTES),
    ("packets_out", "packets out", COUNT),
    ("bytes_out", "bytes out", BYTES),
    ("merged", "merged into another", COUNT),
    ("passed", "passed alone", COUNT),
    ("mean_aggregate", "mean aggregate", NUMBER),
    ("largest_aggregate", "largest aggregate", COUNT),
    ("hold_ns_p50", "held, median", NS),
    ("hold_ns_p99", "held, 99th percentile", NS),
    ("hold_ns_max", "held, longest", NS),
];
const PACKETS: [(&str, &str, Show); 4] = [
    ("packets_in", "packets in", COUNT),
    ("packets_out", "packets out", COUNT),
    ("untouched", "untouched", COUNT),
    ("restored", "taken apart as merged", COUNT),
];
const SEGMENTING: [(&str, &str, Show); 7] = [
    ("packets_in", "large packets in", COUNT),
    ("segments_out", "segments out", COUNT),
    ("bytes_out", "bytes out", BYTES),
    ("bom", "first (BOM)", COUNT),
    ("com", "middle (COM)", COUNT),
    ("eom", "last (EOM)", COUNT),
    ("ssm", "single (SSM)", COUNT),
];

/// The rows of the section with this title.
fn rows<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| *line != title).skip(1);
    lines.take_while(|line| line.starts_with("  ")).collect()
}

/// Every value of the JSON section is in a row of the text section, and nothing else is.
fn same(text: &str, title: &str, json: &Json, keys: &[(&str, &str, Show)]) {
    let rows = rows(text, title);
    let section = json.as_object().unwrap();
    assert_eq!((rows.len(), section.len()), (keys.len(), keys.len()), "{title}: {text}");
    for (key, label, show) in keys {
        let value = show(section[*key].as_f64().unwrap()).to_string();
        let wanted = |row: &&&str| row.trim().strip_prefix(label).map(str::trim) == Some(&value);
        assert_eq!(rows.iter().filter(wanted).count(), 1, "{label} {value}: {rows:?}");
    }
}

fn same_reasons(text: &str, title: &str, json: &Json) {
    let (rows, section) = (rows(text, title), json.as_object().unwrap());
    assert_eq!(rows.len(), section.len(), "{title}");
    for (reason, count) in section {
        let count = Value::Count(count.as_u64().unwrap()).to_string();
        let mut words = rows.iter().map(|row| row.split_whitespace());
        let found = words.any(|mut w| w.next() == Some(reason) && w.next() == Some(&count));
        assert!(found, "{reason} {count}: {rows:?}");
    }
}

fn parse(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

#[test]
fn coalesce_says_the_same_in_both() {
    for name in ["tcp4-bulk.pcap", "tcp4-reorder.pcap", "udp6.pcap", "tcp4-two-interfaces.pcapng"] {
        let folder = Folder::with_capture(name);
        let text = folder.succeeds(&["coalesce", "in.pcap", "out.pcapng"]);
        let json = parse(&folder.succeeds(&["coalesce", "in.pcap", "out.pcapng", "--json"]));
        assert_eq!(json["job"], "coalesce");
        same(&text, "Merging (LRO)", &json["merging"], &MERGING);
        same_reasons(&text, "Why held packets were flushed", &json["flushed"]);
        same_reasons(&text, "Why packets did not merge", &json["refused"]);
        assert!(json["merging"]["merged"].as_u64().unwrap() > 10, "{name}");
    }
}

#[test]
fn segment_says_the_same_in_both() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.succeeds(&["coalesce", "in.pcap", "merged.pcapng"]);
    let text = folder.succeeds(&["segment", "merged.pcapng", "out.pcap"]);
    let json = parse(&folder.succeeds(&["segment", "merged.pcapng", "out.pcap", "--json"]));
    assert_eq!(json["job"], "segment");
    same(&text, "Packets", &json["packets"], &PACKETS);
    same(&text, "Segmenting (LSO)", &json["segmenting"], &SEGMENTING);
    assert_eq!(json["packets"]["packets_out"], 80);
}

#[test]
fn notes_are_the_same_in_both() {
    let folder = Folder::with_capture("tcp4-offload.pcap");
    let text = folder.succeeds(&["coalesce", "in.pcap", "out.pcapng"]);
    let json = parse(&folder.succeeds(&["coalesce", "in.pcap", "out.pcapng", "--json"]));
    let notes = json["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 1);
    assert!(text.contains(notes[0].as_str().unwrap()));
}
