//! Counters of a port, and of the kernel for its socket.

/// Counters of a port. Drops are counted, not reported as errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received into batches.
    pub received: u64,
    /// Their bytes, from the Ethernet header on.
    pub received_bytes: u64,
    /// Received packets that were dropped: not inside frames that the kernel had been given, or of more than
    /// [`MAX_PARTS`](super::MAX_PARTS) frames. 0 unless the driver has a bug.
    pub receive_dropped: u64,
    /// Of the packets received, those whose checksum was left open: see
    /// [`Config::open_checksums`](super::Config::open_checksums).
    pub open_checksums: u64,
    /// Packets passed to the kernel to send; a large one counts as one.
    pub sent: u64,
    /// Their bytes, from the Ethernet header on; of a large one, with one set of headers.
    pub sent_bytes: u64,
    /// Bytes of those that were copied into frames to be sent.
    pub copied_bytes: u64,
    /// Of those, packets sent from the frame in which they were received.
    pub sent_in_place: u64,
    /// Of those, large packets that were segmented.
    pub cut: u64,
    /// Packets dropped instead of sent, or some of whose segments were: shorter than an Ethernet
    /// header, longer than the interface's MTU allows, or longer than a frame if that is not
    /// supported.
    pub send_dropped: u64,
    /// Of those, longer than the MTU allows.
    pub above_mtu: u64,
    /// Packets dropped because they do not start with an Ethernet header.
    pub other_link: u64,
    /// Packets dropped because they have to be segmented, or their checksum completed, and are not
    /// complete datagrams.
    pub unsendable: u64,
    /// Calls of `receive` that left the kernel without a frame to receive into, because all were
    /// held.
    pub no_buffer: u64,
    /// Calls of `transmit` that left packets in the batch, because the TX ring was full or no frame
    /// free.
    pub blocked: u64,
    /// Frames that the kernel reports as sent although it did not have them. 0 unless the driver
    /// has a bug.
    pub completion_errors: u64,
    /// System calls to wake the kernel.
    pub wakes: u64,
}

impl Counters {
    /// Counts a packet whose segments have all been handled. It counts as sent, unless some
    /// segments were dropped since `before`: then it counts as one dropped packet.
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

    /// Converts both to the counters of all ports. The kernel copies each packet, unless the driver leaves it in its
    /// frame.
    pub(super) fn told(
        &self,
        kernel: &KernelCounters,
        (gone, zero_copy): (bool, bool),
    ) -> linecard_tun::Counters {
        let by_kernel = u64::from(!zero_copy) * (self.received_bytes + self.sent_bytes);
        let mut all = linecard_tun::Counters::default();
        (all.received, all.received_bytes) = (self.received, self.received_bytes);
        (all.transmitted, all.transmitted_bytes) = (self.sent, self.sent_bytes);
        all.copied_bytes = by_kernel + self.copied_bytes;
        (all.cut, all.no_buffer, all.blocked) = (self.cut, self.no_buffer, self.blocked);
        all.open_checksums = self.open_checksums;
        all.gone = gone.into();
        all.dropped.too_long = self.receive_dropped;
        // The kernel includes packets for which it found no frame in its drops.
        all.dropped.ring_full = kernel.rx_ring_full + kernel.rx_dropped;
        all.dropped.above_mtu = self.above_mtu;
        // Too short, or too long for a frame.
        all.dropped.invalid = self.send_dropped - self.above_mtu;
        all.dropped.other_link = self.other_link;
        all.dropped.unsendable = self.unsendable;
        all
    }
}

/// The kernel's counters for the socket of a port (`struct xdp_statistics`), in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KernelCounters {
    /// Received, but dropped for other reasons than a full ring, such as a packet too long for a
    /// frame.
    pub rx_dropped: u64,
    /// Entries of the fill ring that the kernel refused.
    pub rx_invalid_descs: u64,
    /// Received, but dropped because the RX ring was full: the port did not receive often enough.
    pub rx_ring_full: u64,
    /// How often the kernel found no frame to receive into: too many were held, see
    /// [`Config::spare_frames`](super::Config::spare_frames), or the port did not receive.
    pub fill_ring_empty: u64,
    /// Entries of the TX ring that the kernel refused.
    pub tx_invalid_descs: u64,
    /// How often the kernel found the TX ring empty.
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
