//! The sending end of a lane: whether it works, when it may send, and the state of its packets.

use super::challenges::Challenges;
use super::control::Observed;
use super::{Congestion, Control, Flight, FlightUpdate, Pacer, Piece, Rtt};
use crate::wire::{Ack, Probe};
use alloc::collections::VecDeque;
use linecard::time::Instant;

/// A failed lane is probed at least this often, in ns, so that it is back within a second.
const PROBE_INTERVAL_NS: u64 = 200_000_000;
/// An unvalidated address is probed at this interval, in ns, after [`EAGER_PROBES`].
const UNPROVEN_INTERVAL_NS: u64 = 1_000_000_000;
/// Probes of an unvalidated address at the usual interval.
const EAGER_PROBES: u32 = 5;
/// Doublings of the time between probes.
const MAX_BACKOFF: u32 = 6;
/// Unanswered probes after which a lane without packets in flight counts as failed.
const MAX_UNANSWERED: u32 = 3;
/// How long the answer to a probe is waited for, at most, where packets in flight wait, in ns: where a round trip is
/// longer, many are in flight, of which not all acknowledgments are lost by chance.
const MAX_GRACE_NS: u64 = 100_000_000;
/// Challenges that are remembered: at least those of three seconds, as a round trip over satellites may take one.
const MAX_ASKED: usize = 16;

/// Parameters of a sending lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSettings {
    /// Rate that the caller has reserved, in bit/s with all framing; 0 if unknown: then
    /// congestion control determines it.
    pub rate_bits_per_second: u64,
    /// How it does; lanes that share a bottleneck use CUBIC.
    pub congestion: Congestion,
    /// Bytes of a datagram's framing on the line: 42 for IPv4, UDP and Ethernet.
    pub framing_bytes: u32,
    /// Bytes of a full datagram.
    pub datagram_bytes: u32,
    /// The lane is a stream (TCP), which has its own congestion control and does not lose data.
    pub stream: bool,
    /// Most bytes in flight on a stream, whose own window is the limit below that: 1 Gbit/s over 500 ms.
    pub stream_window: u64,
    /// How far ahead of the schedule one call may send, in ns: the size of batches.
    pub quantum_ns: u64,
    /// The most lost time that is caught up, in ns.
    pub catch_up_ns: u64,
    /// Allowance in flight beyond 1.25 round-trip times, in ns of the rate: for acknowledgments
    /// delayed by a busy host.
    pub slack_ns: u64,
    /// The shortest probe timeout, in ns.
    pub least_timeout_ns: u64,
    /// The longest acknowledgment delay of the other end, in ns.
    pub ack_delay_ns: u64,
    /// Lanes with equal numbers other than 0 share a bottleneck.
    pub shared: u32,
    /// The other end has named the lane's address, which is not validated yet: the first probes are
    /// short, and few.
    pub unproven: bool,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            rate_bits_per_second: 0,
            congestion: Congestion::Bbr,
            framing_bytes: 42,
            datagram_bytes: 1_448,
            stream: false,
            stream_window: 64 << 20,
            quantum_ns: 250_000,
            catch_up_ns: 5_000_000,
            slack_ns: 4_000_000,
            least_timeout_ns: 15_000_000,
            ack_delay_ns: 2_000_000,
            shared: 0,
            unproven: false,
        }
    }
}

/// Whether a lane may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneState {
    /// No answer has arrived yet.
    Validating,
    /// It carries data.
    Alive,
    /// It has stopped answering: its packets are sent over other lanes, and it is probed.
    Suspect,
    /// It is closed permanently.
    Closed,
}

/// Counters of a sending lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Packets with data or repair.
    pub packets: u64,
    /// Their bytes on the line, framing included.
    pub line_bytes: u64,
    /// Packets that were declared lost.
    pub lost: u64,
    /// Of those, packets that arrived later.
    pub late: u64,
    /// Probes sent.
    pub probes: u64,
    /// Acknowledgments processed.
    pub acks: u64,
    /// Acknowledgments of packets that were never sent, and answers to unknown challenges.
    pub forged: u64,
    /// Times it failed.
    pub deaths: u64,
    /// Times it recovered.
    pub rejoins: u64,
    /// Times the circuit breaker opened.
    pub breaks: u64,
}

/// A challenge that was sent.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    challenge: u64,
    at: Instant,
    /// An answer counts: the lane has neither been answered nor failed since.
    is_open: bool,
}

/// The sending end of a lane.
#[derive(Debug)]
pub struct LaneSender {
    settings: LaneSettings,
    state: LaneState,
    rtt: Rtt,
    flight: Flight,
    pacer: Pacer,
    control: Control,
    /// When the last probe was sent that is to be answered, zero if one is due, and how many are unanswered.
    asked: Option<Instant>,
    tries: u32,
    /// The challenges of the last probes: each has its own, so that an answer shows the round-trip time.
    challenges: VecDeque<Challenge>,
    /// A challenge of the other end that is to be answered.
    answer: Option<u64>,
    progress: Instant,
    /// When a probe of a working lane was last answered, and the number of probes since the last
    /// progress.
    answered: Option<Instant>,
    idle_answers: u32,
    loss_timer: Option<Instant>,
    limited: bool,
    /// Packets before this number have been examined as stragglers.
    skipped: u64,
    /// The counters.
    pub counters: LaneCounters,
}

impl LaneSender {
    /// A lane that is not validated yet.
    #[must_use]
    pub fn new(settings: LaneSettings) -> Self {
        let control = Control::new(&settings);
        let rtt = Rtt::default();
        let pacer = Pacer::new(control.rate_bits_per_second(&settings, &rtt), settings.catch_up_ns);
        Self {
            settings,
            state: LaneState::Validating,
            rtt,
            flight: Flight::default(),
            pacer,
            control,
            asked: None,
            tries: 0,
            challenges: VecDeque::new(),
            answer: None,
            progress: Instant::ZERO,
            answered: None,
            idle_answers: 0,
            loss_timer: None,
            limited: false,
            skipped: 0,
            counters: LaneCounters::default(),
        }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> LaneState {
        self.state
    }

    /// Its round-trip time.
    #[must_use]
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Its parameters.
    #[must_use]
    pub const fn settings(&self) -> &LaneSettings {
        &self.settings
    }

    /// Bytes in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.flight.bytes()
    }

    /// The pacing rate, in bit/s; 0 for none.
    #[must_use]
    pub fn rate_bits_per_second(&self) -> u64 {
        self.control.rate_bits_per_second(&self.settings, &self.rtt)
    }

    /// Sets the number of lanes that share its bottleneck.
    pub fn set_share(&mut self, lanes: usize) {
        self.control.set_share(lanes);
    }

    /// Whether a packet of `bytes` may be sent, `first` if it is the first of a call.
    pub fn may_send(&mut self, bytes: u32, first: bool, now: Instant) -> bool {
        let ahead = if first { 0 } else { self.settings.quantum_ns };
        if self.state != LaneState::Alive || self.pacer.due() > now.plus_ns(ahead) {
            return false;
        }
        let window = self.control.window(&self.settings, &self.rtt);
        let fits = self.flight.bytes() + u64::from(bytes) <= window && self.flight.has_room();
        self.limited |= !fits || self.flight.bytes() * 2 > window;
        fits
    }

    /// Records that a packet of `bytes` is sent. Returns its number.
    pub fn send(&mut self, piece: Piece, bytes: u32, now: Instant) -> u64 {
        let on_line = u64::from(bytes + self.settings.framing_bytes);
        self.counters.packets += 1;
        self.counters.line_bytes += on_line;
        self.pacer.sent(on_line, now);
        if self.flight.packets() == 0 {
            self.progressed(now);
        }
        self.flight.send(Some(piece), bytes, now)
    }

    /// Records that it might have sent more, and nothing was to be sent.
    pub fn starved(&mut self) {
        self.flight.limit();
    }

    /// The number of a packet that is neither acknowledged nor retransmitted, if the lane works.
    pub fn number(&mut self, now: Instant) -> Option<u64> {
        (self.state == LaneState::Alive).then(|| self.flight.send(None, 0, now))
    }

    /// A probe that is due, with its number.
    pub fn probe(&mut self, now: Instant, challenges: &mut Challenges) -> Option<(u64, Probe)> {
        let due = self.probe_due().is_some_and(|due| due <= now);
        if !due && self.answer.is_none() || self.state == LaneState::Closed {
            return None;
        }
        let mut probe = Probe { challenge: None, response: self.answer.take() };
        if due {
            let challenge = challenges.next();
            if self.challenges.len() == MAX_ASKED {
                self.challenges.pop_front();
            }
            self.challenges.push_back(Challenge { challenge, at: now, is_open: true });
            self.asked = Some(now);
            self.tries += 1;
            probe.challenge = Some(challenge);
        }
        self.counters.probes += 1;
        let on_line = u64::from(self.settings.framing_bytes + self.settings.datagram_bytes);
        self.pacer.sent(on_line, now);
        Some((self.flight.send(None, 0, now), probe))
    }

    /// When to probe next, if the lane does not work or an answer is expected.
    fn probe_due(&self) -> Option<Instant> {
        match (self.state, self.asked) {
            (LaneState::Closed, _) | (LaneState::Alive, None) => None,
            (_, None) => Some(Instant::ZERO),
            (_, Some(at)) => {
                let backoff = self.tries.saturating_sub(1).min(MAX_BACKOFF);
                let most = match self.state {
                    // Not before it may have been answered.
                    LaneState::Alive => PROBE_INTERVAL_NS.max(self.rtt.smoothed_ns()),
                    _ if self.settings.unproven && self.tries > EAGER_PROBES => {
                        UNPROVEN_INTERVAL_NS
                    }
                    _ => PROBE_INTERVAL_NS,
                };
                // Packets in flight wait for the answer.
                let is_idle = self.state != LaneState::Alive || self.flight.packets() == 0;
                let first = if is_idle { self.timeout_ns() } else { self.answer_ns() };
                let wait = (first << backoff).min(most);
                Some(at.plus_ns(wait))
            }
        }
    }

    /// Probes a lane although it seems to work.
    pub fn ask(&mut self, now: Instant, challenges: &mut Challenges) -> Option<(u64, Probe)> {
        self.validate();
        self.probe(now, challenges)
    }

    /// Makes a probe due, also of a lane that seems to work, until one is answered.
    pub fn validate(&mut self) {
        if self.asked.is_none() {
            (self.asked, self.tries) = (Some(Instant::ZERO), 0);
        }
    }

    /// Makes the next probe due at once, unless the lane works.
    pub fn probe_now(&mut self) {
        if self.state != LaneState::Alive && !self.settings.unproven {
            (self.asked, self.tries) = (None, 0);
        }
    }

    /// Processes a probe. True if the lane did not work and now does.
    pub fn probed(&mut self, probe: Probe, now: Instant) -> bool {
        // An answer that is never sent would make every wakeup due at once.
        if self.state == LaneState::Closed {
            return false;
        }
        if probe.challenge.is_some() {
            self.answer = probe.challenge;
        }
        let Some(response) = probe.response else { return false };
        let Some(asked) = self.challenges.iter().find(|asked| asked.challenge == response) else {
            self.counters.forged += u64::from(self.asked.is_some());
            return false;
        };
        if !asked.is_open {
            return false;
        }
        self.rtt.sample(now.ns_since(asked.at), 0);
        self.forget_probes();
        if self.state == LaneState::Alive {
            self.answered = Some(now);
            self.idle_answers = self.idle_answers.saturating_add(1);
        }
        // The next probe tests whether full-size packets pass.
        !core::mem::take(&mut self.settings.unproven) && self.revive(now)
    }

    /// No answer is waited for any more, and none counts.
    fn forget_probes(&mut self) {
        (self.asked, self.tries) = (None, 0);
        self.challenges.iter_mut().for_each(|asked| asked.is_open = false);
    }

    fn revive(&mut self, now: Instant) -> bool {
        let dead = matches!(self.state, LaneState::Validating | LaneState::Suspect);
        if dead {
            self.counters.rejoins += u64::from(self.state == LaneState::Suspect);
            self.state = LaneState::Alive;
            self.progressed(now);
            // The time in which it had failed shows nothing of its rate.
            self.flight.limit();
            self.repace();
            // Probes were sent at a guessed rate, or long ago.
            self.pacer.restart(now);
        }
        dead
    }

    /// Processes an acknowledgment of this lane's packets; its effect is added to `outcome`. It
    /// does not revive a failed lane, because the packets may have been sent before the failure; a
    /// probe does that, and takes only a round trip. False if it names what was never sent: then nothing of it is true.
    pub fn acknowledged(&mut self, ack: &Ack, now: Instant, outcome: &mut FlightUpdate) -> bool {
        if !self.flight.acknowledge(ack, now, outcome) {
            self.counters.forged += 1;
            return false;
        }
        self.counters.acks += 1;
        if outcome.late_ns > 0 {
            self.rtt.late(outcome.late_ns);
        }
        if let Some(sample_ns) = outcome.sample_ns {
            self.rtt.sample(sample_ns, outcome.ack_delay_ns);
        }
        if !outcome.arrived.is_empty() {
            self.progressed(now);
        }
        self.loss_timer = self.flight.detect(&self.rtt, now, outcome);
        self.take_update(outcome, now);
        true
    }

    /// Processes the timers. True if the lane has just failed: all its packets are in
    /// `outcome.lost`.
    pub fn tick(&mut self, now: Instant, outcome: &mut FlightUpdate) -> bool {
        if self.loss_timer.is_some_and(|at| at <= now) {
            self.loss_timer = self.flight.detect(&self.rtt, now, outcome);
            self.take_update(outcome, now);
        }
        if self.overdue().is_some_and(|at| at <= now) {
            self.validate();
        }
        let silent = self.silence_ends().is_some_and(|at| at <= now)
            || self.state == LaneState::Alive
                && self.tries >= MAX_UNANSWERED
                && self.probe_due().is_some_and(|due| due <= now);
        if silent {
            self.fail(now, outcome);
        }
        silent
    }

    /// Marks the lane as failed: its packets are in `outcome.lost`, and it is probed.
    pub fn fail(&mut self, now: Instant, outcome: &mut FlightUpdate) {
        if self.state != LaneState::Alive {
            return;
        }
        let before = outcome.lost.len();
        self.flight.abandon(outcome);
        self.counters.lost += (outcome.lost.len() - before) as u64;
        self.counters.deaths += 1;
        self.state = LaneState::Suspect;
        self.forget_probes();
        self.loss_timer = None;
        self.progressed(now);
    }

    fn progressed(&mut self, now: Instant) {
        self.progress = now;
        self.answered = None;
        self.idle_answers = 0;
    }

    /// Closes the lane permanently: its packets are in `outcome.lost`. That does not count as a
    /// failure or a loss.
    pub fn close(&mut self, outcome: &mut FlightUpdate) {
        self.flight.abandon(outcome);
        self.state = LaneState::Closed;
        (self.asked, self.answer, self.loss_timer) = (None, None, None);
    }

    fn take_update(&mut self, outcome: &FlightUpdate, now: Instant) {
        self.counters.lost += outcome.lost.len() as u64;
        self.counters.late += outcome.late.len() as u64;
        let seen = Observed {
            outcome,
            rtt: &self.rtt,
            in_flight: self.flight.bytes(),
            limited: self.limited,
        };
        if self.control.update(&self.settings, &seen, now) {
            self.counters.breaks += 1;
        }
        self.limited = false;
        self.repace();
    }

    fn repace(&mut self) {
        self.pacer.set_rate(self.rate_bits_per_second());
    }

    /// How long an answer takes.
    fn answer_ns(&self) -> u64 {
        self.rtt.probe_timeout_ns(self.settings.ack_delay_ns)
    }

    fn timeout_ns(&self) -> u64 {
        self.answer_ns().max(self.settings.least_timeout_ns)
    }

    /// When a lane with nothing in flight should be probed. The interval doubles with each probe
    /// since the last progress, answered or not, up to that of a failed lane.
    #[must_use]
    pub fn quiet_until(&self) -> Instant {
        let since =
            [self.asked, self.answered].into_iter().flatten().fold(self.progress, Instant::max);
        let timeout_ns = self.timeout_ns();
        let backoff = self.tries.saturating_add(self.idle_answers).min(MAX_BACKOFF);
        since.plus_ns((timeout_ns << backoff).min(PROBE_INTERVAL_NS.max(timeout_ns)))
    }

    /// The oldest piece of `chunk` in flight, if it is so late that a lane with a round-trip time
    /// of `elsewhere_ns` could deliver it sooner.
    #[must_use]
    pub fn late_piece(&self, chunk: u32, elsewhere_ns: u64, now: Instant) -> Option<Piece> {
        let (at, piece) = self.flight.oldest_of(chunk, self.skipped)?;
        let age_ns = now.ns_since(at);
        let expected_ns = self.rtt.smoothed_ns() + self.settings.ack_delay_ns;
        let overdue = age_ns > expected_ns + expected_ns / 2;
        let slow =
            expected_ns.saturating_sub(age_ns) > 2 * elsewhere_ns + self.settings.ack_delay_ns;
        (overdue || slow).then_some(piece)
    }

    /// Marks `piece` as handled: the next one is examined.
    pub fn skip_late(&mut self, piece: Piece) {
        self.skipped =
            self.skipped.max(self.flight.number_of(piece).map_or(0, |number| number + 1));
    }

    /// When a lane with packets in flight is probed, as nothing of them has been acknowledged: of a few, all acknowledgments
    /// may be lost. One comes with the answer, too, and if it is lost again, the next probe is soon.
    fn overdue(&self) -> Option<Instant> {
        let silent = self.silent_from().filter(|_| self.asked.is_none())?;
        Some(self.answered.map_or(silent, |at| silent.max(at.plus_ns(self.grace_ns() / 2))))
    }

    /// When such a lane counts as failed: no probe is answered, or none with an acknowledgment.
    fn silence_ends(&self) -> Option<Instant> {
        let silent = self.silent_from()?;
        if self.idle_answers > MAX_UNANSWERED {
            return Some(silent);
        }
        Some(silent.max(self.answered.unwrap_or(silent)).plus_ns(self.grace_ns()))
    }

    /// When an acknowledgment of what is in flight should have come.
    fn silent_from(&self) -> Option<Instant> {
        let oldest = self.flight.oldest().filter(|_| self.state == LaneState::Alive)?;
        Some(oldest.max(self.progress).plus_ns(self.timeout_ns()))
    }

    /// How long the answer to a probe is waited for then.
    fn grace_ns(&self) -> u64 {
        self.timeout_ns().min(MAX_GRACE_NS)
    }

    /// When the next timer or probe is due, or, with `work` to be sent, when it may be sent.
    #[must_use]
    pub fn next_wakeup(&self, work: bool) -> Option<Instant> {
        let window = self.control.window(&self.settings, &self.rtt);
        let open = self.flight.bytes() + u64::from(self.settings.datagram_bytes) <= window
            && self.flight.has_room();
        let sends = self.state == LaneState::Alive && work && open;
        let answer = self.answer.is_some().then_some(Instant::ZERO);
        let times = [
            sends.then(|| self.pacer.due()),
            answer,
            self.probe_due(),
            self.loss_timer,
            self.overdue(),
            self.silence_ends(),
        ];
        times.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_000 * MS + ms * MS)
    }

    /// A lane that was answered on, with three packets in flight.
    fn sending() -> LaneSender {
        let mut lane = LaneSender::new(LaneSettings::default());
        let (_, probe) = lane.probe(at(0), &mut Challenges::from(7)).expect("it asks");
        assert!(lane.probed(Probe { challenge: None, response: probe.challenge }, at(1)));
        for slot in 0..3 {
            lane.send(Piece { chunk: 0, slot }, 1_000, at(2));
        }
        lane
    }

    /// A healthy lane that was closed was counted as one that had died, with its packets as lost.
    #[test]
    fn a_lane_that_is_closed_has_not_died_and_gives_back_what_it_had() {
        let (mut closed, mut outcome) = (sending(), FlightUpdate::default());
        closed.close(&mut outcome);
        assert_eq!((closed.state(), outcome.lost.len()), (LaneState::Closed, 3));
        assert_eq!((closed.counters.deaths, closed.counters.lost), (0, 0));
        assert_eq!((closed.in_flight(), closed.next_wakeup(true)), (0, None));
        // A challenge that will have no answer was always due.
        assert!(!closed.probed(Probe { challenge: Some(1), response: None }, at(4)));
        assert_eq!(closed.next_wakeup(true), None);
        let (mut failed, mut outcome) = (sending(), FlightUpdate::default());
        failed.fail(at(3), &mut outcome);
        assert_eq!((failed.state(), outcome.lost.len()), (LaneState::Suspect, 3));
        assert_eq!((failed.counters.deaths, failed.counters.lost), (1, 3));
    }

    fn answer(lane: &mut LaneSender, probe: Probe, now: Instant) -> bool {
        lane.probed(Probe { challenge: None, response: probe.challenge }, now)
    }

    /// Of copies of one challenge it is not known which was answered, and none was the only one.
    #[test]
    fn a_round_trip_longer_than_the_time_between_probes_is_known_from_the_first_answer() {
        const RTT_MS: u64 = 600;
        let (mut lane, challenges) =
            (LaneSender::new(LaneSettings::default()), &mut Challenges::from(7));
        let mut asked = VecDeque::new();
        let begun = (0..).find(|&ms| {
            asked.extend(lane.probe(at(ms), challenges).map(|(_, probe)| (ms, probe)));
            let due = asked.front().filter(|(sent, _)| sent + RTT_MS == ms).copied();
            due.is_some_and(|(_, probe)| answer(&mut lane, probe, at(ms)))
        });
        assert_eq!((begun, lane.rtt().smoothed_ns()), (Some(RTT_MS), RTT_MS * MS));
        assert!(asked.len() > 2, "others are on their way");
        let mut outcome = FlightUpdate::default();
        lane.send(Piece { chunk: 0, slot: 0 }, 1_000, at(RTT_MS));
        for ms in RTT_MS + 1..2 * RTT_MS {
            let late = asked.iter().find(|(sent, _)| sent + RTT_MS == ms);
            assert!(late.is_none_or(|(_, probe)| !answer(&mut lane, *probe, at(ms))));
            assert!(!lane.tick(at(ms), &mut outcome), "failed at {ms} ms");
        }
        assert_eq!((lane.state(), lane.counters.forged), (LaneState::Alive, 0));
    }

    /// Of a few packets in flight, the acknowledgments are lost together at times.
    #[test]
    fn a_lane_without_acknowledgments_fails_only_if_it_does_not_answer_either() {
        let mut outcome = FlightUpdate::default();
        for is_answered in [false, true] {
            let (mut lane, challenges) = (sending(), &mut Challenges::from(8));
            let mut probes = alloc::vec![];
            let failed = (2..200).find(|&ms| {
                let has_failed = lane.tick(at(ms), &mut outcome);
                if let Some((_, probe)) = lane.probe(at(ms), challenges).filter(|_| !has_failed) {
                    probes.push(ms);
                    if is_answered {
                        // The acknowledgments that come with the answers are lost.
                        assert!(!answer(&mut lane, probe, at(ms)));
                    }
                }
                has_failed
            });
            let (most, end) = if is_answered { (4, 42) } else { (3, 32) };
            assert_eq!((probes[0], probes.len() <= most), (2 + 15, true), "{probes:?}");
            assert_eq!(failed, Some(end), "{probes:?}");
        }
    }
}
