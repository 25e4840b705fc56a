//! What a port counts, and what the kernel counts for it.

use super::super::{self as port, Drops};

/// What a port has counted. Drops are counted, not reported as errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received into batches.
    pub received: u64,
    /// Their bytes, from the Ethernet header on.
    pub received_bytes: u64,
    /// Frames from the kernel that were thrown away: not inside a frame that it had been given, or
    /// part of a packet of more than [`MAX_PARTS`](super::MAX_PARTS) frames. Stays 0 unless a
    /// driver is wrong.
    pub receive_dropped: u64,
    /// Packets given to the kernel to send; a large one counts as one.
    pub sent: u64,
    /// Their bytes, from the Ethernet header on; of a large one, headers once.
    pub sent_bytes: u64,
    /// Of those, packets that were sent from the frame they came in.
    pub sent_in_place: u64,
    /// Of those, large packets that were cut.
    pub cut: u64,
    /// Packets that were thrown away instead of sent, or some of whose segments were: shorter than an
    /// Ethernet header, longer than the interface's MTU allows, or longer than a frame where that is
    /// not supported.
    pub send_dropped: u64,
    /// Of those, longer than the MTU allows.
    pub above_mtu: u64,
    /// Packets that were thrown away since they do not begin with an Ethernet header.
    pub other_link: u64,
    /// Packets that were thrown away since they have to be cut, or their checksum completed, and are
    /// no whole datagrams.
    pub unsendable: u64,
    /// Calls of receive that left the kernel without a frame to receive into: all were held.
    pub starved: u64,
    /// Calls of transmit that left packets in the batch: the TX ring was full, or no frame free.
    pub blocked: u64,
    /// Frames that the kernel says to have sent although it did not have them. Stays 0 unless a
    /// driver is wrong.
    pub completion_errors: u64,
    /// System calls to wake the kernel.
    pub wakes: u64,
}

impl Counters {
    /// A packet was cut, and all its segments were dealt with. It is sent, unless some of them were
    /// thrown away since `before`: then it is one packet thrown away.
    pub(super) fn count_cut(&mut self, before: &Self, bytes: usize) {
        if self.send_dropped == before.send_dropped {
            self.cut += 1;
            self.sent += 1;
            self.sent_bytes += bytes as u64;
            return;
        }
        self.send_dropped = before.send_dropped + 1;
        self.above_mtu = before.above_mtu + u64::from(self.above_mtu > before.above_mtu);
    }

    /// Both in the words of all ports.
    pub(super) fn told(&self, kernel: &KernelCounters, gone: bool) -> port::Counters {
        port::Counters {
            received: self.received,
            received_bytes: self.received_bytes,
            transmitted: self.sent,
            transmitted_bytes: self.sent_bytes,
            cut: self.cut,
            starved: self.starved,
            blocked: self.blocked,
            gone: gone.into(),
            dropped: Drops {
                too_long: self.receive_dropped,
                bad_header: 0,
                // The kernel counts what found no frame among those that it dropped.
                ring_full: kernel.rx_ring_full + kernel.rx_dropped,
                above_mtu: self.above_mtu,
                refused: 0,
                // Too short, or too long for a frame.
                invalid: self.send_dropped - self.above_mtu,
                other_link: self.other_link,
                unsendable: self.unsendable,
            },
        }
    }
}

/// What the kernel has counted for the socket of a port (`struct xdp_statistics`), in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KernelCounters {
    /// Received but dropped for other reasons than a full ring: too long for a frame, for instance.
    pub rx_dropped: u64,
    /// Entries of the fill ring that the kernel refused.
    pub rx_invalid_descs: u64,
    /// Received but dropped as the RX ring was full: the port was not asked often enough.
    pub rx_ring_full: u64,
    /// How often the kernel found no frame to receive into: too many were held, see
    /// [`Config::spare_frames`](super::Config::spare_frames), or the port was not asked.
    pub fill_ring_empty: u64,
    /// Entries of the TX ring that the kernel refused.
    pub tx_invalid_descs: u64,
    /// How often the kernel looked for something to send and found nothing.
    pub tx_ring_empty: u64,
}

impl From<libc::xdp_statistics> for KernelCounters {
    fn from(statistics: libc::xdp_statistics) -> Self {
        Self {
            rx_dropped: statistics.rx_dropped,
            rx_invalid_descs: statistics.rx_invalid_descs,
            rx_ring_full: statistics.rx_ring_full,
            fill_ring_empty: statistics.rx_fill_ring_empty_descs,
            tx_invalid_descs: statistics.tx_invalid_descs,
            tx_ring_empty: statistics.tx_ring_empty_descs,
        }
    }
}
