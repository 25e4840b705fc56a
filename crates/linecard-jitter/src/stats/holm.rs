//! Several tests at once: Holm's step-down correction.
//!
//! S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
//! Statistics 6 (1979). The chance that any of several toggles without effect is called effective
//! stays below the level, however the tests depend on each other.

use alloc::vec::Vec;

/// The corrected p-values, in the same order; compare each with the level. NaN counts as 1.
///
/// ```
/// use linecard_jitter::stats::holm::adjusted;
/// assert_eq!(adjusted(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
/// ```
#[must_use]
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let known = |p: f64| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| known(p[a]).total_cmp(&known(p[b])));
    let mut corrected = alloc::vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (place, &index) in order.iter().enumerate() {
        let left = (p.len() - place) as f64;
        largest = largest.max((known(p[index]) * left).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// Holm's procedure as he states it: reject in order of p while p(i) ≤ α / (m - i + 1).
    #[test]
    fn equals_the_step_down_procedure() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let m = 1 + rng.below(8) as usize;
            let p: Vec<f64> = (0..m).map(|_| rng.below(1_000) as f64 / 10_000.0).collect();
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let kept = sorted.iter().enumerate().find(|(i, p)| **p * (m - i) as f64 > 0.05);
            let limit = kept.map_or(f64::INFINITY, |(_, p)| *p);
            for (p, corrected) in p.iter().zip(adjusted(&p)) {
                assert_eq!(corrected <= 0.05, *p < limit, "seed {seed}");
            }
        }
    }

    #[test]
    fn one_alone_is_unchanged() {
        assert_eq!(adjusted(&[0.04]), [0.04]);
        assert_eq!(adjusted(&[]), [0.0; 0]);
        assert_eq!(adjusted(&[f64::NAN, 0.01]), [1.0, 0.02]);
    }
}
