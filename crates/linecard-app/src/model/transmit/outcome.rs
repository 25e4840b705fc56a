//! The outcome of a run of the sending side.

use super::Config;
use super::annotate::{Function, Line};
use super::figures::{ClassFigures, Figures};
use linecard_model::transmit::{BusPolicy, Mismatch};
use linecard_report::{BitRate, ByteCount, Item, Nanoseconds, Outcome, Share, Value};
use schemars::JsonSchema;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

/// The outcome of a run.
#[derive(Debug, Clone, serde::Serialize, JsonSchema)]
pub struct TransmitOutcome {
    /// The system, its input and its output
    pub account: Account,
    /// Core cycles of a packet; least/mean/most where they differ
    pub classes: Vec<Class>,
    /// Rates
    pub rates: Rates,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    /// Over phases of the DMA's clock: least, typical, most
    pub phases: Vec<OverPhases>,
    /// Cycles by function of the firmware: busy, waiting, behind branches; share of all
    pub functions: Vec<Function>,
    /// Cycles by line of the firmware: busy, waiting, behind branches; share of all, function, source
    pub lines: Vec<Line>,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    line_rate: Option<u64>,
    #[serde(skip)]
    phases_run: usize,
    #[serde(skip)]
    hazards: u64,
    /// The first packet that is wrong.
    #[serde(skip)]
    pub(super) mismatch: Option<Mismatch>,
}

/// Input and output.
#[derive(Debug, Clone, serde::Serialize, JsonSchema)]
pub struct Account {
    /// messages
    pub messages: u64,
    /// payload in
    pub payload_in: ByteCount,
    /// payload out
    pub payload_out: ByteCount,
    /// packets, right
    pub packets_right: u64,
    /// packets, wrong or missing
    pub packets_wrong: u64,
    /// virtual time
    pub ns: Nanoseconds,
    /// hash of all that left
    pub hash: String,
}

/// Packets of a class.
#[derive(Debug, Clone, serde::Serialize, JsonSchema)]
pub struct Class {
    /// SSM, BOM, COM or EOM.
    pub label: &'static str,
    /// Their cycles.
    pub value: ClassCycles,
}

/// Cycles of a class, each as least, mean and most.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(transparent)]
pub struct ClassCycles(#[schemars(with = "BTreeMap<String, f64>")] pub ClassFigures);

/// Rates.
#[derive(Debug, Clone, serde::Serialize, JsonSchema)]
pub struct Rates {
    /// packets in a second
    pub packets_per_second: u64,
    /// core cycles of a packet
    pub cycles_per_packet: f64,
    /// payload
    pub goodput_bits_per_second: BitRate,
    /// on the line
    pub wire_bits_per_second: BitRate,
    /// share of the line's rate
    pub line_share: Option<Share>,
}

/// Shares of the time.
#[derive(Debug, Clone, serde::Serialize, JsonSchema)]
pub struct Busy {
    /// core, instructions
    pub core_busy: Share,
    /// core, waiting for bus, DMA or line
    pub core_stalled: Share,
    /// core, behind branches
    pub core_bubbles: Share,
    /// DMA and bus
    pub dma_busy: Share,
    /// line
    pub line_busy: Option<Share>,
}

/// A figure over all phases.
pub type OverPhases = Item<Phases>;

/// Least, typical and most of a figure.
#[derive(Debug, Clone, serde::Serialize, JsonSchema)]
pub struct Phases {
    /// the figure
    pub key: String,
    /// least
    pub least: f64,
    /// typical
    pub typical: f64,
    /// most
    pub most: f64,
}

impl Outcome for TransmitOutcome {
    fn title(&self, section: &str) -> Option<String> {
        match section {
            "account" => Some(self.title.clone()),
            "phases" => {
                let phases = self.phases_run;
                Some(format!("Over {phases} phases of the DMA's clock: least, typical, most"))
            }
            _ => None,
        }
    }

    fn label(&self, _: &str, key: &str) -> Option<String> {
        let rate = self.line_rate.filter(|_| key == "line_share")?;
        Some(format!("share of the line's {}", Value::BitRate(rate as f64)))
    }

    fn item(&self, section: &str, index: usize) -> Option<String> {
        match section {
            "classes" => self.classes.get(index).map(|class| class.value.text()),
            "phases" => self.phases.get(index).map(|figure| {
                let Phases { least, typical, most, .. } = figure.value;
                format!("{least:.2}  {typical:.2}  {most:.2}")
            }),
            "functions" => self.functions.get(index).map(|one| one.value.text.clone()),
            "lines" => self.lines.get(index).map(|line| line.value.text.clone()),
            _ => None,
        }
    }

    fn notes(&self) -> Vec<String> {
        let right = "Every packet that left equals the output of this project's offload for the \
             message.";
        let right = self.is_right().then(|| right.to_owned());
        let hazards = (self.hazards > 0).then(|| {
            format!(
                "{} headers were written while the DMA was moving them: real hardware may send either.",
                self.hazards
            )
        });
        right.into_iter().chain(hazards).collect()
    }
}

impl TransmitOutcome {
    /// Of runs at each phase, of which the first is the scenario's own.
    pub(super) fn new(config: &Config, runs: &[Figures]) -> Self {
        let figures = &runs[0];
        let class = |(label, class): (&'static str, &ClassFigures)| Class {
            label,
            value: ClassCycles(class.clone()),
        };
        Self {
            account: Account::new(figures),
            classes: figures.classes().map(class).collect(),
            rates: Rates::new(figures),
            busy: Busy::new(figures),
            phases: if runs.len() > 1 { over_phases(runs) } else { Vec::new() },
            functions: Vec::new(),
            lines: Vec::new(),
            title: title(config, figures),
            line_rate: figures.design.line_bits_per_second,
            phases_run: runs.len(),
            hazards: figures.hazards(),
            mismatch: figures.outcome.mismatch.clone(),
        }
    }

    /// Whether every packet was right, and all payload left.
    pub(super) fn is_right(&self) -> bool {
        let Account { payload_in, payload_out, packets_wrong, .. } = &self.account;
        *packets_wrong == 0 && payload_in == payload_out
    }
}

/// The system.
fn title(config: &Config, figures: &Figures) -> String {
    let mhz = |hz: u64| hz as f64 / 1e6;
    let design = &figures.design;
    format!(
        "{} core{} at {} MHz, DMA at {} MHz, bus of {} bits {}, MTU {}, firmware {}",
        design.cores,
        if design.cores == 1 { "" } else { "s" },
        mhz(design.core.hz()),
        mhz(design.dma.hz()),
        design.bus_bits,
        match design.policy {
            BusPolicy::Hold => "held by the DMA",
            BusPolicy::Interleave => "shared word by word",
            BusPolicy::DualPort => "with a port for each",
        },
        design.mtu,
        config.firmware.image,
    )
}

impl Account {
    fn new(figures: &Figures) -> Self {
        let (taken, moved) = figures.payload();
        let outcome = &figures.outcome;
        Self {
            messages: figures.messages(),
            payload_in: ByteCount(taken),
            payload_out: ByteCount(moved),
            packets_right: outcome.right,
            packets_wrong: outcome.wrong,
            ns: Nanoseconds(outcome.left.0 as f64 / 1e3),
            hash: format!("{:016x}", outcome.hash),
        }
    }
}

impl Rates {
    fn new(figures: &Figures) -> Self {
        Self {
            packets_per_second: figures.packets_per_second() as u64,
            cycles_per_packet: figures.cycles_per_packet(),
            goodput_bits_per_second: BitRate(figures.goodput()),
            wire_bits_per_second: BitRate(figures.wire_rate()),
            line_share: figures.line_share().map(Share),
        }
    }
}

impl Busy {
    fn new(figures: &Figures) -> Self {
        let [core_busy, core_stalled, core_bubbles] = figures.core_shares().map(Share);
        Self {
            core_busy,
            core_stalled,
            core_bubbles,
            dma_busy: Share(figures.dma_share()),
            line_busy: figures.line_share().map(Share),
        }
    }
}

impl ClassCycles {
    fn text(&self) -> String {
        let ClassFigures { packets, total, before, beside, idle } = &self.0;
        format!(
            "{} total: {} before the transfer, {} beside it, {} waited ({packets} packets)",
            total.text(),
            before.text(),
            beside.text(),
            idle.text()
        )
    }
}

impl Serialize for ClassCycles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ClassFigures { packets, total, before, beside, idle } = &self.0;
        let mut map = serializer.serialize_map(Some(13))?;
        map.serialize_entry("packets", packets)?;
        for (name, of) in [("total", total), ("before", before), ("beside", beside), ("idle", idle)]
        {
            map.serialize_entry(&format!("{name}_least"), &of.least)?;
            map.serialize_entry(&format!("{name}_mean"), &of.mean())?;
            map.serialize_entry(&format!("{name}_most"), &of.most)?;
        }
        map.end()
    }
}

/// Least, typical and most over the phases.
fn over_phases(runs: &[Figures]) -> Vec<OverPhases> {
    let over = |key: &str, label: String, of: &dyn Fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        let value = Phases { key: key.to_owned(), least, typical: values[values.len() / 2], most };
        OverPhases { label, value }
    };
    let mut all = vec![
        over("mpps", "million packets in a second".to_owned(), &|run| {
            run.packets_per_second() / 1e6
        }),
        over("goodput_gbps", "payload, Gbit/s".to_owned(), &|run| run.goodput() / 1e9),
    ];
    all.extend(runs[0].classes().map(|(name, _)| {
        over("cycles", format!("cycles of {name}"), &|run| {
            let mut classes = run.classes();
            classes.find(|(known, _)| *known == name).map_or(0.0, |(_, c)| c.total.mean())
        })
    }));
    all
}
