//! How many repair packets bring a chunk earlier, by what its lanes lose and how long a retransmission takes.
//!
//! A packet that is lost early in a chunk is sent again while the chunk's other packets are being sent, so repair gains
//! nothing. Only the groups of the last round trip are repaired, with as many packets as bring the chunk earliest.

use super::Sender;
use super::chunk::Spread;
use crate::fec::Repair;
use crate::lane::{LaneCounters, LaneSender, LaneState};
use crate::layout::Layout;

/// Packets after which earlier losses count half.
const MEMORY_PACKETS: f64 = 4_000.0;
/// A loss is noticed after this part of a round trip more: three packets, or a quarter of the time (RFC 9002, 6.1).
const NOTICED: f64 = 1.25;
/// Retransmissions of one packet that are considered.
const ROUNDS: i32 = 4;

/// Packets of a lane and losses among them, of which earlier ones count less.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    seen: LaneCounters,
    packets: f64,
    lost: f64,
}

impl Losses {
    fn observe(&mut self, counters: LaneCounters) {
        let lost = |counters: &LaneCounters| counters.lost.saturating_sub(counters.late);
        self.packets += counters.packets.saturating_sub(self.seen.packets) as f64;
        // Packets that were taken for lost may have come since.
        self.lost += lost(&counters) as f64 - lost(&self.seen) as f64;
        self.lost = self.lost.clamp(0.0, self.packets);
        self.seen = counters;
        if self.packets > MEMORY_PACKETS {
            (self.packets, self.lost) = (self.packets / 2.0, self.lost / 2.0);
        }
    }

    fn share(&self) -> f64 {
        if self.packets > 0.0 { self.lost / self.packets } else { 0.0 }
    }
}

/// The lanes of a chunk, taken together.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    /// Share of packets that are lost.
    loss: f64,
    /// Bytes per ns.
    rate: f64,
    rtt_ns: f64,
}

/// The repair packets of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// For each group.
    pub(super) each: u32,
    /// The first group that has them.
    pub(super) from: u32,
}

impl Path {
    /// The repair that makes a chunk complete earliest.
    fn best(&self, layout: &Layout) -> Rows {
        let (groups, again_ns) = (f64::from(layout.groups()), NOTICED * self.rtt_ns);
        let whole_ns = f64::from(layout.bytes()) / self.rate;
        // Groups whose losses may be noticed only when all has been sent.
        let late = (groups * again_ns / whole_ns).min(groups);
        let mut best = (f64::INFINITY, 0);
        for rows in 0..=layout.repair() {
            let more = f64::from(rows) * late / f64::from(layout.packets());
            let time_ns = whole_ns * (1.0 + more) + again_ns * self.rounds(layout, late, rows);
            if time_ns < best.0 {
                best = (time_ns, rows);
            }
        }
        let from = layout.groups() - (libm::ceil(late) as u32).min(layout.groups());
        Rows { each: best.1, from }
    }

    /// Round trips for retransmissions behind the last packet, with `rows` repair packets for each of the `late` last
    /// groups.
    fn rounds(&self, layout: &Layout, late: f64, rows: u32) -> f64 {
        let (groups, data) = (f64::from(layout.groups()), layout.group_data(0));
        let [broken, missing] = shortage(data, rows, self.loss);
        let mut rounds = any(broken, late);
        for round in 1..ROUNDS {
            let again = libm::pow(self.loss, f64::from(round));
            let earlier = (f64::from(round + 1) * late).min(groups) - late;
            let lost = late * missing + earlier * f64::from(data) * self.loss;
            rounds += any(again, lost);
        }
        rounds
    }
}

/// The probability of at least one among `count` of probability `share` each.
fn any(share: f64, count: f64) -> f64 {
    -libm::expm1(count * libm::log1p(-share.min(1.0 - f64::EPSILON)))
}

/// The probability that repair does not suffice for a group, and the packets that it then lacks, as a mean over all
/// groups; packets are lost independently.
fn shortage(data: u32, rows: u32, loss: f64) -> [f64; 2] {
    let all = data + rows;
    let odds = loss / (1.0 - loss).max(f64::EPSILON);
    let mut probability = libm::pow(1.0 - loss, f64::from(all));
    let [mut broken, mut missing] = [0.0; 2];
    for lost in 0..all {
        probability *= odds * f64::from(all - lost) / f64::from(lost + 1);
        if lost + 1 > rows {
            broken += probability;
            missing += probability * f64::from(lost + 1 - rows);
        }
    }
    [broken.min(1.0), missing]
}

impl Sender {
    /// Repair packets of a chunk that is about to start.
    pub(super) fn repair_rows(&mut self, layout: &Layout, spread: Spread) -> Rows {
        if matches!(self.settings.fec, Repair::Fixed(_)) {
            return Rows { each: layout.repair(), from: 0 };
        }
        for (losses, lane) in self.losses.iter_mut().zip(&self.lanes) {
            losses.observe(lane.counters);
        }
        // While other chunks follow on the same lane, a retransmission delays none of them, and repair all.
        let is_last = self.finished && self.offered.is_empty();
        if spread != Spread::All && !is_last {
            return Rows::default();
        }
        let path = self.path(spread);
        // With a loss there is a rate, too.
        if path.loss > 0.0 { path.best(layout) } else { Rows::default() }
    }

    fn path(&self, spread: Spread) -> Path {
        let mut path = Path::default();
        let carries =
            |lane: &LaneSender| lane.state() == LaneState::Alive && !lane.settings().stream;
        for (number, lane) in self.lanes.iter().enumerate() {
            if carries(lane) && matches!(spread, Spread::All) || spread == Spread::One(number) {
                let rate = lane.rate_bits_per_second() as f64 / 8e9;
                path.rate += rate;
                path.loss += rate * self.losses[number].share();
                path.rtt_ns = path.rtt_ns.max(lane.rtt().smoothed_ns() as f64);
            }
        }
        if path.rate > 0.0 {
            path.loss /= path.rate;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LaneSettings;
    use crate::send::SendSettings;
    use crate::send::tests::{at, lanes, over};
    use linecard::rng::Rng;

    /// Beside counting random groups.
    #[test]
    fn shortages_are_those_of_random_groups() {
        let mut rng = Rng::new(4);
        for (data, rows, loss) in [(28, 0, 0.01), (28, 2, 0.05), (10, 1, 0.2), (28, 4, 0.1)] {
            let groups = 200_000;
            let [mut broken, mut missing] = [0_u32; 2];
            for _ in 0..groups {
                let lost = (0..data + rows).filter(|_| rng.chance(loss)).count() as u32;
                broken += u32::from(lost > rows);
                missing += lost.saturating_sub(rows);
            }
            let counted = [broken, missing].map(|count| f64::from(count) / f64::from(groups));
            let found = shortage(data, rows, loss);
            for (found, counted) in found.into_iter().zip(counted) {
                assert!((found - counted).abs() < 0.01 * counted + 2e-4, "{found} {counted}");
            }
        }
    }

    #[test]
    fn repair_pays_where_a_round_trip_is_long_beside_the_chunk() {
        let rows = |bytes: u32, loss: f64, rtt_ms: f64| {
            let layout = Layout::new(bytes, 1_408, Repair::AUTO).expect("a layout");
            // 200 Mbit/s.
            let path = Path { loss, rate: 0.025, rtt_ns: rtt_ms * 1e6 };
            let Rows { each, from } = path.best(&layout);
            (each, layout.groups() - from)
        };
        // All of a chunk of 42 ms, whose every loss is noticed behind its end.
        assert_eq!(rows(1 << 20, 0.01, 50.0), (3, 27));
        assert_eq!(rows(1 << 20, 0.0001, 50.0), (1, 27));
        // The last tenth of one of 671 ms.
        assert_eq!(rows(16 << 20, 0.01, 50.0), (3, 40));
        // Where a round trip is as short as some packets, repair gains nothing.
        assert_eq!(rows(1 << 20, 0.01, 0.1).0, 0);
    }

    #[test]
    fn where_a_round_trip_takes_no_time_nothing_is_repaired() {
        let layout = Layout::new(1 << 20, 1_408, Repair::AUTO).unwrap();
        let path = Path { loss: 0.01, rate: 0.025, rtt_ns: 0.0 };
        assert_eq!(path.best(&layout), Rows { each: 0, from: layout.groups() });
    }

    /// In a chunk of 27 groups, of which the last ten are late; what was lost of the ten before them, and of the other
    /// seven, is late if its retransmissions are lost, too.
    #[test]
    fn round_trips_behind_the_last_packet_are_those_of_all_that_may_be_lost_again() {
        let layout = Layout::new(27 * 28 * 1_000, 1_000, Repair::AUTO).unwrap();
        let path = Path { loss: 0.1, rate: 0.025, rtt_ns: 1e6 };
        for rows in [0, 2, 4] {
            let [broken, missing] = shortage(28, rows, 0.1);
            let at_least_one = |share: f64, count: f64| 1.0 - libm::pow(1.0 - share, count);
            let of_late = 10.0 * missing;
            let expected = at_least_one(broken, 10.0)
                + at_least_one(0.1, of_late + 10.0 * 2.8)
                + at_least_one(0.01, of_late + 17.0 * 2.8)
                + at_least_one(0.001, of_late + 17.0 * 2.8);
            let found = path.rounds(&layout, 10.0, rows);
            assert!((found - expected).abs() < 1e-9, "{rows}: {found} {expected}");
        }
    }

    #[test]
    fn none_among_none_is_impossible_even_if_each_is_certain() {
        assert_eq!(any(1.0, 0.0), 0.0);
        assert!((any(1.0, 3.0) - 1.0).abs() < 1e-9);
        assert!((any(0.5, 2.0) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn losses_are_a_share_of_the_packets_of_late() {
        let mut losses = Losses::default();
        assert_eq!(losses.share(), 0.0);
        let mut counters =
            LaneCounters { packets: 1_000, lost: 30, late: 10, ..Default::default() };
        losses.observe(counters);
        assert_eq!(losses.share(), 0.02);
        losses.observe(counters);
        assert_eq!(losses.share(), 0.02);
        // They were only late.
        (counters.packets, counters.late) = (2_000, 30);
        losses.observe(counters);
        assert_eq!(losses.share(), 0.0);
        // 4,000 are kept as they are; of 8,000 and of each 4,000 more, earlier ones count half.
        (counters.packets, counters.lost) = (4_000, 430);
        losses.observe(counters);
        assert_eq!(losses.share(), 0.1);
        for share in [0.05, 0.025, 0.0125] {
            counters.packets += 4_000;
            losses.observe(counters);
            assert_eq!(losses.share(), share);
        }
    }

    /// Lanes of 100 and 300 Mbit/s that lose 1 and 5 %, a stream, and one that has failed.
    fn sender_with_losses() -> Sender {
        let mut four = lanes(4);
        four[1].rate_bits_per_second *= 3;
        four[2] = LaneSettings { stream: true, ..four[2] };
        let settings = SendSettings { fec: Repair::Auto, ..Default::default() };
        let mut sender = over(&four, SendSettings { window_end: 100, ..settings });
        for (lane, lost) in sender.lanes.iter_mut().zip([10, 50, 500, 500]) {
            (lane.counters.packets, lane.counters.lost) = (1_000, lost);
        }
        sender.fail(3, at(2));
        sender
    }

    #[test]
    fn the_lanes_of_a_chunk_are_those_that_carry_it() {
        let mut sender = sender_with_losses();
        sender.repair_rows(&Layout::new(1_000, 1_000, Repair::AUTO).unwrap(), Spread::All);
        let path = |spread| {
            let Path { loss, rate, rtt_ns } = sender.path(spread);
            [loss, rate, rtt_ns].map(|value| (value * 1e6).round() / 1e6)
        };
        assert_eq!(path(Spread::All), [0.04, 0.05, 1e6]);
        assert_eq!(path(Spread::One(0)), [0.01, 0.0125, 1e6]);
        assert_eq!(path(Spread::One(1)), [0.05, 0.0375, 1e6]);
        assert_eq!(path(Spread::One(2)), [0.5, 0.0125, 1e6]);
        assert_eq!(path(Spread::One(4)), [0.0; 3]);
    }

    #[test]
    fn repair_is_sent_with_what_lanes_share_and_with_the_last_chunk() {
        let layout = Layout::new(16 << 20, 1_000, Repair::AUTO).unwrap();
        let each = |sender: &mut Sender, spread| sender.repair_rows(&layout, spread).each > 0;
        let mut sender = sender_with_losses();
        assert!(each(&mut sender, Spread::All));
        assert!(!each(&mut sender, Spread::One(1)));
        sender.offer(0, 1_000).unwrap();
        sender.finish();
        assert!(each(&mut sender, Spread::All));
        assert!(!each(&mut sender, Spread::One(1)));
        sender.offered.clear();
        assert!(each(&mut sender, Spread::One(1)));
        // Nothing was lost.
        sender.lanes[1].counters.late = 50;
        assert_eq!(sender.repair_rows(&layout, Spread::One(1)), Rows::default());
        // As configured, whatever is lost.
        sender.settings.fec = Repair::Fixed(Repair::AUTO);
        assert_eq!(sender.repair_rows(&layout, Spread::One(1)), Rows { each: 4, from: 0 });
    }
}
