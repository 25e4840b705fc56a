//! When a file was last written.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Seconds since 1970, before it negative, and nanoseconds of the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Whole seconds.
    pub secs: i64,
    /// 0 to 999,999,999.
    pub ns: u32,
}

impl Stamp {
    /// That of a file.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { secs: metadata.mtime(), ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0) }
    }
}
