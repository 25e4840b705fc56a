//! The packet numbers received on a lane.

use crate::wire::{MAX_RANGES, Range};
use alloc::collections::VecDeque;

/// Ranges kept: twice what an acknowledgment holds, so that late packets still find their gap.
const KEPT: usize = 2 * MAX_RANGES;

/// Received numbers as ranges, the newest 64 of them. Older numbers count as received: they have
/// been acknowledged, or are lost permanently.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    /// Ascending and never adjacent.
    ranges: VecDeque<Range>,
    /// Smaller numbers are refused.
    floor: u64,
}

impl Ranges {
    /// Adds a number; false if it was received before, or is too old to decide.
    pub fn insert(&mut self, number: u64) -> bool {
        if number < self.floor {
            return false;
        }
        // Most numbers extend the last range.
        match self.ranges.back_mut() {
            Some(last) if number == last.last + 1 => last.last = number,
            Some(last) if number <= last.last => return self.insert_within(number),
            _ => self.ranges.push_back(Range { first: number, last: number }),
        }
        if self.ranges.len() > KEPT
            && let Some(oldest) = self.ranges.pop_front()
        {
            self.floor = oldest.last + 1;
        }
        true
    }

    fn insert_within(&mut self, number: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.last < number);
        let below = at.checked_sub(1).filter(|&below| self.ranges[below].last + 1 == number);
        let above = self.ranges[at];
        if above.first <= number {
            return false;
        }
        match (below, above.first == number + 1) {
            (Some(below), true) => {
                self.ranges[below].last = above.last;
                self.ranges.remove(at);
            }
            (Some(below), false) => self.ranges[below].last = number,
            (None, true) => self.ranges[at].first = number,
            (None, false) => self.ranges.insert(at, Range { first: number, last: number }),
        }
        if self.ranges.len() > KEPT
            && let Some(oldest) = self.ranges.pop_front()
        {
            self.floor = oldest.last + 1;
        }
        true
    }

    /// The highest number.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.last)
    }

    /// Ranges from the highest down, as many as an acknowledgment holds.
    pub fn newest(&self) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter().rev().take(MAX_RANGES).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    #[test]
    fn it_is_a_set_of_numbers() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for step in 0..200_u64 {
                let number = step.saturating_sub(rng.below(20)) + rng.below(3);
                let new = ranges.insert(number);
                if number >= ranges.floor {
                    assert_eq!(new, set.insert(number), "seed {seed}, {number}");
                } else {
                    assert!(!new || set.insert(number));
                }
            }
            let kept: Vec<u64> =
                ranges.ranges.iter().flat_map(|range| range.first..=range.last).collect();
            let should: Vec<u64> = set.range(ranges.floor..).copied().collect();
            assert_eq!(kept, should, "seed {seed}");
            let touching = ranges.ranges.iter().zip(ranges.ranges.iter().skip(1));
            assert!(touching.into_iter().all(|(low, high)| low.last + 1 < high.first));
        }
    }

    #[test]
    fn old_numbers_are_not_taken_twice_when_ranges_run_out() {
        let mut ranges = Ranges::default();
        for number in (0..1_000).step_by(2) {
            assert!(ranges.insert(number));
        }
        assert_eq!(ranges.ranges.len(), KEPT);
        assert!(!ranges.insert(0));
        assert!(!ranges.insert(1));
        assert!(ranges.insert(997));
        assert_eq!(ranges.newest().next(), Some(Range { first: 996, last: 998 }));
    }
}
