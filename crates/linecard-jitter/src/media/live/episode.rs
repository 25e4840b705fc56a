//! Late packets that follow each other, and the worst of them.

use alloc::vec::Vec;

/// An episode that continues is reported after this time all the same.
const LONGEST_NS: u64 = 1_000_000_000;

/// The lateness of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delay {
    /// When the kernel received it.
    pub before_ns: u64,
    /// From there until the application had it.
    pub waited_ns: u64,
}

impl Delay {
    /// Sum of the two.
    #[must_use]
    pub fn whole_ns(&self) -> u64 {
        self.before_ns.saturating_add(self.waited_ns)
    }
}

/// A late packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// Its number.
    pub number: i64,
    /// The first eight octets of its payload.
    pub identity: u64,
    /// When the kernel received it.
    pub at_ns: u64,
    /// Its lateness.
    pub delay: Delay,
}

/// Late packets without one in time between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    /// When the kernel received the first of them.
    pub at_ns: u64,
    /// Time from there to the last of them.
    pub lasted_ns: u64,
    /// Packets.
    pub packets: u64,
    /// The worst packet.
    pub worst: Late,
}

impl Episode {
    /// The lateness of the worst packet.
    #[must_use]
    pub fn late_ns(&self) -> u64 {
        self.worst.delay.whole_ns()
    }
}

/// The current episode, and the worst of those before.
#[derive(Debug)]
pub struct Journal {
    open: Option<Episode>,
    /// The worst first, at most `most`.
    worst: Vec<Episode>,
    most: usize,
}

impl Journal {
    /// A journal of the `most` worst episodes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { open: None, worst: Vec::with_capacity(most), most }
    }

    /// Adds a late packet; the episode before, if this packet begins another one.
    pub fn late(&mut self, late: Late) -> Option<Episode> {
        let at_ns = late.at_ns;
        let is_long = |open: &Episode| at_ns.saturating_sub(open.at_ns) >= LONGEST_NS;
        let ended = if self.open.as_ref().is_some_and(is_long) { self.close() } else { None };
        let open = Episode { at_ns, lasted_ns: 0, packets: 0, worst: late };
        let open = self.open.get_or_insert(open);
        open.packets += 1;
        open.lasted_ns = at_ns.saturating_sub(open.at_ns);
        if late.delay.whole_ns() > open.late_ns() {
            open.worst = late;
        }
        ended
    }

    /// Ends the open episode, which it gives.
    pub fn close(&mut self) -> Option<Episode> {
        let ended = self.open.take()?;
        let is_worse = |other: &Episode| other.late_ns() >= ended.late_ns();
        let place = self.worst.partition_point(is_worse);
        if place < self.most {
            self.worst.truncate(self.most - 1);
            self.worst.insert(place, ended);
        }
        Some(ended)
    }

    /// Delays beyond this are among the worst.
    #[must_use]
    pub fn floor_ns(&self) -> u64 {
        self.worst.get(self.most - 1).map_or(0, Episode::late_ns)
    }

    /// The worst episodes, the worst first.
    #[must_use]
    pub fn worst(&self) -> &[Episode] {
        &self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_are_kept_in_order() {
        let mut journal = Journal::new(3);
        for (n, late) in [5, 9, 1, 7, 9, 2].into_iter().enumerate() {
            let delay = Delay { before_ns: late, waited_ns: 1 };
            let (number, at_ns) = (n as i64, n as u64);
            assert_eq!(journal.late(Late { number, identity: 0, at_ns, delay }), None);
            assert_eq!(journal.close().map(|ended| ended.packets), Some(1));
            assert_eq!(journal.close(), None);
        }
        let worst: Vec<(i64, u64)> =
            journal.worst().iter().map(|one| (one.worst.number, one.late_ns())).collect();
        assert_eq!(worst, [(1, 10), (4, 10), (3, 8)]);
    }

    #[test]
    fn an_episode_has_its_worst_packet_and_an_end() {
        let mut journal = Journal::new(1);
        let mut late = |number, at_ns, before_ns| {
            let delay = Delay { before_ns, waited_ns: 0 };
            journal.late(Late { number, identity: 0, at_ns, delay })
        };
        assert_eq!((late(3, 10, 50), late(4, 20, 90), late(5, 30, 70)), (None, None, None));
        let ended = late(6, 10 + LONGEST_NS, 5).expect("long enough");
        let delay = Delay { before_ns: 90, waited_ns: 0 };
        let worst = Late { number: 4, identity: 0, at_ns: 20, delay };
        assert_eq!(ended, Episode { at_ns: 10, lasted_ns: 20, packets: 3, worst });
    }
}
