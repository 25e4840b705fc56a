//! Requests queued for the DMA engine, and the effect of overload on them (Li, Chen, Su,
//! V.B).

use super::config::Discipline;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linecard::rng::Rng;

/// Requests of several threads, in the order in which a [`Discipline`] serves them. The caller has
/// to bound their number.
///
/// ```
/// use linecard_model::npu::{Discipline, Requests};
/// let mut requests = Requests::new(Discipline::Stack, 2);
/// requests.push(0, "first");
/// requests.push(1, "last");
/// assert_eq!((requests.pop(), requests.pop(), requests.pop()), (Some("last"), Some("first"), None));
/// ```
#[derive(Debug, Clone)]
pub struct Requests<T> {
    discipline: Discipline,
    /// One per thread, or one for all.
    queues: Vec<VecDeque<T>>,
    turn: usize,
    waiting: usize,
}

impl<T> Requests<T> {
    /// An empty queue for the given number of threads.
    #[must_use]
    pub fn new(discipline: Discipline, threads: u16) -> Self {
        let queues = match discipline {
            Discipline::RoundRobin => usize::from(threads.max(1)),
            Discipline::Stack | Discipline::Fifo => 1,
        };
        let queues = (0..queues).map(|_| VecDeque::new()).collect();
        Self { discipline, queues, turn: 0, waiting: 0 }
    }

    /// Adds a request of a thread; an unknown thread counts as the last one.
    pub fn push(&mut self, thread: u16, request: T) {
        let place = usize::from(thread).min(self.queues.len() - 1);
        self.queues[place].push_back(request);
        self.waiting += 1;
    }

    /// Removes the request that is served next.
    pub fn pop(&mut self) -> Option<T> {
        let taken = match self.discipline {
            Discipline::Stack => self.queues[0].pop_back(),
            Discipline::Fifo => self.queues[0].pop_front(),
            Discipline::RoundRobin => {
                let places = self.queues.len();
                let mut turns = (self.turn..self.turn + places).map(|turn| turn % places);
                let place = turns.find(|place| !self.queues[*place].is_empty())?;
                self.turn = place + 1;
                self.queues[place].pop_front()
            }
        };
        self.waiting -= usize::from(taken.is_some());
        taken
    }

    /// Number of waiting requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no request waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

/// An isolated engine with more requests than it can serve, including SYNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    /// The order of service.
    pub discipline: Discipline,
    /// Requests offered per request served, in per cent: above 100 for an overload.
    pub load_percent: u64,
    /// Threads over which SYNs are distributed evenly.
    pub threads: u16,
    /// Threads that all other requests come from, evenly.
    pub busy: u16,
    /// Duration in service times, at least twice [`Overload::patience`].
    pub services: u64,
    /// A SYN has to be served within this many service times, or its sender gives up.
    pub patience: u64,
    /// Seed of arrivals.
    pub seed: u64,
}

/// Time steps per service time: in each step at most one request arrives, which approximates a
/// Poisson process.
const STEPS: u64 = 32;
/// One in this many requests is for a SYN.
const SYN_EVERY: u64 = 10;

impl Overload {
    /// The fraction of SYNs that are served before their senders give up, among those that arrive
    /// in the second half.
    ///
    /// A stack is shared by all threads, and an engine that serves one in `load` requests serves
    /// that fraction of SYNs: some at once, and the others never. So the fraction tends to 1/load.
    /// A queue eventually serves everything, but after some time nothing in time. Per-thread queues
    /// serve the SYNs of threads that are not busy.
    #[must_use]
    pub fn syns_served(&self) -> f64 {
        let mut rng = Rng::new(self.seed);
        let mut requests = Requests::new(self.discipline, self.threads);
        let counts = self.services / 2..self.services.saturating_sub(self.patience);
        let (mut came, mut in_time) = (0_u64, 0_u64);
        for service in 0..self.services {
            for _ in 0..STEPS {
                if rng.below(100 * STEPS) >= self.load_percent {
                    continue;
                }
                let is_syn = rng.below(SYN_EVERY) == 0;
                let threads = if is_syn { self.threads } else { self.busy };
                came += u64::from(is_syn && counts.contains(&service));
                requests.push(rng.below(threads.into()) as u16, (service, is_syn));
            }
            if let Some((then, true)) = requests.pop() {
                let is_in_time = counts.contains(&then) && service - then <= self.patience;
                in_time += u64::from(is_in_time);
            }
        }
        in_time as f64 / came.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::println;

    fn share(discipline: Discipline, load_percent: u64) -> f64 {
        let (threads, busy, services, patience) = (13, 3, 400_000, 1_000);
        let seed = 7;
        Overload { discipline, load_percent, threads, busy, services, patience, seed }.syns_served()
    }

    /// Section V.B: what a stack leaves unserved.
    #[test]
    fn a_stack_serves_one_in_load() {
        for (load, expected) in [(150, 1.0 / 1.5), (200, 0.5), (400, 0.25)] {
            let [stack, fifo, turns] =
                [Discipline::Stack, Discipline::Fifo, Discipline::RoundRobin]
                    .map(|discipline| share(discipline, load));
            println!("load {load} %: stack {stack:.3} (1/load {expected:.3}), turns {turns:.3}");
            assert!((stack - expected).abs() < 0.03 * expected, "{load}: {stack}");
            // A request of one queue has waited longer than any other.
            assert_eq!(fifo, 0.0);
            // Ten of thirteen threads are not busy.
            assert!((turns - 10.0 / 13.0).abs() < 0.02, "{load}: {turns}");
        }
        for discipline in [Discipline::Stack, Discipline::Fifo, Discipline::RoundRobin] {
            assert!(share(discipline, 80) > 0.999, "{discipline:?}");
        }
    }

    #[test]
    fn turns_go_round_and_nothing_is_lost() {
        let mut requests = Requests::new(Discipline::RoundRobin, 3);
        for (thread, request) in [(0, 1), (0, 2), (0, 3), (2, 4), (9, 5), (1, 6)] {
            requests.push(thread, request);
        }
        let order: Vec<_> = core::iter::from_fn(|| requests.pop()).collect();
        assert_eq!(order, [1, 6, 4, 2, 5, 3]);
        assert!(requests.is_empty());
        let mut fifo = Requests::new(Discipline::Fifo, 3);
        (0..4).for_each(|n| fifo.push(n, n));
        assert_eq!(fifo.len(), 4);
        assert_eq!(core::iter::from_fn(|| fifo.pop()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
