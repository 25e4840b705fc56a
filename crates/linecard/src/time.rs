//! Points in time: nanoseconds since an epoch that the caller chooses.
//!
//! Nothing in this crate reads a clock. A live engine passes its monotonic clock, a capture the
//! packets' own timestamps, a model its virtual time.

use core::time::Duration;

/// A point in time: nanoseconds since the caller's epoch, 0 … 2⁶⁴ − 1 (584 years).
///
/// Arithmetic saturates, because captures may hold arbitrary timestamps.
///
/// ```
/// use core::time::Duration;
/// use linecard::time::Instant;
/// let start = Instant::from_ns(1_000);
/// assert_eq!(start.plus(Duration::from_micros(2)).since(start), Duration::from_micros(2));
/// assert_eq!(start.since(Instant::from_ns(5_000)), Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The caller's epoch.
    pub const ZERO: Self = Self(0);
    /// A time that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`, zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }

    /// Nanoseconds passed since `earlier`, zero when `earlier` is later.
    #[must_use]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.plus_ns(ns(duration))
    }

    /// The point `ns` nanoseconds later.
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// A duration in whole nanoseconds, at most 2⁶⁴ − 1.
#[must_use]
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
