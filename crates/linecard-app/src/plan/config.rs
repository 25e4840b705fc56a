//! The parameters of a plan: the demand, the machine, the stages.

use garde::Validate;
use linecard_config::{Bytes, Count, Duration, Frequency, Probability, Problem, Rate};
use linecard_plan::{MAX_BATCH, MAX_CORES, Objective, State, Token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The most lanes, and the most chunks in flight.
const MAX_STATES: u32 = 65_536;
/// The most packets of a FEC group, of either kind.
const MAX_GROUP: u32 = 256;
/// The most payload of a packet: a whole chunk, and more.
const MAX_PAYLOAD: Bytes = Bytes::new(1 << 30);

/// The demand, the machine, and the stages in the order of a packet's path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// costs measured by `linecard calibrate`, for stages that have none in the scenario
    #[schemars(extend(
        "x-flag" = "calibration",
        "x-value" = "FILE",
        "x-default" = "where that command keeps them"
    ))]
    pub calibration: Option<String>,
    /// also run the stages on the engine, on as many cores as planned, and print the measured rates
    /// beside the predicted ones; stages of the offloads only
    #[schemars(extend("x-flag" = "measure"))]
    pub measure: bool,
    /// The demand.
    #[garde(dive)]
    pub demand: Demand,
    /// The machine.
    #[garde(dive)]
    pub machine: Machine,
    /// The stages.
    #[garde(dive)]
    pub stage: Vec<Stage>,
}

/// The demand.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Demand {
    /// bits of payload a second, as "8G"; this or packets
    #[garde(range(min = Rate::new(1), max = Rate::tera(1_000)))]
    pub goodput: Option<Rate>,
    /// data whose time is said first
    #[default(Bytes::new(1_000_000_000_000))]
    #[garde(range(min = Bytes::new(1), max = Bytes::new(1_000_000_000_000_000_000)))]
    pub bytes: Bytes,
    /// packets of payload a second, as "1M"; this or goodput
    #[garde(range(min = Count::new(1), max = Count::new(1_000_000_000_000)))]
    pub packets: Option<Count>,
    /// bytes of payload in a packet; has to be given
    #[garde(range(min = Bytes::new(1), max = MAX_PAYLOAD))]
    pub payload: Option<Bytes>,
    /// bytes of the IP packet, by which measured costs are found
    #[garde(range(min = Bytes::new(1), max = MAX_PAYLOAD))]
    #[schemars(extend("x-default" = "payload + 52"))]
    pub packet: Option<Bytes>,
    /// name of the stage that fires once for each packet of payload
    #[schemars(extend("x-default" = "the first whose unit is a packet"))]
    pub stage: Option<String>,
    /// m repair packets for k of payload, as [k, m], each 1 to 256, where no stage makes them
    #[garde(custom(group))]
    pub fec: Option<[u32; 2]>,
    /// share of packets that are lost and sent again, as 0.01 or "1%", less than 1
    pub loss: Probability,
    /// lanes, for stages with a state for each
    #[default(1)]
    #[garde(range(min = 1, max = MAX_STATES))]
    pub lanes: u32,
    /// chunks in flight, for stages with a state for each
    #[default(2)]
    #[garde(range(min = 1, max = MAX_STATES))]
    pub chunks: u32,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Machine {
    /// equal cores
    #[garde(range(min = 1, max = MAX_CORES))]
    #[schemars(extend("x-default" = "those of this machine"))]
    pub cores: Option<usize>,
    /// share of a core that may be used, above 0, as 0.8 or "80%"
    #[default("80%".parse().unwrap_or_default())]
    pub used: Probability,
    /// objective
    pub prefer: Preference,
    /// the cores' clock in MHz, for costs in cycles
    #[garde(range(min = Frequency::from_hz(1), max = Frequency::from_mhz(1_000_000)))]
    pub clock_mhz: Option<Frequency>,
    /// cost of a cycle of a core besides its stages, as "40ns"
    #[schemars(extend("x-default" = "as measured, else 0ns"))]
    pub cycle: Option<Duration>,
    /// cost of passing a token to another core, for the giving and the taking core, as ["10ns",
    /// "60ns"]
    #[schemars(extend("x-default" = "as measured, else nothing"))]
    pub crossing: Option<[Duration; 2]>,
}

/// The preferred objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// cores are used least
    #[default]
    Balance,
    /// few cores are used
    FewCores,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Stage {
    /// the stage, and its cost in the calibration where none is given; has to be given
    #[garde(length(min = 1))]
    pub name: String,
    /// name of its cost in the calibration
    #[schemars(extend("x-default" = "its own"))]
    pub cost: Option<String>,
    /// time of a call, however many firings it has, as "100ns"
    #[schemars(extend("x-default" = "0ns"))]
    pub fixed: Option<Duration>,
    /// time of each firing
    #[schemars(extend("x-default" = "0ns"))]
    pub each: Option<Duration>,
    /// the time of a call in cycles, with `clock_mhz`
    #[schemars(extend("x-default" = "0"))]
    pub fixed_cycles: Option<f64>,
    /// the time of each firing in cycles, with `clock_mhz`
    #[schemars(extend("x-default" = "0"))]
    pub each_cycles: Option<f64>,
    /// distribution of the times of calls: pairs of the ratio to the mean and its share
    #[schemars(extend("x-default" = "always the mean"))]
    pub spread: Option<Vec<[f64; 2]>>,
    /// unit of a firing
    pub unit: Unit,
    /// tokens that a firing takes from each stage before
    #[default(1)]
    #[garde(range(min = 1, max = u32::MAX))]
    pub takes: u32,
    /// unit of its input
    pub input: Unit,
    /// tokens that a firing gives
    #[default(1)]
    #[garde(range(min = 1, max = u32::MAX))]
    pub gives: u32,
    /// unit of its output
    pub output: Unit,
    /// names of the stages that it takes from
    #[schemars(extend("x-default" = "the one before"))]
    pub after: Option<Vec<String>>,
    /// names of stages that have to be on its core
    pub beside: Vec<String>,
    /// state between firings
    pub state: Keeps,
    /// firings of a call, as [least, most]
    #[default([1, 64])]
    #[garde(inner(range(min = 1, max = MAX_BATCH)))]
    pub batch: [u32; 2],
    /// longest time that a call may be delayed, as "200us"
    #[schemars(extend("x-default" = "any time"))]
    pub deadline: Option<Duration>,
    /// share of cycles that may be too long, up to 0.5 or "50%"
    #[default("1%".parse().unwrap_or_default())]
    pub miss: Probability,
    /// whether it handles all packets on the wire, with repair and retransmissions
    #[default(true)]
    pub wire: bool,
}

/// The unit that passes between stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// one on the wire
    #[default]
    Packet,
    /// packets that belong together
    Group,
    /// a piece of a file
    Chunk,
}

/// State that a stage keeps from one firing to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keeps {
    /// any number of replicas
    #[default]
    None,
    /// one for each chunk in flight
    Chunk,
    /// one for each lane
    Lane,
    /// one in all
    Global,
}

impl From<Unit> for Token {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Packet => Self::Packet,
            Unit::Group => Self::Group,
            Unit::Chunk => Self::Chunk,
        }
    }
}

impl From<Keeps> for State {
    fn from(keeps: Keeps) -> Self {
        match keeps {
            Keeps::None => Self::None,
            Keeps::Chunk => Self::PerChunk,
            Keeps::Lane => Self::PerLane,
            Keeps::Global => Self::Global,
        }
    }
}

impl From<Preference> for Objective {
    fn from(preference: Preference) -> Self {
        match preference {
            Preference::Balance => Self::Balance,
            Preference::FewCores => Self::FewCores,
        }
    }
}

fn group(fec: &Option<[u32; 2]>, (): &()) -> garde::Result {
    let wrong = fec.iter().flatten().find(|packets| !(1..=MAX_GROUP).contains(packets));
    let what = |packets: &u32| Problem::range(packets, &1, &MAX_GROUP).to_string();
    wrong.map_or(Ok(()), |packets| Err(garde::Error::new(what(packets))))
}
