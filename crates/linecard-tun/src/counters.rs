//! Counters of a port.

/// Counters of a live port, by which it counts and is read. A large packet counts as one; bytes are those of its frame, with one
/// set of headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub transmitted: u64,
    /// Their bytes.
    pub transmitted_bytes: u64,
    /// Bytes of packets that were copied, read and written once each: to or from the kernel or a virtual machine, and
    /// between a ring and a packet's buffer.
    pub copied_bytes: u64,
    /// Of the packets sent: large ones segmented by the port, because no virtio header can describe
    /// them or the kernel accepts none.
    pub cut: u64,
    /// Calls of `receive` that found no free buffer: the frames wait in the kernel.
    pub no_buffer: u64,
    /// Calls of `transmit` that left packets in the batch because the kernel's queue was full.
    pub blocked: u64,
    /// Of the packets received at interfaces: those whose checksum a sender in this machine has left to
    /// hardware that is not there, as on a veth.
    pub open_checksums: u64,
    /// Times that the interface disappeared: 0 or 1.
    pub gone: u64,
    /// Packets lost, by reason.
    pub dropped: Drops,
}

/// Frames lost, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drops {
    /// Received, but longer than a buffer of the pool or than the kernel delivered.
    pub too_long: u64,
    /// Received with a virtio header that contradicts the frame.
    pub bad_header: u64,
    /// Received from a virtual machine in descriptors that are not those of a frame.
    pub bad_descriptors: u64,
    /// Received by the kernel without room in the ring, in the socket's receive buffer or in the queue of
    /// a TUN or TAP device.
    pub ring_full: u64,
    /// To be sent, but longer than the interface's MTU.
    pub above_mtu: u64,
    /// To be sent, but refused: the interface is down or gone, or the port accepts nothing.
    pub refused: u64,
    /// To be sent, but not a frame that the kernel accepts there: too short, or without the
    /// required header.
    pub invalid: u64,
    /// To be sent, but of another link type than the port.
    pub other_link: u64,
    /// To be sent, but neither describable nor segmentable.
    pub unsendable: u64,
}

impl Counters {
    /// The sum of two ports' counters.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.each(other, |one, other| one + other)
    }

    /// The difference to `earlier`, an older copy of the same port's counters.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        self.each(earlier, u64::saturating_sub)
    }

    /// Combines each pair of counters.
    fn each(self, other: &Self, make: fn(u64, u64) -> u64) -> Self {
        Self {
            received: make(self.received, other.received),
            received_bytes: make(self.received_bytes, other.received_bytes),
            transmitted: make(self.transmitted, other.transmitted),
            transmitted_bytes: make(self.transmitted_bytes, other.transmitted_bytes),
            copied_bytes: make(self.copied_bytes, other.copied_bytes),
            cut: make(self.cut, other.cut),
            no_buffer: make(self.no_buffer, other.no_buffer),
            blocked: make(self.blocked, other.blocked),
            open_checksums: make(self.open_checksums, other.open_checksums),
            gone: make(self.gone, other.gone),
            dropped: self.dropped.each(&other.dropped, make),
        }
    }

    /// Counts a packet whose segments have all been handled. It counts as transmitted, unless some
    /// segments were dropped since `before`: then it counts as one dropped packet.
    pub fn count_cut(&mut self, before: Drops, bytes: usize) {
        let dropped = &mut self.dropped;
        if dropped.transmitted() == before.transmitted() {
            self.cut += 1;
            // Segments are written beside each other before they are sent.
            self.copied_bytes += bytes as u64;
            return self.count_transmitted(bytes);
        }
        let is_long = dropped.above_mtu > before.above_mtu;
        let is_invalid = !is_long && dropped.invalid > before.invalid;
        dropped.above_mtu = before.above_mtu + u64::from(is_long);
        dropped.invalid = before.invalid + u64::from(is_invalid);
        dropped.refused = before.refused + u64::from(!is_long && !is_invalid);
    }

    /// Counts a packet that was received, by one copy of its bytes.
    pub fn count_received(&mut self, bytes: usize) {
        self.received += 1;
        self.received_bytes += bytes as u64;
        self.copied_bytes += bytes as u64;
    }

    /// Counts a packet that was sent, by one copy of its bytes.
    pub fn count_transmitted(&mut self, bytes: usize) {
        self.transmitted += 1;
        self.transmitted_bytes += bytes as u64;
        self.copied_bytes += bytes as u64;
    }
}

impl Drops {
    fn each(self, other: &Self, make: fn(u64, u64) -> u64) -> Self {
        Self {
            too_long: make(self.too_long, other.too_long),
            bad_header: make(self.bad_header, other.bad_header),
            bad_descriptors: make(self.bad_descriptors, other.bad_descriptors),
            ring_full: make(self.ring_full, other.ring_full),
            above_mtu: make(self.above_mtu, other.above_mtu),
            refused: make(self.refused, other.refused),
            invalid: make(self.invalid, other.invalid),
            other_link: make(self.other_link, other.other_link),
            unsendable: make(self.unsendable, other.unsendable),
        }
    }

    /// Frames dropped on receipt.
    #[must_use]
    pub fn received(self) -> u64 {
        self.too_long + self.bad_header + self.bad_descriptors + self.ring_full
    }

    /// Frames dropped on transmission.
    #[must_use]
    pub fn transmitted(self) -> u64 {
        self.above_mtu + self.refused + self.invalid + self.other_link + self.unsendable
    }

    /// All dropped frames.
    #[must_use]
    pub fn total(self) -> u64 {
        self.received() + self.transmitted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_packet_counts_once_whatever_becomes_of_its_segments() {
        let mut counters = Counters::default();
        counters.count_cut(Drops::default(), 5_000);
        assert_eq!((counters.cut, counters.transmitted, counters.dropped.total()), (1, 1, 0));
        let before = counters.dropped;
        counters.dropped.refused += 3;
        counters.count_cut(before, 5_000);
        assert_eq!((counters.transmitted, counters.dropped.refused), (1, 1));
        let before = counters.dropped;
        counters.dropped.above_mtu += 40;
        counters.dropped.refused += 1;
        counters.count_cut(before, 5_000);
        assert_eq!((counters.cut, counters.transmitted), (1, 1));
        assert_eq!((counters.dropped.above_mtu, counters.dropped.refused), (1, 1));
    }
}
