//! ST 2110-30 and -31: packet time, and the delay variation of packets.
//!
//! TS-DF, the time-stamped delay factor (EBU Tech 3337): each packet's transit time against the first of
//! its window, D = (Rᵢ - R₀) - (Sᵢ - S₀) with R its arrival and S its time stamp; TS-DF is the largest D less
//! the smallest. It is defined for a window of one second, here an argument.

use super::super::NS;
use alloc::vec::Vec;

/// The window of EBU Tech 3337.
pub const WINDOW_NS: u64 = 1_000_000_000;
/// Audio sampling rates.
pub const CLOCKS: [u32; 4] = [48_000, 96_000, 44_100, 88_200];
/// Samples per packet at the longest packet time and the highest rate (4 ms, 96 kHz), with some
/// reserve.
const MAX_SAMPLES: u32 = 480;
/// Relative tolerance for recognising a sampling rate.
const CLOCK_TOLERANCE: f64 = 0.01;

/// The packet time, if all packets carry the same number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTime {
    /// Samples per channel in a packet.
    pub samples: u32,
    /// Samples per second.
    pub clock: u32,
}

impl PacketTime {
    /// The packet time in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> f64 {
        f64::from(self.samples) * 1e9 / f64::from(self.clock.max(1))
    }

    /// The packet time of a stream: its time stamps increase by the same small number with each
    /// packet, at the rate of an audio clock. `packets` are number, time stamp (both extended) and
    /// arrival, sorted by number.
    #[must_use]
    pub fn of(packets: &[(i64, i64, u64)]) -> Option<Self> {
        let samples = Self::samples(packets)?;
        let (first, last) = (packets.first()?, packets.last()?);
        let seconds = last.2.saturating_sub(first.2) as f64 / 1e9;
        let rate = (i128::from(last.1) - i128::from(first.1)) as f64 / seconds;
        // A short capture has one packet time of jitter at each end.
        let tolerance = CLOCK_TOLERANCE + 1.0 / packets.len() as f64;
        let is_it = |clock: &u32| (rate / f64::from(*clock) - 1.0).abs() <= tolerance;
        Some(Self { samples, clock: CLOCKS.into_iter().find(is_it)? })
    }

    /// The increment of the time stamps from packet to packet, if it is constant and small.
    #[must_use]
    pub fn samples(packets: &[(i64, i64, u64)]) -> Option<u32> {
        let grown = |pair: &[(i64, i64, u64)]| match pair {
            [a, b] if a.0.checked_add(1) == Some(b.0) => {
                u32::try_from(i128::from(b.1) - i128::from(a.1)).ok()
            }
            _ => None,
        };
        let samples = packets.windows(2).find_map(grown)?;
        let even = |pair: &[(i64, i64, u64)]| {
            i128::from(pair[1].1) - i128::from(pair[0].1)
                == (i128::from(pair[1].0) - i128::from(pair[0].0)) * i128::from(samples)
        };
        let is_even = (1..=MAX_SAMPLES).contains(&samples) && packets.windows(2).all(even);
        is_even.then_some(samples)
    }
}

/// TS-DF of each complete window, in nanoseconds. `packets` are time stamp (extended) and arrival,
/// in order of arrival; `clock` is the clock rate in Hz.
#[must_use]
pub fn delay_factors(packets: &[(i64, u64)], clock: u32, window_ns: u64) -> Vec<u64> {
    let mut factors = Vec::new();
    let mut from = 0;
    for (at, &(_, arrival)) in packets.iter().enumerate() {
        let is_whole = arrival.saturating_sub(packets[from].1) >= window_ns.max(1);
        if is_whole {
            factors.extend(delay_factor(&packets[from..at], clock));
            from = at;
        }
    }
    factors
}

/// TS-DF of these packets, rounded to nanoseconds; `None` without packets.
#[must_use]
pub fn delay_factor(packets: &[(i64, u64)], clock: u32) -> Option<u64> {
    let &(s0, r0) = packets.first()?;
    let clock = i128::from(clock.max(1));
    // Transit times multiplied by the clock rate, which keeps them integers.
    let transit = |&(s, r): &(i64, u64)| {
        let arrival = (i128::from(r) - i128::from(r0)) * clock;
        arrival - (i128::from(s) - i128::from(s0)) * NS as i128
    };
    let (least, most) = packets
        .iter()
        .map(transit)
        .fold((0, 0), |(least, most): (i128, i128), d| (least.min(d), most.max(d)));
    u64::try_from((most - least + clock / 2) / clock).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 48 samples a millisecond; packet 3 is 200 µs late and packet 5 50 µs early.
    #[test]
    fn a_delay_factor_by_hand() {
        let late = [0, 0, 0, 200_000, 0, -50_000_i64, 0];
        let packets: Vec<(i64, u64)> = late
            .iter()
            .enumerate()
            .map(|(n, _)| (48 * n as i64, 1_000_000_000 + n as u64 * 1_000_000))
            .zip(late)
            .map(|((s, r), off)| (s, r.saturating_add_signed(off)))
            .collect();
        assert_eq!(delay_factor(&packets, 48_000), Some(250_000));
        assert_eq!(delay_factors(&packets, 48_000, 2_800_000), [0, 250_000]);
        assert_eq!(delay_factor(&[], 48_000), None);
    }

    #[test]
    fn packet_times_are_found() {
        let stream = |samples: i64, period_ns: u64| -> Vec<(i64, i64, u64)> {
            (0..400).map(|n| (n, 7 + n * samples, 5 + n as u64 * period_ns)).collect()
        };
        let millisecond = PacketTime::of(&stream(48, 1_000_000)).unwrap();
        assert_eq!((millisecond.samples, millisecond.clock, millisecond.ns()), (48, 48_000, 1e6));
        assert_eq!(PacketTime::of(&stream(6, 125_000)).unwrap().samples, 6);
        assert_eq!(PacketTime::of(&stream(12, 125_000)).unwrap().clock, 96_000);
        // Video: a 90 kHz clock that stands still inside a frame.
        assert_eq!(PacketTime::of(&stream(0, 7_400)), None);
        assert_eq!(PacketTime::of(&stream(90, 1_000_000)), None);
        let mut uneven = stream(48, 1_000_000);
        uneven[100].1 += 1;
        assert_eq!(PacketTime::of(&uneven), None);
        assert_eq!(PacketTime::of(&[]), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let packets = [(i64::MIN, 0), (i64::MAX, u64::MAX), (0, 0)];
        let _ = (delay_factor(&packets, u32::MAX), delay_factors(&packets, 0, 0));
        let _ = PacketTime::of(&[(i64::MIN, i64::MIN, 0), (i64::MAX, i64::MAX, 1)]);
    }
}
