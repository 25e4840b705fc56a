//! When a file was last written.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, before it negative, and nanoseconds of the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Whole seconds.
    pub secs: i64,
    /// 0 to 999,999,999.
    pub ns: u32,
}

impl Stamp {
    /// That of this moment.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of_ns(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    /// In ns since 1970, as messages have it; the nearest that they can say.
    #[must_use]
    pub fn to_ns(self) -> i64 {
        self.secs.saturating_mul(1_000_000_000).saturating_add(self.ns.into())
    }

    /// The same, from ns since 1970.
    #[must_use]
    pub fn of_ns(ns: i64) -> Self {
        let (secs, ns) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        // Below 10^9 by the remainder.
        Self { secs, ns: ns as u32 }
    }

    /// The same as the system's call has it.
    pub(super) fn of_stat(stat: &rustix::fs::Stat) -> Self {
        Self { secs: stat.st_mtime, ns: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) }
    }

    /// That of a file.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { secs: metadata.mtime(), ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0) }
    }
}
