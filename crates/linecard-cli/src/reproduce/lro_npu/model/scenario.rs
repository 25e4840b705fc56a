//! The section `[model]` of a scenario: the model's own sections, and the questions.

use garde::Validate;
use linecard_config::{Duration, Rate};
use linecard_model::npu::{Client, Config, Dma, Host, Npu, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// Seeds: enough for a standard error, and not so many that a run takes hours.
const SEEDS: (u64, u64) = (2, 10_000);

/// The section. What is left out has its default.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub(in super::super) struct Settings {
    /// ports and jitter of each run follow from it
    #[garde(range(min = 0, max = i64::MAX as u64))]
    pub(super) seed: u64,
    /// runs of each point, with a seed of its own
    #[default(20)]
    #[garde(range(min = SEEDS.0, max = SEEDS.1))]
    pub(super) seeds: u64,
    /// connections of the points of figure 13
    #[default(vec![1, 2, 4, 8, 16, 32, 64])]
    #[garde(inner(range(min = 1, max = 1_024)))]
    pub(super) connections: Vec<u32>,
    /// load of the DMA engine in section V.B, in per cent
    #[default(vec![150, 200, 400])]
    #[garde(inner(range(min = 101, max = 10_000)))]
    pub(super) loads: Vec<u64>,
    /// until windows are open
    #[default(8_000_000)]
    #[garde(range(min = 0, max = 1_000_000_000_000_u64))]
    pub(super) warm_up_ns: u64,
    /// the time measured
    #[default(20_000_000)]
    #[garde(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(super) measure_ns: u64,
    /// the network processor
    #[garde(dive)]
    npu: Npu,
    /// its DMA engine
    #[garde(dive)]
    dma: Dma,
    /// the receiving host
    #[garde(dive)]
    host: Host,
    /// the sending host
    #[garde(dive)]
    client: Client,
    /// section V.B
    #[garde(dive)]
    pub(super) starvation: Starvation,
    /// section V.C
    #[garde(dive)]
    pub(super) active_ack: ActiveAck,
}

/// Section V.B: connections that keep the DMA engine busy, and others that are tried.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Starvation {
    /// connections that send
    #[default(3)]
    #[garde(range(min = 1, max = 1_024))]
    pub(super) busy: u32,
    /// connections tried beside them
    #[default(64)]
    #[garde(range(min = 0, max = 1_024))]
    pub(super) attempts: u32,
    /// runs of each point, with a seed of its own
    #[default(5)]
    #[garde(range(min = SEEDS.0, max = SEEDS.1))]
    pub(super) seeds: u64,
    /// retransmission timer of SYN
    #[default(100_000_000)]
    #[garde(range(min = 1_000, max = 3_600_000_000_000_u64))]
    pub(super) syn_rto_ns: u64,
    /// SYNs before a connection is given up
    #[default(2)]
    #[garde(range(min = 1, max = 100))]
    pub(super) syn_tries: u32,
}

/// Section V.C: a sender that may have less outstanding than merging waits for.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ActiveAck {
    /// bytes sent
    #[default(1 << 20)]
    #[garde(range(min = 1, max = 1_u64 << 40))]
    pub(super) bytes: u64,
    /// bytes outstanding: a segment at least
    #[default(16 << 10)]
    #[garde(range(min = 1_460, max = 1 << 30))]
    pub(super) outstanding: u32,
    /// bytes of a merged packet
    #[default(32 << 10)]
    #[garde(range(min = 1_500, max = 65_535))]
    pub(super) max_bytes: usize,
    /// buffer of a receiver that reads slowly
    #[default(40_000)]
    #[garde(range(min = 1, max = 65_535))]
    pub(super) slow_buffer: u32,
    /// bits per second that it reads
    #[default(Rate::new(100_000_000))]
    #[garde(range(min = Rate::KILO, max = Rate::tera(10)))]
    #[schemars(extend("x-former" = "slow_bits_per_second"))]
    pub(super) slow_rate: Rate,
}

impl Settings {
    /// What all questions start from.
    pub(super) fn base(&self) -> Config {
        let end_ns = self.warm_up_ns + self.measure_ns;
        Config {
            run: Run {
                seed: self.seed,
                warm_up: Duration::from_ns(self.warm_up_ns),
                duration: Duration::from_ns(end_ns),
            },
            npu: self.npu.clone(),
            dma: self.dma.clone(),
            host: self.host.clone(),
            client: self.client.clone(),
        }
    }
}
