//! The spread of a quantity by stage.

use super::Heading;
use crate::axis::Axis;
use crate::report::Value;
use crate::table::Table;
use crate::unit::Unit;

/// The quantiles of a stage, in order.
pub(crate) const QUANTILES: [&str; 5] = ["1 %", "50 %", "99 %", "99.99 %", "most"];
/// Their keys in JSON.
pub(crate) const QUANTILE_KEYS: [&str; 5] = ["p1", "p50", "p99", "p99_99", "max"];

/// Quantiles of one quantity at each stage of a path: the stage where they grow is the cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    pub(crate) heading: Heading,
    pub(crate) axis: Axis,
    pub(crate) stages: Vec<Stage>,
}

/// A stage; a quantile is `None` if there are too few samples for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) quantiles: [Option<f64>; 5],
}

impl Stage {
    /// The known quantiles, each with its index.
    pub(crate) fn known(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let all = self.quantiles.iter().enumerate();
        all.filter_map(|(index, value)| Some((index, (*value)?)))
    }
}

impl Spread {
    /// An empty chart with `key` in JSON.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>, axis: Axis) -> Self {
        Self { heading: Heading::new(key, title), axis, stages: Vec::new() }
    }

    /// Adds a stage, in the order of the path: the quantiles 1 %, 50 %, 99 %, 99.99 % and the
    /// maximum of `samples`. A quantile is `None` if there are too few samples for it: the chart
    /// shows "n too small".
    pub fn stage(
        &mut self,
        name: impl Into<String>,
        samples: u64,
        quantiles: [Option<f64>; 5],
    ) -> &mut Self {
        let quantiles = quantiles.map(|value| value.filter(|value| value.is_finite()));
        self.stages.push(Stage { name: name.into(), samples, quantiles });
        self
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.heading.key.clone(), &self.heading.title);
        let names = QUANTILE_KEYS.into_iter().zip(QUANTILES);
        table.columns([("stage", "stage"), ("samples", "samples")].into_iter().chain(names));
        for stage in &self.stages {
            let text = |value: &Option<f64>| {
                Value::Text(value.map_or("n too small".to_owned(), |x| self.unit().text(x)))
            };
            let mut row = vec![Value::Text(stage.name.clone()), Value::Count(stage.samples)];
            row.extend(stage.quantiles.iter().map(text));
            table.row(row);
        }
        table
    }

    pub(crate) fn unit(&self) -> Unit {
        self.axis.unit
    }
}
