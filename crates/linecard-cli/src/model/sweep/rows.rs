//! Rows of a sweep: the values of a point, what it came to, and why it could not be run.

use super::super::figures::Figures;
use linecard::offload::segment::Class;
use linecard_host::capture::OutputFile;
use serde_json::{Value, json};
use std::io::{self, Write};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Json,
}

/// A column: its name, and its value.
type Column = (&'static str, fn(&Figures) -> Value);

/// Names are those of `linecard model run --json` where it has them.
const COLUMNS: [Column; 16] = [
    ("packets_right", |run| json!(run.outcome.right)),
    ("packets_wrong", |run| json!(run.outcome.wrong)),
    ("payload_out", |run| json!(run.payload().1)),
    ("ps", |run| json!(run.outcome.left.0)),
    ("packets_per_second", |run| json!(run.packets_per_second())),
    ("cycles_per_packet", |run| json!(run.cycles_per_packet())),
    ("goodput_bits_per_second", |run| json!(run.goodput())),
    ("wire_bits_per_second", |run| json!(run.wire_rate())),
    ("line_share", |run| json!(run.line_share())),
    ("core_busy", |run| json!(run.core_shares()[0])),
    ("core_stalled", |run| json!(run.core_shares()[1])),
    ("core_bubbles", |run| json!(run.core_shares()[2])),
    ("dma_busy", |run| json!(run.dma_share())),
    ("com_total_mean", |run| json!(run.class(Class::Com).total.mean())),
    ("com_idle_mean", |run| json!(run.class(Class::Com).idle.mean())),
    ("hash", |run| json!(format!("{:016x}", run.outcome.hash))),
];

/// Writes rows, one for each point.
pub(super) struct Rows {
    out: OutputFile,
    format: Format,
    names: Vec<&'static str>,
    is_first: bool,
}

impl Rows {
    pub(super) fn start(
        mut out: OutputFile,
        format: Format,
        names: Vec<&'static str>,
    ) -> io::Result<Self> {
        match format {
            Format::Json => write!(out, "[")?,
            Format::Csv => {
                let columns = COLUMNS.iter().map(|(name, _)| *name);
                let all: Vec<&str> = names.iter().copied().chain(columns).collect();
                writeln!(out, "{},error", all.join(","))?;
            }
        }
        Ok(Self { out, format, names, is_first: true })
    }

    pub(super) fn add(
        &mut self,
        values: &[&str],
        result: &Result<Figures, String>,
    ) -> io::Result<()> {
        match self.format {
            Format::Csv => self.add_csv(values, result),
            Format::Json => self.add_json(values, result),
        }
    }

    /// Completes the text; the file is the caller's to complete.
    pub(super) fn finish(mut self) -> io::Result<OutputFile> {
        if self.format == Format::Json {
            writeln!(self.out, "\n]")?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn add_csv(&mut self, values: &[&str], result: &Result<Figures, String>) -> io::Result<()> {
        let mut cells: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        for (_, of) in COLUMNS {
            cells.push(match result.as_ref().map(of) {
                Ok(Value::String(text)) => text,
                Ok(Value::Null) | Err(_) => String::new(),
                Ok(number) => number.to_string(),
            });
        }
        cells.push(result.as_ref().err().map(|why| quoted(why)).unwrap_or_default());
        writeln!(self.out, "{}", cells.join(","))
    }

    fn add_json(&mut self, values: &[&str], result: &Result<Figures, String>) -> io::Result<()> {
        // In the order of the columns, as in CSV.
        let mut row: Vec<(&str, Value)> = Vec::with_capacity(values.len() + COLUMNS.len());
        for (name, text) in self.names.iter().zip(values) {
            // Numbers as numbers, all else as it was written.
            let number = serde_json::from_str(text).ok().filter(Value::is_number);
            row.push((name, number.unwrap_or_else(|| json!(text))));
        }
        match result {
            Ok(run) => row.extend(COLUMNS.map(|(name, of)| (name, of(run)))),
            Err(why) => row.push(("error", json!(why))),
        }
        let fields: Vec<String> =
            row.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        let between = if self.is_first { "" } else { "," };
        self.is_first = false;
        write!(self.out, "{between}\n{{{}}}", fields.join(","))
    }
}

/// A value as CSV has it (RFC 4180, section 2).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}
