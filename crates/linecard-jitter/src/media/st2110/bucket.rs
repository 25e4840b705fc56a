//! `C_inst`: the level of a bucket that every packet fills by one.
//!
//! ST 2110-21, section 6.6.1: one packet drains at each multiple of `T_drain` = T / (1.1 · N), if there is
//! one. Multiples are counted from the first packet, which the standard leaves open; another start changes
//! a level by one at most.

use super::super::NS;
use super::Stream;

/// The bucket of one stream.
///
/// ```
/// use linecard_jitter::media::{FrameRate, st2110::{ReadSchedule, Stream, bucket::Bucket}};
/// // 1,000 packets a second drain every 909,090 ns and a bit.
/// let rate = FrameRate::whole(1);
/// let stream = Stream { packets_per_frame: 1_000, rate, schedule: ReadSchedule::Linear };
/// let mut bucket = Bucket::new(stream);
/// assert_eq!([0, 10, 909_090, 909_091, 5_000_000].map(|t| bucket.push(t)), [1, 2, 3, 3, 1]);
/// ```
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Drains per nanosecond, as a fraction.
    drains: u128,
    per_ns: u128,
    start_ns: Option<u64>,
    drained: u128,
    level: u64,
}

impl Bucket {
    /// An empty bucket.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        // Below 2^75, so that times of 2^53 ns (104 days) are exact.
        let drains = u128::from(stream.packets_per_frame.max(1))
            * u128::from(stream.rate.frames.max(1))
            * 11;
        let per_ns = u128::from(stream.rate.seconds.max(1)) * NS * 10;
        Self { drains, per_ns, start_ns: None, drained: 0, level: 0 }
    }

    /// A packet at `at_ns`: the level with it, `C_inst`. A time before the last counts as that.
    pub fn push(&mut self, at_ns: u64) -> u64 {
        let start_ns = *self.start_ns.get_or_insert(at_ns);
        let since = u128::from(at_ns.saturating_sub(start_ns));
        let drained = (since.saturating_mul(self.drains) / self.per_ns).max(self.drained);
        let left = u64::try_from(drained - self.drained).unwrap_or(u64::MAX);
        self.drained = drained;
        self.level = self.level.saturating_sub(left) + 1;
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::FrameRate;
    use crate::media::st2110::ReadSchedule;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    /// Every drain as an event of its own, at k · `T_drain`, in ns · drains as whole numbers.
    fn twin(times: &[u64], drains: u128, per_ns: u128) -> Vec<u64> {
        let (mut next, mut level, mut now) = (per_ns, 0_u64, 0);
        let push = |&t: &u64| {
            now = now.max(u128::from(t.saturating_sub(times[0])) * drains);
            while next <= now {
                level = level.saturating_sub(1);
                next += per_ns;
            }
            level += 1;
            level
        };
        times.iter().map(push).collect()
    }

    #[test]
    fn levels_equal_those_of_single_drains() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let stream = Stream {
                packets_per_frame: 1 + rng.below(5_000) as u32,
                rate: if rng.chance(0.5) { FrameRate::slow(30) } else { FrameRate::whole(50) },
                schedule: ReadSchedule::Linear,
            };
            let period = 1_000_000_000
                / (u64::from(stream.packets_per_frame) * u64::from(stream.rate.frames)
                    / u64::from(stream.rate.seconds))
                .max(1);
            let mut at = rng.below(1 << 60);
            let times: Vec<u64> = (0..200)
                .map(|_| {
                    at += rng.below(2 * period);
                    at - rng.below(2)
                })
                .collect();
            let mut bucket = Bucket::new(stream);
            let levels: Vec<u64> = times.iter().map(|&t| bucket.push(t)).collect();
            assert_eq!(levels, twin(&times, bucket.drains, bucket.per_ns), "seed {seed}");
        }
    }

    #[test]
    fn an_even_stream_stays_at_one() {
        let rate = FrameRate::slow(30);
        let schedule = ReadSchedule::Linear;
        let mut bucket = Bucket::new(Stream { packets_per_frame: 4_497, rate, schedule });
        let highest = (0..1_000_000_u64).map(|n| bucket.push(n * 7_419_761 / 1_000)).max();
        assert_eq!(highest, Some(1));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let rate = FrameRate { frames: u32::MAX, seconds: 1 };
        let schedule = ReadSchedule::Linear;
        let mut bucket = Bucket::new(Stream { packets_per_frame: u32::MAX, rate, schedule });
        assert_eq!([0, u64::MAX, 0, u64::MAX].map(|t| bucket.push(t)), [1, 1, 2, 3]);
    }
}
