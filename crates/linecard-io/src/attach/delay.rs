//! How long packets stay inside an attachment.

use crate::port::LivePort;
use linecard::packet::{BATCH, Batch, LinkType};
use linecard::port::{Port, PortState};
use linecard::stats::Histogram;
use linecard::time::Instant;
use linecard_tun::Counters;
use std::os::fd::BorrowedFd;

/// A port that records the delay of each packet that it transmits: from its reception by the other
/// port until it is given to the kernel, or of a merged packet, from the reception of its first one.
/// A packet socket's reception is the kernel's; other ports receive when they are asked.
pub(super) struct Delayed<P> {
    inner: P,
    delay_ns: Histogram,
}

impl<P> Delayed<P> {
    pub(super) fn new(inner: P) -> Self {
        Self { inner, delay_ns: Histogram::default() }
    }

    pub(super) fn delay_ns(&self) -> &Histogram {
        &self.delay_ns
    }
}

impl<B, P: Port<B>> Port<B> for Delayed<P> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        self.inner.receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        let mut received = [now; BATCH];
        for (time, packet) in received.iter_mut().zip(batch.iter()) {
            *time = packet.meta.timestamp;
        }
        let before = batch.len();
        self.inner.transmit(batch, now);
        // The others stay in the batch, behind those that left.
        let left = before.saturating_sub(batch.len());
        for time in received.iter().take(left) {
            self.delay_ns.record(now.ns_since(*time));
        }
    }
}

impl<B, P: LivePort<B>> LivePort<B> for Delayed<P> {
    fn is_crowded(&self) -> bool {
        self.inner.is_crowded()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn counters(&mut self) -> Counters {
        self.inner.counters()
    }

    fn link(&self) -> Option<LinkType> {
        self.inner.link()
    }

    fn next_due(&self) -> Option<Instant> {
        self.inner.next_due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{Meta, Packet};

    /// Takes so many packets at a time.
    struct Slow(usize);

    impl Port<Vec<u8>> for Slow {
        fn receive(&mut self, _: &mut Batch<Vec<u8>>, _: Instant) -> PortState {
            PortState::Open
        }

        fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) {
            (0..self.0).for_each(|_| drop(batch.pop()));
        }
    }

    #[test]
    fn a_packet_counts_once_when_it_leaves() {
        let mut port = Delayed::new(Slow(2));
        let mut batch = Batch::new();
        for at in [100, 200, 300] {
            let meta = Meta { timestamp: Instant::from_ns(at), ..Meta::default() };
            let packet = Packet::new(vec![0; 60], LinkType::Ethernet, meta);
            assert!(batch.push(packet).is_ok());
        }
        port.transmit(&mut batch, Instant::from_ns(300));
        assert_eq!((port.delay_ns().count(), port.delay_ns().max()), (2, 200));
        port.transmit(&mut batch, Instant::from_ns(1_300));
        assert_eq!((port.delay_ns().count(), port.delay_ns().max()), (3, 1_000));
        port.transmit(&mut batch, Instant::from_ns(9_000));
        assert_eq!(port.delay_ns().count(), 3, "nothing was left");
    }
}
