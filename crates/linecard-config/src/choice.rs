//! Optional, boolean and list values.

use super::units::{Bytes, Duration, Frequency, Rate};
use garde::rules::inner::Inner;
use garde::rules::range::{Bounds, OutOfBounds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer, Unexpected, Visitor,
};
use serde::{Serialize, Serializer, forward_to_deserialize_any};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// A value with a word for its absence: `"none"`, or `"unlimited"` of rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maybe<T>(pub Option<T>);

/// Types with a word for their absence.
pub trait Absent {
    /// The word.
    const WORD: &'static str;
}

macro_rules! absent {
    ($word:literal: $($type:ty),*) => {
        $(impl Absent for $type {
            const WORD: &'static str = $word;
        })*
    };
}

absent!("none": u8, u32, u64, usize, f64, Bytes, Duration, Frequency, String);
absent!("unlimited": Rate);

impl<T> Maybe<T> {
    /// No value.
    pub const NONE: Self = Self(None);
}

impl<T> From<T> for Maybe<T> {
    fn from(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Absent + Serialize> Serialize for Maybe<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(T::WORD),
        }
    }
}

impl<'de, T: Absent + DeserializeOwned> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value == T::WORD {
            return Ok(Self(None));
        }
        let value = T::deserialize(Json::<D::Error>::of(value))
            .map_err(|error| D::Error::custom(format!("{error}, or \"{}\"", T::WORD)))?;
        Ok(Self(Some(value)))
    }
}

impl<T: Absent + JsonSchema> JsonSchema for Maybe<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Maybe{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        if let Some(Value::String(kind)) = schema.get("type").cloned() {
            schema.insert("type".to_owned(), [kind.as_str(), "string"].as_slice().into());
        }
        if let Some(Value::String(pattern)) = schema.get("pattern").cloned() {
            schema.insert("pattern".to_owned(), format!("{pattern}|^{}$", T::WORD).into());
        }
        schema.insert("x-absent".to_owned(), T::WORD.into());
        schema
    }
}

impl<T: Bounds> Bounds for Maybe<T> {
    type Size = T::Size;
    const MIN: T::Size = T::MIN;
    const MAX: T::Size = T::MAX;

    fn validate_bounds(&self, low: T::Size, high: T::Size) -> Result<(), OutOfBounds> {
        self.0.as_ref().map_or(Ok(()), |value| value.validate_bounds(low, high))
    }
}

impl<T: PartialOrd> PartialOrd for Maybe<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

/// A value that documents write as text or number, by its `Display` and `FromStr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parsed<T>(pub T);

impl<T: fmt::Display> Serialize for Parsed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            other => return Err(D::Error::custom(format!("{other} is not a text"))),
        };
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<T> JsonSchema for Parsed<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Parsed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// On or off, also written `true` and `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switch(pub bool);

impl Switch {
    /// On.
    pub const ON: Self = Self(true);
    /// Off.
    pub const OFF: Self = Self(false);
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "on" } else { "off" })
    }
}

impl Serialize for Switch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(on) => Ok(Self(on)),
            Value::String(text) if text == "on" => Ok(Self::ON),
            Value::String(text) if text == "off" => Ok(Self::OFF),
            other => Err(D::Error::custom(format!("{other} is not a choice: choose on or off"))),
        }
    }
}

impl JsonSchema for Switch {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Switch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["on", "off", true, false] })
    }
}

/// One value or several: in TOML a value or a list, in texts with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> std::ops::Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = match Value::deserialize(deserializer)? {
            Value::Array(values) => values,
            Value::String(text) => text.split(',').map(|part| scalar(part.trim())).collect(),
            one => vec![one],
        };
        let values = values.into_iter().map(|value| T::deserialize(Json::of(value)));
        values.collect::<Result<_, _>>().map(Self)
    }
}

/// A value whose errors are those of the reader that it comes from.
struct Json<E>(Value, PhantomData<E>);

impl<E> Json<E> {
    fn of(value: Value) -> Self {
        Self(value, PhantomData)
    }
}

impl<'de, E: Error> Deserializer<'de> for Json<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Value::Array(values) => {
                visitor.visit_seq(SeqDeserializer::new(values.into_iter().map(Self::of)))
            }
            Value::Object(_) => Err(E::invalid_type(Unexpected::Map, &visitor)),
            Value::Null => Err(E::invalid_type(Unexpected::Unit, &visitor)),
        }
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string bytes byte_buf unit unit_struct identifier
        option newtype_struct seq tuple tuple_struct map struct enum ignored_any
    }
}

impl<E: Error> IntoDeserializer<'_, E> for Json<E> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A number where the text is one, else the text.
pub(crate) fn scalar(text: &str) -> Value {
    let number = serde_json::from_str(text).ok().filter(Value::is_number);
    number.unwrap_or_else(|| text.into())
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = generator.subschema_for::<T>();
        // `items` stands beside, so that ranges of the attribute `inner` reach it.
        json_schema!({ "type": ["array", "string", "number"], "items": item })
    }
}

impl<T> Inner<T> for OneOrMany<T> {
    type Key = usize;

    fn validate_inner<F: FnMut(&T, &usize)>(&self, f: F) {
        self.0.as_slice().validate_inner(f);
    }
}

impl<T> garde::rules::length::HasSimpleLength for OneOrMany<T> {
    fn length(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_word_stands_for_absence() {
        assert_eq!(read("\"unlimited\""), Ok(Maybe::<Rate>::NONE));
        assert_eq!(read("\"none\""), Ok(Maybe::<u64>::NONE));
        assert_eq!(read("\"10G\""), Ok(Maybe::from(Rate::giga(10))));
        let error = read::<Maybe<Rate>>("\"none\"").expect_err("another word");
        assert!(error.contains("or \"unlimited\""), "{error}");
        assert_eq!(serde_json::to_string(&Maybe::<u64>::NONE).ok().as_deref(), Some("\"none\""));
    }

    #[test]
    fn switches_have_words_and_truth_values() {
        assert_eq!(read("[true, \"off\"]"), Ok([Switch::ON, Switch::OFF]));
        assert!(read::<Switch>("1").is_err_and(|error| error.contains("choose on or off")));
    }

    #[test]
    fn several_values_are_lists_or_texts() {
        let sizes = |text| read::<OneOrMany<Bytes>>(text).map(|all| all.0);
        let expected = Ok(vec![Bytes::new(64), Bytes::new(2_048)]);
        assert_eq!(sizes("[64, \"2K\"]"), expected);
        assert_eq!(sizes("\"64, 2K\""), expected);
        assert_eq!(sizes("64"), Ok(vec![Bytes::new(64)]));
        assert!(sizes("\"1,,2\"").is_err());
    }
}
