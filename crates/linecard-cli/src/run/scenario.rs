//! Scenario files: raw values as TOML has them, each with its place in the file.
//!
//! What is said of each is what the manual's reference says: its range, and its default in brackets.

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
    /// Senders that take turns, 1 to 1000000 [16]
    pub(crate) flows: Option<Spanned<i64>>,
    /// Bytes of one send of an application, 1 to "16M" ["64K"]
    pub(crate) size: Option<Spanned<toml::Value>>,
    /// Largest IP packet on a lane, 576 (IPv6: 1280) to 65535 bytes [1500]
    pub(crate) mtu: Option<Spanned<toml::Value>>,
    /// "ipv4" or "ipv6" ["ipv4"]
    pub(crate) family: Option<Spanned<String>>,
}

/// `[lanes]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lanes {
    /// Parallel lanes that flows are spread over, 1 to 64, at most as many as flows [1]
    pub(crate) count: Option<Spanned<i64>>,
    /// Share of packets that lanes lose, 0 to 1 or "0%" to "100%" [0]
    pub(crate) loss: Option<Spanned<toml::Value>>,
    /// Share of packets that one to three others overtake, 0 to 1 [0]
    pub(crate) reorder: Option<Spanned<toml::Value>>,
    /// Share of packets in which a bit flips, 0 to 1; needs checksum = "verify" [0]
    pub(crate) corrupt: Option<Spanned<toml::Value>>,
}

/// `[coalesce]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Coalesce {
    /// Longest time that a packet is held, "1ns" to "1s" ["1ms"]
    pub(crate) hold: Option<Spanned<String>>,
    /// "verify" computes every checksum, "trust" reads no payload ["verify"]
    pub(crate) checksum: Option<Spanned<String>>,
}

/// `[run]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Run {
    /// How long applications send, 0.01 to 3600 [2.0]
    pub(crate) seconds: Option<Spanned<f64>>,
    /// Decides the data and the faults, from 0 [1]
    pub(crate) seed: Option<Spanned<i64>>,
}
