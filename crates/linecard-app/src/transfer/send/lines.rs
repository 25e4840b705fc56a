//! The progress of a transfer, a line each second.

use super::outcome::state;
use linecard_transfer::lane::LaneState;
use linecard_transfer_net::send::{LaneView, SendProgress};
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// Over which time rates are taken.
const SPAN: Duration = Duration::from_secs(1);

/// The state of a transfer. Rates are those since the line before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgressLine {
    /// Since the transfer began.
    pub elapsed_ns: u64,
    /// Of chunks that are whole at the receiver, those that were there before included.
    pub done_bytes: u64,
    /// At the receiver of chunks that are not whole yet, as far as it has acknowledged them.
    pub arrived_bytes: u64,
    /// None if the length is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Of data that have arrived at the receiver.
    pub goodput_bits_per_second: u64,
    /// Until all is there, at this rate. None while nothing comes, or if the length is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ns: Option<u64>,
    /// Lanes that carry data and are answered.
    pub lanes_in_use: usize,
    /// All of them.
    pub lanes: Vec<LaneLine>,
}

/// The state of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneLine {
    /// Its kind and its ends.
    pub name: String,
    /// As in the statistics at the end.
    pub state: &'static str,
    /// Of all that it has sent.
    pub line_bits_per_second: u64,
    /// None while it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
}

/// Gives a line each second, and one when all is there.
#[derive(Debug, Default)]
pub struct ProgressLines {
    /// As of the last line.
    last: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    elapsed: Duration,
    done_bytes: u64,
    /// Those of chunks that are not whole included.
    there_bytes: u64,
    /// By its name: a lane that is tried appears when it carries something.
    lane_bytes: HashMap<String, u64>,
}

impl ProgressLines {
    /// The line that is due, if one is.
    pub fn next(&mut self, progress: &SendProgress) -> Option<ProgressLine> {
        let seen = Seen::of(progress);
        let Some(last) = &self.last else {
            self.last = Some(seen);
            return None;
        };
        let span = seen.elapsed.saturating_sub(last.elapsed);
        let all = progress.total_bytes == Some(seen.done_bytes);
        let is_due = span >= SPAN || all && last.done_bytes != seen.done_bytes;
        let line = is_due.then(|| line(progress, last, span))?;
        self.last = Some(seen);
        Some(line)
    }
}

impl Seen {
    fn of(progress: &SendProgress) -> Self {
        let lanes = progress.lanes.iter();
        let lane_bytes = lanes.map(|lane| (lane.name.clone(), lane.socket.sent_bytes)).collect();
        let (elapsed, done_bytes) = (progress.elapsed, progress.done_bytes);
        Self { elapsed, done_bytes, there_bytes: progress.there_bytes(), lane_bytes }
    }
}

fn line(progress: &SendProgress, last: &Seen, span: Duration) -> ProgressLine {
    let rate = |now: u64, before: u64| bits_per_second(now.saturating_sub(before), span);
    let there_bytes = progress.there_bytes();
    let goodput = rate(there_bytes, last.there_bytes);
    let left_bytes = progress.total_bytes.map(|total| total.saturating_sub(there_bytes));
    let before = |name: &str| last.lane_bytes.get(name).copied().unwrap_or(0);
    let lane = |lane: &LaneView| LaneLine {
        name: lane.name.clone(),
        state: state(lane.state),
        line_bits_per_second: rate(lane.socket.sent_bytes, before(&lane.name)),
        rtt_ns: lane.rtt_ns,
    };
    let lanes: Vec<LaneLine> = progress.lanes.iter().map(lane).collect();
    let used = progress
        .lanes
        .iter()
        .zip(&lanes)
        .filter(|(view, lane)| view.state == LaneState::Alive && lane.line_bits_per_second > 0);
    ProgressLine {
        elapsed_ns: u64::try_from(progress.elapsed.as_nanos()).unwrap_or(u64::MAX),
        done_bytes: progress.done_bytes,
        arrived_bytes: progress.arrived_bytes,
        total_bytes: progress.total_bytes,
        goodput_bits_per_second: goodput,
        left_ns: left_bytes.and_then(|bytes| time_ns(bytes, goodput)),
        lanes_in_use: used.count(),
        lanes,
    }
}

fn bits_per_second(bytes: u64, span: Duration) -> u64 {
    let rate = u128::from(bytes) * 8_000_000_000 / span.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// None at a rate of 0, unless nothing is left.
fn time_ns(bytes: u64, bits_per_second: u64) -> Option<u64> {
    if bytes == 0 {
        return Some(0);
    }
    let time = (u128::from(bytes) * 8_000_000_000).checked_div(bits_per_second.into())?;
    Some(u64::try_from(time).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_transfer::lane::LaneCounters;
    use linecard_transfer::send::SendCounters;
    use linecard_transfer_net::end::SocketCounters;

    fn progress(ms: u64, done_bytes: u64, lanes: &[u64]) -> SendProgress {
        let lane = |(number, sent_bytes): (usize, &u64)| LaneView {
            name: format!("lane {number}"),
            spec: "127.0.0.1".parse().unwrap(),
            is_spare: false,
            state: LaneState::Alive,
            rtt_ns: None,
            least_rtt_ns: None,
            silent: Duration::ZERO,
            counters: LaneCounters::default(),
            socket: SocketCounters { sent_bytes: *sent_bytes, ..SocketCounters::default() },
        };
        SendProgress {
            waits: false,
            total_bytes: Some(5_000_000),
            done_bytes,
            had_bytes: 0,
            arrived_bytes: 0,
            lanes: lanes.iter().enumerate().map(lane).collect(),
            notes: Vec::new(),
            elapsed: Duration::from_millis(ms),
            counters: SendCounters::default(),
        }
    }

    #[test]
    fn a_line_comes_each_second_and_when_all_is_there() {
        let mut lines = ProgressLines::default();
        assert_eq!(lines.next(&progress(100, 0, &[0, 0])), None);
        assert_eq!(lines.next(&progress(900, 500_000, &[500_000, 0])), None);
        let line = lines.next(&progress(1_100, 1_000_000, &[1_100_000, 0])).unwrap();
        assert_eq!((line.goodput_bits_per_second, line.left_ns), (8_000_000, Some(4_000_000_000)));
        assert_eq!((line.lanes_in_use, line.lanes[0].line_bits_per_second), (1, 8_800_000));
        // Nothing comes.
        let line = lines.next(&progress(2_100, 1_000_000, &[1_100_000, 0])).unwrap();
        assert_eq!((line.goodput_bits_per_second, line.left_ns, line.lanes_in_use), (0, None, 0));
        // Of a chunk that is not whole, and a lane is only probed.
        let mut part = progress(3_100, 1_000_000, &[1_900_000, 100]);
        part.arrived_bytes = 800_000;
        part.lanes[1].state = LaneState::Suspect;
        let line = lines.next(&part).unwrap();
        assert_eq!((line.goodput_bits_per_second, line.left_ns), (6_400_000, Some(4_000_000_000)));
        assert_eq!(
            (line.done_bytes, line.arrived_bytes, line.lanes_in_use),
            (1_000_000, 800_000, 1)
        );
        let line = lines.next(&progress(3_600, 5_000_000, &[2_100_000, 3_000_000])).unwrap();
        assert_eq!((line.goodput_bits_per_second, line.left_ns), (51_200_000, Some(0)));
        assert_eq!(line.lanes_in_use, 2);
        assert_eq!(lines.next(&progress(3_700, 5_000_000, &[2_100_000, 3_000_000])), None);
    }
}
