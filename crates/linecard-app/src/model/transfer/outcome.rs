//! Outcome of a transfer.

use super::spec::{Spec, mode_name};
use crate::Error;
use linecard_config::ConfigError;
use linecard_report::{BitRate, ByteCount, Named, Nanoseconds, Share};
use linecard_transfer::fec::Repair;
use linecard_transfer::layout::LayoutError;
use linecard_transfer::sim::SimOutcome;
use schemars::JsonSchema;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, JsonSchema)]
pub struct TransferOutcome {
    /// The transfer
    pub summary: Summary,
    /// Latency of a chunk, from its first packet to the news that it is whole
    pub chunk_latency: Latency,
    /// Packets
    pub packets: Packets,
    /// Bytes on the lines
    pub lanes: Named<ByteCount>,
    /// Of each chunk, in nanoseconds.
    #[serde(skip)]
    pub latencies_ns: Vec<u64>,
    #[serde(skip)]
    title: String,
}

/// The transfer.
#[derive(Debug, Clone, PartialEq, serde::Serialize, JsonSchema)]
pub struct Summary {
    /// virtual time
    pub virtual_ns: Nanoseconds,
    /// data
    pub bytes: ByteCount,
    /// goodput
    pub goodput_bits_per_second: BitRate,
    /// framing bound
    pub framing_bound_bits_per_second: BitRate,
    /// the same with repair
    pub repair_bound_bits_per_second: Option<BitRate>,
    /// management overhead, per cent
    pub management_overhead_percent: f64,
    /// a packet through the devices of both ends
    pub device_trips_ns: Option<Nanoseconds>,
    /// time that a device computes
    pub device_busy: Option<Share>,
}

/// Latency of a chunk.
#[derive(Debug, Clone, PartialEq, serde::Serialize, JsonSchema)]
pub struct Latency {
    /// least
    pub min_ns: Nanoseconds,
    /// median
    pub p50_ns: Nanoseconds,
    /// most
    pub max_ns: Nanoseconds,
}

/// Packets.
#[derive(Debug, Clone, PartialEq, serde::Serialize, JsonSchema)]
pub struct Packets {
    /// sent, data and repair
    pub sent: u64,
    /// lost by lanes, probes included
    pub lost: u64,
    /// overtaken
    pub reordered: u64,
    /// sent again because one was lost
    pub resent: u64,
    /// sent twice to be there sooner
    pub duplicates: u64,
    /// repair packets sent
    pub repair: Option<u64>,
    /// groups repaired
    pub groups_repaired: u64,
    /// arrived without need
    pub repeated: u64,
    /// acknowledgments
    pub acks: u64,
}

impl linecard_report::Outcome for TransferOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "summary").then(|| self.title.clone())
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        (section == "lanes").then(|| key.trim_end_matches("_bytes").replace('_', " "))
    }

    fn notes(&self) -> Vec<String> {
        let note = "Virtual time: sender and receiver are the real code, the lanes are simulated, \
             and packets are counted without their bytes. Management overhead is 1 - goodput / \
             framing bound; repair, where there is any, is part \
                    of the bound.";
        vec![note.to_owned()]
    }
}

impl TransferOutcome {
    pub(super) fn new(spec: &Spec, outcome: &SimOutcome) -> Result<Self, Error> {
        let latencies_ns = outcome.latencies_ns.clone();
        let of = |ns: Option<u64>| Nanoseconds(ns.unwrap_or(0) as f64);
        let lanes = outcome.lanes.iter().enumerate();
        let lanes =
            lanes.map(|(index, lane)| (format!("lane_{index}_bytes"), ByteCount(lane.line_bytes)));
        Ok(Self {
            summary: Summary::new(spec, outcome)
                .map_err(|error| ConfigError::of_parameter("chunk.count", error))?,
            chunk_latency: Latency {
                min_ns: of(latencies_ns.iter().copied().min()),
                p50_ns: of(Some(outcome.median_latency_ns())),
                max_ns: of(latencies_ns.iter().copied().max()),
            },
            packets: Packets::new(outcome),
            lanes: Named(lanes.collect()),
            latencies_ns,
            title: title(spec),
        })
    }
}

fn title(spec: &Spec) -> String {
    let fec = match spec.fec {
        Repair::Auto => "repair as it pays".to_owned(),
        fec if fec == Repair::default() => "no repair".to_owned(),
        fec => fec.to_string(),
    };
    let s = |count: u64| if count == 1 { "" } else { "s" };
    let rates = &spec.rates_bits_per_second;
    let rate = |rate: Option<&u64>| {
        linecard_report::Value::BitRate(rate.map_or(0.0, |rate| *rate as f64)).to_string()
    };
    let (least, most) = (rate(rates.iter().min()), rate(rates.iter().max()));
    format!(
        "{} chunk{} of {} bytes over {} lane{} of {} in virtual time, {}, {fec}, seed {}",
        spec.chunks,
        s(spec.chunks),
        spec.chunk_bytes,
        rates.len(),
        s(rates.len() as u64),
        if least == most { most } else { format!("{least} to {most}") },
        mode_name(spec.mode),
        spec.seed
    )
}

impl Summary {
    fn new(spec: &Spec, outcome: &SimOutcome) -> Result<Self, LayoutError> {
        let goodput_bits_per_second = outcome.goodput_bits_per_second();
        let bound_bits_per_second = spec.repair_bound_bits_per_second()?;
        Ok(Self {
            virtual_ns: Nanoseconds(outcome.end.as_ns() as f64),
            bytes: ByteCount(outcome.bytes),
            goodput_bits_per_second: BitRate(goodput_bits_per_second),
            framing_bound_bits_per_second: BitRate(spec.framing_bound_bits_per_second()?),
            repair_bound_bits_per_second: (spec.fec.least_overhead() > 0.0)
                .then_some(BitRate(bound_bits_per_second)),
            management_overhead_percent: (1.0 - goodput_bits_per_second / bound_bits_per_second)
                * 100.0,
            device_trips_ns: spec.device_trips_ns().map(|ns| Nanoseconds(ns as f64)),
            device_busy: spec
                .device
                .map(|_| Share(outcome.device_busy_ns as f64 / outcome.end.as_ns().max(1) as f64)),
        })
    }
}

impl Packets {
    fn new(outcome: &SimOutcome) -> Self {
        Self {
            sent: outcome.lanes.iter().map(|lane| lane.packets).sum(),
            lost: outcome.links.iter().map(|link| link.lost).sum(),
            reordered: outcome.links.iter().map(|link| link.reordered).sum(),
            resent: outcome.send.resent,
            duplicates: outcome.send.duplicates,
            repair: (outcome.send.repair > 0).then_some(outcome.send.repair),
            groups_repaired: outcome.receive.repaired,
            repeated: outcome.receive.repeated,
            acks: outcome.receive.acks,
        }
    }
}
