//! The report of an outcome: text, JSON and page of one value, by its own definition.

use crate::quantity::{BitRate, ByteCount, Nanoseconds, Seconds, Share};
use crate::report::{Report, Section, Value as Shown};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

/// A job's result: a struct of sections, each a struct of values.
///
/// Names of fields are the keys in JSON. The documentation of a field is what people read: of a section its title, of a
/// value its label. Types say the unit ([`Share`], [`BitRate`] …). What is `None` is left out.
pub trait Outcome: Serialize + JsonSchema {
    /// The title of a section, where it says more than its documentation: with values of this outcome.
    fn title(&self, section: &str) -> Option<String> {
        let _ = section;
        None
    }

    /// Sentences under the figures: what they mean, or what to do.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The report of an outcome, in the order of its fields.
///
/// ```
/// use linecard_report::{Outcome, Share, report_of};
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Found {
///     /// Packets
///     packets: Packets,
/// }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Packets {
///     /// came in
///     received: u64,
///     /// of them lost
///     lost: Share,
/// }
/// impl Outcome for Found {}
///
/// let found = Found { packets: Packets { received: 12_345, lost: Share(0.25) } };
/// let text = report_of("example", &found).to_string();
/// assert_eq!(text, "Packets\n  came in      12,345\n  of them lost  25.0 %\n");
/// ```
pub fn report_of<O: Outcome>(job: &'static str, outcome: &O) -> Report {
    let mut report = Report::new(job);
    let schema = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = schema.for_serialize().into_generator().into_root_schema_for::<O>();
    let values = serde_json::to_value(outcome).unwrap_or_default();
    for (key, field) in properties(schema.as_value()) {
        let Some(values) = values.get(key).and_then(Value::as_object) else { continue };
        let title = outcome.title(key).unwrap_or_else(|| label(field));
        let mut section = Section::new(key.clone(), title);
        add_values(&mut section, "", field, values);
        report.push(section);
    }
    for note in outcome.notes() {
        report.note(note);
    }
    report
}

fn add_values(section: &mut Section, before: &str, schema: &Value, values: &Map<String, Value>) {
    for (key, field) in properties(schema) {
        let Some(value) = values.get(key).filter(|value| !value.is_null()) else { continue };
        let key = format!("{before}{key}");
        section.add(key, label(field), shown(field, value));
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// A documentation as one line, without the point at its end.
fn label(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}

/// A value with the unit that its type says.
fn shown(schema: &Value, value: &Value) -> Shown {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let (whole, number) = (value.as_u64(), value.as_f64());
    match (format, whole, number) {
        (ByteCount::FORMAT, Some(bytes), _) => Shown::Bytes(bytes),
        (BitRate::FORMAT, _, Some(rate)) => Shown::BitRate(rate),
        (Nanoseconds::FORMAT, _, Some(ns)) => Shown::Ns(ns),
        (Seconds::FORMAT, _, Some(seconds)) => Shown::Seconds(seconds),
        (Share::FORMAT, _, Some(share)) => Shown::Share(share),
        (_, Some(count), _) => Shown::Count(count),
        (_, None, Some(number)) => Shown::Number(number),
        _ => match value {
            Value::Bool(flag) => Shown::Flag(*flag),
            Value::String(text) => Shown::Text(text.clone()),
            other => Shown::Text(other.to_string()),
        },
    }
}
