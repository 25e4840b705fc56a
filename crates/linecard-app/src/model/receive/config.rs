//! The parameters of a receiving side. The defaults are those of the published design (Elbeshti et al., "Cycle
//! processing"), for a line that always has a packet.

use super::super::core::{
    DmaClock, Load, MAX_CLOCK, MAX_MTU, MIN_CLOCK, MIN_MTU, WHOLE, clock, misfit, named,
};
use garde::Validate;
use linecard_config::{Bytes, ConfigError, Duration, Frequency, Maybe, Parsed, Rate, power_of_two};
use linecard_model::Ps;
use linecard_model::receive::Design;
use linecard_model::rv32::CoreKind;
use linecard_model::transmit::{BusPolicy, DesignError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// A receiving side: a core with firmware, bus, DMA and CAM, a line, and lists of buffers in the host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The core.
    #[garde(dive)]
    pub core: Core,
    /// Its DMA engine.
    #[garde(dive)]
    pub dma: Dma,
    /// Its local bus.
    #[garde(dive)]
    pub bus: Bus,
    /// The line, and the buffer behind it.
    #[garde(dive)]
    pub line: Line,
    /// The content-addressable memory.
    #[garde(dive)]
    pub cam: Cam,
    /// The host.
    #[garde(dive)]
    pub host: Host,
    /// The received messages.
    #[garde(dive)]
    pub load: Load,
    /// The core's program.
    #[garde(dive)]
    pub firmware: Firmware,
}

/// The core.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// the core's clock in MHz
    #[default(Frequency::from_mhz(423))]
    #[garde(range(min = MIN_CLOCK, max = MAX_CLOCK))]
    pub mhz: Frequency,
    /// when the first cycle begins, as a share of the period, in millionths
    #[garde(range(min = 0.0, max = 0.999_999))]
    pub phase: f64,
    /// core whose cycles instructions take
    #[garde(skip)]
    pub kind: CoreKind,
    /// cycles that a three-stage core loses by a branch that is taken
    #[default(1)]
    #[garde(range(min = 0, max = 2))]
    pub bubbles: u64,
}

/// The DMA engine.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Dma {
    /// the DMA's clock in MHz, 0.001 to 100000, or as "5x" a multiple of the core's
    #[default(Parsed(DmaClock::OfCore(WHOLE)))]
    #[schemars(extend("type" = ["number", "string"]))]
    pub mhz: Parsed<DmaClock>,
    /// as core.phase
    #[garde(range(min = 0.0, max = 0.999_999))]
    pub phase: f64,
    /// DMA cycles to move a word of the bus
    #[default(2)]
    #[garde(range(min = 1, max = 8))]
    pub cycles_per_word: u64,
}

/// The local bus.
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
}

/// The line.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// bits per second; "unlimited" brings packets as fast as there is room, so that none is lost
    #[garde(range(min = Rate::KILO, max = Rate::tera(100)))]
    pub rate: Maybe<Rate>,
    /// bytes on the line beside each IP packet
    #[default(Bytes::new(20))]
    #[garde(range(min = Bytes::new(0), max = Bytes::new(65_535)))]
    pub overhead: Bytes,
    /// bytes of the receive buffer, at least two buffers of the host
    #[default(Bytes::new(64 << 10))]
    #[garde(range(min = Bytes::new(136), max = Bytes::new(1 << 30)))]
    pub rbi: Bytes,
}

/// The content-addressable memory.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Cam {
    /// lists that are found at a time
    #[default(64)]
    #[garde(range(min = 1, max = Design::MAX_CAM_ENTRIES))]
    pub entries: usize,
    /// core cycles of a lookup
    #[default(1)]
    #[garde(range(min = 1, max = 64))]
    pub latency: u64,
}

/// The host.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// nodes of lists, each with a buffer
    #[default(1_024)]
    #[garde(range(min = 2, max = 65_536))]
    pub nodes: usize,
    /// bytes of a buffer, and of the longest packet; all buffers together 1 GiB at most
    #[default(Bytes::new(2_048))]
    #[garde(range(min = MIN_MTU, max = MAX_MTU))]
    pub buffer: Bytes,
    /// from a packet in the receive buffer to the sleeping core's first cycle
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
    pub interrupt: Duration,
}

/// The program.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Firmware {
    /// "published", "best", or the path of an ELF file, relative to the scenario's folder; with --set to the current one
    #[default("published".to_owned())]
    #[garde(custom(named))]
    pub image: String,
    /// cycles without a packet and without sleep after which firmware is reported to loop
    #[default(1_000_000)]
    #[garde(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub patience: u64,
}

impl Config {
    /// The system to build.
    ///
    /// # Errors
    ///
    /// Values that do not fit each other.
    pub fn design(&self) -> Result<Design, ConfigError> {
        let Self { core, dma, bus, line, cam, host, firmware, .. } = self;
        let build = || {
            let core_hz = core.mhz.hz();
            let design = Design {
                core: clock(core_hz, core.phase, 0)?,
                timing: core.kind.timing(core.bubbles),
                dma: clock(dma.mhz.0.hz(core_hz), dma.phase, 0)?,
                cycles_per_word: dma.cycles_per_word,
                bus_bits: bus.bits,
                policy: bus.policy,
                rbi_bytes: line.rbi.get() as usize,
                cam_entries: cam.entries,
                cam_latency: cam.latency,
                nodes: host.nodes,
                buffer_bytes: host.buffer.get() as usize,
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
        DesignError::BusBits(_) => "bus.bits",
        DesignError::Timing(_) => "core.kind",
        DesignError::Range { name: "rbi_bytes", .. } => "line.rbi",
        DesignError::Range { name: "line_bits_per_second", .. } => "line.rate",
        DesignError::Range { name: "nodes * buffer_bytes", .. } => "host.nodes",
        DesignError::Range { .. } | DesignError::Clock(_) => "dma.mhz",
    };
    misfit(parameter, error)
}
