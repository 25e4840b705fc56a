//! Feature bits of virtio-net (virtio 1.3, sections 5.1.3 and 6) and of vhost-user.

use linecard::offload::coalesce::LargePackets;
use linecard::offload::virtio::{Endian, Format, gso_type};
use linecard_tun::egress::Virtio;

/// The device completes partial checksums of the guest.
const CSUM: u64 = 1 << 0;
/// The guest accepts partial checksums, and checksums that were verified.
const GUEST_CSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const HOST_ECN: u64 = 1 << 13;
/// A packet may fill several receive buffers.
const MRG_RXBUF: u64 = 1 << 15;
/// Several queue pairs.
const MQ: u64 = 1 << 22;
const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
/// Of vhost-user: the front end may ask for protocol features.
const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
const GUEST_USO4: u64 = 1 << 54;
const GUEST_USO6: u64 = 1 << 55;
const HOST_USO: u64 = 1 << 56;

/// Features for large packets and partial checksums.
const OFFLOADS: u64 = CSUM
    | GUEST_CSUM
    | GUEST_TSO4
    | GUEST_TSO6
    | GUEST_ECN
    | HOST_TSO4
    | HOST_TSO6
    | HOST_ECN
    | GUEST_USO4
    | GUEST_USO6
    | HOST_USO;

/// Features that do not depend on the configuration. `VHOST_F_LOG_ALL` is not one of them: a guest that is
/// attached cannot migrate, and its front end says so.
const ALWAYS: u64 = VERSION_1 | MRG_RXBUF | INDIRECT_DESC | EVENT_IDX | PROTOCOL_FEATURES;

/// A set of features: offered, or accepted by the front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Features(u64);

impl Features {
    /// The features offered to a front end.
    pub(super) fn offered(offloads: bool, pairs: usize) -> Self {
        let offloads = if offloads { OFFLOADS } else { 0 };
        let queues = if pairs > 1 { MQ } else { 0 };
        Self(ALWAYS | offloads | queues)
    }

    /// The features that a front end accepted; none if some were not offered.
    pub(super) fn accepted(self, bits: u64) -> Option<Self> {
        (bits & !self.0 == 0).then_some(Self(bits))
    }

    /// Bits that were accepted before.
    pub(super) fn of(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    /// The header in front of each frame.
    pub(super) fn virtio(self) -> Virtio {
        let is_long = self.0 & (VERSION_1 | MRG_RXBUF) != 0;
        let format = if is_long { Format::V1 } else { Format::Legacy };
        // Before virtio 1.0 it was the byte order of the guest: that of most machines is meant.
        (format, Endian::Little)
    }

    pub(super) fn merges_buffers(self) -> bool {
        self.has(MRG_RXBUF)
    }

    pub(super) fn has_event_index(self) -> bool {
        self.has(EVENT_IDX)
    }

    /// Whether rings begin disabled, until the front end enables them.
    pub(super) fn enables_rings(self) -> bool {
        self.has(PROTOCOL_FEATURES)
    }

    /// Whether the guest accepts checksums that are not in the packet.
    pub(super) fn takes_partial_checksums(self) -> bool {
        self.has(GUEST_CSUM)
    }

    /// The large packets that the guest takes whole; of UDP only where it takes both versions of IP.
    pub(super) fn large_packets(self) -> LargePackets {
        let takes = |value| self.takes_partial_checksums() && self.takes(value);
        LargePackets::NONE
            .with(LargePackets::TCP4, takes(gso_type::TCPV4))
            .with(LargePackets::TCP6, takes(gso_type::TCPV6))
            .with(LargePackets::UDP, takes(gso_type::UDP_L4))
    }

    /// Whether the guest accepts packets to be segmented as `value` of the virtio header says.
    pub(super) fn takes(self, value: u8) -> bool {
        let accepts = match value & !gso_type::ECN {
            gso_type::NONE => return true,
            gso_type::TCPV4 => self.has(GUEST_TSO4),
            gso_type::TCPV6 => self.has(GUEST_TSO6),
            // The type does not tell the version of IP.
            gso_type::UDP_L4 => self.has(GUEST_USO4 | GUEST_USO6),
            _ => false,
        };
        accepts && (value & gso_type::ECN == 0 || self.has(GUEST_ECN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_end_accepts_what_was_offered_and_nothing_else() {
        let offered = Features::offered(true, 1);
        assert_eq!(offered.accepted(VERSION_1 | CSUM), Some(Features(VERSION_1 | CSUM)));
        let log_all = 1 << 26;
        for other in [MQ, log_all, 1 << 33, 1 << 34] {
            assert_eq!(offered.accepted(VERSION_1 | other), None);
        }
        assert!(Features::offered(true, 2).accepted(MQ).is_some());
        assert!(Features::offered(false, 1).accepted(GUEST_TSO4).is_none());
    }

    #[test]
    fn large_packets_are_described_as_far_as_they_are_accepted() {
        let guest = Features(GUEST_CSUM | GUEST_TSO4 | GUEST_USO4);
        assert!(guest.takes(gso_type::NONE) && guest.takes(gso_type::TCPV4));
        let others = [gso_type::TCPV6, gso_type::UDP_L4, gso_type::TCPV4 | gso_type::ECN];
        assert!(others.into_iter().all(|other| !guest.takes(other)));
        assert!(!guest.takes(gso_type::TCPV4 | gso_type::UDP_TUNNEL_IPV4));
        assert_eq!(guest.large_packets(), LargePackets::TCP4);
        let usual = Features(GUEST_CSUM | GUEST_TSO6 | GUEST_USO4 | GUEST_USO6);
        let expected = LargePackets::TCP6.with(LargePackets::UDP, true);
        assert_eq!(usual.large_packets(), expected);
        assert_eq!(Features(GUEST_TSO4).large_packets(), LargePackets::NONE);
    }

    #[test]
    fn the_header_of_old_drivers_is_short() {
        assert_eq!(Features(0).virtio(), (Format::Legacy, Endian::Little));
        assert_eq!(Features(MRG_RXBUF).virtio(), (Format::V1, Endian::Little));
        assert_eq!(Features(VERSION_1).virtio(), (Format::V1, Endian::Little));
    }
}
