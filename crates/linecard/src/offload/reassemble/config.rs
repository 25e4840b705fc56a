//! Configuration of reassembly.

use core::time::Duration;

/// Configuration of a [`Reassembler`](super::Reassembler). Memory for datagrams and fragments is
/// allocated at construction: about 200 bytes per datagram and 250 per fragment, without packet
/// buffers.
///
/// ```
/// use linecard::offload::reassemble::Config;
/// let config = Config { max_datagrams: 100, shares: 1, ..Config::default() };
/// assert_eq!(config.timeout_v6.as_secs(), 60);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Time after the first fragment at which an incomplete IPv4 datagram is given up. Default: 30
    /// s, as in Linux. RFC 1122, section 3.3.2 asks hosts for at least 60 s, but 16-bit
    /// identifications wrap sooner than that on fast links (RFC 4963).
    pub timeout_v4: Duration,
    /// The same for IPv6. Default: 60 s (RFC 8200, section 4.5).
    pub timeout_v6: Duration,
    /// The most datagrams in the table, including those given up but still remembered; at least 1.
    /// Default: 4,096, one for each two held fragments of 4 MB/s lost over 30 s.
    pub max_datagrams: usize,
    /// The most fragments of one datagram, at least 2. Default: 64; the largest datagram takes 54
    /// at an MTU of 1,280 bytes, the smallest that IPv6 allows, and 45 at 1,500.
    pub max_fragments: u16,
    /// The most fragments held in total, at least 1. Default: 16,384.
    pub max_held_fragments: usize,
    /// The most bytes of frames held in total. Default: 32 MiB, 512 of the largest datagrams.
    pub max_held_bytes: usize,
    /// The share of the three bounds above that one source (an IPv4 address, or an IPv6 /64) may
    /// use is one part in `shares`; with 1, a single source may use all. Default: 8, so that a
    /// sender of fragments that are never completed only takes room from itself. (Sources are
    /// distinguished by a keyed hash; two with the same hash share one part.)
    pub shares: usize,
    /// Whether exact duplicates of held fragments are dropped, as RFC 8200, section 4.5 allows.
    /// Default: no; they are passed, and nothing is lost.
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

/// The share of the bounds that one source may use.
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
