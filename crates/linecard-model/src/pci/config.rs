//! The parameters: the adapter, the server and the cost of its software, the clients.

use super::bus::PCI_HZ;
use crate::{Clock, Ps};
use alloc::format;
use garde::Validate;
use linecard_config::{Bytes, Duration, Frequency, Rate, Switch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The longest run, and the longest warm-up.
const LONGEST: Duration = Duration::from_secs(100);
/// The most cycles that software takes for a frame.
const MAX_CYCLES: u32 = 100_000_000;

/// A gigabit adapter on PCI and the server behind it: by default the 700 MHz server with eight clients of six sessions
/// each, at which the paper saw most.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The run itself.
    #[garde(dive)]
    pub run: Run,
    /// The adapter and its bus.
    #[garde(dive)]
    pub adapter: Adapter,
    /// The server's processors and what runs where.
    #[garde(dive)]
    pub server: Server,
    /// Costs of its software.
    #[garde(dive)]
    pub costs: Costs,
    /// Load of the clients.
    #[garde(dive)]
    pub load: Load,
}

/// The run itself.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// draws the clients' starts and answers
    #[default(1)]
    #[garde(range(min = 0, max = i64::MAX as u64))]
    pub seed: u64,
    /// time before measuring begins
    #[default(Duration::from_ms(50))]
    #[garde(range(min = Duration::ZERO, max = LONGEST))]
    pub warm_up: Duration,
    /// time that is measured
    #[default(Duration::from_ms(200))]
    #[garde(range(min = Duration::from_ms(1), max = LONGEST))]
    pub duration: Duration,
}

/// The adapter and its bus.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Adapter {
    /// the bus clock in MHz
    #[default(Frequency::from_hz(PCI_HZ))]
    #[garde(range(
        min = Frequency::from_hz(Clock::MIN_HZ),
        max = Frequency::from_hz(Clock::MAX_HZ)
    ))]
    pub bus_mhz: Frequency,
    /// bytes of the FIFO
    ///
    /// The paper has no figure; 64 KiB is ours.
    #[default(Bytes::new(64 << 10))]
    #[garde(range(min = Bytes::new(1_518), max = Bytes::new(16 << 20)))]
    pub fifo: Bytes,
    /// bytes of a frame before the bus is requested
    ///
    /// The paper has no figure; 400 is fitted to its 100 wait states of a frame.
    #[default(400)]
    #[garde(range(min = 0, max = 1_518))]
    pub threshold: u32,
    /// receive buffers
    ///
    /// The paper has no figure: 512 hold all that 70 sessions may send.
    #[default(512)]
    #[garde(range(min = 1, max = 65_536))]
    pub buffers: u32,
    /// buffers returned together, at most all
    ///
    /// The paper saw about 18.
    #[default(18)]
    #[garde(range(min = 1, max = 65_536), custom(at_most_all(self.buffers)))]
    pub requeue_batch: u32,
    /// whether a batch is returned by a single write instead of one for each buffer, as the paper suggests
    pub one_write: Switch,
}

/// The server's processors and what runs where.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Server {
    /// clock of each processor in MHz
    #[default(700)]
    #[garde(range(min = 1, max = 10_000))]
    pub mhz: u32,
    /// processors
    #[default(4)]
    #[garde(range(min = 1, max = 16))]
    pub cpus: u8,
    /// whether the interrupt handler copies frames out of the buffers
    #[default(Switch::ON)]
    pub copies: Switch,
    /// where the protocol work is done
    pub protocol: Protocol,
    /// deferred calls that run before frames are looked for again
    ///
    /// The paper has no figure; 1, the least, is ours.
    #[default(1)]
    #[garde(range(min = 1, max = 65_536))]
    pub budget: u32,
}

/// Where protocol work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// in deferred tasks on the processor that took the interrupt, when no frame waits; as measured
    #[default]
    Deferred,
    /// in the interrupt handler itself
    InHandler,
    /// on a processor of its own beside the interrupt handler: the paper's "deserializing"
    Parallel,
}

/// Costs of the server's software. Fitted once, to these: the handler takes 650 bus clocks (19.5
/// µs) of a frame at 400 MHz; 210 frames take 4.9 ms there with all that belongs to them (figure
/// 8); at 700 MHz eight clients are just served, 15.35 µs a frame (figures 2 and 9, whose parts add
/// up to 15.4); beside one processor at 100 %, three others are at 10 % each at 550 MHz. The part
/// that does not scale with the clock between 400 and 700 MHz is taken to be the copy.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// cycles of the interrupt handler for a frame, beside the copy
    #[default(5_432)]
    #[garde(range(min = 0, max = MAX_CYCLES))]
    pub handler_cycles: u32,
    /// picoseconds to copy a byte from memory to memory, whatever the processor's clock
    #[default(3_900)]
    #[garde(range(min = 0, max = 1_000_000))]
    pub copy_ps_per_byte: u32,
    /// cycles of protocol work for a frame or a request
    #[default(1_172)]
    #[garde(range(min = 0, max = MAX_CYCLES))]
    pub protocol_cycles: u32,
    /// cycles of the application for a frame
    #[default(2_960)]
    #[garde(range(min = 0, max = MAX_CYCLES))]
    pub application_cycles: u32,
}

/// Load of clients: each session asks for a file, receives it, and asks for the next.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// clients, each on a link of its own
    #[default(8)]
    #[garde(range(min = 1, max = 64))]
    pub clients: u32,
    /// sessions of each client
    #[default(6)]
    #[garde(range(min = 1, max = 64))]
    pub sessions: u32,
    /// frames that a session sends without an answer
    ///
    /// The paper has no figure; 6 is the window of Windows NT 4.0, 8760 bytes.
    #[default(6)]
    #[garde(range(min = 2, max = 1_024))]
    pub window_frames: u32,
    /// bytes of a file
    #[default(100_000)]
    #[garde(range(min = 1, max = 1 << 30))]
    pub file_bytes: u32,
    /// bits per second of a client's link
    #[default(Rate::new(100_000_000))]
    #[garde(range(min = Rate::new(1_000_000), max = Rate::giga(1)))]
    pub client_rate: Rate,
    /// the least time that a client and the switch take to answer; up to twice this is drawn
    ///
    /// The paper has no figure; 50 µs is ours.
    #[default(Duration::from_ns(50_000))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
    pub answer: Duration,
}

impl Run {
    /// When measuring begins.
    pub(super) fn begins(&self) -> Ps {
        self.warm_up.into()
    }

    /// The end.
    pub(super) fn ends(&self) -> Ps {
        self.begins() + self.duration.into()
    }
}

fn at_most_all(buffers: u32) -> impl FnOnce(&u32, &()) -> garde::Result {
    move |batch, ()| {
        if *batch <= buffers {
            return Ok(());
        }
        let what =
            format!("{batch} of {buffers} buffers cannot be returned: choose 1 to {buffers}");
        Err(garde::Error::new(what))
    }
}
