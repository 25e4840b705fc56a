//! Counts packets as they arrive.

use super::SinkConfig;
use crate::linux::clock::monotonic_ns;
use crate::linux::switches::Switches;
use crate::stream::probe::Probe;
use crate::stream::{Arrival, Schedule};
use std::time::Duration;

/// The result of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// Probes in order of arrival, duplicates included.
    pub arrivals: Vec<Arrival>,
    /// The first probe, as sent.
    pub first: Option<Probe>,
    /// The last probe.
    pub last: Option<Probe>,
    /// Probes beyond the capacity, whose times were not recorded.
    pub unrecorded: u64,
    /// Packets that the kernel dropped because the socket buffer was full, by its own counter.
    pub overflowed: u64,
    /// Datagrams that are not probes.
    pub foreign: u64,
    /// Datagrams longer than the buffer; they were truncated, but their numbers were read.
    pub cut: u64,
    /// Receive calls.
    pub calls: u64,
    /// Calls among them that returned none.
    pub empty_calls: u64,
    /// Whether the kernel polled the device for this socket, if the mode asks for that and the
    /// kernel reports it.
    pub busy_polled: Option<bool>,
    /// How often the receiving thread was switched off its core.
    pub switches: Option<Switches>,
}

impl Received {
    /// The sender's schedule, derived from the first and the last probe; `None` with fewer than
    /// two. The times are on the sender's clock. For a stream with gaps, the period is the mean.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        let (first, last) = (self.first?, self.last?);
        let packets = last.sequence.checked_sub(first.sequence).filter(|packets| *packets > 0)?;
        let time_ns = last.due_ns.checked_sub(first.due_ns)?;
        let period_ps =
            (u128::from(time_ns) * 1_000 + u128::from(packets / 2)) / u128::from(packets);
        let period_ps = u64::try_from(period_ps).ok().filter(|period_ps| *period_ps > 0)?;
        let before = Schedule { start_ns: 0, period_ps }.due_ns(first.sequence);
        Some(Schedule { start_ns: first.due_ns.saturating_sub(before), period_ps })
    }
}

/// Packets received so far, and the condition to stop.
#[derive(Debug)]
pub(super) struct Tally {
    received: Received,
    capacity: usize,
    expected: u64,
    idle_ns: u64,
    /// Time of the last probe; 0 before the first.
    last_ns: u64,
    idled: bool,
}

impl Tally {
    pub(super) fn new(config: &SinkConfig, expected: Option<u64>) -> Self {
        // Not zeros: the kernel maps zero pages lazily.
        let mut arrivals = vec![Arrival { sequence: u64::MAX, at_ns: 1 }; config.capacity];
        arrivals.clear();
        let received = Received { arrivals, ..Received::default() };
        let idle = config.idle.unwrap_or(Duration::MAX);
        Self {
            received,
            capacity: config.capacity,
            expected: expected.unwrap_or(u64::MAX),
            idle_ns: u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX),
            last_ns: 0,
            idled: false,
        }
    }

    /// Counts a call that returned something.
    #[inline]
    pub(super) fn call(&mut self) {
        self.received.calls += 1;
    }

    /// Counts a call that returned nothing.
    #[inline]
    pub(super) fn nothing(&mut self) {
        self.received.calls += 1;
        self.received.empty_calls += 1;
        if self.last_ns > 0 {
            self.idled = monotonic_ns().saturating_sub(self.last_ns) >= self.idle_ns;
        }
    }

    /// Records a datagram received at `at_ns`.
    #[inline]
    pub(super) fn datagram(&mut self, payload: &[u8], at_ns: u64) {
        let Some(probe) = Probe::read(payload) else {
            self.received.foreign += 1;
            return;
        };
        let sequence = probe.sequence;
        self.received.first.get_or_insert(probe);
        self.received.last = Some(probe);
        self.last_ns = at_ns;
        if self.received.arrivals.len() < self.capacity {
            self.received.arrivals.push(Arrival { sequence, at_ns });
        } else {
            self.received.unrecorded += 1;
        }
    }

    /// Calls so far that returned nothing.
    pub(super) fn empty_calls(&self) -> u64 {
        self.received.empty_calls
    }

    /// Counts a datagram that was longer than the buffer.
    pub(super) fn cut(&mut self, is_cut: bool) {
        self.received.cut += u64::from(is_cut);
    }

    /// Whether enough has arrived, or nothing for the configured time.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        let came = self.received.arrivals.len() as u64 + self.received.unrecorded;
        self.idled || came >= self.expected
    }

    pub(super) fn finish(self) -> Received {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(first: [u64; 2], last: [u64; 2]) -> Option<Schedule> {
        let probe = |[sequence, due_ns]: [u64; 2]| Some(Probe { sequence, due_ns, sent_ns: 0 });
        Received { first: probe(first), last: probe(last), ..Received::default() }.schedule()
    }

    #[test]
    fn the_schedule_is_read_off_the_ends() {
        let sent = Schedule { start_ns: 5_000, period_ps: 7_419_761 };
        let at = |sequence| [sequence, sent.due_ns(sequence)];
        let read = schedule(at(10), at(1_000_010)).unwrap();
        assert_eq!(read.period_ps, sent.period_ps);
        assert!(read.start_ns.abs_diff(sent.start_ns) <= 1, "{read:?}");
        assert_eq!(Received::default().schedule(), None);
    }

    #[test]
    fn no_numbers_of_a_sender_do_harm() {
        assert_eq!(schedule([5, 0], [5, 9]), None);
        assert_eq!(schedule([6, 0], [5, 9]), None);
        assert_eq!(schedule([5, 9], [6, 0]), None);
        assert_eq!(schedule([0, 0], [u64::MAX, 9]), None, "a period of nothing");
        assert_eq!(schedule([0, 0], [1, u64::MAX]), None, "a period of centuries");
        let all = schedule([0, 0], [u64::MAX, u64::MAX]).unwrap();
        assert_eq!(all.period_ps, 1_000);
        assert_eq!(schedule([u64::MAX - 1, 7], [u64::MAX, 8]).unwrap().start_ns, 0);
    }
}
