//! A simulated link with a rate, a delay, a queue, and faults.

use core::ops::Range;
use linecard::rng::Rng;
use linecard::time::Instant;

/// Parameters of a link, equal in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// In bit/s.
    pub rate_bits_per_second: u64,
    /// Framing bytes per datagram on the line.
    pub framing_bytes: u32,
    /// Propagation delay, in ns.
    pub delay_ns: u64,
    /// Additional random delay up to this, in ns, which reorders packets.
    pub jitter_ns: u64,
    /// Bytes in the queue before packets are dropped; none if the link signals the sender when it
    /// has room, as a network adapter does.
    pub queue_bytes: Option<u64>,
    /// Injected faults.
    pub faults: Faults,
    /// The period in which it carries nothing.
    pub dead: Range<Instant>,
}

/// Probabilities from 0 to 1, for each datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// It is lost.
    pub loss: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// It arrives after later ones.
    pub reorder: f64,
    /// It arrives without the delay, before those that were sent earlier and are on the way.
    pub overtake: f64,
    /// One of its bits is flipped: authentication fails, and it is refused.
    pub corrupt: f64,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            rate_bits_per_second: 10_000_000_000,
            framing_bytes: 38,
            delay_ns: 5_000,
            jitter_ns: 0,
            queue_bytes: None,
            faults: Faults::default(),
            dead: Instant::NEVER..Instant::NEVER,
        }
    }
}

/// Delivery of a datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The arrival of each copy; none if it is lost.
    pub arrivals: [Option<Instant>; 2],
    /// One of its bits is flipped.
    pub corrupt: bool,
}

/// Counters of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Datagrams sent over it.
    pub given: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Lost because the link was down.
    pub dead: u64,
    /// Duplicated.
    pub duplicated: u64,
    /// Reordered.
    pub reordered: u64,
    /// Corrupted.
    pub corrupted: u64,
}

/// One direction of a link.
///
/// ```
/// use linecard::{rng::Rng, time::Instant};
/// use linecard_transfer::sim::{Link, LinkSettings};
/// let mut link = Link::new(LinkSettings { delay_ns: 20_000, ..LinkSettings::default() });
/// let fate = link.send(1_462, Instant::ZERO, &mut Rng::new(1));
/// // 1,500 bytes at 10 Gbit/s, and the delay.
/// assert_eq!(fate.arrivals, [Some(Instant::from_ns(21_200)), None]);
/// ```
#[derive(Debug)]
pub struct Link {
    settings: LinkSettings,
    free: Instant,
    pub(super) counters: LinkCounters,
}

/// The most additional delay of a reordered datagram, in ns.
const REORDER_NS: u64 = 200_000;

impl Link {
    /// An idle link.
    #[must_use]
    pub fn new(settings: LinkSettings) -> Self {
        Self { settings, free: Instant::ZERO, counters: LinkCounters::default() }
    }

    /// When it accepts another datagram without queueing it behind more than one.
    pub(super) fn ready(&self, bytes: u32) -> Instant {
        if self.settings.queue_bytes.is_some() {
            return Instant::ZERO;
        }
        Instant::from_ns(self.free.as_ns().saturating_sub(self.time_ns(bytes)))
    }

    /// The sending host occupies it for `ns`.
    pub(super) fn hold(&mut self, ns: u64, now: Instant) {
        self.free = self.free.max(now).plus_ns(ns);
    }

    pub(super) fn time_ns(&self, bytes: u32) -> u64 {
        let bits = u64::from(bytes + self.settings.framing_bytes) * 8;
        (u128::from(bits) * 1_000_000_000 / u128::from(self.settings.rate_bits_per_second.max(1)))
            as u64
    }

    /// Counters since it was made.
    #[must_use]
    pub const fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Sends a datagram of this many bytes.
    pub fn send(&mut self, bytes: u32, now: Instant, rng: &mut Rng) -> Delivery {
        self.counters.given += 1;
        let waiting_ns = u128::from(self.free.ns_since(now));
        let waiting = waiting_ns * u128::from(self.settings.rate_bits_per_second) / 8_000_000_000;
        if self.settings.queue_bytes.is_some_and(|most| waiting > u128::from(most)) {
            self.counters.dropped += 1;
            return Delivery::default();
        }
        let end = self.free.max(now).plus_ns(self.time_ns(bytes));
        self.free = end;
        if self.settings.dead.contains(&end) {
            self.counters.dead += 1;
            return Delivery::default();
        }
        self.fate(end, rng)
    }

    fn fate(&mut self, end: Instant, rng: &mut Rng) -> Delivery {
        let faults = self.settings.faults;
        if rng.chance(faults.loss) {
            self.counters.lost += 1;
            return Delivery::default();
        }
        let mut arrival =
            || end.plus_ns(self.settings.delay_ns + rng.below(self.settings.jitter_ns + 1));
        let first = arrival();
        let second = arrival();
        let mut fate = Delivery { arrivals: [Some(first), None], corrupt: false };
        if rng.chance(faults.reorder) {
            self.counters.reordered += 1;
            fate.arrivals[0] = Some(first.plus_ns(rng.below(REORDER_NS)));
        }
        // Without the fault, other seeds stay as they were.
        if faults.overtake > 0.0 && rng.chance(faults.overtake) {
            self.counters.reordered += 1;
            fate.arrivals[0] = Some(end);
        }
        if rng.chance(faults.duplicate) {
            self.counters.duplicated += 1;
            fate.arrivals[1] = Some(second);
        }
        if rng.chance(faults.corrupt) {
            self.counters.corrupted += 1;
            fate.corrupt = true;
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_rate_its_delay_and_its_queue() {
        let settings = LinkSettings {
            rate_bits_per_second: 8_000_000_000,
            framing_bytes: 0,
            delay_ns: 10,
            queue_bytes: Some(2_500),
            ..LinkSettings::default()
        };
        let mut link = Link::new(settings);
        let mut rng = Rng::new(0);
        let mut send = |link: &mut Link, ns| {
            link.send(1_000, Instant::from_ns(ns), &mut rng).arrivals[0].map(Instant::as_ns)
        };
        assert_eq!(send(&mut link, 0), Some(1_010));
        assert_eq!(send(&mut link, 0), Some(2_010));
        assert_eq!(send(&mut link, 0), Some(3_010));
        assert_eq!(send(&mut link, 0), None);
        assert_eq!(send(&mut link, 3_000), Some(4_010));
        assert_eq!(link.counters.dropped, 1);
    }

    #[test]
    fn faults_come_as_often_as_they_should() {
        let faults =
            Faults { loss: 0.1, duplicate: 0.2, reorder: 0.3, corrupt: 0.4, ..Faults::default() };
        let mut link = Link::new(LinkSettings { faults, ..LinkSettings::default() });
        let mut rng = Rng::new(9);
        for _ in 0..10_000 {
            link.send(100, Instant::ZERO, &mut rng);
        }
        let counters = link.counters;
        assert!((900..1_100).contains(&counters.lost));
        assert!((1_650..1_950).contains(&counters.duplicated));
        assert!((2_500..2_900).contains(&counters.reordered));
        assert!((3_400..3_800).contains(&counters.corrupted));
    }
}
