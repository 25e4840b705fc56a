//! The report of an outcome: text, JSON and page of one value, by its own definition.

use crate::quantity::{BitRate, ByteCount, Nanoseconds, Seconds, Share};
use crate::reasons::REASONS;
use crate::report::{Report, Section, Value as Shown};
use linecard_config::per_type;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A job's result: a struct of sections, each a struct of values or a list.
///
/// Names of fields are the keys in JSON. The documentation of a field is what people read: of a section its title, of a
/// value its label. Types say the unit ([`Share`], [`BitRate`] …). `None` is left out. A value can be a struct itself:
/// an object in JSON, whose text [`Outcome::text`] has.
///
/// A section of [`Reasons`](crate::Reasons), or of counts in a struct with the attribute
/// `schemars(extend("x-reasons" = true))`, or a count with it, shows the names of fields and their documentation behind the counts, without
/// those that are zero.
///
/// A list is a `Vec` of structs with two fields: `label`, a text, and `value`, one value or a struct of them. Optional
/// values in such a struct need `skip_serializing_if`. Lists whose keys are values (`serde(flatten)`, `schemars(skip)`) get
/// their titles from [`Outcome::title`], and their texts from [`Outcome::item`].
pub trait Outcome: Serialize + JsonSchema + 'static {
    /// The title of a section, where it says more than its documentation: with values of this outcome.
    fn title(&self, section: &str) -> Option<String> {
        let _ = section;
        None
    }

    /// The label of a value, where its documentation does not do; of a section that is a map.
    fn label(&self, section: &str, key: &str) -> Option<String> {
        let _ = (section, key);
        None
    }

    /// The text of an item of a list, where its values with commas between them do not do.
    fn item(&self, section: &str, index: usize) -> Option<String> {
        let _ = (section, index);
        None
    }

    /// The text of a value that is a struct.
    fn text(&self, section: &str, key: &str) -> Option<String> {
        let _ = (section, key);
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
///     /// Lanes
///     lanes: Vec<Lane>,
/// }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Packets {
///     /// came in
///     received: u64,
///     /// of them lost
///     lost: Share,
/// }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Lane {
///     label: String,
///     value: Carried,
/// }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Carried {
///     packets: u64,
///     share: Share,
/// }
/// impl Outcome for Found {}
///
/// let carried = Carried { packets: 12_345, share: Share(1.0) };
/// let found = Found {
///     packets: Packets { received: 12_345, lost: Share(0.25) },
///     lanes: vec![Lane { label: "first".to_owned(), value: carried }],
/// };
/// let text = report_of("example", &found).to_string();
/// let (packets, lanes) = text.split_once("\n\n").expect("two sections");
/// assert_eq!(packets, "Packets\n  came in       12,345\n  of them lost  25.0 %");
/// assert_eq!(lanes, "Lanes\n  first  12,345, 100.0 %\n");
/// ```
pub fn report_of<O: Outcome>(job: &'static str, outcome: &O) -> Report {
    let mut report = Report::new(job);
    let schema = schema_of::<O>();
    let values = serde_json::to_value(outcome).unwrap_or_default();
    let known = schema.get("properties");
    for (key, value) in values.as_object().into_iter().flatten() {
        let field = known.and_then(|known| known.get(key)).unwrap_or(&Value::Null);
        let title = outcome.title(key).unwrap_or_else(|| label(field));
        let section = match value {
            Value::Object(values) => {
                let words = |name: &str| Words {
                    label: outcome.label(key, name),
                    text: outcome.text(key, name),
                };
                object(key.clone(), title, field, values, words)
            }
            Value::Array(items) => {
                let mut section = Section::list(key.clone(), title);
                let schema = field.get("items").unwrap_or(&Value::Null);
                for (index, item) in items.iter().enumerate() {
                    add_item(&mut section, schema, item, outcome.item(key, index));
                }
                section
            }
            _ => continue,
        };
        report.push(section);
    }
    for note in outcome.notes() {
        report.note(note);
    }
    report
}

/// A section of a report that is made by hand, from a struct of values.
pub fn section_of<T: Serialize + JsonSchema + 'static>(
    key: impl Into<Cow<'static, str>>,
    title: impl Into<Cow<'static, str>>,
    values: &T,
) -> Section {
    let schema = schema_of::<T>().as_value();
    match serde_json::to_value(values) {
        Ok(Value::Object(values)) => object(key, title, schema, &values, |_| Words::default()),
        _ => Section::new(key, title),
    }
}

fn schema_of<T: JsonSchema + 'static>() -> &'static Schema {
    per_type::<T, Schema>(|| {
        let settings =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        settings.for_serialize().into_generator().into_root_schema_for::<T>()
    })
}

/// Description of a value of an outcome.
#[derive(Default)]
struct Words {
    label: Option<String>,
    text: Option<String>,
}

fn object(
    key: impl Into<Cow<'static, str>>,
    title: impl Into<Cow<'static, str>>,
    schema: &Value,
    values: &Map<String, Value>,
    words: impl Fn(&str) -> Words,
) -> Section {
    let mut section = Section::new(key, title);
    let are_reasons = schema.get(REASONS).is_some();
    let others = schema.get("additionalProperties").filter(|schema| schema.is_object());
    for (key, value) in values.iter().filter(|(_, value)| !value.is_null()) {
        let known = schema.get("properties").and_then(|properties| properties.get(key));
        let Some(field) = known.or(others) else { continue };
        if are_reasons || field.get(REASONS).is_some() {
            section.add_reason(key.clone(), label(field), value.as_u64().unwrap_or(0));
            continue;
        }
        let Words { label: own, text } = words(key);
        let shown = match (value, text) {
            (Value::Object(fields), Some(text)) => Shown::Object(text, fields.clone()),
            _ => shown(field, value),
        };
        // Values of a map have no documentation each.
        let own = own.unwrap_or_else(|| known.map_or_else(|| key.clone(), label));
        section.add(key.clone(), own, shown);
    }
    section
}

fn add_item(section: &mut Section, schema: &Value, item: &Value, text: Option<String>) {
    let (Some(label), Some(value)) = (item.get("label").and_then(Value::as_str), item.get("value"))
    else {
        return;
    };
    let schema = schema.pointer("/properties/value").unwrap_or(&Value::Null);
    let shown = match value {
        Value::Object(values) => {
            let each = properties(schema).filter_map(|(key, field)| {
                let value = values.get(key).filter(|value| !value.is_null())?;
                Some(shown(field, value).to_string())
            });
            let text = text.unwrap_or_else(|| each.collect::<Vec<String>>().join(", "));
            Shown::Object(text, values.clone())
        }
        value => shown(schema, value),
    };
    section.add("", label.to_owned(), shown);
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
    if let (None, Some(difference)) = (value.as_u64(), value.as_i64()) {
        return Shown::Difference(difference);
    }
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
