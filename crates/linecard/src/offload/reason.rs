//! Reasons and their counters: every exit of an offload has a reason, and each reason is counted.

use core::marker::PhantomData;

/// One of a fixed set of reasons; implemented by the reason enums of the offloads.
pub trait Reason: Copy + 'static {
    /// All reasons, in the order of their indices.
    fn all() -> &'static [Self];

    /// The index of this reason in `ALL`.
    fn index(self) -> usize;

    /// A short stable name, as in JSON reports.
    fn name(self) -> &'static str;

    /// Its meaning, in one line.
    fn explanation(self) -> &'static str;
}

/// Defines an enum whose values can be listed, counted and explained.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $text:literal])+ $value:ident = $key:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $text])+ $value,)+ }

        impl $name {
            /// All values, in the order of their indices in a tally.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// A short stable name, as in JSON reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $key),+ }
            }

            /// One line that explains the reason.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$value => concat!($($text),+).trim_ascii()),+ }
            }
        }

        impl $crate::offload::reason::Reason for $name {
            fn all() -> &'static [Self] {
                Self::ALL
            }

            #[inline]
            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                self.name()
            }

            fn explanation(self) -> &'static str {
                self.explanation()
            }
        }
    };
}
pub(crate) use reasons;

/// A counter for each of `N` reasons.
///
/// ```
/// use linecard::offload::coalesce::{Refusal, Refusals};
/// let none = Refusals::default();
/// assert_eq!((none.of(Refusal::Fragment), none.total()), (0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally<R, const N: usize> {
    counts: [u64; N],
    reason: PhantomData<R>,
}

impl<R, const N: usize> Default for Tally<R, N> {
    fn default() -> Self {
        Self { counts: [0; N], reason: PhantomData }
    }
}

impl<R: Reason, const N: usize> Tally<R, N> {
    /// Counts one more.
    pub fn count(&mut self, reason: R) {
        self.counts[reason.index()] += 1;
    }

    pub(crate) fn count_n(&mut self, reason: R, times: u64) {
        self.counts[reason.index()] += times;
    }

    /// How often `reason` occurred.
    #[must_use]
    pub fn of(&self, reason: R) -> u64 {
        self.counts[reason.index()]
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }
}
