//! What each cause has taken of a whole.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use serde::Serialize;

/// What each cause has taken of a whole: bars with their value and share.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    pub(crate) heading: Heading,
    pub(crate) axis: Axis,
    pub(crate) whole: Option<f64>,
    pub(crate) causes: Vec<Cause>,
}

/// One cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cause {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// How often it occurred.
    pub(crate) events: Option<u64>,
    /// Not a cause that is known, but what is left.
    pub(crate) is_rest: bool,
}

impl Ledger {
    /// An empty chart: `key` in JSON. Shares are of the sum of all causes, unless [`Ledger::whole`] says
    /// of what else.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>, axis: Axis) -> Self {
        Self { heading: Heading::new(key, title), axis, whole: None, causes: Vec::new() }
    }

    /// Shares are of this value.
    pub fn whole(&mut self, value: f64) -> &mut Self {
        self.whole = Some(value).filter(|value| *value > 0.0);
        self
    }

    /// Adds a cause that occurred so often, if that is known. Bars are in the order of their causes.
    pub fn cause(
        &mut self,
        name: impl Into<String>,
        value: f64,
        events: impl Into<Option<u64>>,
    ) -> &mut Self {
        let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
        let cause = Cause { name: name.into(), value, events: events.into(), is_rest: false };
        self.causes.push(cause);
        self
    }

    /// Adds what no known cause has taken: drawn hatched.
    pub fn rest(&mut self, name: impl Into<String>, value: f64) -> &mut Self {
        self.cause(name, value, None);
        self.causes.iter_mut().last().into_iter().for_each(|cause| cause.is_rest = true);
        self
    }

    /// What shares are of.
    pub(crate) fn total(&self) -> f64 {
        self.whole.unwrap_or_else(|| self.causes.iter().map(|cause| cause.value).sum())
    }

    pub(crate) fn share(&self, cause: &Cause) -> f64 {
        let total = self.total();
        if total > 0.0 { cause.value / total } else { 0.0 }
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key, &self.heading.title);
        let value = self.axis.name.as_str();
        table.columns([
            ("cause", "cause"),
            ("value", value),
            ("share", "share"),
            ("events", "events"),
        ]);
        for cause in &self.causes {
            table.row(vec![
                Value::Text(cause.name.clone()),
                Value::Text(self.axis.unit.text(cause.value)),
                Value::Share(self.share(cause)),
                cause.events.map_or(Value::Text("–".to_owned()), Value::Count),
            ]);
        }
        table
    }
}
