//! Configuration of active acknowledgment.

use crate::offload::coalesce::ChecksumPolicy;

/// The receive window that an active acknowledgment advertises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Never more than the receiver itself has advertised: the right edge of its window stays where
    /// it is. This requires the window scale, and thus both SYNs of the connection; without them,
    /// nothing is acknowledged. Later acknowledgments of the receiver are dropped if they are
    /// redundant, and their number is raised if they move the window.
    #[default]
    WindowHonest,
    /// 0xFFFF, regardless of the receiver's buffer (Li, Chen, Su, V.C); later acknowledgments
    /// of the receiver pass unchanged. Only for reproducing the figures of the paper.
    Paper,
}

/// Configuration of an [`ActiveAck`](super::ActiveAck). Memory is allocated at construction: about
/// 200 bytes per connection.
///
/// ```
/// use linecard::offload::active_ack::{Config, Mode};
/// let config = Config { every: 1, ..Config::default() };
/// assert_eq!(config.mode, Mode::WindowHonest);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The advertised window. Default: never more than the receiver's.
    pub mode: Mode,
    /// How checksums are verified; data with unverified checksums is never acknowledged. Default:
    /// verify.
    pub checksum: ChecksumPolicy,
    /// Data packets per acknowledgment, at least 1. Default: 2, as recommended for receivers (RFC
    /// 9293, section 3.8.6.3); the paper acknowledges each packet.
    pub every: u32,
    /// Bytes that may be acknowledged ahead of the receiver: the most data that a connection can
    /// lose if the host dies. Default: 128 KiB, twice what the coalescer holds per connection.
    pub max_ahead: u32,
    /// Connections in the table, rounded up to a power of two, at least 8. Default: 4,096, as in the
    /// coalescer.
    pub max_connections: usize,
    /// Key of the hash: from the operating system's random source where peers are not trusted. The
    /// default is a constant, so that equal captures give equal results.
    pub secret: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::WindowHonest,
            checksum: ChecksumPolicy::Verify,
            every: 2,
            max_ahead: 128 << 10,
            max_connections: 4_096,
            secret: 0x6C69_6E65_6361_7264,
        }
    }
}
