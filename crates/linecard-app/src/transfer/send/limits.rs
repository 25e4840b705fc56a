//! The limit of a transfer, in one sentence: its lanes, a disk, the processor or memory.

use crate::transfer::outcome::bits_per_second;
use linecard_report::Value;
use linecard_transfer_net::send::{LaneView, Sent};
use std::time::Duration;

/// Shorter transfers are over before a limit shows.
const LEAST_ELAPSED: Duration = Duration::from_millis(500);
/// Lanes that are named, at most.
const MAX_NAMED: usize = 4;
/// A thread that takes this share of a core is what limits; and cores of which this share is taken, where data is read
/// too late.
const BUSY: f64 = 0.9;
/// A process that takes less of a core waits for something else, however busy others keep the cores.
const IDLE: f64 = 0.2;

/// The limit under which the lanes were most of the time.
pub(super) fn limited_by(sent: &Sent) -> Option<String> {
    if sent.elapsed < LEAST_ELAPSED {
        return None;
    }
    let busy = sent.lane_thread.as_secs_f64() / sent.elapsed.as_secs_f64();
    if busy >= BUSY {
        return Some(format!(
            "the processor here: one thread took {:.0} % of a core",
            100.0 * busy
        ));
    }
    let times = sent.limits;
    let down = silent_lanes(&sent.lanes);
    let own = sent.processor.as_secs_f64() / sent.elapsed.as_secs_f64();
    let reading = reading(sent.cores.busy_share(), own);
    let rates = rates(&sent.lanes, sent.elapsed);
    let limits = [
        (
            times.lane_ns,
            "the lanes: they sent as fast as their paths, and the receiver behind them, took it",
            &*rates,
        ),
        (times.reading_ns, &*reading, ""),
        (
            times.receiver_ns,
            "the receiver, which had no room or did not answer sooner: its disk, its processor, its --memory or the round trip",
            "",
        ),
        (times.in_flight_ns, "memory here: as many chunks were in flight as may be", ""),
        (times.down_ns, &*down, ""),
    ];
    let (ns, limit, more) = limits.into_iter().max_by_key(|&(ns, ..)| ns)?;
    let share = 100.0 * ns as f64 / times.sum_ns().max(1) as f64;
    Some(format!("{limit} ({share:.0} % of the time){more}"))
}

/// Why no data were there to send, where cores were busy for this share of the time, and this process took `own` of one.
fn reading(busy: f64, own: f64) -> String {
    if busy >= BUSY && own >= IDLE {
        return format!(
            "the processor here, whose cores were busy {:.0} % of the time: no data were there to send",
            100.0 * busy
        );
    }
    "reading here: no data were there to send".to_owned()
}

/// The lanes that did not answer for longest, as a limit.
fn silent_lanes(lanes: &[LaneView]) -> String {
    let longest = lanes.iter().map(|lane| lane.silent).max().unwrap_or_default();
    let names = lanes.iter().filter(|lane| lane.silent * 2 > longest);
    let names: Vec<&str> = names.map(|lane| &*lane.name).take(MAX_NAMED).collect();
    match &*names {
        [] => "lanes that did not answer".to_owned(),
        names => format!("lanes that did not answer: {}", names.join(", ")),
    }
}

/// The rate of each lane on the line, the lowest first; of more than are named, the last is the highest.
fn rates(lanes: &[LaneView], elapsed: Duration) -> String {
    let reached = lanes.iter().filter(|lane| lane.rtt_ns.is_some());
    let mut lanes: Vec<&LaneView> = reached.collect();
    lanes.sort_by_key(|lane| lane.counters.line_bytes);
    let own = |lane: &LaneView| format!("{}:{}", lane.spec.kind, lane.spec.local);
    let owns: Vec<String> = lanes.iter().map(|lane| own(lane)).collect();
    let rate = |lane: &&LaneView| {
        let (own, rate) = (own(lane), bits_per_second(lane.counters.line_bytes, elapsed));
        // Of several from one address, the other end as well.
        let is_only = owns.iter().filter(|other| **other == own).count() == 1;
        format!("{} {}", if is_only { &own } else { &lane.name }, Value::BitRate(rate))
    };
    match &*lanes {
        [] | [_] => String::new(),
        [lowest, .., highest] if lanes.len() > MAX_NAMED => {
            format!(": of {} lanes, {} to {}", lanes.len(), rate(lowest), rate(highest))
        }
        lanes => format!(": {}", lanes.iter().map(rate).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_transfer::lane::{LaneCounters, LaneState};
    use linecard_transfer_net::end::SocketCounters;

    fn view(name: &str, line_bytes: u64, silent_ms: u64) -> LaneView {
        LaneView {
            name: format!("lane {name}"),
            spec: name.parse().unwrap(),
            is_spare: false,
            state: LaneState::Alive,
            rtt_ns: Some(1_000_000),
            least_rtt_ns: None,
            silent: Duration::from_millis(silent_ms),
            counters: LaneCounters { line_bytes, ..LaneCounters::default() },
            socket: SocketCounters::default(),
        }
    }

    /// A million small files were "reading here" with both cores busy.
    #[test]
    fn busy_cores_are_named_where_data_is_read_too_late() {
        assert!(reading(0.5, 0.9).starts_with("reading here: "));
        let busy = "the processor here, whose cores were busy 96 % of the time: ";
        assert!(reading(0.96, 0.9).starts_with(busy));
        // Others kept them busy, and this waited for a pipe.
        assert!(reading(1.0, 0.01).starts_with("reading here: "));
    }

    #[test]
    fn lanes_that_did_not_answer_are_named() {
        let lanes = [("10.0.0.1", 40), ("10.0.1.1", 900), ("10.0.2.1", 500)];
        let lanes = lanes.map(|(name, silent_ms)| view(name, 0, silent_ms));
        let named = "lanes that did not answer: lane 10.0.1.1, lane 10.0.2.1";
        assert_eq!(silent_lanes(&lanes), named);
        assert_eq!(silent_lanes(&[]), "lanes that did not answer");
    }

    #[test]
    fn the_rates_of_lanes_that_limit_are_given() {
        let second = Duration::from_secs(1);
        let mut lanes = vec![view("10.0.0.1", 25_000_000, 0)];
        assert_eq!(rates(&lanes, second), "", "it is that of the transfer");
        lanes.push(view("tcp:10.0.1.1", 6_000_000, 0));
        let both = ": tcp:10.0.1.1 48.00 Mbit/s, udp:10.0.0.1 200 Mbit/s";
        assert_eq!(rates(&lanes, second), both);
        lanes.extend((2..5).map(|n| view("10.0.9.1", 10_000_000 * n, 0)));
        let all = ": of 5 lanes, tcp:10.0.1.1 48.00 Mbit/s to lane 10.0.9.1 320 Mbit/s";
        assert_eq!(rates(&lanes, second), all, "of some from one address, the whole name");
    }
}
