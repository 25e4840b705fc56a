//! Measured lanes, the time that the data would take over them, and options that fit.

use super::dry::DryRun;
use super::limits::limited_by;
use linecard_report::{BitRate, ByteCount, Item, Nanoseconds, Seconds, Share, Value};
use linecard_transfer::control::{LaneKind, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};
use linecard_transfer::fec::Repair;
use linecard_transfer::lane::{LaneCounters, LaneState};
use linecard_transfer::send::SendCounters;
use linecard_transfer_net::file::ChunkBytes;
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::send::{LaneView, SendProgress, Sent};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How long test data is sent.
pub(super) const TIME: Duration = Duration::from_secs(5);
/// Bytes of a chunk of it: the last ones should not take long on slow lanes.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;
/// The part at the beginning that does not count: lanes find their rates.
const BEGINNING: f64 = 0.4;
/// Chunks for each lane, at least: with fewer, some lanes end before others.
const CHUNKS_PER_LANE: u64 = 8;
/// Chunks in flight, in the time of a round trip.
const CHUNKS_IN_FLIGHT: u64 = 128;
/// Losses below this are those of a good path.
const FEW: f64 = 1e-4;
/// Round trips in which a lane is sure to have found its rate: its data doubles in each.
const START_ROUND_TRIPS: f64 = 12.0;
/// Round trips that a transfer takes besides: to connect, to compare, and to confirm.
const ROUND_TRIPS: f64 = 5.0;

/// The expected transfer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Probe {
    /// to send
    pub bytes: Option<ByteCount>,
    /// takes about
    pub seconds: Option<Seconds>,
    /// at (goodput of all lanes)
    pub goodput_bits_per_second: BitRate,
    /// measured in
    pub measured_seconds: Seconds,
    /// limited by
    pub limited_by: Option<String>,
}

/// A lane under load.
pub type ProbedLane = Item<LaneProbe>;

/// Rate, losses and round-trip time of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LaneProbe {
    /// Carried, with all framing, as `rate=` counts.
    pub rate_bits_per_second: BitRate,
    /// Share of packets that were lost.
    pub loss: Share,
    /// The shortest round trip, with the least queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Nanoseconds>,
    /// The round trip under this load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_rtt_ns: Option<Nanoseconds>,
}

/// Counters at some times during the test.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

/// Counters at a time.
#[derive(Debug)]
struct Sample {
    at: Duration,
    lanes: Vec<LaneCounters>,
    all: SendCounters,
}

impl Samples {
    /// Takes what is known at a time.
    pub(super) fn add(&mut self, progress: &SendProgress) {
        let lanes = progress.lanes.iter().map(|lane| lane.counters).collect();
        self.0.push(Sample { at: progress.elapsed, lanes, all: progress.counters });
    }

    /// The part in which lanes had found their rates: its length, and the counters at both ends.
    fn steady(&self) -> Option<(Duration, [&Sample; 2])> {
        let last = self.0.last()?.packets();
        // When the last packet was sent: the end is waited for afterwards.
        let end = self.0.iter().find(|sample| sample.packets() == last)?;
        let begun = self.0.iter().find(|sample| sample.packets() > 0)?.at;
        let from = begun + end.at.saturating_sub(begun).mul_f64(BEGINNING);
        let is_begin =
            |sample: &&Sample| sample.at >= from && sample.lanes.len() == end.lanes.len();
        let begin = self.0.iter().find(is_begin)?;
        let time = end.at.checked_sub(begin.at).filter(|time| !time.is_zero())?;
        Some((time, [begin, end]))
    }
}

impl Sample {
    fn packets(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.packets).sum()
    }

    /// Packets that carried what another one carries as well: repair, and copies.
    fn redundant(&self) -> u64 {
        self.all.repair + self.all.duplicates
    }
}

/// All findings.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) probe: Probe,
    pub(super) lanes: Vec<ProbedLane>,
    pub(super) advice: Vec<Item<String>>,
}

/// Parameters that advice is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct GivenOptions {
    pub(super) chunk_bytes: u64,
    pub(super) fec: Repair,
    /// The data has a length that is known.
    pub(super) has_length: bool,
}

impl Findings {
    pub(super) fn of(plan: &DryRun, asked: GivenOptions, sent: &Sent, samples: &Samples) -> Self {
        let payload = f64::from(sent.payload_bytes);
        let mut goodput = 0.0;
        let (mut lanes, mut specs) = (Vec::new(), Vec::new());
        let steady = samples.steady();
        for (at, view) in sent.lanes.iter().enumerate() {
            let Some((time, [begin, end])) = steady else { break };
            let (Some(begin), Some(end)) = (begin.lanes.get(at), end.lanes.get(at)) else {
                continue;
            };
            let (packets, carried) = lane_packets(begin, end);
            let bytes = (end.line_bytes - begin.line_bytes) as f64;
            let line = bytes * carried / packets.max(1.0) * 8.0 / time.as_secs_f64();
            goodput += carried * payload * 8.0 / time.as_secs_f64();
            let value = LaneProbe {
                rate_bits_per_second: BitRate(line),
                loss: Share(1.0 - carried / packets.max(1.0)),
                rtt_ns: view.least_rtt_ns.map(|ns| Nanoseconds(ns as f64)),
                loaded_rtt_ns: view.rtt_ns.map(|ns| Nanoseconds(ns as f64)),
            };
            if view.state == LaneState::Alive && view.spec.kind == LaneKind::Udp {
                specs.push((view.spec.clone(), line));
            }
            lanes.push(Item { label: view.name.clone(), value });
        }
        // No option leads to the interfaces that the receiver has offered.
        if sent.lanes.iter().any(|view| view.is_spare) {
            specs.clear();
        }
        goodput *= steady.map_or(1.0, |(_, both)| share_of_data(both));
        let rtt_seconds = longest_rtt_seconds(&sent.lanes);
        let bytes = asked.has_length.then_some(plan.bytes.0);
        let seconds = bytes
            .filter(|_| goodput > 0.0)
            .map(|bytes| Seconds(bytes as f64 * 8.0 / goodput + ROUND_TRIPS * rtt_seconds));
        let probe = Probe {
            bytes: bytes.map(ByteCount),
            seconds,
            goodput_bits_per_second: BitRate(goodput),
            measured_seconds: Seconds(steady.map_or(0.0, |(time, _)| time.as_secs_f64())),
            limited_by: limited_by(sent),
        };
        let advice = match steady {
            Some(_) => advice(&probe, asked, (&lanes, &specs), rtt_seconds),
            None => Vec::new(),
        };
        Self { probe, lanes, advice }
    }
}

/// Packets that a lane sent in the meantime, and how many of them arrived.
fn lane_packets(begin: &LaneCounters, end: &LaneCounters) -> (f64, f64) {
    let lost = |lane: &LaneCounters| lane.lost.saturating_sub(lane.late) as f64;
    let packets = end.packets.saturating_sub(begin.packets) as f64;
    (packets, (packets - (lost(end) - lost(begin)).max(0.0)).max(0.0))
}

/// Of the packets of the meantime, those that carried data which no other one carries.
fn share_of_data([begin, end]: [&Sample; 2]) -> f64 {
    let packets = end.packets().saturating_sub(begin.packets()).max(1) as f64;
    let redundant = end.redundant().saturating_sub(begin.redundant()) as f64;
    (1.0 - redundant / packets).max(0.0)
}

fn longest_rtt_seconds(lanes: &[LaneView]) -> f64 {
    let rtt_ns = lanes.iter().filter_map(|lane| lane.rtt_ns).max();
    rtt_ns.unwrap_or(0) as f64 / 1e9
}

fn advice(
    probe: &Probe,
    asked: GivenOptions,
    (lanes, specs): (&[ProbedLane], &[(Spec, f64)]),
    rtt_seconds: f64,
) -> Vec<Item<String>> {
    let mut advice = Vec::new();
    let mut add = |label: &str, value: String| {
        advice.push(Item { label: label.to_owned(), value });
    };
    let is_short = probe.measured_seconds.0 < START_ROUND_TRIPS * rtt_seconds;
    let is_without = |(spec, _): &(Spec, f64)| spec.rate_bits_per_second.is_none();
    let are_without = !specs.is_empty() && specs.iter().all(is_without);
    if are_without && is_short {
        add(
            "rate",
            format!(
                "none is needed: lanes find it. With a round trip of {} that takes longer than this probe, and a transfer \
                 becomes faster than it says",
                Value::Ns(rtt_seconds * 1e9)
            ),
        );
    } else if are_without {
        let with_rate = |(spec, line): &(Spec, f64)| {
            format!("--lane {spec},rate={}K", ((line / 1e3) as u64).max(1))
        };
        let arguments: Vec<String> = specs.iter().map(with_rate).collect();
        add(
            "rate",
            format!(
                "none is needed: lanes find it. If nobody else uses the links, {} sends at these from the first packet",
                arguments.join(" ")
            ),
        );
    }
    let most_loss = lanes.iter().map(|lane| lane.value.loss.0).fold(0.0, f64::max);
    add("fec", of_repair(asked.fec, most_loss));
    let slowest = specs.iter().map(|(_, line)| *line).filter(|line| *line > 0.0);
    let slowest = slowest.filter(|_| !is_short).fold(f64::INFINITY, f64::min);
    let best = best_chunk(probe, (lanes.len() as u64, slowest), rtt_seconds);
    if probe.bytes.is_some_and(|bytes| bytes.0 == 0) {
        add("data", "all of it is there: nothing would be sent".to_owned());
    } else if best == asked.chunk_bytes {
        add("chunk", format!("{} fits", ByteCountText(best)));
    } else {
        let why = if best < asked.chunk_bytes && best as f64 * 8.0 > slowest / 2.0 {
            "the slowest lane has one in a second, and an interruption repeats less"
        } else if best < asked.chunk_bytes {
            "all lanes have some of it until the end"
        } else {
            "enough of them are in flight for this round-trip time"
        };
        add("chunk", format!("--chunk {}: {why}", ByteCountText(best)));
    }
    advice
}

fn of_repair(fec: Repair, loss: f64) -> String {
    let share = Value::Share(loss);
    match fec {
        Repair::Auto if loss < FEW => "auto, the default, fits: it sends no repair here".to_owned(),
        Repair::Auto => format!(
            "auto, the default, fits: with {share} lost, it sends repair in --mode low-latency and for the last chunk"
        ),
        Repair::Fixed(_) if fec == Repair::default() && loss >= FEW => {
            format!("--fec auto: with {share} lost, the last chunk is there earlier")
        }
        Repair::Fixed(scheme) if scheme.overhead() > 0.0 && loss < FEW => format!(
            "--fec auto: nearly nothing is lost, and {scheme} costs {:.0} % of the rate",
            100.0 * scheme.overhead() / (1.0 + scheme.overhead())
        ),
        Repair::Fixed(_) => "as given".to_owned(),
    }
}

/// The power of two of which enough are in flight, each lane has some, and the slowest one, with its rate in bit/s, has one
/// in a second.
fn best_chunk(probe: &Probe, (lanes, slowest): (u64, f64), rtt_seconds: f64) -> u64 {
    let in_flight = probe.goodput_bits_per_second.0 / 8.0 * rtt_seconds;
    let least = (in_flight as u64 / CHUNKS_IN_FLIGHT).max(1).next_power_of_two();
    let bytes = probe.bytes.map_or(u64::MAX, |bytes| bytes.0);
    // One lane has some of it until the end in any case.
    let most = if lanes > 1 { bytes / (CHUNKS_PER_LANE * lanes) } else { u64::MAX / 2 };
    // The default, unless there is a reason for another.
    let most = most.min((slowest / 8.0) as u64).max(1);
    let most = if most.is_power_of_two() { most } else { (most / 2).max(1).next_power_of_two() };
    ChunkBytes::default()
        .bytes()
        .min(most)
        .max(least)
        .clamp(MIN_CHUNK_BYTES.into(), MAX_CHUNK_BYTES.into())
}

/// Bytes as options have them.
struct ByteCountText(u64);

impl fmt::Display for ByteCountText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(f, "{}M", bytes >> 20),
            bytes => write!(f, "{}K", bytes >> 10),
        }
    }
}

impl fmt::Display for LaneProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} lost",
            Value::BitRate(self.rate_bits_per_second.0),
            Value::Share(self.loss.0)
        )?;
        let [least, loaded] = [self.rtt_ns, self.loaded_rtt_ns];
        least.map_or(Ok(()), |ns| write!(f, ", RTT {}", Value::Ns(ns.0)))?;
        loaded.map_or(Ok(()), |ns| write!(f, ", {} under load", Value::Ns(ns.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(packets: u64, lost: u64) -> LaneCounters {
        LaneCounters { packets, lost, line_bytes: packets * 1_500, ..LaneCounters::default() }
    }

    fn sample(ms: u64, packets: u64, lost: u64) -> Sample {
        let all = SendCounters {
            repair: packets / 8,
            duplicates: packets / 8,
            ..SendCounters::default()
        };
        Sample { at: Duration::from_millis(ms), lanes: vec![counters(packets, lost)], all }
    }

    /// The beginning, in which lanes look for their rates, and the end, in which nothing is sent, do not count.
    #[test]
    fn the_steady_part_counts() {
        let samples = Samples(vec![
            sample(0, 0, 0),
            sample(500, 8, 5),
            sample(1_000, 1_000, 40),
            sample(2_500, 2_504, 60),
            sample(5_500, 5_504, 90),
            sample(5_900, 5_504, 91),
        ]);
        let (time, both) = samples.steady().expect("a part");
        assert_eq!(time, Duration::from_millis(3_000));
        let (packets, carried) = lane_packets(&both[0].lanes[0], &both[1].lanes[0]);
        assert_eq!((packets, carried), (3_000.0, 2_970.0));
        // An eighth is repair, and an eighth copies.
        assert_eq!(share_of_data(both), 0.75);
        assert!(Samples(vec![sample(0, 0, 0)]).steady().is_none());
        assert!(Samples::default().steady().is_none());
    }

    #[test]
    fn chunks_fit_the_data_and_the_round_trip() {
        let probe = |bytes: u64, gigabit: f64| Probe {
            bytes: Some(ByteCount(bytes)),
            seconds: None,
            goodput_bits_per_second: BitRate(gigabit * 1e9),
            measured_seconds: Seconds(3.0),
            limited_by: None,
        };
        let text = |probe: &Probe, lanes, rtt_seconds| {
            let slowest = probe.goodput_bits_per_second.0 / lanes as f64;
            ByteCountText(best_chunk(probe, (lanes, slowest), rtt_seconds)).to_string()
        };
        assert_eq!(text(&probe(100 << 30, 1.0), 4, 0.01), "2M");
        // 32 MiB over four lanes: each has eight chunks.
        assert_eq!(text(&probe(32 << 20, 1.0), 4, 0.01), "1M");
        // 1 GB is in flight.
        assert_eq!(text(&probe(100 << 30, 80.0), 8, 0.1), "8M");
        // Each of two lanes has 750,000 bytes in a second.
        assert_eq!(text(&probe(100 << 30, 0.012), 2, 0.05), "512K");
        assert_eq!(text(&probe(10, 1.0), 2, 0.001), "64K");
        assert_eq!(text(&probe(10, 1.0), 1, 0.001), "2M");
    }

    /// A satellite's lane of 20 Mbit/s would have been held at the 1.7 that it had after three seconds.
    #[test]
    fn no_rate_is_advised_that_a_lane_has_not_found_yet() {
        let probe = Probe {
            bytes: Some(ByteCount(60_000_000)),
            seconds: None,
            goodput_bits_per_second: BitRate(56e6),
            measured_seconds: Seconds(3.0),
            limited_by: None,
        };
        let specs = [("10.0.1.1".parse().expect("a lane"), 1.7e6)];
        let asked = GivenOptions {
            fec: Repair::Auto,
            chunk_bytes: ChunkBytes::default().bytes(),
            has_length: true,
        };
        let text = |rtt_seconds| {
            let items = advice(&probe, asked, (&[], &specs), rtt_seconds);
            items.into_iter().map(|item| item.value).collect::<Vec<_>>().join("\n")
        };
        assert!(text(0.2).contains("rate=1700K") && text(0.2).contains("slowest lane"));
        let long = text(0.6);
        assert!(long.contains("a round trip of 600 ms") && !long.contains("rate="), "{long}");
        assert!(!long.contains("slowest lane"), "{long}");
    }

    #[test]
    fn repair_is_advised_by_what_is_lost() {
        let fixed = |text: &str| text.parse::<Repair>().expect("a scheme");
        assert!(of_repair(Repair::Auto, 0.0).contains("sends no repair here"));
        assert!(
            of_repair(Repair::Auto, 0.01).contains("1.0 % lost"),
            "{}",
            of_repair(Repair::Auto, 0.01)
        );
        assert!(of_repair(fixed("none"), 0.01).starts_with("--fec auto"));
        assert!(
            of_repair(fixed("rs:28,4"), 0.0).contains("12 % of the rate"),
            "{}",
            of_repair(fixed("rs:28,4"), 0.0)
        );
        assert_eq!(of_repair(fixed("rs:28,4"), 0.01), "as given");
    }
}
