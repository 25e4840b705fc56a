//! The sender of a packet, and whether another one, or the same with other numbers, has taken a stream over.
//!
//! One packet of another sender, or with a number far from the others, says nothing: any host can send it. Packets that
//! the stream does not explain are a [`Candidate`] until [`IN_A_ROW`] of them have come one after the other. They count
//! as other packets if the stream goes on before, and as those of the stream if it does not.

use super::{Arrival, PAUSE_NS};
use crate::media::cbr::Point;
use crate::media::number::NumberField;
use crate::media::rtp;
use crate::stream::probe::Probe;

/// So many packets in a row take a stream over.
const IN_A_ROW: u32 = 16;
/// Numbers in a row are at most this far from each other: some packets are lost.
pub(super) const NEXT: u64 = 16;
/// Time by which packets differ from a constant rate at most: that between a picture's packets and its end …
const UNEVEN_NS: f64 = 1e7;
/// … and the share of a time by which two clocks, and a mean rate, differ at most.
const CLOCKS: f64 = 1e-3;

/// The sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// RTP with this SSRC.
    Rtp(u32),
    /// `linecard jitter send`.
    Probe,
    /// Packets with a number at a place that was given.
    Numbered,
    /// Packets without numbers.
    Other,
}

/// The fields of a packet that place it in a stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Identity {
    Rtp { ssrc: u32, sequence: u16, stamp: u32, marker: bool },
    Probe(Probe),
    Numbered { number: u32, bits: u32 },
    Other,
}

impl Identity {
    pub(super) fn of(arrival: &Arrival<'_>, field: Option<NumberField>) -> Self {
        if let Some(field) = field {
            let bits = field.bits();
            let number = field.read(arrival.payload);
            return number.map_or(Self::Other, |number| Self::Numbered { number, bits });
        }
        if let Some(probe) = Probe::read(arrival.payload) {
            return Self::Probe(probe);
        }
        match rtp::Header::read(arrival.payload, arrival.len) {
            Some(rtp::Header { ssrc, sequence, timestamp: stamp, marker, .. }) => {
                Self::Rtp { ssrc, sequence, stamp, marker }
            }
            None => Self::Other,
        }
    }

    pub(super) fn source(&self) -> Source {
        match self {
            Self::Rtp { ssrc, .. } => Source::Rtp(*ssrc),
            Self::Probe(_) => Source::Probe,
            Self::Numbered { .. } => Source::Numbered,
            Self::Other => Source::Other,
        }
    }

    /// Its number, the nearest to `base` that the packet can have; `None` for packets without one.
    pub(super) fn number(&self, base: i64) -> Option<i64> {
        match self {
            Self::Rtp { sequence, .. } => Some(rtp::nearest(base, (*sequence).into(), 16)),
            Self::Probe(probe) => Some(i64::try_from(probe.sequence).unwrap_or(i64::MAX)),
            Self::Numbered { number, bits } => Some(rtp::nearest(base, *number, *bits)),
            Self::Other => None,
        }
    }
}

/// Packets that the stream does not explain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) source: Source,
    /// The number of the last one.
    number: i64,
    in_a_row: u32,
    /// Those that no figure counts yet, and octets of their UDP payload.
    pub(super) packets: u64,
    pub(super) octets: u64,
    /// Arrival of the first and of the last.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

impl Candidate {
    pub(super) fn new(identity: &Identity, at_ns: u64) -> Self {
        let (source, number) = (identity.source(), identity.number(0).unwrap_or(0));
        Self { source, number, in_a_row: 0, packets: 0, octets: 0, first_ns: at_ns, last_ns: at_ns }
    }

    /// Takes the next packet of the source, which the stream's figures count already or do not.
    pub(super) fn push(&mut self, identity: &Identity, arrival: &Arrival<'_>, is_counted: bool) {
        let number = identity.number(self.number);
        let goes_on = match number {
            Some(number) => number > self.number && number.abs_diff(self.number) <= NEXT,
            // Reports about a stream (RTCP) go on while it pauses.
            None => !self.is_over(arrival.at_ns),
        };
        self.in_a_row = if goes_on { self.in_a_row.saturating_add(1) } else { 1 };
        self.number = number.unwrap_or(0);
        if !is_counted {
            self.packets += 1;
            self.octets += arrival.len as u64;
        }
        self.last_ns = arrival.at_ns;
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) >= PAUSE_NS
    }

    /// Whether it is a stream.
    pub(super) fn is_stream(&self) -> bool {
        self.in_a_row >= IN_A_ROW
    }
}

/// The mean rate of a stream's numbers, and so the number that is due after a gap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// The first packet since the last pause.
    first: Option<Point>,
    /// The highest number.
    last: Option<Point>,
    period_ns: Option<f64>,
}

impl Pace {
    pub(super) fn push(&mut self, point: Point) {
        let (number, at_ns) = point;
        let (first, from_ns) = *self.first.get_or_insert(point);
        if self.last.is_none_or(|(last, _)| number > last) {
            self.last = Some(point);
        }
        let ns = at_ns.saturating_sub(from_ns);
        if ns >= PAUSE_NS && number > first {
            self.period_ns = Some(ns as f64 / number.abs_diff(first) as f64);
        }
    }

    pub(super) fn interrupt(&mut self) {
        self.first = None;
    }

    /// The number due at a time if the sender went on meanwhile, and how far from it a packet's number may be.
    pub(super) fn due(&self, at_ns: u64) -> Option<(i64, u64)> {
        let ((last, last_ns), period_ns) = (self.last?, self.period_ns?);
        let ns = at_ns.saturating_sub(last_ns) as f64;
        let tolerance = ((ns * CLOCKS + UNEVEN_NS) / period_ns) as u64;
        Some((last.saturating_add((ns / period_ns) as i64), tolerance.saturating_add(2)))
    }

    /// Whether a time stamp of this clock is due at a time, by the highest so far.
    pub(super) fn is_due(&self, (stamp, clock): (u32, u32), highest: i64, at_ns: u64) -> bool {
        let Some((_, last_ns)) = self.last else { return false };
        let ns = at_ns.saturating_sub(last_ns) as f64;
        let due = highest.saturating_add((ns / 1e9 * f64::from(clock)) as i64);
        let ticks = rtp::nearest(due, stamp, 32).abs_diff(due);
        ticks as f64 / f64::from(clock) * 1e9 <= ns * CLOCKS + 10.0 * UNEVEN_NS
    }
}
