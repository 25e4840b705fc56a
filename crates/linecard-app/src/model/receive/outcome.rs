//! The outcome of a run of the receiving side.

use super::super::account::{Conserved, limit, ratio};
use super::{Config, ReceiveModel};
use crate::Job;
use linecard_model::receive::{Design, ReceiveResults};
use linecard_model::transmit::Cells;
use linecard_report::{BitRate, Item, Nanoseconds, Share};
use schemars::JsonSchema;
use serde::Serialize;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReceiveOutcome {
    /// Packets and lists
    pub account: Account,
    /// Core cycles of a packet on average
    pub classes: Vec<Class>,
    /// Rates
    pub rates: Rates,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    #[serde(skip)]
    title: String,
    /// Whether every list was right, and every packet counted.
    #[serde(skip)]
    pub(super) is_right: bool,
}

/// Packets: in is out, dropped and held together; and the lists that they became.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// In, out, dropped and held.
    #[serde(flatten)]
    pub conserved: Conserved,
    /// dropped: no sound IPv4, or too long
    pub refused: u64,
    /// dropped: no room in the receive buffer
    pub overflowed: u64,
    /// dropped: given up by the firmware
    pub given_up: u64,
    /// lists that the host has
    pub lists: u64,
    /// packets in lists that are right
    pub packets_right: u64,
    /// packets in lists that are wrong
    pub packets_wrong: u64,
    /// lookups in the CAM
    pub lookups: u64,
    /// keys found there
    pub hits: u64,
    /// keys not inserted: the CAM was full
    pub cam_overflows: u64,
    /// virtual time
    pub ns: Nanoseconds,
    /// hash of all lists
    pub hash: String,
}

/// Packets of a class.
pub type Class = Item<ClassCycles>;

/// Cycles of a class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClassCycles {
    /// packets
    pub packets: u64,
    /// the fewest
    pub total_least: u64,
    /// on average
    pub total_mean: f64,
    /// the most
    pub total_most: u64,
    /// waited, on average
    pub idle_mean: f64,
}

/// Rates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// packets in a second
    pub packets_per_second: u64,
    /// lists
    pub delivered_bits_per_second: BitRate,
    /// on the line
    pub wire_bits_per_second: BitRate,
}

/// Shares of the time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Busy {
    /// core, instructions and branches
    pub core_busy: Share,
    /// DMA and bus
    pub dma_busy: Share,
    /// line
    pub line_busy: Option<Share>,
    /// core, waiting for bus, CAM or DMA
    pub core_stalled: Share,
    /// bottleneck
    pub limit: String,
}

impl linecard_report::Outcome for ReceiveOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "account").then(|| self.title.clone())
    }

    fn item(&self, _: &str, index: usize) -> Option<String> {
        let ClassCycles { packets, total_mean, idle_mean, .. } = self.classes.get(index)?.value;
        Some(format!("{total_mean:.1} total, {idle_mean:.1} of them waited ({packets} packets)"))
    }

    fn notes(&self) -> Vec<String> {
        let note = "Every list that the host has holds the payload of the packets that came.";
        ReceiveModel::check(self).map_or(Vec::new(), |()| vec![note.to_owned()])
    }
}

impl ReceiveOutcome {
    pub(super) fn new(config: &Config, design: &Design, outcome: &ReceiveResults) -> Self {
        let title = format!(
            "A core at {} MHz, DMA at {} MHz, bus of {} bits, {} CAM entries, MTU {}, firmware {}",
            design.core.hz() as f64 / 1e6,
            design.dma.hz() as f64 / 1e6,
            design.bus_bits,
            design.cam_entries,
            config.load.mtu(),
            config.firmware.image,
        );
        let classes = [
            ("SSM", &outcome.ssm),
            ("BOM", &outcome.bom),
            ("COM", &outcome.com),
            ("EOM", &outcome.eom),
        ];
        Self {
            account: Account::new(outcome),
            classes: classes.into_iter().filter_map(class).collect(),
            rates: Rates::new(design, outcome),
            busy: Busy::new(design, outcome),
            title,
            is_right: outcome.is_balanced() && outcome.wrong == 0,
        }
    }
}

impl Account {
    fn new(outcome: &ReceiveResults) -> Self {
        let ReceiveResults { line, unit, .. } = outcome;
        Self {
            conserved: Conserved {
                came: line.arrived,
                went: outcome.delivered,
                dropped: line.refused + line.overflowed + unit.given_up,
                held: outcome.held,
            },
            refused: line.refused,
            overflowed: line.overflowed,
            given_up: unit.given_up,
            lists: outcome.messages,
            packets_right: outcome.right,
            packets_wrong: outcome.wrong,
            lookups: unit.lookups,
            hits: unit.hits,
            cam_overflows: unit.cam_overflows,
            ns: Nanoseconds(outcome.ended.0 as f64 / 1e3),
            hash: format!("{:016x}", outcome.hash),
        }
    }
}

fn class((name, cells): (&str, &Cells)) -> Option<Class> {
    let Cells { packets, idle, range, .. } = *cells;
    let (total_least, total_most) = range?;
    let idle_mean = ratio(idle as f64, packets as f64);
    let total_mean = cells.mean();
    let value = ClassCycles { packets, total_least, total_mean, total_most, idle_mean };
    Some(Class { label: name.to_owned(), value })
}

impl Rates {
    fn new(design: &Design, outcome: &ReceiveResults) -> Self {
        let seconds = outcome.ended.as_secs_f64();
        let delivered = ratio(outcome.bytes as f64 * 8.0, seconds);
        Self {
            packets_per_second: ratio(outcome.delivered as f64, seconds) as u64,
            delivered_bits_per_second: BitRate(delivered),
            wire_bits_per_second: BitRate(ratio(wire_bits(design, outcome), seconds)),
        }
    }
}

/// Packets that found room, and the overhead of the line.
fn wire_bits(design: &Design, outcome: &ReceiveResults) -> f64 {
    let line = &outcome.line;
    let packets = line.arrived - line.refused - line.overflowed;
    (line.bytes + packets * design.wire_overhead_bytes) as f64 * 8.0
}

impl Busy {
    fn new(design: &Design, outcome: &ReceiveResults) -> Self {
        let seconds = outcome.ended.as_secs_f64();
        let cycles = seconds * design.core.hz() as f64;
        let core = ratio((outcome.cycles.busy + outcome.cycles.bubbles) as f64, cycles);
        let words = (outcome.unit.words * design.cycles_per_word) as f64;
        let dma = ratio(words / design.dma.hz() as f64, seconds);
        let line = design
            .line_bits_per_second
            .map(|rate| ratio(wire_bits(design, outcome) / rate as f64, seconds));
        let mut shares = vec![("core, instructions and branches", core), ("DMA and bus", dma)];
        shares.extend(line.map(|share| ("line", share)));
        Self {
            core_busy: Share(core),
            dma_busy: Share(dma),
            line_busy: line.map(Share),
            core_stalled: Share(ratio(outcome.cycles.stalled as f64, cycles)),
            limit: limit(&shares),
        }
    }
}
