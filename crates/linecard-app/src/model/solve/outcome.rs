//! The answer to a line rate: clocks, and the link to the host.

use super::confirm::Side;
use linecard_report::{
    Axis, BitRate, ByteCount, Item, Ledger, Named, Nanoseconds, Outcome, Page, Share, Unit, Value,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The smallest interface that carries a line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SolveOutcome {
    /// Required rate
    pub demand: Demand,
    /// Cycles of the firmware, read off runs
    pub firmware: FirmwareCycles,
    /// The clocks, or what given clocks carry.
    #[serde(flatten)]
    pub answer: Answer,
    /// PCI Express that carries such packets both ways, polled driver
    pub host_link: HostLink,
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

impl SolveOutcome {
    /// The clock that other buses and numbers of cores need beside the one of the design, and cycles of packets.
    pub(super) fn draw(&self, page: &mut Page) {
        if let Some(headline) = self.headline() {
            page.headline(headline);
        }
        let mut cycles = Ledger::new(
            "cycles",
            "Core cycles of a full packet (COM)",
            Axis::new("cycles", Unit::Plain("")),
        );
        cycles.cause("before the transfer", self.firmware.com.before as f64, None);
        cycles.cause("beside the transfer", self.firmware.com.beside as f64, None);
        page.chart(cycles);
        let Some(clock) = &self.answer.core_clock else { return };
        let mut others = Ledger::new(
            "clocks",
            "Core clock from which every clock carries the line, by cores and bus",
            Axis::new("clock", Unit::Plain("MHz")),
        );
        others.whole(clock.from_mhz).cause("as asked", clock.from_mhz, None);
        for Item { label, value } in &self.answer.alternatives {
            if let Some(mhz) = value.from_mhz {
                others.cause(label, mhz, None);
            }
        }
        page.chart(others);
    }
}

impl SolveOutcome {
    /// The answer in a sentence.
    fn headline(&self) -> Option<String> {
        let rate = Value::BitRate(self.demand.rate.0);
        let of_clock = |name: &str, clock: &ClockAnswer| {
            let ClockAnswer { smallest_mhz, from_mhz, .. } = clock;
            format!(
                "A {name} clock of {smallest_mhz:.1} MHz carries {rate}, and every clock from {from_mhz:.1} MHz on."
            )
        };
        let Answer { core_clock, dma_clock, carried, .. } = &self.answer;
        let of_core = core_clock.as_ref().map(|clock| of_clock("core", clock));
        let of_dma = || dma_clock.as_ref().map(|clock| of_clock("DMA", clock));
        let of_given = || {
            let CarriedByGiven { by_run, enough, .. } = carried.as_ref()?;
            let (carried, word) = (Value::BitRate(by_run.0), if *enough { "" } else { "not " });
            Some(format!("These clocks carry {carried}: {word}enough for {rate}."))
        };
        of_core.or_else(of_dma).or_else(of_given)
    }
}

/// The required rate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Demand {
    /// line rate
    pub rate: BitRate,
    /// full packet on the line
    pub wire_bytes: ByteCount,
    /// full packets per second
    pub packets_per_second: f64,
    /// time for each
    pub ns_per_packet: Nanoseconds,
    /// messages
    pub messages: String,
}

/// Cycles by the place of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FirmwareCycles {
    /// SSM
    pub ssm: Cycles,
    /// BOM
    pub bom: Cycles,
    /// COM
    pub com: Cycles,
    /// EOM
    pub eom: Cycles,
}

/// Cycles of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Cycles {
    /// Before the DMA moves it.
    pub before: u64,
    /// While the DMA moves it.
    pub beside: u64,
}

/// The sections that depend on which clock was asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// The core's clock
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_clock: Option<ClockAnswer>,
    /// The DMA's clock
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dma_clock: Option<ClockAnswer>,
    /// Confirmed by runs of the firmware
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Confirmations>,
    /// The core's clock with other widths and cores, computed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Item<Alternative>>,
    /// Carried by these clocks
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<CarriedByGiven>,
    /// The smallest that suffices, all else as given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest: Option<Smallest>,
}

/// A clock that carries the line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClockAnswer {
    /// smallest, MHz
    pub smallest_mhz: f64,
    /// every clock from, MHz
    pub from_mhz: f64,
    /// smallest as computed, MHz
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form_smallest: Option<Correction>,
    /// every clock from, as computed, MHz
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form_from: Option<Correction>,
    /// Shares of work with it.
    #[serde(flatten)]
    pub utilisation: Utilisation,
}

/// The closed form's clock, where runs give another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Correction {
    /// As computed.
    pub mhz: f64,
    /// How far the clock that runs give is above it.
    pub off: Share,
}

/// For which share of its time each resource works.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Utilisation {
    /// core clock works for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_share: Option<Share>,
    /// DMA works for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dma_share: Option<Share>,
    /// limit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// Runs of the firmware beside the answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Confirmations {
    /// just below
    pub below: Confirmation,
    /// just above
    pub above: Confirmation,
}

/// A run of the firmware.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Confirmation {
    /// Its rate.
    pub carried: BitRate,
    /// Whether the clock beside it is the computed one.
    pub as_computed: bool,
    /// Its clock.
    #[serde(skip)]
    pub(super) run_mhz: f64,
}

/// The core's clock with another bus or number of cores.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// Cores.
    pub cores: usize,
    /// Width of the bus.
    pub bus_bits: u32,
    /// Every clock from this one carries the line; nothing where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_mhz: Option<f64>,
    /// Why there is no clock.
    #[serde(skip)]
    pub(super) obstacle: Option<String>,
}

/// The rate that given clocks carry.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CarriedByGiven {
    /// computed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<BitRate>,
    /// by a run
    pub by_run: BitRate,
    /// the line is carried
    pub enough: bool,
    /// Shares of work.
    #[serde(flatten)]
    pub utilisation: Utilisation,
}

/// The smallest bus and the fewest cores.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Smallest {
    /// bus, bits
    pub bus_bits: CountOr,
    /// cores
    pub cores: CountOr,
}

/// A count, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CountOr {
    /// A count.
    Count(u64),
    /// Why there is none.
    Obstacle(String),
}

impl<E: std::fmt::Display> From<Result<u64, E>> for CountOr {
    fn from(count: Result<u64, E>) -> Self {
        count.map_or_else(|error| Self::Obstacle(error.to_string()), Self::Count)
    }
}

/// Links to the host.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostLink {
    /// needed in each direction
    pub needed: BitRate,
    /// Each generation of PCI Express, by its name.
    #[serde(flatten)]
    pub generations: Named<Slot>,
    /// Required margin, in per cent.
    #[serde(skip)]
    pub(super) margin: u32,
}

/// The narrowest link of a generation that carries enough, or several of the widest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Slot {
    /// Slots beside each other, each with an equal part of the packets.
    pub slots: u32,
    /// Lanes of each; nothing where even these carry too little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Lanes of each of the links that the next values are of.
    pub nearest_lanes: u32,
    /// The rate of all.
    pub carries_bits_per_second: BitRate,
    /// Their rate above the required one.
    pub headroom: Share,
}

impl Outcome for SolveOutcome {
    fn title(&self, section: &str) -> Option<String> {
        let title = "PCI Express that carries such packets both ways, polled driver, margin";
        (section == "host_link").then(|| format!("{title} {} %", self.host_link.margin))
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        match (section, key) {
            ("host_link", key) => key.strip_prefix("gen").map(|number| format!("Gen{number}")),
            ("confirmed", key) => {
                let mhz = self.answer.confirmed?.at(key)?.run_mhz;
                Some(format!("just {key}, at {mhz:.2} MHz"))
            }
            _ => None,
        }
    }

    fn item(&self, _: &str, index: usize) -> Option<String> {
        let alternative = &self.answer.alternatives.get(index)?.value;
        let mhz = alternative.from_mhz.map(|mhz| format!("{mhz:.1} MHz"));
        mhz.or_else(|| alternative.obstacle.clone())
    }

    fn text(&self, section: &str, key: &str) -> Option<String> {
        match section {
            "firmware" => self.firmware.at(key).map(Cycles::text),
            "confirmed" => {
                let carried = self.answer.confirmed?.at(key)?.carried;
                Some(format!("carries {:.2} Gbit/s", carried.0 / 1e9))
            }
            "core_clock" => self.answer.core_clock.as_ref()?.at(key).map(Correction::text),
            "dma_clock" => self.answer.dma_clock.as_ref()?.at(key).map(Correction::text),
            "host_link" => self.host_link.generations.get(key).map(Slot::text),
            _ => None,
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl FirmwareCycles {
    fn at(&self, key: &str) -> Option<&Cycles> {
        Some(match key {
            "ssm" => &self.ssm,
            "bom" => &self.bom,
            "com" => &self.com,
            "eom" => &self.eom,
            _ => return None,
        })
    }
}

impl Cycles {
    fn text(&self) -> String {
        format!("{} before the transfer, {} beside it", self.before, self.beside)
    }
}

impl ClockAnswer {
    fn at(&self, key: &str) -> Option<&Correction> {
        match key {
            "closed_form_smallest" => self.closed_form_smallest.as_ref(),
            "closed_form_from" => self.closed_form_from.as_ref(),
            _ => None,
        }
    }
}

impl Correction {
    fn text(&self) -> String {
        let (found, off) = (self.mhz * (1.0 + self.off.0), self.off.0 * 100.0);
        format!("{:.2}; runs of the firmware give {found:.2}, which is {off:+.2} %", self.mhz)
    }
}

impl Confirmations {
    fn at(&self, key: &str) -> Option<&Confirmation> {
        match key {
            key if key == Side::Below.key() => Some(&self.below),
            key if key == Side::Above.key() => Some(&self.above),
            _ => None,
        }
    }
}

impl Slot {
    fn text(&self) -> String {
        let (gbps, headroom) = (self.carries_bits_per_second.0 / 1e9, self.headroom.0 * 100.0);
        let Self { slots, nearest_lanes, .. } = self;
        match (self.lanes, slots) {
            (Some(lanes), 1) => {
                format!("x{lanes} carries {gbps:.1} Gbit/s, headroom {headroom:.0} %")
            }
            (Some(lanes), _) => {
                let one = (headroom + 100.0) / f64::from(*slots);
                format!(
                    "{slots} × x{lanes} carry {gbps:.1} Gbit/s, headroom {headroom:.0} %; one has {one:.0} % of the \
                     required rate"
                )
            }
            (None, _) => format!(
                "none; {slots} × x{nearest_lanes} carry {gbps:.1} Gbit/s, {:.0} % of the required rate",
                headroom + 100.0
            ),
        }
    }
}
