//! papers/zero-copy-and-gigabit-pci.txt, the application of Cheng: an adapter that does not store
//! payload, beside one that does.

mod scenario;

use crate::failure::Failure;
use crate::reproduce::Reproduced;
use crate::reproduce::comparison::{Comparison, Row, add_all};
use linecard::rng::Rng;
use linecard_model::adapter::{
    Adapter, Config, HEADERS, Host, Kind, Outcome, message, segments, simulate,
};
use linecard_report::{Report, Section, Value};
use scenario::Scenario;
use std::path::Path;

/// What came of messages of one size, through both adapters.
struct Seen {
    message_bytes: usize,
    zero_copy: Outcome,
    stored: Outcome,
    /// Whether both sent what segmentation makes of the messages.
    is_equal: bool,
}

/// Runs the scenario: what the application claims beside what ours does.
pub(super) fn reproduce(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let scenario = Scenario::read(path)?;
    let mut seen = Vec::new();
    for &message_bytes in &scenario.message_bytes {
        seen.push(once(&scenario, message_bytes)?);
    }
    let mut report = Report::new("reproduce");
    let unexplained = add_all(&[claims(&seen, &scenario)?], &mut report);
    for (key, title, outcome) in [
        ("zero_copy", "Payload fetched from host memory", pick_zero_copy as fn(&Seen) -> &Outcome),
        ("store_and_forward", "Payload stored first", pick_stored),
    ] {
        report.push(figures(key, title, &seen, outcome));
    }
    report.note("The application holds no figures: rates and costs are ours, and so is all that follows from them.");
    Ok(Reproduced { report, unexplained })
}

fn pick_zero_copy(seen: &Seen) -> &Outcome {
    &seen.zero_copy
}

fn pick_stored(seen: &Seen) -> &Outcome {
    &seen.stored
}

fn once(scenario: &Scenario, message_bytes: usize) -> Result<Seen, Failure> {
    let mut rng = Rng::new(scenario.seed);
    let messages: Vec<_> =
        (0..scenario.messages).map(|_| message(&mut rng, message_bytes)).collect();
    let [zero_copy, stored] =
        [Kind::ZeroCopy, Kind::StoreAndForward].map(|kind| run(&scenario.config, kind, &messages));
    let (zero_copy, stored) = (zero_copy?, stored?);
    let expected = segments(&messages, scenario.config.adapter.mtu)
        .map_err(|error| Failure::Wrong(format!("segmentation refuses a message: {error}")))?;
    let is_equal = zero_copy.frames == expected && stored.frames == expected;
    Ok(Seen { message_bytes, zero_copy, stored, is_equal })
}

fn run(config: &Config, kind: Kind, messages: &[Vec<u8>]) -> Result<Outcome, Failure> {
    let adapter = Adapter { kind, ..config.adapter };
    simulate(&Config { adapter, ..config.clone() }, messages)
        .map_err(|error| Failure::Usage(error.to_string()))
}

fn claims(seen: &[Seen], scenario: &Scenario) -> Result<Comparison, Failure> {
    let mut table = Comparison::new("claims", "What the application claims");
    let sum = |of: &dyn Fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let passed = sum(&|seen| seen.zero_copy.embedded_payload_bytes);
    let text = "data pass no embedded memory (claim 1)";
    table.add(Row::shape("payload", text, format!("{passed} bytes of it"), passed == 0));
    let times = sum(&|seen| seen.stored.embedded_payload_bytes) as f64
        / sum(&|seen| seen.stored.payload_bytes).max(1) as f64;
    table.add(Row::shape(
        "payload, stored and forwarded",
        "once in, once out",
        format!("{times:.1} times"),
        (times - 2.0).abs() < 1e-9,
    ));
    let equal = seen.iter().all(|seen| seen.is_equal);
    table.add(Row::shape(
        "checksums in firmware and device (claim 5)",
        "the same packets",
        if equal { "equal to segmentation, byte for byte" } else { "other packets" },
        equal,
    ));
    let most = scenario.config.adapter.mtu - (HEADERS - 14);
    let singles = |seen: &&Seen| seen.message_bytes <= most;
    let small = seen.iter().filter(singles).count() as u64 * scenario.messages as u64;
    let single = sum(&|seen| seen.zero_copy.single_packets);
    table.add(Row::shape(
        "data no larger than the MTU (claims 6 to 9)",
        "one packet",
        format!("{single} of {small} messages that fit"),
        single == small,
    ));
    // All but the first message lie beyond the window.
    let messages: Vec<_> = (0..3).map(|_| message(&mut Rng::new(scenario.seed), most)).collect();
    let host = Host { window: messages[0].len() as u64, ..scenario.config.host };
    let outside = Config { host, ..scenario.config.clone() };
    let outcome = run(&outside, Kind::ZeroCopy, &messages)?;
    table.add(Row::shape(
        "reads by their address (claim 10)",
        "one memory or the other",
        format!("{} faults for 2 messages in neither", outcome.faults),
        outcome.faults == 2 && outcome.frames.len() == 1,
    ));
    Ok(table)
}

fn figures(
    key: &'static str,
    title: &'static str,
    seen: &[Seen],
    pick: fn(&Seen) -> &Outcome,
) -> Section {
    let mut section = Section::list(key, title);
    for one in seen {
        let outcome = pick(one);
        let (first, rate) = (outcome.first.as_ns() as f64, outcome.bps());
        let text = format!(
            "{}, first frame after {}; host bus {}, embedded memory {}",
            Value::BitRate(rate),
            Value::Ns(first),
            Value::Bytes(outcome.host_bus_bytes),
            Value::Bytes(outcome.embedded_bytes)
        );
        let fields = vec![
            ("message_bytes", Value::Bytes(one.message_bytes as u64)),
            ("payload_bits_per_second", Value::BitRate(rate)),
            ("first_frame_ns", Value::Ns(first)),
            ("frames", Value::Count(outcome.frames.len() as u64)),
            ("payload_bytes", Value::Bytes(outcome.payload_bytes)),
            ("host_bus_bytes", Value::Bytes(outcome.host_bus_bytes)),
            ("embedded_bytes", Value::Bytes(outcome.embedded_bytes)),
            ("embedded_payload_bytes", Value::Bytes(outcome.embedded_payload_bytes)),
        ];
        section.add(
            "",
            format!("messages of {} bytes", one.message_bytes),
            Value::Fields(text, fields),
        );
    }
    section
}
