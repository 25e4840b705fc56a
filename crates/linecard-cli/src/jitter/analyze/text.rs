//! The figures of a flow as a report.

use super::super::with_interval;
use super::read::Candidate;
use linecard_jitter::media::cbr::Histogram;
use linecard_jitter::media::figures::{Audio, Figures, Vrx};
use linecard_jitter::media::flow::Kind;
use linecard_jitter::media::rate::{Basis, MAX_DRIFT_PPM, Skew};
use linecard_jitter::media::st2110::vrx::Occupancy;
use linecard_jitter::media::st2110::{Sender, Stream};
use linecard_jitter::stats::CONFIDENCE;
use linecard_jitter::stats::quantile::{Bounds, Quantile};
use linecard_jitter::stats::rate::Rate;
use linecard_jitter::stats::summary::Sorted;
use linecard_report::{Report, Section, Value};

/// Quantiles shown.
const QUANTILES: [(f64, &str, &str); 4] = [
    (0.5, "p50", "median"),
    (0.99, "p99", "p99"),
    (0.999, "p99_9", "p99.9"),
    (0.9999, "p99_99", "p99.99"),
];
/// Steps of a histogram in JSON.
const STEPS: usize = 100;

/// The list of flows.
pub(super) fn flows(flows: &[Candidate], most: usize) -> Section {
    let mut section = Section::list("flows", "Flows (choose with --flow)");
    for (index, found) in flows.iter().take(most).enumerate() {
        let (from, to) = found.ends;
        let text = format!("{from} to {to}: {}, {} packets", found.kind.name(), found.flow.len());
        section.add("flow", (index + 1).to_string(), Value::Text(text));
    }
    if flows.len() > most {
        let text = format!("and {} more", flows.len() - most);
        section.add("flow", "…", Value::Text(text));
    }
    section
}

/// All of one flow.
pub(super) fn sections(
    report: &mut Report,
    found: &Candidate,
    figures: &Figures,
    senders: &[Sender],
) {
    report.push(stream(found, figures));
    report.push(timing(figures));
    report.push(quantiles("gaps", "From packet to packet", &figures.gaps));
    if let Some(lateness) = &figures.lateness {
        report.push(quantiles("lateness", lateness_title(figures.basis), lateness));
    }
    if let (Some(stream), Some(c_inst)) = (figures.stream, figures.c_inst) {
        report.push(buffers(figures, stream, c_inst, senders));
    }
    if let Some(audio) = figures.audio {
        report.push(sound(audio));
    }
}

fn lateness_title(basis: Option<Basis>) -> &'static str {
    match basis {
        Some(Basis::Rtp(_)) => "Lateness against RTP time, first packet of each time stamp",
        Some(Basis::Due) => "Lateness against the due times in the packets",
        Some(Basis::Picture) => "Lateness against the schedule of ST 2110-21",
        Some(Basis::Even) | None => "Lateness against the even schedule",
    }
}

/// What lateness was measured against, in words and for programs.
fn schedule(basis: Option<Basis>) -> Value {
    let (name, text) = match basis {
        Some(Basis::Even) => ("constant-rate", "constant rate".to_owned()),
        Some(Basis::Picture) => ("st2110-21", "ST 2110-21, gapped".to_owned()),
        Some(Basis::Due) => ("due-times", "due times in the packets".to_owned()),
        Some(Basis::Rtp(clock)) => {
            let text = format!("RTP time, {} Hz (not a constant rate)", Value::Count(clock.into()));
            ("rtp-time", text)
        }
        None => ("none", "none found (why is below): no lateness".to_owned()),
    };
    Value::Fields(text, vec![("name", Value::Text(name.to_owned()))])
}

fn stream(found: &Candidate, figures: &Figures) -> Section {
    let mut section = Section::new("stream", "Stream");
    let ((from, to), order) = (found.ends, figures.order);
    section.add("flow", "flow", Value::Text(format!("{from} to {to}")));
    section.add("kind", "carries", Value::Text(figures.kind.name().to_owned()));
    if let Some((ssrc, payload_type)) = found.flow.rtp() {
        let text = format!("source {ssrc:#010x}, payload type {payload_type}");
        let fields = vec![
            ("ssrc", Value::Count(ssrc.into())),
            ("payload_type", Value::Count(payload_type.into())),
        ];
        section.add("rtp", "RTP", Value::Fields(text, fields));
    }
    section.add("packets", "packets", Value::Count(order.received));
    if figures.kind != Kind::Udp {
        section.add("lost", "lost", Value::Count(order.lost));
        section.add("reordered", "reordered", Value::Count(order.reordered));
        section.add("duplicates", "duplicates", Value::Count(order.duplicates));
    }
    let others = found.flow.others();
    if others > 0 {
        section.add("others", "others on its ports", Value::Count(others as u64));
    }
    section.add("span_s", "seconds", Value::Number(figures.span_ns as f64 / 1e9));
    section.add("resolution_ns", "clock steps", Value::Ns(figures.resolution_ns as f64));
    section
}

fn timing(figures: &Figures) -> Section {
    let mut section = Section::new("timing", "Timing");
    section.add("schedule", "schedule", schedule(figures.basis));
    if let Some(format) = figures.format {
        section.add("format", "format", Value::Text(format.name.to_owned()));
    }
    if let Some(stream) = figures.stream {
        let rate = f64::from(stream.rate.frames) / f64::from(stream.rate.seconds);
        section.add("frame_rate", "frames per second", Value::Number(rate));
        let packets = Value::Count(stream.packets_per_frame.into());
        section.add("packets_per_frame", "packets of a frame", packets);
        section.add("units", "whole frames or fields", Value::Count(figures.units));
    }
    if let Some(nominal_ns) = figures.nominal_ns {
        section.add("nominal_ns", "period, nominal", nanoseconds(nominal_ns));
    }
    if let Some(period_ns) = figures.period_ns {
        section.add("period_ns", "period, seen", nanoseconds(period_ns));
    }
    if let Some(Skew::Drift(ppm)) = figures.skew {
        let fields = vec![("ppm", Value::Number(ppm))];
        section.add("skew", "sender's clock", Value::Fields(drift(ppm), fields));
    }
    let seconds = figures.span_ns as f64 / 1e9;
    let rate = figures.spikes.and_then(|spikes| Rate::of(spikes, seconds, CONFIDENCE));
    if let Some(rate) = rate {
        section.add("spikes", "gaps over 2 periods", spikes(&rate));
    }
    section
}

/// Of a clock that is so many millionths slower.
fn drift(ppm: f64) -> String {
    let which = if ppm < 0.0 { "faster" } else { "slower" };
    format!("{:.2} ppm {which} than the capture's", ppm.abs())
}

fn spikes(rate: &Rate) -> Value {
    let fields = vec![
        ("count", Value::Count(rate.count)),
        ("per_second", Value::Number(rate.per_second)),
        ("lower_per_second", Value::Number(rate.bounds.lower)),
        ("upper_per_second", Value::Number(rate.bounds.upper)),
    ];
    Value::Fields(format!("{}: {rate}", rate.count), fields)
}

/// To the picosecond: periods are told apart by less than a nanosecond.
fn nanoseconds(ns: f64) -> Value {
    Value::Fields(format!("{ns:.3} ns"), vec![("ns", Value::Number(ns))])
}

/// Mean, deviation, extremes and quantiles with their intervals.
pub(super) fn quantiles(key: &'static str, title: &'static str, samples: &Sorted) -> Section {
    let mut section = Section::new(key, title);
    let (Some(min), Some(max)) = (samples.min(), samples.max()) else { return section };
    let ns = |ns: i64| Value::Ns(ns as f64);
    let (mean, deviation) = (samples.mean_ns(), samples.deviation_ns());
    let text = format!("{}, deviation {}", Value::Ns(mean), Value::Ns(deviation));
    let fields = vec![("ns", Value::Number(mean)), ("deviation_ns", Value::Number(deviation))];
    section.add("mean", "mean", Value::Fields(text, fields));
    let text = format!("{} to {}", ns(min), ns(max));
    let fields = vec![("min_ns", Value::Difference(min)), ("max_ns", Value::Difference(max))];
    section.add("range", "range", Value::Fields(text, fields));
    for (q, key, label) in QUANTILES {
        if let Some(quantile) = Quantile::of(samples, q, CONFIDENCE) {
            section.add(key, label, bounded(&quantile));
        }
    }
    if let Some(histogram) = Histogram::of(samples, STEPS) {
        section.add("histogram", "most often", most(&histogram));
    }
    section
}

fn bounded(quantile: &Quantile) -> Value {
    let ns = |ns: i64| Value::Ns(ns as f64);
    let value = ("ns", Value::Difference(quantile.value_ns));
    match quantile.bounds {
        Bounds::Between { lower_ns, upper_ns } => Value::Fields(
            with_interval(quantile.value_ns, [lower_ns, upper_ns]),
            vec![
                value,
                ("lower_ns", Value::Difference(lower_ns)),
                ("upper_ns", Value::Difference(upper_ns)),
            ],
        ),
        Bounds::TooFew { n, needed } => Value::Fields(
            format!(
                "{} (n too small: {} of {})",
                ns(quantile.value_ns),
                Value::Count(n),
                Value::Count(needed)
            ),
            vec![value, ("n", Value::Count(n)), ("n_needed", Value::Count(needed))],
        ),
    }
}

/// The fullest step in words; all of them in JSON.
fn most(histogram: &Histogram) -> Value {
    let all: u64 = histogram.counts.iter().sum::<u64>() + histogram.above;
    let fullest = histogram.counts.iter().enumerate().max_by_key(|(_, count)| **count);
    let (at, count) = fullest.map_or((0, 0), |(at, count)| (at, *count));
    let from = histogram.from_ns + at as i64 * histogram.step_ns;
    let (low, high) = (from as f64, (from + histogram.step_ns) as f64);
    let share = Value::Share(count as f64 / all.max(1) as f64);
    let text = format!("{} to {}: {share}", Value::Ns(low), Value::Ns(high));
    let counts: Vec<String> = histogram.counts.iter().map(u64::to_string).collect();
    let fields = vec![
        ("from_ns", Value::Difference(histogram.from_ns)),
        ("step_ns", Value::Difference(histogram.step_ns)),
        ("counts", Value::Text(counts.join(" "))),
        ("above", Value::Count(histogram.above)),
    ];
    Value::Fields(text, fields)
}

fn buffers(figures: &Figures, stream: Stream, c_inst: u64, senders: &[Sender]) -> Section {
    let title = match figures.kind {
        Kind::Video => "Buffers (ST 2110-21)",
        _ => "Buffers (2110-21 style: that standard is for ST 2110 only)",
    };
    let mut section = Section::new("buffers", title);
    section.add("c_inst_max", "network: Cinst, most", Value::Count(c_inst));
    if let Some(vrx) = figures.vrx {
        vrx_rows(&mut section, vrx);
    }
    for &sender in senders {
        let limits = stream.limits(sender);
        let fits = c_inst <= limits.c_max;
        let need = figures.vrx.map(|vrx| vrx.default.unwrap_or(vrx.least));
        let reads = need.is_none_or(|need| need.min >= 0 && need.max <= limit(limits.vrx_full));
        let text = format!(
            "Cmax {}: {}; VRX {}: {}",
            limits.c_max,
            within(fits),
            limits.vrx_full,
            within(reads)
        );
        let fields = vec![
            ("c_max", Value::Count(limits.c_max)),
            ("within_c_max", Value::Flag(fits)),
            ("vrx_full", Value::Count(limits.vrx_full)),
            ("within_vrx_full", Value::Flag(reads)),
        ];
        section.add(
            sender.name(),
            format!("{} sender", sender.name()),
            Value::Fields(text, fields),
        );
    }
    section
}

fn vrx_rows(section: &mut Section, vrx: Vrx) {
    let occupancy = |Occupancy { min, max }: Occupancy| {
        let fields = vec![("min", Value::Difference(min)), ("max", Value::Difference(max))];
        Value::Fields(format!("{min} to {max}"), fields)
    };
    section.add("vrx_least", "receiver: least VRX", occupancy(vrx.least));
    if let Some(default) = vrx.default {
        section.add("vrx_default", "VRX, default offset", occupancy(default));
    }
    if let Some(ns) = vrx.first_packet_ns {
        section.add("first_packet_ns", "first packet after epoch", Value::Ns(ns as f64));
    }
}

fn within(so: bool) -> &'static str {
    if so { "within" } else { "over" }
}

fn limit(packets: u64) -> i64 {
    i64::try_from(packets).unwrap_or(i64::MAX)
}

fn sound(audio: Audio) -> Section {
    let mut section = Section::new("audio", "Sound (ST 2110-30; TS-DF of EBU Tech 3337)");
    let time = audio.packet_time;
    section.add("samples", "samples of a packet", Value::Count(time.samples.into()));
    section.add("clock_hz", "samples per second", Value::Count(time.clock.into()));
    if let Some(ns) = audio.delay_factor_ns {
        let label = match audio.windows {
            0 => "TS-DF, all",
            _ => "TS-DF, most of a second",
        };
        section.add("ts_df_ns", label, Value::Ns(ns as f64));
        section.add("ts_df_packets", "in packet times", Value::Number(ns as f64 / time.ns()));
        section.add("windows", "windows of a second", Value::Count(audio.windows));
    }
    section
}

/// Why there is no lateness. A stream that does not keep the schedule of its format has a note of its own.
fn no_schedule(figures: &Figures) -> Option<&'static str> {
    let is_said = figures.kind != Kind::Rtp && matches!(figures.skew, Some(Skew::Mismatch(_)));
    if figures.lateness.is_some() || is_said {
        return None;
    }
    Some(match figures.kind {
        Kind::Ancillary => {
            "ancillary data come with their picture, which is another flow, and have no rate of their own"
        }
        Kind::Video => {
            "frames differ in packets, or no two of them are whole, so that there are no buffers either"
        }
        Kind::Rtp => "they have no constant rate, and time stamps of no known RTP clock",
        Kind::Audio | Kind::St2022_6 | Kind::Probe | Kind::Udp => {
            "their numbers and times are too few, or fit no rate"
        }
    })
}

/// What limits the figures.
pub(super) fn notes(report: &mut Report, figures: &Figures, is_full: bool) {
    if figures.resolution_ns > 1 {
        let step = Value::Ns(figures.resolution_ns as f64);
        report.note(format!(
            "The capture's clock has steps of {step}: gaps and lateness are no finer than that, and \
             packets of one step stand at one time. Capture with nanoseconds (tcpdump \
             --time-stamp-precision=nano)."
        ));
    }
    if let Some(Skew::Mismatch(ppm)) = figures.skew {
        report.note(format!(
            "The stream does not keep the nominal schedule: its period differs by {ppm:+.0} ppm, and clocks \
             differ by {MAX_DRIFT_PPM:.0} ppm at most. The format or the time stamps say something other \
             than what was sent; see --format."
        ));
    }
    if let Some(why) = no_schedule(figures) {
        let packets = Value::Count(figures.order.received);
        report.note(format!(
            "{packets} packets were read, and there is no schedule that they could be late against: {why}."
        ));
    }
    if figures.lateness.is_some() {
        report.note(
            "Lateness counts from the packet with the least delay: a delay that all have is not seen.",
        );
    }
    if is_full {
        report.note("There are more packets than are kept: the figures are of those before.");
    }
}

#[cfg(test)]
mod tests {
    use super::drift;

    #[test]
    fn a_clock_is_faster_or_slower_without_a_sign() {
        assert_eq!(drift(-24.0), "24.00 ppm faster than the capture's");
        assert_eq!(drift(1.5), "1.50 ppm slower than the capture's");
    }
}
