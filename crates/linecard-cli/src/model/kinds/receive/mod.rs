//! The receiving side: [`linecard_model::receive`].

mod keys;

pub(super) use keys::Settings;

use super::super::firmware;
use super::super::scenario::Scenario;
use super::super::settings::clock;
use super::{Account, Model, Ran, limits, ratio};
use crate::failure::Failure;
use crate::watch;
use linecard_model::receive::{self, Arrival, Design, Outcome, Receive, ReceiveError};
use linecard_model::rv32::Image;
use linecard_model::transmit::{Cells, DesignError};
use linecard_report::{Report, Section, Value};

/// Firmware that comes with the model.
const FIRMWARE: [&str; 2] = ["published", "best"];

impl Settings {
    fn design(&self) -> Result<Design, DesignError> {
        let core = clock(self.core_hz, self.core_phase)?;
        let dma = clock(self.dma.hz(self.core_hz), self.dma_phase)?;
        let design = Design {
            bubbles: self.bubbles,
            cycles_per_word: self.cycles_per_word,
            bus_bits: self.bus_bits,
            policy: self.policy,
            rbi_bytes: self.rbi,
            cam_entries: self.cam_entries,
            cam_latency: self.cam_latency,
            nodes: self.nodes,
            buffer_bytes: self.buffer,
            line_bits_per_second: self.line,
            wire_overhead_bytes: self.overhead,
            interrupt: self.interrupt,
            patience: self.patience,
            ..Design::published(core, dma)
        };
        design.check().map(|()| design)
    }

    /// The packets of all messages, as a sender cuts them.
    fn packets(&self) -> impl Iterator<Item = Arrival> {
        let cut = |message| receive::firmware::packets_of(&message, self.load.mtu);
        // What cannot be cut is refused before.
        watch::each(self.load.messages()).flat_map(move |message| cut(message).unwrap_or_default())
    }
}

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let settings = &scenario.settings;
        let refuse = |error: DesignError| scenario.refuse(key_of(error), &error.to_string());
        let design = settings.design().map_err(refuse)?;
        for message in settings.load.messages().take(2 * settings.load.sizes.len()) {
            message
                .mss(settings.load.mtu)
                .map_err(|error| scenario.refuse("load.mtu", &error.to_string()))?;
        }
        let image = image(scenario)?;
        let failure = |error| failure(scenario, &error);
        let receive = Receive::new(&design, &image).map_err(failure)?;
        watch::any().expect(settings.load.messages as usize);
        let outcome = receive.run(settings.packets(), |_| ()).map_err(failure)?;
        Ok(report(settings, &design, &outcome))
    }
}

fn image(scenario: &Scenario<Settings>) -> Result<Image, Failure> {
    let name = scenario.settings.firmware.as_str();
    match name {
        "published" => Ok(receive::firmware::published()),
        "best" => Ok(receive::firmware::best()),
        _ => {
            let file = firmware::file(&scenario.path_of("firmware.image", name), &FIRMWARE);
            let file = file.map_err(|what| scenario.refuse("firmware.image", &what))?;
            Ok(file.image().clone())
        }
    }
}

fn failure(scenario: &Scenario<Settings>, error: &ReceiveError) -> Failure {
    match error {
        ReceiveError::Design(error) => scenario.refuse(key_of(*error), &error.to_string()),
        ReceiveError::Load(error) => scenario.refuse("firmware.image", &error.to_string()),
        ReceiveError::Message(error) => scenario.refuse("load.mtu", &error.to_string()),
        ReceiveError::Fault(_) | ReceiveError::Stuck { .. } | ReceiveError::Halted { .. } => {
            Failure::Firmware(format!("firmware {}: {error}", scenario.settings.firmware))
        }
    }
}

/// The key whose value an error is about.
fn key_of(error: DesignError) -> &'static str {
    match error {
        DesignError::BusBits(_) => "bus.bits",
        DesignError::Range { name: "rbi_bytes", .. } => "line.rbi",
        DesignError::Range { name: "nodes * buffer_bytes", .. } => "host.nodes",
        DesignError::Range { .. } | DesignError::Clock(_) => "dma.mhz",
    }
}

fn report(settings: &Settings, design: &Design, outcome: &Outcome) -> Ran {
    let lost = outcome.line.refused + outcome.line.overflowed + outcome.unit.given_up;
    let title = format!(
        "A core at {} MHz, DMA at {} MHz, bus of {} bits, {} CAM entries, MTU {}, firmware {}",
        design.core.hz() as f64 / 1e6,
        design.dma.hz() as f64 / 1e6,
        design.bus_bits,
        design.cam_entries,
        settings.load.mtu,
        settings.firmware,
    );
    let parts = [outcome.line.arrived, outcome.delivered, lost, outcome.held];
    let mut account = Account::new(title, "packets", parts);
    let wrong = account.wrong(outcome.is_balanced() && outcome.wrong == 0);
    let section = &mut account.section;
    for (key, label, count) in [
        ("refused", "dropped: no sound IPv4, or too long", outcome.line.refused),
        ("overflowed", "dropped: no room in the receive buffer", outcome.line.overflowed),
        ("given_up", "dropped: given up by the firmware", outcome.unit.given_up),
        ("lists", "lists that the host has", outcome.messages),
        ("packets_right", "packets in lists that are right", outcome.right),
        ("packets_wrong", "packets in lists that are wrong", outcome.wrong),
        ("lookups", "lookups in the CAM", outcome.unit.lookups),
        ("hits", "keys found there", outcome.unit.hits),
        ("cam_overflows", "keys not inserted: the CAM was full", outcome.unit.cam_overflows),
    ] {
        section.add(key, label, Value::Count(count));
    }
    section.add("ns", "virtual time", Value::Ns(outcome.ended.0 as f64 / 1e3));
    let hash = Value::Text(format!("{:016x}", outcome.hash));
    section.add("hash", "hash of all lists", hash);
    let mut report = Report::new("model");
    report.push(account.section);
    report.push(classes(outcome));
    report.push(rates(design, outcome));
    report.push(busy(design, outcome));
    if wrong.is_none() {
        report.note("Every list that the host has holds the payload of the packets that came.");
    }
    Ran { report, wrong }
}

fn classes(outcome: &Outcome) -> Section {
    let mut section = Section::list("classes", "Core cycles of a packet on average");
    for (name, cells) in
        [("SSM", &outcome.ssm), ("BOM", &outcome.bom), ("COM", &outcome.com), ("EOM", &outcome.eom)]
    {
        let Cells { packets, idle, range: Some((least, most)), .. } = *cells else { continue };
        let (mean, idle) = (cells.mean(), ratio(idle as f64, packets as f64));
        let text = format!("{mean:.1} total, {idle:.1} of them waited ({packets} packets)");
        let fields = vec![
            ("packets", Value::Count(packets)),
            ("total_least", Value::Count(least)),
            ("total_mean", Value::Number(mean)),
            ("total_most", Value::Count(most)),
            ("idle_mean", Value::Number(idle)),
        ];
        section.add("", name, Value::Fields(text, fields));
    }
    section
}

fn rates(design: &Design, outcome: &Outcome) -> Section {
    let seconds = outcome.ended.as_secs_f64();
    let mut section = Section::new("rates", "Rates");
    let packets = ratio(outcome.delivered as f64, seconds);
    section.add("packets_per_second", "packets in a second", Value::Count(packets as u64));
    let bits = ratio(outcome.bytes as f64 * 8.0, seconds);
    section.add("delivered_bits_per_second", "lists", Value::BitRate(bits));
    let wire = wire_bits(design, outcome);
    section.add("wire_bits_per_second", "on the line", Value::BitRate(ratio(wire, seconds)));
    section
}

/// What found room, and what the line needs beside it.
fn wire_bits(design: &Design, outcome: &Outcome) -> f64 {
    let line = &outcome.line;
    let packets = line.arrived - line.refused - line.overflowed;
    (line.bytes + packets * design.wire_overhead_bytes) as f64 * 8.0
}

fn busy(design: &Design, outcome: &Outcome) -> Section {
    let seconds = outcome.ended.as_secs_f64();
    let cycles = seconds * design.core.hz() as f64;
    let core = (outcome.cycles.busy + outcome.cycles.bubbles) as f64;
    let words = (outcome.unit.words * design.cycles_per_word) as f64;
    let mut shares = vec![
        ("core_busy", "core, instructions and branches", ratio(core, cycles)),
        ("dma_busy", "DMA and bus", ratio(words / design.dma.hz() as f64, seconds)),
    ];
    if let Some(rate) = design.line_bits_per_second {
        let wire = wire_bits(design, outcome) / rate as f64;
        shares.push(("line_busy", "line", ratio(wire, seconds)));
    }
    let stalled = ratio(outcome.cycles.stalled as f64, cycles);
    limits(&shares, &[("core_stalled", "core, waiting for bus, CAM or DMA", stalled)])
}
