//! Challenges: numbers that only the host to which they are sent can send back.

use alloc::boxed::Box;
use core::fmt;
use linecard::rng::Rng;

/// A source of challenges. On a real network the other end must not be able to predict the next from those that it has
/// seen, of whichever lane: it could answer for an address that is not its own.
///
/// ```
/// use linecard_transfer::lane::Challenges;
/// // For simulations: the same numbers for the same seed.
/// let mut challenges = Challenges::from(7);
/// assert_ne!(challenges.next(), challenges.next());
/// // On a network, from the system, or from a keyed hash of a count.
/// let mut count = 0;
/// let _counted = Challenges::new(move || {
///     count += 1;
///     count
/// });
/// ```
pub struct Challenges(Box<dyn FnMut() -> u64 + Send>);

impl Challenges {
    /// Those of a source.
    #[must_use]
    pub fn new(source: impl FnMut() -> u64 + Send + 'static) -> Self {
        Self(Box::new(source))
    }

    /// Another one.
    #[expect(clippy::should_implement_trait, reason = "they never end")]
    pub fn next(&mut self) -> u64 {
        (self.0)()
    }
}

/// Reproducible ones, from a seed: some of them tell the others.
impl From<u64> for Challenges {
    fn from(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self::new(move || rng.next_u64())
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenges")
    }
}
