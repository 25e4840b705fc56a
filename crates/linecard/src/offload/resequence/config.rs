//! Configuration of resequencing.

use crate::offload::coalesce::ChecksumPolicy;
use core::time::Duration;

/// Configuration of a [`Resequencer`](super::Resequencer). Memory is allocated at construction:
/// about 200 bytes per flow and 250 per packet that may be held, without packet buffers.
///
/// ```
/// use linecard::offload::resequence::Config;
/// let config = Config { max_flow_packets: 32, ..Config::default() };
/// assert!(!config.drop_duplicates);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How checksums are verified: only packets with valid checksums move the expected sequence
    /// number. Default: verify. The result is recorded in the packet, so that a coalescer behind
    /// does not verify it again.
    pub checksum: ChecksumPolicy,
    /// Whether packets are dropped if every byte of them has been passed or is held
    /// (Li, Chen, Su, Algorithms 1 and 2). Default: no; they are passed. **If set, a
    /// retransmission caused by a lost acknowledgment never reaches the receiver, which would have
    /// acknowledged it again (RFC 9293, section 3.10.7.4)**: the sender waits until later data is
    /// acknowledged, and without any, forever. Only for links that duplicate packets and do not
    /// lose acknowledgments.
    pub drop_duplicates: bool,
    /// The longest time for which a packet is held. Default: 250 µs, a quarter of the coalescer's
    /// budget; it covers paths that differ in delay by 250 µs, and bounds how much later the
    /// receiver notices a lost packet.
    pub hold_budget: Duration,
    /// The shortest time for which a gap is waited for, if the budget allows: packets that arrive
    /// in one burst often carry the same timestamp, so their average interval is 0. Default: 50 µs,
    /// above the interrupt interval of most adapters.
    pub gap_floor: Duration,
    /// The most packets held per flow, at least 1. Default: 128, 150 µs of 10 Gbit/s at 1,460 bytes
    /// each; the paper's unit holds 45.
    pub max_flow_packets: usize,
    /// The window in bytes: how far ahead of the expected byte a packet may reach, and the most
    /// bytes of frames held per flow. Data farther ahead or behind is treated as another sequence
    /// and not waited for. Default: 256 KiB, above 128 packets of 1,500 bytes.
    pub max_flow_bytes: usize,
    /// The most packets held in total, at least 1. Default: 4,096: 250 µs of 200 Gbit/s at 1,460
    /// bytes each.
    pub max_held_packets: usize,
    /// The most bytes of frames held in total. Default: 8 MiB, above 4,096 packets of 1,500 bytes.
    pub max_held_bytes: usize,
    /// Flows in the table, rounded up to a power of two, at least 8. Default: 4,096, as in the
    /// coalescer.
    pub max_flows: usize,
    /// Key of the hash: from the operating system's random source where peers are not trusted. The
    /// default is a constant, so that equal captures give equal results.
    pub secret: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            checksum: ChecksumPolicy::Verify,
            drop_duplicates: false,
            hold_budget: Duration::from_micros(250),
            gap_floor: Duration::from_micros(50),
            max_flow_packets: 128,
            max_flow_bytes: 256 << 10,
            max_held_packets: 4_096,
            max_held_bytes: 8 << 20,
            max_flows: 4_096,
            secret: 0x6C69_6E65_6361_7264,
        }
    }
}

impl Config {
    /// The configuration with every bound within its range: none is zero, and sequence numbers stay
    /// distinguishable.
    pub(super) fn bounded(self) -> Self {
        Self {
            max_flow_packets: self.max_flow_packets.max(1),
            // Half of all sequence numbers are ahead; half of those suffice for any window.
            max_flow_bytes: self.max_flow_bytes.min(1 << 30),
            max_held_packets: self.max_held_packets.max(1),
            ..self
        }
    }
}
