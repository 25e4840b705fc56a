//! All figures of one set of samples.

use super::quantile::Quantile;
use super::sorted::Sorted;
use alloc::vec::Vec;

/// Summary of one set of samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub n: u64,
    /// Minimum.
    pub min_ns: i64,
    /// Maximum.
    pub max_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// The standard deviation, with n - 1 in its denominator; 0 for one sample.
    pub deviation_ns: f64,
    /// The requested quantiles, each with its interval.
    pub quantiles: Vec<Quantile>,
}

impl Sorted {
    /// All figures, with these quantiles at `confidence`; `None` without samples.
    #[must_use]
    pub fn summary(&self, quantiles: &[f64], confidence: f64) -> Option<Summary> {
        Some(Summary {
            n: self.n(),
            min_ns: self.min()?,
            max_ns: self.max()?,
            mean_ns: self.mean_ns(),
            deviation_ns: self.deviation_ns(),
            quantiles: quantiles
                .iter()
                .filter_map(|&q| Quantile::of(self, q, confidence))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_samples_have_no_summary() {
        assert_eq!(Sorted::default().summary(&[0.5], 0.95), None);
    }
}
