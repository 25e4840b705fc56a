//! Faults on purpose: seeded, at the granularity of datagrams.
//!
//! A large packet that the kernel cuts is many datagrams: each has its own fate here, drawn before it is
//! handed to the lane. Dropping large packets would be another network than there is.
//!
//! Each datagram draws the same five numbers, whatever becomes of it: so the fates of later ones do not
//! depend on those of earlier ones, and a test can say beforehand what will happen.

use super::{Datagrams, Lane, LaneError, MAX_SEND, ReceiveBuffer};
use linecard::rng::Rng;
use linecard::time::Instant;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Bytes that may be under way: 100 ms at 5 Gbit/s.
const MAX_HELD_BYTES: usize = 64 << 20;

/// How often each fault happens to a datagram, as probabilities 0 … 1, and what happens to all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// It vanishes.
    pub loss: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// It comes later than those sent up to [`Faults::reorder_by`] after it.
    pub reorder: f64,
    /// How much later such a one comes.
    pub reorder_by: Duration,
    /// One of its bits flips.
    pub corrupt: f64,
    /// How long each is under way, in addition to what the lane takes.
    pub delay: Duration,
    /// While nothing passes, neither way.
    pub dead: Option<Range<Instant>>,
}

/// What has been done to datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Taken from the caller.
    pub taken: u64,
    /// Vanished by chance.
    pub lost: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Sent late.
    pub reordered: u64,
    /// With a flipped bit.
    pub corrupted: u64,
    /// Vanished while the lane was dead, both ways.
    pub buried: u64,
}

/// A lane with faults on what it sends. Time is what [`Lane::flush`] was told last.
#[derive(Debug)]
pub struct Faulty<L> {
    lane: L,
    faults: Faults,
    rng: Rng,
    now: Instant,
    /// By the time at which they leave, and the order in which they came.
    held: BTreeMap<(Instant, u64), Vec<u8>>,
    held_bytes: usize,
    counters: FaultCounters,
    /// Datagrams of one call to the lane below.
    burst: Vec<u8>,
}

/// What becomes of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fate {
    is_lost: bool,
    is_doubled: bool,
    is_late: bool,
    /// The bit that flips, as a number below 2^64 that is scaled to the length.
    flips: Option<u64>,
}

impl<L: Lane> Faulty<L> {
    /// `lane` with these faults, decided by `seed`.
    pub fn new(lane: L, faults: Faults, seed: u64) -> Self {
        Self {
            lane,
            faults,
            rng: Rng::new(seed),
            now: Instant::ZERO,
            held: BTreeMap::new(),
            held_bytes: 0,
            counters: FaultCounters::default(),
            burst: Vec::new(),
        }
    }

    /// What has been done so far.
    pub const fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// Other faults from now on; the sequence of chances goes on.
    pub fn set(&mut self, faults: Faults) {
        self.faults = faults;
    }

    fn is_dead(&self) -> bool {
        self.faults.dead.as_ref().is_some_and(|dead| dead.contains(&self.now))
    }

    fn afflict(&mut self, datagram: &[u8]) {
        let fate = Fate::draw(&mut self.rng, &self.faults);
        self.counters.taken += 1;
        if self.is_dead() {
            self.counters.buried += 1;
            return;
        }
        if fate.is_lost {
            self.counters.lost += 1;
            return;
        }
        let mut bytes = datagram.to_vec();
        if let Some(chance) = fate.flips {
            let bit = scaled(chance, bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        if fate.is_doubled {
            self.counters.duplicated += 1;
            self.hold(bytes.clone(), fate.is_late);
        }
        self.counters.reordered += u64::from(fate.is_late);
        self.hold(bytes, fate.is_late);
    }

    fn hold(&mut self, bytes: Vec<u8>, is_late: bool) {
        let late = if is_late { self.faults.reorder_by } else { Duration::ZERO };
        let due = self.now.plus(self.faults.delay).plus(late);
        // Datagrams of one time stay in order: each has a number of its own.
        let number = self.held.range(..=(due, u64::MAX)).next_back();
        let number = number.map_or(0, |((at, number), _)| if *at == due { number + 1 } else { 0 });
        self.held_bytes += bytes.len();
        self.held.insert((due, number), bytes);
    }

    /// Hands over what is due, as long as there is room.
    fn release(&mut self) -> Result<(), LaneError> {
        while let Some((count, stride)) = self.gather() {
            let taken = self.lane.send(&Datagrams { bytes: &self.burst, stride })?;
            for _ in 0..taken.min(count) {
                let gone = self.held.pop_first();
                self.held_bytes -= gone.map_or(0, |(_, bytes)| bytes.len());
            }
            if taken < count {
                break;
            }
        }
        Ok(())
    }

    /// Puts datagrams that are due and of one length behind each other; how many, and that length.
    fn gather(&mut self) -> Option<(usize, usize)> {
        self.burst.clear();
        let mut count = 0;
        let mut stride = None;
        let due = self.held.range(..=(self.now, u64::MAX));
        for (_, bytes) in due.take(MAX_SEND) {
            let stride = *stride.get_or_insert(bytes.len());
            let fits = self.burst.len() + bytes.len() <= super::MAX_DATAGRAM_BYTES;
            if bytes.len() > stride || (count > 0 && !fits) {
                break;
            }
            self.burst.extend_from_slice(bytes);
            count += 1;
            if bytes.len() < stride {
                break;
            }
        }
        stride.map(|stride| (count, stride))
    }
}

impl<L: Lane> Lane for Faulty<L> {
    fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
        let all = datagrams.bounded(self.lane.max_datagram())?;
        let mut taken = 0;
        for datagram in all.iter() {
            if self.held_bytes >= MAX_HELD_BYTES {
                break;
            }
            self.afflict(datagram);
            taken += 1;
        }
        self.release()?;
        Ok(taken)
    }

    fn receive(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        let came = self.lane.receive(received)?;
        if !self.is_dead() {
            return Ok(came);
        }
        received.begin();
        self.counters.buried += came as u64;
        Ok(0)
    }

    fn flush(&mut self, now: Instant) -> Result<Option<Instant>, LaneError> {
        self.now = self.now.max(now);
        self.release()?;
        let below = self.lane.flush(now)?;
        let next = self.held.first_key_value().map(|((due, _), _)| *due);
        Ok(match (below, next.filter(|due| *due > self.now)) {
            (Some(below), Some(next)) => Some(below.min(next)),
            (below, next) => below.or(next),
        })
    }

    fn is_flushed(&self) -> bool {
        let is_due = self.held.first_key_value().is_some_and(|((due, _), _)| *due <= self.now);
        !is_due && self.lane.is_flushed()
    }

    fn answer_to(&mut self, peer: SocketAddr) {
        self.lane.answer_to(peer);
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lane.as_fd()
    }

    fn describe(&self) -> String {
        format!("{} with faults", self.lane.describe())
    }

    fn is_stream(&self) -> bool {
        self.lane.is_stream()
    }

    fn max_datagram(&self) -> usize {
        self.lane.max_datagram()
    }

    fn dropped(&self) -> u64 {
        self.lane.dropped()
    }

    fn note(&self) -> Option<&str> {
        self.lane.note()
    }
}

impl Fate {
    fn draw(rng: &mut Rng, faults: &Faults) -> Self {
        let is_lost = rng.chance(faults.loss);
        let is_doubled = rng.chance(faults.duplicate);
        let is_late = rng.chance(faults.reorder);
        let is_corrupt = rng.chance(faults.corrupt);
        let bit = rng.next_u64();
        Self { is_lost, is_doubled, is_late, flips: is_corrupt.then_some(bit) }
    }
}

/// `chance` as a number below `bound`.
fn scaled(chance: u64, bound: usize) -> usize {
    ((u128::from(chance) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::super::Memory;
    use super::*;

    const MS: u64 = 1_000_000;

    fn lane(faults: Faults, seed: u64) -> (Faulty<Memory>, Memory) {
        let (near, far) = Memory::pair(1 << 20).unwrap();
        (Faulty::new(near, faults, seed), far)
    }

    fn drain(lane: &mut impl Lane) -> Vec<Vec<u8>> {
        let (mut received, mut all) = (ReceiveBuffer::new(), Vec::new());
        while lane.receive(&mut received).unwrap() > 0 {
            all.extend(received.datagrams().map(|datagram| datagram.bytes.to_vec()));
        }
        all
    }

    fn numbered(numbers: Range<u16>) -> Vec<u8> {
        numbers.flat_map(u16::to_be_bytes).collect()
    }

    #[test]
    fn fates_are_those_of_the_seed_for_each_datagram_of_a_large_packet() {
        let faults = Faults { loss: 0.2, duplicate: 0.1, corrupt: 0.1, ..Faults::default() };
        let (mut near, mut far) = lane(faults.clone(), 7);
        let mut rng = Rng::new(7);
        let (mut came, mut expected) = (Vec::new(), Vec::new());
        for packet in 0..100 {
            let bytes = numbered(packet * 64..(packet + 1) * 64);
            assert_eq!(near.send(&Datagrams { bytes: &bytes, stride: 2 }).unwrap(), 64);
            came.extend(drain(&mut far));
            for datagram in bytes.chunks(2) {
                let fate = Fate::draw(&mut rng, &faults);
                let mut datagram = datagram.to_vec();
                if let Some(chance) = fate.flips {
                    datagram[scaled(chance, 16) / 8] ^= 1 << (scaled(chance, 16) % 8);
                }
                let copies = usize::from(!fate.is_lost) * (1 + usize::from(fate.is_doubled));
                expected.extend(std::iter::repeat_n(datagram, copies));
            }
        }
        assert_eq!(came, expected);
        let counters = near.counters();
        assert!((1_100..1_500).contains(&counters.lost), "{counters:?}");
        assert_eq!(came.len() as u64, 6_400 - counters.lost + counters.duplicated);
    }

    #[test]
    fn late_ones_are_overtaken_and_delayed_ones_wait_for_their_time() {
        let faults = Faults {
            reorder: 0.25,
            reorder_by: Duration::from_millis(2),
            delay: Duration::from_millis(10),
            ..Faults::default()
        };
        let (mut near, mut far) = lane(faults, 3);
        near.flush(Instant::from_ns(MS)).unwrap();
        near.send(&Datagrams { bytes: &numbered(0..64), stride: 2 }).unwrap();
        assert_eq!(drain(&mut far).len(), 0);
        assert_eq!(near.flush(Instant::from_ns(5 * MS)).unwrap(), Some(Instant::from_ns(11 * MS)));
        assert_eq!(near.flush(Instant::from_ns(11 * MS)).unwrap(), Some(Instant::from_ns(13 * MS)));
        let on_time = drain(&mut far);
        assert_eq!(near.flush(Instant::from_ns(13 * MS)).unwrap(), None);
        let late = drain(&mut far);
        assert!(on_time.is_sorted() && late.is_sorted());
        assert_eq!(
            (on_time.len() + late.len(), late.len() as u64),
            (64, near.counters().reordered)
        );
        assert!(late.len() > 4 && on_time.last() > late.first());
    }

    #[test]
    fn nothing_passes_a_dead_lane_either_way_and_all_does_afterwards() {
        let dead = Some(Instant::from_ns(10)..Instant::from_ns(20));
        let (mut near, mut far) = lane(Faults { dead, ..Faults::default() }, 0);
        let mut arrived = Vec::new();
        for now in [9, 10, 19, 20] {
            near.flush(Instant::from_ns(now)).unwrap();
            near.send(&Datagrams::one(b"there")).unwrap();
            far.send(&Datagrams::one(b"back")).unwrap();
            arrived.push((drain(&mut far).len(), drain(&mut near).len()));
        }
        assert_eq!(arrived, [(1, 1), (0, 0), (0, 0), (1, 1)]);
        assert_eq!(near.counters().buried, 4);
    }

    #[test]
    fn what_finds_no_room_below_leaves_later_in_order() {
        let (near, mut far) = Memory::pair(20).unwrap();
        let mut near = Faulty::new(near, Faults::default(), 0);
        assert_eq!(near.send(&Datagrams { bytes: &numbered(0..50), stride: 2 }).unwrap(), 50);
        let mut came = Vec::new();
        while !near.is_flushed() {
            came.extend(drain(&mut far));
            near.flush(Instant::ZERO).unwrap();
        }
        came.extend(drain(&mut far));
        assert_eq!(came.concat(), numbered(0..50));
    }
}
