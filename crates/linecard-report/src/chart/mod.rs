//! Charts.

mod curves;
mod effects;
mod histograms;
mod ledger;
mod spread;
mod time_series;

pub use curves::Curves;
pub use effects::Effects;
pub use histograms::Histograms;
pub use ledger::Ledger;
pub use spread::Spread;
pub use time_series::TimeSeries;

pub(crate) use curves::{Curve, Residual};
pub(crate) use effects::Effect;
pub(crate) use histograms::Distribution;
pub(crate) use ledger::Cause;
pub(crate) use spread::{QUANTILE_KEYS, Stage};
pub(crate) use time_series::Line;

use crate::table::Table;

/// A chart of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Values over time.
    TimeSeries(TimeSeries),
    /// Distributions of values.
    Histograms(Histograms),
    /// Quantiles by stage.
    Spread(Spread),
    /// Parts of a total by cause.
    Ledger(Ledger),
    /// Differences with their confidence intervals.
    Effects(Effects),
    /// Published points over curves of a model.
    Curves(Curves),
}

/// The properties that all charts have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heading {
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) caption: Option<String>,
}

impl Heading {
    fn new(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self { key: key.into(), title: title.into(), caption: None }
    }
}

impl Chart {
    /// Its key in JSON.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.heading().key
    }

    /// Its title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.heading().title
    }

    /// The chart as an SVG picture, with its style, for a file of its own; none of a chart that the script of a page draws.
    #[must_use]
    pub fn svg(&self) -> Option<String> {
        crate::draw::picture(self)
    }

    /// Its values, as the JSON beside a page has them.
    #[must_use]
    pub fn json(&self) -> String {
        crate::json::chart(self)
    }

    pub(crate) fn heading(&self) -> &Heading {
        match self {
            Self::TimeSeries(chart) => &chart.heading,
            Self::Histograms(chart) => &chart.heading,
            Self::Spread(chart) => &chart.heading,
            Self::Ledger(chart) => &chart.heading,
            Self::Effects(chart) => &chart.heading,
            Self::Curves(chart) => &chart.heading,
        }
    }

    /// The chart as a table, for readers who cannot see it.
    pub(crate) fn table(&self) -> Table {
        match self {
            Self::TimeSeries(chart) => chart.table(),
            Self::Histograms(chart) => chart.table(),
            Self::Spread(chart) => chart.table(),
            Self::Ledger(chart) => chart.table(),
            Self::Effects(chart) => chart.table(),
            Self::Curves(chart) => chart.table(),
        }
    }

    /// Number of points in JSON if none are left out.
    pub(crate) fn point_count(&self) -> usize {
        match self {
            Self::TimeSeries(chart) => chart.lines.iter().map(|line| line.points.len()).sum(),
            _ => 0,
        }
    }
}

macro_rules! kinds {
    ($($kind:ident),*) => {
        $(impl From<$kind> for Chart {
            fn from(chart: $kind) -> Self {
                Self::$kind(chart)
            }
        }

        impl $kind {
            /// Sets a sentence below the chart.
            pub fn caption(&mut self, text: impl Into<String>) -> &mut Self {
                self.heading.caption = Some(text.into());
                self
            }
        })*
    };
}

kinds!(TimeSeries, Histograms, Spread, Ledger, Effects, Curves);
