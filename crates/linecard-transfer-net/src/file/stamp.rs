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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_go_into_messages_and_back() {
        let second = 1_000_000_000;
        for (ns, stamp) in [
            (0, Stamp { secs: 0, ns: 0 }),
            (second + 7, Stamp { secs: 1, ns: 7 }),
            // Before 1970, nanoseconds count from the second before.
            (-1, Stamp { secs: -1, ns: 999_999_999 }),
            (-second, Stamp { secs: -1, ns: 0 }),
        ] {
            assert_eq!((stamp.to_ns(), Stamp::of_ns(ns)), (ns, stamp));
        }
        assert_eq!(Stamp { secs: i64::MAX, ns: 0 }.to_ns(), i64::MAX);
        assert_eq!(Stamp { secs: i64::MIN, ns: 0 }.to_ns(), i64::MIN);
    }

    #[test]
    fn the_time_of_a_file_is_the_same_by_both_calls() {
        let file = tempfile::tempfile().unwrap();
        file.set_modified(UNIX_EPOCH + Duration::new(1_000_000_000, 7)).unwrap();
        let stamp = Stamp { secs: 1_000_000_000, ns: 7 };
        assert_eq!(Stamp::of(&file.metadata().unwrap()), stamp);
        assert_eq!(Stamp::of_stat(&rustix::fs::fstat(&file).unwrap()), stamp);
    }

    #[test]
    fn this_moment_lies_between_those_beside_it() {
        let moment = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let (before, now, after) = (moment(), Stamp::now().to_ns(), moment());
        assert!((before..=after).contains(&now.cast_unsigned().into()), "{now}");
    }
}
