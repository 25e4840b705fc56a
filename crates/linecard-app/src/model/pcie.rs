//! A PCI Express link and the load of a network interface on it: [`linecard_model::pcie`].
//!
//! A closed form, and a simulation of reads that must agree with it: nothing is dropped or held.

use super::account::{draw_busy, limit, word};
use super::error::ModelError;
use crate::{Context, Error, Job};
use linecard_config::ConfigError;
use linecard_model::Ps;
use linecard_model::pcie::{
    Config, Generation, Link, Nic, Reads, ethernet_needs_bits_per_second, fewest_lanes,
    reads_in_flight, simulate_reads,
};
use linecard_report::{Axis, BitRate, Item, Ledger, Nanoseconds, Page, Share, Unit};
use schemars::JsonSchema;
use serde::Serialize;

/// Ethernet rates that links are computed for.
const ETHERNETS: [(u64, &str); 7] = [
    (10_000_000_000, "10G"),
    (40_000_000_000, "40G"),
    (100_000_000_000, "100G"),
    (200_000_000_000, "200G"),
    (400_000_000_000, "400G"),
    (800_000_000_000, "800G"),
    (1_600_000_000_000, "1600G"),
];
/// Of a frame, stays on the device.
const CRC: u64 = 4;
/// Simulation and closed form agree within this, or the model is wrong.
const TOLERANCE: f64 = 0.01;
/// Reads that are simulated with each tag: where a round trip is long, they come in bursts of all tags.
const READS_PER_TAG: u32 = 400;

/// The job.
#[derive(Debug)]
pub struct PcieModel;

/// The outcome.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PcieOutcome {
    /// Bandwidth
    pub bandwidth: Bandwidth,
    /// Interfaces, both ways at once, and the fastest Ethernet that they fill
    pub interfaces: Vec<Interface>,
    /// Reads
    pub reads: ReadRates,
    /// Fewest lanes for Ethernet both ways, gen1 to gen7, MPS 256 and MRRS 512
    pub fewest_lanes: Vec<Fewest>,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    reads_title: String,
}

/// Capacity of the link.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bandwidth {
    /// raw, each way
    pub raw_bits_per_second: BitRate,
    /// for transactions
    pub tlp_bits_per_second: BitRate,
    /// writes of frames
    pub write_bits_per_second: BitRate,
    /// reads of frames
    pub read_bits_per_second: BitRate,
    /// the interface, both ways at once
    pub nic_bits_per_second: BitRate,
}

/// An interface by its name.
pub type Interface = Item<Carried>;

/// Capacity of an interface.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Carried {
    /// both ways at once
    pub bits_per_second: BitRate,
    /// the fastest Ethernet that it fills
    pub ethernet: String,
}

/// Reads over the round trip, in closed form and simulated.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReadRates {
    /// round trip
    pub round_trip_ns: Nanoseconds,
    /// data read
    pub bits_per_second: BitRate,
    /// the same, simulated
    pub simulated_bits_per_second: BitRate,
    /// capacity of the link
    pub link_bits_per_second: BitRate,
    /// reads in flight needed for that
    pub needed_in_flight: u64,
    /// limit of reads
    pub limit: String,
}

/// An Ethernet by its rate.
pub type Fewest = Item<Lanes>;

/// The fewest lanes of each generation; none where 32 are too few.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Lanes {
    /// gen1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen1: Option<u32>,
    /// gen2
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen2: Option<u32>,
    /// gen3
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen3: Option<u32>,
    /// gen4
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen4: Option<u32>,
    /// gen5
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen5: Option<u32>,
    /// gen6
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen6: Option<u32>,
    /// gen7
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen7: Option<u32>,
}

/// Shares of the time at the interface's highest rate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Busy {
    /// the link from device to host
    pub up_busy: Share,
    /// the link from host to device
    pub down_busy: Share,
    /// bottleneck
    pub limit: String,
}

impl Job for PcieModel {
    const NAME: &'static str = "pcie";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = PcieOutcome;

    fn validate(config: &Config) -> Result<(), ConfigError> {
        config.link().map(drop)
    }

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn draw(outcome: &PcieOutcome, page: &mut Page) {
        draw_busy(outcome, &outcome.busy.limit, page);
        let title = "What an interface carries on this link, both ways at once";
        let mut carried = Ledger::new("interfaces", title, Axis::new("rate", Unit::BitRate));
        carried.whole(outcome.bandwidth.tlp_bits_per_second.0);
        for Item { label, value } in &outcome.interfaces {
            carried.cause(label, value.bits_per_second.0, None);
        }
        page.chart(carried);
    }

    fn run(config: &Config, _: &Context<'_>) -> Result<PcieOutcome, Error> {
        let link = config.link()?;
        let frame = config.load.frame;
        Ok(PcieOutcome {
            bandwidth: Bandwidth::new(config, &link),
            interfaces: Nic::ALL.map(|nic| interface(nic, &link, frame)).into(),
            reads: ReadRates::new(&config.reads, &link),
            fewest_lanes: ETHERNETS.map(|of| fewest(of, config.nic.kind, frame)).into(),
            busy: Busy::new(config, &link),
            title: format!(
                "{:?} x{}, MPS {}, MRRS {}, frames of {frame} bytes",
                config.link.generation, config.link.lanes, config.link.mps, config.link.mrrs,
            ),
            reads_title: format!(
                "Reads of {} bytes, {} open at most",
                config.reads.bytes, config.reads.tags
            ),
        })
    }

    fn check(outcome: &PcieOutcome) -> Result<(), Error> {
        let ReadRates { bits_per_second: BitRate(bps), simulated_bits_per_second, .. } =
            outcome.reads;
        let BitRate(simulated) = simulated_bits_per_second;
        if (simulated / bps - 1.0).abs() <= TOLERANCE {
            return Ok(());
        }
        Err(ModelError::Reads {
            closed_form_bits_per_second: bps,
            simulated_bits_per_second: simulated,
        }
        .into())
    }
}

impl linecard_report::Outcome for PcieOutcome {
    fn title(&self, section: &str) -> Option<String> {
        match section {
            "bandwidth" => Some(self.title.clone()),
            "reads" => Some(self.reads_title.clone()),
            _ => None,
        }
    }

    fn item(&self, section: &str, index: usize) -> Option<String> {
        let fewest = self.fewest_lanes.get(index).filter(|_| section == "fewest_lanes")?;
        let shown = fewest.value.all().map(|lanes| match lanes {
            Some(lanes) => format!("{:>6}", format!("x{lanes}")),
            None => format!("{:>6}", "none"),
        });
        Some(shown.concat())
    }

    fn notes(&self) -> Vec<String> {
        let note = "A closed form: nothing is dropped or held. Utilisation is given at the \
             interface's highest rate.";
        vec![note.to_owned()]
    }
}

impl Bandwidth {
    fn new(config: &Config, link: &Link) -> Self {
        let bytes = config.load.frame - CRC;
        Self {
            raw_bits_per_second: BitRate(link.raw_bits_per_second() as f64),
            tlp_bits_per_second: BitRate(link.tlp_bits_per_second() as f64),
            write_bits_per_second: BitRate(link.data_bits_per_second(bytes, link.write(bytes))),
            read_bits_per_second: BitRate(link.data_bits_per_second(bytes, link.read(bytes))),
            nic_bits_per_second: BitRate(config.nic.kind.bps(link, bytes)),
        }
    }
}

fn interface(nic: Nic, link: &Link, frame: u64) -> Interface {
    let bps = nic.bps(link, frame - CRC);
    let fills =
        |(ethernet, _): &&(u64, &str)| bps >= ethernet_needs_bits_per_second(*ethernet, frame);
    let ethernet = ETHERNETS.iter().rev().find(fills).map_or("none", |(_, name)| *name);
    let value = Carried { bits_per_second: BitRate(bps), ethernet: ethernet.to_owned() };
    Interface { label: word(nic), value }
}

impl ReadRates {
    fn new(reads: &Reads, link: &Link) -> Self {
        let bytes = u64::from(reads.bytes);
        let traffic = link.read(bytes).and(link.write(reads.written.into()));
        let limit = link.data_bits_per_second(bytes, traffic);
        let on_link = Ps::of_bits((traffic.up + traffic.down) * 8, link.tlp_bits_per_second());
        let round_trip = Ps::from(reads.latency) + on_link;
        let bps = reads.bps(link);
        let simulated = simulate_reads(link, reads, READS_PER_TAG * reads.tags);
        Self {
            round_trip_ns: Nanoseconds(round_trip.0 as f64 / 1e3),
            bits_per_second: BitRate(bps),
            simulated_bits_per_second: BitRate(simulated),
            link_bits_per_second: BitRate(limit),
            needed_in_flight: reads_in_flight(limit as u64, round_trip, reads.bytes),
            limit: if bps < limit { "requests in flight" } else { "link" }.to_owned(),
        }
    }
}

/// With sizes of packets as published.
fn fewest((bps, name): (u64, &str), nic: Nic, frame: u64) -> Fewest {
    let lanes = Generation::ALL.map(|generation| fewest_lanes(generation, nic, bps, frame));
    let [gen1, gen2, gen3, gen4, gen5, gen6, gen7] = lanes;
    Fewest { label: name.to_owned(), value: Lanes { gen1, gen2, gen3, gen4, gen5, gen6, gen7 } }
}

impl Lanes {
    const fn all(&self) -> [Option<u32>; 7] {
        [self.gen1, self.gen2, self.gen3, self.gen4, self.gen5, self.gen6, self.gen7]
    }
}

impl Busy {
    fn new(config: &Config, link: &Link) -> Self {
        let traffic = config.nic.kind.traffic(link, config.load.frame - CRC);
        let most = traffic.up.max(traffic.down).max(1) as f64;
        let (up, down) = (traffic.up as f64 / most, traffic.down as f64 / most);
        let limit =
            limit(&[("the link from device to host", up), ("the link from host to device", down)]);
        Self { up_busy: Share(up), down_busy: Share(down), limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use linecard_config::Duration;
    use std::sync::Arc;

    /// Whatever is asked within the ranges of the parameters.
    #[test]
    fn reads_are_as_simulated() {
        let mut rng = Rng::new(7);
        for _ in 0..100 {
            let mut config = Config::default();
            let link = &mut config.link;
            link.mrrs = 128 << rng.below(6);
            link.generation = Generation::ALL[rng.below(7) as usize];
            link.lanes = 1 << rng.below(6);
            link.mps = 128 << rng.below(6);
            link.completion = 64 << rng.below(u64::from(link.mps.ilog2()) - 5);
            config.reads = Reads {
                tags: 1 + rng.below(1_024) as u32,
                bytes: 1 + rng.below(link.mrrs.into()) as u32,
                latency: Duration::from_ns(1 + rng.below(1_000_000)),
                written: rng.below(65_537) as u32,
            };
            let outcome = PcieModel::run(&config, &Context::new(&Arc::default())).expect("a run");
            assert!(PcieModel::check(&outcome).is_ok(), "{config:?}: {:?}", outcome.reads);
        }
    }
}
