//! Configuration of the coalescer.

use crate::offload::virtio::Device;
use crate::packet::{LayerKind, Layout};
use core::time::Duration;

/// How transport checksums are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// The checksums of packets that are to merge are computed; those that fail pass unchanged. Packets
    /// that stay alone are not verified, unless [`Config::verify_alone`] asks for it. Packets whose checksum
    /// the port has verified ([`ChecksumState::Valid`](crate::packet::ChecksumState::Valid)) are not read.
    #[default]
    Verify,
    /// No payload is read: hardware has verified it, or the capture was taken at the sender before
    /// its hardware computed checksums. A wrong checksum stays wrong in the merged packet, but its
    /// segments get valid ones: only [`Verify`](Self::Verify) restores every packet byte for byte,
    /// whatever arrives.
    Trust,
}

/// When a flow is entered into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Creation {
    /// At its first data.
    #[default]
    OnData,
    /// At its SYN, until FIN or RST (Li, Chen, Su, section IV.A); TCP only. Data of unknown
    /// flows passes. UDP flows, which have no SYN, are created at their first data.
    OnSyn,
}

/// Configuration of a [`Coalescer`](super::Coalescer). The defaults suit a receiver that wants the
/// rules of Linux and at most a millisecond of delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How transport checksums are verified. Default: verify.
    pub checksum: ChecksumPolicy,
    /// Whether held packets are examined when they come, so that one with a wrong checksum passes at once, and is
    /// counted, even if it stays alone; always so where flows are created at their SYN, never in batches of which
    /// nothing is held. For captures, whose reasons are to be told. Default: no: a packet is held as it came, and
    /// examined when another one is to join it.
    pub verify_alone: bool,
    /// When flows are created. Default: at their first data.
    pub creation: Creation,
    /// The longest time for which a packet is held. Default: 1 ms, about the time in which a flow
    /// of 0.5 Gbit/s fills 64 KiB.
    pub hold_budget: Duration,
    /// The shortest timeout of the adaptive timer: packets that arrive in one burst often carry the
    /// same timestamp, so their average interval is 0. Default: 20 µs.
    pub idle_floor: Duration,
    /// Whether everything is flushed at the end of a batch, as at the end of a NAPI poll. Packets are
    /// then examined only to join each other: one that meets no other packet of its flow leaves as it
    /// came, whatever its checksum, with [`Flush::BatchEnd`](super::Flush::BatchEnd) as the reason;
    /// and no flow is remembered. Packets are examined and held as otherwise where they are pushed one
    /// by one, where some are merged already, where flows are created at their SYN, with a budget or
    /// floor of 0, and where the limits of held packets and bytes leave less room than 64 KiB for each
    /// packet of the batch (by default, for 512 packets; a longer list of frames is merged in such
    /// parts). A packet pushed alone is held until the next batch or
    /// [`flush_all`](super::Coalescer::flush_all). Default: no.
    pub flush_at_batch_end: bool,
    /// Whether a late packet of TCP is put in its place if it lies in the same batch: when a packet is
    /// ahead of what its flow has merged so far, the one that joins it is looked for among the next 32
    /// of the batch, and handled first. It has to have the same headers, timestamp option included, and
    /// may overtake packets of its flow that could not join there either: without data, or with other
    /// headers, such as a newer timestamp. No packet is held for another. Only where
    /// nothing of a batch is held; see [`flush_at_batch_end`](Self::flush_at_batch_end). Default: yes.
    pub restore_order: bool,
    /// Whether flows of which no packet is expected soon are flushed at the end of a batch: those
    /// whose average interval exceeds half of [`idle_floor`](Self::idle_floor), and those with one
    /// packet so far. A lone datagram or request is then not delayed at all, and slow flows are
    /// merged only within a batch. For live traffic, where a batch is whatever has arrived.
    /// Default: no.
    pub flush_quiet_at_batch_end: bool,
    /// The device that merged packets go to: those that no virtio header can describe to it are not
    /// merged. None: everything merges that the segmenter restores, and what a device does not
    /// accept has to be segmented for it. Default: none; [`Config::burst`]: a TUN or TAP device of
    /// any Linux.
    pub device: Option<Device>,
    /// The largest merged packet in bytes, counted from the outermost header with a length field:
    /// IP, or PPPoE around it. TCP directly over IP may reach [`Config::MAX_BYTES`] ("BIG TCP":
    /// beyond 65,535 the IP length field is 0, as in Linux); the length fields of other packets
    /// limit them to 65,535. Default: 65,535, which every receiver accepts.
    pub max_bytes: usize,
    /// The most packets in a merged TCP packet. Default: 1,024, that is 64 bytes each in 64 KiB.
    pub max_segments: u16,
    /// The most packets in a merged UDP packet. Default: 64, as in Linux.
    pub max_datagrams: u16,
    /// The most tunnels around merged packets, at most [`MAX_TUNNELS`](crate::packet::MAX_TUNNELS).
    /// Default: 2, an overlay in a provider's tunnel.
    pub max_tunnels: usize,
    /// Flows in the table, rounded up to a power of two, at least 8. A flow takes 24 bytes.
    /// Default: 4,096, several times the number of flows active within a millisecond.
    pub max_flows: usize,
    /// The most packets held in total, at least 1; this also limits merged packets under
    /// construction, which take about 500 bytes each, for as many as there are packets or flows,
    /// whichever is less. Default: 16,384: two milliseconds of 100 Gbit/s.
    pub max_held_packets: usize,
    /// The most bytes held in total, headers included. Default: 32 MiB, above what the packet limit
    /// allows with frames of 1500 bytes; jumbo frames reach this limit first.
    pub max_held_bytes: usize,
    /// Key of the hash: from the operating system's random source where peers are not trusted. The
    /// default is a constant, so that equal captures give equal results.
    pub secret: u64,
}

/// Large packets that a port takes whole. It segments the others, so that merging them would be work for nothing.
///
/// ```
/// use linecard::offload::coalesce::LargePackets;
/// assert_eq!(LargePackets::default(), LargePackets::ALL);
/// let tcp = LargePackets::NONE.with(LargePackets::TCP4, true).with(LargePackets::TCP6, true);
/// assert_ne!(tcp, LargePackets::ALL);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargePackets(u8);

impl LargePackets {
    /// None: packets have to be as on a wire.
    pub const NONE: Self = Self(0);
    /// Those of TCP over IPv4.
    pub const TCP4: Self = Self(1);
    /// Those of TCP over IPv6.
    pub const TCP6: Self = Self(2);
    /// Those of UDP.
    pub const UDP: Self = Self(4);
    /// Of the kinds above, also those in tunnels.
    pub const IN_TUNNELS: Self = Self(8);
    /// All: those of a capture.
    pub const ALL: Self = Self(15);

    /// These, and others if `taken`.
    #[must_use]
    pub const fn with(self, others: Self, taken: bool) -> Self {
        if taken { Self(self.0 | others.0) } else { self }
    }

    /// A bit for each kind, as [`LargePackets::from_bits`] reads them.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The kinds of these bits; others are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Whether those of this kind are among them, if they are of any.
    #[inline(always)]
    pub(super) fn has(self, layout: &Layout) -> bool {
        self == Self::ALL || self.has_kind_of(layout)
    }

    #[inline(never)]
    fn has_kind_of(self, layout: &Layout) -> bool {
        let Some(transport) = layout.transport() else { return true };
        let is_ipv4 = || layout.network().is_some_and(|layer| layer.kind == LayerKind::Ipv4);
        let kind = match transport.kind {
            LayerKind::Tcp if is_ipv4() => Self::TCP4,
            LayerKind::Tcp => Self::TCP6,
            _ => Self::UDP,
        };
        let needed = kind.with(Self::IN_TUNNELS, layout.tunnels() > 0);
        self.0 & needed.0 == needed.0
    }
}

impl Default for LargePackets {
    fn default() -> Self {
        Self::ALL
    }
}

impl Config {
    /// The largest merged packet: 512 KiB, Linux's limit for BIG TCP.
    pub const MAX_BYTES: usize = 512 << 10;

    /// For programs that receive packets in bursts and hold none: everything leaves at the end of
    /// its batch, and what merges can be described to a device. So no packet is delayed and no
    /// timer is needed with [`push_batch`](super::Coalescer::push_batch) and
    /// [`Merger`](crate::offload::burst::Merger); [`push`](super::Coalescer::push) takes a packet that
    /// has no batch, and holds it. Identifications of IPv4 that stand still are counted up when such a
    /// merged packet is segmented, unless the device is
    /// [`Identifications::Exact`](crate::offload::virtio::Identifications::Exact).
    #[must_use]
    pub fn burst() -> Self {
        Self {
            flush_at_batch_end: true,
            device: Some(Device::default()),
            // As many slices as one `writev` takes, less one for the virtio header.
            max_segments: 1_023,
            ..Self::holding()
        }
    }

    /// For receivers that merge across batches: packets are held for up to
    /// [`hold_budget`](Self::hold_budget), and [`Coalescer::advance`](super::Coalescer::advance)
    /// has to be called at [`Coalescer::next_wakeup`](super::Coalescer::next_wakeup). The default.
    #[must_use]
    pub fn holding() -> Self {
        Self {
            checksum: ChecksumPolicy::Verify,
            verify_alone: false,
            creation: Creation::OnData,
            hold_budget: Duration::from_millis(1),
            idle_floor: Duration::from_micros(20),
            flush_at_batch_end: false,
            restore_order: true,
            flush_quiet_at_batch_end: false,
            device: None,
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

impl Default for Config {
    fn default() -> Self {
        Self::holding()
    }
}
