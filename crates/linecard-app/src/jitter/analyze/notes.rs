//! Sentences under the figures: their limits, and why some are missing.

use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::Kind;
use linecard_jitter::media::rate::{MAX_DRIFT_PPM, Skew};
use linecard_report::Value;

/// Why there is no lateness. A stream that does not keep the schedule of its format has a note of its own.
fn no_schedule(figures: &Figures) -> Option<String> {
    let is_said = figures.kind != Kind::Rtp && matches!(figures.skew, Some(Skew::Mismatch(_)));
    if figures.lateness.is_some() || is_said {
        return None;
    }
    if let (Kind::Rtp, Some(jitter)) = (figures.kind, figures.jitter) {
        let clock = Value::Count(jitter.clock.into());
        return Some(format!(
            "they have no constant rate, and on the whole, their time stamps do not advance at {clock} Hz, which is \
             their clock: they may stop in pauses of speech"
        ));
    }
    let why = match figures.kind {
        Kind::Ancillary => {
            "ancillary data are sent with their picture, which is another flow, and their time stamps do not follow \
             90,000 Hz"
        }
        Kind::Jxs => "their time stamps do not follow 90,000 Hz",
        Kind::Video => {
            "frames differ in packets, or no two of them are whole, so that there are no buffers either"
        }
        Kind::Rtp => "they have no constant rate, and time stamps of no known RTP clock",
        Kind::Audio | Kind::Am824 | Kind::St2022_6 | Kind::Probe | Kind::Numbered | Kind::Udp => {
            "their numbers and times are too few, or fit no rate"
        }
    };
    Some(why.to_owned())
}

/// Why figures in TAI are missing.
fn no_tai(figures: &Figures) -> Option<String> {
    let has_picture = matches!(figures.kind, Kind::Video | Kind::Jxs | Kind::Ancillary);
    if !has_picture || figures.facts.behind.is_some() {
        return None;
    }
    let is_video = figures.kind == Kind::Video;
    let has_vrx = figures.vrx.is_none_or(|vrx| vrx.default.is_some());
    let missing = [
        (is_video && figures.facts.offsets.is_none(), "offset of first packets (TR_offset)"),
        (is_video && !has_vrx, "VRX with its default"),
        (true, "time behind the time stamps"),
    ];
    let missing: Vec<&str> =
        missing.into_iter().filter_map(|(is_missing, name)| is_missing.then_some(name)).collect();
    Some(format!(
        "There is no {}: not all time stamps agree with the capture's clock, in TAI or in UTC. The clock of the sender \
         or that of the capture does not follow PTP.",
        missing.join(", no ")
    ))
}

/// Limits of the figures.
pub(super) fn notes(figures: &Figures, is_full: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if figures.resolution_ns > 1 {
        let step = Value::Ns(figures.resolution_ns as f64);
        notes.push(format!(
            "The capture's clock has steps of {step}: gaps and lateness have this resolution, and \
             packets within one step have the same time. Capture with nanoseconds (tcpdump \
             --time-stamp-precision=nano)."
        ));
    }
    if let Some(Skew::Mismatch(ppm)) = figures.skew {
        notes.push(format!(
            "The stream does not keep the nominal schedule: its period differs by {ppm:+.0} ppm, and clocks \
             differ by {MAX_DRIFT_PPM:.0} ppm at most. The format or the time stamps do not match \
             the stream; see --format."
        ));
    }
    if let Some(why) = no_schedule(figures) {
        let packets = Value::Count(figures.order.received);
        notes.push(format!(
            "{packets} packets were read, and there is no schedule to compare them with: {why}."
        ));
    }
    notes.extend(no_tai(figures));
    if figures.lateness.is_some() {
        let note = "Lateness counts from the packet with the least delay: a delay of all packets \
             is not visible.";
        notes.push(note.to_owned());
    }
    if is_full {
        let note = "There are more packets than are kept: the figures cover the earlier ones.";
        notes.push(note.to_owned());
    }
    notes
}
