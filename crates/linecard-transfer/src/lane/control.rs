//! Congestion window and pacing rate of a lane.

use super::{Bbr, Cubic, FlightUpdate, LaneSettings, Rtt};
use alloc::boxed::Box;
use linecard::time::Instant;

/// A lane of fixed rate that loses more than one packet in this many competes with other traffic.
const BREAKER_LOSS: u64 = 10;
/// Consecutive intervals with that loss.
const BREAKER_INTERVALS: u32 = 3;
/// The shortest interval, in ns.
const BREAKER_INTERVAL_NS: u64 = 300_000_000;
/// Packets below which an interval is not significant.
const BREAKER_PACKETS: u64 = 50;

/// The limit of a lane's rate.
#[derive(Debug)]
pub enum Control {
    /// Nothing: a stream with its own congestion control.
    Stream,
    /// A rate that the caller has reserved, with a circuit breaker (RFC 8084).
    Fixed(Breaker),
    /// The rate and round-trip time that the path shows.
    Bbr(Box<Bbr>),
    /// A window that losses halve, as that of most TCP connections.
    Cubic(Cubic),
}

/// How a lane of unknown rate finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Congestion {
    /// By delivery rate and round-trip time: single losses cost what was lost.
    #[default]
    Bbr,
    /// As TCP does by default (RFC 9438): each loss takes three tenths of the window.
    Cubic,
}

/// Detects that a lane of fixed rate loses packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Breaker {
    since: Instant,
    arrived: u64,
    lost: u64,
    bad: u32,
}

impl Control {
    /// The control that `settings` ask for.
    #[must_use]
    pub fn new(settings: &LaneSettings) -> Self {
        if settings.stream {
            Self::Stream
        } else if settings.rate_bits_per_second > 0 {
            Self::Fixed(Breaker::default())
        } else if settings.congestion == Congestion::Cubic || settings.shared != 0 {
            Self::Cubic(Cubic::new(settings.datagram_bytes))
        } else {
            Self::Bbr(Box::new(Bbr::new(settings)))
        }
    }

    /// The most bytes in flight.
    #[must_use]
    pub fn window(&self, settings: &LaneSettings, rtt: &Rtt) -> u64 {
        match self {
            Self::Stream => settings.stream_window,
            Self::Fixed(_) => {
                let ns = rtt.least_ns() + rtt.least_ns() / 4 + settings.slack_ns;
                let bytes =
                    u128::from(settings.rate_bits_per_second) * u128::from(ns) / 8_000_000_000;
                let least = 4 * u64::from(settings.datagram_bytes);
                u64::try_from(bytes).unwrap_or(u64::MAX).max(least)
            }
            Self::Bbr(bbr) => bbr.window(),
            Self::Cubic(cubic) => cubic.window(),
        }
    }

    /// The pacing rate in bit/s; 0 for none.
    #[must_use]
    pub fn rate_bits_per_second(&self, settings: &LaneSettings, rtt: &Rtt) -> u64 {
        match self {
            Self::Stream | Self::Fixed(_) => settings.rate_bits_per_second,
            Self::Bbr(bbr) => {
                let datagram = f64::from(settings.datagram_bytes.max(1));
                let framed = 1.0 + f64::from(settings.framing_bytes) / datagram;
                // Not 0, which is no pacing.
                (bbr.rate(rtt.smoothed_ns()) * framed * 8.0).max(1.0) as u64
            }
            Self::Cubic(cubic) => {
                // 5/4 of the window in a round-trip time (RFC 9002, 7.7), twice while it doubles.
                let quarters = if cubic.in_slow_start() { 8 } else { 5 };
                let bits = u128::from(cubic.window()) * 2 * quarters;
                let rate = bits * 1_000_000_000 / u128::from(rtt.smoothed_ns().max(1));
                u64::try_from(rate).unwrap_or(u64::MAX)
            }
        }
    }

    /// Updates the control with acknowledgments and losses. True if the circuit breaker has just
    /// opened: the lane continues under congestion control.
    pub fn update(&mut self, settings: &LaneSettings, seen: &Observed<'_>, now: Instant) -> bool {
        match self {
            Self::Stream => {}
            Self::Bbr(bbr) => bbr.update(seen, now),
            Self::Cubic(cubic) => {
                cubic.update(seen.outcome, seen.rtt.smoothed_ns(), seen.limited, now);
            }
            Self::Fixed(breaker) => {
                if breaker.opens(seen, now) {
                    *self = Self::Cubic(Cubic::new(settings.datagram_bytes));
                    return true;
                }
            }
        }
        false
    }

    /// Sets the number of lanes that share a bottleneck.
    pub fn set_share(&mut self, lanes: usize) {
        if let Self::Cubic(cubic) = self {
            cubic.set_share(lanes);
        }
    }
}

/// Observations on a lane.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Packets that arrived or were lost.
    pub outcome: &'a FlightUpdate,
    /// The lane's round-trip time.
    pub rtt: &'a Rtt,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Whether the window limited the sender.
    pub limited: bool,
}

impl Breaker {
    fn opens(&mut self, seen: &Observed<'_>, now: Instant) -> bool {
        self.arrived += seen.outcome.arrived.len() as u64;
        self.lost += seen.outcome.lost.len() as u64;
        let interval_ns = BREAKER_INTERVAL_NS.max(5 * seen.rtt.smoothed_ns());
        let enough = self.arrived + self.lost >= BREAKER_PACKETS;
        if now.ns_since(self.since) < interval_ns || !enough {
            return false;
        }
        let bad = self.lost * BREAKER_LOSS > self.arrived + self.lost;
        let in_a_row = if bad { self.bad + 1 } else { 0 };
        *self = Self { since: now, bad: in_a_row, ..Self::default() };
        in_a_row >= BREAKER_INTERVALS
    }
}

#[cfg(test)]
mod tests {
    use super::super::Piece;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn feed(control: &mut Control, settings: &LaneSettings, lost: usize, second: u64) -> bool {
        let piece = Piece { chunk: 0, slot: 0 };
        let outcome = FlightUpdate {
            arrived: vec![piece; 100 - lost],
            lost: vec![piece; lost],
            ..FlightUpdate::default()
        };
        let seen =
            Observed { outcome: &outcome, rtt: &Rtt::default(), in_flight: 0, limited: true };
        control.update(settings, &seen, Instant::from_ns(second * 1_000_000_000))
    }

    #[test]
    fn a_fixed_rate_that_is_lost_for_long_is_given_up() {
        let settings =
            LaneSettings { rate_bits_per_second: 1_000_000_000, ..LaneSettings::default() };
        let mut control = Control::new(&settings);
        let opened: Vec<bool> = [5, 60, 60, 5, 60, 60, 60]
            .into_iter()
            .zip(1..)
            .map(|(lost, second)| feed(&mut control, &settings, lost, second))
            .collect();
        assert_eq!(opened, [false, false, false, false, false, false, true]);
        assert!(matches!(control, Control::Cubic(_)));
    }

    #[test]
    fn a_fixed_rate_has_five_quarters_of_what_is_under_way() {
        let settings = LaneSettings {
            rate_bits_per_second: 8_000_000_000,
            slack_ns: 0,
            ..LaneSettings::default()
        };
        let control = Control::new(&settings);
        assert_eq!(control.window(&settings, &Rtt::guess(1_000_000)), 1_250_000);
    }
}
