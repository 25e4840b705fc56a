//! The parameters. The defaults are those of a published experiment with all of its lanes, in stable mode
//! (Büchner et al., 2017); what the paper leaves open is in docs/results/end2end100.md.

use super::super::error::ModelError;
use super::spec::{MAX_PACKETS, Passed, Spec};
use garde::Validate;
use linecard_config::{Bytes, ConfigError, Duration, Parsed, Probability, Rate, Switch};
use linecard_transfer::control::Mode;
use linecard_transfer::fec::Repair;
use linecard_transfer::lane::Congestion;
use linecard_transfer::receive::MAX_WINDOW;
use linecard_transfer::sim::Faults;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// A transfer over several lanes in virtual time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The lanes.
    #[garde(dive)]
    pub lanes: Lanes,
    /// The chunks.
    #[garde(dive)]
    pub chunk: Chunk,
    /// The packets.
    #[garde(dive)]
    pub packet: Packet,
    /// The protocol.
    #[garde(dive)]
    pub transfer: Transfer,
    /// A device at each end that all packets pass, there and back.
    #[garde(dive)]
    pub device: Device,
    /// The run itself.
    #[garde(dive)]
    pub run: Run,
}

/// The lanes.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Lanes {
    /// lanes
    #[default(8)]
    #[garde(range(min = 1, max = 64))]
    pub count: u64,
    /// bits per second of each lane, framing included
    #[default(Rate::giga(10))]
    #[garde(range(min = Rate::new(1_000_000), max = Rate::tera(1)))]
    #[schemars(extend("x-flag" = "rate"))]
    pub rate: Rate,
    /// bits per second of each lane, framing included, where lanes differ: in place of count and rate
    #[garde(length(max = 64), inner(range(min = Rate::new(1_000_000), max = Rate::tera(1))))]
    pub rates: Vec<Rate>,
    /// delay of a lane, one way
    #[default(Duration::from_ns(5_000))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_ms(1_000)))]
    #[schemars(extend("x-flag" = "delay"))]
    pub delay: Duration,
    /// how a lane comes to its rate: it is known and reserved (known), or found by delivery rate and round-trip time
    /// (bbr) or by losses (cubic)
    #[schemars(extend("x-flag" = "congestion"))]
    pub congestion: LaneRate,
    /// queue of a lane of unknown rate, as the time that it takes to empty; packets beyond it are dropped
    #[default(Duration::from_ms(50))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(10)))]
    #[schemars(extend("x-flag" = "queue"))]
    pub queue: Duration,
    /// bytes on the line beside data, header and seal: 38 for bare Ethernet, 66 for UDP over IPv4
    #[default(Bytes::new(38))]
    #[garde(range(min = Bytes::new(0), max = Bytes::new(1_000)))]
    #[schemars(extend("x-flag" = "framing"))]
    pub framing: Bytes,
    /// share of packets that a lane loses, as 0.01 or "1%"
    pub loss: Probability,
    /// share of packets that arrive twice
    pub duplicate: Probability,
    /// share of packets that others overtake
    pub reorder: Probability,
    /// share of packets that are refused, because a bit of them has changed
    pub corrupt: Probability,
}

/// The chunks.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Chunk {
    /// chunks to send
    #[default(32)]
    #[garde(range(min = 1, max = 100_000))]
    #[schemars(extend("x-flag" = "chunks"))]
    pub count: u64,
    /// chunks in flight, if the receiver has room; with 1, each chunk waits for the confirmation of
    /// the previous one, as in the published low-latency mode
    #[default(MAX_WINDOW)]
    #[garde(range(min = 1, max = MAX_WINDOW))]
    #[schemars(extend(
        "x-flag" = "max-inflight",
        "x-former" = "under_way",
        "x-former-flag" = "under-way"
    ))]
    pub max_inflight: u32,
    /// bytes of a chunk
    #[default(Bytes::new(16 << 20))]
    #[garde(range(min = Bytes::new(1), max = Bytes::new(1 << 30)))]
    #[schemars(extend("x-flag" = "chunk"))]
    pub bytes: Bytes,
    /// time that a host spends on starting a chunk on a lane
    #[default(Duration::from_ns(26_000))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
    #[schemars(extend("x-flag" = "chunk-overhead", "x-former" = "begin", "x-former-flag" = "begin"))]
    pub overhead: Duration,
}

/// The packets.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Packet {
    /// bytes of data in a packet; header and seal are 40 more
    #[default(Bytes::new(4_096))]
    #[garde(range(min = Bytes::new(64), max = Bytes::new(65_000)))]
    #[schemars(extend("x-flag" = "payload"))]
    pub bytes: Bytes,
}

/// The protocol.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Transfer {
    /// how chunks are spread over lanes
    #[schemars(extend("x-flag" = "mode"))]
    pub mode: Spreading,
    /// repair of lost packets: "none", "xor:K", "rs:K,M", "duplicate", or "auto" for as much as brings chunks earlier
    #[default(Parsed(Repair::default()))]
    #[schemars(extend("x-flag" = "fec"))]
    pub fec: Parsed<Repair>,
}

/// A device at each end that all packets pass, there and back, such as one that computes repair.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Device {
    /// whether packets pass a device at each end, there and back
    pub present: Switch,
    /// bits per second of the link of each lane to it, each way, framing included
    #[default(Rate::giga(10))]
    #[garde(range(min = Rate::new(1_000_000), max = Rate::tera(1)))]
    pub link: Rate,
    /// delay of that link, one way
    #[default(Duration::from_ns(5_000))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_ms(100)))]
    pub delay: Duration,
    /// bits per second that it computes for all lanes together
    #[default(Rate::giga(100))]
    #[garde(range(min = Rate::new(1_000_000), max = Rate::tera(100)))]
    pub rate: Rate,
    /// from a packet's last bit in to its first bit out
    #[default(Duration::from_ns(305))]
    #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
    pub time: Duration,
}

/// The run itself.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// seed of everything that is random
    #[default(1)]
    #[garde(range(min = 0, max = u64::MAX))]
    pub seed: u64,
}

/// How a lane comes to its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaneRate {
    /// it is known and reserved, and the lane says when it has room
    #[default]
    Known,
    /// by delivery rate and round-trip time, as a transfer without `rate=` does
    Bbr,
    /// by losses, as most TCP connections do
    Cubic,
}

/// How chunks are spread over lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spreading {
    /// each chunk whole on one lane: the most throughput
    #[default]
    Stable,
    /// each chunk over all lanes: the least latency
    LowLatency,
    /// stable while there are chunks for all lanes, low latency when not
    Auto,
}

impl From<Spreading> for Mode {
    fn from(spreading: Spreading) -> Self {
        match spreading {
            Spreading::Stable => Self::Stable,
            Spreading::LowLatency => Self::LowLatency,
            Spreading::Auto => Self::Auto,
        }
    }
}

impl Config {
    /// The transfer, which can be divided into packets and has not too many of them.
    ///
    /// # Errors
    ///
    /// Chunks that cannot be divided, and more packets than a run has.
    pub fn spec(&self) -> Result<Spec, ConfigError> {
        let spec = self.unchecked();
        let packets =
            spec.packets().map_err(|error| ConfigError::of_parameter("chunk.count", error))?;
        if packets > MAX_PACKETS {
            let error = ModelError::TooManyPackets { packets };
            return Err(ConfigError::of_parameter("chunk.count", error));
        }
        Ok(spec)
    }

    pub(super) fn unchecked(&self) -> Spec {
        let Self { lanes, chunk, packet, transfer, device, run } = self;
        // Within their ranges they fit.
        let bytes = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        Spec {
            rates_bits_per_second: match lanes.rates.as_slice() {
                [] => vec![lanes.rate.bits_per_second(); lanes.count as usize],
                rates => rates.iter().map(|rate| rate.bits_per_second()).collect(),
            },
            mode: transfer.mode.into(),
            fec: transfer.fec.0,
            chunks: chunk.count,
            under_way: chunk.max_inflight,
            chunk_bytes: bytes(chunk.bytes),
            payload_bytes: bytes(packet.bytes),
            framing_bytes: bytes(lanes.framing),
            delay_ns: lanes.delay.as_ns(),
            congestion: match lanes.congestion {
                LaneRate::Known => None,
                LaneRate::Bbr => Some(Congestion::Bbr),
                LaneRate::Cubic => Some(Congestion::Cubic),
            },
            queue_ns: lanes.queue.as_ns(),
            begin_ns: chunk.overhead.as_ns(),
            device: device.present.0.then(|| Passed {
                link_bits_per_second: device.link.bits_per_second(),
                delay_ns: device.delay.as_ns(),
                rate_bits_per_second: device.rate.bits_per_second(),
                time_ns: device.time.as_ns(),
            }),
            faults: Faults {
                loss: lanes.loss.get(),
                duplicate: lanes.duplicate.get(),
                reorder: lanes.reorder.get(),
                corrupt: lanes.corrupt.get(),
                overtake: 0.0,
            },
            seed: run.seed,
        }
    }
}
