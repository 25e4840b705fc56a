//! Units of values, and how values are formatted in them.

use crate::report::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A time in nanoseconds, shown as ns, µs, ms or s.
    Ns,
    /// A time in seconds, shown in the same way.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bits per second.
    BitRate,
    /// A fraction, 0 … 1, shown in percent.
    Share,
    /// A number of things, shown with k, M and G.
    Count,
    /// A number in the unit with this name, or without a unit: shown as it is.
    Plain(&'static str),
}

/// A prefix of a unit: its factor and its name.
type Step = (f64, &'static str);

impl Unit {
    /// Prefixes in ascending order; the first one is used for zero too.
    pub(crate) fn steps(self) -> Vec<Step> {
        let named = |steps: &[Step]| steps.to_vec();
        match self {
            Self::Ns => named(&[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
            Self::Seconds => named(&[(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]),
            Self::Bytes => {
                named(&[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")])
            }
            Self::BitRate => named(&[
                (1.0, "bit/s"),
                (1e3, "kbit/s"),
                (1e6, "Mbit/s"),
                (1e9, "Gbit/s"),
                (1e12, "Tbit/s"),
            ]),
            Self::Share => named(&[(0.01, "%")]),
            Self::Count => named(&[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")]),
            Self::Plain(name) => vec![(1.0, name)],
        }
    }

    /// The prefix for values of this size.
    fn step(self, magnitude: f64) -> Step {
        let steps = self.steps();
        let fits = |step: &&Step| magnitude.abs() >= step.0 * 0.9995;
        let largest = steps.iter().rfind(fits).or(steps.first());
        // Smaller values use the smallest prefix.
        if magnitude == 0.0 { self.zero() } else { largest.copied().unwrap_or((1.0, "")) }
    }

    fn zero(self) -> Step {
        let steps = self.steps();
        steps.iter().find(|step| step.0 == 1.0).or(steps.first()).copied().unwrap_or((1.0, ""))
    }

    /// A single value with three significant digits.
    pub(crate) fn text(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        if self == Self::Count && value.fract() == 0.0 && (0.0..1e6).contains(&value) {
            return Value::Count(value as u64).to_string();
        }
        let (size, name) = self.step(value);
        let scaled = value / size;
        let is_whole = scaled.fract() == 0.0 && scaled.abs() < 1e6;
        let decimals = match scaled.abs() {
            _ if is_whole => 0,
            x if x >= 99.95 => 0,
            x if x >= 9.995 => 1,
            x if x >= 0.0995 => 2,
            _ => 4,
        };
        join(&format!("{scaled:.decimals$}"), name)
    }

    /// A tick of an axis whose values reach `magnitude` and are `increment` apart.
    pub(crate) fn tick(self, value: f64, magnitude: f64, increment: f64) -> String {
        let (size, name) = self.step(magnitude);
        let decimals = (-(increment / size).abs().log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
        let text = format!("{:.decimals$}", value / size);
        let is_zero = text.trim_start_matches('-').parse() == Ok(0.0);
        match name {
            "k" | "M" | "G" | "T" if is_zero => "0".to_owned(),
            _ => join(if is_zero { "0" } else { &text }, name),
        }
    }
}

/// Joins a number and its unit; a plain factor gets no space.
fn join(number: &str, name: &str) -> String {
    let number = number.replace('-', "−");
    match name {
        "" | "k" | "M" | "G" | "T" => format!("{number}{name}"),
        // A non-breaking space.
        _ => format!("{number}\u{a0}{name}"),
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Ns => "ns",
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::BitRate => "bit/s",
            Self::Share => "share",
            Self::Count => "count",
            Self::Plain(name) => name,
        })
    }
}

/// The unit's prefixes, for the script of the page.
pub(crate) struct Steps(pub(crate) Unit);

impl Serialize for Steps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("steps", &self.0.steps())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_the_unit_that_suits_them() {
        let ns = |value| Unit::Ns.text(value).replace('\u{a0}', " ");
        let texts = [0.0, 7.0, 7.412, 7_412.0, 15_020.0, 999.9, -3_200.0, 2.5e6, 5e10].map(ns);
        let expected = [
            "0 ns",
            "7 ns",
            "7.41 ns",
            "7.41 µs",
            "15.0 µs",
            "1.00 µs",
            "−3.20 µs",
            "2.50 ms",
            "50 s",
        ];
        assert_eq!(texts, expected);
        assert_eq!(Unit::Ns.text(f64::NAN), "–");
        assert_eq!(Unit::Share.text(0.123), "12.3\u{a0}%");
        assert_eq!([1_500.0, 2.5e6].map(|n| Unit::Count.text(n)), ["1,500", "2.50M"]);
        assert_eq!(Unit::Count.tick(0.0, 1_500.0, 500.0), "0");
        assert_eq!(Unit::Seconds.text(7.4e-6), "7.40\u{a0}µs");
        assert_eq!(Unit::Plain("").text(3.0), "3");
    }

    #[test]
    fn ticks_of_an_axis_share_one_unit() {
        let ticks = [0.0, 0.5e3, 1.0e3, 1.5e3].map(|value| Unit::Ns.tick(value, 1.5e3, 500.0));
        assert_eq!(ticks, ["0\u{a0}µs", "0.5\u{a0}µs", "1.0\u{a0}µs", "1.5\u{a0}µs"]);
        assert_eq!(Unit::Ns.tick(-20.0, 20.0, 10.0), "−20\u{a0}ns");
        assert_eq!(Unit::Seconds.tick(-1e-18, 2.0, 1.0), "0\u{a0}s");
    }
}
