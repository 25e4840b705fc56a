//! Scenario files: raw values as TOML has them, each with its place in the file.

use serde::Deserialize;
use toml::Spanned;

/// A scenario of `linecard run`. Keys that are not known are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scenario {
    /// What applications send.
    pub(crate) load: Load,
    /// The way.
    pub(crate) lanes: Lanes,
    /// The receiving offload.
    pub(crate) coalesce: Coalesce,
    /// The run itself.
    pub(crate) run: Run,
}

/// `[load]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Load {
    pub(crate) flows: Option<Spanned<i64>>,
    pub(crate) size: Option<Spanned<toml::Value>>,
    pub(crate) mtu: Option<Spanned<toml::Value>>,
    pub(crate) family: Option<Spanned<String>>,
}

/// `[lanes]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lanes {
    pub(crate) count: Option<Spanned<i64>>,
    pub(crate) loss: Option<Spanned<toml::Value>>,
    pub(crate) reorder: Option<Spanned<toml::Value>>,
    pub(crate) corrupt: Option<Spanned<toml::Value>>,
}

/// `[coalesce]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Coalesce {
    pub(crate) hold: Option<Spanned<String>>,
    pub(crate) checksum: Option<Spanned<String>>,
}

/// `[run]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Run {
    pub(crate) seconds: Option<Spanned<f64>>,
    pub(crate) seed: Option<Spanned<i64>>,
}
