//! Two copies of one stream by two paths (SMPTE ST 2022-7): the delay between them, and the packets that one or both
//! lack.
//!
//! Both copies have the same RTP sequence numbers. The arrivals of the last [`SLOTS`] numbers are kept: as 16-bit
//! numbers are ambiguous beyond that, a larger distance between the paths cannot be seen.

use crate::media::rtp::Unwrapped;
use alloc::vec::Vec;
use linecard::stats::Histogram;

/// Numbers whose arrivals are kept.
const SLOTS: i64 = 1 << 15;

/// A number that came by no path, by the first, the second, or both.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    paths: u8,
    at_ns: u64,
}

/// Two copies of one stream.
#[derive(Debug)]
pub struct Pair {
    sequence: Unwrapped,
    /// By number, modulo [`SLOTS`].
    slots: Vec<Slot>,
    /// The first and the last number of each path.
    paths: [Option<(i64, i64)>; 2],
    /// The numbers below are judged.
    judged: Option<i64>,
    figures: PairFigures,
}

/// How two copies of a stream differ.
#[derive(Debug, Clone, Default)]
pub struct PairFigures {
    /// Packets that came by both.
    pub both: u64,
    /// Packets that came only by the first, and only by the second.
    pub only: [u64; 2],
    /// Packets that came by neither.
    pub neither: u64,
    /// Time from a packet's first copy to its second.
    pub delay: Histogram,
    /// The longest time by which the first path, and the second, was the later one.
    pub behind_ns: [u64; 2],
}

impl PairFigures {
    fn count(&mut self, paths: u8) {
        match paths {
            0 => self.neither += 1,
            1 => self.only[0] += 1,
            2 => self.only[1] += 1,
            _ => self.both += 1,
        }
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self {
            sequence: Unwrapped::default(),
            slots: alloc::vec![Slot::default(); SLOTS as usize],
            paths: [None; 2],
            judged: None,
            figures: PairFigures::default(),
        }
    }
}

impl Pair {
    /// Takes a packet that arrived by path 0 or 1.
    pub fn push(&mut self, path: usize, sequence: u16, at_ns: u64) {
        let Some(&known) = self.paths.get(path) else { return };
        let before = self.highest();
        let number = self.sequence.push(sequence.into(), 16);
        let (first, last) = known.unwrap_or((number, number));
        self.paths[path] = Some((first, last.max(number)));
        self.judge_to(number.saturating_sub(SLOTS - 1));
        // The slots of numbers that were passed over are those of numbers long ago.
        let passed = before.map_or(number, |highest| highest + 1).max(number - SLOTS + 1);
        for passed in passed..=number {
            self.slots[slot(passed)] = Slot::default();
        }
        if self.judged.is_some_and(|judged| number < judged) || self.is_too_old(number) {
            return;
        }
        let held = &mut self.slots[slot(number)];
        let bit = 1 << path;
        match held.paths {
            0 => *held = Slot { paths: bit, at_ns },
            other if other & bit == 0 => {
                held.paths |= bit;
                let (delay_ns, later) = match at_ns.checked_sub(held.at_ns) {
                    Some(ns) => (ns, path),
                    None => (held.at_ns - at_ns, 1 - path),
                };
                self.figures.delay.record(delay_ns);
                let behind = &mut self.figures.behind_ns[later];
                *behind = delay_ns.max(*behind);
            }
            _ => {}
        }
    }

    /// The figures so far. A packet that came by one path counts once the other path is past its number.
    #[must_use]
    pub fn figures(&self) -> PairFigures {
        let mut figures = self.figures.clone();
        let [Some(first), Some(second)] = self.paths else { return figures };
        let from = self.judged.unwrap_or(i64::MIN).max(self.start());
        for number in from.max(self.highest().unwrap_or(0) - SLOTS + 1)..=first.1.min(second.1) {
            figures.count(self.slots[slot(number)].paths);
        }
        figures
    }

    /// The highest number of both.
    fn highest(&self) -> Option<i64> {
        self.paths.iter().flatten().map(|(_, last)| *last).max()
    }

    /// The number from which on both paths could have it.
    fn start(&self) -> i64 {
        let [Some(first), Some(second)] = self.paths else { return i64::MAX };
        first.0.max(second.0)
    }

    fn is_too_old(&self, number: i64) -> bool {
        self.highest().is_some_and(|highest| highest - number >= SLOTS)
    }

    /// Counts the numbers below `end`, whose slots are about to be taken by others.
    fn judge_to(&mut self, end: i64) {
        let start = self.start();
        if start == i64::MAX {
            return;
        }
        let from = self.judged.unwrap_or(start).max(start);
        for number in from..end {
            self.figures.count(self.slots[slot(number)].paths);
        }
        self.judged = Some(from.max(end));
    }
}

fn slot(number: i64) -> usize {
    number.rem_euclid(SLOTS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn what_each_path_lacks_is_counted() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (packets, first) = (70_000 + rng.below(1_000), rng.below(65_536));
            let (mut pair, mut right) = (Pair::default(), [0; 4]);
            // The second path is 300 packets behind the first.
            let came: Vec<u64> =
                (0..packets).map(|_| 3 - rng.below(400).saturating_sub(396)).collect();
            for n in 0..packets + 300 {
                let sequence = |n: u64| ((first + n) & 0xFFFF) as u16;
                if n < packets && came[n as usize] & 1 > 0 {
                    pair.push(0, sequence(n), n * 10_000);
                }
                if let Some(second) = n.checked_sub(300).filter(|n| came[*n as usize] & 2 > 0) {
                    pair.push(1, sequence(second), n * 10_000 + 1);
                }
            }
            let from = (0..2).filter_map(|path| came.iter().position(|c| c >> path & 1 > 0)).max();
            let to = (0..2).filter_map(|path| came.iter().rposition(|c| c >> path & 1 > 0)).min();
            came[from.unwrap()..=to.unwrap()].iter().for_each(|c| right[*c as usize] += 1);
            let PairFigures { both, only, neither, delay, behind_ns } = pair.figures();
            assert_eq!([neither, only[0], only[1], both], right, "seed {seed}");
            assert_eq!((delay.max(), behind_ns), (3_000_001, [0, 3_000_001]));
        }
    }

    #[test]
    fn copies_that_come_again_or_far_too_late_count_once() {
        let mut pair = Pair::default();
        for n in 0..40_000_u64 {
            let sequence = (n & 0xFFFF) as u16;
            [0, 1, 1, 0].into_iter().for_each(|path| pair.push(path, sequence, n));
        }
        pair.push(1, 20_000, 0);
        pair.push(7, 1, 1);
        let figures = pair.figures();
        assert_eq!((figures.both, figures.only, figures.neither), (40_000, [0, 0], 0));
    }
}
