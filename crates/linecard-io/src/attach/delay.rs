//! How long packets stay inside an attachment.

use crate::port::{LivePort, left_to};
use linecard::packet::{BATCH, Batch};
use linecard::port::{Port, PortState};
use linecard::stats::Histogram;
use linecard::time::Instant;
use std::time::Instant as Clock;

/// A port that records the delay of each packet that it transmits: from its reception by the other
/// port until it is given to the kernel, or of a merged packet, from the reception of its first one.
/// A packet socket's reception is the kernel's, that of AF_XDP when the frame was first seen in its ring; other ports
/// receive when they are asked.
pub(super) struct Delayed<P> {
    inner: P,
    delay_ns: Histogram,
    clock: TurnClock,
}

/// Tells the time within a turn, all of which has the time at which it began. The caller's clock and this
/// one differ by what they differ at the begin of a turn: the least difference that was seen.
struct TurnClock {
    begun: Clock,
    ahead_ns: i64,
}

impl TurnClock {
    fn new() -> Self {
        Self { begun: Clock::now(), ahead_ns: i64::MAX }
    }

    /// Since it was made. Clocks of this kind stay far below the limit of 63 bits.
    fn elapsed_ns(&self) -> i64 {
        linecard::time::ns(self.begun.elapsed()) as i64
    }

    /// To be called early in a turn, which began at `now`.
    fn turn_began(&mut self, now: Instant) {
        self.ahead_ns = self.ahead_ns.min(self.elapsed_ns() - now.as_ns() as i64);
    }

    /// The time by the caller's clock, not before the begin of the turn.
    fn now(&self, turn: Instant) -> Instant {
        let now = u64::try_from(self.elapsed_ns().saturating_sub(self.ahead_ns)).unwrap_or(0);
        Instant::from_ns(now).max(turn)
    }
}

impl<P> Delayed<P> {
    pub(super) fn new(inner: P) -> Self {
        Self { inner, delay_ns: Histogram::default(), clock: TurnClock::new() }
    }

    pub(super) fn delay_ns(&self) -> &Histogram {
        &self.delay_ns
    }
}

impl<B, P: Port<B>> Port<B> for Delayed<P> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        self.clock.turn_began(now);
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
        if left == 0 {
            return;
        }
        let now = self.clock.now(now);
        // Most have arrived together.
        for run in received[..left].chunk_by(PartialEq::eq) {
            self.delay_ns.record_n(now.ns_since(run[0]), run.len() as u64);
        }
    }
}

impl<B, P: LivePort<B>> LivePort<B> for Delayed<P> {
    left_to!(inner: large_packets, is_crowded, link, descriptor, counters, next_due);
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{LinkType, Meta, Packet};
    use std::time::Duration;

    /// Takes this many packets at a time.
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

    /// Takes everything, in its time.
    struct Busy(Duration);

    impl Port<Vec<u8>> for Busy {
        fn receive(&mut self, _: &mut Batch<Vec<u8>>, _: Instant) -> PortState {
            PortState::Open
        }

        fn transmit(&mut self, batch: &mut Batch<Vec<u8>>, _: Instant) {
            let begun = Clock::now();
            while begun.elapsed() < self.0 {
                std::hint::spin_loop();
            }
            batch.drain().for_each(drop);
        }
    }

    /// A turn has one time, at which it received, too.
    #[test]
    fn the_time_that_a_turn_takes_counts() {
        let time = Duration::from_millis(2);
        let mut port = Delayed::new(Busy(time));
        let (now, mut batch) = (Instant::from_ns(77), Batch::new());
        port.receive(&mut batch, now);
        let meta = Meta { timestamp: now, ..Meta::default() };
        let packet = Packet::new(vec![0; 60], LinkType::Ethernet, meta);
        assert!(batch.push(packet).is_ok());
        port.transmit(&mut batch, now);
        assert!(port.delay_ns().max() >= linecard::time::ns(time), "{}", port.delay_ns().max());
    }
}
