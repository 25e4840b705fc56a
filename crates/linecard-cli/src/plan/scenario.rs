//! Scenarios of `linecard plan`: raw values as TOML has them, each with its place in the file.

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
    pub(super) goodput: Option<Spanned<toml::Value>>,
    pub(super) packets: Option<Spanned<toml::Value>>,
    pub(super) payload: Spanned<i64>,
    pub(super) packet: Option<Spanned<i64>>,
    pub(super) stage: Option<Spanned<String>>,
    pub(super) fec: Option<Spanned<[i64; 2]>>,
    pub(super) loss: Option<Spanned<toml::Value>>,
    pub(super) lanes: Option<Spanned<i64>>,
    pub(super) chunks: Option<Spanned<i64>>,
}

/// `[machine]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Machine {
    pub(super) cores: Option<Spanned<i64>>,
    pub(super) used: Option<Spanned<toml::Value>>,
    pub(super) prefer: Option<Spanned<String>>,
    pub(super) clock_mhz: Option<Spanned<f64>>,
    pub(super) cycle: Option<Spanned<String>>,
    pub(super) crossing: Option<Spanned<[String; 2]>>,
}

/// `[[stage]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    pub(super) name: Spanned<String>,
    pub(super) cost: Option<Spanned<String>>,
    pub(super) fixed: Option<Spanned<String>>,
    pub(super) each: Option<Spanned<String>>,
    pub(super) fixed_cycles: Option<Spanned<f64>>,
    pub(super) each_cycles: Option<Spanned<f64>>,
    pub(super) spread: Option<Spanned<Vec<[f64; 2]>>>,
    pub(super) unit: Option<Spanned<String>>,
    pub(super) takes: Option<Spanned<i64>>,
    pub(super) input: Option<Spanned<String>>,
    pub(super) gives: Option<Spanned<i64>>,
    pub(super) output: Option<Spanned<String>>,
    pub(super) after: Option<Spanned<Vec<String>>>,
    pub(super) beside: Option<Spanned<Vec<String>>>,
    pub(super) state: Option<Spanned<String>>,
    pub(super) batch: Option<Spanned<[i64; 2]>>,
    pub(super) deadline: Option<Spanned<String>>,
    pub(super) miss: Option<Spanned<toml::Value>>,
    pub(super) wire: Option<Spanned<bool>>,
}
