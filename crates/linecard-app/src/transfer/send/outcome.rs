//! The sent data, and statistics of each lane.

use super::Config;
use super::dry::{DryRun, Step};
use super::limits::limited_by;
use super::probe::{Findings, Probe, ProbedLane};
use crate::Error;
use crate::transfer::outcome::{
    Transferred, bits_per_second, failures, listed, memory_crossings, nanoseconds,
};
use linecard_report::{BitRate, ByteCount, Item, Nanoseconds, Share, Value};
use linecard_transfer::lane::LaneState;
use linecard_transfer::send::SendCounters;
use linecard_transfer::wire::OVERHEAD_BYTES;
use linecard_transfer_net::end::SocketCounters;
use linecard_transfer_net::file::Input;
use linecard_transfer_net::send::{LaneView, SendProgress, Sent};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// UDP, IPv4 and Ethernet around a datagram, and what IPv6 has more.
const FRAMING_BYTES: f64 = 8.0 + 20.0 + 14.0;
const IPV6_MORE_BYTES: f64 = 20.0;

/// The outcome of sending.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SendOutcome {
    /// Probe: nothing was sent
    pub probe: Option<Probe>,
    /// Lanes under load
    pub probed_lanes: Vec<ProbedLane>,
    /// Options that fit
    pub advice: Vec<Item<String>>,
    /// Transfer
    pub transfer: Option<Transfer>,
    /// Dry run: nothing was sent
    pub dry_run: Option<DryRun>,
    /// The same where only its failures are told.
    #[serde(skip)]
    planned: Option<DryRun>,
    /// In a dry run, the action for each object.
    #[serde(skip)]
    pub steps: Vec<Step>,
    /// From a chunk's first packet until it is whole
    pub chunk_latency: Option<Latency>,
    /// Against what these lanes could carry
    pub bound: Option<Bound>,
    /// Lanes
    pub lanes: Vec<Lane>,
    /// Errors of lanes
    pub lane_notes: Vec<Item<String>>,
    /// Not transferred
    pub failures: Vec<Item<String>>,
    /// Not sent
    pub skipped: Vec<Item<String>>,
}

/// The sent data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Transfer {
    /// The transferred data.
    #[serde(flatten)]
    pub transferred: Transferred,
    /// left out by patterns
    pub left_out: Option<u64>,
    /// data of a packet
    pub payload_bytes: Option<ByteCount>,
    /// processor time of this end
    pub cpu_ns: Option<Nanoseconds>,
    /// reads and writes of memory for each byte
    pub memory_crossings: Option<f64>,
    /// packets sent again
    pub resent: u64,
    /// sent twice to be sooner
    pub duplicates: Option<u64>,
    /// repair packets
    pub repair: Option<u64>,
    /// lost packets that repair replaced
    pub repaired: Option<u64>,
    /// losses
    pub losses: Option<String>,
    /// limited by
    pub limited_by: Option<String>,
}

/// Latencies of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// chunks
    pub chunks: u64,
    /// median
    pub p50_ns: Nanoseconds,
    /// 99th percentile
    pub p99_ns: Nanoseconds,
    /// longest
    pub max_ns: Nanoseconds,
}

/// Capacity of lanes of known rates, and the share that the transfer used.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bound {
    /// after framing and repair
    pub framing_bound_bits_per_second: BitRate,
    /// management overhead
    pub no_overhead: Option<String>,
    /// management overhead
    pub management_overhead: Option<Share>,
    /// which includes lanes that were down
    pub lanes_down: Option<String>,
}

/// A lane: its kind, own end and peer.
pub type Lane = Item<LaneOutcome>;

/// How losses were made good, and what each way cost: repair traffic, retransmission at least a round trip. None where
/// there was neither.
fn losses(counters: SendCounters, lanes: &[LaneView]) -> Option<String> {
    let SendCounters { resent, repair, repaired, .. } = counters;
    if resent + repair == 0 {
        return None;
    }
    let rtt_ns = lanes.iter().filter_map(|lane| lane.rtt_ns).min();
    let later = rtt_ns.map_or("later".to_owned(), |rtt_ns| {
        format!("at least {} later (a round trip)", Value::Ns(rtt_ns as f64))
    });
    if repair == 0 {
        let resent = Value::Count(resent);
        return Some(format!("all {resent} were sent again, {later}; no repair was sent"));
    }
    let packets: u64 = lanes.iter().map(|lane| lane.counters.packets).sum();
    let share = 100.0 * repair as f64 / packets.max(1) as f64;
    let (repaired, lost) = (Value::Count(repaired), Value::Count(repaired + resent));
    let resent = Value::Count(resent);
    Some(format!(
        "repair replaced {repaired} of {lost}, for {share:.1} % of all packets; {resent} were sent again, {later}"
    ))
}

/// Statistics of a lane.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LaneOutcome {
    /// alive, silent, not reached or closed
    pub state: &'static str,
    /// packets
    pub packets: u64,
    /// bytes on the line
    pub line_bytes: ByteCount,
    /// these in the time of the transfer, on average
    pub line_bits_per_second: BitRate,
    /// packets lost
    pub lost: u64,
    /// packets taken for lost that came late
    pub late: u64,
    /// how often it stopped answering
    pub deaths: u64,
    /// how long it did not answer
    pub silent_ns: Nanoseconds,
    /// round-trip time, if it was measured
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Nanoseconds>,
}

impl linecard_report::Outcome for SendOutcome {
    fn item(&self, section: &str, index: usize) -> Option<String> {
        match section {
            "lanes" => Some(self.lanes[index].value.to_string()),
            "probed_lanes" => Some(self.probed_lanes[index].value.to_string()),
            _ => None,
        }
    }
}

impl SendOutcome {
    /// All was sent that could be.
    pub(super) fn new(sent: &Sent, config: &Config, is_ipv6: bool) -> Self {
        let moved = Transferred::of_bytes(sent.bytes, sent.had_bytes, sent.elapsed);
        let bound_bits_per_second =
            framing_bound(sent, config, is_ipv6).filter(|_| sent.plan.is_none());
        let is_test = matches!(config.input(), Ok(Input::Test(_)));
        // Data that is there already is read and hashed, but not sent; tests read no file; repair is encoded in passes of
        // its own.
        let is_estimable = sent.had_bytes == 0 && sent.counters.repair == 0 && !is_test;
        let has_repair = sent.counters.repair > 0;
        let skipped = sent
            .skipped
            .iter()
            .map(|skipped| Item { label: shown(&skipped.path), value: skipped.why.to_owned() });
        Self {
            transfer: sent.plan.is_none().then(|| Transfer {
                transferred: moved
                    .with_files(sent.objects, sent.unchanged, &sent.failures)
                    .with_removed(sent.removed, &sent.unremoved),
                left_out: (sent.left_out > 0).then_some(sent.left_out),
                payload_bytes: Some(ByteCount(sent.payload_bytes.into())),
                cpu_ns: Some(nanoseconds(sent.processor)),
                memory_crossings: is_estimable
                    .then(|| sent.lanes.iter().map(|lane| in_packets(&lane.socket)).sum())
                    .and_then(|in_packets| memory_crossings(sent.bytes, in_packets)),
                resent: sent.counters.resent,
                duplicates: Some(sent.counters.duplicates),
                repair: has_repair.then_some(sent.counters.repair),
                repaired: has_repair.then_some(sent.counters.repaired),
                losses: losses(sent.counters, &sent.lanes),
                limited_by: limited_by(sent),
            }),
            dry_run: sent.plan.as_deref().map(|plan| DryRun::of(sent, plan)),
            probe: None,
            probed_lanes: Vec::new(),
            advice: Vec::new(),
            planned: None,
            steps: sent.plan.iter().flatten().map(Step::of).collect(),
            chunk_latency: Latency::of(&sent.latencies_ns),
            bound: bound_bits_per_second.map(|bound_bits_per_second| {
                let moved = sent.bytes.saturating_sub(sent.had_bytes);
                let overhead = 1.0 - bits_per_second(moved, sent.elapsed) / bound_bits_per_second;
                Bound::new(bound_bits_per_second, overhead, &sent.lanes, sent.elapsed)
            }),
            lanes: match sent.plan {
                Some(_) => Vec::new(),
                None => sent.lanes.iter().map(|view| lane(view, sent.elapsed)).collect(),
            },
            lane_notes: lane_notes(&sent.notes),
            failures: failures(&sent.failures, &sent.unremoved),
            skipped: skipped.collect(),
        }
    }

    /// The same dry run with what was measured; without its steps, unless they are asked for.
    pub(super) fn with_probe(
        mut self,
        findings: Findings,
        notes: &[String],
        has_steps: bool,
    ) -> Self {
        let Findings { probe, lanes, advice } = findings;
        if !has_steps {
            self.planned = self.dry_run.take();
            self.steps.clear();
        }
        let lane_notes = lane_notes(notes);
        Self { probe: Some(probe), probed_lanes: lanes, advice, lane_notes, ..self }
    }

    /// It ended early.
    pub(super) fn part(progress: &SendProgress, error: &Error) -> Self {
        Self {
            transfer: Some(Transfer {
                transferred: Transferred::part(
                    error,
                    progress.done_bytes,
                    progress.had_bytes,
                    progress.elapsed,
                ),
                left_out: None,
                payload_bytes: None,
                cpu_ns: None,
                memory_crossings: None,
                resent: progress.counters.resent,
                duplicates: None,
                repair: None,
                repaired: None,
                losses: None,
                limited_by: None,
            }),
            dry_run: None,
            probe: None,
            probed_lanes: Vec::new(),
            advice: Vec::new(),
            planned: None,
            steps: Vec::new(),
            chunk_latency: None,
            bound: None,
            lanes: progress.lanes.iter().map(|view| lane(view, progress.elapsed)).collect(),
            lane_notes: lane_notes(&progress.notes),
            failures: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// A line for each of the first files that exist and are never sent.
    #[must_use]
    pub fn not_sent(&self) -> Vec<String> {
        let lines =
            self.skipped.iter().map(|item| format!("not sent: {} is {}", item.label, item.value));
        listed(lines, self.skipped.len(), |more| format!("and {more} more were not sent"))
    }

    /// A line for each of the first files that could not be transferred.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        match (&self.transfer, self.dry_run.as_ref().or(self.planned.as_ref())) {
            (Some(transfer), _) => transfer.transferred.missing(&self.failures),
            (None, Some(dry_run)) => dry_run.missing(&self.failures),
            (None, None) => Vec::new(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.transfer.as_ref().map_or(Ok(()), |transfer| transfer.transferred.check())?;
        self.dry_run.as_ref().or(self.planned.as_ref()).map_or(Ok(()), DryRun::check)
    }
}

impl Latency {
    fn of(latencies_ns: &[u64]) -> Option<Self> {
        let mut sorted = latencies_ns.to_vec();
        sorted.sort_unstable();
        let &max = sorted.last()?;
        // The least value that no more than this share is above.
        let quantile = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            Nanoseconds(sorted[rank.clamp(1, sorted.len()) - 1] as f64)
        };
        Some(Self {
            chunks: sorted.len() as u64,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: Nanoseconds(max as f64),
        })
    }
}

/// A path in one line, whatever characters a name has.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Bits of data a second that the lanes carry at most, if all their rates are known.
fn framing_bound(sent: &Sent, config: &Config, is_ipv6: bool) -> Option<f64> {
    let rate = config.rate.0.map(linecard_config::Rate::bits_per_second);
    let rates: Option<Vec<u64>> = match config.lanes.as_slice() {
        [] => Some(vec![rate?]),
        lanes => lanes.iter().map(|lane| lane.0.rate_bits_per_second.or(rate)).collect(),
    };
    let rate_bits_per_second: u64 = rates?.iter().sum();
    let payload = f64::from(sent.payload_bytes);
    let framing = FRAMING_BYTES + if is_ipv6 { IPV6_MORE_BYTES } else { 0.0 };
    let share = payload / (payload + OVERHEAD_BYTES as f64 + framing);
    Some(rate_bits_per_second as f64 * share / (1.0 + config.fec.0.least_overhead()))
}

/// A lane that takes longer than this to be reached carries less than its share of a transfer of some seconds.
const REACHED: Duration = Duration::from_secs(1);
/// Lanes that were down for less than this part of the time change the overhead by no more.
const NEGLIGIBLE: u32 = 100;

impl Bound {
    /// With the overhead of the management, unless it is that of lanes that were down.
    fn new(
        bound_bits_per_second: f64,
        overhead: f64,
        lanes: &[LaneView],
        elapsed: Duration,
    ) -> Self {
        let is_down = |lane: &&LaneView| {
            lane.state != LaneState::Alive || lane.counters.deaths > 0 || lane.silent > REACHED
        };
        let is_long =
            |lane: &&LaneView| lane.state != LaneState::Alive || lane.silent > elapsed / NEGLIGIBLE;
        let down: Vec<&LaneView> = lanes.iter().filter(is_down).collect();
        let silent = |lane: &LaneView| Value::Ns(lane.silent.as_nanos() as f64);
        let names = down.iter().map(|lane| format!("{} for {}", lane.name, silent(lane)));
        let names = names.collect::<Vec<_>>().join(", ");
        let is_of_lanes = down.iter().any(is_long);
        Self {
            framing_bound_bits_per_second: BitRate(bound_bits_per_second),
            no_overhead: is_of_lanes.then(|| {
                format!(
                    "not given, because lanes were down for some of the time: \
                     {names}"
                )
            }),
            management_overhead: (!is_of_lanes).then_some(Share(overhead)),
            lanes_down: (!is_of_lanes && !down.is_empty()).then_some(names),
        }
    }
}

/// Bytes that datagrams carried, without their headers.
fn in_packets(socket: &SocketCounters) -> u64 {
    socket.sent_bytes.saturating_sub(socket.sent * OVERHEAD_BYTES as u64)
}

fn lane(lane: &LaneView, elapsed: Duration) -> Lane {
    let value = LaneOutcome {
        state: state(lane.state),
        packets: lane.counters.packets,
        line_bytes: ByteCount(lane.counters.line_bytes),
        line_bits_per_second: BitRate(bits_per_second(lane.counters.line_bytes, elapsed)),
        lost: lane.counters.lost,
        late: lane.counters.late,
        deaths: lane.counters.deaths,
        silent_ns: nanoseconds(lane.silent),
        rtt_ns: lane.rtt_ns.map(|rtt_ns| Nanoseconds(rtt_ns as f64)),
    };
    Lane { label: lane.name.clone(), value }
}

impl std::fmt::Display for LaneOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { state, lost, late, .. } = self;
        let rate = Value::BitRate(self.line_bits_per_second.0);
        write!(f, "{state}, {rate}, {} packets, {lost} lost", Value::Count(self.packets))?;
        if *late > 0 {
            write!(f, " ({late} only late)")?;
        }
        self.rtt_ns.map_or(Ok(()), |rtt| write!(f, ", RTT {}", Value::Ns(rtt.0)))
    }
}

/// Remarks about lanes that carried nothing, stopped answering, or shared a link.
fn lane_notes(notes: &[String]) -> Vec<Item<String>> {
    let split = |note: &String| {
        let (label, value) = note.split_once(": ").unwrap_or(("lane", note));
        Item { label: label.to_owned(), value: value.to_owned() }
    };
    notes.iter().map(split).collect()
}

pub(super) const fn state(state: LaneState) -> &'static str {
    match state {
        LaneState::Validating => "not reached",
        LaneState::Alive => "alive",
        LaneState::Suspect => "silent",
        LaneState::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_transfer::lane::LaneCounters;

    fn view(state: LaneState, deaths: u64, silent_ms: u64) -> LaneView {
        LaneView {
            name: format!("lane {deaths}"),
            spec: "127.0.0.1".parse().unwrap(),
            is_spare: false,
            state,
            rtt_ns: (state != LaneState::Validating).then_some(1_000_000),
            least_rtt_ns: None,
            silent: Duration::from_millis(silent_ms),
            counters: LaneCounters { deaths, ..LaneCounters::default() },
            socket: SocketCounters::default(),
        }
    }

    /// A name could begin a line of its own, or reach the terminal.
    #[test]
    fn a_path_is_one_line_without_control_characters() {
        assert_eq!(shown(Path::new("it's a\u{1b}[31m\nb\r/ü")), "it's a\\u{1b}[31m\\nb\\r/ü");
    }

    /// A lane that was cut off for most of a transfer was called overhead of the management.
    #[test]
    fn the_overhead_is_not_that_of_lanes_that_were_down() {
        let of = |lanes: &[LaneView]| Bound::new(1e9, 0.25, lanes, Duration::from_secs(20));
        let alive = || view(LaneState::Alive, 0, 40);
        let found = of(&[alive(), alive()]);
        assert_eq!((found.management_overhead, &found.lanes_down), (Some(Share(0.25)), &None));
        for (down, named) in [
            (view(LaneState::Alive, 1, 12_340), "lane 1 for 12.34 s"),
            (view(LaneState::Suspect, 2, 100), "lane 2 for 100 ms"),
            (view(LaneState::Validating, 0, 5_000), "lane 0 for 5.00 s"),
        ] {
            let found = of(&[alive(), down]);
            assert!(found.management_overhead.is_none(), "{found:?}");
            assert!(found.no_overhead.unwrap().ends_with(named), "{named}");
        }
        // A moment is not a reason to give nothing.
        let found = of(&[view(LaneState::Alive, 1, 16), alive()]);
        assert_eq!(found.management_overhead, Some(Share(0.25)));
        assert_eq!(found.lanes_down.as_deref(), Some("lane 1 for 16.00 ms"));
    }

    #[test]
    fn repair_and_retransmission_are_compared() {
        let mut lane = view(LaneState::Alive, 0, 0);
        (lane.rtt_ns, lane.counters.packets) = (Some(52_000_000), 40_000);
        let of = |resent, repair, repaired| {
            let counters = SendCounters { resent, repair, repaired, ..SendCounters::default() };
            losses(counters, std::slice::from_ref(&lane))
        };
        assert_eq!(of(0, 0, 0), None);
        let again =
            "all 45 were sent again, at least 52.00 ms later (a round trip); no repair was sent";
        assert_eq!(of(45, 0, 0).as_deref(), Some(again));
        let both = "repair replaced 310 of 355, for 3.0 % of all packets; 45 were sent again, at least 52.00 ms \
                    later (a round trip)";
        assert_eq!(of(45, 1_200, 310).as_deref(), Some(both));
        // Of two lanes, the shorter round trip is what it takes at least.
        let lanes = [lane.clone(), LaneView { rtt_ns: Some(60_000_000), ..lane }];
        let resent = SendCounters { resent: 45, ..SendCounters::default() };
        assert_eq!(losses(resent, &lanes).as_deref(), Some(again));
    }

    /// The first guess of 100 ms was shown for a lane without any answer.
    #[test]
    fn a_round_trip_that_was_not_measured_is_not_shown() {
        let never = lane(&view(LaneState::Validating, 0, 5_000), Duration::from_secs(5)).value;
        let json = serde_json::to_value(&never).unwrap();
        assert_eq!(json["state"], "not reached");
        assert!(json.get("rtt_ns").is_none(), "{json}");
        assert!(!never.to_string().contains("RTT"), "{never}");
        let alive = lane(&view(LaneState::Alive, 0, 40), Duration::from_secs(5)).value;
        assert!(alive.to_string().contains("RTT 1.00 ms"), "{alive}");
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let all: Vec<u64> = (1..=100).rev().collect();
        let of = |values: &[u64]| {
            Latency::of(values).map(|all| [all.p50_ns.0, all.p99_ns.0, all.max_ns.0])
        };
        assert_eq!(of(&all), Some([50.0, 99.0, 100.0]));
        assert_eq!(of(&[7]), Some([7.0; 3]));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_report_has_the_values_that_there_are() {
        let elapsed = Duration::from_secs(1);
        let progress =
            SendProgress { done_bytes: 2_000, had_bytes: 500, elapsed, ..SendProgress::default() };
        let outcome = SendOutcome::part(&progress, &Error::cancelled());
        let report = serde_json::to_value(linecard_report::report_of("send", &outcome)).unwrap();
        let expected = serde_json::json!({
            "job": "send",
            "transfer": {
                "complete": false, "error": "stopped", "bytes": 2_000, "had_bytes": 500, "seconds": 1.0,
                "goodput_bits_per_second": 12_000.0, "resent": 0,
            },
            "notes": [],
        });
        assert_eq!(report, expected);
    }
}
