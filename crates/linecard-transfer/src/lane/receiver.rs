//! The receiving end of a lane: which packets have arrived, and when to acknowledge them.

use super::ranges::Ranges;
use crate::wire::{Probe, Range};
use alloc::vec::Vec;
use core::net::SocketAddr;
use linecard::rng::Rng;
use linecard::time::Instant;

/// When received packets are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSettings {
    /// After this many packets: two of the sender's batches.
    pub packets: u32,
    /// After at most this long, in ns; after an eighth of the round-trip time if that is less.
    pub delay_ns: u64,
}

impl Default for AckSettings {
    fn default() -> Self {
        Self { packets: 32, delay_ns: 1_000_000 }
    }
}

/// The shortest delay of an acknowledgment for a few packets, in ns; an earlier one would not be
/// worth a packet.
const LEAST_DELAY_NS: u64 = 50_000;

/// The receiving end of a lane.
#[derive(Debug, Default)]
pub struct LaneReceiver {
    settings: AckSettings,
    ranges: Ranges,
    unacknowledged: u32,
    since: Option<Instant>,
    at_once: bool,
    newest_at: Instant,
    /// A challenge of the sender, and where it came from.
    answer: Option<(u64, Option<SocketAddr>)>,
    asked: Option<Challenge>,
    rtt_ns: u64,
    /// From where a challenge was answered last, if one was.
    validated: Option<Option<SocketAddr>>,
}

/// A challenge of this end: when it was sent last, and where to.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    challenge: u64,
    at: Instant,
    to: Option<SocketAddr>,
}

impl LaneReceiver {
    /// A lane on which nothing has arrived yet.
    #[must_use]
    pub fn new(settings: AckSettings) -> Self {
        Self { settings, rtt_ns: u64::MAX, ..Self::default() }
    }

    /// Whether the sender's address has answered a challenge.
    #[must_use]
    pub const fn is_validated(&self) -> bool {
        self.validated.is_some()
    }

    /// The address from which the sender last answered a challenge that was sent there; none where packets have no
    /// address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.validated.flatten()
    }

    /// Records that packet `number` arrived. False if it had arrived before.
    pub fn arrived(&mut self, number: u64, now: Instant) -> bool {
        let largest = self.ranges.largest();
        if !self.ranges.insert(number) {
            return false;
        }
        // Out of order: the sender should learn of the gap, or that it is filled.
        let expected = largest.map_or(number == 0, |largest| number == largest + 1);
        self.at_once |= !expected;
        if largest.is_none_or(|largest| number > largest) {
            self.newest_at = now;
        }
        true
    }

    /// Schedules an acknowledgment.
    pub fn owe(&mut self, now: Instant) {
        self.unacknowledged += 1;
        self.since.get_or_insert(now);
    }

    /// Schedules an acknowledgment for the next call.
    pub fn owe_at_once(&mut self) {
        self.at_once = true;
    }

    /// When an acknowledgment is due, if one is scheduled.
    #[must_use]
    pub fn ack_due(&self) -> Option<Instant> {
        self.ranges.largest()?;
        if self.at_once || self.unacknowledged >= self.settings.packets {
            return Some(Instant::ZERO);
        }
        let delay = self.settings.delay_ns.min(self.rtt_ns / 8).max(LEAST_DELAY_NS);
        self.since.map(|since| since.plus_ns(delay))
    }

    /// Returns the acknowledgment to send: its ranges, and its delay in µs.
    pub fn acknowledge(&mut self, now: Instant) -> (Vec<Range>, u32) {
        self.unacknowledged = 0;
        self.since = None;
        self.at_once = false;
        let delay_us = u32::try_from(now.ns_since(self.newest_at) / 1_000).unwrap_or(u32::MAX);
        (self.ranges.newest().collect(), delay_us)
    }

    /// Processes a probe that came `from` there. True if it validates that address: it answers the challenge that was sent
    /// there. An answer from elsewhere is a copy that overtook the packet of the sender.
    pub fn probed(&mut self, probe: Probe, from: Option<SocketAddr>, now: Instant) -> bool {
        if let Some(challenge) = probe.challenge {
            self.answer = Some((challenge, from));
            self.at_once = true;
        }
        let (Some(response), Some(asked)) = (probe.response, self.asked) else { return false };
        if response != asked.challenge || from != asked.to {
            return false;
        }
        self.asked = None;
        self.rtt_ns = self.rtt_ns.min(now.ns_since(asked.at).max(1));
        self.validated = Some(from);
        true
    }

    /// The answer to a challenge, and where it goes. It contains a challenge if that address is not validated.
    pub fn answer(&mut self, now: Instant, rng: &mut Rng) -> Option<(Probe, Option<SocketAddr>)> {
        let (response, to) = self.answer.take()?;
        let challenge = (self.validated != Some(to)).then(|| {
            let asked = self.asked.filter(|asked| asked.to == to);
            let challenge = asked.map_or_else(|| rng.next_u64(), |asked| asked.challenge);
            self.asked = Some(Challenge { challenge, at: now, to });
            challenge
        });
        Some((Probe { challenge, response: Some(response) }, to))
    }

    /// Whether an answer is pending.
    #[must_use]
    pub const fn has_answer(&self) -> bool {
        self.answer.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn arrive(lane: &mut LaneReceiver, number: u64, now: Instant) {
        assert!(lane.arrived(number, now));
        lane.owe(now);
    }

    #[test]
    fn it_acknowledges_by_number_by_time_and_at_a_gap() {
        let mut lane = LaneReceiver::new(AckSettings { packets: 4, delay_ns: 1_000_000 });
        assert_eq!(lane.ack_due(), None);
        arrive(&mut lane, 0, us(10));
        assert_eq!(lane.ack_due(), Some(us(1_010)));
        (1..4).for_each(|number| arrive(&mut lane, number, us(20)));
        assert_eq!(lane.ack_due(), Some(Instant::ZERO));
        assert_eq!(lane.acknowledge(us(23)), (alloc::vec![Range { first: 0, last: 3 }], 3));
        assert_eq!(lane.ack_due(), None);
        arrive(&mut lane, 5, us(30));
        assert_eq!(lane.ack_due(), Some(Instant::ZERO));
        assert!(!lane.arrived(5, us(31)));
    }

    #[test]
    fn an_address_is_validated_by_the_answer_that_was_asked_for() {
        let mut rng = Rng::new(5);
        let mut lane = LaneReceiver::new(AckSettings::default());
        assert_eq!(lane.answer(us(0), &mut rng), None);
        assert!(!lane.probed(Probe { challenge: Some(9), response: Some(3) }, None, us(0)));
        let Some((Probe { challenge: Some(challenge), response: Some(9) }, None)) =
            lane.answer(us(1), &mut rng)
        else {
            panic!("no challenge");
        };
        let response = |response| Probe { challenge: None, response: Some(response) };
        assert!(!lane.probed(response(challenge ^ 1), None, us(5)));
        assert!(lane.probed(response(challenge), None, us(9)));
        assert!(lane.is_validated());
    }

    /// An attacker that copies packets of the sender, faster than its path, does not get its acknowledgments.
    #[test]
    fn a_copy_that_overtakes_an_answer_validates_nothing() {
        let [own, other] = [1, 2].map(|host| Some(SocketAddr::from(([192, 0, 2, host], 4_000))));
        let mut rng = Rng::new(5);
        let mut lane = LaneReceiver::new(AckSettings::default());
        let mut ask = |lane: &mut LaneReceiver, from| {
            lane.probed(Probe { challenge: Some(9), response: None }, from, us(0));
            let (probe, to) = lane.answer(us(1), &mut rng).unwrap();
            assert_eq!(to, from);
            probe.challenge
        };
        let first = ask(&mut lane, own);
        let answer = |response| Probe { challenge: None, response };
        assert!(!lane.probed(answer(first), other, us(2)));
        assert_eq!(lane.address(), None);
        // The challenge for another address is another one.
        let second = ask(&mut lane, other);
        assert_ne!(first, second);
        assert!(
            !lane.probed(answer(second), own, us(3)) && !lane.probed(answer(first), other, us(3))
        );
        // It is validated as soon as it is asked again.
        let third = ask(&mut lane, own);
        assert!(lane.probed(answer(third), own, us(4)));
        assert_eq!(lane.address(), own);
        assert_eq!(ask(&mut lane, own), None);
        assert!(ask(&mut lane, other).is_some());
        assert_eq!(lane.address(), own);
    }
}
