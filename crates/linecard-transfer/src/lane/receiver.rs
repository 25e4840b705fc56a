//! The receiving end of a lane: which packets have arrived, and when to acknowledge them.

use super::challenges::Challenges;
use super::ranges::Ranges;
use crate::wire::{Probe, Range};
use alloc::vec::Vec;
use core::net::SocketAddr;
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
    /// The same, to be answered at the validated address, too: the first to come may be a copy from elsewhere.
    copy: Option<u64>,
    /// At most [`MAX_ASKED`], of one address each, the oldest first.
    asked: Vec<Challenge>,
    rtt_ns: u64,
    validated: Validated,
}

/// Addresses that are challenged at a time: those of the sender before and after a change, and some of which only copies
/// come.
const MAX_ASKED: usize = 4;

/// A challenge of this end: when it was sent last, and where to.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    challenge: u64,
    at: Instant,
    to: Option<SocketAddr>,
}

/// Where the sender has shown that it gets packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Validated {
    #[default]
    Nowhere,
    /// On a lane that is connected by nature, there is no address.
    At(Option<SocketAddr>),
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
        matches!(self.validated, Validated::At(_))
    }

    /// The address to which the challenge was sent that the sender answered last; none where packets have no address.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        match self.validated {
            Validated::At(address) => address,
            Validated::Nowhere => None,
        }
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

    /// Processes a probe that came `from` there. True if it validates an address: that to which the challenge was sent which
    /// it answers, wherever the answer comes from (RFC 9000, section 8.2.3), as it may be a copy that has overtaken the
    /// packet of the sender.
    pub fn probed(&mut self, probe: Probe, from: Option<SocketAddr>, now: Instant) -> bool {
        if let Some(challenge) = probe.challenge {
            self.answer = Some((challenge, from));
            self.copy = (self.is_validated() && self.address() != from).then_some(challenge);
            self.at_once = true;
        }
        let asked = self.asked.iter().find(|asked| probe.response == Some(asked.challenge));
        let Some(&Challenge { at, to, .. }) = asked else { return false };
        self.asked.clear();
        self.rtt_ns = self.rtt_ns.min(now.ns_since(at).max(1));
        self.validated = Validated::At(to);
        true
    }

    /// The answer to a challenge, and where it goes. It contains a challenge if that address is not validated.
    pub fn answer(
        &mut self,
        now: Instant,
        challenges: &mut Challenges,
    ) -> Option<(Probe, Option<SocketAddr>)> {
        let Some((response, to)) = self.answer.take() else {
            let response = Some(self.copy.take()?);
            return Some((Probe { challenge: None, response }, self.address()));
        };
        let is_validated = self.validated == Validated::At(to);
        let challenge = (!is_validated).then(|| self.ask(to, now, challenges));
        Some((Probe { challenge, response: Some(response) }, to))
    }

    /// The challenge for an address: the same as before, as an answer to any copy validates it.
    fn ask(&mut self, to: Option<SocketAddr>, now: Instant, challenges: &mut Challenges) -> u64 {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.to == to) {
            asked.at = now;
            return asked.challenge;
        }
        if self.asked.len() == MAX_ASKED {
            self.asked.remove(0);
        }
        let challenge = challenges.next();
        self.asked.push(Challenge { challenge, at: now, to });
        challenge
    }

    /// Whether an answer is pending.
    #[must_use]
    pub const fn has_answer(&self) -> bool {
        self.answer.is_some() || self.copy.is_some()
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
        let challenges = &mut Challenges::from(5);
        let mut lane = LaneReceiver::new(AckSettings::default());
        assert_eq!(lane.answer(us(0), challenges), None);
        assert!(!lane.probed(Probe { challenge: Some(9), response: Some(3) }, None, us(0)));
        let Some((Probe { challenge: Some(challenge), response: Some(9) }, None)) =
            lane.answer(us(1), challenges)
        else {
            panic!("no challenge");
        };
        let response = |response| Probe { challenge: None, response: Some(response) };
        assert!(!lane.probed(response(challenge ^ 1), None, us(5)));
        assert!(lane.probed(response(challenge), None, us(9)));
        assert!(lane.is_validated());
    }

    const OWN: Option<SocketAddr> = address(1);

    const fn address(host: u8) -> Option<SocketAddr> {
        let ip = core::net::Ipv4Addr::new(192, 0, 2, host);
        Some(SocketAddr::new(core::net::IpAddr::V4(ip), 4_000))
    }

    /// A probe from there; the challenge in the answer, which goes there.
    fn ask(
        lane: &mut LaneReceiver,
        from: Option<SocketAddr>,
        challenges: &mut Challenges,
    ) -> Option<u64> {
        lane.probed(Probe { challenge: Some(9), response: None }, from, us(0));
        let (probe, to) = lane.answer(us(1), challenges).unwrap();
        assert_eq!((probe.response, to), (Some(9), from));
        probe.challenge
    }

    const fn answer(response: Option<u64>) -> Probe {
        Probe { challenge: None, response }
    }

    /// An attacker that copies packets of the sender, faster than its path, does not get its acknowledgments, and does not
    /// keep them from the sender.
    #[test]
    fn a_copy_that_overtakes_an_answer_validates_the_address_that_was_asked() {
        let (mut lane, other) = (LaneReceiver::new(AckSettings::default()), address(2));
        let challenges = &mut Challenges::from(5);
        let first = ask(&mut lane, OWN, challenges);
        let second = ask(&mut lane, other, challenges);
        assert_ne!(first, second);
        // The answer of the sender, from elsewhere.
        assert!(lane.probed(answer(first), other, us(2)));
        assert_eq!(lane.address(), OWN);
        assert_eq!(ask(&mut lane, OWN, challenges), None);
        // Other challenges are void then.
        assert!(!lane.probed(answer(second), other, us(3)));
        assert_eq!(lane.address(), OWN);
    }

    /// The original of a probe is dropped when its copy has come first: the sender gets its answer all the same.
    #[test]
    fn a_challenge_from_elsewhere_is_answered_at_the_validated_address_too() {
        let mut lane = LaneReceiver::new(AckSettings::default());
        let challenges = &mut Challenges::from(5);
        let first = ask(&mut lane, OWN, challenges);
        assert!(lane.probed(answer(first), OWN, us(2)) && !lane.has_answer());
        assert!(ask(&mut lane, address(2), challenges).is_some());
        assert!(lane.has_answer());
        assert_eq!(lane.answer(us(3), challenges), Some((answer(Some(9)), OWN)));
        assert!(!lane.has_answer() && lane.answer(us(4), challenges).is_none());
    }

    #[test]
    fn few_addresses_are_challenged_at_a_time() {
        let mut lane = LaneReceiver::new(AckSettings::default());
        let challenges = &mut Challenges::from(5);
        let first = ask(&mut lane, OWN, challenges);
        let others: Vec<_> =
            (2..=5).map(|host| ask(&mut lane, address(host), challenges)).collect();
        assert_eq!(lane.asked.len(), MAX_ASKED);
        assert!(!lane.probed(answer(first), OWN, us(2)));
        assert!(lane.probed(answer(others[0]), OWN, us(2)));
        assert_eq!(lane.address(), address(2));
    }
}
