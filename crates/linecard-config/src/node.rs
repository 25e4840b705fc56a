//! Values of TOML as types.
//!
//! The deserialiser of `toml` compiles a match of all kinds of values, with dates and owned texts, for each type that is
//! read: for a hundred types a megabyte of code, and much of the time of a build. Here a type gets what it needs (a struct
//! takes tables only), and what does not depend on the type is compiled once.

use super::error::Problem;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;
use std::ops::Range;
use std::slice;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use toml::map;

/// Why a text cannot be read as a type.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// The error.
    pub(crate) problem: Box<Problem>,
    /// The first byte of the value or key, if that is known.
    pub(crate) at: Option<usize>,
}

/// Reads a table as a type; `span` is where it stands.
pub(crate) fn of_table<T: DeserializeOwned>(
    table: DeTable<'_>,
    span: Range<usize>,
) -> Result<T, ReadError> {
    let at = span.start;
    let root = Spanned::new(span, DeValue::Table(table));
    T::deserialize(Node(&root)).map_err(|error| error.at(at))
}

impl ReadError {
    /// The place, if it is not known yet.
    fn at(mut self, at: usize) -> Self {
        self.at.get_or_insert(at);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Problem::Invalid(message.to_string().into()).into()
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let advice = match found {
            Unexpected::Str(text) if text.parse::<f64>().is_err() => "",
            // TOML's numbers begin with a digit.
            Unexpected::Str(text) if text.starts_with('.') => ": write a digit before the point",
            Unexpected::Str(_) => ": write it without quotes",
            _ => "",
        };
        let value = match found {
            Unexpected::Bool(flag) => flag.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => format!("{number:?}"),
            Unexpected::Str(text) => format!("{text:?}"),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        Problem::Type { value, expected: kind(expected), advice }.into()
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        match found {
            Unexpected::Unsigned(number) => Self::custom(format!("{number} is too large")),
            Unexpected::Signed(number @ 0..) => Self::custom(format!("{number} is too large")),
            _ => Self::invalid_type(found, expected),
        }
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        let choices = known.iter().map(|&known| known.to_owned()).collect();
        Problem::Choice { value: word.to_owned(), choices }.into()
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        let known = known.iter().map(|&known| known.to_owned()).collect();
        Problem::Unknown { name: name.to_owned(), known }.into()
    }

    fn missing_field(name: &'static str) -> Self {
        Problem::Missing(name.to_owned()).into()
    }
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), at: None }
    }
}

/// The kind of value that a visitor expects. Those of serde name Rust's types.
fn kind(expected: &dyn Expected) -> String {
    let name = expected.to_string();
    let kind = match name.as_str() {
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "f32" | "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        _ => return name,
    };
    kind.to_owned()
}

/// A value, and where it stands.
#[derive(Clone, Copy)]
struct Node<'n>(&'n Spanned<DeValue<'n>>);

/// A value that has no parts.
enum Scalar<'n> {
    Text(&'n str),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Flag(bool),
}

// None of these depends on the type that is read.
impl<'n> Node<'n> {
    /// A value without parts; of others what they are.
    fn scalar(self) -> Result<Result<Scalar<'n>, Unexpected<'n>>, ReadError> {
        Ok(Ok(match self.0.get_ref() {
            DeValue::String(text) => Scalar::Text(text),
            DeValue::Integer(integer) => {
                let (digits, radix) = (integer.as_str(), integer.radix());
                let unsigned = || u64::from_str_radix(digits, radix).map(Scalar::Unsigned);
                let signed = i64::from_str_radix(digits, radix).map(Scalar::Signed);
                let too_large = |_| ReadError::custom("the number is too large");
                signed.or_else(|_| unsigned()).map_err(too_large)?
            }
            DeValue::Float(float) => {
                let refuse = |_| ReadError::custom(format!("{} is not a number", float.as_str()));
                Scalar::Float(float.as_str().parse().map_err(refuse)?)
            }
            DeValue::Boolean(flag) => Scalar::Flag(*flag),
            DeValue::Datetime(_) => return Ok(Err(Unexpected::Other("a date"))),
            DeValue::Array(_) => return Ok(Err(Unexpected::Seq)),
            DeValue::Table(_) => return Ok(Err(Unexpected::Map)),
        }))
    }

    fn scalar_of(self, expected: &dyn Expected) -> Result<Scalar<'n>, ReadError> {
        self.scalar()?.map_err(|unexpected| Error::invalid_type(unexpected, expected))
    }

    fn table(self, expected: &dyn Expected) -> Result<Entries<'n>, ReadError> {
        match self.0.get_ref() {
            DeValue::Table(table) => Ok(Entries { entries: table.iter(), value: None }),
            _ => Err(self.refused(expected)),
        }
    }

    fn array(self, expected: &dyn Expected) -> Result<Items<'n>, ReadError> {
        match self.0.get_ref() {
            DeValue::Array(items) => Ok(Items(items.iter())),
            _ => Err(self.refused(expected)),
        }
    }

    /// Not what was expected.
    fn refused(self, expected: &dyn Expected) -> ReadError {
        let unexpected = match self.scalar() {
            Ok(Ok(Scalar::Text(text))) => Unexpected::Str(text),
            Ok(Ok(Scalar::Signed(number))) => Unexpected::Signed(number),
            Ok(Ok(Scalar::Unsigned(number))) => Unexpected::Unsigned(number),
            Ok(Ok(Scalar::Float(number))) => Unexpected::Float(number),
            Ok(Ok(Scalar::Flag(flag))) => Unexpected::Bool(flag),
            Ok(Err(other)) => other,
            Err(error) => return error,
        };
        Error::invalid_type(unexpected, expected)
    }
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.get_ref() {
            DeValue::Table(_) => self.deserialize_map(visitor),
            DeValue::Array(_) => self.deserialize_seq(visitor),
            _ => self.deserialize_str(visitor),
        }
    }

    /// Of any type: the visitor refuses other types than its own.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.scalar_of(&visitor)? {
            Scalar::Text(text) => visitor.visit_str(text),
            Scalar::Signed(number) => visitor.visit_i64(number),
            Scalar::Unsigned(number) => visitor.visit_u64(number),
            Scalar::Float(number) => visitor.visit_f64(number),
            Scalar::Flag(flag) => visitor.visit_bool(flag),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let entries = self.table(&visitor)?;
        visitor.visit_map(entries)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let items = self.array(&visitor)?;
        visitor.visit_seq(items)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_map(self.table(&"a table")?)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    /// A value that is present is `Some`: a missing one has no node.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    /// No choice of a configuration has values of its own.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_enum(keyword(text)),
            _ => Err(self.refused(&"a text")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char string bytes byte_buf unit unit_struct identifier
    }
}

impl IntoDeserializer<'_, ReadError> for Node<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn keyword(text: &str) -> StrDeserializer<'_, ReadError> {
    text.into_deserializer()
}

/// The keys of a table with their values.
struct Entries<'n> {
    entries: map::Iter<'n, Spanned<DeString<'n>>, Spanned<DeValue<'n>>>,
    value: Option<Node<'n>>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(Node(value));
        let name = seed.deserialize(keyword(key.get_ref()));
        name.map(Some).map_err(|error| error.at(key.span().start))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let value = self.value.take().ok_or_else(|| ReadError::custom("a key has no value"))?;
        seed.deserialize(value).map_err(|error| error.at(value.0.span().start))
    }
}

/// The values of an array.
struct Items<'n>(slice::Iter<'n, Spanned<DeValue<'n>>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some(item) = self.0.next() else { return Ok(None) };
        let value = seed.deserialize(Node(item));
        value.map(Some).map_err(|error| error.at(item.span().start))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            ReadError { at, ..ReadError::custom(error.message()) }
        })?;
        of_table(table.into_inner(), 0..text.len())
    }
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        First,
        TheOther,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Newtype(u64);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct All {
        text: String,
        whole: u8,
        large: u64,
        below: i64,
        part: f64,
        flag: bool,
        choice: Choice,
        newtype: Newtype,
        pair: [f64; 2],
        list: Vec<Choice>,
        #[serde(default)]
        absent: Option<u64>,
        present: Option<u64>,
        table: BTreeMap<String, serde_json::Value>,
    }

    const ALL: &str = "text = 'a'
whole = 0xff
large = 18446744073709551615
below = -5
part = 1_000.5
flag = true
choice = 'the-other'
newtype = 7
pair = [1, 2.5]
list = ['first', 'the-other']
present = 12
table = { a = [1, 'b'], c.d = false }
";

    #[test]
    fn values_of_all_kinds_are_those_of_the_crate() {
        let ours: All = read(ALL).expect("all");
        let theirs: All = toml::from_str(ALL).expect("all");
        assert_eq!(ours, theirs);
    }

    #[test]
    fn errors_are_where_those_of_the_crate_are_in_words_of_ours() {
        let known = "known are text, whole, large, below, part, flag, choice, newtype, pair, list, absent, present, table";
        for (from, to, says) in [
            ("whole = 0xff", "whole = 256", "256 is too large"),
            ("whole = 0xff", "whole = 'x'", "\"x\" is not a whole number of 0 or more"),
            (
                "whole = 0xff",
                "whole = '1'",
                "\"1\" is not a whole number of 0 or more: write it without quotes",
            ),
            (
                "part = 1_000.5",
                "part = '.5'",
                "\".5\" is not a number: write a digit before the point",
            ),
            ("below = -5", "below = 1.5", "1.5 is not a whole number"),
            ("part = 1_000.5", "part = true", "true is not a number"),
            ("flag = true", "flag = [true]", "a list is not true or false"),
            ("newtype = 7", "newtype = -7", "-7 is not a whole number of 0 or more"),
            (
                "choice = 'the-other'",
                "choice = 'none'",
                "\"none\" is not a choice: choose \"first\", \"the-other\"",
            ),
            ("choice = 'the-other'", "choice = {}", "a table is not a text"),
            ("pair = [1, 2.5]", "pair = [1]", "invalid length 1, expected an array of length 2"),
            (
                "list = ['first', ",
                "list = ['first', 'second', ",
                "\"second\" is not a choice: choose \"first\", \"the-other\"",
            ),
            ("text = 'a'", "text = 'a'\nmore = 1", &format!("unknown key `more`: {known}")),
            ("text = 'a'", "text = 1979-05-27", "a date is not a text"),
            ("flag = true", "", "the key `flag` is missing"),
            ("table = {", "table = 5 #", "5 is not a table"),
        ] {
            let text = ALL.replace(from, to);
            let ours = read::<All>(&text).expect_err(to);
            let theirs = toml::from_str::<All>(&text).expect_err(to);
            assert_eq!(ours.to_string(), says, "{to}");
            assert_eq!(ours.at, theirs.span().map(|span| span.start), "{to}");
        }
        let text = "a = 1\nb = 18446744073709551616";
        let large = read::<BTreeMap<String, u64>>(text).expect_err(text);
        assert_eq!((large.to_string().as_str(), large.at), ("the number is too large", Some(10)));
    }
}
