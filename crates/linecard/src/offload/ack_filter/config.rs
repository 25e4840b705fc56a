//! Configuration of the ACK filter.

use crate::offload::coalesce::ChecksumPolicy;
use core::time::Duration;

/// Configuration of an [`AckFilter`](super::AckFilter). Memory is allocated at construction: about
/// 300 bytes per flow, including the acknowledgment that it may hold but not that packet's buffer.
///
/// ```
/// use linecard::offload::ack_filter::Config;
/// let config = Config { max_run: 2, ..Config::default() };
/// assert_eq!(config.hold_budget.as_micros(), 50);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How checksums are verified. Default: verify; acknowledgments have no payload to read.
    pub checksum: ChecksumPolicy,
    /// The longest delay of an acknowledgment, counted from the first one that it replaces.
    /// Default: 50 µs, the interrupt interval of most adapters, and small compared to any
    /// round-trip time outside of a rack.
    pub hold_budget: Duration,
    /// The most acknowledgments that one may replace, itself included; at least 1. Default: 8. A
    /// receiver acknowledges two segments at a time, so that is 16 segments: about as many as a
    /// sender's hardware makes of one send, and few enough for the initial window of ten (RFC
    /// 6928).
    pub max_run: u16,
    /// Flows in the table, rounded up to a power of two, at least 8; each holds one acknowledgment
    /// at most. Default: 4,096, as in the coalescer.
    pub max_flows: usize,
    /// Key of the hash: from the operating system's random source where peers are not trusted. The
    /// default is a constant, so that equal captures give equal results.
    pub secret: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            checksum: ChecksumPolicy::Verify,
            hold_budget: Duration::from_micros(50),
            max_run: 8,
            max_flows: 4_096,
            secret: 0x6C69_6E65_6361_7264,
        }
    }
}
