//! How the chunks of a transfer are spread over lanes, as users write it.

use clap::ValueEnum;
use linecard_transfer::send::Mode;

/// What `--mode` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Each chunk whole on one lane: the most throughput.
    Stable,
    /// Each chunk over all lanes: the least latency.
    LowLatency,
    /// Stable while there are chunks for all lanes, low latency when not.
    Auto,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Stable => Self::Stable,
            ModeName::LowLatency => Self::LowLatency,
            ModeName::Auto => Self::Auto,
        }
    }
}
