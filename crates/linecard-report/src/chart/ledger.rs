//! Parts of a total by cause.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use serde::Serialize;

/// Parts of a total by cause: bars with value and share.
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
    /// Whether it is the part without a known cause.
    pub(crate) is_rest: bool,
}

impl Ledger {
    /// An empty chart with `key` in JSON. Shares are relative to the sum of all causes, unless
    /// [`Ledger::whole`] sets another total.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>, axis: Axis) -> Self {
        Self { heading: Heading::new(key, title), axis, whole: None, causes: Vec::new() }
    }

    /// Its key in JSON.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.heading.key
    }

    /// Sets the total that shares are relative to.
    pub fn whole(&mut self, value: f64) -> &mut Self {
        self.whole = Some(value).filter(|value| *value > 0.0);
        self
    }

    /// Adds a cause, with its number of events if that is known. Bars are in the order of the
    /// causes.
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

    /// Adds the part without a known cause, which is drawn hatched.
    pub fn rest(&mut self, name: impl Into<String>, value: f64) -> &mut Self {
        self.cause(name, value, None);
        self.causes.iter_mut().last().into_iter().for_each(|cause| cause.is_rest = true);
        self
    }

    /// The total that shares are relative to.
    pub(crate) fn total(&self) -> f64 {
        self.whole.unwrap_or_else(|| self.causes.iter().map(|cause| cause.value).sum())
    }

    pub(crate) fn share(&self, cause: &Cause) -> f64 {
        let total = self.total();
        if total > 0.0 { cause.value / total } else { 0.0 }
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key.clone(), &self.heading.title);
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
