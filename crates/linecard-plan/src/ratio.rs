//! Exact fractions, for balance equations.

use alloc::vec::Vec;

/// A positive fraction in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

impl Ratio {
    pub(super) const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `self · by / per`; none if that overflows or divides by 0.
    pub(super) fn scaled(self, by: u32, per: u32) -> Option<Self> {
        let numerator = u128::from(self.numerator) * u128::from(by);
        let denominator = u128::from(self.denominator) * u128::from(per);
        if denominator == 0 {
            return None;
        }
        let common = gcd(numerator, denominator);
        let numerator = u64::try_from(numerator / common).ok()?;
        let denominator = u64::try_from(denominator / common).ok()?;
        Some(Self { numerator, denominator })
    }
}

/// The smallest integers in these proportions; none if they overflow.
pub(super) fn integers(ratios: &[Ratio]) -> Option<Vec<u64>> {
    let multiple = ratios.iter().try_fold(1_u64, |multiple, ratio| {
        let common = gcd(multiple.into(), ratio.denominator.into()) as u64;
        multiple.checked_mul(ratio.denominator / common)
    })?;
    let whole: Option<Vec<u64>> = ratios
        .iter()
        .map(|ratio| ratio.numerator.checked_mul(multiple / ratio.denominator))
        .collect();
    let mut whole = whole?;
    let common = whole.iter().fold(0, |common, &n| gcd(common, n.into()));
    whole.iter_mut().for_each(|n| *n = (u128::from(*n) / common.max(1)) as u64);
    Some(whole)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_stay_in_lowest_terms_and_do_not_overflow() {
        let third = Ratio::ONE.scaled(2, 6).expect("it fits");
        assert_eq!((third.numerator, third.denominator), (1, 3));
        assert_eq!(Ratio::ONE.scaled(1, 0), None);
        let huge = Ratio { numerator: u64::MAX, denominator: 1 };
        assert_eq!(huge.scaled(2, 1), None);
        let half = Ratio { numerator: 1, denominator: 2 };
        assert_eq!(integers(&[third, half, Ratio::ONE]), Some(alloc::vec![2, 3, 6]));
        assert_eq!(integers(&[Ratio { numerator: 4, denominator: 1 }]), Some(alloc::vec![1]));
    }
}
