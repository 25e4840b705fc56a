//! An adapter whose device fetches payload from host memory, or one that stores it first:
//! [`linecard_model::adapter`].

pub(crate) mod load;

use super::super::key::{Key, Kind};
use super::super::keys::sizes;
use super::super::scenario::Scenario;
use super::super::values::{mhz, word};
use super::{Account, Model, Ran, limits, number, put_rate, ratio, time};
use crate::failure::Failure;
use linecard::rng::Rng;
use linecard_model::adapter::{self, AdapterError, Config, Outcome, simulate};
use linecard_report::{Report, Section, Value};
use load::{HEADERS, message, segments};

const KINDS: [(&str, adapter::Kind); 2] =
    [("zero-copy", adapter::Kind::ZeroCopy), ("store-and-forward", adapter::Kind::StoreAndForward)];
/// The longest payload of a message: with headers it has 65,535 bytes of IP at most.
const MAX_SIZE: usize = 65_000;
/// Preamble, CRC and gap.
const WIRE_BYTES: u64 = 24;

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    of: Config,
    seed: u64,
    sizes: Vec<usize>,
    messages: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { of: Config::default(), seed: 1, sizes: vec![64_000], messages: 32 }
    }
}

impl Kind for Settings {
    const NAME: &'static str = "adapter";
    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "adapter.kind",
            what: "the device fetches payload from host memory (\"zero-copy\"), or it is stored in \
                   embedded memory first (\"store-and-forward\") [zero-copy]",
            set: |to, text| word(text, &KINDS).map(|kind| to.of.kind = kind),
        },
        number!("adapter.mtu", of.mtu, 256 to 9216, 1500,
            "bytes of a packet from the IP header on"),
        Key {
            name: "adapter.embedded",
            what: "bits per second of embedded memory, reads and writes together, \"1K\" to \"100T\" \
                   [3.2G]",
            set: |to, text| put_rate(text, &mut to.of.embedded_bps),
        },
        Key {
            name: "adapter.wire",
            what: "bits per second of Ethernet, \"1K\" to \"100T\" [1G]",
            set: |to, text| put_rate(text, &mut to.of.wire_bps),
        },
        Key {
            name: "host.bus",
            what: "bits per second of the host bus, \"1K\" to \"100T\" [4.266666667G]",
            set: |to, text| put_rate(text, &mut to.of.host_bus_bps),
        },
        time!("host.latency", of.host_latency, "0ns" to "1ms", "600ns",
            "from a read of host memory to its first byte"),
        number!("host.window", of.host_window, 1 to 1099511627776, 1073741824,
            "bytes of host memory that the device sees: what lies beyond is a fault"),
        Key {
            name: "firmware.mhz",
            what: "the core's clock in MHz, 1 to 100000 [100]",
            set: |to, text| match mhz(text)? {
                hz @ 1_000_000.. => {
                    to.of.firmware_hz = hz;
                    Ok(())
                }
                _ => Err(format!("{text} MHz is out of range: choose 1 to 100000")),
            },
        },
        number!("firmware.message_cycles", of.message_cycles, 0 to 1000000, 300,
            "to take up a message"),
        number!("firmware.header_cycles", of.header_cycles, 0 to 1000000, 200, "to build a header"),
        number!("load.seed", seed, 0 to 9223372036854775807, 1, "draws the payload"),
        Key {
            name: "load.size",
            what: "payload bytes of a message, 1 to 65000, or a list of up to 64 in turn [64000]",
            set: |to, text| match sizes(text)? {
                sizes if sizes.iter().all(|&size| size <= MAX_SIZE) => {
                    to.sizes = sizes;
                    Ok(())
                }
                _ => Err(format!("{text} is out of range: choose 1 to {MAX_SIZE}")),
            },
        },
        number!("load.messages", messages, 1 to 1000, 32, "how many messages"),
    ];
}

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let settings = &scenario.settings;
        let mut rng = Rng::new(settings.seed);
        let sizes = settings.sizes.iter().cycle().take(settings.messages);
        let messages: Vec<Vec<u8>> = sizes.map(|&size| message(&mut rng, size)).collect();
        let expected = segments(&messages, settings.of.mtu)?;
        let refuse = |error| scenario.refuse(key_of(&error), &error.to_string());
        let outcome = simulate(&settings.of, &messages).map_err(refuse)?;
        Ok(report(settings, &outcome, &expected))
    }
}

/// The key whose value an error is about.
fn key_of(error: &AdapterError) -> &'static str {
    match error {
        AdapterError::Message(_) | AdapterError::TooLong { .. } => "load.size",
        AdapterError::Mtu(_) => "adapter.mtu",
        AdapterError::Rate("host_bus_bps") => "host.bus",
        AdapterError::Rate("embedded_bps") => "adapter.embedded",
        AdapterError::Rate(_) => "adapter.wire",
    }
}

/// Whether all of `sent` are in `expected`, in this order.
fn is_part(sent: &[Vec<u8>], expected: &[Vec<u8>]) -> bool {
    let mut left = expected.iter();
    sent.iter().all(|frame| left.any(|other| other == frame))
}

fn report(settings: &Settings, outcome: &Outcome, expected: &[Vec<u8>]) -> Ran {
    let (frames, all) = (outcome.frames.len() as u64, expected.len() as u64);
    // A message that cannot be fetched is one drop, of all its frames.
    let dropped = if outcome.dropped > 0 { all.saturating_sub(frames) } else { 0 };
    let name = KINDS.iter().find(|(_, kind)| *kind == settings.of.kind).map_or("", |known| known.0);
    let title = format!("{name}, {} messages, MTU {}", settings.messages, settings.of.mtu);
    let mut account = Account::new(title, "frames", [all, frames, dropped, 0]);
    let wrong = account.wrong(is_part(&outcome.frames, expected));
    let section = &mut account.section;
    section.add("faults", "accesses outside both windows", Value::Count(outcome.faults));
    for (key, label, bytes) in [
        ("payload_out", "payload, out", outcome.payload_bytes),
        ("host_bus_bytes", "over the host bus", outcome.host_bus_bytes),
        ("embedded_bytes", "through embedded memory", outcome.embedded_bytes),
        ("embedded_payload_bytes", "payload among them", outcome.embedded_payload_bytes),
    ] {
        section.add(key, label, Value::Bytes(bytes));
    }
    section.add("ns", "virtual time", Value::Ns(outcome.last.0 as f64 / 1e3));
    let mut rates = Section::new("rates", "Rates");
    rates.add("bits_per_second", "payload", Value::BitRate(outcome.bps()));
    let first = Value::Ns(outcome.first.0 as f64 / 1e3);
    rates.add("first_frame_ns", "until the first frame has left", first);
    let mut report = Report::new("model");
    report.push(account.section);
    report.push(rates);
    report.push(busy(settings, outcome));
    if wrong.is_none() {
        report.note("Every frame that left is the one that the offload of this project makes.");
    }
    Ran { report, wrong }
}

/// Bytes and frames times what each takes.
fn busy(settings: &Settings, outcome: &Outcome) -> Section {
    let (of, seconds) = (&settings.of, outcome.last.as_secs_f64());
    let share = |bytes: u64, bps: u64| ratio(bytes as f64 * 8.0 / bps as f64, seconds);
    let frames = outcome.frames.len() as u64;
    let wire = outcome.payload_bytes + frames * (HEADERS as u64 + WIRE_BYTES);
    let cycles = settings.messages as u64 * of.message_cycles + frames * of.header_cycles;
    let core = ratio(cycles as f64 / of.firmware_hz as f64, seconds);
    limits(
        &[
            ("wire_busy", "Ethernet", share(wire, of.wire_bps)),
            ("host_bus_busy", "host bus", share(outcome.host_bus_bytes, of.host_bus_bps)),
            ("embedded_busy", "embedded memory", share(outcome.embedded_bytes, of.embedded_bps)),
            ("core_busy", "firmware's core", core),
        ],
        &[],
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<super::Settings>();
    }
}
