//! Values with units. Each type has one parser and one printer, exact to its smallest unit.

use garde::rules::range::{Bounds, OutOfBounds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A text that is not a value of the type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct UnitError {
    /// The text.
    pub text: String,
    /// The kind of value, with examples.
    pub expected: &'static str,
}

/// Whole bits per second: `9600`, `200M`, `2.5G`. K, M, G and T count in 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// Bytes: `1500`, `64K`, `64KiB`, `1M`. K, M and G count in 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

/// A number of things: `250`, `64k`, `1M`. k and M count in 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Count(u64);

/// A time in whole picoseconds, less than 213 days: `7419.761ns`, `50us`, `1ms`, `2s`. The unit is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A frequency in whole hertz: `423` and `423MHz` are the same, `1.5GHz`, `800kHz`. Numbers count in MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frequency(u64);

/// A share of all, 0 to 1: `0.01` or `1%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Probability(f64);

/// A suffix and how many digits it shifts the point.
type Decimal = (&'static str, usize);

const RATES: [Decimal; 6] = [("T", 12), ("G", 9), ("M", 6), ("K", 3), ("k", 3), ("", 0)];
const COUNTS: [Decimal; 4] = [("M", 6), ("k", 3), ("K", 3), ("", 0)];
const TIMES: [Decimal; 7] =
    [("s", 12), ("ms", 9), ("us", 6), ("µs", 6), ("μs", 6), ("ns", 3), ("ps", 0)];
const FREQUENCIES: [Decimal; 5] = [("GHz", 9), ("MHz", 6), ("kHz", 3), ("Hz", 0), ("", 6)];
const SIZES: [(&str, u64); 4] = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];

/// The number in front, and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// A decimal number times 10 to the power of `places`; nothing where digits would be lost.
#[must_use]
pub fn scaled(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > places {
        return None;
    }
    format!("{whole}{fraction:0<places$}").parse().ok()
}

fn decimal(text: &str, units: &[Decimal]) -> Option<u64> {
    let (number, unit) = split(text.trim());
    let (_, places) = units.iter().find(|(name, _)| *name == unit)?;
    scaled(number, *places)
}

/// The form of texts that [`decimal`] takes, with what may follow, as JSON Schema writes it: no more digits behind the
/// point than the unit has.
fn pattern(units: &[Decimal], suffix: &str) -> String {
    let number = |(unit, places): &Decimal| format!(r"[0-9]+(\.[0-9]{{0,{places}}}0*)?\s*{unit}");
    let numbers: Vec<String> = units.iter().map(number).collect();
    format!(r"^\s*({}){suffix}\s*$", numbers.join("|"))
}

/// The value in the largest unit that it has at least one of, exactly.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, units: &[Decimal]) -> fmt::Result {
    let fits = |(_, places): &&Decimal| value >= 10_u64.pow(*places as u32);
    let (unit, places) = units.iter().find(fits).or(units.last()).copied().unwrap_or(("", 0));
    let factor = 10_u64.pow(places as u32);
    let fraction = format!("{:0places$}", value % factor);
    match fraction.trim_end_matches('0') {
        "" => write!(f, "{}{unit}", value / factor),
        fraction => write!(f, "{}.{fraction}{unit}", value / factor),
    }
}

impl Rate {
    /// 1,000 bit/s.
    pub const KILO: Self = Self(1_000);

    /// From bits per second.
    #[must_use]
    pub const fn new(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }

    /// From Gbit/s.
    #[must_use]
    pub const fn giga(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000_000))
    }

    /// From Tbit/s.
    #[must_use]
    pub const fn tera(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000_000_000))
    }

    /// Bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl Bytes {
    /// From a number of bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Count {
    /// From a number.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// From nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// From milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }

    /// From seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000_000))
    }

    /// Picoseconds.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }
}

impl Frequency {
    /// From hertz.
    #[must_use]
    pub const fn from_hz(hz: u64) -> Self {
        Self(hz)
    }

    /// From megahertz.
    #[must_use]
    pub const fn from_mhz(mhz: u64) -> Self {
        Self(mhz.saturating_mul(1_000_000))
    }

    /// Hertz.
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.0
    }
}

impl From<Duration> for std::time::Duration {
    /// Rounded down to nanoseconds.
    fn from(time: Duration) -> Self {
        Self::from_nanos(time.as_ns())
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let bare = text.strip_suffix("bit/s").unwrap_or(text).trim_end();
        decimal(bare, &RATES).map(Self).ok_or_else(|| Self::refuse(text))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text.trim());
        let unit = unit.to_ascii_uppercase();
        let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
        let factor = SIZES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let value = number.parse::<u64>().ok().zip(factor);
        value
            .and_then(|(number, factor)| number.checked_mul(factor))
            .map(Self)
            .ok_or_else(|| Self::refuse(text))
    }
}

impl FromStr for Count {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        decimal(text, &COUNTS).map(Self).ok_or_else(|| Self::refuse(text))
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        decimal(text, &TIMES).map(Self).ok_or_else(|| Self::refuse(text))
    }
}

impl Probability {
    /// The format that the JSON Schema names.
    pub const FORMAT: &'static str = "probability";

    /// The share, 0 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let value = number.parse::<f64>().ok().map(|number| number / whole);
        let value = value.filter(|value| (0.0..=1.0).contains(value));
        value.map(Self).ok_or_else(|| UnitError {
            text: text.to_owned(),
            expected: "a probability: write 0 to 1, or 0% to 100%",
        })
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for Probability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Probability {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Probability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "format": Self::FORMAT,
            "pattern": r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*%?\s*$",
            "minimum": 0,
            "maximum": 1,
        })
    }
}

impl FromStr for Frequency {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        decimal(text, &FREQUENCIES).map(Self).ok_or_else(|| Self::refuse(text))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &RATES)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole =
            |(_, factor): &&(&str, u64)| self.0 >= *factor && self.0.is_multiple_of(*factor);
        let (unit, factor) = SIZES.iter().find(whole).copied().unwrap_or(("", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, places): &&Decimal| self.0.is_multiple_of(10_u64.pow(*places as u32));
        let (unit, places) = COUNTS.iter().find(whole).copied().unwrap_or(("", 0));
        match self.0 {
            0 => f.write_str("0"),
            count => write!(f, "{}{unit}", count / 10_u64.pow(places as u32)),
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0ns"),
            ps => write_decimal(f, ps, &TIMES),
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &[("", 6)])
    }
}

/// Common code of all quantities. `$pattern` is the form of texts, as JSON Schema writes it; `$as` is how a value is
/// written in documents; `$number` reads a bare number.
macro_rules! quantity {
    ($type:ident, $format:literal, $kinds:tt, $pattern:expr, $expected:literal, |$value:ident| $as:expr, |$text:ident| $number:expr) => {
        impl $type {
            /// The format that the JSON Schema names.
            pub const FORMAT: &'static str = $format;

            fn refuse(text: &str) -> UnitError {
                UnitError { text: text.to_owned(), expected: $expected }
            }
        }

        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $as
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Value::from(*self).serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$type, E> {
                        number_of(&number.to_string())
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$type, E> {
                        number_of(&number.to_string())
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$type, E> {
                        number_of(&number.to_string())
                    }
                }
                fn number_of<E: serde::de::Error>($text: &str) -> Result<$type, E> {
                    $number.map_err(E::custom)
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $kinds, "format": $format, "pattern": $pattern })
            }
        }

        impl Bounds for $type {
            type Size = Self;
            const MIN: Self = Self(0);
            const MAX: Self = Self(u64::MAX);

            fn validate_bounds(&self, low: Self, high: Self) -> Result<(), OutOfBounds> {
                if *self < low {
                    return Err(OutOfBounds::Lower);
                }
                if *self > high { Err(OutOfBounds::Upper) } else { Ok(()) }
            }
        }
    };
}

quantity!(
    Rate,
    "rate",
    ["integer", "string"],
    pattern(&RATES, r"\s*(bit/s)?"),
    "a rate in bits per second: write for example 10G, 2.5G or 200M",
    |value| value.0.into(),
    |text| text.parse::<Rate>()
);
quantity!(
    Bytes,
    "bytes",
    ["integer", "string"],
    r"^\s*[0-9]+\s*[GMKgmk]?([Ii]?[Bb])?\s*$",
    "a size in bytes: write for example 1500, 64K or 1M",
    |value| value.0.into(),
    |text| text.parse::<Bytes>()
);
quantity!(
    Count,
    "count",
    ["integer", "string"],
    pattern(&COUNTS, ""),
    "a whole number: write for example 1000, 64k or 1M",
    |value| value.0.into(),
    |text| text.parse::<Count>()
);
quantity!(
    Duration,
    "duration",
    ["number", "string"],
    pattern(&TIMES, ""),
    "a time: write for example 50us, 1ms or 2s",
    |value| value.to_string().into(),
    |text| Err(Duration::refuse(text))
);
quantity!(
    Frequency,
    "frequency",
    ["number", "string"],
    pattern(&FREQUENCIES, ""),
    "a clock in MHz: write for example 423 or 0.5",
    |value| Value::from(value.0 as f64 / 1e6),
    |text| text.parse::<Frequency>()
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value is printed so that it is read back.
    fn back<T: FromStr<Err = UnitError> + fmt::Display + PartialEq + fmt::Debug>(values: &[T]) {
        for value in values {
            assert_eq!(value.to_string().parse::<T>().as_ref(), Ok(value), "{value}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let numbers = [0, 1, 999, 1_000, 1_024, 1_500, 65_536, 423_000_000, u64::MAX];
        back(&numbers.map(Rate));
        back(&numbers.map(Bytes));
        back(&numbers.map(Count));
        back(&numbers.map(Duration));
        back(&numbers.map(Frequency));
    }

    #[test]
    fn rates_are_exact() {
        assert_eq!("2.5G".parse(), Ok(Rate::new(2_500_000_000)));
        assert_eq!("100 Gbit/s".parse(), Ok(Rate::giga(100)));
        assert_eq!("9600".parse(), Ok(Rate::new(9_600)));
        assert_eq!(Rate::new(2_500_000_000).to_string(), "2.5G");
        for text in ["", "G", "-1G", "fast", "1.0001K", "999999999T", "10Gbyte"] {
            let error = text.parse::<Rate>().expect_err(text);
            assert!(error.to_string().contains("write for example 10G"), "{error}");
        }
    }

    #[test]
    fn sizes_count_in_1024() {
        assert_eq!("64K".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("2 MiB".parse(), Ok(Bytes::new(2 << 20)));
        assert_eq!("1500b".parse(), Ok(Bytes::new(1_500)));
        assert_eq!(Bytes::new(65_535).to_string(), "65535");
        for text in ["", "x", "1.5K", "-1", "99999999999999999999", "999999999999999999K"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_count_in_1000() {
        assert_eq!("64k".parse(), Ok(Count(64_000)));
        assert_eq!([1_000_000, 20_000, 1_500].map(|n| Count(n).to_string()), ["1M", "20k", "1500"]);
        for text in ["", "1G", "1.0001k", "99999999999999999M"] {
            assert!(text.parse::<Count>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_exact_to_the_picosecond() {
        assert_eq!("7419.761 ns".parse(), Ok(Duration::from_ps(7_419_761)));
        assert_eq!("28ms".parse(), Ok(Duration::from_ms(28)));
        assert_eq!("50µs".parse(), Ok(Duration::from_ns(50_000)));
        assert_eq!(Duration::from_ns(7_410).to_string(), "7.41us");
        for text in ["5", "1e3s", "-1s", "us", "0.1ps", "99999999s"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn clocks_count_in_mhz() {
        assert_eq!("118.75".parse(), Ok(Frequency::from_hz(118_750_000)));
        assert_eq!("1.5GHz".parse(), Ok(Frequency::from_mhz(1_500)));
        assert_eq!(Frequency::from_hz(500_000).to_string(), "0.5");
        for text in ["-1", "1e3", "", ".5", "1.0000001"] {
            assert!(text.parse::<Frequency>().is_err(), "{text}");
        }
    }

    #[test]
    fn probabilities_are_shares_or_per_cent() {
        assert_eq!("1%".parse(), Ok(Probability(0.01)));
        assert_eq!(
            serde_json::from_str("[0.25, \"50 %\", 1]").ok(),
            Some([0.25, 0.5, 1.0].map(Probability))
        );
        for text in ["2", "-1", "NaN", "101%", ""] {
            assert!(text.parse::<Probability>().is_err(), "{text}");
        }
    }

    #[test]
    fn documents_have_numbers_or_texts() {
        let of = |text: &str| serde_json::from_str::<Vec<Frequency>>(text).expect("clocks");
        assert_eq!(
            of("[423, 0.5, \"1GHz\"]"),
            [423_000_000, 500_000, 1_000_000_000].map(Frequency)
        );
        assert!(serde_json::from_str::<Duration>("5").is_err());
        assert_eq!(serde_json::to_string(&Rate::KILO).ok().as_deref(), Some("1000"));
        assert_eq!(serde_json::to_string(&Duration::from_ns(5)).ok().as_deref(), Some("\"5ns\""));
    }
}
