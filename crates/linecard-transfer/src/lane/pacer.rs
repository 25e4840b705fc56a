//! Pacing on an absolute schedule.

use linecard::time::Instant;

/// Fraction bits of a nanosecond: at 400 Gbit/s a byte takes 0.02 ns, and rounding it must not change
/// the rate by more than a millionth.
const FRACTION: u32 = 24;

/// Computes when the next packet is due. Lost time is caught up only up to a bound, so that a
/// sender that was not scheduled for a while does not fill the queues of the network at once.
///
/// ```
/// use linecard::time::Instant;
/// use linecard_transfer::lane::Pacer;
/// let mut pacer = Pacer::new(1_000_000_000, 0); // 1 Gbit/s: 8 ns for a byte
/// pacer.sent(1_000, Instant::ZERO);
/// assert_eq!(pacer.due(), Instant::from_ns(8_000));
/// pacer.sent(1_000, Instant::from_ns(20_000)); // late, and nothing to catch up
/// assert_eq!(pacer.due(), Instant::from_ns(28_000));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Pacer {
    /// ns for a byte, in units of 2⁻²⁴.
    per_byte: u64,
    due_ns: u64,
    fraction: u64,
    catch_up_ns: u64,
}

impl Pacer {
    /// `rate_bits_per_second` in bit/s, 0 for no pacing; at most `catch_up_ns` of lost time is caught up.
    #[must_use]
    pub fn new(rate_bits_per_second: u64, catch_up_ns: u64) -> Self {
        let mut pacer = Self { per_byte: 0, due_ns: 0, fraction: 0, catch_up_ns };
        pacer.set_rate(rate_bits_per_second);
        pacer
    }

    /// Changes the rate, in bit/s, 0 for no pacing.
    pub fn set_rate(&mut self, rate_bits_per_second: u64) {
        let scaled = 8_000_000_000_u128 << FRACTION;
        let per_byte = scaled.checked_div(u128::from(rate_bits_per_second)).unwrap_or(0);
        self.per_byte = u64::try_from(per_byte).unwrap_or(u64::MAX >> 20);
    }

    /// When the next packet may be sent.
    #[must_use]
    pub const fn due(&self) -> Instant {
        Instant::from_ns(self.due_ns)
    }

    /// Resets the schedule to `now`.
    pub fn restart(&mut self, now: Instant) {
        self.due_ns = self.due_ns.min(now.as_ns());
    }

    /// Records that a packet that takes `bytes` on the line was sent at `now`.
    pub fn sent(&mut self, bytes: u64, now: Instant) {
        if self.per_byte == 0 {
            return;
        }
        let earliest = now.as_ns().saturating_sub(self.catch_up_ns);
        if self.due_ns < earliest {
            self.due_ns = earliest;
            self.fraction = 0;
        }
        let step = u128::from(self.per_byte) * u128::from(bytes) + u128::from(self.fraction);
        let whole = u64::try_from(step >> FRACTION).unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.saturating_add(whole);
        self.fraction = (step & ((1 << FRACTION) - 1)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_exact_over_a_long_time() {
        for rate_bits_per_second in [1_000_000, 200_000_000, 9_999_999_999, 400_000_000_000_u64] {
            let mut pacer = Pacer::new(rate_bits_per_second, 0);
            let start = Instant::from_ns(1);
            let mut bytes = 0_u64;
            pacer.sent(0, start);
            for packet in 0..100_000 {
                let length = 64 + packet % 9_000;
                pacer.sent(length, pacer.due());
                bytes += length;
            }
            let took = pacer.due().ns_since(start) as f64;
            let should = bytes as f64 * 8e9 / rate_bits_per_second as f64;
            assert!((took / should - 1.0).abs() < 1e-5, "{rate_bits_per_second}: {took} {should}");
        }
    }

    #[test]
    fn lost_time_is_caught_up_to_a_bound() {
        let mut pacer = Pacer::new(8_000_000_000, 5_000); // a byte a nanosecond
        let now = Instant::from_ns(100_000);
        let mut went = 0;
        while pacer.due() <= now {
            pacer.sent(1_000, now);
            went += 1;
        }
        assert_eq!(went, 6);
    }

    #[test]
    fn a_restart_waits_for_nothing() {
        let mut pacer = Pacer::new(1_000, 0);
        pacer.sent(1_000, Instant::ZERO);
        assert!(pacer.due() > Instant::from_ns(5));
        pacer.restart(Instant::from_ns(5));
        assert_eq!(pacer.due(), Instant::from_ns(5));
    }

    #[test]
    fn no_rate_is_no_pacing() {
        let mut pacer = Pacer::new(0, 0);
        pacer.sent(u64::MAX, Instant::from_ns(5));
        assert_eq!(pacer.due(), Instant::ZERO);
        pacer.set_rate(1);
        pacer.sent(u64::MAX, Instant::from_ns(5));
        assert_eq!(pacer.due(), Instant::NEVER);
    }
}
