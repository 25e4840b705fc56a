//! A PCI Express link and what a network interface asks of it: [`linecard_model::pcie`].
//!
//! A closed form, beside a simulation of reads that has to agree: nothing is dropped or held.

use super::super::key::{Key, Kind};
use super::super::scenario::Scenario;
use super::super::values::word;
use super::{Model, Ran, limits, number, time};
use crate::failure::Failure;
use linecard_model::Ps;
use linecard_model::pcie::{
    Generation, Link, LinkError, Nic, Reads, ethernet_needs_bps, fewest_lanes, reads_in_flight,
    simulate_reads,
};
use linecard_report::{Report, Section, Value};

const GENERATIONS: [(&str, Generation); 6] = [
    ("gen1", Generation::Gen1),
    ("gen2", Generation::Gen2),
    ("gen3", Generation::Gen3),
    ("gen4", Generation::Gen4),
    ("gen5", Generation::Gen5),
    ("gen6", Generation::Gen6),
];
const NICS: [(&str, Nic); 3] =
    [("simple", Nic::Simple), ("kernel", Nic::Kernel), ("polled", Nic::Polled)];
/// Ethernet that links are asked for.
const ETHERNETS: [(u64, &str); 6] = [
    (10_000_000_000, "10G"),
    (40_000_000_000, "40G"),
    (100_000_000_000, "100G"),
    (200_000_000_000, "200G"),
    (400_000_000_000, "400G"),
    (800_000_000_000, "800G"),
];
/// Of a frame, stays on the device.
const CRC: u64 = 4;
/// Simulation and closed form agree within this, or the model is wrong.
const TOLERANCE: f64 = 0.01;
/// Reads that are simulated with each tag: where a round trip is long, they come in bursts of all tags.
const READS_PER_TAG: u32 = 400;

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    generation: Generation,
    lanes: u32,
    max_payload: u32,
    max_read: u32,
    completion: u32,
    nic: Nic,
    frame: u64,
    reads: Reads,
}

impl Default for Settings {
    /// The link of the paper.
    fn default() -> Self {
        Self {
            generation: Generation::Gen3,
            lanes: 8,
            max_payload: 256,
            max_read: 512,
            completion: 256,
            nic: Nic::Polled,
            frame: 1_518,
            reads: Reads { tags: 64, bytes: 512, latency: Ps::from_ns(500), written: 0 },
        }
    }
}

impl Kind for Settings {
    const NAME: &'static str = "pcie";
    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "link.generation",
            what: "\"gen1\" to \"gen6\" [gen3]",
            set: |to, text| word(text, &GENERATIONS).map(|one| to.generation = one),
        },
        number!("link.lanes", lanes, 1 to 32, 8, "lanes, a power of two"),
        number!("link.mps", max_payload, 128 to 4096, 256,
            "bytes of a packet's payload (MPS), a power of two"),
        number!("link.mrrs", max_read, 128 to 4096, 512,
            "bytes of a read request (MRRS), a power of two"),
        number!("link.completion", completion, 64 to 4096, 256,
            "bytes of a completion, a power of two: MPS at most"),
        Key {
            name: "nic.kind",
            what: "pointers and an interrupt for each packet (\"simple\"), batches with a \"kernel\" \
                   driver, or with one that polls (\"polled\") [polled]",
            set: |to, text| word(text, &NICS).map(|nic| to.nic = nic),
        },
        number!("load.frame", frame, 64 to 65535, 1518, "bytes of an Ethernet frame, CRC included"),
        number!("reads.tags", reads.tags, 1 to 1024, 64, "requests that may be open"),
        number!("reads.bytes", reads.bytes, 1 to 4096, 512, "bytes of a request: MRRS at most"),
        time!("reads.latency", reads.latency, "1ns" to "1ms", "500ns",
            "from a request at the host to its first completion"),
        number!("reads.written", reads.written, 0 to 65536, 0,
            "bytes that the device writes with each request"),
    ];
}

impl Settings {
    fn link(&self) -> Result<Link, LinkError> {
        let link = Link::new(self.generation, self.lanes)?;
        link.with_sizes(self.max_payload, self.max_read, self.completion)
    }
}

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let settings = &scenario.settings;
        let link = settings.link().map_err(|error| {
            let key = match error {
                LinkError::Lanes(_) => "link.lanes",
                LinkError::Size { name: "MPS", .. } => "link.mps",
                LinkError::Size { name: "MRRS", .. } => "link.mrrs",
                LinkError::Size { .. } => "link.completion",
            };
            scenario.refuse(key, &error.to_string())
        })?;
        if settings.reads.bytes > settings.max_read {
            let (bytes, most) = (settings.reads.bytes, settings.max_read);
            let what = format!("{bytes} bytes in a request: choose up to the link's MRRS, {most}");
            return Err(scenario.refuse("reads.bytes", &what));
        }
        Ok(report(settings, &link))
    }
}

fn report(settings: &Settings, link: &Link) -> Ran {
    let mut report = Report::new("model");
    report.push(bandwidth(settings, link));
    report.push(interfaces(settings, link));
    let (reads, wrong) = reads(settings, link);
    report.push(reads);
    report.push(fewest(settings));
    let traffic = settings.nic.traffic(link, settings.frame - CRC);
    let most = traffic.up.max(traffic.down).max(1) as f64;
    report.push(limits(
        &[
            ("up_busy", "the link from device to host", traffic.up as f64 / most),
            ("down_busy", "the link from host to device", traffic.down as f64 / most),
        ],
        &[],
    ));
    report.note(
        "A closed form: nothing is dropped or held. What is busy is so at the interface's highest rate.",
    );
    Ran { report, wrong }
}

fn bandwidth(settings: &Settings, link: &Link) -> Section {
    let bytes = settings.frame - CRC;
    let title = format!(
        "{:?} x{}, MPS {}, MRRS {}, frames of {} bytes",
        settings.generation,
        settings.lanes,
        settings.max_payload,
        settings.max_read,
        settings.frame
    );
    let mut section = Section::new("bandwidth", title);
    for (key, label, bps) in [
        ("raw_bits_per_second", "raw, each way", link.raw_bps() as f64),
        ("tlp_bits_per_second", "for transactions", link.tlp_bps() as f64),
        ("write_bits_per_second", "writes of frames", link.data_bps(bytes, link.write(bytes))),
        ("read_bits_per_second", "reads of frames", link.data_bps(bytes, link.read(bytes))),
        ("nic_bits_per_second", "the interface, both ways at once", settings.nic.bps(link, bytes)),
    ] {
        section.add(key, label, Value::BitRate(bps));
    }
    section
}

/// Each interface, and the fastest Ethernet that it fills.
fn interfaces(settings: &Settings, link: &Link) -> Section {
    let title = "Interfaces, both ways at once, and the fastest Ethernet that they fill";
    let mut section = Section::list("interfaces", title);
    for (name, nic) in NICS {
        let bps = nic.bps(link, settings.frame - CRC);
        let fills =
            |(ethernet, _): &&(u64, &str)| bps >= ethernet_needs_bps(*ethernet, settings.frame);
        let ethernet = ETHERNETS.iter().rev().find(fills).map_or("none", |(_, name)| *name);
        let text = format!("{}, {ethernet}", Value::BitRate(bps));
        let fields = vec![
            ("bits_per_second", Value::BitRate(bps)),
            ("ethernet", Value::Text(ethernet.to_owned())),
        ];
        section.add("", name, Value::Fields(text, fields));
    }
    section
}

/// Reads over the round trip, in closed form and simulated.
fn reads(settings: &Settings, link: &Link) -> (Section, Option<String>) {
    let reads = &settings.reads;
    let bytes = u64::from(reads.bytes);
    let written = match reads.written {
        0 => link.write(0),
        written => link.write(written.into()),
    };
    let traffic = link.read(bytes).and(written);
    let limit = link.data_bps(bytes, traffic);
    let on_link = Ps::of_bits((traffic.up + traffic.down) * 8, link.tlp_bps());
    let round_trip = reads.latency + on_link;
    let (bps, simulated) =
        (reads.bps(link), simulate_reads(link, reads, READS_PER_TAG * reads.tags));
    let title = format!("Reads of {bytes} bytes, {} open at most", reads.tags);
    let mut section = Section::new("reads", title);
    section.add("round_trip_ns", "round trip", Value::Ns(round_trip.0 as f64 / 1e3));
    section.add("bits_per_second", "data read", Value::BitRate(bps));
    section.add("simulated_bits_per_second", "the same, simulated", Value::BitRate(simulated));
    section.add("link_bits_per_second", "what the link carries", Value::BitRate(limit));
    let needed = reads_in_flight(limit as u64, round_trip, reads.bytes);
    section.add("needed_in_flight", "reads in flight needed for that", Value::Count(needed));
    let what = if bps < limit { "requests in flight" } else { "link" };
    section.add("limit", "what limits reads", Value::Text(what.to_owned()));
    let is_wrong = (simulated / bps - 1.0).abs() > TOLERANCE;
    let wrong = is_wrong.then(|| {
        format!("the model is wrong: {bps:.0} bit/s by the closed form, {simulated:.0} simulated")
    });
    (section, wrong)
}

/// The fewest lanes of each generation for each Ethernet, with sizes as published.
fn fewest(settings: &Settings) -> Section {
    let title = "Fewest lanes for Ethernet both ways, gen1 to gen6, MPS 256 and MRRS 512";
    let mut section = Section::list("fewest_lanes", title);
    for (bps, name) in ETHERNETS {
        let mut text = String::new();
        let mut fields = Vec::new();
        for (key, generation) in GENERATIONS {
            let lanes = fewest_lanes(generation, settings.nic, bps, settings.frame);
            let shown = lanes.map_or_else(|| "none".to_owned(), |lanes| format!("x{lanes}"));
            text += &format!("{shown:>6}");
            fields.extend(lanes.map(|lanes| (key, Value::Count(lanes.into()))));
        }
        section.add("", name, Value::Fields(text, fields));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<Settings>();
    }

    /// Whatever is asked within the keys' ranges.
    #[test]
    fn reads_are_as_simulated() {
        let mut rng = Rng::new(7);
        for _ in 0..100 {
            let max_read = 128 << rng.below(6);
            let settings = Settings {
                generation: Generation::ALL[rng.below(6) as usize],
                lanes: 1 << rng.below(6),
                max_payload: 128 << rng.below(6),
                max_read,
                completion: 64 << rng.below(7),
                reads: Reads {
                    tags: 1 + rng.below(1_024) as u32,
                    bytes: 1 + rng.below(max_read.into()) as u32,
                    latency: Ps::from_ns(1 + rng.below(1_000_000)),
                    written: rng.below(65_537) as u32,
                },
                ..Settings::default()
            };
            let link = settings.link().unwrap();
            let (_, wrong) = reads(&settings, &link);
            assert_eq!(wrong, None, "{settings:?}");
        }
    }
}
