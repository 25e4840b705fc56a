//! The varied key: keys and their values, and the points of their grid.

use super::super::transmit::Config;
use super::error::{AxisError, SweepError};
use crate::Error;
use linecard_config::{ConfigError, Document, Parameter, Varied, scaled};
use serde_json::Value;

/// Most points of a grid: a larger table is not readable.
pub(super) const MAX_POINTS: u64 = 10_000_000;
/// Digits behind the point of ends and steps.
const MAX_DECIMALS: usize = 9;

/// A key and its values.
pub(super) struct Axis {
    pub(super) parameter: &'static Parameter,
    pub(super) values: Vec<Value>,
}

impl Axis {
    /// `KEY=FROM..TO:STEP` or `KEY=A,B,C`; each value is tried on the scenario.
    pub(super) fn parse(text: &str, document: &Document) -> Result<Self, Error> {
        let refuse = |source| SweepError::Axis { text: text.to_owned(), source };
        let (key, values) = text.split_once('=').ok_or_else(|| refuse(AxisError::NoValues))?;
        document.config::<Config>()?;
        let problem = |error: ConfigError| refuse(AxisError::Value(error));
        let varied = Varied::<Config>::new(document.clone(), &[key]).map_err(problem)?;
        let parameter = varied.parameters()[0];
        // A path may have two dots in a row.
        let texts = match values.split_once("..") {
            Some((from, rest)) if !parameter.is_text => range(from.trim(), rest).map_err(refuse)?,
            _ => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        let values: Vec<Value> = texts.iter().map(|text| parameter.value_of(text)).collect();
        for value in &values {
            varied.at(std::slice::from_ref(value)).map_err(problem)?;
        }
        Ok(Self { parameter, values })
    }
}

/// All combinations; the last key changes fastest.
pub(super) struct Grid {
    axes: Vec<Axis>,
    points: u64,
}

impl Grid {
    pub(super) fn new(axes: Vec<Axis>) -> Result<Self, Error> {
        for (at, axis) in axes.iter().enumerate() {
            let key = &axis.parameter.name;
            if axes[..at].iter().any(|other| other.parameter.name == *key) {
                return Err(SweepError::AxisTwice { key: key.clone() }.into());
            }
        }
        let count = |axis: &Axis| axis.values.len() as u64;
        let points = axes.iter().map(count).try_fold(1_u64, u64::checked_mul);
        match points.filter(|points| *points <= MAX_POINTS) {
            Some(points) => Ok(Self { axes, points }),
            None => Err(SweepError::TooMany.into()),
        }
    }

    pub(super) fn points(&self) -> u64 {
        self.points
    }

    pub(super) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.axes.iter().map(|axis| axis.parameter.name.clone()).collect()
    }

    /// The values of a key, none where it is not varied.
    pub(super) fn values_of(&self, name: &str) -> &[Value] {
        let axis = self.axes.iter().find(|axis| axis.parameter.name == name);
        axis.map_or(&[], |axis| &axis.values)
    }

    /// The values at a point, in the order of the keys.
    pub(super) fn values(&self, mut point: u64) -> Vec<Value> {
        let mut values = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            let count = axis.values.len() as u64;
            values.push(axis.values[(point % count) as usize].clone());
            point /= count;
        }
        values.reverse();
        values
    }
}

/// Both ends included; counted in whole units of the finest digit, so that nothing is rounded.
fn range(from: &str, rest: &str) -> Result<Vec<String>, AxisError> {
    let form = || AxisError::Form;
    let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let [from, to, step] = [from, to, step].map(|text| parts(text.trim()));
    let ((from, unit), (to, to_unit), (step, step_unit)) =
        (from.ok_or_else(form)?, to.ok_or_else(form)?, step.ok_or_else(form)?);
    if to_unit != unit || (step_unit != unit && !step_unit.is_empty()) {
        return Err(AxisError::Units);
    }
    if step == 0 || to < from {
        return Err(AxisError::Order);
    }
    if (to - from) / step >= MAX_POINTS {
        return Err(AxisError::TooMany);
    }
    let value = |at: u64| format!("{}{unit}", decimal(from + at * step));
    Ok((0..=(to - from) / step).map(value).collect())
}

/// A number in units of its last possible digit, and what stands behind it.
fn parts(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((scaled(number, MAX_DECIMALS)?, unit))
}

fn decimal(value: u64) -> String {
    let one = 10_u64.pow(MAX_DECIMALS as u32);
    let (whole, fraction) = (value / one, value % one);
    if fraction == 0 {
        return whole.to_string();
    }
    format!("{whole}.{fraction:09}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Axis, Error> {
        Axis::parse(text, &Document::of_text("", "")?)
    }

    fn values(text: &str) -> Vec<Value> {
        parse(text).unwrap_or_else(|why| panic!("{why}")).values
    }

    #[test]
    fn ranges_have_both_ends_and_are_exact() {
        assert_eq!(values("core.mhz=100..102"), [100, 101, 102]);
        assert_eq!(values("core.mhz=0.1..0.3:0.1"), [0.1, 0.2, 0.3]);
        assert_eq!(values("line.rate=40G..100G:30G"), ["40G", "70G", "100G"]);
        assert_eq!(values("dma.mhz=1x..2x:0.5"), ["1x", "1.5x", "2x"]);
        assert_eq!(values("load.mtu=512, 1500"), [512, 1500]);
        for wrong in ["core.mhz=5..1", "core.mhz=1..5:0", "core.mhz=a..b", "core.mhz=0..5", "x=1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_key_changes_fastest() {
        let axes = ["core.count=1,2", "load.mtu=512..514"]
            .map(|text| parse(text).unwrap_or_else(|why| panic!("{why}")));
        let grid = Grid::new(axes.into()).unwrap_or_else(|why| panic!("{why}"));
        let all: Vec<Vec<Value>> = (0..grid.points()).map(|point| grid.values(point)).collect();
        assert_eq!(all.len(), 6);
        assert_eq!(
            (&all[1][..], &all[3][..]),
            (&[json!(1), json!(513)][..], &[json!(2), json!(512)][..])
        );
    }
}
