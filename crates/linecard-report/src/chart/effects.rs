//! Effects of changes with confidence intervals.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;

/// Effects of changes with their confidence intervals, one below the other (a forest plot). An
/// interval without zero is filled; one that contains zero is hollow: not significant.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    pub(crate) heading: Heading,
    pub(crate) axis: Axis,
    pub(crate) level: f64,
    pub(crate) effects: Vec<Effect>,
}

/// The effect of one change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effect {
    pub(crate) name: String,
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// p-value, corrected for several changes.
    pub(crate) p: Option<f64>,
}

impl Effect {
    /// Whether the interval lies on one side of zero.
    pub(crate) fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl Effects {
    /// An empty chart with `key` in JSON. The axis names the quantity, such as "change of the p99
    /// gap"; `level` is the confidence level, such as 0.95.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>, axis: Axis, level: f64) -> Self {
        Self { heading: Heading::new(key, title), axis, level, effects: Vec::new() }
    }

    /// Adds a change: its effect, the interval, and its corrected p-value if there is one.
    pub fn effect(
        &mut self,
        name: impl Into<String>,
        estimate: f64,
        [low, high]: [f64; 2],
        p: impl Into<Option<f64>>,
    ) -> &mut Self {
        self.effects.push(Effect { name: name.into(), estimate, low, high, p: p.into() });
        self
    }

    /// The value and its interval in words.
    pub(crate) fn text(&self, effect: &Effect) -> String {
        let text = |value: f64| self.axis.unit.text(value);
        let sign = if effect.estimate > 0.0 { "+" } else { "" };
        format!("{sign}{} [{}, {}]", text(effect.estimate), text(effect.low), text(effect.high))
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key.clone(), &self.heading.title);
        let percent = (self.level * 1000.0).round() / 10.0;
        let value = format!("{} and its {percent} % interval", self.axis.name);
        table.columns([
            ("change", "change"),
            ("effect", value.as_str()),
            ("p", "p, corrected"),
            ("clear", "clear"),
        ]);
        for effect in &self.effects {
            table.row(vec![
                Value::Text(effect.name.clone()),
                Value::Text(self.text(effect)),
                effect.p.map_or(Value::Text("–".to_owned()), |p| Value::Text(format!("{p:.3}"))),
                Value::Flag(effect.is_clear()),
            ]);
        }
        table
    }
}
