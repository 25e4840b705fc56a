//! Quantities of papers/lso-receive.toml (Elbeshti et al., "Cycle processing"): real firmware on
//! the modelled core of the receiving side.

use super::error::ReproduceError;
use crate::{Context, Error};
use garde::Validate;
use linecard_config::{Document, Rate, power_of_two};
use linecard_model::receive::{Remedy, com_cell, firmware, smallest_core_hz};
use linecard_model::rv32::Image;
use linecard_model::transmit::{BusPolicy, Cell};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smart_default::SmartDefault;

/// The published design with a remedy, and the packets that it gets.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub(super) struct Config {
    /// the core's program
    firmware: Program,
    /// access to the bus during a transfer
    policy: BusPolicy,
    /// DMA cycles for each core cycle
    #[default(1)]
    #[garde(range(min = 1, max = 1_000))]
    dma_ratio: u64,
    /// width of the local bus, a power of two
    #[default(64)]
    #[garde(range(min = 32, max = 1_024), custom(power_of_two))]
    bus_bits: u32,
    /// bytes of a packet from the IP header on
    #[default(1_500)]
    #[garde(range(min = 41, max = 1_500))]
    packet_bytes: u16,
    /// the line's rate
    #[default(Rate::giga(100))]
    rate: Rate,
}

/// Firmware that comes with the model.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Program {
    /// as published
    #[default]
    Published,
    /// all that can be is beside the transfer
    Best,
}

impl Config {
    fn parts(&self) -> (Image, Remedy) {
        let Self { policy, dma_ratio, bus_bits, .. } = *self;
        let firmware = match self.firmware {
            Program::Published => firmware::published(),
            Program::Best => firmware::best(),
        };
        (firmware, Remedy { policy, dma_ratio, bus_bits })
    }
}

/// Cost of a TCP packet between first and last, in core cycles; null if the firmware does not sort
/// it.
pub(super) fn cell(document: &Document, _: &Context<'_>) -> Result<Value, Error> {
    let config: Config = document.config()?;
    let (firmware, remedy) = config.parts();
    let cell =
        com_cell(&firmware, remedy, config.packet_bytes).map_err(ReproduceError::Receiving)?;
    let of = |value: fn(&Cell) -> u64| cell.as_ref().map(value);
    Ok(json!({
        "total": of(|cell| cell.total),
        "before": of(|cell| cell.before),
        "beside": of(|cell| cell.beside),
        "idle": of(|cell| cell.idle),
    }))
}

/// The slowest core clock that carries the rate in whole MHz, in messages of 44 packets; null if none does.
pub(super) fn clock(document: &Document, _: &Context<'_>) -> Result<Value, Error> {
    let config: Config = document.config()?;
    let (firmware, remedy) = config.parts();
    let rate = config.rate.bits_per_second();
    let hz = smallest_core_hz(&firmware, (remedy, config.packet_bytes), rate)
        .map_err(ReproduceError::Receiving)?;
    Ok(json!({ "mhz": hz.map(|hz| hz.div_ceil(1_000_000)) }))
}
