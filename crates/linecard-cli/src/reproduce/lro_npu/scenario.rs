//! The scenario: raw values as TOML has them, then checked ones.

use super::model::{RawModel, Settings};
use crate::failure::Failure;
use crate::scenario::Source;
use crate::units;
use linecard_io::engine::Order;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// The one that comes with the command.
const BUILT_IN: &str = include_str!("../../../../../scenarios/lro-npu.toml");

/// All that there is to decide.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) mtu: u32,
    pub(super) port: String,
    pub(super) throughput: Throughput,
    pub(super) starvation: Starvation,
    pub(super) active_ack: ActiveAck,
    pub(super) model: Settings,
}

#[derive(Debug)]
pub(super) struct Throughput {
    pub(super) connections: Vec<u32>,
    pub(super) seconds: u64,
    pub(super) rounds: usize,
    pub(super) workers: u16,
}

#[derive(Debug)]
pub(super) struct Starvation {
    pub(super) workers: u16,
    pub(super) cores: Vec<usize>,
    pub(super) ring: usize,
    pub(super) flows: usize,
    pub(super) attempts: usize,
    pub(super) timeout: Duration,
    pub(super) orders: Vec<(String, Order)>,
}

#[derive(Debug)]
pub(super) struct ActiveAck {
    pub(super) hold: Duration,
    pub(super) block: usize,
    pub(super) transfers: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    cable: RawCable,
    throughput: RawThroughput,
    starvation: RawStarvation,
    active_ack: RawActiveAck,
    #[serde(default)]
    model: RawModel,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCable {
    mtu: Spanned<i64>,
    port: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawThroughput {
    connections: Vec<Spanned<i64>>,
    seconds: Spanned<i64>,
    rounds: Spanned<i64>,
    workers: Spanned<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStarvation {
    workers: Spanned<i64>,
    cores: Vec<Spanned<i64>>,
    ring: Spanned<i64>,
    flows: Spanned<i64>,
    attempts: Spanned<i64>,
    timeout: Spanned<String>,
    orders: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawActiveAck {
    hold: Spanned<String>,
    block: Spanned<String>,
    transfers: Spanned<i64>,
}

/// Reads a scenario, or takes the one that comes with the command.
pub(super) fn read(path: Option<&Path>) -> Result<Scenario, Failure> {
    let (raw, source): (Raw, Source) = match path {
        Some(path) => Source::read(path)?,
        None => Source::built_in("scenarios/lro-npu.toml", BUILT_IN)?,
    };
    let check = Check { source: &source };
    let Raw { cable, throughput, starvation, active_ack, model } = raw;
    Ok(Scenario {
        mtu: check.number(&cable.mtu, 576..=9_000)? as u32,
        port: check.port(&cable.port)?,
        throughput: Throughput {
            connections: check.numbers(&throughput.connections, 1..=128)?,
            seconds: check.number(&throughput.seconds, 1..=600)? as u64,
            rounds: check.number(&throughput.rounds, 1..=100)? as usize,
            workers: check.number(&throughput.workers, 1..=64)? as u16,
        },
        starvation: Starvation {
            workers: check.number(&starvation.workers, 1..=64)? as u16,
            cores: check.cores(&starvation.cores)?,
            ring: check.number(&starvation.ring, 1..=65_536)? as usize,
            flows: check.number(&starvation.flows, 0..=64)? as usize,
            attempts: check.number(&starvation.attempts, 1..=1_000)? as usize,
            timeout: check.time(&starvation.timeout)?,
            orders: check.orders(starvation.orders)?,
        },
        active_ack: ActiveAck {
            hold: check.time(&active_ack.hold)?,
            block: check.size(&active_ack.block)?,
            transfers: check.number(&active_ack.transfers, 1..=1_000)? as usize,
        },
        model: model.checked(&source)?,
    })
}

/// Refuses values where they are written.
struct Check<'s> {
    source: &'s Source,
}

impl Check<'_> {
    fn refuse<T>(&self, at: &Spanned<T>, what: &str) -> Failure {
        self.source.refuse(at.span(), what)
    }

    fn number(&self, raw: &Spanned<i64>, range: RangeInclusive<i64>) -> Result<i64, Failure> {
        let value = *raw.get_ref();
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = range.into_inner();
        Err(self.refuse(raw, &format!("{value} is out of range: choose {low} to {high}")))
    }

    fn numbers(
        &self,
        raw: &[Spanned<i64>],
        range: RangeInclusive<i64>,
    ) -> Result<Vec<u32>, Failure> {
        // Within the range they fit.
        raw.iter().map(|raw| Ok(self.number(raw, range.clone())? as u32)).collect()
    }

    fn cores(&self, raw: &[Spanned<i64>]) -> Result<Vec<usize>, Failure> {
        Ok(self.numbers(raw, 0..=1_023)?.into_iter().map(|core| core as usize).collect())
    }

    fn time(&self, raw: &Spanned<String>) -> Result<Duration, Failure> {
        let time = units::duration(raw.get_ref()).map_err(|what| self.refuse(raw, &what))?;
        let range = Duration::from_micros(1)..=Duration::from_secs(1);
        if range.contains(&time) {
            return Ok(time);
        }
        Err(self.refuse(raw, "this is out of range: choose 1us to 1s"))
    }

    fn size(&self, raw: &Spanned<String>) -> Result<usize, Failure> {
        let size = units::bytes(raw.get_ref()).map_err(|what| self.refuse(raw, &what))?;
        if (1..=1 << 30).contains(&size) {
            return Ok(size);
        }
        Err(self.refuse(raw, "this is out of range: choose 1 to 1G"))
    }

    fn port(&self, raw: &Spanned<String>) -> Result<String, Failure> {
        match raw.get_ref().as_str() {
            kind @ ("xdp" | "packet") => Ok(kind.to_owned()),
            _ => Err(self.refuse(raw, "no such kind of port: choose \"xdp\" or \"packet\"")),
        }
    }

    fn orders(&self, raw: Vec<Spanned<String>>) -> Result<Vec<(String, Order)>, Failure> {
        let order = |raw: Spanned<String>| {
            let order = match raw.get_ref().as_str() {
                "round-robin" => Order::RoundRobin,
                "fifo" => Order::Fifo,
                "stack" => Order::Stack,
                _ => {
                    let what = "no such order: choose \"round-robin\", \"fifo\" or \"stack\"";
                    return Err(self.refuse(&raw, what));
                }
            };
            Ok((raw.into_inner(), order))
        };
        raw.into_iter().map(order).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_that_comes_with_the_command_is_right() {
        let scenario = read(None).expect("right");
        assert_eq!(scenario.throughput.connections.last(), Some(&64));
        assert_eq!(scenario.starvation.orders.len(), 3);
    }

    /// As the scenario says of its model.
    #[test]
    fn what_is_left_out_of_the_model_is_as_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("live.toml");
        let (live, _) = BUILT_IN.split_once("\n[model]").expect("a model");
        std::fs::write(&path, live).expect("written");
        let [whole, live] = [None, Some(path.as_path())].map(|path| read(path).expect("right"));
        assert_eq!(format!("{:?}", whole.model), format!("{:?}", live.model));
    }

    #[test]
    fn a_wrong_value_is_refused_where_it_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("wrong.toml");
        for (from, to, said) in [
            ("mtu = 1500", "mtu = 10", "10 is out of range: choose 576 to 9000"),
            ("port = \"xdp\"", "port = \"tap\"", "no such kind of port"),
            ("\"stack\"", "\"heap\"", "no such order"),
            ("transfers = 7", "transfer = 7", "unknown field"),
            ("hold = \"200ms\"", "hold = \"2\"", "is no time"),
            ("packet_ns = 32_000", "packet_ns = -1", "-1 is out of range: choose 0 to"),
            ("ring = 1_024", "ring = 100_000", "shared memory has 16777216 bytes"),
            ("check_ns = 200", "check_ns = 0", "npu.check_ns is 0: choose 1 to"),
            ("busy = 3", "bussy = 3", "unknown field"),
            ("attempts = 64", "attempts = 1_025", "client.idle_connections is 1025: choose 0 to"),
            (
                "outstanding = 16_384",
                "outstanding = 99",
                "client.send_window is 99: choose 1460 to",
            ),
        ] {
            std::fs::write(&path, BUILT_IN.replace(from, to)).expect("written");
            let text = read(Some(&path)).expect_err("wrong").to_string();
            assert!(text.contains(said) && text.contains("wrong.toml:"), "{text}");
        }
    }
}
