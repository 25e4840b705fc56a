//! How sure a figure is: exact intervals where there are any, resampling where there are none.
//!
//! A measurement of jitter is a few rare events in very many samples. So quantiles come with an
//! interval from order statistics, counts with Garwood's, effects with a randomisation test, and where
//! the samples are too few for a bound, that is a value of its own and no number.

pub mod arms;
pub mod bootstrap;
pub mod effect;
pub mod holm;
pub mod quantile;
pub mod rate;
pub mod special;
pub mod summary;

/// Confidence of every interval unless the caller wants another.
pub const CONFIDENCE: f64 = 0.95;

/// Two bounds with a value between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
}

impl Interval {
    /// Whether `value` lies in it, bounds included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.lower <= value && value <= self.upper
    }

    /// Both bounds times `factor`, in order.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let (a, b) = (self.lower * factor, self.upper * factor);
        Self { lower: a.min(b), upper: a.max(b) }
    }
}
