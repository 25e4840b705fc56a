//! The statistic, and the loops around what is timed.
//!
//! Every burst is timed on its own, in several rounds. The *quiet estimate* adds up each burst's minimum over the
//! rounds: the time of the work on an otherwise idle machine. The median of the rounds beside it includes the effect of
//! other load.

use crate::buffers::{Buffer, evict};
use crate::chance::Chance;
use crate::check::Account;
use crate::trace::Trace;
use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

/// Packets handed over at once, as a poll of a network card gives them.
pub const BURST: usize = 64;
/// Packets that are cold at once.
pub const COLD: usize = 4096;
/// Arrivals are spaced as at this rate.
const PACE_GBPS: u64 = 100;

/// Where packets lie when they are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// Each burst is written just before it is received: it lies in the second-level cache.
    Hot,
    /// In no cache.
    Cold,
}

impl CacheState {
    pub const ALL: [Self; 2] = [Self::Hot, Self::Cold];
}

/// Times of one thing at one place.
#[derive(Debug, Clone, Default)]
pub struct Times {
    best: Vec<u64>,
    rounds: Vec<u64>,
    units: usize,
}

impl Times {
    /// One round: nanoseconds per burst, and packets in all.
    pub fn record(&mut self, bursts: &[u64], units: usize) {
        self.best.resize(bursts.len(), u64::MAX);
        self.best.iter_mut().zip(bursts).for_each(|(best, ns)| *best = (*best).min(*ns));
        self.rounds.push(bursts.iter().sum());
        self.units = units;
    }

    /// Nanoseconds per packet, the sum of each burst's minimum.
    pub fn quiet(&self) -> f64 {
        self.best.iter().sum::<u64>() as f64 / self.units as f64
    }

    /// Nanoseconds per packet in the median round.
    pub fn median(&self) -> f64 {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable();
        rounds[rounds.len() / 2] as f64 / self.units as f64
    }
}

/// Something that receives packets.
pub trait Receiver<B> {
    /// Not timed: puts a frame into a buffer.
    fn fill(&self, trace: &Trace, index: usize, buffer: &mut B);

    /// Not timed: what a driver does to a burst just before it hands it over.
    fn arm(&mut self, _: &mut [B]) {}

    /// Timed: takes the packets of one burst.
    fn burst(&mut self, burst: &mut Vec<B>, now_ns: u64);

    /// Not timed: accounts for what came out, and gives its buffers back; those left in the burst
    /// too.
    fn settle(&mut self, burst: &mut Vec<B>, free: &mut Vec<B>, account: &mut Account);

    /// Not timed: no more packets in this round.
    fn finish(&mut self) {}

    /// Whether it remembers flows that it holds nothing of.
    fn remembers(&self) -> bool {
        false
    }

    /// Packets whose checksums it found wrong, which here is a fault of the harness or its own.
    fn refused(&self) -> u64 {
        0
    }
}

/// Buffers of one size, used by one receiver at a time.
#[derive(Debug)]
pub struct Stock<B> {
    free: Vec<B>,
    ready: VecDeque<B>,
    burst: Vec<B>,
    now_ns: u64,
    scattered: bool,
}

impl<B: Buffer> Stock<B> {
    /// All buffers there are: those held, those cold at once and one burst must find room. Cold
    /// ones lie in random order if `scattered`, otherwise one behind the other.
    pub fn new(free: Vec<B>, scattered: bool) -> Self {
        Self { free, ready: VecDeque::new(), burst: Vec::new(), now_ns: 0, scattered }
    }

    /// One round over a part of the trace: nanoseconds of each burst.
    pub fn round(
        &mut self,
        (trace, frames): (&Trace, Range<usize>),
        receiver: &mut dyn Receiver<B>,
        place: CacheState,
        account: &mut Account,
    ) -> Vec<u64> {
        let mut times = Vec::with_capacity(frames.len() / BURST + 1);
        self.order(place);
        let chunk = if place == CacheState::Cold { COLD } else { BURST };
        for first in frames.clone().step_by(chunk) {
            for index in first..frames.end.min(first + chunk) {
                let mut buffer = self.free.pop().expect("buffers for what is held and cold");
                receiver.fill(trace, index, &mut buffer);
                self.ready.push_back(buffer);
            }
            if place == CacheState::Cold {
                self.ready.iter().for_each(|buffer| evict(buffer.bytes()));
            }
            while !self.ready.is_empty() {
                times.push(self.one(receiver, account));
            }
        }
        receiver.finish();
        receiver.settle(&mut self.burst, &mut self.free, account);
        times
    }

    /// The same buffers in the same order in every round.
    fn order(&mut self, place: CacheState) {
        self.free.sort_unstable_by_key(|buffer| core::cmp::Reverse(buffer.address()));
        if self.scattered && place == CacheState::Cold {
            let mut chance = Chance::new(5);
            (1..self.free.len()).for_each(|last| self.free.swap(last, chance.below(last + 1)));
        }
    }

    fn one(&mut self, receiver: &mut dyn Receiver<B>, account: &mut Account) -> u64 {
        self.burst.extend(self.ready.drain(..BURST.min(self.ready.len())));
        account.packets_in += self.burst.len() as u64;
        receiver.arm(&mut self.burst);
        let bits: u64 = self.burst.iter().map(|buffer| buffer.bytes().len() as u64 * 8).sum();
        self.now_ns += bits / PACE_GBPS;
        let begun = Instant::now();
        receiver.burst(black_box(&mut self.burst), self.now_ns);
        let ns = begun.elapsed().as_nanos() as u64;
        receiver.settle(&mut self.burst, &mut self.free, account);
        ns
    }
}

/// Large packets timed at once, so that reading the clock does not show.
const TOGETHER: usize = 4;

/// Something that cuts large packets.
pub trait Sender {
    /// The bytes that large packet `index` is cut from.
    fn source<'s>(&'s self, index: usize, frame: &'s [u8]) -> &'s [u8] {
        let _ = index;
        frame
    }

    /// Timed: cuts a large packet; gives the number of segments.
    fn cut(&mut self, index: usize, frame: &mut [u8]) -> usize;

    /// Not timed: the segments of the last large packet from the IP header on, where it makes
    /// whole ones.
    fn segments(&self, count: usize) -> Vec<Vec<u8>>;

    /// Not timed: gives back what segments took.
    fn settle(&mut self) {}
}

/// One round over all large packets: nanoseconds of each group, and segments in all.
pub fn send_round(
    sender: &mut dyn Sender,
    frames: &mut [Vec<u8>],
    place: CacheState,
) -> (Vec<u64>, usize) {
    let (mut times, mut segments) = (Vec::with_capacity(frames.len() / TOGETHER), 0);
    for (group, frames) in frames.chunks_exact_mut(TOGETHER).enumerate() {
        for (index, frame) in (group * TOGETHER..).zip(frames.iter()) {
            match place {
                CacheState::Hot => touch(sender.source(index, frame)),
                CacheState::Cold => evict(sender.source(index, frame)),
            }
        }
        let begun = Instant::now();
        for (index, frame) in (group * TOGETHER..).zip(frames) {
            segments += sender.cut(index, black_box(frame));
        }
        times.push(begun.elapsed().as_nanos() as u64);
        sender.settle();
    }
    (times, segments)
}

/// Reads every line, so that it lies in a cache.
fn touch(bytes: &[u8]) {
    black_box(bytes.iter().step_by(64).fold(0_u8, |all, byte| all ^ byte));
}
