//! The scenario: raw values as TOML has them, then checked ones.

use crate::failure::Failure;
use crate::reproduce::gigabit::scenario::{Check, read};
use linecard_config::{Duration, Frequency, Rate};
use linecard_model::adapter::{Adapter, Config, Firmware, Host};
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

type Number = Spanned<i64>;

/// All that there is to decide.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) config: Config,
    pub(super) message_bytes: Vec<usize>,
    pub(super) messages: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    seed: Number,
    mtu: Number,
    message_bytes: Spanned<Vec<Number>>,
    messages: Number,
    adapter: RawAdapter,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAdapter {
    host_bus_mbps: Number,
    host_latency: Spanned<String>,
    embedded_mbps: Number,
    wire_mbps: Number,
    firmware_mhz: Number,
    message_cycles: Number,
    header_cycles: Number,
}

impl Scenario {
    /// Reads a scenario, or takes the one that comes with the command.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let built_in = include_str!("../../../../../scenarios/zero-copy.toml");
        let (raw, source): (Raw, _) = read(path, ("scenarios/zero-copy.toml", built_in))?;
        let check = Check(&source);
        let mega = |raw| Ok::<u64, Failure>(check.number::<u64>(raw, 1..=100_000)? * 1_000_000);
        let adapter = &raw.adapter;
        Ok(Self {
            seed: check.number(&raw.seed, 0..=i64::MAX)?,
            message_bytes: check.numbers(&raw.message_bytes, 1..=65_000)?,
            messages: check.number(&raw.messages, 1..=1_000)?,
            config: Config {
                adapter: Adapter {
                    mtu: check.number(&raw.mtu, 256..=9_216)?,
                    embedded: Rate::new(mega(&adapter.embedded_mbps)?),
                    wire: Rate::new(mega(&adapter.wire_mbps)?),
                    ..Adapter::default()
                },
                host: Host {
                    bus: Rate::new(mega(&adapter.host_bus_mbps)?),
                    latency: Duration::from_ps(
                        check.time(&adapter.host_latency, ("0us", "1ms"))?.0,
                    ),
                    ..Host::default()
                },
                firmware: Firmware {
                    mhz: Frequency::from_hz(mega(&adapter.firmware_mhz)?),
                    message_cycles: check.number(&adapter.message_cycles, 0..=1_000_000)?,
                    header_cycles: check.number(&adapter.header_cycles, 0..=1_000_000)?,
                },
                ..Config::default()
            },
        })
    }
}
