//! What resequencing may do, and its bounds.

use crate::offload::coalesce::ChecksumPolicy;
use core::time::Duration;

/// Configuration of a [`Resequencer`](super::Resequencer). Memory is taken at construction: about
/// 200 bytes for each flow and 250 for each packet that may be held, buffers aside.
///
/// ```
/// use linecard::offload::resequence::Config;
/// let config = Config { max_flow_packets: 32, ..Config::default() };
/// assert!(!config.drop_duplicates);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whose word is taken for checksums: only packets that are vouched for move what is expected.
    /// Default: verify. What was verified is marked so, and a coalescer behind does not read it
    /// again.
    pub checksum: ChecksumPolicy,
    /// Whether packets of which every byte has been given on, or is held, are dropped
    /// (papers/lro-npu.txt, Algorithms 1 and 2). Default: no; they are passed on. **With this, a
    /// retransmission that was sent because an acknowledgment was lost never reaches the receiver,
    /// which would have acknowledged it again (RFC 9293, section 3.10.7.4)**: the sender waits until
    /// later data is acknowledged, and if there is none, for good. Use it behind links that duplicate
    /// packets, where acknowledgments are not lost.
    pub drop_duplicates: bool,
    /// No packet is held longer than this. Default: 250 µs, a quarter of what the coalescer may
    /// hold; it covers packets that took paths of lengths 250 µs apart, and it is what a lost packet
    /// costs at most before the receiver notices.
    pub hold_budget: Duration,
    /// A gap is waited for at least this long, if the budget allows: packets that arrive in one
    /// burst often carry one timestamp, so that their average interval is nothing. Default: 50 µs,
    /// above the time between interrupts of most adapters.
    pub gap_floor: Duration,
    /// Packets held of one flow, at least 1. Default: 128, 150 µs of 10 Gbit/s at 1,460 bytes each;
    /// the paper's unit holds 45.
    pub max_flow_packets: usize,
    /// How far ahead of the expected byte a packet may reach, and bytes of frames held of one flow.
    /// What lies farther ahead, or farther behind, is taken for another sequence and not waited
    /// for. Default: 256 KiB, above 128 packets of 1,500 bytes.
    pub max_flow_bytes: usize,
    /// Packets held in all, at least 1. Default: 4,096: 250 µs of 200 Gbit/s at 1,460 bytes each.
    pub max_held_packets: usize,
    /// Bytes of frames held in all. Default: 8 MiB, above 4,096 packets of 1,500 bytes.
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
    /// The bounds as they hold: none is zero, and sequence numbers can be told apart.
    pub(super) fn bounded(self) -> Self {
        Self {
            max_flow_packets: self.max_flow_packets.max(1),
            // Half of all sequence numbers are ahead; half of those are enough for any window.
            max_flow_bytes: self.max_flow_bytes.min(1 << 30),
            max_held_packets: self.max_held_packets.max(1),
            ..self
        }
    }
}
