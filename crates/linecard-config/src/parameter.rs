//! The parameters of a configuration, read from its JSON Schema.

use super::error::{ConfigError, Location, Problem};
use super::per_type::per_type;
use super::units::{Bytes, Count, Duration, Frequency, Probability, Rate};
use garde::Validate;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// Bounds of times in the schema.
const LOW: &str = "x-minimum";
const HIGH: &str = "x-maximum";

/// A struct whose fields define the parameters of a job; structs in it are sections.
pub trait Config:
    Default + Clone + Serialize + DeserializeOwned + JsonSchema + Validate<Context = ()> + 'static
{
}

impl<T> Config for T where
    T: Default
        + Clone
        + Serialize
        + DeserializeOwned
        + JsonSchema
        + Validate<Context = ()>
        + 'static
{
}

/// One parameter, as its field defines it. `Display` gives documentation, range and default in one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its path: section and name, as `npu.cores`; in a list of tables, as `stage[].takes`.
    pub name: String,
    /// Its meaning: the first paragraph of its documentation.
    pub doc: String,
    /// The least value, as documents write it.
    pub low: Option<Value>,
    /// The greatest value.
    pub high: Option<Value>,
    /// The default.
    pub default: Value,
    /// Words that can be chosen, each with its documentation; empty where any value of the type can.
    pub choices: Vec<(String, String)>,
    /// Former words for some of them, each with that of today, which options still take: the field's
    /// `#[schemars(extend("x-former-choices" = { "inward": "ingress" }))]`.
    pub former_choices: Vec<(String, String)>,
    /// A word that is taken beside values of the type, as "unlimited".
    pub word: Option<String>,
    /// The unit, by the name of its format: "rate", "bytes", "count", "duration", "frequency",
    /// "probability"; "" for plain values.
    pub format: String,
    /// Whether plain values are numbers.
    pub is_number: bool,
    /// Whether all texts are values, as of a path.
    pub is_text: bool,
    /// Whether it has several values.
    pub is_list: bool,
    /// Whether a text with commas is several values of it, as of [`OneOrMany`](crate::OneOrMany); a `Vec` takes texts
    /// that have commas themselves.
    pub is_split: bool,
    /// The option of a command that sets it, as "chunk" for `--chunk`, where there is one: the field's
    /// `#[schemars(extend("x-flag" = "chunk"))]`, or the struct's `#[schemars(extend("x-flags" = true))]`, with which all
    /// of its fields have options of their names. The option of a `bool` takes no value.
    pub flag: Option<String>,
    /// Options, arguments and keys that exclude this parameter: the field's `#[schemars(extend("x-conflicts" = ["psk"]))]`.
    pub conflicts: Vec<String>,
    /// Whether its option has to be given: the field's `#[schemars(extend("x-required" = true))]`.
    pub needs_option: bool,
    /// The default where there is no value: the field's `#[schemars(extend("x-default" = "all addresses"))]`.
    pub default_words: Option<String>,
    /// The unit of values of its option that have none: the field's `#[schemars(extend("x-bare" = "s"))]`.
    pub bare_unit: Option<String>,
    /// The value of an option that is given without one, where it can be: the field's
    /// `#[schemars(extend("x-flag-alone" = "receiver"))]`.
    pub flag_alone: Option<String>,
    /// The option's former name, which is still taken: the field's `#[schemars(extend("x-former-flag" = "pause"))]`.
    pub former_flag: Option<String>,
    /// Its name as a command's argument without an option, as "INPUT", where it is one: the field's
    /// `#[schemars(extend("x-argument" = "INPUT"))]`. If it is an empty text or list by default, it has to be given.
    pub argument: Option<String>,
    /// The name of an option's value in `--help`, where its type does not have one: the field's
    /// `#[schemars(extend("x-value" = "ADDRESS:PORT"))]`.
    pub value_name: Option<String>,
    /// Its former name in its section, which is still read: the field's `#[schemars(extend("x-former" = "begin"))]`.
    pub former: Option<String>,
}

/// The JSON Schema of a configuration (draft 2020-12), without references.
#[must_use]
pub fn schema<C: Config>() -> Schema {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let settings = settings.with_transform(RecursiveTransform(durations));
    let settings = settings.with_transform(RecursiveTransform(without_examples));
    settings.into_generator().into_root_schema_for::<C>()
}

/// Documentation of structs has examples in Rust, which are of no use in a scenario.
fn without_examples(schema: &mut Schema) {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    if let Some((before, _)) = text.split_once("```") {
        let before = before.trim_end().to_owned();
        schema.insert("description".to_owned(), before.into());
    }
}

/// JSON Schema has ranges of numbers only: those of times, which are texts, get names of their own.
fn durations(schema: &mut Schema) {
    if schema.get("format").and_then(Value::as_str) != Some(Duration::FORMAT) {
        return;
    }
    schema.insert("type".to_owned(), "string".into());
    for (from, to) in [("minimum", LOW), ("maximum", HIGH)] {
        if let Some(bound) = schema.remove(from) {
            schema.insert(to.to_owned(), bound);
        }
    }
}

/// All parameters of a configuration, in the order of its fields.
#[must_use]
pub fn parameters<C: Config>() -> &'static [Parameter] {
    per_type::<C, Vec<Parameter>>(|| {
        let mut found = Vec::new();
        let defaults = serde_json::to_value(C::default()).unwrap_or_default();
        collect("", schema::<C>().as_value(), &defaults, &mut found);
        found
    })
}

/// Refuses values that are out of range or do not fit each other, in the order of their fields.
///
/// # Errors
///
/// The first such value, by its parameter.
pub fn check<C: Config>(config: &C) -> Result<(), ConfigError> {
    let Err(report) = config.validate() else { return Ok(()) };
    let Some((path, error)) = report.iter().next() else { return Ok(()) };
    let name = path.to_string();
    let values = serde_json::to_value(config).unwrap_or_default();
    let value = pointer(&values, &name);
    // In a list, it is an element that is wrong.
    let bare = match name.rsplit_once('[') {
        Some((list, rest)) if !rest.contains('.') => list.to_owned(),
        _ => name,
    };
    let of = in_any_table(&bare);
    let known = parameters::<C>().iter().find(|parameter| parameter.name == of);
    // Other rules of a parameter take its range for granted.
    let problem = match (known, value) {
        (Some(known), Some(value)) if known.excludes_value(value) => known.range_problem(value),
        _ => Problem::Invalid(error.to_string().into()),
    };
    Err(ConfigError::new(Location::Parameter(bare.clone()), Some(bare), problem))
}

/// The name of a parameter in a list of tables: `stage[].takes` of `stage[2].takes`.
fn in_any_table(path: &str) -> String {
    let mut name = String::new();
    for part in path.split_inclusive(['[', ']']) {
        let is_index = part.strip_suffix(']').is_some_and(|index| index.parse::<usize>().is_ok());
        name += if is_index { "]" } else { part };
    }
    name
}

/// The order of two numbers or times, as documents write them.
fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::String(text) => text.parse::<Duration>().ok().map(|time| time.as_ps().into()),
        value => value.as_number()?.as_i128(),
    };
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// The value at a path as garde writes it: `load.size[3]`.
fn pointer<'a>(values: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.replace(['.', '['], "/").replace(']', "");
    let found = values.pointer(&format!("/{path}"));
    // A list of one value is written as that value.
    found.or_else(|| values.pointer(&format!("/{}", path.rsplit_once('/')?.0)))
}

impl Parameter {
    /// A value with its unit, as people write it.
    #[must_use]
    pub fn text_of(&self, value: &Value) -> String {
        let printed = match (self.format.as_str(), value) {
            (Rate::FORMAT, Value::Number(number)) => {
                number.as_u64().map(|n| Rate::new(n).to_string())
            }
            (Bytes::FORMAT, Value::Number(number)) => {
                number.as_u64().map(|n| Bytes::new(n).to_string())
            }
            (Count::FORMAT, Value::Number(number)) => {
                number.as_u64().map(|n| Count::new(n).to_string())
            }
            _ => None,
        };
        printed.unwrap_or_else(|| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Array(values) => {
                let texts: Vec<String> = values.iter().map(|value| self.text_of(value)).collect();
                texts.join(",")
            }
            Value::Number(number) => {
                // A float that is whole is written without its point.
                let whole = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0);
                whole.map_or_else(|| number.to_string(), |n| format!("{n}"))
            }
            other => other.to_string(),
        })
    }

    /// Its default, as people write it; nothing where there is none.
    #[must_use]
    pub fn default_text(&self) -> String {
        match (&self.default_words, &self.default) {
            (Some(words), _) => words.clone(),
            (None, Value::Null) => String::new(),
            (None, default) => self.text_of(default),
        }
    }

    /// For `--help` of an option: documentation, range and default. Choices are listed by the parser of options; what
    /// is off is not said to be.
    #[must_use]
    pub fn help(&self) -> String {
        let mut text = Self { choices: Vec::new(), ..self.clone() }.without_default();
        if let Some(first) = text.get(..1) {
            text.replace_range(..1, &first.to_uppercase());
        }
        match self.default_text() {
            default if default.is_empty() || self.is_switch() || self.needs_option => text,
            default => format!("{text} [default: {default}]"),
        }
    }

    /// Whether it is on or off, so that its option takes no value: a `bool`, or a [`Switch`](crate::Switch).
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.default.is_boolean() || self.choices.first().is_some_and(|(choice, _)| choice == "on")
    }

    /// Whether only one of the two can be given.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        let names = [Some(&other.name), other.flag.as_ref(), other.argument.as_ref()];
        names.into_iter().flatten().any(|name| self.conflicts.contains(name))
    }

    /// Whether it is empty by default: neither a value nor none.
    #[must_use]
    pub fn is_required(&self) -> bool {
        !self.default.is_null() && self.text_of(&self.default).is_empty()
    }

    /// Documentation, range and choices.
    fn without_default(&self) -> String {
        let mut line = self.doc.clone();
        let text = |bound: &Option<Value>| bound.as_ref().map(|bound| self.text_of(bound));
        match (text(&self.low), text(&self.high)) {
            (Some(low), Some(high)) => line += &format!(", {low} to {high}"),
            (Some(low), None) if low != "0" => line += &format!(", at least {low}"),
            (None, Some(high)) => line += &format!(", at most {high}"),
            (_, None) => {}
        }
        if let Some(word) = &self.word {
            line += &format!(", or \"{word}\"");
        }
        for (at, (choice, doc)) in self.choices.iter().enumerate() {
            line += if at == 0 { ": " } else { ", " };
            line += &format!("\"{choice}\"");
            if !doc.is_empty() {
                line += &format!(" ({doc})");
            }
        }
        line
    }

    /// Whether all texts are values: a path, a scheme.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// The path that it had.
    pub(crate) fn former_name(&self) -> Option<String> {
        let old = self.former.as_ref()?;
        Some(match self.name.rsplit_once('.') {
            Some((section, _)) => format!("{section}.{old}"),
            None => old.clone(),
        })
    }

    /// Whether a value is out of range.
    fn excludes_value(&self, value: &Value) -> bool {
        let is_beyond = |bound: &Option<Value>, side| {
            bound.as_ref().and_then(|bound| compare(value, bound)) == Some(side)
        };
        is_beyond(&self.low, Ordering::Less) || is_beyond(&self.high, Ordering::Greater)
    }

    pub(crate) fn range_problem(&self, value: &Value) -> Problem {
        let text =
            |bound: &Option<Value>| bound.as_ref().map(|b| self.text_of(b)).unwrap_or_default();
        Problem::Range {
            value: self.text_of(value),
            low: text(&self.low),
            high: text(&self.high),
            word: self.word.clone(),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_default())?;
        match self.default_text() {
            default if default.is_empty() => Ok(()),
            default => write!(f, " [{default}]"),
        }
    }
}

fn collect(path: &str, schema: &Value, defaults: &Value, found: &mut Vec<Parameter>) {
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
    let is_flagged = schema.get("x-flags").is_some();
    for (name, field) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let default = defaults.get(name).unwrap_or(&Value::Null);
        let default =
            if default.is_null() { field.get("default").unwrap_or(default) } else { default };
        let items = field.get("items").filter(|items| items.get("properties").is_some());
        if field.get("properties").is_some() {
            collect(&path, field, default, found);
        } else if let Some(items) = items {
            collect(&format!("{path}[]"), items, &Value::Null, found);
        } else if let Some(field) = field.as_object() {
            let mut parameter = parameter(path, field, default.clone());
            if is_flagged && parameter.argument.is_none() {
                parameter.flag.get_or_insert_with(|| name.replace('_', "-"));
            }
            found.push(parameter);
        }
    }
}

fn parameter(name: String, field: &Map<String, Value>, default: Value) -> Parameter {
    // Limits on the elements of a list are given for the elements.
    let of = |key: &str| field.get(key).or_else(|| field.get("items")?.get(key));
    let text = |key: &str| of(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let format = text("format");
    let units = [
        Rate::FORMAT,
        Bytes::FORMAT,
        Count::FORMAT,
        Duration::FORMAT,
        Frequency::FORMAT,
        Probability::FORMAT,
    ];
    let is_text = kind(of("type")) == Some("string")
        && format.is_empty()
        && field.get("items").is_none()
        && of("enum").is_none();
    let is_number = matches!(kind(of("type")), Some("integer" | "number"));
    Parameter {
        name,
        doc: one_line(&text("description")),
        low: of("minimum").or_else(|| of(LOW)).cloned(),
        high: of("maximum").or_else(|| of(HIGH)).cloned(),
        default,
        choices: match (choices(field), field.get("items").and_then(Value::as_object)) {
            (own, Some(items)) if own.is_empty() => choices(items),
            (own, _) => own,
        },
        former_choices: {
            let map = of("x-former-choices").and_then(Value::as_object).into_iter().flatten();
            map.filter_map(|(old, new)| Some((old.clone(), new.as_str()?.to_owned()))).collect()
        },
        word: of("x-absent").and_then(Value::as_str).map(str::to_owned),
        format: if units.contains(&format.as_str()) { format } else { String::new() },
        is_number,
        is_text,
        is_list: field.get("items").is_some(),
        is_split: field.get("items").is_some() && field.get("type").is_some_and(Value::is_array),
        flag: of("x-flag").and_then(Value::as_str).map(str::to_owned),
        conflicts: {
            let list = of("x-conflicts").and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        },
        needs_option: of("x-required") == Some(&Value::Bool(true)),
        default_words: of("x-default").and_then(Value::as_str).map(str::to_owned),
        bare_unit: of("x-bare").and_then(Value::as_str).map(str::to_owned),
        flag_alone: of("x-flag-alone").and_then(Value::as_str).map(str::to_owned),
        former_flag: of("x-former-flag").and_then(Value::as_str).map(str::to_owned),
        argument: of("x-argument").and_then(Value::as_str).map(str::to_owned),
        value_name: of("x-value").and_then(Value::as_str).map(str::to_owned),
        former: of("x-former").and_then(Value::as_str).map(str::to_owned),
    }
}

/// The type of values, if there is one beside null, which stands for a value that is not there.
fn kind(types: Option<&Value>) -> Option<&str> {
    match types? {
        Value::Array(types) => match types.as_slice() {
            [kind, null] | [null, kind] if null == "null" => kind.as_str(),
            _ => None,
        },
        kind => kind.as_str(),
    }
}

/// Words of an enumeration: each with documentation, or all without.
fn choices(field: &Map<String, Value>) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let plain = |list: &Value| -> Vec<(String, String)> {
        let words = list.as_array().into_iter().flatten().filter_map(word);
        words.map(|word| (word, String::new())).collect()
    };
    if let Some(list) = field.get("enum") {
        return plain(list);
    }
    // One that may be left out stands beside null.
    let either = field.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    if let Some(some) = either.filter_map(Value::as_object).map(choices).find(|c| !c.is_empty()) {
        return some;
    }
    let variants = field.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    variants
        .flat_map(|variant| match variant.get("const").and_then(word) {
            Some(name) => {
                let doc = variant.get("description").and_then(Value::as_str).unwrap_or_default();
                vec![(name, one_line(doc))]
            }
            None => variant.get("enum").map(plain).unwrap_or_default(),
        })
        .collect()
}

/// The first paragraph of a documentation in one line, without the point at its end.
fn one_line(doc: &str) -> String {
    let first = doc.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}
