//! The figures of a stream, and their texts.

use super::Config;
use super::capture::{Candidate, Captured};
use super::media::{Levels, Media, ancillary};
use super::notes::notes;
use crate::jitter::distribution::Distributions;
use crate::jitter::with_interval;
use linecard_io::capture::CaptureError;
use linecard_jitter::media::cbr::Histogram;
use linecard_jitter::media::figures::{Audio, Figures};
use linecard_jitter::media::flow::Kind;
use linecard_jitter::media::rate::{Basis, Skew};
use linecard_jitter::media::st2110::{self, Stream, vrx};
use linecard_jitter::stats::CONFIDENCE;
use linecard_jitter::stats::quantile::{self, Quantile};
use linecard_jitter::stats::rate::Rate;
use linecard_jitter::stats::sorted::Sorted;
use linecard_report::{Item, Nanoseconds, Value};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// Flows shown in the list.
const LISTED: usize = 20;
/// Steps of a histogram.
const STEPS: usize = 100;

/// The figures of a stream.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AnalyzeOutcome {
    /// Flows (choose with --flow)
    pub flows: Vec<ListedFlow>,
    /// Stream
    pub stream: StreamFigures,
    /// Timing
    pub timing: Timing,
    /// From packet to packet
    pub gaps: Samples,
    /// Lateness
    pub lateness: Option<Samples>,
    /// Buffers
    pub buffers: Option<Buffers>,
    /// Format, by the packets
    pub media: Option<Media>,
    /// Ancillary data (ANC data packets)
    pub ancillary: Vec<ListedFlow>,
    /// Sound (ST 2110-30; TS-DF of EBU Tech 3337)
    pub audio: Option<Sound>,
    /// Second capture (first capture)
    pub second: Option<SideBySide>,
    /// Joined packet by packet
    pub join: Option<Join>,
    /// Added between them, beyond the least delay
    pub added: Option<Samples>,
    #[serde(skip)]
    pub(super) distributions: Distributions,
    /// Packets that have a lateness.
    #[serde(skip)]
    pub(super) judged: u64,
    #[serde(skip)]
    notes: Vec<String>,
    #[serde(skip)]
    pub(super) damage: Option<(String, Arc<CaptureError>)>,
}

/// A flow of the capture.
pub type ListedFlow = Item<String>;

/// The stream: its kind, and its missing packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StreamFigures {
    /// flow
    pub flow: String,
    /// carries
    pub kind: String,
    /// RTP
    pub rtp: Option<Rtp>,
    /// packets
    pub packets: u64,
    /// lost
    pub lost: Option<u64>,
    /// reordered
    pub reordered: Option<u64>,
    /// duplicates
    pub duplicates: Option<u64>,
    /// others on its ports
    pub others: Option<u64>,
    /// seconds
    pub span_seconds: f64,
    /// clock steps
    pub resolution_ns: Nanoseconds,
}

/// The source of an RTP stream, and its payload type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rtp {
    /// The source.
    pub ssrc: u32,
    /// Type of the payload, by configuration.
    pub payload_type: u8,
}

/// The schedule that the stream follows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Timing {
    /// schedule
    pub schedule: Schedule,
    /// format
    pub format: Option<String>,
    /// frames per second
    pub frame_rate: Option<f64>,
    /// packets of a frame
    pub packets_per_frame: Option<u64>,
    /// whole frames or fields
    pub units: Option<u64>,
    /// period, nominal
    pub nominal_ns: Option<Period>,
    /// period, seen
    pub period_ns: Option<Period>,
    /// jitter, mean
    pub jitter_mean_ns: Option<Nanoseconds>,
    /// jitter, greatest
    pub jitter_max_ns: Option<Nanoseconds>,
    /// sender's clock
    pub skew: Option<Drift>,
    /// gaps over 2 periods
    pub spikes: Option<SpikeRate>,
}

/// Reference schedule of lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Schedule {
    /// "constant-rate", "st2110-21", "due-times", "rtp-time" or "none".
    pub name: &'static str,
    #[serde(skip)]
    basis: Option<Basis>,
}

/// A time from packet to packet, to the picosecond: periods differ by less than a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Period {
    /// In nanoseconds.
    pub ns: f64,
}

/// How far the sender's clock is from the capture's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Drift {
    /// Millionths that the sender's clock is slower.
    pub ppm: f64,
}

/// How often gaps are longer than two periods, with the interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SpikeRate {
    /// How many there were.
    pub count: u64,
    /// The rate.
    pub per_second: f64,
    /// The lower bound of the rate.
    pub lower_per_second: f64,
    /// Its upper bound.
    pub upper_per_second: f64,
}

/// The distribution of times; without values where there are no samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Samples {
    /// mean
    pub mean: Option<Mean>,
    /// range
    pub range: Option<Range>,
    /// median
    pub p50: Option<Bounded>,
    /// p99
    pub p99: Option<Bounded>,
    /// p99.9
    pub p99_9: Option<Bounded>,
    /// p99.99
    pub p99_99: Option<Bounded>,
    /// most often
    pub histogram: Option<Steps>,
}

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Mean {
    /// The mean.
    pub ns: f64,
    /// The deviation.
    pub deviation_ns: f64,
}

/// The least and the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Range {
    /// The least.
    pub min_ns: i64,
    /// The most.
    pub max_ns: i64,
}

/// A quantile with its interval of 95 %, or how many samples that would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bounded {
    /// The quantile.
    pub ns: i64,
    /// The lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_ns: Option<i64>,
    /// The upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_ns: Option<i64>,
    /// Samples, where they are too few for an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Samples that an interval takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_needed: Option<u64>,
}

/// Samples in steps of one width.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Steps {
    /// The lower edge of the first step.
    pub from_ns: i64,
    /// The width of each.
    pub step_ns: i64,
    /// Samples in each step, with spaces between them.
    pub counts: String,
    /// Samples above the last.
    pub above: u64,
    #[serde(skip)]
    text: String,
}

/// Buffers that the stream needs in the network and at a receiver.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Buffers {
    /// network: Cinst, most
    pub c_inst_max: u64,
    /// Cinst before each packet
    pub c_inst_before: Option<Levels>,
    /// receiver: least VRX
    pub vrx_least: Option<Occupancy>,
    /// VRX, default offset
    pub vrx_default: Option<Occupancy>,
    /// VRX as packets arrive
    pub vrx_arrivals: Option<Levels>,
    /// first packet after epoch
    pub first_packet_ns: Option<Nanoseconds>,
    /// narrow sender
    pub narrow: Option<Limits>,
    /// wide sender
    pub wide: Option<Limits>,
    #[serde(skip)]
    is_picture: bool,
}

/// The least and the most packets in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Occupancy {
    /// The least.
    pub min: i64,
    /// The most.
    pub max: i64,
}

/// The limits of ST 2110-21 for a kind of sender, and whether the stream is within them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Limits {
    /// Of the network's buffer, in packets.
    pub c_max: u64,
    /// Whether the stream keeps it.
    pub within_c_max: bool,
    /// Of the receiver's buffer, in packets.
    pub vrx_full: u64,
    /// Whether the stream keeps it.
    pub within_vrx_full: bool,
}

/// Figures of sound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Sound {
    /// samples of a packet
    pub samples: u64,
    /// samples per second
    pub clock_hz: u64,
    /// TS-DF, most of a second
    pub ts_df_ns: Option<Nanoseconds>,
    /// in packet times
    pub ts_df_packets: Option<f64>,
    /// windows of a second
    pub windows: Option<u64>,
}

/// The same figures of both captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideBySide {
    /// packets
    pub packets: Option<CountPair>,
    /// lost
    pub lost: Option<CountPair>,
    /// gaps over 2 periods
    pub spikes: Option<CountPair>,
    /// gap, p99
    pub gap_p99: Option<TimePair>,
    /// gap, most
    pub gap_max: Option<TimePair>,
    /// late, p99
    pub late_p99: Option<TimePair>,
    /// late, most
    pub late_max: Option<TimePair>,
    /// Cinst, most
    pub c_inst_max: Option<CountPair>,
    /// least VRX
    pub vrx_least: Option<CountPair>,
}

/// A number in both captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountPair {
    /// In the second.
    pub second: u64,
    /// In the first.
    pub first: u64,
}

/// A time in both captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimePair {
    /// In the second.
    pub second_ns: i64,
    /// In the first.
    pub first_ns: i64,
}

/// Packets that are in both captures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Join {
    /// in both
    pub both: u64,
    /// in the first only
    pub first_only: u64,
    /// in the second only
    pub second_only: u64,
    /// least delay
    pub least_ns: Nanoseconds,
}

impl linecard_report::Outcome for AnalyzeOutcome {
    fn title(&self, section: &str) -> Option<String> {
        let title = match section {
            "lateness" => match self.timing.schedule.basis {
                Some(Basis::Rtp(_)) => "Lateness against RTP time, first packet of each time stamp",
                Some(Basis::Due) => "Lateness against the due times in the packets",
                Some(Basis::Picture) => "Lateness against the schedule of ST 2110-21",
                Some(Basis::Even) | None => "Lateness against the even schedule",
            },
            "buffers" if self.buffers.as_ref().is_some_and(|buffers| buffers.is_picture) => {
                "Buffers (ST 2110-21)"
            }
            "buffers" => "Buffers (2110-21 style: that standard is for ST 2110 only)",
            _ => return None,
        };
        Some(title.to_owned())
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        if section == "media" {
            return self.media.as_ref()?.label(key);
        }
        let is_whole = self.audio.is_some_and(|audio| audio.windows == Some(0));
        ((section, key) == ("audio", "ts_df_ns") && is_whole).then(|| "TS-DF, all".to_owned())
    }

    fn text(&self, section: &str, key: &str) -> Option<String> {
        match section {
            "stream" => self.stream.rtp.map(|Rtp { ssrc, payload_type }| {
                format!("source {ssrc:#010x}, payload type {payload_type}")
            }),
            "timing" => self.timing.text(key),
            "gaps" => self.gaps.text(key),
            "lateness" => self.lateness.as_ref()?.text(key),
            "added" => self.added.as_ref()?.text(key),
            "buffers" => self.buffers.as_ref()?.text(key),
            "media" => self.media.as_ref()?.text(key),
            "second" => self.second?.text(key),
            _ => None,
        }
    }

    fn notes(&self) -> Vec<String> {
        let least = "The least delay is valid only if both captures have the same clock; the \
             added delay is valid for any two clocks that run equally fast.";
        let least = self.join.map(|_| least.to_owned());
        least.into_iter().chain(self.notes.iter().cloned()).collect()
    }
}

impl AnalyzeOutcome {
    pub(super) fn new(
        config: &Config,
        capture: &Captured,
        found: &Candidate,
        figures: &Figures,
    ) -> Self {
        let buffers = figures.stream.zip(figures.c_inst);
        Self {
            flows: listed(&capture.flows),
            stream: StreamFigures::new(found, figures),
            timing: Timing::new(figures),
            gaps: Samples::of(&figures.gaps),
            lateness: figures.lateness.as_ref().map(Samples::of),
            buffers: buffers.map(|(stream, c_inst)| Buffers::new(config, figures, stream, c_inst)),
            media: Media::new(figures),
            ancillary: ancillary(&figures.facts),
            audio: figures.audio.map(Sound::new),
            second: None,
            join: None,
            added: None,
            distributions: Distributions::new("packets"),
            judged: figures.lateness.as_ref().map_or(0, |late| late.n()),
            notes: notes(figures, capture.is_full),
            damage: capture.damage.clone(),
        }
    }
}

fn listed(flows: &[Candidate]) -> Vec<ListedFlow> {
    if flows.len() < 2 {
        return Vec::new();
    }
    let one = |(index, found): (usize, &Candidate)| {
        let (from, to) = found.ends;
        let value = format!("{from} to {to}: {}, {} packets", found.kind.name(), found.flow.len());
        ListedFlow { label: (index + 1).to_string(), value }
    };
    let rest = flows.len().saturating_sub(LISTED);
    let value = format!("and {rest} more");
    let more = (rest > 0).then(|| ListedFlow { label: "…".to_owned(), value });
    flows.iter().take(LISTED).enumerate().map(one).chain(more).collect()
}

impl StreamFigures {
    fn new(found: &Candidate, figures: &Figures) -> Self {
        let ((from, to), order) = (found.ends, figures.order);
        let numbered = |count: u64| (figures.kind != Kind::Udp).then_some(count);
        let others = found.flow.others() as u64;
        Self {
            flow: format!("{from} to {to}"),
            kind: figures.kind.name().to_owned(),
            rtp: found.flow.rtp().map(|(ssrc, payload_type)| Rtp { ssrc, payload_type }),
            packets: order.received,
            lost: numbered(order.lost),
            reordered: numbered(order.reordered),
            duplicates: numbered(order.duplicates),
            others: Some(others).filter(|others| *others > 0),
            span_seconds: figures.span_ns as f64 / 1e9,
            resolution_ns: Nanoseconds(figures.resolution_ns as f64),
        }
    }
}

impl Timing {
    fn new(figures: &Figures) -> Self {
        let name = match figures.basis {
            Some(Basis::Even) => "constant-rate",
            Some(Basis::Picture) => "st2110-21",
            Some(Basis::Due) => "due-times",
            Some(Basis::Rtp(_)) => "rtp-time",
            None => "none",
        };
        let rate = |stream: Stream| f64::from(stream.rate.frames) / f64::from(stream.rate.seconds);
        let seconds = figures.span_ns as f64 / 1e9;
        let spikes = figures.spikes.and_then(|spikes| Rate::of(spikes, seconds, CONFIDENCE));
        Self {
            schedule: Schedule { name, basis: figures.basis },
            format: figures.format.map(|format| format.name.to_owned()),
            frame_rate: figures.stream.map(rate),
            packets_per_frame: figures.stream.map(|stream| stream.packets_per_frame.into()),
            units: figures.stream.map(|_| figures.units),
            nominal_ns: figures.nominal_ns.map(|ns| Period { ns }),
            period_ns: figures.period_ns.map(|ns| Period { ns }),
            jitter_mean_ns: figures.jitter.map(|jitter| Nanoseconds(jitter.mean_ns)),
            jitter_max_ns: figures.jitter.map(|jitter| Nanoseconds(jitter.max_ns)),
            skew: match figures.skew {
                Some(Skew::Drift(ppm)) => Some(Drift { ppm }),
                _ => None,
            },
            spikes: spikes.map(|rate| SpikeRate {
                count: rate.count,
                per_second: rate.per_second,
                lower_per_second: rate.bounds.lower,
                upper_per_second: rate.bounds.upper,
            }),
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        match key {
            "schedule" => Some(self.schedule.text()),
            "nominal_ns" => self.nominal_ns.map(Period::text),
            "period_ns" => self.period_ns.map(Period::text),
            "skew" => self.skew.map(Drift::text),
            "spikes" => self.spikes.map(|rate| {
                let SpikeRate { count, per_second, lower_per_second, upper_per_second } = rate;
                format!(
                    "{count}: {per_second:.2}/s (95 %: {lower_per_second:.2} to {upper_per_second:.2})"
                )
            }),
            _ => None,
        }
    }
}

impl Schedule {
    fn text(self) -> String {
        match self.basis {
            Some(Basis::Even) => "constant rate".to_owned(),
            Some(Basis::Picture) => "ST 2110-21, gapped".to_owned(),
            Some(Basis::Due) => "due times in the packets".to_owned(),
            Some(Basis::Rtp(clock)) => {
                format!("RTP time, {} Hz (not a constant rate)", Value::Count(clock.into()))
            }
            None => "none found (the reason is below): no lateness".to_owned(),
        }
    }
}

impl Period {
    fn text(self) -> String {
        format!("{:.3} ns", self.ns)
    }
}

impl Drift {
    fn text(self) -> String {
        let which = if self.ppm < 0.0 { "faster" } else { "slower" };
        format!("{:.2} ppm {which} than the capture's", self.ppm.abs())
    }
}

impl Samples {
    pub(super) fn of(samples: &Sorted) -> Self {
        let (Some(min_ns), Some(max_ns)) = (samples.min(), samples.max()) else {
            return Self::default();
        };
        let quantile = |q| Quantile::of(samples, q, CONFIDENCE).map(Bounded::new);
        Self {
            mean: Some(Mean { ns: samples.mean_ns(), deviation_ns: samples.deviation_ns() }),
            range: Some(Range { min_ns, max_ns }),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            histogram: Histogram::of(samples, STEPS).map(|histogram| Steps::new(&histogram)),
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        let quantile = match key {
            "mean" => {
                let Mean { ns, deviation_ns } = self.mean?;
                return Some(format!("{}, deviation {}", Value::Ns(ns), Value::Ns(deviation_ns)));
            }
            "range" => {
                let Range { min_ns, max_ns } = self.range?;
                return Some(Value::interval_ns(min_ns as f64, max_ns as f64));
            }
            "histogram" => return Some(self.histogram.as_ref()?.text.clone()),
            "p50" => self.p50,
            "p99" => self.p99,
            "p99_9" => self.p99_9,
            "p99_99" => self.p99_99,
            _ => None,
        };
        quantile.map(Bounded::text)
    }
}

impl Bounded {
    fn new(quantile: Quantile) -> Self {
        let none =
            Self { ns: quantile.value_ns, lower_ns: None, upper_ns: None, n: None, n_needed: None };
        match quantile.bounds {
            quantile::Bounds::Between { lower_ns, upper_ns } => {
                Self { lower_ns: Some(lower_ns), upper_ns: Some(upper_ns), ..none }
            }
            quantile::Bounds::TooFew { n, needed } => {
                Self { n: Some(n), n_needed: Some(needed), ..none }
            }
        }
    }

    fn text(self) -> String {
        let Self { ns, lower_ns, upper_ns, n, n_needed } = self;
        if let Some((lower_ns, upper_ns)) = lower_ns.zip(upper_ns) {
            return with_interval(ns, [lower_ns, upper_ns]);
        }
        let [n, needed] = [n, n_needed].map(|count| Value::Count(count.unwrap_or(0)));
        format!("{} (n too small: {n} of {needed})", time(ns))
    }
}

impl Steps {
    fn new(histogram: &Histogram) -> Self {
        let Histogram { from_ns, step_ns, counts, above } = histogram;
        let all: u64 = counts.iter().sum::<u64>() + above;
        let fullest = counts.iter().enumerate().max_by_key(|(_, count)| **count);
        let (at, count) = fullest.map_or((0, 0), |(at, count)| (at, *count));
        let from = from_ns + at as i64 * step_ns;
        let share = Value::Share(count as f64 / all.max(1) as f64);
        let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
        Self {
            from_ns: *from_ns,
            step_ns: *step_ns,
            counts: counts.join(" "),
            above: *above,
            text: format!("{}: {share}", Value::interval_ns(from as f64, (from + step_ns) as f64)),
        }
    }
}

impl Buffers {
    fn new(config: &Config, figures: &Figures, stream: Stream, c_inst: u64) -> Self {
        let occupancy = |vrx::Occupancy { min, max }| Occupancy { min, max };
        let vrx = figures.vrx;
        let limits = |sender: st2110::Sender| {
            if !config.limits().contains(&sender) {
                return None;
            }
            let limits = stream.limits(sender);
            let full = i64::try_from(limits.vrx_full).unwrap_or(i64::MAX);
            let need = vrx.map(|vrx| vrx.default.unwrap_or(vrx.least));
            Some(Limits {
                c_max: limits.c_max,
                within_c_max: c_inst <= limits.c_max,
                vrx_full: limits.vrx_full,
                within_vrx_full: need.is_none_or(|need| need.min >= 0 && need.max <= full),
            })
        };
        Self {
            c_inst_max: c_inst,
            c_inst_before: Levels::new(figures.c_inst_levels.iter().map(|(l, n)| (*l as i64, *n))),
            vrx_arrivals: Levels::new(figures.vrx_levels.iter().copied()),
            vrx_least: vrx.map(|vrx| occupancy(vrx.least)),
            vrx_default: vrx.and_then(|vrx| vrx.default).map(occupancy),
            first_packet_ns: vrx
                .and_then(|vrx| vrx.first_packet_ns)
                .map(|ns| Nanoseconds(ns as f64)),
            narrow: limits(st2110::Sender::Narrow),
            wide: limits(st2110::Sender::Wide),
            is_picture: matches!(figures.kind, Kind::Video | Kind::Jxs),
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        let range = |occupancy: Occupancy| format!("{} to {}", occupancy.min, occupancy.max);
        match key {
            "c_inst_before" => self.c_inst_before.as_ref().map(Levels::text),
            "vrx_arrivals" => self.vrx_arrivals.as_ref().map(Levels::text),
            "vrx_least" => self.vrx_least.map(range),
            "vrx_default" => self.vrx_default.map(range),
            "narrow" => self.narrow.map(Limits::text),
            "wide" => self.wide.map(Limits::text),
            _ => None,
        }
    }
}

impl Limits {
    fn text(self) -> String {
        let Self { c_max, within_c_max, vrx_full, within_vrx_full } = self;
        let within = |so: bool| if so { "within" } else { "over" };
        format!(
            "Cmax {c_max}: {}; VRX {vrx_full}: {}",
            within(within_c_max),
            within(within_vrx_full)
        )
    }
}

impl Sound {
    fn new(audio: Audio) -> Self {
        let (time, factor) = (audio.packet_time, audio.delay_factor_ns);
        Self {
            samples: time.samples.into(),
            clock_hz: time.clock.into(),
            ts_df_ns: factor.map(|ns| Nanoseconds(ns as f64)),
            ts_df_packets: factor.map(|ns| ns as f64 / time.ns()),
            windows: factor.map(|_| audio.windows),
        }
    }
}

impl SideBySide {
    fn text(self, key: &str) -> Option<String> {
        let count = match key {
            "packets" => self.packets,
            "lost" => self.lost,
            "spikes" => self.spikes,
            "c_inst_max" => self.c_inst_max,
            "vrx_least" => self.vrx_least,
            _ => None,
        };
        if let Some(CountPair { second, first }) = count {
            return Some(format!("{} ({})", Value::Count(second), Value::Count(first)));
        }
        let times = match key {
            "gap_p99" => self.gap_p99,
            "gap_max" => self.gap_max,
            "late_p99" => self.late_p99,
            "late_max" => self.late_max,
            _ => None,
        };
        let TimePair { second_ns, first_ns } = times?;
        Some(format!("{} ({})", time(second_ns), time(first_ns)))
    }
}

fn time(ns: i64) -> Value {
    Value::Ns(ns as f64)
}

#[cfg(test)]
mod tests {
    use super::Drift;

    #[test]
    fn a_clock_is_faster_or_slower_without_a_sign() {
        assert_eq!(Drift { ppm: -24.0 }.text(), "24.00 ppm faster than the capture's");
        assert_eq!(Drift { ppm: 1.5 }.text(), "1.50 ppm slower than the capture's");
    }
}
