//! The scenario: raw values as TOML has them, then checked ones.

use crate::failure::Failure;
use crate::reproduce::gigabit::scenario::{Check, read};
use crate::scenario::Source;
use crate::units;
use linecard_app::model::transfer::Spec;
use linecard_transfer::fec::Scheme;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

type Number = Spanned<i64>;
type Text = Spanned<String>;

/// All that there is to decide.
#[derive(Debug)]
pub(super) struct Scenario {
    /// Of a run; lanes, mode, repair and number of chunks differ from run to run.
    pub(super) base: Spec,
    /// Chunks for each lane in stable mode.
    pub(super) stable_chunks: u64,
    /// Chunks in low latency.
    pub(super) low_latency_chunks: u64,
    /// Where there is repair.
    pub(super) fec: Scheme,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    seed: Number,
    lane: RawLane,
    chunk: RawChunk,
    repair: RawRepair,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLane {
    rate: Text,
    payload: Number,
    framing: Number,
    delay: Text,
    begin: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChunk {
    bytes: Text,
    stable: Number,
    low_latency: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRepair {
    fec: Text,
}

impl Scenario {
    /// Reads a scenario, or takes the one that comes with the command.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let built_in = include_str!("../../../../../scenarios/end2end100.toml");
        let (raw, source): (Raw, _) = read(path, ("scenarios/end2end100.toml", built_in))?;
        let check = Check(&source);
        let Raw { lane, chunk, .. } = &raw;
        let time = |raw| Ok::<u64, Failure>(check.time(raw, ("0us", "1ms"))?.as_ns());
        let mega = 1 << 20;
        Ok(Self {
            base: Spec {
                rate_bps: ranged(&source, &lane.rate, units::bit_rate, RATES)?,
                payload_bytes: check.number(&lane.payload, 64..=65_000)?,
                framing_bytes: check.number(&lane.framing, 0..=1_000)?,
                delay_ns: time(&lane.delay)?,
                begin_ns: time(&lane.begin)?,
                chunk_bytes: ranged(&source, &chunk.bytes, bytes, 1_024..=64 * mega)? as u32,
                seed: check.number(&raw.seed, 0..=i64::MAX)?,
                ..Spec::default()
            },
            stable_chunks: check.number(&chunk.stable, 1..=64)?,
            low_latency_chunks: check.number(&chunk.low_latency, 1..=256)?,
            fec: parse(&source, &raw.repair.fec, |text| {
                text.parse().map_err(|error: linecard_transfer::fec::SchemeError| error.to_string())
            })?,
        })
    }
}

const RATES: RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;

fn bytes(text: &str) -> Result<u64, String> {
    units::bytes(text).map(|bytes| bytes as u64)
}

fn ranged(
    source: &Source,
    raw: &Text,
    read: fn(&str) -> Result<u64, String>,
    range: RangeInclusive<u64>,
) -> Result<u64, Failure> {
    parse(source, raw, |text| {
        let value = read(text)?;
        let (low, high) = (range.start(), range.end());
        let is_in = range.contains(&value);
        is_in.then_some(value).ok_or(format!("{value} is out of range: choose {low} to {high}"))
    })
}

fn parse<T>(
    source: &Source,
    raw: &Text,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    read(raw.get_ref()).map_err(|what| source.refuse(raw.span(), &what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::end2end100::published::LANES;

    /// `linecard run --lanes sim` is the same experiment.
    #[test]
    fn the_command_lines_defaults_are_the_scenarios() {
        let scenario = Scenario::read(None).expect("the scenario that comes with the command");
        assert_eq!(scenario.base, Spec::default());
        assert_eq!(LANES, Spec::default().lanes);
        assert_eq!(LANES * scenario.stable_chunks, Spec::default().chunks);
    }
}
