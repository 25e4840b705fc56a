//! The receiving end of a lane: which packets have arrived, and when to acknowledge them.

use super::ranges::Ranges;
use crate::wire::{Probe, Range};
use alloc::vec::Vec;
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
    answer: Option<u64>,
    asked: Option<(u64, Instant)>,
    rtt_ns: u64,
    validated: bool,
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
        self.validated
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

    /// Processes a probe. True if it validates the sender's address.
    pub fn probed(&mut self, probe: Probe, now: Instant) -> bool {
        if probe.challenge.is_some() {
            self.answer = probe.challenge;
            self.at_once = true;
        }
        let (Some(response), Some((challenge, at))) = (probe.response, self.asked) else {
            return false;
        };
        if response != challenge {
            return false;
        }
        self.asked = None;
        self.rtt_ns = self.rtt_ns.min(now.ns_since(at).max(1));
        self.validated = true;
        true
    }

    /// The answer to a challenge, which contains a challenge as long as the address is not
    /// validated, or if packets have `moved` to another address.
    pub fn answer(&mut self, moved: bool, now: Instant, rng: &mut Rng) -> Option<Probe> {
        let response = Some(self.answer.take()?);
        let challenge = (!self.validated || moved).then(|| {
            let challenge = self.asked.map_or_else(|| rng.next_u64(), |(challenge, _)| challenge);
            self.asked = Some((challenge, now));
            challenge
        });
        Some(Probe { challenge, response })
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
        assert_eq!(lane.answer(false, us(0), &mut rng), None);
        assert!(!lane.probed(Probe { challenge: Some(9), response: Some(3) }, us(0)));
        let Some(Probe { challenge: Some(challenge), response: Some(9) }) =
            lane.answer(false, us(1), &mut rng)
        else {
            panic!("no challenge");
        };
        assert!(!lane.probed(Probe { challenge: None, response: Some(challenge ^ 1) }, us(5)));
        assert!(lane.probed(Probe { challenge: None, response: Some(challenge) }, us(9)));
        assert!(lane.is_validated());
    }
}
