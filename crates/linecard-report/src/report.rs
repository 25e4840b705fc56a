//! A report: one value, shown as text or as JSON.
//!
//! Reports are made at the end of a job.

use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::fmt;

/// The result of a job: sections of named values.
///
/// Text is for people, aligned and with units; JSON has the same values under stable keys, in the
/// unit that the key names.
///
/// ```
/// use linecard_report::{Report, Section, Value};
/// let mut section = Section::new("packets", "Packets");
/// section.add("received", "received", Value::Count(12_345));
/// let mut report = Report::new("coalesce");
/// report.push(section);
/// assert!(report.to_string().contains("12,345"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    job: &'static str,
    config: serde_json::Map<String, serde_json::Value>,
    sections: Vec<Section>,
    notes: Vec<String>,
}

/// A group of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    key: Cow<'static, str>,
    title: Cow<'static, str>,
    rows: Vec<Row>,
    is_list: bool,
}

/// A value of a section: its key in JSON, its label, and a remark.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    key: Cow<'static, str>,
    label: Cow<'static, str>,
    value: Value,
    remark: Option<Cow<'static, str>>,
}

/// A value with its unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// An excess, or a negative one: a shortage.
    Difference(i64),
    /// A number of bytes.
    Bytes(u64),
    /// A mean or a ratio.
    Number(f64),
    /// Bits per second.
    BitRate(f64),
    /// A time in nanoseconds.
    Ns(f64),
    /// A time in seconds.
    Seconds(f64),
    /// A share, 0 … 1.
    Share(f64),
    /// A condition: "yes" or "no" in text, a boolean in JSON.
    Flag(bool),
    /// Words.
    Text(String),
    /// A structured value: words for people, and an object with stable keys in JSON.
    Fields(String, Vec<(&'static str, Value)>),
    /// The same, with the JSON object serialized from an outcome.
    Object(String, serde_json::Map<String, serde_json::Value>),
}

impl Report {
    /// An empty report of `job`.
    #[must_use]
    pub fn new(job: &'static str) -> Self {
        Self { job, config: serde_json::Map::new(), sections: Vec::new(), notes: Vec::new() }
    }

    /// Adds values of the job's configuration, for `config` in JSON: a struct, whose fields are keys. Values that JSON
    /// cannot hold, as names of files that are not UTF-8, leave all of it out.
    pub fn add_config(&mut self, values: &impl Serialize) {
        if let Ok(serde_json::Value::Object(values)) = serde_json::to_value(values) {
            self.config.extend(values);
        }
    }

    /// Adds a section; an empty one is left out.
    pub fn push(&mut self, section: Section) {
        if !section.rows.is_empty() {
            self.sections.push(section);
        }
    }

    /// Adds a sentence for people: an interpretation or a recommendation.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The job it belongs to.
    #[must_use]
    pub fn job(&self) -> &'static str {
        self.job
    }

    /// Its sections, in order; none is empty.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Its notes, in order.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Section {
    /// An empty section.
    #[must_use]
    pub fn new(key: impl Into<Cow<'static, str>>, title: impl Into<Cow<'static, str>>) -> Self {
        Self { key: key.into(), title: title.into(), rows: Vec::new(), is_list: false }
    }

    /// An empty section whose rows have no keys, only an order: in JSON an array of objects with
    /// `label` and `value`.
    #[must_use]
    pub fn list(key: impl Into<Cow<'static, str>>, title: impl Into<Cow<'static, str>>) -> Self {
        Self { is_list: true, ..Self::new(key, title) }
    }

    /// Adds a value: `key` in JSON, `label` in text.
    pub fn add(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        label: impl Into<Cow<'static, str>>,
        value: Value,
    ) {
        self.rows.push(Row { key: key.into(), label: label.into(), value, remark: None });
    }

    /// Adds a count with an explanation, unless it is zero.
    pub fn add_reason(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        explanation: impl Into<Cow<'static, str>>,
        count: u64,
    ) {
        if count > 0 {
            let (key, value) = (name.into(), Value::Count(count));
            self.rows.push(Row {
                label: key.clone(),
                key,
                value,
                remark: Some(explanation.into()),
            });
        }
    }
}

impl Section {
    /// Its key in JSON.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its values, in order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Row {
    /// Label before the value in text.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Remark after the value in text.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, section) in self.sections.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{section}")?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let labels = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
        let texts: Vec<String> = self.rows.iter().map(|row| row.value.to_string()).collect();
        let numbers = self.rows.iter().zip(&texts).filter(|(row, _)| !row.value.is_text());
        let values = numbers.map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        for (row, text) in self.rows.iter().zip(&texts) {
            let width = if row.value.is_text() { 0 } else { values };
            write!(f, "  {:labels$}  {text:>width$}", row.label)?;
            match &row.remark {
                Some(remark) => writeln!(f, "  {remark}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl Value {
    /// Whether its text is words rather than a number.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Flag(_) | Self::Text(_) | Self::Fields(..) | Self::Object(..))
    }

    /// Times in nanoseconds, with as many digits as it takes for different ones to read differently.
    ///
    /// ```
    /// use linecard_report::Value;
    /// assert_eq!(Value::apart_ns([124_800.0, 125_100.0]), ["124.8 µs", "125.1 µs"]);
    /// assert_eq!(Value::apart_ns([2_000.0, 40_000.0]), ["2.00 µs", "40.00 µs"]);
    /// ```
    #[must_use]
    pub fn apart_ns<const N: usize>(times: [f64; N]) -> [String; N] {
        let texts = |more| times.map(|ns| scaled(ns, &TIMES, more));
        let differ = |texts: &[String; N]| {
            (1..N).all(|at| {
                (0..at).all(|other| times[at] == times[other] || texts[at] != texts[other])
            })
        };
        (0..MORE_DIGITS).map(texts).find(differ).unwrap_or_else(|| texts(MORE_DIGITS))
    }

    /// An interval of times in nanoseconds: both ends, which read differently, or one time if they are equal.
    #[must_use]
    pub fn interval_ns(lower: f64, upper: f64) -> String {
        if lower == upper {
            return Self::Ns(lower).to_string();
        }
        let [lower, upper] = Self::apart_ns([lower, upper]);
        format!("{lower} to {upper}")
    }
}

const TIMES: [&str; 4] = ["ns", "µs", "ms", "s"];
/// Digits more than usual by which seconds differ that differ by a nanosecond.
const MORE_DIGITS: usize = 9;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Count(n) => grouped(*n),
            Self::Difference(n) if *n < 0 => format!("-{}", grouped(n.unsigned_abs())),
            Self::Difference(n) => grouped(n.unsigned_abs()),
            Self::Bytes(n) => scaled(*n as f64, &["B", "kB", "MB", "GB", "TB"], 0),
            Self::Number(x) => format!("{x:.2}"),
            Self::BitRate(x) => scaled(*x, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"], 0),
            Self::Ns(x) => scaled(*x, &TIMES, 0),
            Self::Seconds(x) => format!("{x:.2} s"),
            Self::Share(x) => format!("{:.1} %", x * 100.0),
            Self::Flag(so) => if *so { "yes" } else { "no" }.to_string(),
            Self::Text(text) | Self::Fields(text, _) | Self::Object(text, _) => text.clone(),
        };
        f.pad(&text)
    }
}

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// With three digits or two behind the point, and some `more`.
fn scaled(mut x: f64, units: &[&str], more: usize) -> String {
    let mut unit = 0;
    while x >= 999.5 && unit + 1 < units.len() {
        x /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || x >= 100.0 {
        usize::from(unit == 0 && x < 100.0 && x % 1.0 != 0.0)
    } else {
        2
    };
    let digits = digits + more;
    format!("{x:.digits$} {}", units[unit])
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("job", self.job)?;
        if !self.config.is_empty() {
            map.serialize_entry("config", &self.config)?;
        }
        for section in &self.sections {
            map.serialize_entry(&section.key, section)?;
        }
        map.serialize_entry("notes", &self.notes)?;
        map.end()
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_list {
            return serializer.collect_seq(&self.rows);
        }
        serializer.collect_map(self.rows.iter().map(|row| (&row.key, &row.value)))
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("label", &self.label)?;
        map.serialize_entry("value", &self.value)?;
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(n) | Self::Bytes(n) => serializer.serialize_u64(*n),
            Self::Difference(n) => serializer.serialize_i64(*n),
            Self::Number(x)
            | Self::BitRate(x)
            | Self::Ns(x)
            | Self::Seconds(x)
            | Self::Share(x) => serializer.serialize_f64(*x),
            Self::Flag(so) => serializer.serialize_bool(*so),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Fields(_, fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, value)))
            }
            Self::Object(_, object) => object.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_well() {
        let text = |value: Value| value.to_string();
        assert_eq!(text(Value::Count(1_234_567)), "1,234,567");
        assert_eq!(text(Value::Count(999)), "999");
        assert_eq!(
            [1_234, 0, -1_234].map(|n| text(Value::Difference(n))),
            ["1,234", "0", "-1,234"]
        );
        assert_eq!(text(Value::Bytes(999)), "999 B");
        assert_eq!(text(Value::Bytes(1_500)), "1.50 kB");
        assert_eq!(text(Value::BitRate(12.345e9)), "12.35 Gbit/s");
        assert_eq!(text(Value::Ns(14.25)), "14.2 ns");
        assert_eq!(Value::interval_ns(19_999_887.0, 20_000_123.0), "19.9999 ms to 20.0001 ms");
        assert_eq!(Value::interval_ns(1_012_000.0, 1_012_001.0), "1.012000 ms to 1.012001 ms");
        assert_eq!(Value::interval_ns(125_000.0, 125_000.0), "125 µs");
        assert_eq!(Value::interval_ns(0.0, 2_300_000.0), "0 ns to 2.30 ms");
        assert_eq!(Value::apart_ns([0.0, f64::NAN, f64::NAN]).len(), 3);
        assert_eq!(text(Value::Ns(250_000.0)), "250 µs");
        assert_eq!(text(Value::Share(0.123)), "12.3 %");
        assert_eq!([true, false].map(|so| text(Value::Flag(so))), ["yes", "no"]);
        let fields = [("mtu", Value::Bytes(1_500))].into();
        assert_eq!(text(Value::Fields("MTU 1500".to_string(), fields)), "MTU 1500");
    }
}
