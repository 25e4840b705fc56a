//! How long arriving packets may gather before they are taken, as a network card moderates its interrupts.

use linecard::time::Instant;
use std::time::Duration;

/// The shortest time, in ns: on a fast link, more would not stay in the cache.
const LEAST_NS: u64 = 100_000;
/// The longest, in ns: of a chunk of 1 MiB at 200 Mbit/s a hundredth.
const MOST_NS: u64 = 500_000;
/// In between, as many bytes are waited for: a call of the kernel then gives many packets.
const BYTES: u64 = 64 << 10;
/// The newest measurement counts for one part in this many.
const PARTS: u64 = 4;

/// Measures what comes, and gives the time.
#[derive(Debug)]
pub(super) struct Moderation {
    pause_ns: u64,
    bytes: u64,
    /// The last turn in which something came.
    last: Instant,
}

impl Moderation {
    pub(super) const fn new(now: Instant) -> Self {
        Self { pause_ns: LEAST_NS, bytes: 0, last: now }
    }

    /// So many bytes have come in this turn.
    pub(super) const fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The time after a turn, none if nothing came in it.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return Duration::ZERO;
        }
        let wanted_ns = now.ns_since(self.last).saturating_mul(BYTES) / bytes;
        self.last = now;
        let wanted_ns = wanted_ns.clamp(LEAST_NS, MOST_NS);
        self.pause_ns = (self.pause_ns * (PARTS - 1) + wanted_ns) / PARTS;
        Duration::from_nanos(self.pause_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause in µs after many turns at a rate in Mbit/s, of which each takes 10 µs besides.
    fn settled(rate: u64) -> u128 {
        let mut now = Instant::from_ns(1_000_000_000);
        let mut moderation = Moderation::new(now);
        let mut pause = Duration::ZERO;
        for _ in 0..100 {
            let passed_ns = pause.as_nanos() as u64 + 10_000;
            now = now.plus_ns(passed_ns);
            moderation.add((passed_ns * rate / 8_000).max(1_400) as usize);
            pause = moderation.pause(now);
        }
        pause.as_micros()
    }

    #[test]
    fn slow_lanes_gather_longer_than_fast_ones() {
        let rates = [1, 100, 800, 2_000, 4_000, 10_000, 100_000];
        assert_eq!(rates.map(settled), [499, 499, 499, 262, 131, 100, 100]);
    }

    #[test]
    fn nothing_is_waited_for_where_nothing_came() {
        let mut moderation = Moderation::new(Instant::ZERO);
        assert_eq!(moderation.pause(Instant::from_ns(5)), Duration::ZERO);
        moderation.add(1);
        let first = moderation.pause(Instant::from_ns(1_000_000_000));
        assert_eq!(first, Duration::from_nanos(LEAST_NS + (MOST_NS - LEAST_NS) / PARTS));
    }
}
