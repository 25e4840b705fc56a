//! The statistic, and the timed loop.
//!
//! Every burst is timed on its own, in several rounds. The *quiet estimate* adds up each burst's minimum over the
//! rounds: the time of the work on an otherwise idle machine. The median of the rounds beside it includes the effect of
//! other load.

use super::trace::Trace;
use super::{BURST, Slot};
use core::hint::black_box;
use linecard::rng::Rng;
use linecard::time::Instant;

/// Arrivals are spaced as at this rate.
const PACE_GBPS: u64 = 100;
/// Read before each cold round: several times the largest cache.
const SWEEP: usize = 128 << 20;

/// The clock, which belongs to the program.
pub(crate) type Clock = fn() -> std::time::Instant;

/// Something that receives packets.
pub(crate) trait Receive<'a> {
    /// Puts a frame into a slot (not timed); bytes of the frame that are not wanted are skipped.
    fn fill(&self, trace: &Trace, index: usize, slot: &mut Slot<'a>) {
        let len = trace.write(index, slot.room());
        slot.set_len(len);
    }

    /// Timed: takes the packets of one burst.
    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, now: Instant);

    /// Not timed: counts the output, and gives its buffers back; those left in the burst
    /// too.
    fn settle(&mut self, burst: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, out: &mut Account);

    /// Not timed: no more packets in this round.
    fn finish(&mut self) {}
}

/// Where packets lie when they are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheState {
    /// Each burst is written just before it is received: it lies in the second-level cache.
    Hot,
    /// In memory and in no cache, one behind the other: the hardware's prefetchers see them come.
    Cold,
    /// In memory and in no cache, in random order, as buffers lie after a while of use.
    Scattered,
}

impl CacheState {
    /// All places, in the order of the tables' columns.
    pub(crate) const ALL: [Self; 3] = [Self::Hot, Self::Cold, Self::Scattered];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
            Self::Scattered => "scattered",
        }
    }
}

/// The output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) packets_in: u64,
    /// Packets that left, merged ones counted once.
    pub(crate) packets_out: u64,
    pub(crate) payload: u64,
    /// Of all bytes that left, when asked for.
    pub(crate) hash: Option<u64>,
}

impl Account {
    /// Begins a hash of the output.
    pub(crate) fn hashing() -> Self {
        Self { hash: Some(0xCBF2_9CE4_8422_2325), ..Self::default() }
    }

    /// Counts one packet that leaves, `payload` bytes in it.
    pub(crate) fn leaves(&mut self, payload: usize) {
        self.packets_out += 1;
        self.payload += payload as u64;
    }

    /// Adds to the hash (FNV-1a), if there is one.
    pub(crate) fn hash(&mut self, bytes: &[u8]) {
        if let Some(hash) = &mut self.hash {
            for byte in bytes {
                *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
            }
        }
    }

    /// Packets in for one out; 0 when nothing came out.
    pub(crate) fn aggregate(&self) -> f64 {
        if self.packets_out == 0 { 0.0 } else { self.packets_in as f64 / self.packets_out as f64 }
    }
}

/// Times of one thing at one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    best: Vec<u64>,
    rounds: Vec<u64>,
    units: usize,
}

impl Times {
    /// One round: nanoseconds per burst, and packets in all.
    pub(crate) fn record(&mut self, bursts: &[u64], units: usize) {
        self.best.resize(bursts.len(), u64::MAX);
        self.best.iter_mut().zip(bursts).for_each(|(best, ns)| *best = (*best).min(*ns));
        self.rounds.push(bursts.iter().sum());
        self.units = units;
    }

    /// Nanoseconds per packet, the sum of each burst's minimum.
    pub(crate) fn quiet(&self) -> f64 {
        self.best.iter().sum::<u64>() as f64 / self.units as f64
    }

    /// Nanoseconds per packet in the median round.
    pub(crate) fn median(&self) -> f64 {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable();
        rounds[rounds.len() / 2] as f64 / self.units as f64
    }
}

/// Times of one thing at each place where it was timed.
pub(crate) type Row = [Option<Times>; CacheState::ALL.len()];

/// The heading over rows of [`show`].
pub(crate) fn heading(title: &str) -> String {
    let title = format!("{title:<32}");
    format!(
        "{title} |  hot: quiet median |  cold: quiet median | scattered: quiet median | packets/out"
    )
}

/// One line of a table: the quiet estimate and the median at each place.
pub(crate) fn show(name: &str, times: &Row, account: &Account) -> String {
    let mut line = format!("{name:<32}");
    for (times, width) in times.iter().zip([11, 12, 17]) {
        match times {
            Some(times) => {
                line += &format!(" | {:width$.1} {:6.1}", times.quiet(), times.median());
            }
            None => line += &format!(" | {:>width$} {:6}", "-", ""),
        }
    }
    let aggregate = account.aggregate();
    if aggregate > 0.0 { format!("{line} | {aggregate:11.1}") } else { line + " |" }
}

/// Buffers, and the loop that feeds receivers from them.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    clock: Clock,
    free: Vec<Slot<'a>>,
    burst: Vec<Slot<'a>>,
    ready: Vec<Slot<'a>>,
    sweep: Vec<u8>,
    now: Instant,
}

impl<'a> Bench<'a> {
    /// `slots` are all buffers there are: held packets and one burst must find room.
    pub(crate) fn new(clock: Clock, slots: Vec<Slot<'a>>) -> Self {
        let ready = Vec::with_capacity(slots.len());
        let burst = Vec::with_capacity(BURST);
        Self { clock, free: slots, burst, ready, sweep: Vec::new(), now: Instant::ZERO }
    }

    /// One round over the trace: nanoseconds of each burst, and what came out. For cold packets as
    /// many as there are slots are written, then memory is swept until none is in a cache.
    pub(crate) fn round(
        &mut self,
        trace: &Trace,
        receiver: &mut dyn Receive<'a>,
        place: CacheState,
        account: Account,
    ) -> (Vec<u64>, Account) {
        let (mut account, mut times) = (account, Vec::with_capacity(trace.len() / BURST + 1));
        self.order_slots(place);
        let cold = place != CacheState::Hot;
        let chunk = if cold { self.free.len() } else { BURST };
        let mut first = 0;
        while first < trace.len() {
            let end = trace.len().min(first + chunk);
            self.prepare(trace, receiver, first..end);
            if cold {
                self.evict();
            }
            while !self.ready.is_empty() {
                times.push(self.one(receiver, &mut account));
            }
            if cold {
                self.drain(receiver, &mut account);
            }
            first = end;
        }
        self.drain(receiver, &mut account);
        (times, account)
    }

    /// Slots are used from the front, or shuffled, the same way in every round.
    fn order_slots(&mut self, place: CacheState) {
        self.free.sort_unstable_by_key(|slot| core::cmp::Reverse(slot.address()));
        if place == CacheState::Scattered {
            let mut rng = Rng::new(5);
            for index in (1..self.free.len()).rev() {
                self.free.swap(index, rng.below(index as u64 + 1) as usize);
            }
        }
    }

    fn prepare(
        &mut self,
        trace: &Trace,
        receiver: &mut dyn Receive<'a>,
        frames: core::ops::Range<usize>,
    ) {
        for index in frames {
            let mut slot = self.free.pop().expect("slots for all packets held and one burst");
            receiver.fill(trace, index, &mut slot);
            self.ready.push(slot);
        }
    }

    fn one(&mut self, receiver: &mut dyn Receive<'a>, account: &mut Account) -> u64 {
        self.burst.extend(self.ready.drain(..BURST.min(self.ready.len())));
        account.packets_in += self.burst.len() as u64;
        let bits: u64 = self.burst.iter().map(|slot| slot.as_ref().len() as u64 * 8).sum();
        self.now = self.now.plus_ns(bits / PACE_GBPS);
        let begun = (self.clock)();
        receiver.burst(black_box(&mut self.burst), self.now);
        let ns = (self.clock)().duration_since(begun).as_nanos() as u64;
        receiver.settle(&mut self.burst, &mut self.free, account);
        ns
    }

    fn drain(&mut self, receiver: &mut dyn Receive<'a>, account: &mut Account) {
        receiver.finish();
        receiver.settle(&mut self.burst, &mut self.free, account);
    }

    fn evict(&mut self) {
        evict(&mut self.sweep);
    }
}

/// Reads and writes so much memory that nothing else stays in a cache.
pub(crate) fn evict(sweep: &mut Vec<u8>) {
    sweep.resize(SWEEP, 1);
    for line in sweep.chunks_mut(64) {
        line[0] = line[0].wrapping_add(1);
    }
    black_box(sweep);
}
