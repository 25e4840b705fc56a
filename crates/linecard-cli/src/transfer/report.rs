//! What a transfer has done.

use super::ending;
use super::sending::SendArguments;
use linecard_report::{Report, Section, Value};
use linecard_transfer::lane::LaneState;
use linecard_transfer::wire::OVERHEAD_BYTES;
use linecard_transfer_net::end::CarrierCounters;
use linecard_transfer_net::file::Failures;
use linecard_transfer_net::receive::{Got, ReceiveProgress};
use linecard_transfer_net::send::{LaneView, SendProgress, Sent};
use std::time::Duration;

/// UDP, IPv4 and Ethernet around a datagram, and what IPv6 has more.
const FRAMING_BYTES: f64 = 8.0 + 20.0 + 14.0;
const IPV6_MORE_BYTES: f64 = 20.0;

/// All was sent.
pub(super) fn of_sent(sent: &Sent, arguments: &SendArguments, is_ipv6: bool) -> Report {
    let mut report = Report::new("send");
    let moved = sent.bytes.saturating_sub(sent.had_bytes);
    let part = part(&sent.failures, sent.objects);
    let mut section = transfer(part.as_deref(), sent.bytes, sent.had_bytes, sent.elapsed);
    section.add("objects", "files and folders", Value::Count(sent.objects));
    add_files(&mut section, sent.unchanged, &sent.failures);
    section.add("payload_bytes", "data of a packet", Value::Bytes(sent.payload_bytes.into()));
    section.add("cpu_ns", "processor time of this end", nanoseconds(sent.processor));
    section.add("resent", "packets sent again", Value::Count(sent.counters.resent));
    section.add("duplicates", "sent twice to be sooner", Value::Count(sent.counters.duplicates));
    report.push(section);
    report.push(latency(&sent.latencies_ns));
    if let Some(bound_bps) = framing_bound(sent, arguments, is_ipv6) {
        let goodput_bps = bits_per_second(moved, sent.elapsed);
        let mut section = Section::new("bound", "Against what these lanes could carry");
        section.add("framing_bound_bps", "after framing and repair", Value::BitRate(bound_bps));
        let overhead = 1.0 - goodput_bps / bound_bps;
        add_overhead(&mut section, overhead, &sent.lanes, sent.elapsed);
        report.push(section);
    }
    report.push(sending_lanes(&sent.lanes));
    push_notes(&mut report, &sent.notes);
    push_failures(&mut report, &sent.failures);
    if !sent.skipped.is_empty() {
        let mut section = Section::list("skipped", "Not sent");
        for skipped in &sent.skipped {
            let path = skipped.path.display().to_string();
            section.add("skipped", path, Value::Text(skipped.why.into()));
        }
        report.push(section);
    }
    report
}

/// It ended early: what was done until then, for `--json`.
pub(super) fn of_part_sent(progress: &SendProgress, error: &str) -> Report {
    let mut report = Report::new("send");
    let mut section = transfer(Some(error), progress.done_bytes, 0, progress.elapsed);
    section.add("resent", "packets sent again", Value::Count(progress.counters.resent));
    report.push(section);
    report.push(sending_lanes(&progress.lanes));
    push_notes(&mut report, &progress.notes);
    report
}

/// All was received.
pub(super) fn of_got(got: &Got) -> Report {
    let mut report = Report::new("recv");
    let part = part(&got.failures, got.objects);
    let mut section = transfer(part.as_deref(), got.bytes, got.had_bytes, got.elapsed);
    section.add("objects", "files and folders", Value::Count(got.objects));
    add_files(&mut section, got.unchanged, &got.failures);
    section.add("from", "from", Value::Text(got.from.to_string()));
    if let Some(sender) = got.sender {
        section.add("sender", "whose key is", Value::Text(sender.to_string()));
    }
    section.add("cpu_ns", "processor time of this end", nanoseconds(got.processor));
    section.add("packets", "packets taken", Value::Count(got.counters.taken));
    section.add("repaired", "groups repaired", Value::Count(got.counters.repaired));
    section.add("repeated", "packets that came twice", Value::Count(got.counters.repeated));
    report.push(section);
    report.push(receiving_lanes(&got.lanes));
    push_failures(&mut report, &got.failures);
    report
}

/// It ended early: what was done until then, for `--json`.
pub(super) fn of_part_got(progress: &ReceiveProgress, error: &str) -> Report {
    let mut report = Report::new("recv");
    let mut section = transfer(Some(error), progress.done_bytes, 0, progress.elapsed);
    section.add("packets", "packets taken", Value::Count(progress.counters.taken));
    report.push(section);
    report.push(receiving_lanes(&progress.lanes));
    report
}

/// Why it is not complete, if some files were not transferred.
fn part(failures: &Failures, objects: u64) -> Option<String> {
    (failures.count() > 0).then(|| ending::part(failures.count(), objects))
}

fn add_files(section: &mut Section, unchanged: u64, failures: &Failures) {
    if unchanged > 0 {
        section.add("unchanged", "files there already", Value::Count(unchanged));
    }
    if failures.count() > 0 {
        section.add("failed", "not transferred", Value::Count(failures.count()));
    }
}

fn push_failures(report: &mut Report, failures: &Failures) {
    if failures.count() > 0 {
        let mut section = Section::list("failures", "Not transferred");
        for why in failures.first() {
            section.add("file", "file", Value::Text(why.clone()));
        }
        report.push(section);
    }
}

fn transfer(error: Option<&str>, bytes: u64, had_bytes: u64, elapsed: Duration) -> Section {
    let mut section = Section::new("transfer", "Transfer");
    section.add("complete", "complete", Value::Flag(error.is_none()));
    if let Some(error) = error {
        section.add("error", "because", Value::Text(error.into()));
    }
    section.add("bytes", "bytes", Value::Bytes(bytes));
    if had_bytes > 0 {
        section.add("had_bytes", "of which were there before", Value::Bytes(had_bytes));
    }
    let moved = bytes.saturating_sub(had_bytes);
    section.add("seconds", "in", Value::Seconds(elapsed.as_secs_f64()));
    section.add("goodput_bps", "goodput", Value::BitRate(bits_per_second(moved, elapsed)));
    section
}

fn nanoseconds(time: Duration) -> Value {
    Value::Ns(time.as_nanos() as f64)
}

fn latency(latencies_ns: &[u64]) -> Section {
    let mut section =
        Section::new("chunk_latency", "From a chunk's first packet until it is whole");
    let mut sorted = latencies_ns.to_vec();
    sorted.sort_unstable();
    let Some(&max) = sorted.last() else { return section };
    // The least value that no more than this share is above.
    let quantile = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1] as f64
    };
    section.add("chunks", "chunks", Value::Count(sorted.len() as u64));
    section.add("p50_ns", "median", Value::Ns(quantile(0.5)));
    section.add("p99_ns", "99th percentile", Value::Ns(quantile(0.99)));
    section.add("max_ns", "longest", Value::Ns(max as f64));
    section
}

/// Bits of data a second that the lanes carry at most, if all their rates are known.
fn framing_bound(sent: &Sent, arguments: &SendArguments, is_ipv6: bool) -> Option<f64> {
    let rates: Option<Vec<u64>> = match arguments.lanes.as_slice() {
        [] => Some(vec![arguments.rate?]),
        lanes => lanes.iter().map(|lane| lane.rate_bps.or(arguments.rate)).collect(),
    };
    let rate_bps: u64 = rates?.iter().sum();
    let payload = f64::from(sent.payload_bytes);
    let framing = FRAMING_BYTES + if is_ipv6 { IPV6_MORE_BYTES } else { 0.0 };
    let share = payload / (payload + OVERHEAD_BYTES as f64 + framing);
    Some(rate_bps as f64 * share / (1.0 + arguments.fec.overhead()))
}

/// A lane that takes longer than this to be reached carries less than its share of a transfer of some seconds.
const REACHED: Duration = Duration::from_secs(1);
/// Lanes that were down for less than this part of the time change the overhead by no more.
const NEGLIGIBLE: u32 = 100;

/// The overhead of the management, if it is not that of lanes that were down.
fn add_overhead(section: &mut Section, overhead: f64, lanes: &[LaneView], elapsed: Duration) {
    let is_down = |lane: &&LaneView| {
        lane.state != LaneState::Alive || lane.counters.deaths > 0 || lane.silent > REACHED
    };
    let is_long =
        |lane: &LaneView| lane.state != LaneState::Alive || lane.silent > elapsed / NEGLIGIBLE;
    let down: Vec<&LaneView> = lanes.iter().filter(is_down).collect();
    let names = down.iter().map(|lane| format!("{} for {}", lane.name, nanoseconds(lane.silent)));
    let names = names.collect::<Vec<_>>().join(", ");
    if down.iter().any(|lane| is_long(lane)) {
        let why = format!("not given, as lanes were not alive all the time: {names}");
        section.add("no_overhead", "management overhead", Value::Text(why));
        return;
    }
    section.add("management_overhead", "management overhead", Value::Share(overhead));
    if !down.is_empty() {
        section.add("lanes_down", "which includes lanes that were down", Value::Text(names));
    }
}

fn bits_per_second(bytes: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn sending_lanes(lanes: &[LaneView]) -> Section {
    let mut section = Section::list("lanes", "Lanes");
    for lane in lanes {
        let state = state(lane.state);
        let (packets, lost) = (lane.counters.packets, lane.counters.lost);
        let rtt = lane.rtt_ns.map(|rtt_ns| Value::Ns(rtt_ns as f64));
        let late = match lane.counters.late {
            0 => String::new(),
            late => format!(" ({late} only late)"),
        };
        let packets_words = Value::Count(packets);
        let rtt_words = rtt.as_ref().map_or(String::new(), |rtt| format!(", RTT {rtt}"));
        let words = format!("{state}, {packets_words} packets, {lost} lost{late}{rtt_words}");
        let mut fields = vec![
            ("state", Value::Text(state.into())),
            ("packets", Value::Count(packets)),
            ("line_bytes", Value::Bytes(lane.counters.line_bytes)),
            ("lost", Value::Count(lost)),
            ("late", Value::Count(lane.counters.late)),
            ("deaths", Value::Count(lane.counters.deaths)),
            ("silent_ns", nanoseconds(lane.silent)),
        ];
        fields.extend(rtt.map(|rtt| ("rtt_ns", rtt)));
        section.add("lane", lane.name.clone(), Value::Fields(words, fields));
    }
    section
}

/// What was said about lanes that carried nothing, stopped answering, or shared a link.
fn push_notes(report: &mut Report, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let mut section = Section::list("lane_notes", "What is wrong with lanes");
    for note in notes {
        let (lane, text) = note.split_once(": ").unwrap_or(("lane", note));
        section.add("note", lane.to_owned(), Value::Text(text.into()));
    }
    report.push(section);
}

fn receiving_lanes(lanes: &[(String, CarrierCounters)]) -> Section {
    let mut section = Section::list("lanes", "Lanes");
    for (name, counters) in lanes {
        let (received, dropped) = (counters.received, counters.dropped);
        let words = format!("{} packets, {dropped} dropped by this host", Value::Count(received));
        let fields = vec![("packets", Value::Count(received)), ("dropped", Value::Count(dropped))];
        section.add("lane", name.clone(), Value::Fields(words, fields));
    }
    section
}

const fn state(state: LaneState) -> &'static str {
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

    fn lane(state: LaneState, deaths: u64, silent_ms: u64) -> LaneView {
        LaneView {
            name: format!("lane {deaths}"),
            state,
            rtt_ns: (state != LaneState::Validating).then_some(1_000_000),
            silent: Duration::from_millis(silent_ms),
            counters: LaneCounters { deaths, ..LaneCounters::default() },
            carrier: CarrierCounters::default(),
        }
    }

    /// A lane that was cut off for most of a transfer was called overhead of the management.
    #[test]
    fn the_overhead_is_not_that_of_lanes_that_were_down() {
        let of = |lanes: &[LaneView]| {
            let mut section = Section::new("bound", "");
            add_overhead(&mut section, 0.25, lanes, Duration::from_secs(20));
            serde_json::to_value(section).unwrap()
        };
        let alive = || lane(LaneState::Alive, 0, 40);
        assert_eq!(of(&[alive(), alive()]), serde_json::json!({"management_overhead": 0.25}));
        for (down, named) in [
            (lane(LaneState::Alive, 1, 12_340), "lane 1 for 12.34 s"),
            (lane(LaneState::Suspect, 2, 100), "lane 2 for 100 ms"),
            (lane(LaneState::Validating, 0, 5_000), "lane 0 for 5.00 s"),
        ] {
            let found = of(&[alive(), down]);
            assert!(found["management_overhead"].is_null(), "{found}");
            assert!(found["no_overhead"].as_str().unwrap().ends_with(named), "{found}");
        }
        // A moment is no reason to give nothing.
        let found = of(&[lane(LaneState::Alive, 1, 16), alive()]);
        assert_eq!(
            (&found["management_overhead"], &found["lanes_down"]),
            (&0.25.into(), &"lane 1 for 16.00 ms".into())
        );
    }

    /// The first guess of 100 ms was shown for a lane that nobody had answered on.
    #[test]
    fn a_round_trip_that_was_not_measured_is_not_shown() {
        let never = sending_lanes(&[lane(LaneState::Validating, 0, 5_000)]);
        let json = serde_json::to_value(&never).unwrap();
        assert_eq!(json[0]["value"]["state"], "not reached");
        assert!(json[0]["value"].get("rtt_ns").is_none(), "{json}");
        assert!(!never.to_string().contains("RTT"), "{never}");
        let alive = sending_lanes(&[lane(LaneState::Alive, 0, 40)]);
        assert!(alive.to_string().contains("RTT 1.00 ms"), "{alive}");
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let json = |values: &[u64]| serde_json::to_value(latency(values)).unwrap();
        let all: Vec<u64> = (1..=100).rev().collect();
        let section = json(&all);
        assert_eq!((&section["p50_ns"], &section["p99_ns"]), (&50.0.into(), &99.0.into()));
        assert_eq!(section["max_ns"], 100.0);
        assert_eq!(json(&[7])["p50_ns"], 7.0);
        assert_eq!(latency(&[]).rows().len(), 0);
    }
}
