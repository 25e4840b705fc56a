//! A link: its usable rate, and the traffic of reads and writes.

use garde::Validate;
use linecard_config::power_of_two;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The widest link.
const MAX_LANES: u32 = 32;
/// The least and the greatest size of payloads and read requests, in bytes.
const MIN_SIZE: u32 = 128;
pub(super) const MAX_SIZE: u32 = 4_096;
/// The least size of a completion.
const MIN_COMPLETION: u32 = 64;

/// The generations of PCI Express.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Generation {
    /// 2.5 GT/s
    ///
    /// In 8b/10b, as Gen2.
    Gen1,
    /// 5 GT/s
    Gen2,
    /// 8 GT/s
    ///
    /// In 128b/130b, as Gen4 and Gen5.
    #[default]
    Gen3,
    /// 16 GT/s
    Gen4,
    /// 32 GT/s
    Gen5,
    /// 64 GT/s
    ///
    /// PAM4 in flits of 256 bytes, of which 236 carry transactions.
    Gen6,
    /// 128 GT/s
    ///
    /// In flits as Gen6.
    Gen7,
}

impl Generation {
    /// All of them, the slowest first.
    pub const ALL: [Self; 7] =
        [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6, Self::Gen7];

    const fn transfers_per_second(self) -> u64 {
        match self {
            Self::Gen1 => 2_500_000_000,
            Self::Gen2 => 5_000_000_000,
            Self::Gen3 => 8_000_000_000,
            Self::Gen4 => 16_000_000_000,
            Self::Gen5 => 32_000_000_000,
            Self::Gen6 => 64_000_000_000,
            Self::Gen7 => 128_000_000_000,
        }
    }

    /// Useful bits, and encoded bits.
    const fn encoding(self) -> (u64, u64) {
        match self {
            Self::Gen1 | Self::Gen2 => (8, 10),
            Self::Gen3 | Self::Gen4 | Self::Gen5 => (128, 130),
            Self::Gen6 | Self::Gen7 => (236, 256),
        }
    }

    /// Whether packets are in flits, which have acknowledgments, credits and CRC of their own.
    const fn has_flits(self) -> bool {
        matches!(self, Self::Gen6 | Self::Gen7)
    }

    /// A receiver's response time in symbols (PCI Express Base Specification, section 3.6.3.1).
    const fn internal_delay(self) -> u64 {
        match self {
            Self::Gen1 => 19,
            Self::Gen2 => 70,
            _ => 115,
        }
    }
}

/// The link as it was negotiated.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct LinkConfig {
    /// the generation of PCI Express
    pub generation: Generation,
    /// lanes, a power of two
    #[default(8)]
    #[garde(range(min = 1, max = MAX_LANES), custom(power_of_two))]
    pub lanes: u32,
    /// bytes of a packet's payload (MPS), a power of two
    #[default(256)]
    #[garde(range(min = MIN_SIZE, max = MAX_SIZE), custom(power_of_two))]
    pub mps: u32,
    /// bytes of a read request (MRRS), a power of two
    #[default(512)]
    #[garde(range(min = MIN_SIZE, max = MAX_SIZE), custom(power_of_two))]
    pub mrrs: u32,
    /// bytes of a completion, a power of two: MPS at most
    ///
    /// It is as long as MPS, or as the read completion boundary (RCB) where a chipset cuts there.
    #[default(256)]
    #[garde(range(min = MIN_COMPLETION, max = MAX_SIZE), custom(power_of_two))]
    pub completion: u32,
}

/// An invalid number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} lanes: choose 1, 2, 4, 8, 16 or 32")]
pub struct LanesError(pub u32);

/// A negotiated link.
///
/// For the eight lanes of Gen3 below the paper has 62.96 Gbit/s, which is 7.87 a lane, and 57.88 for
/// transactions.
///
/// ```
/// use linecard_model::pcie::{Generation, Link};
/// let link = Link::new(Generation::Gen3, 8)?;
/// assert_eq!(link.raw_bits_per_second() / 1_000_000, 63_015);
/// assert_eq!(link.tlp_bits_per_second() / 10_000_000, 5_788);
/// # Ok::<(), linecard_model::pcie::LanesError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    generation: Generation,
    lanes: u32,
    max_payload: u32,
    max_read: u32,
    completion: u32,
}

/// Bytes on the link in each direction, framing included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the device to the host.
    pub up: u64,
    /// From the host to the device.
    pub down: u64,
}

impl Traffic {
    /// The sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { up: self.up + other.up, down: self.down + other.down }
    }

    /// `count` times this traffic.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self { up: self.up * count, down: self.down * count }
    }

    /// The same traffic seen from the other end.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { up: self.down, down: self.up }
    }
}

impl Link {
    /// A link with payloads of at most 256 bytes, reads of at most 512 and completions as long as a
    /// payload may be: what the paper takes.
    ///
    /// # Errors
    /// A number of lanes that is not 1, 2, 4, 8, 16 or 32.
    pub fn new(generation: Generation, lanes: u32) -> Result<Self, LanesError> {
        if !lanes.is_power_of_two() || lanes > MAX_LANES {
            return Err(LanesError(lanes));
        }
        Ok(Self::of(&LinkConfig { generation, lanes, ..LinkConfig::default() }))
    }

    /// A link whose values have been checked.
    pub(super) fn of(config: &LinkConfig) -> Self {
        let LinkConfig { generation, lanes, mps, mrrs, completion } = *config;
        Self { generation, lanes, max_payload: mps, max_read: mrrs, completion }
    }

    /// Bits per second in each direction after encoding.
    #[must_use]
    pub const fn raw_bits_per_second(&self) -> u64 {
        let (carrying, of) = self.generation.encoding();
        self.generation.transfers_per_second() / of * carrying * self.lanes as u64
    }

    /// Bits per second for transactions: without acknowledgments, flow control and SKP ordered sets.
    ///
    /// As the paper counts: an acknowledgment and an update of credits, 8 bytes each, as often as the
    /// specification recommends at the latest, and 4 bytes of SKP in 1538. A flit has its own
    /// bytes for all that.
    #[must_use]
    pub fn tlp_bits_per_second(&self) -> u64 {
        if self.generation.has_flits() {
            return self.raw_bits_per_second();
        }
        let raw = self.raw_bits_per_second();
        raw - raw * 16 / self.acknowledge_symbols() - raw * 4 / 1_538
    }

    /// Symbol times after which a packet is acknowledged at the latest (PCI Express Base Specification,
    /// section 3.6.3.1).
    fn acknowledge_symbols(&self) -> u64 {
        let tenths = match (self.lanes, self.max_payload) {
            (..=4, ..=256) => 14,
            (8, ..=256) => 25,
            (16.., ..=256) => 30,
            (16.., _) => 20,
            _ => 10,
        };
        let packet = u64::from(self.max_payload) + 28;
        packet * tenths / (10 * u64::from(self.lanes)) + self.generation.internal_delay()
    }

    /// The device writes `bytes` to the host.
    #[must_use]
    pub const fn write(&self, bytes: u64) -> Traffic {
        let packets = bytes.div_ceil(self.max_payload as u64);
        Traffic { up: bytes + packets * self.framed(12), down: 0 }
    }

    /// The device reads `bytes` from the host.
    #[must_use]
    pub const fn read(&self, bytes: u64) -> Traffic {
        let requests = bytes.div_ceil(self.max_read as u64);
        let completions = bytes.div_ceil(self.completion as u64);
        Traffic { up: requests * self.framed(12), down: bytes + completions * self.framed(8) }
    }

    /// Overhead of a packet: 4 bytes common to all, `header` bytes, and up to Gen5 another 8 for
    /// start, sequence number and CRC. 24 bytes for writes and read requests with 64-bit addresses,
    /// 20 for completions.
    const fn framed(&self, header: u64) -> u64 {
        let framing = if self.generation.has_flits() { 0 } else { 8 };
        framing + 4 + header
    }

    /// How many times per second the link can carry `traffic`.
    #[must_use]
    pub fn times_per_second(&self, traffic: Traffic) -> f64 {
        let bytes = traffic.up.max(traffic.down).max(1);
        self.tlp_bits_per_second() as f64 / 8.0 / bytes as f64
    }

    /// Data rate in bits per second, if `bytes` of data cause `traffic`.
    #[must_use]
    pub fn data_bits_per_second(&self, bytes: u64, traffic: Traffic) -> f64 {
        self.times_per_second(traffic) * bytes as f64 * 8.0
    }

    pub(super) const fn max_read(&self) -> u64 {
        self.max_read as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::Config;

    fn link(generation: Generation, lanes: u32) -> Link {
        Link::new(generation, lanes).unwrap()
    }

    /// Table 3-9 of the specification, 8 GT/s and above, and two lines of 3-7 and 3-8.
    #[test]
    fn packets_are_acknowledged_as_often_as_specified() {
        let symbols = |generation, lanes, mps| {
            Link::of(&LinkConfig { generation, lanes, mps, ..LinkConfig::default() })
                .acknowledge_symbols()
        };
        for (lanes, expected) in [
            (1, [333, 512, 655, 1167]),
            (4, [169, 214, 250, 378]),
            (8, [163, 203, 182, 246]),
            (16, [144, 168, 182, 246]),
            (32, [129, 141, 148, 180]),
        ] {
            let ours = [128, 256, 512, 1024].map(|mps| symbols(Generation::Gen3, lanes, mps));
            assert_eq!(ours, expected, "x{lanes}");
        }
        assert_eq!(symbols(Generation::Gen1, 1, 256), 416);
        assert_eq!(symbols(Generation::Gen2, 16, 1024), 201);
    }

    #[test]
    fn a_packet_has_the_published_overhead() {
        let link = link(Generation::Gen3, 8);
        assert_eq!(link.write(256), Traffic { up: 256 + 24, down: 0 });
        assert_eq!(link.write(257), Traffic { up: 257 + 48, down: 0 });
        assert_eq!(link.read(513), Traffic { up: 48, down: 513 + 60 });
        let chunks = Link::of(&LinkConfig { completion: 64, ..LinkConfig::default() });
        assert_eq!(chunks.read(512), Traffic { up: 24, down: 512 + 160 });
    }

    /// Flits of 256 bytes carry 236: 242 and 484 GB/s of x16, both ways together, are 236/256 of it each way.
    #[test]
    fn gen7_is_twice_gen6() {
        let [six, seven] =
            [Generation::Gen6, Generation::Gen7].map(|generation| link(generation, 16));
        assert_eq!(six.tlp_bits_per_second(), 944_000_000_000);
        assert_eq!(seven.tlp_bits_per_second(), 2 * six.tlp_bits_per_second());
        assert_eq!(six.write(256), seven.write(256));
    }

    #[test]
    fn bandwidth_saws_with_the_size_of_a_packet() {
        let link = link(Generation::Gen3, 8);
        let bps = |bytes| link.data_bits_per_second(bytes, link.write(bytes));
        assert!(bps(256) > bps(255) && bps(257) < bps(256) && bps(512) > bps(257));
    }

    #[test]
    fn what_no_link_can_be_is_refused() {
        assert_eq!(Link::new(Generation::Gen4, 3), Err(LanesError(3)));
        assert_eq!(Link::new(Generation::Gen4, 64), Err(LanesError(64)));
        let refused = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.link().expect_err("refused").to_string()
        };
        let mps = refused(|config| config.link.mps = 100);
        assert_eq!(mps, "link.mps: 100 is out of range: choose 128 to 4096");
        let mrrs = refused(|config| config.link.mrrs = 1_000);
        assert_eq!(mrrs, "link.mrrs: 1000 is not a power of two: choose 512 or 1024");
        assert!(refused(|config| config.link.completion = 8_192).starts_with("link.completion: "));
        let completion = refused(|config| config.link.completion = 512);
        let text = "link.completion: 512 bytes in a completion: choose up to the link's MPS, 256";
        assert_eq!(completion, text);
        let reads = refused(|config| config.reads.bytes = 513);
        assert!(reads.starts_with("reads.bytes: 513 bytes in a request"), "{reads}");
    }
}
