//! The parameters: the adapter with its memory and its Ethernet, the host, the firmware, the messages.
//!
//! All rates are ours; the defaults are of the time of the source: a bus of 64 bit and 66 MHz, memory of 100 MHz, a core
//! of 100 MHz, gigabit Ethernet.

use crate::Clock;
use alloc::vec;
use garde::Validate;
use linecard_config::{Bytes, Duration, Frequency, OneOrMany, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The fastest bus, memory and Ethernet.
const MAX_RATE: Rate = Rate::tera(100);

/// An adapter, its host, and the messages that it sends.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The adapter.
    #[garde(dive)]
    pub adapter: Adapter,
    /// The host.
    #[garde(dive)]
    pub host: Host,
    /// The firmware's core.
    #[garde(dive)]
    pub firmware: Firmware,
    /// The messages.
    #[garde(dive)]
    pub load: Load,
}

/// Where payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// from host memory to the device
    #[default]
    ZeroCopy,
    /// from host memory to embedded memory, and from there to the device
    StoreAndForward,
}

/// The adapter.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Adapter {
    /// where payload goes
    pub kind: Kind,
    /// bytes of a packet from the IP header on
    #[default(1_500)]
    #[garde(range(min = 256, max = 9_216))]
    pub mtu: usize,
    /// bits per second of embedded memory, reads and writes together
    #[default(Rate::new(3_200_000_000))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    pub embedded: Rate,
    /// bits per second of Ethernet
    #[default(Rate::giga(1))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    pub wire: Rate,
}

/// The host.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// bits per second of the host bus
    #[default(Rate::new(4_266_666_667))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    pub bus: Rate,
    /// from a read of host memory to its first byte
    #[default(Duration::from_ns(600))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_ms(1)))]
    pub latency: Duration,
    /// bytes of host memory that the device sees: an access beyond is a fault
    #[default(1 << 30)]
    #[garde(range(min = 1, max = 1_u64 << 40))]
    pub window: u64,
}

/// The firmware's core. Its cycles are those of the firmware.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
pub struct Firmware {
    /// the core's clock in MHz
    #[default(Frequency::from_mhz(100))]
    #[garde(range(min = Frequency::from_mhz(1), max = Frequency::from_hz(Clock::MAX_HZ)))]
    pub mhz: Frequency,
}

/// The messages.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// draws the payload
    #[default(1)]
    #[garde(range(min = 0, max = i64::MAX as u64))]
    pub seed: u64,
    /// payload bytes of a message, or a list of up to 64 in turn
    ///
    /// With headers a message has 65,535 bytes of IP at most.
    #[default(OneOrMany(vec![Bytes::new(64_000)]))]
    #[garde(length(min = 1, max = 64), inner(range(min = Bytes::new(1), max = Bytes::new(65_000))))]
    pub size: OneOrMany<Bytes>,
    /// how many messages
    #[default(32)]
    #[garde(range(min = 1, max = 1_000))]
    pub messages: usize,
    /// which way they go
    #[garde(skip)]
    pub path: Path,
}

/// The way of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// from host memory to the wire
    #[default]
    Send,
    /// in packets, from the wire to host memory
    Receive,
}
