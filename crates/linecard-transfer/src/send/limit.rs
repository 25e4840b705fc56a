//! The limits that kept lanes from sending more, and for how long.

use super::Sender;
use crate::lane::LaneState;
use linecard::time::Instant;

/// A limit of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Its rate, or its window.
    Lane,
    /// No chunk had been read.
    Reading,
    /// The receiver had no room for another chunk, nothing was to be read before it answered, or it stored what had come.
    Receiver,
    /// As many chunks were in flight as may be.
    InFlight,
    /// It did not answer any more, or no lane did yet.
    Down,
    /// Everything had been sent, and some of it was on its way; or others were answered, and this one not yet.
    Ended,
}

/// Times of all lanes under each limit, in ns.
///
/// ```
/// use linecard_transfer::send::LimitTimes;
/// let times = LimitTimes { lane_ns: 90, reading_ns: 10, ..LimitTimes::default() };
/// assert_eq!(times.sum_ns(), 100);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitTimes {
    /// [`Limit::Lane`].
    pub lane_ns: u64,
    /// [`Limit::Reading`].
    pub reading_ns: u64,
    /// [`Limit::Receiver`].
    pub receiver_ns: u64,
    /// [`Limit::InFlight`].
    pub in_flight_ns: u64,
    /// [`Limit::Down`].
    pub down_ns: u64,
}

impl LimitTimes {
    /// The time of all lanes, less that in which everything had been sent and was on its way.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.lane_ns + self.reading_ns + self.receiver_ns + self.in_flight_ns + self.down_ns
    }

    fn add(&mut self, limit: Limit, ns: u64) {
        *match limit {
            Limit::Lane => &mut self.lane_ns,
            Limit::Reading => &mut self.reading_ns,
            Limit::Receiver => &mut self.receiver_ns,
            Limit::InFlight => &mut self.in_flight_ns,
            Limit::Down => &mut self.down_ns,
            Limit::Ended => return,
        } += ns;
    }
}

/// The limit of a lane since a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limited {
    limit: Limit,
    since: Option<Instant>,
}

impl Limited {
    pub(super) const START: Self = Self { limit: Limit::Down, since: None };
}

impl Sender {
    /// The times so far.
    #[must_use]
    pub const fn limits(&self) -> LimitTimes {
        self.limit_times
    }

    /// Counts the time since the last poll of `lane`, and notes the limit from now on; `starved` if there was nothing
    /// for it to send.
    pub(super) fn note_limit(&mut self, lane: usize, starved: bool, now: Instant) {
        let limit = match self.lanes[lane].state() {
            LaneState::Alive if starved => self.shortage(),
            LaneState::Alive => Limit::Lane,
            LaneState::Closed => Limit::Ended,
            LaneState::Validating if self.has_alive() => Limit::Ended,
            LaneState::Validating | LaneState::Suspect => Limit::Down,
        };
        let before =
            core::mem::replace(&mut self.limited[lane], Limited { limit, since: Some(now) });
        if let Some(since) = before.since {
            self.limit_times.add(before.limit, now.ns_since(since));
        }
    }

    fn has_alive(&self) -> bool {
        self.lanes.iter().any(|lane| lane.state() == LaneState::Alive)
    }

    /// The reason for which no chunk can be started.
    pub(super) fn shortage(&self) -> Limit {
        match self.offered.front() {
            None if self.is_done() => Limit::Receiver,
            None if self.finished => Limit::Ended,
            None if self.awaits_receiver => Limit::Receiver,
            None => Limit::Reading,
            Some((next, _)) if *next >= self.window_end => Limit::Receiver,
            Some((_, layout)) if self.more_chunks(layout) == 0 => Limit::InFlight,
            // It keeps room for others, or waits until a chunk has left their queues.
            Some(_) => Limit::Lane,
        }
    }
}
