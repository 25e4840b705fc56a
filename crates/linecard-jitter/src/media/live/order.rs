//! Loss, reordering and duplicates of a stream without an end.

/// Numbers before the highest whose arrivals are remembered: at 100,000 packets per second 41 ms.
pub(super) const WINDOW: i64 = 4_096;
const WORD: i64 = 64;

/// How a packet fits to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The first with its number.
    New,
    /// A packet with its number came before.
    Duplicate,
    /// More than 4,096 numbers late.
    Stale,
}

/// Loss and order as [`Order`](crate::media::rtp::Order) has them, for packets that come one by one.
///
/// Two copies of a packet, or a packet and one that it should have come before, are only seen as such within
/// 4,096 numbers. Packets that come later than that count as stale, and their numbers stay lost.
#[derive(Debug, Clone)]
pub struct LiveOrder {
    /// Bit `n % WINDOW`: whether number n of the last [`WINDOW`] came.
    seen: [u64; (WINDOW / WORD) as usize],
    /// The lowest and the highest number since the last start.
    range: Option<(i64, i64)>,
    /// Different numbers since the last start.
    distinct: u64,
    /// Lost before the last start.
    lost_before: u64,
    /// Packets, duplicates included.
    pub received: u64,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived more than 4,096 numbers late.
    pub stale: u64,
}

impl Default for LiveOrder {
    fn default() -> Self {
        Self {
            seen: [0; (WINDOW / WORD) as usize],
            range: None,
            distinct: 0,
            lost_before: 0,
            received: 0,
            reordered: 0,
            duplicates: 0,
            stale: 0,
        }
    }
}

impl LiveOrder {
    /// Takes the number of the next packet.
    pub fn push(&mut self, number: i64) -> Fate {
        self.received += 1;
        let (lowest, highest) = self.range.unwrap_or((number, number.saturating_sub(1)));
        if number > highest {
            self.forget(highest, number);
            self.range = Some((lowest, number));
        } else if highest.saturating_sub(number) >= WINDOW {
            self.stale += 1;
            return Fate::Stale;
        } else if self.is_seen(number) {
            self.duplicates += 1;
            return Fate::Duplicate;
        } else {
            self.reordered += 1;
            self.range = Some((lowest.min(number), highest));
        }
        let (word, bit) = place(number);
        self.seen[word] |= bit;
        self.distinct += 1;
        Fate::New
    }

    /// Numbers that did not come, from the lowest to the highest; those that are still on their way included.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let span =
            self.range.map_or(0, |(lowest, highest)| highest.abs_diff(lowest).saturating_add(1));
        self.lost_before.saturating_add(span.saturating_sub(self.distinct))
    }

    /// The numbers that come now have nothing to do with those before; the counts stay.
    pub fn restart(&mut self) {
        self.lost_before = self.lost();
        (self.seen, self.range, self.distinct) = ([0; (WINDOW / WORD) as usize], None, 0);
    }

    /// The highest number since the last start.
    #[must_use]
    pub fn highest(&self) -> Option<i64> {
        self.range.map(|(_, highest)| highest)
    }

    fn is_seen(&self, number: i64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] & bit != 0
    }

    /// Makes room for the numbers behind `highest` up to `number`.
    fn forget(&mut self, highest: i64, number: i64) {
        if number.saturating_sub(highest) >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for passed in highest + 1..=number {
            let (word, bit) = place(passed);
            self.seen[word] &= !bit;
        }
    }
}

fn place(number: i64) -> (usize, u64) {
    let at = number.rem_euclid(WINDOW);
    ((at / WORD) as usize, 1 << (at % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::rtp::Order;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    fn of(numbers: &[i64]) -> LiveOrder {
        let mut order = LiveOrder::default();
        for &number in numbers {
            order.push(number);
        }
        order
    }

    #[test]
    fn counts_equal_those_of_a_whole_capture() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let spread = [3, 40, 4_000][rng.below(3) as usize];
            let start = rng.below(100_000) as i64 - 50_000;
            let numbers: Vec<i64> =
                (0..200).map(|at| start + at * 3 + rng.below(spread) as i64).collect();
            let (live, whole) = (of(&numbers), Order::of(&numbers));
            let found = [live.received, live.lost(), live.reordered, live.duplicates, live.stale];
            let right = [whole.received, whole.lost, whole.reordered, whole.duplicates, 0];
            assert_eq!(found, right, "seed {seed}");
        }
    }

    #[test]
    fn packets_beyond_the_window_are_stale() {
        let mut order = of(&[0, 1, 1 + WINDOW]);
        assert_eq!(
            (order.push(1), order.push(2), order.stale, order.reordered),
            (Fate::Stale, Fate::New, 1, 1)
        );
        order.push(10 * WINDOW);
        assert_eq!((order.lost(), order.push(3)), (10 * WINDOW as u64 - 4, Fate::Stale));
    }

    #[test]
    fn a_restart_keeps_what_was_counted() {
        let mut order = of(&[7, 9]);
        order.restart();
        order.push(1_000_000);
        assert_eq!((order.lost(), order.received, order.reordered), (1, 3, 0));
        let extremes = of(&[i64::MAX, i64::MIN, 0, i64::MAX - 1]);
        assert_eq!((extremes.reordered, extremes.stale), (1, 2));
    }
}
