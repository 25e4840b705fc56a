//! The packets in flight on a lane, by packet number, and loss detection.
//!
//! Loss is detected only by the lane's own order (RFC 9002, section 6.1): a packet is lost if one
//! sent three packets later, or 9/8 of a round-trip time later, has arrived. Other lanes are not
//! considered. Where packets arrive that had been declared lost, the path reorders, and so many more
//! packets are waited for (RFC 8985, section 6.2).

use super::Rtt;
use super::delivery::{Delivery, DeliveryAtSend, RateSample};
use crate::wire::{Ack, Range};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use linecard::time::Instant;

/// A packet counts as lost if this many later ones have arrived (kPacketThreshold) …
pub const PACKET_THRESHOLD: u64 = 3;
/// … or up to this many, where the path reorders packets.
const MAX_THRESHOLD: u64 = 1_024;
/// The most packets in flight on a lane: 100 Gbit/s of 1,408 bytes over 14 ms.
pub const MAX_FLIGHT: usize = 1 << 17;
/// Lost packets remembered, in case they arrive later.
const MAX_REMEMBERED: usize = 4_096;

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Piece {
    /// The chunk.
    pub chunk: u32,
    /// Index in the order in which the chunk's packets are first sent, repair included.
    pub slot: u32,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    bytes: u32,
    piece: Option<Piece>,
    at_send: DeliveryAtSend,
}

/// A packet that has just been acknowledged.
#[derive(Debug, Clone, Copy)]
struct Taken {
    number: u64,
    sent: Sent,
}

/// The effect of an acknowledgment or a timer.
#[derive(Debug, Clone, Default)]
pub struct FlightUpdate {
    /// Pieces that arrived for the first time.
    pub arrived: Vec<Piece>,
    /// Pieces of packets that count as lost.
    pub lost: Vec<Piece>,
    /// Pieces that had been declared lost, and arrived.
    pub late: Vec<Piece>,
    /// The longest that one of these took from sending to acknowledgment, in ns.
    pub late_ns: u64,
    /// Bytes that have arrived.
    pub arrived_bytes: u64,
    /// Bytes that count as lost.
    pub lost_bytes: u64,
    /// The delivery rate that this shows.
    pub rate: Option<RateSample>,
    /// When the newest of the lost packets was sent: losses of earlier packets belong to the same
    /// event.
    pub lost_sent: Option<Instant>,
    /// Round-trip time of the newest packet, if this acknowledged it first, in ns. Where packets or acknowledgments have
    /// been overtaken, of the oldest that this acknowledged first and that has not overtaken others: there, the newest
    /// one has arrived too early, or its acknowledgment has.
    pub sample_ns: Option<u64>,
    /// How long the other end has kept its acknowledgment, in ns; 0 if that is not known.
    pub ack_delay_ns: u64,
}

impl FlightUpdate {
    /// Clears it for reuse.
    pub fn clear(&mut self) {
        self.arrived.clear();
        self.lost.clear();
        self.late.clear();
        self.late_ns = 0;
        self.arrived_bytes = 0;
        self.lost_bytes = 0;
        self.rate = None;
        self.lost_sent = None;
        self.sample_ns = None;
        self.ack_delay_ns = 0;
    }
}

/// The packets in flight on a lane.
#[derive(Debug)]
pub struct Flight {
    /// Number of the first entry of `sent`.
    base: u64,
    /// In order of their numbers; `None` if acknowledged, or not to be acknowledged.
    sent: VecDeque<Option<Sent>>,
    bytes: u64,
    packets: usize,
    largest: Option<u64>,
    /// Lost pieces, and when they were sent.
    remembered: BTreeMap<u64, (Piece, Instant)>,
    delivery: Delivery,
    /// A packet counts as lost if this many later ones have arrived.
    threshold: u64,
    /// Packets or acknowledgments have been overtaken.
    reorders: bool,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            base: 0,
            sent: VecDeque::new(),
            bytes: 0,
            packets: 0,
            largest: None,
            remembered: BTreeMap::new(),
            delivery: Delivery::default(),
            threshold: PACKET_THRESHOLD,
            reorders: false,
        }
    }
}

impl Flight {
    /// The number that the next packet gets.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// Bytes in flight.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets in flight.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.packets
    }

    /// Whether one more may be sent.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.sent.len() < MAX_FLIGHT
    }

    /// Records that a packet of `bytes` was sent at `now`; packets without a piece are not tracked.
    /// Returns its number.
    pub fn send(&mut self, piece: Option<Piece>, bytes: u32, now: Instant) -> u64 {
        let number = self.next_number();
        if piece.is_some() {
            let at_send = self.delivery.depart(self.packets == 0, now);
            self.bytes += u64::from(bytes);
            self.packets += 1;
            self.sent.push_back(Some(Sent { at: now, bytes, piece, at_send }));
        } else if self.sent.is_empty() {
            self.base += 1;
        } else {
            self.sent.push_back(None);
        }
        number
    }

    /// When the oldest packet in flight was sent.
    #[must_use]
    pub fn oldest(&self) -> Option<Instant> {
        self.sent.iter().flatten().map(|sent| sent.at).next()
    }

    /// The oldest packet in flight of `chunk`, from number `from` on, and when it was sent.
    #[must_use]
    pub fn oldest_of(&self, chunk: u32, from: u64) -> Option<(Instant, Piece)> {
        let skip = usize::try_from(from.saturating_sub(self.base)).ok()?;
        let mut packets = self.sent.range(skip.min(self.sent.len())..).flatten();
        packets.find_map(|sent| {
            sent.piece.filter(|piece| piece.chunk == chunk).map(|piece| (sent.at, piece))
        })
    }

    /// The number of the oldest packet in flight that carries `piece`.
    #[must_use]
    pub fn number_of(&self, piece: Piece) -> Option<u64> {
        let place =
            self.sent.iter().position(|sent| sent.is_some_and(|sent| sent.piece == Some(piece)))?;
        Some(self.base + place as u64)
    }

    /// Processes an acknowledgment. False if it contains numbers that were never sent: the other
    /// end has a bug or is hostile.
    pub fn acknowledge(&mut self, ack: &Ack, now: Instant, outcome: &mut FlightUpdate) -> bool {
        let Some(last) = ack.ranges.first().map(|range| range.last) else { return true };
        if last >= self.next_number() {
            return false;
        }
        if self.largest > Some(last) {
            self.reorders = true;
        } else {
            self.largest = Some(last);
        }
        // The ranges are in order, the newest first.
        let (mut newest, mut oldest) = (None, None);
        for range in &ack.ranges {
            let Some((first, last)) = self.take(*range, now, outcome) else { continue };
            newest = newest.or(Some(last));
            if !self.is_in_flight(first.number.wrapping_sub(1)) {
                oldest = Some(first);
            }
        }
        let is_last = |taken: &Taken| taken.number == last;
        let sampled = if self.reorders { oldest } else { newest.filter(is_last) };
        if let Some(taken) = sampled {
            outcome.sample_ns = Some(now.ns_since(taken.sent.at));
            // The other end says it of the newest packet only.
            outcome.ack_delay_ns = if self.reorders { 0 } else { u64::from(ack.delay_us) * 1_000 };
        }
        if let Some(Taken { sent, .. }) = newest {
            outcome.rate = Some(self.delivery.sample(sent.at, &sent.at_send, now));
        }
        self.advance();
        true
    }

    fn is_in_flight(&mut self, number: u64) -> bool {
        self.entry(number).is_some_and(|entry| entry.is_some())
    }

    /// Takes the packets of a range. Returns the oldest and the newest.
    fn take(
        &mut self,
        range: Range,
        now: Instant,
        outcome: &mut FlightUpdate,
    ) -> Option<(Taken, Taken)> {
        let mut ends = None;
        for number in range.first.max(self.base)..=range.last {
            let taken = self.entry(number).and_then(Option::take);
            let Some(sent) = taken else { continue };
            self.bytes -= u64::from(sent.bytes);
            self.packets -= 1;
            self.delivery.arrived(u64::from(sent.bytes), now);
            outcome.arrived_bytes += u64::from(sent.bytes);
            outcome.arrived.extend(sent.piece);
            let taken = Taken { number, sent };
            ends = Some((ends.map_or(taken, |(oldest, _)| oldest), taken));
        }
        while let Some((&number, &(piece, at))) =
            self.remembered.range(range.first..=range.last).next()
        {
            self.remembered.remove(&number);
            let overtaken = self.largest.map_or(0, |largest| largest.saturating_sub(number));
            self.threshold = self.threshold.max((overtaken + 1).min(MAX_THRESHOLD));
            outcome.late.push(piece);
            outcome.late_ns = outcome.late_ns.max(now.ns_since(at));
            self.reorders = true;
        }
        ends
    }

    /// Records that nothing more was to be sent, though it might have been.
    pub fn limit(&mut self) {
        self.delivery.limit(self.bytes);
    }

    /// Declares packets lost according to the lane's order or `rtt`. Returns when to check again.
    pub fn detect(
        &mut self,
        rtt: &Rtt,
        now: Instant,
        outcome: &mut FlightUpdate,
    ) -> Option<Instant> {
        let largest = self.largest?;
        let delay = rtt.loss_delay_ns();
        let mut number = self.base;
        while number <= largest {
            let overtaken = largest - number >= self.threshold;
            let entry = self.entry(number).and_then(|entry| *entry);
            if let Some(sent) = entry {
                let deadline = sent.at.plus_ns(delay);
                if !overtaken && deadline > now {
                    self.advance();
                    return Some(deadline);
                }
                self.lose(number, outcome);
            }
            number += 1;
        }
        self.advance();
        None
    }

    /// Declares all packets lost, because the lane has failed.
    pub fn abandon(&mut self, outcome: &mut FlightUpdate) {
        for number in self.base..self.next_number() {
            self.lose(number, outcome);
        }
        self.advance();
    }

    fn lose(&mut self, number: u64, outcome: &mut FlightUpdate) {
        let Some(sent) = self.entry(number).and_then(Option::take) else { return };
        self.bytes -= u64::from(sent.bytes);
        self.packets -= 1;
        outcome.lost_bytes += u64::from(sent.bytes);
        outcome.lost_sent = outcome.lost_sent.max(Some(sent.at));
        let Some(piece) = sent.piece else { return };
        outcome.lost.push(piece);
        self.remembered.insert(number, (piece, sent.at));
        if self.remembered.len() > MAX_REMEMBERED {
            self.remembered.pop_first();
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut Option<Sent>> {
        let place = number.checked_sub(self.base)?;
        self.sent.get_mut(usize::try_from(place).ok()?)
    }

    fn advance(&mut self) {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use linecard::rng::Rng;

    const fn piece(slot: u32) -> Piece {
        Piece { chunk: 0, slot }
    }

    fn ack(ranges: Vec<Range>) -> Ack {
        Ack { lane: 0, window_end: 0, done_below: 0, done: [0; 4], delay_us: 0, ranges }
    }

    fn slots(pieces: &[Piece]) -> Vec<u32> {
        pieces.iter().map(|piece| piece.slot).collect()
    }

    #[test]
    fn three_later_packets_are_a_loss_and_two_are_not() {
        let (mut flight, mut outcome) = (Flight::default(), FlightUpdate::default());
        for slot in 0..6 {
            flight.send(Some(piece(slot)), 100, Instant::from_ns(u64::from(slot)));
        }
        let now = Instant::from_ns(100);
        assert!(flight.acknowledge(&ack(vec![Range { first: 4, last: 4 }]), now, &mut outcome));
        let next = flight.detect(&Rtt::guess(50_000_000), now, &mut outcome);
        assert_eq!(slots(&outcome.lost), [0, 1]);
        assert_eq!(next, Some(Instant::from_ns(2 + 56_250_000)));
        assert_eq!((flight.packets(), flight.bytes()), (3, 300));
        outcome.clear();
        let _next =
            flight.detect(&Rtt::guess(50_000_000), Instant::from_ns(60_000_000), &mut outcome);
        assert_eq!(slots(&outcome.lost), [2, 3]);
        outcome.clear();
        assert!(flight.acknowledge(&ack(vec![Range { first: 0, last: 5 }]), now, &mut outcome));
        assert_eq!((slots(&outcome.arrived), slots(&outcome.late)), (vec![5], vec![0, 1, 2, 3]));
        assert_eq!((flight.packets(), flight.bytes()), (0, 0));
    }

    #[test]
    fn once_something_was_overtaken_the_oldest_new_packet_is_the_sample() {
        let (mut flight, mut outcome) = (Flight::default(), FlightUpdate::default());
        for slot in 0..20 {
            flight.send(Some(piece(slot)), 100, Instant::from_ns(u64::from(slot)));
        }
        let mut seen = |ranges, now, delay_us| {
            let (now, ack) = (Instant::from_ns(now), Ack { delay_us, ..ack(ranges) });
            outcome.clear();
            assert!(flight.acknowledge(&ack, now, &mut outcome));
            let _next = flight.detect(&Rtt::guess(50_000_000), now, &mut outcome);
            (outcome.sample_ns, outcome.ack_delay_ns, outcome.late_ns)
        };
        let of = |first, last| Range { first, last };
        // The newest packet of all, with the delay of its acknowledgment; nothing new shows nothing.
        assert_eq!(seen(vec![of(0, 1)], 51, 7), (Some(50), 7_000, 0));
        assert_eq!(seen(vec![of(0, 1)], 52, 7), (None, 0, 0));
        // 9 has overtaken seven, four of which count as lost, until 2 arrives.
        assert_eq!(seen(vec![of(9, 9), of(0, 1)], 53, 7), (Some(44), 7_000, 0));
        assert_eq!(seen(vec![of(9, 9), of(0, 2)], 60, 7).2, 58);
        // 7 and 8 are new, of which 7 is the older; 12 has overtaken others.
        assert_eq!(seen(vec![of(12, 12), of(0, 9)], 70, 7), (Some(63), 0, 67));
        // An acknowledgment that was overtaken has nothing new.
        assert_eq!(seen(vec![of(0, 9)], 71, 7), (None, 0, 0));
        // One that overtakes names many: the oldest of them has waited for its own.
        assert_eq!(seen(vec![of(0, 19)], 72, 7), (Some(62), 0, 0));
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let (mut flight, mut outcome) = (Flight::default(), FlightUpdate::default());
        flight.send(Some(piece(0)), 100, Instant::ZERO);
        let forged = ack(vec![Range { first: 0, last: 1 }]);
        assert!(!flight.acknowledge(&forged, Instant::ZERO, &mut outcome));
        assert_eq!(flight.packets(), 1);
    }

    /// Each piece ends in exactly one way, and the sums come out, whatever arrives.
    #[test]
    fn every_packet_has_one_fate() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut flight, mut outcome) = (Flight::default(), FlightUpdate::default());
            let mut got = super::super::ranges::Ranges::default();
            let mut now = Instant::ZERO;
            let (mut sent, mut fates) = (0_u32, Vec::new());
            for _ in 0..300 {
                now = now.plus_ns(rng.below(2_000_000));
                if rng.chance(0.7) {
                    let number = flight.send(rng.chance(0.9).then_some(piece(sent)), 10, now);
                    sent += 1;
                    if rng.chance(0.8) {
                        got.insert(number);
                    }
                }
                outcome.clear();
                let newest: Vec<Range> = got.newest().collect();
                assert!(flight.acknowledge(&ack(newest), now, &mut outcome));
                flight.detect(&Rtt::guess(2_000_000), now, &mut outcome);
                fates.extend(slots(&outcome.arrived));
                fates.extend(slots(&outcome.lost));
            }
            outcome.clear();
            flight.abandon(&mut outcome);
            fates.extend(slots(&outcome.lost));
            let all = fates.len();
            fates.sort_unstable();
            fates.dedup();
            assert_eq!(fates.len(), all, "seed {seed}");
            assert_eq!((flight.packets(), flight.bytes()), (0, 0), "seed {seed}");
        }
    }
}
