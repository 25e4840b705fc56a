//! What the coalescer may do, and its bounds.

use core::time::Duration;

/// Whose word is taken for a transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// Every checksum is computed; packets that fail are passed on as they are. Packets that the
    /// port vouches for ([`ChecksumState::Valid`](crate::packet::ChecksumState::Valid)) are not
    /// read.
    #[default]
    Verify,
    /// No payload is read: hardware has verified it, or the capture was taken on the sender
    /// before its hardware computed checksums. A wrong checksum stays wrong in the merged packet,
    /// but its segments get right ones: only under [`Verify`](Self::Verify) does everything come
    /// back byte for byte whatever arrives.
    Trust,
}

/// When a flow gets its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Creation {
    /// With its first data.
    #[default]
    OnData,
    /// With its SYN, until FIN or RST (papers/lro-npu.txt, section IV.A); TCP only. Data of other
    /// flows pass. UDP flows, which have no SYN, are made on data.
    OnSyn,
}

/// Configuration of a [`Coalescer`](super::Coalescer). The defaults suit a receiver that wants
/// the rules of Linux and at most a millisecond of delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whose word is taken for transport checksums. Default: verify.
    pub checksum: ChecksumPolicy,
    /// When flows are made. Default: on data.
    pub creation: Creation,
    /// No packet is held longer than this. Default: 1 ms, about the time in which a flow of
    /// 0.5 Gbit/s fills 64 KiB.
    pub hold_budget: Duration,
    /// The adaptive timer waits at least this long: packets that arrive in one burst often carry
    /// one timestamp, so that their average interval is nothing. Default: 20 µs.
    pub idle_floor: Duration,
    /// Whether a batch's end flushes everything, as at the end of a NAPI poll. Default: no.
    pub flush_at_batch_end: bool,
    /// Whether a batch's end flushes flows of which no packet is to be expected soon: those whose
    /// average interval is above half of [`idle_floor`](Self::idle_floor), and those with one packet so far. A
    /// lone datagram, or a request that waits for its answer, is then not delayed at all, and slow
    /// flows are merged within a batch only. For live traffic, where a batch is what has arrived.
    /// Default: no.
    pub flush_quiet_at_batch_end: bool,
    /// Bytes of a merged packet from its outermost header with a length on: IP, or PPPoE around
    /// it. TCP directly over IP may reach [`Config::MAX_BYTES`] ("BIG TCP": beyond 65,535 the IP
    /// length field is 0, as Linux has it); other packets have length fields of 16 bits, and stay
    /// within 65,535. Default: 65,535, which every receiver takes.
    pub max_bytes: usize,
    /// Packets in a merged TCP packet. Default: 1,024, that is 64 bytes each in 64 KiB.
    pub max_segments: u16,
    /// Packets in a merged UDP packet. Default: 64, as in Linux.
    pub max_datagrams: u16,
    /// Tunnels around what is merged, at most [`MAX_TUNNELS`](crate::packet::MAX_TUNNELS). Default: 2,
    /// an overlay in a provider's tunnel; a sender who nests deeper has something else in mind.
    pub max_tunnels: usize,
    /// Flows in the table, rounded up to a power of two, at least 8. A flow takes 24 bytes.
    /// Default: 4,096, some times the flows that are active within a millisecond.
    pub max_flows: usize,
    /// Packets held in all, at least 1; and so merged packets under way, of which each takes
    /// about 500 bytes, for as many as there are packets or flows, whichever is less. Default:
    /// 16,384: two milliseconds of 100 Gbit/s.
    pub max_held_packets: usize,
    /// Bytes held in all, headers included. Default: 32 MiB, which is above what the packets'
    /// limit lets happen with frames of 1500 bytes; jumbo frames reach it first.
    pub max_held_bytes: usize,
    /// Key of the hash: from the operating system's random source where peers are not trusted. The
    /// default is a constant, so that equal captures give equal results.
    pub secret: u64,
}

impl Config {
    /// The largest merged packet: 512 KiB, Linux's limit for BIG TCP.
    pub const MAX_BYTES: usize = 512 << 10;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            checksum: ChecksumPolicy::Verify,
            creation: Creation::OnData,
            hold_budget: Duration::from_millis(1),
            idle_floor: Duration::from_micros(20),
            flush_at_batch_end: false,
            flush_quiet_at_batch_end: false,
            max_bytes: 65_535,
            max_segments: 1_024,
            max_datagrams: 64,
            max_tunnels: 2,
            max_flows: 4_096,
            max_held_packets: 16_384,
            max_held_bytes: 32 << 20,
            secret: 0x6C69_6E65_6361_7264,
        }
    }
}
