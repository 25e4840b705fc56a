//! The parameters of a sending side. The defaults are those of the published design (Elbeshti et al.).

use super::super::core::{DmaClock, Load, MAX_CLOCK, MIN_CLOCK, clock, misfit, named};
use garde::Validate;
use linecard_config::{Bytes, ConfigError, Duration, Frequency, Maybe, Parsed, Rate, power_of_two};
use linecard_model::Ps;
use linecard_model::rv32::CoreKind;
use linecard_model::transmit::{BusPolicy, Design, DesignError, HeaderPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// A sending side: cores with firmware, each with bus, DMA and buffers, and a line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The cores.
    #[garde(dive)]
    pub core: Core,
    /// Their DMA engines.
    #[garde(dive)]
    pub dma: Dma,
    /// Their local buses.
    #[garde(dive)]
    pub bus: Bus,
    /// The line, and the buffers before it.
    #[garde(dive)]
    pub line: Line,
    /// The host.
    #[garde(dive)]
    pub host: Host,
    /// The messages to send.
    #[garde(dive)]
    pub load: Load,
    /// The cores' program.
    #[garde(dive)]
    pub firmware: Firmware,
}

/// The cores.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// cores, each with memories, bus, DMA and buffers of its own
    #[default(1)]
    #[garde(range(min = 1, max = Design::MAX_CORES))]
    pub count: usize,
    /// the cores' clock in MHz
    #[default(Frequency::from_mhz(423))]
    #[garde(range(min = MIN_CLOCK, max = MAX_CLOCK))]
    pub mhz: Frequency,
    /// core whose cycles instructions take
    #[garde(skip)]
    pub kind: CoreKind,
    /// cycles that a three-stage core loses by a branch that is taken
    #[default(1)]
    #[garde(range(min = 0, max = 2))]
    pub bubbles: u64,
    /// when the first cycle begins, as a share of the period, in millionths
    #[garde(range(min = 0.0, max = 0.999_999))]
    pub phase: f64,
}

/// The DMA engines.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Dma {
    /// the DMA's clock in MHz, 0.001 to 100000, or as "5x" a multiple of the cores'
    #[default(Parsed(DmaClock::Hz(2_115_000_000)))]
    #[schemars(extend("type" = ["number", "string"]))]
    pub mhz: Parsed<DmaClock>,
    /// DMA cycles to move a word of the bus
    #[default(1)]
    #[garde(range(min = 1, max = 8))]
    pub cycles_per_word: u64,
    /// as core.phase
    #[garde(range(min = 0.0, max = 0.999_999))]
    pub phase: f64,
}

/// The local buses.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Bus {
    /// width of the local bus, a power of two
    #[default(64)]
    #[garde(range(min = 32, max = 1024), custom(power_of_two))]
    pub bits: u32,
    /// access to the bus during a transfer
    pub policy: BusPolicy,
    /// the way of headers
    pub header: HeaderPath,
}

/// The line.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// bits per second
    #[default(Maybe::from(Rate::giga(100)))]
    #[garde(range(min = Rate::KILO, max = Rate::tera(100)))]
    pub rate: Maybe<Rate>,
    /// bytes on the line beside each IP packet: 20 as published, 38 for Ethernet
    #[default(Bytes::new(20))]
    #[garde(range(min = Bytes::new(0), max = Bytes::new(65_535)))]
    pub overhead: Bytes,
    /// bytes of each line-interface buffer, at least the MTU and 128
    #[default(Bytes::new(64 << 10))]
    #[garde(range(min = Bytes::new(174), max = Bytes::new(1 << 30)))]
    pub sbi: Bytes,
}

/// The host.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// from a message in the mailbox to the core's first cycle
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
    pub interrupt: Duration,
}

/// The program.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Firmware {
    /// "approach-1", "approach-2", "best", or the path of an ELF file, relative to the scenario's folder; with --set or
    /// --vary to the current one
    #[default("approach-2".to_owned())]
    #[garde(custom(named))]
    pub image: String,
    /// cycles without a packet and without sleep after which firmware is reported to loop
    #[default(1_000_000)]
    #[garde(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub patience: u64,
}

impl Config {
    /// The system to build; the DMA's phase is moved by this many millionths of its period.
    ///
    /// # Errors
    ///
    /// Values that do not fit each other.
    pub fn design(&self, moved: u64) -> Result<Design, ConfigError> {
        let Self { core, dma, bus, line, host, load, firmware } = self;
        let build = || {
            let core_hz = core.mhz.hz();
            let design = Design {
                cores: core.count,
                core: clock(core_hz, core.phase, 0)?,
                timing: core.kind.timing(core.bubbles),
                dma: clock(dma.mhz.0.hz(core_hz), dma.phase, moved)?,
                cycles_per_word: dma.cycles_per_word,
                bus_bits: bus.bits,
                policy: bus.policy,
                header: bus.header,
                sbi_bytes: line.sbi.get() as usize,
                mtu: load.mtu(),
                line_bits_per_second: line.rate.0.map(Rate::bits_per_second),
                wire_overhead_bytes: line.overhead.get(),
                interrupt: Ps::from(host.interrupt),
                patience: firmware.patience,
            };
            design.check().map(|()| design)
        };
        build().map_err(refused)
    }
}

/// A design that cannot be built, as an error about the parameter.
pub(super) fn refused(error: DesignError) -> ConfigError {
    let parameter = match error {
        DesignError::Range { name: "sbi_bytes", .. } => "line.sbi",
        DesignError::Range { name: "mtu", .. } => "load.mtu",
        DesignError::Range { name: "line_bits_per_second", .. } => "line.rate",
        DesignError::Range { .. } | DesignError::Clock(_) => "dma.mhz",
        DesignError::BusBits(_) => "bus.bits",
        DesignError::Timing(_) => "core.kind",
    };
    misfit(parameter, error)
}
