//! Which chunks are stored.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of chunk numbers, as ranges that neither overlap nor touch.
///
/// ```
/// use linecard_transfer_net::file::Have;
/// let have: Have = [3, 0, 1, 7].into_iter().collect();
/// assert_eq!(have.ranges().collect::<Vec<_>>(), [0..2, 3..4, 7..8]);
/// assert_eq!(have.missing(6).collect::<Vec<_>>(), [2..3, 4..6]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Have {
    /// Start → end.
    ranges: BTreeMap<u32, u32>,
    count: u32,
}

impl Have {
    /// All chunks below `count`.
    #[must_use]
    pub fn all(count: u32) -> Self {
        let ranges = (count > 0).then_some((0, count)).into_iter().collect();
        Self { ranges, count }
    }

    /// Adds a chunk; whether it was missing.
    pub fn insert(&mut self, chunk: u32) -> bool {
        if self.contains(chunk) || chunk == u32::MAX {
            return false;
        }
        let mut range = chunk..chunk + 1;
        if let Some((&start, &end)) = self.ranges.range(..chunk).next_back()
            && end == chunk
        {
            range.start = start;
        }
        if let Some(end) = self.ranges.remove(&range.end) {
            range.end = end;
        }
        self.ranges.insert(range.start, range.end);
        self.count += 1;
        true
    }

    /// Whether a chunk is stored.
    #[must_use]
    pub fn contains(&self, chunk: u32) -> bool {
        self.ranges.range(..=chunk).next_back().is_some_and(|(_, end)| chunk < *end)
    }

    /// How many are stored.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Runs of stored chunks, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// Runs of chunks below `end` that are missing, in order.
    pub fn missing(&self, end: u32) -> impl Iterator<Item = Range<u32>> {
        let starts = std::iter::once(0).chain(self.ranges.values().copied());
        let ends = self.ranges.keys().copied().chain(std::iter::once(end));
        starts.zip(ends).map(move |(from, to)| from..to.min(end)).filter(|gap| !gap.is_empty())
    }
}

impl FromIterator<u32> for Have {
    fn from_iter<I: IntoIterator<Item = u32>>(chunks: I) -> Self {
        let mut have = Self::default();
        for chunk in chunks {
            have.insert(chunk);
        }
        have
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn all_chunks_are_those_that_one_by_one_are_added() {
        for count in [0, 1, 7] {
            let (all, added) = (Have::all(count), (0..count).collect());
            assert_eq!(all, added, "{count}");
        }
    }

    #[test]
    fn ranges_say_what_a_plain_set_says() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut have, mut plain) = (Have::default(), BTreeSet::new());
            for _ in 0..rng.below(60) {
                let chunk = rng.below(40) as u32;
                assert_eq!(have.insert(chunk), plain.insert(chunk));
            }
            assert_eq!(have.count() as usize, plain.len());
            assert!((0..41).all(|chunk| have.contains(chunk) == plain.contains(&chunk)));
            assert_eq!(have.ranges().flatten().collect::<BTreeSet<_>>(), plain);
            let ranges: Vec<_> = have.ranges().collect();
            assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let end = rng.below(50) as u32;
            let missing: Vec<u32> = have.missing(end).flatten().collect();
            assert_eq!(missing, (0..end).filter(|c| !plain.contains(c)).collect::<Vec<_>>());
        }
    }
}
