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
/// A packet that came by one path this long ago is lost on the other.
const WAIT_NS: u64 = 1_000_000_000;

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
    /// The number from which on both paths could have it.
    start: Option<i64>,
    /// The first arrival, and the last.
    span: Option<(u64, u64)>,
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
            start: None,
            span: None,
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
        let has_paused = self.span.is_some_and(|(_, last)| at_ns.saturating_sub(last) >= WAIT_NS);
        let mut numbers = self.sequence;
        let number = numbers.push(sequence.into(), 16);
        if has_paused && before.is_some_and(|highest| number <= highest) {
            // How many numbers have passed is not known.
            self.restart();
            return self.push(path, sequence, at_ns);
        }
        self.sequence = numbers;
        let (first, last) = known.unwrap_or((number, number));
        self.paths[path] = Some((first, last.max(number)));
        let (from_ns, to_ns) = self.span.unwrap_or((at_ns, at_ns));
        self.span = Some((from_ns, to_ns.max(at_ns)));
        self.start = self.start.or(match self.paths {
            [Some(first), Some(second)] => Some(first.0.max(second.0)),
            // The other one is dead.
            _ if to_ns.saturating_sub(from_ns) >= WAIT_NS => Some(first),
            _ => None,
        });
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

    /// The sender began again: numbers and arrivals have nothing to do with those before.
    pub fn restart(&mut self) {
        self.figures = self.figures();
        (self.paths, self.start, self.span, self.judged) = ([None; 2], None, None, None);
        self.sequence = Unwrapped::default();
        self.slots.fill(Slot::default());
    }

    /// The figures so far. A packet that came by one path counts once the other path is past its number, or a second
    /// has passed.
    #[must_use]
    pub fn figures(&self) -> PairFigures {
        let mut figures = self.figures.clone();
        let (Some(start), Some(highest), Some((_, now_ns))) =
            (self.start, self.highest(), self.span)
        else {
            return figures;
        };
        let from = self.judged.unwrap_or(start).max(start).max(highest - SLOTS + 1);
        let is_old = |number: &i64| {
            let Slot { paths, at_ns } = self.slots[slot(*number)];
            paths > 0 && now_ns.saturating_sub(at_ns) >= WAIT_NS
        };
        let passed = match self.paths {
            [Some(first), Some(second)] => first.1.min(second.1),
            _ => i64::MIN,
        };
        let old = (from..=highest).rev().find(is_old);
        for number in from..=old.map_or(passed, |old| old.max(passed)) {
            figures.count(self.slots[slot(number)].paths);
        }
        figures
    }

    /// The highest number of both.
    fn highest(&self) -> Option<i64> {
        self.paths.iter().flatten().map(|(_, last)| *last).max()
    }

    fn is_too_old(&self, number: i64) -> bool {
        self.highest().is_some_and(|highest| highest - number >= SLOTS)
    }

    /// Counts the numbers below `end`, whose slots are about to be taken by others.
    fn judge_to(&mut self, end: i64) {
        let judged = self.judged.unwrap_or(i64::MIN);
        if let Some(start) = self.start {
            for number in judged.max(start)..end {
                self.figures.count(self.slots[slot(number)].paths);
            }
        }
        self.judged = Some(judged.max(end));
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
    /// As in a call of 50 packets per second whose second path is unplugged, or never came.
    #[test]
    fn a_dead_path_lacks_every_packet() {
        for second in [0, 1_000] {
            let mut pair = Pair::default();
            for n in 0..60_000_u64 {
                pair.push(0, n as u16, n * 20_000_000);
                if n < second {
                    pair.push(1, n as u16, n * 20_000_000 + 1);
                }
            }
            let PairFigures { both, only, neither, .. } = pair.figures();
            // The last second may still come.
            assert_eq!((both, only, neither), (second, [60_000 - 50 - second, 0], 0));
        }
    }

    #[test]
    fn a_path_that_comes_late_does_not_undo_what_was_counted() {
        let mut pair = Pair::default();
        for n in 0..400_000_u64 {
            pair.push(0, n as u16, n * 10_000);
            if n >= 300_000 {
                pair.push(1, n as u16, n * 10_000);
            }
        }
        let figures = pair.figures();
        // Before the first second was over, nothing was known about the second path, and the numbers were more than are
        // kept.
        let known = 300_000 - (100_001 - SLOTS as u64);
        assert_eq!((figures.both, figures.only, figures.neither), (100_000, [known, 0], 0));
    }

    #[test]
    fn a_sender_that_begins_again_is_not_behind() {
        let mut pair = Pair::default();
        for (run, from) in [0, 100, 40_000_u64].into_iter().enumerate() {
            if run == 2 {
                pair.restart();
            }
            for n in 0..1_000_u64 {
                let at_ns = run as u64 * 30_000_000_000 + n * 1_000_000;
                [0, 1]
                    .into_iter()
                    .for_each(|path| pair.push(path, (from + n) as u16, at_ns + path as u64));
            }
        }
        let PairFigures { both, only, neither, delay, behind_ns } = pair.figures();
        assert_eq!((both, only, neither), (3_000, [0, 0], 0));
        assert_eq!((delay.max(), behind_ns), (1, [0, 1]));
    }
}
