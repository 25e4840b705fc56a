//! An incomplete datagram: its key, its times, and the ends of its lists of held fragments.

use super::ecn::Ecn;
use super::fragment::Fragment;
use super::key::Key;
use crate::time::Instant;

/// Place of a fragment.
pub(super) type Slot = u32;
/// No place.
pub(super) const NONE: Slot = u32::MAX;

/// State of a datagram.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    pub(super) key: Key,
    /// Given up: its later fragments pass.
    pub(super) refused: bool,
    /// Index of the usage counter of its source.
    pub(super) share: usize,
    pub(super) opened: Instant,
    pub(super) deadline: Instant,
    /// Held fragments: first and last in data order; earliest and latest in order of arrival.
    pub(super) first: Slot,
    pub(super) last: Slot,
    pub(super) earliest: Slot,
    pub(super) latest: Slot,
    pub(super) count: u16,
    pub(super) ecn: Ecn,
    /// Bytes of frames held.
    pub(super) bytes: usize,
    /// Bytes of data held, where they end, and the end of the datagram if it is known.
    data: usize,
    reach: usize,
    total: Option<usize>,
}

impl Default for Datagram {
    fn default() -> Self {
        Self {
            key: Key::default(),
            refused: false,
            share: 0,
            opened: Instant::ZERO,
            deadline: Instant::NEVER,
            first: NONE,
            last: NONE,
            earliest: NONE,
            latest: NONE,
            count: 0,
            ecn: Ecn::default(),
            bytes: 0,
            data: 0,
            reach: 0,
            total: None,
        }
    }
}

impl Datagram {
    /// A datagram without fragments.
    pub(super) fn new(key: Key, share: usize, opened: Instant) -> Self {
        Self { key, share, opened, ..Self::default() }
    }

    /// State of a datagram that has been given up and whose fragments have been removed.
    pub(super) fn given_up(&self) -> Self {
        let Self { key, share, opened, .. } = *self;
        Self { refused: true, ..Self::new(key, share, opened) }
    }

    /// Counts a fragment that fits.
    pub(super) fn joins(&mut self, fragment: &Fragment, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
        self.data += fragment.len;
        self.reach = self.reach.max(fragment.end());
        if !fragment.more {
            self.total = Some(fragment.end());
        }
    }

    /// Bytes of data if it is complete: fragments do not overlap, so their lengths add up.
    pub(super) fn whole(&self) -> Option<usize> {
        self.total.filter(|total| *total == self.data)
    }

    /// Whether the fragment contradicts the held ones about the end of the datagram.
    pub(super) fn contradicts_end(&self, fragment: &Fragment) -> bool {
        let end = fragment.end();
        match self.total {
            Some(total) => end > total || (end == total) == fragment.more,
            None => !fragment.more && end < self.reach,
        }
    }
}
