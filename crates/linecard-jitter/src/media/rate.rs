//! The schedule of a stream: an even one, that of its RTP time stamps, or none.
//!
//! Lateness is relative to a schedule, so a wrong schedule makes all lateness figures wrong. A
//! stream counts as even if its gaps are. Compressed video sends the packets of a picture in one
//! burst with one time stamp; its schedule is RTP time, which is compared with the first packet of
//! each time stamp.

use super::cbr::{self, Cbr, Fit};
use super::flow::{Packet, by_number};
use crate::stats::sorted::Sorted;
use alloc::vec::Vec;

/// A flow of plain UDP or RTP is even only if 95 % of its packets are within this many periods, and
/// this share of its span, of an even schedule …
const EVEN_PERIODS: f64 = 20.0;
const EVEN_SHARE: f64 = 0.01;
/// … its median gap is within this share of the period …
const MEDIAN_TOLERANCE: f64 = 0.1;
/// … and half of its gaps are between these multiples of the period.
const NEAR: [f64; 2] = [0.5, 1.5];

/// Maximum difference of two clocks in parts per million: RFC 5905, section 11.3, has `MAXFREQ` 500
/// for a clock that can be disciplined at all; quartz is within 100. A larger difference means that
/// the stream does not follow the assumed schedule.
pub const MAX_DRIFT_PPM: f64 = 500.0;

/// Clocks of RTP payloads (RFC 3551, RFC 7587, SMPTE ST 2110-10 and ST 2022-6), per second.
pub const CLOCKS: [u32; 14] = [
    8_000,
    11_025,
    16_000,
    22_050,
    24_000,
    32_000,
    44_100,
    48_000,
    88_200,
    90_000,
    96_000,
    192_000,
    148_500_000,
    27_000_000,
];
/// Relative tolerance for recognising a clock; 88,200 and 90,000 differ by 0.02.
const CLOCK_TOLERANCE: f64 = 0.005;

/// The reference of a stream's lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// A constant rate.
    Even,
    /// The times of ST 2110-21 at which the lines of a video frame are to be sent.
    Picture,
    /// The due times in the probes' payloads.
    Due,
    /// RTP time stamps of this clock rate in Hz, by the first packet of each.
    Rtp(u32),
}

/// Difference between the sender's clock and the capture's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// The sender's clock is slower by this many parts per million.
    Drift(f64),
    /// A difference, in parts per million, that is too large for two clocks: the stream does not
    /// have this schedule.
    Mismatch(f64),
}

impl Skew {
    /// Interprets a difference of `ppm` over `span_ns`, with packets that are `lateness` late.
    /// `None` if the capture is too short to distinguish clock drift from late packets.
    #[must_use]
    pub fn of(ppm: f64, span_ns: u64, lateness: &Sorted) -> Option<Self> {
        if ppm.abs() <= MAX_DRIFT_PPM {
            return Some(Self::Drift(ppm));
        }
        let spread_ns = lateness.quantile(0.95).unwrap_or(0) as f64;
        let is_large = (ppm.abs() - MAX_DRIFT_PPM) / 1e6 * span_ns as f64 > spread_ns;
        is_large.then_some(Self::Mismatch(ppm))
    }
}

/// Whether a stream has a constant rate, by its gaps. If the time stamps increase by the same
/// amount with each packet, the rate is constant, and the gaps are ignored: a network may deliver
/// such packets in bursts.
#[must_use]
pub fn is_even(found: &Cbr, packets: &[Packet]) -> bool {
    let period_ns = found.fit.period_ns;
    let late = found.lateness.quantile(0.95).unwrap_or(i64::MAX) as f64;
    let limit = (EVEN_PERIODS * period_ns).min(EVEN_SHARE * found.span_ns as f64);
    if late > limit {
        return false;
    }
    let median = found.gaps.quantile(0.5).unwrap_or(i64::MAX) as f64;
    let [low, high] = NEAR.map(|share| (share * period_ns) as i64);
    let near = found.gaps.above(low).saturating_sub(found.gaps.above(high));
    let by_gaps =
        (median / period_ns - 1.0).abs() <= MEDIAN_TOLERANCE && 2 * near >= found.gaps.n();
    by_gaps || has_even_stamps(packets)
}

/// Whether time stamps increase in proportion to the numbers.
fn has_even_stamps(packets: &[Packet]) -> bool {
    let packets = by_number(packets);
    let grown = |pair: &[Packet]| {
        let numbers = i128::from(pair[1].number) - i128::from(pair[0].number);
        (numbers, i128::from(pair[1].timestamp) - i128::from(pair[0].timestamp))
    };
    let next = packets.windows(2).map(grown).find(|(numbers, _)| *numbers == 1);
    let Some((_, ticks)) = next.filter(|(_, ticks)| *ticks > 0) else { return false };
    let is_even = |(numbers, t): (i128, i128)| numbers.checked_mul(ticks) == Some(t);
    packets.windows(2).map(grown).all(is_even)
}

/// Time stamps, and the first arrival of each; of frames, not those of which only the end may be there.
#[must_use]
pub fn first_of_stamps(packets: &[Packet]) -> Vec<cbr::Point> {
    let mut points: Vec<cbr::Point> =
        packets.iter().map(|packet| (packet.timestamp, packet.at_ns)).collect();
    // Sorted by time stamp, then arrival, so that the first arrival of each is kept.
    points.sort_unstable();
    points.dedup_by_key(|point| point.0);
    // A capture may begin within a frame: the first packet of its time stamp did not come, unless it says so.
    if let Some(first) = packets.first().filter(|first| !first.starts)
        && points.len() < packets.len()
        && points.len() > 2
    {
        points.retain(|point| point.0 != first.timestamp);
    }
    points
}

/// Lateness relative to RTP time.
#[derive(Debug, Clone, PartialEq)]
pub struct RtpTime {
    /// Clock rate in Hz.
    pub clock: u32,
    /// Parts per million by which the sender's clock is slower than the capture's.
    pub skew_ppm: f64,
    /// Lateness of the first packet of each time stamp, relative to the one with the least delay.
    pub lateness: Sorted,
}

impl RtpTime {
    /// Lateness relative to the time stamps, if their rate is one that RTP uses.
    #[must_use]
    pub fn of(packets: &[Packet]) -> Option<Self> {
        Self::of_clocks(packets, &CLOCKS)
    }

    /// The same for time stamps that have one of these clocks, in Hz.
    #[must_use]
    pub fn of_clocks(packets: &[Packet], clocks: &[u32]) -> Option<Self> {
        let points = first_of_stamps(packets);
        let fit = Fit::of(&points)?;
        let off = |clock: &u32| fit.period_ns * f64::from(*clock) / 1e9 - 1.0;
        let is_it = |clock: &u32| off(clock).abs() <= CLOCK_TOLERANCE;
        let clock = clocks.iter().copied().find(is_it)?;
        let lateness = fit.lateness(&points);
        Some(Self { clock, skew_ppm: off(&clock) * 1e6, lateness })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: i64, timestamp: i64, at_ns: u64) -> Packet {
        Packet {
            at_ns,
            number,
            timestamp,
            octets: 1_000,
            marker: false,
            starts: false,
            second_field: false,
        }
    }

    fn even(packets: &[Packet]) -> bool {
        let points: Vec<cbr::Point> = packets.iter().map(|p| (p.number, p.at_ns)).collect();
        is_even(&Cbr::of(&points).unwrap(), packets)
    }

    /// 15 pictures a second in two packets each, picture 100 late by 30 ms.
    fn pictures() -> Vec<Packet> {
        let at = |n: i64| {
            let late = if n / 2 == 100 { 30_000_000 } else { 0 };
            1_000_000_000 + n as u64 / 2 * 66_666_667 + n as u64 % 2 * 15_000 + late
        };
        (0..1_000).map(|n| packet(n, n / 2 * 6_000, at(n))).collect()
    }

    #[test]
    fn bursts_are_not_a_constant_rate() {
        assert!(!even(&pictures()));
        let in_threes: Vec<Packet> = (0..999)
            .map(|n| packet(n, n / 3 * 3_000, n as u64 / 3 * 33_333_333 + n as u64 % 3 * 20_000))
            .collect();
        assert!(!even(&in_threes));
    }

    #[test]
    fn pictures_are_held_against_rtp_time() {
        let found = RtpTime::of(&pictures()).unwrap();
        // The first may have begun before.
        assert_eq!((found.clock, found.lateness.n()), (90_000, 499));
        assert!(found.skew_ppm.abs() < 0.1, "{}", found.skew_ppm);
        assert_eq!(found.lateness.above(1_000), 1);
        let most = found.lateness.max().unwrap();
        assert!((29_999_000..=30_001_000).contains(&most), "{most}");
    }

    /// A capture that began with the last packet of a field had a stream late by a field.
    #[test]
    fn a_frame_that_has_begun_before_is_not_late() {
        let most = |packets: &[Packet]| RtpTime::of(packets).unwrap().lateness.max().unwrap();
        let mut sound: Vec<Packet> =
            pictures().into_iter().filter(|p| p.number / 2 != 100).collect();
        assert!(most(&sound) < 1_000);
        sound.remove(0);
        sound[0].at_ns += 16_000_000;
        assert!(most(&sound) < 1_000);
    }

    #[test]
    fn time_stamps_of_no_clock_give_no_lateness() {
        let strange: Vec<Packet> =
            (0..500).map(|n| packet(n, n * 777, n as u64 * 20_000_000)).collect();
        assert_eq!(RtpTime::of(&strange), None);
        let still: Vec<Packet> = (0..500).map(|n| packet(n, 5, n as u64 * 20_000_000)).collect();
        assert_eq!(RtpTime::of(&still), None);
        let extremes = [packet(0, i64::MIN, u64::MAX), packet(1, i64::MAX, 0), packet(2, 0, 7)];
        let _ = RtpTime::of(&extremes);
    }

    #[test]
    fn even_time_stamps_count_more_than_gaps() {
        // Packets of 20 ms that a radio link delivers in threes.
        let at = |n: i64| (n as u64 / 3 + 1) * 60_000_000 + n as u64 % 3 * 30_000;
        let packets: Vec<Packet> = (0..900).map(|n| packet(n, n * 160, at(n))).collect();
        assert!(even(&packets));
        let plain: Vec<Packet> = (0..900).map(|n| packet(n, 0, at(n))).collect();
        assert!(!even(&plain));
    }

    #[test]
    fn clocks_do_not_differ_by_more_than_they_can() {
        let none = Sorted::new(alloc::vec![0; 100]);
        let second = 1_000_000_000;
        assert_eq!(Skew::of(-499.0, second, &none), Some(Skew::Drift(-499.0)));
        assert_eq!(Skew::of(1_000.0, second, &none), Some(Skew::Mismatch(1_000.0)));
        // A millisecond of sound in which packets are 10 µs late says nothing of 1,000 ppm.
        let late = Sorted::new(alloc::vec![10_000; 8]);
        assert_eq!(Skew::of(1_000.0, 1_000_000, &late), None);
    }
}
