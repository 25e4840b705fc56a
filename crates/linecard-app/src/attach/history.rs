//! Rates over time, for the page of an attachment, in memory of fixed size.

use super::rates::Rates;
use crate::offload::draw_merging;
use linecard_io::attach::AttachStats;
use linecard_report::{Axis, Page, TimeSeries, Unit};
use std::time::Duration;

/// Intervals that are kept: when there are more, two neighbours become one.
const MOST: usize = 1_024;

/// Rates by interval, or by groups of intervals so that all fit.
#[derive(Debug, Default)]
pub(super) struct History {
    intervals: Vec<Interval>,
    /// Intervals in one that is complete.
    joined: Joined,
    /// One that is not complete yet, and how many are in it.
    open: Option<(Interval, u64)>,
}

/// The number of intervals that are one.
#[derive(Debug)]
struct Joined(u64);

impl Default for Joined {
    fn default() -> Self {
        Self(1)
    }
}

/// Traffic of some time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Interval {
    /// Its end, since the beginning.
    end: f64,
    seconds: f64,
    /// Bits and packets: near received and transmitted, far likewise.
    bits: [f64; 4],
    packets: [f64; 4],
}

/// Names of the four.
const WAYS: [&str; 4] =
    ["near, received", "near, transmitted", "far, received", "far, transmitted"];

impl Interval {
    fn of(rates: &Rates, elapsed: Duration) -> Self {
        let Rates { seconds, near, far, .. } = rates;
        let all = |each: [f64; 4]| each.map(|rate| rate * seconds);
        Self {
            end: elapsed.as_secs_f64(),
            seconds: *seconds,
            bits: all([
                near.received_bits_per_second,
                near.transmitted_bits_per_second,
                far.received_bits_per_second,
                far.transmitted_bits_per_second,
            ]),
            packets: all([
                near.received_packets_per_second,
                near.transmitted_packets_per_second,
                far.received_packets_per_second,
                far.transmitted_packets_per_second,
            ]),
        }
    }

    /// With the one that follows.
    fn and(self, next: Self) -> Self {
        let sum = |a: [f64; 4], b: [f64; 4]| std::array::from_fn(|index| a[index] + b[index]);
        Self {
            end: next.end,
            seconds: self.seconds + next.seconds,
            bits: sum(self.bits, next.bits),
            packets: sum(self.packets, next.packets),
        }
    }
}

impl History {
    /// Adds the rates of an interval that ended at `elapsed`.
    pub(super) fn take(&mut self, rates: &Rates, elapsed: Duration) {
        self.push(Interval::of(rates, elapsed));
    }

    fn push(&mut self, next: Interval) {
        let (open, count) = match self.open.take() {
            Some((open, count)) => (open.and(next), count + 1),
            None => (next, 1),
        };
        if count < self.joined.0 {
            self.open = Some((open, count));
            return;
        }
        self.intervals.push(open);
        if self.intervals.len() >= MOST {
            self.joined.0 *= 2;
            self.intervals = self.intervals.chunks(2).map(|two| two[0].and(two[1])).collect();
        }
    }

    /// Adds rates over time to a page, and what was merged in both directions.
    pub(super) fn draw(&self, page: &mut Page, account: &AttachStats) {
        if !self.intervals.is_empty() || self.open.is_some() {
            let bits = |interval: &Interval| interval.bits;
            page.chart(self.chart("bit_rates", "Rates over time", Unit::BitRate, bits));
            let packets = |interval: &Interval| interval.packets;
            page.chart(self.chart("packet_rates", "Packets in a second", Unit::Count, packets));
        }
        draw_merging(page, ", ingress", &AttachStats::merged(&account.ingress));
        draw_merging(page, ", egress", &AttachStats::merged(&account.egress));
    }

    fn chart(
        &self,
        key: &'static str,
        title: &str,
        unit: Unit,
        of: fn(&Interval) -> [f64; 4],
    ) -> TimeSeries {
        let mut chart = TimeSeries::new(key, title);
        chart.x(Axis::new("time since the beginning", Unit::Seconds)).y(Axis::new(title, unit));
        for (way, name) in WAYS.into_iter().enumerate() {
            let all = self.intervals.iter().chain(self.open.iter().map(|(open, _)| open));
            let rate = |one: &Interval| (one.end, of(one)[way] / one.seconds.max(1e-9));
            chart.line(name, all.map(rate).collect());
        }
        if self.joined.0 > 1 {
            chart.caption(format!("Each point is the mean of {} intervals.", self.joined.0));
        }
        chart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: usize) -> Interval {
        let end = (number + 1) as f64;
        Interval { end, seconds: 1.0, bits: [number as f64; 4], packets: [1.0; 4] }
    }

    #[test]
    fn nothing_is_lost_and_memory_is_bounded() {
        for count in [1, 10, MOST - 1, MOST, MOST + 1, 5 * MOST + 3] {
            let mut history = History::default();
            (0..count).for_each(|number| history.push(second(number)));
            assert!(history.intervals.len() < MOST, "{count}");
            let all = || history.intervals.iter().chain(history.open.iter().map(|(open, _)| open));
            let sum = |of: fn(&Interval) -> f64| all().map(of).sum::<f64>();
            assert_eq!(sum(|one| one.packets[3]) as usize, count);
            assert_eq!(sum(|one| one.bits[0]) as usize, count * (count - 1) / 2);
            assert_eq!(sum(|one| one.seconds) as usize, count);
            assert!(all().is_sorted_by(|a, b| a.end < b.end));
            assert_eq!(all().last().map(|one| one.end), Some(count as f64));
        }
    }
}
