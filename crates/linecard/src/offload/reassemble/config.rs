//! What reassembly may do, and its bounds.

use core::time::Duration;

/// Configuration of a [`Reassembler`](super::Reassembler). Memory for datagrams and fragments is
/// taken at construction: about 200 bytes for each datagram and 250 for each fragment that may be
/// under way, buffers aside.
///
/// ```
/// use linecard::offload::reassemble::Config;
/// let config = Config { max_datagrams: 100, shares: 1, ..Config::default() };
/// assert_eq!(config.timeout_v6.as_secs(), 60);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// An IPv4 datagram is given up this long after its first fragment arrived. Default: 30 s, as
    /// in Linux. RFC 1122, section 3.3.2 asks hosts for 60 s at least; identifications of 16 bits
    /// come round sooner than that on fast links (RFC 4963).
    pub timeout_v4: Duration,
    /// The same for IPv6. Default: 60 s (RFC 8200, section 4.5).
    pub timeout_v6: Duration,
    /// Datagrams under way, given up ones that are still remembered included; at least 1.
    /// Default: 4,096, one for each two held fragments of 4 MB/s lost over 30 s.
    pub max_datagrams: usize,
    /// Fragments of one datagram, at least 2. Default: 64; the largest datagram takes 54 at an MTU
    /// of 1,280 bytes, the smallest that IPv6 allows, and 45 at 1,500.
    pub max_fragments: u16,
    /// Fragments held in all, at least 1. Default: 16,384.
    pub max_held_fragments: usize,
    /// Bytes of frames held in all. Default: 32 MiB, 512 of the largest datagrams.
    pub max_held_bytes: usize,
    /// One source, an IPv4 address or an IPv6 network of 64 bits, gets this part of each of the
    /// three bounds before, one eighth with 8; with 1, a single source may take all. Default: 8, so
    /// that a sender of fragments that never become whole takes room from itself only. (Sources
    /// are told apart by a keyed hash; two in one place share their share.)
    pub shares: usize,
    /// Whether exact duplicates of held fragments are dropped, as RFC 8200, section 4.5 allows.
    /// Default: no; they are passed on, and nothing is lost.
    pub drop_duplicates: bool,
    /// Key of the hash: from the operating system's random source where peers are not trusted. The
    /// default is a constant, so that equal captures give equal results.
    pub secret: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout_v4: Duration::from_secs(30),
            timeout_v6: Duration::from_secs(60),
            max_datagrams: 4_096,
            max_fragments: 64,
            max_held_fragments: 16_384,
            max_held_bytes: 32 << 20,
            shares: 8,
            drop_duplicates: false,
            secret: 0x6C69_6E65_6361_7264,
        }
    }
}

/// The part of the bounds that one source may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) datagrams: usize,
    pub(super) fragments: usize,
    pub(super) bytes: usize,
}

impl Config {
    pub(super) fn share(&self) -> Limits {
        let part = |bound: usize| (bound / self.shares.max(1)).max(1);
        Limits {
            datagrams: part(self.max_datagrams),
            fragments: part(self.max_held_fragments),
            bytes: part(self.max_held_bytes),
        }
    }
}
