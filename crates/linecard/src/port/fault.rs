//! Fault injection: seeded loss, corruption and reordering.

use super::{Port, PortState};
use crate::packet::{Batch, Packet};
use crate::rng::Rng;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// A reordered packet is overtaken by one to this many others.
const MAX_OVERTAKEN: u64 = 3;

/// The probability of each fault per packet, 0 … 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultRates {
    /// The packet is dropped.
    pub loss: f64,
    /// One to three later packets overtake it.
    pub reorder: f64,
    /// One bit of its payload flips.
    pub corrupt: f64,
}

/// Counters of a [`Fault`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounters {
    /// Packets dropped.
    pub lost: u64,
    /// Payload bytes of those.
    pub lost_payload: u64,
    /// Packets overtaken by others.
    pub reordered: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
}

impl FaultCounters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.lost_payload += other.lost_payload;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
    }
}

/// Decorates a port with faults on the packets that it transmits.
#[derive(Debug)]
pub struct Fault<B, P> {
    port: P,
    rates: FaultRates,
    rng: Rng,
    /// Delayed packets, and the number of packets that have still to overtake each.
    late: VecDeque<(Packet<B>, u64)>,
    /// Decided, but not yet accepted by the port.
    ready: Batch<B>,
    counters: FaultCounters,
}

impl<B, P> Fault<B, P> {
    /// Faults with these rates, decided by `seed`.
    pub fn new(port: P, rates: FaultRates, seed: u64) -> Self {
        let (late, ready) = (VecDeque::new(), Batch::new());
        Self { port, rates, rng: Rng::new(seed), late, ready, counters: FaultCounters::default() }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// Packets delayed now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.late.len() + self.ready.len()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, P: Port<B>> Port<B> for Fault<B, P> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        self.port.receive(batch, now)
    }

    /// An empty batch emits delayed packets, because no packet comes that could overtake them.
    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        let idle = batch.is_empty();
        while self.ready.room() > 0 {
            if let Some(packet) = self.next_late(idle) {
                let _fits = self.ready.push(packet);
                continue;
            }
            let Some(packet) = batch.pop() else { break };
            if let Some(packet) = self.afflict(packet) {
                self.late.iter_mut().for_each(|(_, overtakers)| *overtakers -= 1);
                let _fits = self.ready.push(packet);
            }
        }
        self.port.transmit(&mut self.ready, now);
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, P> Fault<B, P> {
    /// The next delayed packet that is due.
    fn next_late(&mut self, idle: bool) -> Option<Packet<B>> {
        let due = self.late.iter().position(|(_, overtakers)| *overtakers == 0 || idle)?;
        self.late.remove(due).map(|(packet, _)| packet)
    }

    fn afflict(&mut self, mut packet: Packet<B>) -> Option<Packet<B>> {
        if self.rng.chance(self.rates.loss) {
            self.counters.lost += 1;
            self.counters.lost_payload += packet.payload_len() as u64;
            return None;
        }
        if self.rng.chance(self.rates.corrupt) {
            let payload = packet.layout().payload();
            let at = payload.start as u64 + self.rng.below(payload.len() as u64);
            if let Some(byte) = packet.bytes_mut().get_mut(at as usize) {
                *byte ^= 1 << self.rng.below(8);
                self.counters.corrupted += 1;
            }
        }
        if self.rng.chance(self.rates.reorder) {
            self.counters.reordered += 1;
            self.late.push_back((packet, 1 + self.rng.below(MAX_OVERTAKEN)));
            return None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{LinkType, Meta};
    use crate::port::link;
    use alloc::vec::Vec;

    fn through(rates: FaultRates, packets: u32) -> (Vec<u32>, FaultCounters) {
        let (near, mut far) = link(64);
        let (mut fault, mut arrived) = (Fault::new(near, rates, 7), Vec::new());
        let (mut batch, mut got) = (Batch::new(), Batch::new());
        for number in 0..packets + 8 {
            if number < packets {
                let meta = Meta { mark: number, ..Meta::default() };
                let _fits = batch.push(Packet::new(Vec::new(), LinkType::Other, meta));
            }
            fault.transmit(&mut batch, Instant::ZERO);
            far.receive(&mut got, Instant::ZERO);
            arrived.extend(got.drain().map(|packet| packet.meta.mark));
        }
        (arrived, fault.counters())
    }

    #[test]
    fn loses_what_it_counts() {
        let (arrived, counters) =
            through(FaultRates { loss: 0.1, ..FaultRates::default() }, 10_000);
        assert_eq!(arrived.len() as u64 + counters.lost, 10_000);
        assert!((800..1_200).contains(&counters.lost));
        assert!(arrived.is_sorted());
    }

    #[test]
    fn reorders_by_at_most_three_and_loses_nothing() {
        let rates = FaultRates { reorder: 0.05, ..FaultRates::default() };
        let (mut arrived, counters) = through(rates, 10_000);
        assert!(counters.reordered > 300 && !arrived.is_sorted());
        let far = arrived.iter().enumerate().all(|(at, mark)| at.abs_diff(*mark as usize) <= 16);
        assert!(far, "a packet strayed");
        arrived.sort_unstable();
        assert!(arrived.into_iter().eq(0..10_000));
    }
}
