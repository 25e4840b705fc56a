//! Collects packets from the workers for one port, in a fair order or in orders that show the
//! effect of unfairness.

use super::ring::Receiver;
use linecard::packet::{Batch, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::collections::VecDeque;

/// The order in which workers' packets are transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// One packet of each worker in turn, so that busy workers cannot starve the others
    /// (Li, Chen, Su, section V.B).
    #[default]
    RoundRobin,
    /// In the order of requests: behind busy workers, others wait for all of their requests.
    Fifo,
    /// The latest request first, as in the engine of the paper: older requests wait until no more
    /// arrive.
    Stack,
}

/// Counters of a [`Gather`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatherCounters {
    /// Packets received from each worker.
    pub packets: Vec<u64>,
    /// The most requests that waited in the common store, which [`Order::RoundRobin`] does not use.
    pub most_waiting: usize,
}

/// Receives from the workers' rings.
#[derive(Debug)]
pub struct Gather<B> {
    rings: Vec<Receiver<B>>,
    order: Order,
    /// The next worker in turn.
    next: usize,
    /// Requests in the order in which they were seen.
    waiting: VecDeque<Packet<B>>,
    capacity: usize,
    counters: GatherCounters,
}

impl<B> Gather<B> {
    /// Receives from these rings. `capacity` is the size of the common store, if the order needs
    /// one.
    #[must_use]
    pub fn new(rings: Vec<Receiver<B>>, order: Order, capacity: usize) -> Self {
        let counters = GatherCounters { packets: vec![0; rings.len()], most_waiting: 0 };
        let waiting = VecDeque::with_capacity(capacity);
        Self { rings, order, next: 0, waiting, capacity: capacity.max(1), counters }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &GatherCounters {
        &self.counters
    }

    /// The next packet, taking workers in turn.
    fn take_turns(&mut self) -> Option<Packet<B>> {
        for _ in 0..self.rings.len() {
            let worker = self.next;
            self.next = (worker + 1) % self.rings.len();
            if let Some(packet) = self.rings[worker].pop() {
                self.counters.packets[worker] += 1;
                return Some(packet);
            }
        }
        None
    }

    /// Moves requests into the common store, one of each worker in turn, which approximates
    /// simultaneous requests.
    fn look_around(&mut self) {
        while self.waiting.len() < self.capacity {
            let Some(packet) = self.take_turns() else { break };
            self.waiting.push_back(packet);
        }
        self.counters.most_waiting = self.counters.most_waiting.max(self.waiting.len());
    }
}

impl<B> Port<B> for Gather<B> {
    fn receive(&mut self, batch: &mut Batch<B>, _: Instant) -> PortState {
        if self.order != Order::RoundRobin {
            self.look_around();
        }
        while batch.room() > 0 {
            let packet = match self.order {
                Order::RoundRobin => self.take_turns(),
                Order::Fifo => self.waiting.pop_front(),
                Order::Stack => self.waiting.pop_back(),
            };
            let Some(packet) = packet else { break };
            let _fits = batch.push(packet);
        }
        let ended = self.waiting.is_empty() && self.rings.iter().all(Receiver::has_ended);
        if ended { PortState::Ended } else { PortState::Open }
    }

    /// Accepts nothing.
    fn transmit(&mut self, _: &mut Batch<B>, _: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::super::ring::ring;
    use super::*;
    use linecard::packet::{LinkType, Meta};

    fn packet(lane: u32) -> Packet<Vec<u8>> {
        let meta = Meta { lane, ..Meta::default() };
        Packet::new(vec![0; 60], LinkType::Ethernet, meta)
    }

    /// Three busy workers fill their rings before each batch that goes out; the fourth asks once,
    /// for a SYN. After how many packets does it leave?
    fn wait_of_the_quiet_one(order: Order) -> Option<usize> {
        let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| ring(64)).unzip();
        let mut gather = Gather::new(receivers, order, 1_024);
        let (mut out, mut before) = (Batch::new(), 0);
        for turn in 0..1_000 {
            for (lane, sender) in (0..3).zip(&mut senders) {
                while sender.push(packet(lane)).is_ok() {}
            }
            if turn == 2 {
                senders[3].push(packet(3)).expect("an empty ring");
                before = 0;
            }
            gather.receive(&mut out, Instant::ZERO);
            for packet in out.drain() {
                if packet.meta.lane == 3 {
                    return Some(before);
                }
                before += 1;
            }
        }
        None
    }

    #[test]
    fn a_quiet_worker_waits_its_turn_its_queue_or_for_ever() {
        assert!(wait_of_the_quiet_one(Order::RoundRobin).expect("served") < 4);
        let fifo = wait_of_the_quiet_one(Order::Fifo).expect("served");
        assert!((128..1_024).contains(&fifo), "{fifo}");
        assert_eq!(wait_of_the_quiet_one(Order::Stack), None);
    }

    #[test]
    fn ends_when_all_have_ended_and_nothing_is_lost() {
        for order in [Order::RoundRobin, Order::Fifo, Order::Stack] {
            let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| ring(8)).unzip();
            let mut gather = Gather::new(receivers, order, 5);
            for (lane, sender) in (0..3).zip(&mut senders) {
                (0..8).for_each(|_| sender.push(packet(lane)).expect("room"));
            }
            drop(senders);
            let (mut out, mut lanes, mut turns) = (Batch::new(), [0; 3], 0);
            loop {
                let state = gather.receive(&mut out, Instant::ZERO);
                out.drain().for_each(|packet| lanes[packet.meta.lane as usize] += 1);
                turns += 1;
                if state == PortState::Ended {
                    break;
                }
            }
            assert_eq!((lanes, turns > 0), ([8; 3], true), "{order:?}");
            assert_eq!(gather.counters().packets, [8; 3]);
        }
    }
}
