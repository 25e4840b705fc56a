//! Scenarios of `linecard plan`: raw values as TOML has them, each with its place in the file.
//!
//! What is said of each is what the manual's reference says: its range, and its default in brackets.

use serde::Deserialize;
use toml::Spanned;

/// A scenario. Keys that are not known are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) demand: Spanned<Demand>,
    #[serde(default)]
    pub(super) machine: Machine,
    #[serde(default, rename = "stage")]
    pub(super) stages: Vec<Spanned<Stage>>,
}

/// `[demand]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Demand {
    /// Bits of payload a second, above 0: a number, or with k, M, G as "8G"; this or packets
    pub(super) goodput: Option<Spanned<toml::Value>>,
    /// Packets of payload a second, likewise; this or goodput
    pub(super) packets: Option<Spanned<toml::Value>>,
    /// Bytes of payload in a packet, 1 to 1073741824; has to be given
    pub(super) payload: Spanned<i64>,
    /// Bytes of the IP packet, by which measured costs are found [payload + 52]
    pub(super) packet: Option<Spanned<i64>>,
    /// Name of the stage that fires once for each packet of payload [the first whose unit is a
    /// packet]
    pub(super) stage: Option<Spanned<String>>,
    /// [k, m]: m repair packets for k of payload, each 1 to 256, where no stage makes them [none]
    pub(super) fec: Option<Spanned<[i64; 2]>>,
    /// Share of packets that are lost and sent again, 0 to less than 1 or "1%" [0]
    pub(super) loss: Option<Spanned<toml::Value>>,
    /// Lanes, for stages with a state for each, 1 to 65536 [1]
    pub(super) lanes: Option<Spanned<i64>>,
    /// Chunks in flight, for stages with a state for each, 1 to 65536 [2]
    pub(super) chunks: Option<Spanned<i64>>,
}

/// `[machine]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Machine {
    /// Equal cores, 1 to 256 [those of this machine]
    pub(super) cores: Option<Spanned<i64>>,
    /// Share of a core that may be used, above 0 to 1 or "80%" [0.8]
    pub(super) used: Option<Spanned<toml::Value>>,
    /// "balance" has cores used least, "few-cores" has few of them ["balance"]
    pub(super) prefer: Option<Spanned<String>>,
    /// The cores' clock in MHz, above 0, for costs in cycles
    pub(super) clock_mhz: Option<Spanned<f64>>,
    /// What a cycle of a core costs besides its stages, as "40ns" [as measured, else "0ns"]
    pub(super) cycle: Option<Spanned<String>>,
    /// What a token costs the giving and the taking core on its way to another, as ["10ns", "60ns"]
    /// [as measured, else nothing]
    pub(super) crossing: Option<Spanned<[String; 2]>>,
}

/// `[[stage]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    /// The stage, and its cost in the calibration where none is given; has to be given
    pub(super) name: Spanned<String>,
    /// Name of its cost in the calibration [its own]
    pub(super) cost: Option<Spanned<String>>,
    /// Time of a call, however many firings it has, as "100ns" ["0ns"]
    pub(super) fixed: Option<Spanned<String>>,
    /// Time of each firing ["0ns"]
    pub(super) each: Option<Spanned<String>>,
    /// The same in cycles, with `clock_mhz` [0]
    pub(super) fixed_cycles: Option<Spanned<f64>>,
    /// The same in cycles, with `clock_mhz` [0]
    pub(super) each_cycles: Option<Spanned<f64>>,
    /// How calls spread: pairs of their time to the mean, and how often that is so [always the
    /// mean]
    pub(super) spread: Option<Spanned<Vec<[f64; 2]>>>,
    /// What a firing handles: "packet", "group" or "chunk" ["packet"]
    pub(super) unit: Option<Spanned<String>>,
    /// Tokens that a firing takes from each stage before, from 1 [1]
    pub(super) takes: Option<Spanned<i64>>,
    /// What it takes: "packet", "group" or "chunk" ["packet"]
    pub(super) input: Option<Spanned<String>>,
    /// Tokens that a firing gives, from 1 [1]
    pub(super) gives: Option<Spanned<i64>>,
    /// What it gives: "packet", "group" or "chunk" ["packet"]
    pub(super) output: Option<Spanned<String>>,
    /// Names of the stages that it takes from [the one before]
    pub(super) after: Option<Spanned<Vec<String>>>,
    /// Names of stages that have to be on its core [none]
    pub(super) beside: Option<Spanned<Vec<String>>>,
    /// What it keeps: "none" for any number of replicas; one for each "chunk" or "lane"; "global"
    /// for one in all ["none"]
    pub(super) state: Option<Spanned<String>>,
    /// [least, most] firings of a call, each 1 to 65536 [1 to 64]
    pub(super) batch: Option<Spanned<[i64; 2]>>,
    /// How long a call may be put off, as "200us" [any time]
    pub(super) deadline: Option<Spanned<String>>,
    /// Share of cycles that may be too long, 0 to 0.5 or "1%" [0.01]
    pub(super) miss: Option<Spanned<toml::Value>>,
    /// Whether it handles what is on the wire, repair and what is sent again too [true]
    pub(super) wire: Option<Spanned<bool>>,
}
