//! The scenarios: raw values as TOML has them, then checked ones.

use crate::failure::Failure;
use crate::scenario::Source;
use crate::units;
use linecard_config::{Bytes, Duration as Span};
use linecard_model::Ps;
use linecard_model::pci::{Adapter, Config, Load, Run, Server};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

type Number = Spanned<i64>;

/// Reads a scenario, or takes the one that comes with the command.
pub(in super::super) fn read<T: DeserializeOwned>(
    path: Option<&Path>,
    (name, built_in): (&str, &str),
) -> Result<(T, Source), Failure> {
    match path {
        Some(path) => Source::read(path),
        None => Source::built_in(name, built_in),
    }
}

/// Refuses values where they are written.
pub(in super::super) struct Check<'s>(pub(in super::super) &'s Source);

impl Check<'_> {
    /// A number in a range, as wide as the range asks for.
    pub(in super::super) fn number<T: TryFrom<i64>>(
        &self,
        raw: &Number,
        range: RangeInclusive<i64>,
    ) -> Result<T, Failure> {
        let value = *raw.get_ref();
        let narrow = T::try_from(value).ok().filter(|_| range.contains(&value));
        let (low, high) = range.into_inner();
        let what = || format!("{value} is out of range: choose {low} to {high}");
        narrow.ok_or_else(|| self.0.refuse(raw.span(), &what()))
    }

    /// Some of them: at least one.
    pub(in super::super) fn numbers<T: TryFrom<i64>>(
        &self,
        raw: &Spanned<Vec<Number>>,
        range: RangeInclusive<i64>,
    ) -> Result<Vec<T>, Failure> {
        if raw.get_ref().is_empty() {
            return Err(self.0.refuse(raw.span(), "nothing is listed: give one number at least"));
        }
        raw.get_ref().iter().map(|number| self.number(number, range.clone())).collect()
    }

    /// A time in a range.
    pub(in super::super) fn time(
        &self,
        raw: &Spanned<String>,
        (low, high): (&str, &str),
    ) -> Result<Ps, Failure> {
        let refuse = |what: &str| self.0.refuse(raw.span(), what);
        let time = units::duration(raw.get_ref()).map_err(|what| refuse(&what))?;
        let limit = |text| units::duration(text).unwrap_or(Duration::MAX);
        if !(limit(low)..=limit(high)).contains(&time) {
            return Err(refuse(&format!("this is out of range: choose {low} to {high}")));
        }
        Ok(Ps::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Seed, and how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRun {
    seed: Number,
    warm_up: Spanned<String>,
    duration: Spanned<String>,
}

impl RawRun {
    fn checked(&self, check: &Check<'_>) -> Result<Config, Failure> {
        let span = |raw, low| Ok::<_, Failure>(Span::from_ps(check.time(raw, (low, "10s"))?.0));
        let run = Run {
            seed: check.number(&self.seed, 0..=i64::MAX)?,
            warm_up: span(&self.warm_up, "0us")?,
            duration: span(&self.duration, "1ms")?,
        };
        Ok(Config { run, ..Config::default() })
    }
}

const CLIENTS: RangeInclusive<i64> = 1..=64;
const SESSIONS: RangeInclusive<i64> = 1..=64;
const MHZ: RangeInclusive<i64> = 1..=10_000;
const CPUS: RangeInclusive<i64> = 1..=16;

/// Figures 2 to 5.
#[derive(Debug)]
pub(super) struct Throughput {
    pub(super) base: Config,
    pub(super) clients: Points,
    pub(super) mhz: u32,
    pub(super) processors: Vec<u8>,
    pub(super) processors_at: Points,
    pub(super) processors_mhz: u32,
    pub(super) speeds: Vec<u32>,
    pub(super) speed_at: Points,
    pub(super) peak_sessions: Vec<u32>,
}

/// Loads to run.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) clients: Vec<u32>,
    pub(super) sessions: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawThroughput {
    run: RawRun,
    clients: RawClients,
    processors: RawProcessors,
    speed: RawSpeed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClients {
    counts: Spanned<Vec<Number>>,
    sessions: Spanned<Vec<Number>>,
    mhz: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProcessors {
    counts: Spanned<Vec<Number>>,
    clients: Spanned<Vec<Number>>,
    sessions: Number,
    mhz: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpeed {
    mhz: Spanned<Vec<Number>>,
    clients: Spanned<Vec<Number>>,
    sessions: Number,
    peak_sessions: Spanned<Vec<Number>>,
}

impl Throughput {
    pub(super) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let built_in = include_str!("../../../../../scenarios/gigabit-throughput.toml");
        let (raw, source): (RawThroughput, _) =
            read(path, ("scenarios/gigabit-throughput.toml", built_in))?;
        let check = Check(&source);
        let RawThroughput { run, clients, processors, speed } = raw;
        Ok(Self {
            base: run.checked(&check)?,
            clients: Points {
                clients: check.numbers(&clients.counts, CLIENTS)?,
                sessions: check.numbers(&clients.sessions, SESSIONS)?,
            },
            mhz: check.number(&clients.mhz, MHZ)?,
            processors: check.numbers(&processors.counts, CPUS)?,
            processors_at: Points {
                clients: check.numbers(&processors.clients, CLIENTS)?,
                sessions: vec![check.number(&processors.sessions, SESSIONS)?],
            },
            processors_mhz: check.number(&processors.mhz, MHZ)?,
            speeds: check.numbers(&speed.mhz, MHZ)?,
            speed_at: Points {
                clients: check.numbers(&speed.clients, CLIENTS)?,
                sessions: vec![check.number(&speed.sessions, SESSIONS)?],
            },
            peak_sessions: check.numbers(&speed.peak_sessions, SESSIONS)?,
        })
    }
}

/// Figures 6 and 7.
#[derive(Debug)]
pub(super) struct Overhead {
    pub(super) frames: Vec<u32>,
    pub(super) file_bytes: u32,
    pub(super) rates_mbps: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOverhead {
    frames: Spanned<Vec<Number>>,
    file_bytes: Number,
    rates_mbps: Spanned<Vec<Number>>,
}

impl Overhead {
    pub(super) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let built_in = include_str!("../../../../../scenarios/gigabit-overhead.toml");
        let (raw, source): (RawOverhead, _) =
            read(path, ("scenarios/gigabit-overhead.toml", built_in))?;
        let check = Check(&source);
        Ok(Self {
            frames: check.numbers(&raw.frames, 64..=1_518)?,
            file_bytes: check.number(&raw.file_bytes, 1..=1_000_000_000)?,
            rates_mbps: check.numbers(&raw.rates_mbps, 1..=1_000_000)?,
        })
    }
}

/// Figures 8 and 9, and what the paper suggests.
#[derive(Debug)]
pub(super) struct Bus {
    pub(super) slow: Config,
    pub(super) middle: Config,
    pub(super) fast: Config,
    pub(super) high_threshold: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBus {
    run: RawRun,
    slow: RawServer,
    middle: RawServer,
    fast: RawServer,
    adapter: RawAdapter,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    mhz: Number,
    clients: Number,
    sessions: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAdapter {
    threshold: Number,
    high_threshold: Number,
    fifo: Spanned<String>,
    buffers: Number,
    requeue_batch: Number,
}

impl Bus {
    pub(super) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let built_in = include_str!("../../../../../scenarios/gigabit-bus.toml");
        let (raw, source): (RawBus, _) = read(path, ("scenarios/gigabit-bus.toml", built_in))?;
        let check = Check(&source);
        let adapter = raw.adapter.checked(&check)?;
        let base = Config { adapter, ..raw.run.checked(&check)? };
        Ok(Self {
            slow: raw.slow.checked(&check, &base)?,
            middle: raw.middle.checked(&check, &base)?,
            fast: raw.fast.checked(&check, &base)?,
            high_threshold: check.number(&raw.adapter.high_threshold, 0..=1_518)?,
        })
    }
}

impl RawServer {
    fn checked(&self, check: &Check<'_>, base: &Config) -> Result<Config, Failure> {
        Ok(Config {
            server: Server { mhz: check.number(&self.mhz, MHZ)?, ..base.server },
            load: Load {
                clients: check.number(&self.clients, CLIENTS)?,
                sessions: check.number(&self.sessions, SESSIONS)?,
                ..base.load
            },
            ..base.clone()
        })
    }
}

impl RawAdapter {
    fn checked(&self, check: &Check<'_>) -> Result<Adapter, Failure> {
        let refuse = |what: &str| check.0.refuse(self.fifo.span(), what);
        let fifo = units::bytes(self.fifo.get_ref()).map_err(|what| refuse(&what))?;
        if !(1_518..=1 << 24).contains(&fifo) {
            return Err(refuse("this is out of range: choose 1518 to 16M"));
        }
        let buffers = check.number(&self.buffers, 1..=65_536)?;
        Ok(Adapter {
            threshold: check.number(&self.threshold, 0..=1_518)?,
            fifo: Bytes::new(fifo as u64),
            buffers,
            requeue_batch: check.number(&self.requeue_batch, 1..=buffers.into())?,
            ..Adapter::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_that_come_with_the_command_are_right() {
        assert_eq!(Throughput::read(None).expect("right").clients.clients.len(), 10);
        assert_eq!(Overhead::read(None).expect("right").file_bytes, 100_000);
        let bus = Bus::read(None).expect("right");
        // What stands in the file is what the model takes by itself.
        assert_eq!(bus.fast.adapter, Config::default().adapter);
        assert_eq!(bus.fast.load, Config::default().load);
    }
}
