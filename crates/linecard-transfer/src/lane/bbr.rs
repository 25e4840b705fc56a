//! Congestion control by the path's rate and round-trip time, after BBR version 3 (draft-ietf-ccwg-bbr-05): for lanes of
//! unknown rate.
//!
//! Four things differ from the draft. Losses that have nothing to do with the rate are estimated, up to 10 %, where the
//! lane sends less than the path carries and sees no queue: they cost what was lost, and only more than them is congestion.
//! Where rounds are short and show no queue, losses of at least 40 ms are judged together: of a dozen packets, chance takes
//! more than that now and then. Once the rate is known about, it is measured over at least 40 ms, as the highest of many
//! short measurements on a busy host is too high, and makes a queue. And the window has the allowance for busy hosts that
//! lanes of known rate have ([`LaneSettings::slack_ns`]), where the draft estimates how acknowledgments gather.

use super::{LaneSettings, Observed, RateSample};
use linecard::rng::Rng;
use linecard::time::Instant;

/// Segments to begin with (RFC 6928).
const INITIAL_SEGMENTS: f64 = 10.0;
/// The smallest window in segments (section 2.7).
const LEAST_SEGMENTS: f64 = 4.0;
/// Pacing while the rate is sought: 4 ln 2 doubles what is delivered in each round (section 2.4).
const STARTUP_GAIN: f64 = 2.77;
/// Growth of the rate in three rounds below which the path is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Loss of a period that is congestion, beyond what is lost at lower rates: if the round-trip time shows a queue …
const QUEUE_LOSS: f64 = 0.02;
/// … and if it does not.
const OTHER_LOSS: f64 = 0.05;
/// The most that can be lost at any rate.
const MOST_PATH_LOSS: f64 = 0.1;
/// The estimate of that begins as one of this many packets, and keeps this share of itself with each new period.
const PATH_LOSS_PACKETS: f64 = 100.0;
const PATH_LOSS_MEMORY: f64 = 0.9;
/// The share that is left after congestion (section 2.8).
const BETA: f64 = 0.7;
/// Rounds after a probe until its losses are known, and one more, of which the losses are none of the probe's.
const DOWN_ROUNDS: u32 = 3;
/// How long a lane waits at most for a time without a queue, to see what is lost then, in ns.
const DOWN_NS: u64 = 120_000_000;
/// The shortest measurement of the rate, once it is known about, and of losses without a queue, in ns.
const SPAN_NS: u64 = 40_000_000;
/// Round-trip times that are longer than the shortest by this share, and by so many times the allowance for busy hosts,
/// are those of a queue, though no shorter ones were seen of late: other lanes may keep it. With that allowance, a lane
/// makes a queue that short itself where a round trip is shorter.
const LATE_SHARE: f64 = 0.125;
const LATE_SLACKS: f64 = 0.75;
/// Share of the highest volume that is used between probes, so that others find room.
const HEADROOM: f64 = 0.85;
/// Rounds after which a queue counts as drained, however much is in flight: acknowledgments may be slow.
const DRAIN_ROUNDS: u32 = 8;
/// The rate is probed every two to three seconds, or every so many rounds, as Reno would have grown by then; but not
/// sooner than after half a second, as a probe takes a tenth of that.
const PROBE_NS: u64 = 2_000_000_000;
const PROBE_ROUNDS: u32 = 63;
const LEAST_PROBE_NS: u64 = 500_000_000;
/// A round-trip time that was not seen for this long is measured again, for this long, with half a window.
const RTT_PROBE_NS: u64 = 5_000_000_000;
const RTT_PROBE_TIME_NS: u64 = 200_000_000;

/// The activity of a lane (section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Doubles the rate in each round.
    Startup,
    /// Drains the queue that this made.
    Drain,
    /// Drains the queue of the last probe.
    Down,
    /// Sends at the rate that was found.
    Cruise,
    /// Fills the pipe, without the bounds that losses have set.
    Refill,
    /// Probes for more.
    Up,
    /// Measures the round-trip time without a queue.
    RoundTrip,
}

/// A round: from a packet to its acknowledgment.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// It ends with a packet that was sent when this many bytes had been delivered.
    end: u64,
    arrived: f64,
    lost: f64,
    /// The highest delivery rate, in bytes per second.
    rate: f64,
    /// The sender had too little to send, for all of it.
    limited: bool,
}

/// Bytes that arrived and were lost in rounds of one phase, until they are judged.
#[derive(Debug, Clone, Copy, Default)]
struct Period {
    since: Instant,
    arrived: f64,
    lost: f64,
    has_queue: bool,
    /// Round-trip times, and how many of them are longer than the shortest by [`LATE_SHARE`].
    samples: u32,
    late: u32,
}

impl Period {
    /// Whether 95 % of the round-trip times are long: those of a queue are, and of a path whose delay varies, some are not.
    fn is_mostly_late(&self) -> bool {
        self.late * 20 >= self.samples * 19
    }

    /// Packets of `segment` bytes that were lost, and all.
    fn packets(&self, segment: f64) -> [f64; 2] {
        [self.lost / segment, (self.arrived + self.lost) / segment]
    }
}

/// The start of the current measurement of the rate.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    delivered: u64,
    /// When the newest packet that had arrived was sent, and when that was known.
    sent_at: Instant,
    known_at: Instant,
    limited: bool,
}

/// An estimate of a path, and the values that follow from it. Rates are in bytes per second, volumes in bytes.
#[derive(Debug, Clone)]
pub struct Bbr {
    segment: f64,
    slack_seconds: f64,
    phase: Phase,
    /// When the phase began, and rounds since then.
    since: Instant,
    rounds: u32,
    round: Round,
    period: Period,
    /// Periods that began and ended in the phase.
    periods: u32,
    span: Span,
    /// Measurements that began and ended in the phase.
    spans: u32,
    /// The highest rates since the last probe, and before it.
    rates: [f64; 2],
    /// The shortest round-trip time, in seconds, and when one like it was seen last.
    rtt: Option<f64>,
    rtt_seen: Instant,
    /// The shortest one of a phase that measures it.
    rtt_probe: f64,
    /// The rate that has to grow for the path not to be full, and the rounds without growth.
    full_rate: f64,
    full_rounds: u32,
    full_at: Instant,
    window: f64,
    /// The most in flight that the path has carried without congestion.
    high: f64,
    /// Bounds after congestion since the last probe: in flight, and of the rate.
    low: f64,
    low_rate: f64,
    /// Nothing was lost since the last probe was over, and there is no estimate to keep up.
    is_lossless: bool,
    /// Packets lost, and all, at rates below that of the path.
    path_losses: [f64; 2],
    /// Bytes whose loss ended the startup, and those of them that were only late, until the rate is used that was found.
    startup_lost: Option<[f64; 2]>,
    /// When to probe next, and rounds since the last probe.
    probe_at: Instant,
    probe_rounds: u32,
}

impl Bbr {
    /// A path of which nothing is known.
    #[must_use]
    pub fn new(settings: &LaneSettings) -> Self {
        let segment = f64::from(settings.datagram_bytes.max(1));
        Self {
            segment,
            slack_seconds: settings.slack_ns as f64 / 1e9,
            phase: Phase::Startup,
            since: Instant::ZERO,
            rounds: 0,
            round: Round { limited: true, ..Round::default() },
            period: Period::default(),
            periods: 0,
            span: Span::default(),
            spans: 0,
            rates: [0.0; 2],
            rtt: None,
            rtt_seen: Instant::ZERO,
            rtt_probe: f64::INFINITY,
            full_rate: 0.0,
            full_rounds: 0,
            full_at: Instant::ZERO,
            window: INITIAL_SEGMENTS * segment,
            high: f64::INFINITY,
            low: f64::INFINITY,
            low_rate: f64::INFINITY,
            is_lossless: true,
            path_losses: [0.0, PATH_LOSS_PACKETS],
            startup_lost: None,
            probe_at: Instant::ZERO,
            probe_rounds: 0,
        }
    }

    /// The most bytes in flight.
    #[must_use]
    pub fn window(&self) -> u64 {
        let most = match self.phase {
            Phase::Startup => f64::INFINITY,
            Phase::Refill | Phase::Up => self.high,
            Phase::Drain | Phase::Down | Phase::Cruise => (self.high * HEADROOM).min(self.low),
            Phase::RoundTrip => self.volume(0.5),
        };
        self.window.min(most).max(LEAST_SEGMENTS * self.segment) as u64
    }

    /// Bytes per second at which packets are paced; the round-trip time is `rtt_ns`.
    #[must_use]
    pub fn rate(&self, rtt_ns: u64) -> f64 {
        let in_rtt = |bytes: f64| bytes * 1e9 / rtt_ns.max(1) as f64;
        if self.highest_rate() == 0.0 {
            return STARTUP_GAIN * in_rtt(self.window);
        }
        let rate = match self.phase {
            Phase::Startup => STARTUP_GAIN * self.sending_rate(),
            Phase::Drain => 0.5 * self.sending_rate(),
            // Losses of the last probe must not be taken for loss at any rate.
            Phase::Down => 0.9 * self.bounded_rate(),
            Phase::Cruise | Phase::Refill | Phase::RoundTrip => 0.99 * self.sending_rate(),
            Phase::Up => 1.25 * self.sending_rate(),
        };
        rate.max(in_rtt(LEAST_SEGMENTS * self.segment))
    }

    /// The rate that the path carries, as far as it is known, in bytes per second.
    fn highest_rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    fn bounded_rate(&self) -> f64 {
        self.highest_rate().min(self.low_rate)
    }

    /// The rate of sending at which that rate arrives.
    fn sending_rate(&self) -> f64 {
        self.bounded_rate() / (1.0 - self.path_loss())
    }

    /// The share of packets that is lost without a queue.
    fn path_loss(&self) -> f64 {
        (self.path_losses[0] / self.path_losses[1]).min(MOST_PATH_LOSS)
    }

    /// `gain` times what the path holds, with the allowance for busy hosts.
    fn volume(&self, gain: f64) -> f64 {
        self.sending_rate() * (gain * self.rtt.unwrap_or(0.0) + self.slack_seconds)
    }

    /// Bytes in flight without a queue, with the time by which acknowledgments may be delayed.
    fn drained(&self) -> f64 {
        self.sending_rate() * (self.rtt.unwrap_or(0.0) + self.slack_seconds / 4.0)
    }

    /// Updates the estimate with what an acknowledgment or a timer has shown.
    pub(super) fn update(&mut self, seen: &Observed<'_>, now: Instant) {
        self.take_rtt(seen, now);
        self.round.arrived += seen.outcome.arrived_bytes as f64;
        self.round.lost += seen.outcome.lost_bytes as f64;
        self.take_late(seen.outcome.late.len() as f64 * self.segment, now);
        if let Some(sample) = seen.outcome.rate {
            if sample.before >= self.round.end {
                self.end_round(seen, now);
                // Packets that were sent in this phase arrive from now on.
                if self.rounds == 1 {
                    self.start_span(&sample, now);
                    self.spans = 0;
                }
                self.round = Round { end: sample.delivered, limited: true, ..Round::default() };
            }
            self.take_rate(&sample, now);
            self.round.limited &= sample.limited;
        }
        self.steer(seen, now);
        self.grow(seen.outcome.arrived_bytes as f64);
    }

    /// Packets that counted as lost have arrived: they are none. If those are most of what ended the startup, it goes on
    /// (as RFC 4015 undoes what a wrong timeout did).
    fn take_late(&mut self, bytes: f64, now: Instant) {
        let before = (bytes - self.round.lost).max(0.0);
        self.round.lost = (self.round.lost - bytes).max(0.0);
        self.period.lost = (self.period.lost - before).max(0.0);
        let Some([lost, late]) = &mut self.startup_lost else { return };
        *late += bytes;
        if *late * 2.0 >= *lost {
            self.startup_lost = None;
            self.high = f64::INFINITY;
            (self.full_rate, self.full_rounds) = (self.highest_rate(), 0);
            self.enter(Phase::Startup, now);
        }
    }

    fn take_rate(&mut self, sample: &RateSample, now: Instant) {
        let rtt_ns = (self.rtt.unwrap_or(0.0) * 1e9) as u64;
        // Shorter than a round-trip time: acknowledgments that came at once.
        if sample.interval_ns >= rtt_ns {
            self.round.rate = self.round.rate.max(sample.rate());
        }
        let (rate, is_limited) = if self.phase == Phase::Startup {
            self.start_span(sample, now);
            (self.round.rate, sample.limited)
        } else {
            self.span.limited |= sample.limited;
            let sending_ns = sample.sent_at.ns_since(self.span.sent_at);
            let interval_ns = now.ns_since(self.span.known_at).max(sending_ns);
            if interval_ns < rtt_ns.max(SPAN_NS) {
                return;
            }
            let bytes = sample.delivered - self.span.delivered;
            let measured = (bytes as f64 * 1e9 / interval_ns as f64, self.span.limited);
            self.start_span(sample, now);
            self.spans += 1;
            measured
        };
        if !is_limited || rate >= self.highest_rate() {
            self.rates[0] = self.rates[0].max(rate);
        }
    }

    fn start_span(&mut self, sample: &RateSample, now: Instant) {
        let RateSample { delivered, sent_at, limited, .. } = *sample;
        self.span = Span { delivered, sent_at, known_at: now, limited };
    }

    fn take_rtt(&mut self, seen: &Observed<'_>, now: Instant) {
        let Some(sample_ns) = seen.outcome.sample_ns else { return };
        if let Some(least) = self.rtt {
            self.period.samples += 1;
            self.period.late += u32::from(sample_ns as f64 / 1e9 > least * (1.0 + LATE_SHARE));
        }
        let sample = seen.rtt.steady_ns() as f64 / 1e9;
        self.rtt_probe = self.rtt_probe.min(sample);
        let least = self.rtt.unwrap_or(f64::INFINITY);
        // Nearly as short is as good: there is no queue that would have to be drained to see it.
        if sample <= least * 1.0625 {
            self.rtt_seen = now;
        }
        self.rtt = Some(least.min(sample));
    }

    fn grow(&mut self, arrived: f64) {
        let gain = if self.phase == Phase::Up { 2.25 } else { 2.0 };
        let most = self.volume(gain);
        if self.phase != Phase::Startup {
            self.window = (self.window + arrived).min(most);
        } else if self.window < most || self.rates[0] == 0.0 {
            self.window += arrived;
        }
        self.window = self.window.max(LEAST_SEGMENTS * self.segment);
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since, self.rounds, self.spans) = (phase, now, 0, 0);
        self.start_period(now);
        self.periods = 0;
        match phase {
            Phase::Refill => (self.low, self.low_rate) = (f64::INFINITY, f64::INFINITY),
            Phase::Up => {
                (self.full_rate, self.full_rounds, self.full_at) = (self.highest_rate(), 0, now);
            }
            Phase::Down => {
                // Lanes are not to probe at the same time.
                let more_ns = Rng::new(now.as_ns()).below(PROBE_NS / 2);
                self.probe_at = now.plus_ns(PROBE_NS + more_ns);
                self.probe_rounds = 0;
            }
            Phase::RoundTrip => self.rtt_probe = f64::INFINITY,
            Phase::Cruise => (self.startup_lost, self.is_lossless) = (None, true),
            Phase::Startup | Phase::Drain => {}
        }
    }

    /// Draws the conclusions from a round.
    fn end_round(&mut self, seen: &Observed<'_>, now: Instant) {
        let is_queued = seen.rtt.queued_ns() as f64 / 1e9 > self.least_queue();
        let is_long = is_queued || self.is_late(seen.rtt.smoothed_ns());
        let has_queue = is_long && self.period.is_mostly_late();
        self.period.arrived += self.round.arrived;
        self.period.lost += self.round.lost;
        self.period.has_queue |= has_queue;
        self.is_lossless &= self.round.lost + self.path_losses[0] == 0.0;
        let is_judged =
            self.phase == Phase::Startup || has_queue || now.ns_since(self.period.since) >= SPAN_NS;
        let is_congested = is_judged && self.is_congested();
        self.rounds += 1;
        self.probe_rounds += 1;
        self.look_for_growth(seen, now);
        // Losses of a probe, or with the queue that it made, are not those of the path.
        let is_probe = self.phase == Phase::Down && (self.rounds < DOWN_ROUNDS || has_queue);
        if is_judged && !is_probe {
            self.periods += 1;
            if self.phase == Phase::Down {
                self.take_path_loss();
            }
        }
        if is_judged || is_probe {
            self.start_period(now);
        }
        match self.phase {
            Phase::Startup | Phase::Refill | Phase::Up if is_congested => {
                self.high = self.round.arrived.max(seen.in_flight as f64).max(self.volume(BETA));
                let is_first = self.phase == Phase::Startup;
                self.startup_lost = is_first.then_some([self.round.lost, 0.0]);
                self.enter(if is_first { Phase::Drain } else { Phase::Down }, now);
            }
            Phase::Startup if self.full_rounds >= FULL_ROUNDS => self.enter(Phase::Drain, now),
            Phase::Up if self.full_rounds >= FULL_ROUNDS => self.enter(Phase::Down, now),
            Phase::Up if seen.limited => {
                // Slowly at first, as other flows may need the capacity.
                self.high += self.segment * f64::from(1_u32 << self.rounds.min(20));
            }
            Phase::Startup | Phase::Up => {}
            Phase::Refill => self.enter(Phase::Up, now),
            Phase::Drain | Phase::Down | Phase::Cruise | Phase::RoundTrip => {
                // The acknowledgments of what was sent in the probe are in: its rates begin to age.
                if self.phase == Phase::Down && self.rounds == 1 && self.rates[0] > 0.0 {
                    self.rates = [0.0, self.rates[0]];
                }
                if is_congested {
                    let low = self.low.min(self.window);
                    self.low = self.round.arrived.max(BETA * low);
                    self.low_rate = self.round.rate.max(BETA * self.bounded_rate());
                }
            }
        }
    }

    /// Whether a round-trip time is much longer than the shortest.
    fn is_late(&self, rtt_ns: u64) -> bool {
        let least = self.rtt.unwrap_or(f64::INFINITY);
        rtt_ns as f64 / 1e9 > least + (least * LATE_SHARE).max(self.least_queue())
    }

    /// The shortest queue that is congestion, in seconds.
    fn least_queue(&self) -> f64 {
        LATE_SLACKS * self.slack_seconds
    }

    fn start_period(&mut self, now: Instant) {
        self.period = Period { since: now, ..Period::default() };
    }

    /// Whether the period has lost more than a path that has room; by more than chance has it, at two standard
    /// deviations.
    fn is_congested(&self) -> bool {
        let [lost, all] = self.period.packets(self.segment);
        let most = match self.phase {
            _ if self.period.has_queue => self.path_loss() + QUEUE_LOSS,
            Phase::Startup => MOST_PATH_LOSS,
            _ => self.path_loss() + OTHER_LOSS,
        };
        lost > most * all + 2.0 * libm::sqrt(most * all)
    }

    fn take_path_loss(&mut self) {
        let [lost, all] = self.period.packets(self.segment);
        self.path_losses = [
            PATH_LOSS_MEMORY * self.path_losses[0] + lost,
            PATH_LOSS_MEMORY * self.path_losses[1] + all,
        ];
    }

    /// Counts rounds in which the rate did not grow as it does while the path is not full; where rounds are short, times
    /// in which it is measured.
    fn look_for_growth(&mut self, seen: &Observed<'_>, now: Instant) {
        if self.highest_rate() >= FULL_GROWTH * self.full_rate {
            (self.full_rate, self.full_rounds, self.full_at) = (self.highest_rate(), 0, now);
            return;
        }
        // Where the bound of earlier losses is what limits, nothing is known.
        let is_bounded = self.phase == Phase::Up && seen.limited && self.window >= self.high;
        if !self.round.limited && !is_bounded && now.ns_since(self.full_at) >= SPAN_NS {
            self.full_rounds += 1;
            self.full_at = now;
        }
    }

    /// Changes of phase between rounds.
    fn steer(&mut self, seen: &Observed<'_>, now: Instant) {
        let in_flight = seen.in_flight as f64;
        let is_drained = |volume: f64| in_flight <= volume || self.rounds >= DRAIN_ROUNDS;
        let in_phase_ns = now.ns_since(self.since);
        match self.phase {
            Phase::Drain if is_drained(self.drained()) => self.enter(Phase::Down, now),
            Phase::Down
                if self.rounds >= DOWN_ROUNDS
                    && (self.periods > 0 || in_phase_ns >= DOWN_NS || self.is_lossless)
                    && is_drained(self.drained().min(self.high * HEADROOM)) =>
            {
                self.enter(Phase::Cruise, now);
            }
            Phase::Up if in_flight >= self.volume(1.25) && self.spans > 0 => {
                self.enter(Phase::Down, now);
            }
            Phase::RoundTrip if in_phase_ns >= RTT_PROBE_TIME_NS && self.rounds > 0 => {
                if self.rtt_probe.is_finite() {
                    self.rtt = Some(self.rtt_probe);
                }
                self.rtt_seen = now;
                self.enter(Phase::Down, now);
            }
            _ => {}
        }
        let may_probe = self.phase == Phase::Cruise;
        if may_probe && now.ns_since(self.rtt_seen) >= RTT_PROBE_NS {
            self.enter(Phase::RoundTrip, now);
        } else if may_probe && self.is_time_to_probe(in_phase_ns, now) {
            self.enter(Phase::Refill, now);
        }
    }

    fn is_time_to_probe(&self, in_phase_ns: u64, now: Instant) -> bool {
        let enough_rounds = self.probe_rounds >= self.rounds_between();
        now >= self.probe_at || enough_rounds && in_phase_ns >= LEAST_PROBE_NS
    }

    /// Rounds between probes: those in which Reno would have grown by as much as a probe does.
    fn rounds_between(&self) -> u32 {
        let segments = self.highest_rate() * self.rtt.unwrap_or(0.0) / self.segment;
        (segments as u32).clamp(8, PROBE_ROUNDS)
    }
}
