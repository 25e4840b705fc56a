//! What active acknowledgment may do, and its bounds.

use crate::offload::coalesce::ChecksumPolicy;

/// What an active acknowledgment promises as receive window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// No byte more than the receiver has promised itself: the right edge of its window stays where
    /// it put it. Needs the window scale, and so both SYNs of the connection; without, nothing is
    /// acknowledged. The receiver's own acknowledgments that come later are dropped where they say
    /// nothing new, and raised where they move the window.
    #[default]
    WindowHonest,
    /// 0xFFFF, whatever the receiver has room for (papers/lro-npu.txt, V.C); what the receiver sends
    /// later passes untouched. For the figures of the paper, and for nothing else.
    Paper,
}

/// Configuration of an [`ActiveAck`](super::ActiveAck). Memory is taken at construction: about 200
/// bytes for each connection.
///
/// ```
/// use linecard::offload::active_ack::{Config, Mode};
/// let config = Config { every: 1, ..Config::default() };
/// assert_eq!(config.mode, Mode::WindowHonest);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What is promised as window. Default: no more than the receiver did.
    pub mode: Mode,
    /// Whose word is taken for checksums; what is not vouched for is never acknowledged. Default:
    /// verify.
    pub checksum: ChecksumPolicy,
    /// One acknowledgment for so many packets of data, at least 1. Default: 2, as receivers should
    /// (RFC 9293, section 3.8.6.3); the paper sends one for each.
    pub every: u32,
    /// Bytes that may be acknowledged before the receiver has done so: what is lost at most, of one
    /// connection, when the host dies. Default: 128 KiB, twice what the coalescer holds of one.
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
