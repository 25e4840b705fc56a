//! How the clocks of two hosts relate, by packets that went from one to the other.
//!
//! The time that a packet was sent, by one clock, and the time that it arrived, by the other, differ by the offset of
//! the clocks and the packet's delay. Delays have a least value and no greatest one, so that the line below all
//! differences has the offset, the least delay and the clocks' rates in it, and what is above it is delay. The line is
//! the edge of the lower convex hull at the middle of the time: of all lines below the points, the one with the least
//! sum of distances to evenly spaced ones (Moon, Skelly and Towsley, "Estimation and Removal of Clock Skew from Network
//! Delay Measurements", INFOCOM 1999).

use super::{Arrival, Measured, Schedule};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How far the rates of two clocks may be apart. A clock that is slewed by NTP is off by up to 500 ppm.
pub const MAX_PPM: f64 = 1_000.0;

/// Times from here on, 146 years, are of no clock: products of two below fit into 128 bits.
const LATEST_NS: u64 = 1 << 62;

/// A line from one clock to another, below which no packet arrived.
///
/// ```
/// use linecard_jitter::stream::clocks::ClockLine;
/// // Sent each 1 ms, with the least delay 5 µs; the second packet was 3 µs later.
/// let line = ClockLine::below([(0, 105_000), (1_000_000, 1_108_000), (2_000_000, 2_105_000)]);
/// let line = line.ok_or("too few packets")?;
/// assert_eq!(line.convert(1_000_000), 1_105_000);
/// assert_eq!(line.ppm(), 0.0);
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockLine {
    sent_ns: u64,
    arrived_ns: u64,
    /// By how much the difference grows in `run_ns` of the sender's clock.
    rise_ns: i128,
    run_ns: i128,
}

impl ClockLine {
    /// The line below packets: of each when it was sent, and when it arrived. `None` with fewer than two times of
    /// sending.
    #[must_use]
    pub fn below(packets: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut points: Vec<(i128, i128)> = packets
            .into_iter()
            .filter(|(sent, arrived)| (sent | arrived) < LATEST_NS)
            .map(|(sent, arrived)| (i128::from(sent), i128::from(arrived) - i128::from(sent)))
            .collect();
        points.sort_unstable();
        let (first, last) = (points.first()?.0, points.last()?.0);
        let mut hull: Vec<(i128, i128)> = Vec::new();
        for point in points {
            while hull.len() > 1 && !turns_left(hull[hull.len() - 2], hull[hull.len() - 1], point) {
                hull.pop();
            }
            // Of packets that were sent at one time, the fastest came first.
            if hull.last().is_none_or(|last| last.0 < point.0) {
                hull.push(point);
            }
        }
        let middle = first + (last - first) / 2;
        let edge = hull.windows(2).find(|edge| edge[1].0 > middle)?;
        let (from, to) = (edge[0], edge[1]);
        Some(Self {
            sent_ns: u64::try_from(from.0).ok()?,
            arrived_ns: u64::try_from(from.0 + from.1).ok()?,
            rise_ns: to.1 - from.1,
            run_ns: to.0 - from.0,
        })
    }

    /// The time on the receiver's clock of a time on the sender's, rounded down; saturates.
    #[must_use]
    pub fn convert(&self, sent_ns: u64) -> u64 {
        let since_ns = i128::from(sent_ns) - i128::from(self.sent_ns);
        let rise_ns = since_ns.saturating_mul(self.rise_ns).div_euclid(self.run_ns);
        let at_ns = i128::from(self.arrived_ns) + since_ns + rise_ns;
        u64::try_from(at_ns.max(0)).unwrap_or(u64::MAX)
    }

    /// How much faster the receiver's clock goes than the sender's, in millionths.
    #[must_use]
    pub fn ppm(&self) -> f64 {
        self.rise_ns as f64 / self.run_ns as f64 * 1e6
    }

    /// A stream whose due and send times are by the sender's clock, by the receiver's clock.
    #[must_use]
    pub fn apply(&self, measured: Measured) -> Measured {
        let Schedule { start_ns, period_ps } = measured.schedule;
        let period_ps =
            period_ps.saturating_add_signed((period_ps as f64 * self.ppm() / 1e6) as i64);
        let sent_ns = measured.sent_ns.into_iter();
        Measured {
            schedule: Schedule { start_ns: self.convert(start_ns), period_ps: period_ps.max(1) },
            // 0 stands for a packet that was refused.
            sent_ns: sent_ns
                .map(|at_ns| if at_ns == 0 { 0 } else { self.convert(at_ns) })
                .collect(),
            ..measured
        }
    }
}

/// The line of a stream whose two ends had clocks of their own. `received` has the times at which packets reached this
/// host, by their numbers, as far as they are known: the way from there to the application is none between the hosts.
#[must_use]
pub fn line_of(measured: &Measured, received: &BTreeMap<u64, u64>) -> Option<ClockLine> {
    ClockLine::below(measured.arrivals.iter().filter_map(|Arrival { sequence, at_ns }| {
        let sent_ns = measured.sent_ns.get(usize::try_from(*sequence).ok()?)?;
        let here_ns = received.get(sequence).map_or(*at_ns, |received_ns| *received_ns.min(at_ns));
        (*sent_ns > 0).then_some((*sent_ns, here_ns))
    }))
}

/// Whether the way from `a` over `b` to `c` turns left, so that `b` is below the line from `a` to `c`.
fn turns_left(a: (i128, i128), b: (i128, i128), c: (i128, i128)) -> bool {
    (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use linecard::rng::Rng;

    /// The obvious slow way: of all lines through two points that have no point below them, the one that is lowest in
    /// the middle is above all others there.
    fn slowly(packets: &[(u64, u64)]) -> Option<f64> {
        let points: Vec<(f64, f64)> = packets
            .iter()
            .map(|&(sent, arrived)| (sent as f64, arrived as f64 - sent as f64))
            .collect();
        let middle = (points.first()?.0 + points.last()?.0) / 2.0;
        let mut best: Option<f64> = None;
        for from in &points {
            for to in points.iter().filter(|to| to.0 > from.0) {
                let slope = (to.1 - from.1) / (to.0 - from.0);
                let at = |x: f64| from.1 + slope * (x - from.0);
                if points.iter().all(|point| point.1 >= at(point.0) - 1e-3) {
                    best = Some(best.map_or(at(middle), |best| best.max(at(middle))));
                }
            }
        }
        best
    }

    #[test]
    fn the_line_is_the_highest_below_all_packets() {
        let mut random = Rng::new(7);
        for _ in 0..300 {
            let n = 2 + random.below(30);
            let mut sent = 1_000_000;
            let packets: Vec<(u64, u64)> = (0..n)
                .map(|_| {
                    sent += 1 + random.below(20_000);
                    (sent, sent + 400_000 + random.below(5_000))
                })
                .collect();
            let line = ClockLine::below(packets.clone()).expect("two packets");
            assert!(packets.iter().all(|(sent, arrived)| line.convert(*sent) <= *arrived));
            let middle = (packets[0].0 + packets[packets.len() - 1].0) / 2;
            let height = line.convert(middle) as f64 - middle as f64;
            let best = slowly(&packets).expect("two packets");
            assert!((height - best).abs() <= 2.0, "{height} {best} {packets:?}");
        }
    }

    /// A clock that is 40 ppm slower and begins elsewhere, a path of 30 µs, one packet in ten delayed.
    #[test]
    fn offset_and_rate_are_taken_out() {
        let schedule = Schedule { start_ns: 77_000_000_000, period_ps: 7_419_761 };
        let mut random = Rng::new(3);
        let own = |ns: u64| 5_000_000 + (ns - 77_000_000_000) + (ns - 77_000_000_000) / 25_000;
        let sent_ns: Vec<u64> =
            (0..100_000).map(|n| schedule.due_ns(n) + random.below(300)).collect();
        let delays: Vec<u64> = (0..100_000)
            .map(|_| {
                random.below(200) + if random.below(10) == 0 { random.below(900_000) } else { 0 }
            })
            .collect();
        let arrivals = (0..).zip(sent_ns.iter().zip(&delays));
        let arrivals = arrivals.map(|(sequence, (sent, delay))| Arrival {
            sequence,
            at_ns: own(*sent) + 30_000 + delay,
        });
        let arrivals: Vec<Arrival> = arrivals.collect();
        let sent_ns_of_first = sent_ns[0];
        let measured = Measured { schedule, sent_ns, arrivals, overflowed: 0 };
        let line = line_of(&measured, &BTreeMap::new()).expect("packets");
        assert!((line.ppm() - 40.0).abs() < 0.3, "{}", line.ppm());
        // 20 µs of the path are within the host, of which a trace knows.
        let here = |arrival: &Arrival| (arrival.sequence, arrival.at_ns - 20_000);
        let received = measured.arrivals.iter().map(here).collect();
        let traced = line_of(&measured, &received).expect("packets").convert(sent_ns_of_first);
        assert!(line.convert(sent_ns_of_first).abs_diff(traced + 20_000) <= 1);
        let applied = line.apply(measured);
        for (arrival, delay) in applied.arrivals.iter().zip(&delays) {
            let transit = arrival.at_ns - applied.sent_ns[arrival.sequence as usize];
            assert!(transit.abs_diff(*delay) < 60, "{transit} {delay}");
            assert!(applied.schedule.due_ns(arrival.sequence) <= arrival.at_ns);
        }
    }

    #[test]
    fn what_is_refused_stays_refused_and_nothing_overflows() {
        let schedule = Schedule { start_ns: 10, period_ps: 1_000_000 };
        let arrivals =
            vec![Arrival { sequence: 1, at_ns: 5 }, Arrival { sequence: 2, at_ns: u64::MAX }];
        let sent_ns = vec![0, u64::MAX - 9, 12];
        let measured = Measured { schedule, sent_ns, arrivals, overflowed: 0 };
        assert_eq!(line_of(&measured, &BTreeMap::new()), None);
        let line = ClockLine::below([(0, LATEST_NS - 1), (LATEST_NS - 1, 0)]).expect("two packets");
        assert_eq!(line.apply(measured).sent_ns, [0, 0, LATEST_NS - 13]);
        let at_once = [(7, 9), (7, 8)];
        assert_eq!(ClockLine::below(at_once), None);
        assert_eq!(ClockLine::below([]), None);
    }
}
