//! Uncertainty of figures: exact confidence intervals where they exist, otherwise resampling.
//!
//! A jitter measurement consists of a few rare events among very many samples. So quantiles come
//! with an interval from order statistics, counts with Garwood's, and effects with a randomisation
//! test. Too few samples for a bound give a distinct value instead of a number.

pub mod arms;
pub mod bootstrap;
pub mod effect;
pub mod holm;
pub mod quantile;
pub mod rate;
pub mod sorted;
pub mod special;
pub mod summary;

/// Default confidence level.
pub const CONFIDENCE: f64 = 0.95;

/// A lower and an upper bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
}

impl Interval {
    /// Whether `value` is within the bounds, inclusive.
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
