//! The received packet numbers, as far back as the replay window reaches.

/// Bits that are kept: a power of two.
const BITS: u64 = 8_192;
const WORDS: usize = BITS as usize / 64;
/// Numbers below the highest that are still taken. A word less than there are bits, as it is cleared
/// as a whole (RFC 6479, section 3): at 1.4 kB a packet, 11 MB of reordering on one lane.
pub const WINDOW: u64 = BITS - 64;

/// Remembers packet numbers so that each is taken once. Asking changes nothing.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// The highest number plus one; 0 before the first.
    end: u64,
    seen: [u64; WORDS],
}

/// Classification of a packet number by a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    New,
    Seen,
    /// Too far back to know.
    TooOld,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self { end: 0, seen: [0; WORDS] }
    }

    pub(super) fn place(&self, number: u64) -> Freshness {
        if number >= self.end {
            Freshness::New
        } else if self.end - number > WINDOW {
            Freshness::TooOld
        } else if self.seen[word(number)] & bit(number) == 0 {
            Freshness::New
        } else {
            Freshness::Seen
        }
    }

    /// Marks a number that is [`Freshness::New`], which has been found authentic.
    pub(super) fn mark(&mut self, number: u64) {
        if number >= self.end {
            // Words that the window moves on to; all of them when it jumps.
            let (from, to) = (self.end.div_ceil(64), number / 64);
            for index in from.max(to.saturating_sub(WORDS as u64 - 1))..=to {
                self.seen[index as usize % WORDS] = 0;
            }
            self.end = number + 1;
        }
        self.seen[word(number)] |= bit(number);
    }
}

const fn word(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use std::collections::BTreeSet;

    /// The slow twin: every number that came.
    #[derive(Default)]
    struct Twin(BTreeSet<u64>);

    impl Twin {
        fn place(&self, number: u64) -> Freshness {
            match self.0.last() {
                Some(last) if last + 1 - number.min(last + 1) > WINDOW => Freshness::TooOld,
                _ if self.0.contains(&number) => Freshness::Seen,
                _ => Freshness::New,
            }
        }
    }

    #[test]
    fn equals_a_set_of_all_numbers() {
        let mut rng = Rng::new(31);
        for round in 0..60 {
            let (mut window, mut twin) = (Window::new(), Twin::default());
            let mut highest = rng.below(1 << 40) * (round % 2);
            for _ in 0..4_000 {
                let number = match rng.below(20) {
                    0 => highest + rng.below(3 * BITS),
                    1 => highest
                        .saturating_sub(WINDOW)
                        .saturating_add(rng.below(5))
                        .saturating_sub(2),
                    2 => highest.saturating_sub(rng.below(2 * BITS)),
                    _ => (highest + 4).saturating_sub(rng.below(8)),
                };
                assert_eq!(window.place(number), twin.place(number), "{number} of {highest}");
                if twin.place(number) == Freshness::New {
                    window.mark(number);
                    twin.0.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }

    #[test]
    fn the_window_ends_where_it_says() {
        let mut window = Window::new();
        window.mark(0);
        window.mark(WINDOW);
        assert_eq!(window.place(0), Freshness::TooOld);
        assert_eq!(window.place(1), Freshness::New);
        window.mark(1);
        assert_eq!(window.place(1), Freshness::Seen);
        assert_eq!(window.place(WINDOW), Freshness::Seen);
        assert_eq!(window.place(u64::MAX - 1), Freshness::New);
        window.mark(1 << 61);
        assert_eq!(window.place((1 << 61) - 1), Freshness::New);
        assert_eq!(window.place((1 << 61) - WINDOW), Freshness::TooOld);
    }
}
