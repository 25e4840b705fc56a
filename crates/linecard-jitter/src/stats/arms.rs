//! The order in which arms are measured: randomised ABBA blocks.
//!
//! A host drifts (temperature, other tenants), so A and B are measured close together and in an
//! order that cancels a linear drift: ABBA, or its mirror BAAB. For each block, the order is drawn
//! at random; the test in [`super::effect`] relies on that.

use alloc::vec::Vec;
use linecard::rng::Rng;

/// Minimum blocks: of fewer, no difference has a p-value of 5 % or less.
pub const MIN_BLOCKS: usize = 6;
/// Maximum blocks of a plan.
pub const MAX_BLOCKS: usize = 10_000;
const _: () = assert!(MIN_BLOCKS < MAX_BLOCKS);

/// One of the two conditions compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arm {
    /// Unchanged.
    A,
    /// With the toggle.
    B,
}

impl Arm {
    /// The other arm.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// `n` blocks, each ABBA or BAAB with equal probability; `n` is clamped to [`MIN_BLOCKS`] …
/// [`MAX_BLOCKS`].
///
/// ```
/// use linecard::rng::Rng;
/// use linecard_jitter::stats::arms::{Arm, blocks};
/// let plan = blocks(8, &mut Rng::new(1));
/// assert!(plan.iter().all(|[a, b, c, d]| a == d && b == c && a != b));
/// ```
#[must_use]
pub fn blocks(n: usize, rng: &mut Rng) -> Vec<[Arm; 4]> {
    let coin = |_| {
        let first = if rng.below(2) == 0 { Arm::A } else { Arm::B };
        [first, first.other(), first.other(), first]
    };
    (0..n.clamp(MIN_BLOCKS, MAX_BLOCKS)).map(coin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_come_about_equally_often() {
        let plan = blocks(1_000, &mut Rng::new(3));
        let a_first = plan.iter().filter(|block| block[0] == Arm::A).count();
        assert!((450..550).contains(&a_first), "{a_first}");
        assert_eq!(blocks(0, &mut Rng::new(3)).len(), MIN_BLOCKS);
        assert_eq!(plan, blocks(1_000, &mut Rng::new(3)));
    }
}
