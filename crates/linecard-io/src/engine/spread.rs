//! Distributes packets of one port to the workers by flow.

use super::ring::Sender;
use super::steering::Steering;
use linecard::packet::{Batch, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;

/// Handling of packets whose worker's ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// The packet is dropped and counted, as in hardware: a slow worker does not delay the others.
    #[default]
    Drop,
    /// The distribution waits, and the source port fills: nothing is lost.
    Wait,
}

/// Counters of a [`Spread`], per worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpreadCounters {
    /// Packets sent to each worker.
    pub packets: Vec<u64>,
    /// Packets dropped because the worker's ring was full, or the worker has ended.
    pub dropped: Vec<u64>,
}

/// Transmits into the workers' rings, each flow into one.
#[derive(Debug)]
pub struct Spread<B> {
    rings: Vec<Sender<B>>,
    steering: Steering,
    on_full: OnFull,
    counters: SpreadCounters,
}

impl<B> Spread<B> {
    /// Transmits into these rings. The steering must not select more workers than there are rings.
    #[must_use]
    pub fn new(rings: Vec<Sender<B>>, steering: Steering, on_full: OnFull) -> Self {
        let zeros = vec![0; rings.len()];
        let counters = SpreadCounters { packets: zeros.clone(), dropped: zeros };
        Self { rings, steering, on_full, counters }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &SpreadCounters {
        &self.counters
    }
}

impl<B> Spread<B> {
    fn count_dropped(&mut self, worker: usize) {
        if let Some(dropped) = self.counters.dropped.get_mut(worker) {
            *dropped += 1;
        }
    }
}

impl<B: AsRef<[u8]>> Port<B> for Spread<B> {
    fn receive(&mut self, _: &mut Batch<B>, _: Instant) -> PortState {
        PortState::Ended
    }

    fn transmit(&mut self, batch: &mut Batch<B>, _: Instant) {
        let before = batch.len();
        while let Some(worker) = batch.front().map(|packet| self.steering.worker(packet)) {
            let Some(ring) = self.rings.get_mut(worker) else {
                batch.pop();
                self.count_dropped(worker);
                continue;
            };
            let must_wait = self.on_full == OnFull::Wait && !ring.is_abandoned() && ring.is_full();
            if must_wait {
                break;
            }
            let given: Option<Result<(), Packet<B>>> = batch.pop().map(|packet| ring.push(packet));
            match given {
                Some(Ok(())) => self.counters.packets[worker] += 1,
                Some(Err(_)) => self.count_dropped(worker),
                None => break,
            }
        }
        if batch.len() < before {
            self.rings.iter().for_each(Sender::announce);
        }
    }
}
