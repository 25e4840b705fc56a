//! The parameters: a stream, the stages on its path, and the core.

use super::spread::Part;
use super::{Spread, Stream};
use crate::Ps;
use garde::Validate;
use linecard_config::{Duration, Maybe, OneOrMany};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The longest part of a stage: with the most packets, times stay far below the largest number.
const LONGEST: Ps = Ps::from_ns(100_000_000);
/// The same for the time until something else stops the core.
const LONGEST_BETWEEN: Ps = Ps::from_ns(10_000_000_000);

/// From the wire to the application, with the jitter of each stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The stream.
    #[garde(dive)]
    pub load: Load,
    /// Times of the stages: the least time, and the largest addition; for a rare addition, one in
    /// how many packets has it, and its size.
    #[garde(dive)]
    pub stage: Stages,
    /// The core.
    #[garde(dive)]
    pub core: Core,
}

/// The stream.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// draws all times
    #[default(1)]
    #[garde(range(min = 0, max = i64::MAX as u64))]
    pub seed: u64,
    /// packets of the stream
    #[default(100_000)]
    #[garde(range(min = 2, max = 1_000_000))]
    pub packets: usize,
    /// between two packets at the sender
    ///
    /// The default is ST 2022-6 at 1.5 Gbit/s.
    #[default(Duration::from_ns(7_410))]
    #[garde(range(min = Duration::from_ns(1), max = Duration::from_secs(1)))]
    pub period: Duration,
}

/// Times of the stages.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Stages {
    /// delay of a packet; as for all stages, the least time and the largest addition, 0ns to 100ms;
    /// for a rare addition, one in how many packets has it, 1 to 4294967295, and its size; or six
    /// measured quantiles: least, 50, 90, 99, 99.9 and 99.99 %
    #[default(Spread::ns(0, 600))]
    #[garde(custom(short))]
    pub wire: Spread,
    /// until the packet is in memory
    #[default(Spread::ns(300, 200))]
    #[garde(custom(short))]
    pub dma: Spread,
    /// from the interrupt to its handler, on a core that is awake
    #[default(Spread::ns(300, 200))]
    #[garde(custom(short))]
    pub interrupt: Spread,
    /// more than that where idle cores sleep: "none" with idle=poll, "published", or a stage
    #[garde(custom(short_stage))]
    pub sleep: Stage,
    /// the handler, and the kernel's way to the first packet
    #[default(Spread::ns(500, 100))]
    #[garde(custom(short))]
    pub handler: Spread,
    /// the network stack, per packet, up to the socket
    #[default(Spread::ns(500, 200))]
    #[garde(custom(short))]
    pub softirq: Spread,
    /// a blocked application is woken: "none" where it polls, "published", or a stage
    #[garde(custom(short_stage))]
    pub wake: Stage,
    /// a read of a packet from the socket
    #[default(Spread::ns(200, 100))]
    #[garde(custom(short))]
    pub read: Spread,
}

/// The core.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// between two interrupts at least (ITR)
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
    pub throttle: Duration,
    /// time until something else stops the core, as a stage with times of up to 10s; by default
    /// four times in a million packets
    #[default(Maybe::from(Spread::ns(900_000_000, 1_900_000_000)))]
    #[garde(custom(long))]
    pub stolen_every: Maybe<Spread>,
    /// duration of that, as a stage
    #[default(Spread::ns(7_000, 1_000))]
    #[garde(custom(short))]
    pub stolen_for: Spread,
}

/// A stage that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "OneOrMany<Part>", into = "Vec<Part>")]
pub enum Stage {
    /// It takes no time.
    #[default]
    None,
    /// As fitted to the paper's figures.
    Published,
    /// Its time.
    As(Spread),
}

impl TryFrom<OneOrMany<Part>> for Stage {
    type Error = String;

    fn try_from(parts: OneOrMany<Part>) -> Result<Self, String> {
        match &*parts {
            [Part::Text(word)] if word == "none" => Ok(Self::None),
            [Part::Text(word)] if word == "published" => Ok(Self::Published),
            _ => Spread::try_from(parts).map(Self::As),
        }
    }
}

impl From<Stage> for Vec<Part> {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::None => vec![Part::Text("none".to_owned())],
            Stage::Published => vec![Part::Text("published".to_owned())],
            Stage::As(spread) => spread.into(),
        }
    }
}

impl linecard_config::Absent for Spread {
    const WORD: &'static str = "none";
}

impl Config {
    /// The stream on its path.
    #[must_use]
    pub fn stream(&self) -> Stream {
        let Self { load, stage, core } = self;
        let stream = Stream {
            period: load.period.into(),
            wire: stage.wire,
            dma: stage.dma,
            throttle: core.throttle.into(),
            interrupt: stage.interrupt,
            sleep: None,
            handler: stage.handler,
            softirq: stage.softirq,
            wake: None,
            read: stage.read,
            stolen: core.stolen_every.0.map(|every| (every, core.stolen_for)),
            seed: load.seed,
        };
        // The published time of sleep depends on the application.
        let stream = match stage.wake {
            Stage::None => stream,
            Stage::Published => stream.with_blocking(),
            Stage::As(spread) => Stream { wake: Some(spread), ..stream },
        };
        match stage.sleep {
            Stage::None => stream,
            Stage::Published => stream.with_sleep(),
            Stage::As(spread) => Stream { sleep: Some(spread), ..stream },
        }
    }
}

fn within(spread: &Spread, most: Ps) -> garde::Result {
    if spread.most() <= most {
        return Ok(());
    }
    let [part, most] = [spread.most(), most].map(|time| Duration::from_ps(time.0));
    Err(garde::Error::new(format!("{part} is out of range: choose 0ns to {most}")))
}

fn short(spread: &Spread, (): &()) -> garde::Result {
    within(spread, LONGEST)
}

fn short_stage(stage: &Stage, (): &()) -> garde::Result {
    match stage {
        Stage::As(spread) => within(spread, LONGEST),
        Stage::None | Stage::Published => Ok(()),
    }
}

fn long(spread: &Maybe<Spread>, (): &()) -> garde::Result {
    spread.0.as_ref().map_or(Ok(()), |spread| within(spread, LONGEST_BETWEEN))
}
