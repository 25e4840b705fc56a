//! Rows of a sweep: the values of a point, its results, and why it could not be run.

use super::super::transmit::figures::Figures;
use crate::Error;
use linecard::offload::segment::Class;
use linecard_io::capture::OutputFile;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Names of the results of runs: those of `linecard model run --json` where it has them.
pub(super) const FIGURES: [&str; 16] = [
    "packets_right",
    "packets_wrong",
    "payload_out",
    "ps",
    "packets_per_second",
    "cycles_per_packet",
    "goodput_bits_per_second",
    "wire_bits_per_second",
    "line_share",
    "core_busy",
    "core_stalled",
    "core_bubbles",
    "dma_busy",
    "com_total_mean",
    "com_idle_mean",
    "hash",
];

/// Result of a point.
pub(super) struct PointResult {
    pub(super) values: Vec<Value>,
    pub(super) is_right: bool,
}

/// Figures of a run, in the order of [`FIGURES`].
pub(super) fn values(run: &Figures) -> Vec<Value> {
    let [busy, stalled, bubbles] = run.core_shares();
    let com = run.class(Class::Com);
    vec![
        json!(run.outcome.right),
        json!(run.outcome.wrong),
        json!(run.payload().1),
        json!(run.outcome.left.0),
        json!(run.packets_per_second()),
        json!(run.cycles_per_packet()),
        json!(run.goodput()),
        json!(run.wire_rate()),
        json!(run.line_share()),
        json!(busy),
        json!(stalled),
        json!(bubbles),
        json!(run.dma_share()),
        json!(com.total.mean()),
        json!(com.idle.mean()),
        json!(format!("{:016x}", run.outcome.hash)),
    ]
}

/// Names of the columns, in order: the varied keys, the results of a point, why it could not be run.
pub(super) fn names(varied: &[String], found: &[&str]) -> Vec<String> {
    let found = found.iter().chain(&["error"]).map(|name| (*name).to_owned());
    varied.iter().cloned().chain(found).collect()
}

/// A point's row, of its values: null where there is nothing to say.
pub(super) fn row(
    mut row: Vec<Value>,
    result: &Result<PointResult, Error>,
    columns: usize,
) -> Vec<Value> {
    match result {
        Ok(found) => {
            row.extend_from_slice(&found.values);
            row.push(Value::Null);
        }
        Err(why) => {
            row.extend((0..columns).map(|_| Value::Null));
            row.push(json!(why.to_string()));
        }
    }
    row
}

/// Where rows go.
pub(super) trait Rows {
    /// Takes the next row.
    fn add(&mut self, row: Vec<Value>) -> io::Result<()>;
    /// Completes the file's content; the caller gives it its name.
    fn finish(self: Box<Self>) -> io::Result<OutputFile>;
}

/// Values with commas between them, names first.
pub(super) struct Csv(OutputFile);

impl Csv {
    pub(super) fn start(mut out: OutputFile, names: &[String]) -> io::Result<Self> {
        writeln!(out, "{}", names.join(","))?;
        Ok(Self(out))
    }
}

impl Rows for Csv {
    fn add(&mut self, row: Vec<Value>) -> io::Result<()> {
        let cell = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => quoted(text),
            number => number.to_string(),
        };
        let cells: Vec<String> = row.iter().map(cell).collect();
        writeln!(self.0, "{}", cells.join(","))
    }

    fn finish(mut self: Box<Self>) -> io::Result<OutputFile> {
        self.0.flush()?;
        Ok(self.0)
    }
}

/// An array of objects, in which nulls are left out.
pub(super) struct Json {
    out: OutputFile,
    names: Vec<String>,
    is_first: bool,
}

impl Json {
    pub(super) fn start(mut out: OutputFile, names: Vec<String>) -> io::Result<Self> {
        write!(out, "[")?;
        Ok(Self { out, names, is_first: true })
    }
}

impl Rows for Json {
    fn add(&mut self, row: Vec<Value>) -> io::Result<()> {
        let known = self.names.iter().zip(&row).filter(|(_, value)| !value.is_null());
        let fields: Vec<String> =
            known.map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        let between = if self.is_first { "" } else { "," };
        self.is_first = false;
        write!(self.out, "{between}\n{{{}}}", fields.join(","))
    }

    fn finish(mut self: Box<Self>) -> io::Result<OutputFile> {
        writeln!(self.out, "\n]")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A value as CSV has it (RFC 4180, section 2).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}
