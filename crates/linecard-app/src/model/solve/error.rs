//! Why no clock is found.

use super::MAX_PAYLOAD;
use crate::Failure;
use crate::error::Kind;
use linecard_model::solve::SolveError;
use std::fmt;

/// A clock that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenClock {
    Core,
    Dma,
}

/// A design that carries the line with clocks within their limits.
#[derive(Debug)]
pub(super) enum Instead {
    Bus { bits: u32 },
    Cores { cores: usize },
    Nothing,
}

/// A query that is wrong, or that nothing answers.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClockError {
    #[error(
        "--mix: \"{part}\": write KIND:PACKETS=WEIGHT as tcp:44=3; kinds are tcp and udp, packets and weights 1 to \
         1000, and a message has at most {MAX_PAYLOAD} bytes of payload"
    )]
    Mix { part: String },
    #[error(
        "{clock} would need {:.1} MHz, limit {:.1} MHz (--max-{}): {instead}",
        mhz(*hz), mhz(*limit_hz), clock.word()
    )]
    Limit { clock: OpenClock, hz: u64, limit_hz: u64, instead: Instead },
    #[error("{source}; {instead}")]
    Infeasible { source: SolveError, instead: Instead },
    #[error(
        "{clock} is {:.1} MHz as computed, but runs of the firmware confirm neither it nor any clock {} to {:.1} MHz: \
         give --{}, and check it by a run",
        mhz(*computed_hz), if last_hz < computed_hz { "down" } else { "up" }, mhz(*last_hz), clock.word()
    )]
    Unconfirmed { clock: OpenClock, computed_hz: u64, last_hz: u64 },
    #[error(
        "no core clock up to 100 GHz carries this: raise the DMA's clock, the bus width or the number of cores"
    )]
    None,
}

impl Kind for ClockError {
    fn failure(&self) -> Failure {
        if matches!(self, Self::Mix { .. }) { Failure::Usage } else { Failure::Infeasible }
    }
}

impl OpenClock {
    /// Its word in options.
    const fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Dma => "dma",
        }
    }
}

impl fmt::Display for OpenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core => "the core's clock",
            Self::Dma => "the DMA's clock",
        })
    }
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bus { bits } => write!(f, "--bus {bits} carries it"),
            Self::Cores { cores } => write!(f, "--bus 1024 --cores {cores} carry it"),
            Self::Nothing => f.write_str(
                "no bus up to 1024 bits with up to 256 cores carries it within the limits",
            ),
        }
    }
}

fn mhz(hz: u64) -> f64 {
    hz as f64 / 1e6
}
