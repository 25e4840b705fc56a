//! The flows with the most packets, and why their packets do not merge, in bounded memory.

use linecard::offload::coalesce::{Refusal, Verdict};
use linecard::packet::FiveTuple;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Counts packets by flow. When there are more flows than it has room for, the smaller half is forgotten; a flow that
/// comes after that says how many packets of it may be missing, as in the algorithm "space-saving" (Metwally, Agrawal
/// and El Abbadi, 2005).
#[derive(Debug, Clone)]
pub struct TopFlows {
    counted: HashMap<FiveTuple, FlowCounts>,
    /// Flows that are left when some are forgotten; twice as many are counted at a time.
    kept: usize,
    /// The most packets that a forgotten flow may have had.
    forgotten: u64,
}

/// Counts of one flow.
#[derive(Debug, Clone, Default)]
pub struct FlowCounts {
    /// Packets counted.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Packets that were merged into another.
    pub merged: u64,
    /// The most packets before these that were not counted.
    pub missing: u64,
    /// Few reasons ever occur in one flow.
    refused: Vec<(Refusal, u64)>,
}

impl Default for TopFlows {
    /// For 8,192 flows: about a megabyte.
    fn default() -> Self {
        Self::new(8_192)
    }
}

impl TopFlows {
    /// Room for this many flows at a time, at least two.
    #[must_use]
    pub fn new(flows: usize) -> Self {
        Self { counted: HashMap::new(), kept: (flows / 2).max(1), forgotten: 0 }
    }

    /// Flows that are counted at a time.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.kept * 2
    }

    /// The most packets of a flow that may be missing.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Counts a packet by its result.
    pub fn count(&mut self, flow: FiveTuple, payload: usize, verdict: Verdict) {
        if self.counted.len() >= self.capacity() && !self.counted.contains_key(&flow) {
            self.forget();
        }
        let new = || FlowCounts { missing: self.forgotten, ..FlowCounts::default() };
        let counts = self.counted.entry(flow).or_insert_with(new);
        counts.packets += 1;
        counts.bytes += payload as u64;
        let reason = match verdict {
            Verdict::Merged => {
                counts.merged += 1;
                None
            }
            Verdict::Opened(reason) => reason,
            Verdict::Passed(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            counts.refuse(reason, 1);
        }
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.forgotten += other.forgotten;
        for (flow, counts) in &other.counted {
            let sum = self.counted.entry(*flow).or_default();
            sum.packets += counts.packets;
            sum.bytes += counts.bytes;
            sum.merged += counts.merged;
            sum.missing += counts.missing;
            counts.refused.iter().for_each(|(reason, count)| sum.refuse(*reason, *count));
        }
    }

    /// The flows with the most packets, in this order.
    #[must_use]
    pub fn largest(&self, most: usize) -> Vec<(&FiveTuple, &FlowCounts)> {
        let mut all: Vec<_> = self.counted.iter().collect();
        all.sort_by_key(|(flow, counts)| (Reverse(counts.packets), flow.ends(), flow.protocol));
        all.truncate(most);
        all
    }

    /// Removes the flows with the fewest packets: half of all, and those with as many as the largest of these.
    #[cold]
    fn forget(&mut self) {
        let mut packets: Vec<u64> = self.counted.values().map(|counts| counts.packets).collect();
        let (_, least, _) = packets.select_nth_unstable(self.counted.len() - self.kept);
        let least = *least;
        let forgotten = &mut self.forgotten;
        self.counted.retain(|_, counts| {
            let is_kept = counts.packets > least;
            if !is_kept {
                *forgotten = (*forgotten).max(counts.packets + counts.missing);
            }
            is_kept
        });
    }
}

impl FlowCounts {
    /// The most frequent reason why packets did not merge, and their number.
    #[must_use]
    pub fn refused(&self) -> Option<(Refusal, u64)> {
        self.refused.iter().copied().max_by_key(|(reason, count)| (*count, Reverse(reason.name())))
    }

    fn refuse(&mut self, reason: Refusal, count: u64) {
        match self.refused.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += count,
            None => self.refused.push((reason, count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn flow(number: u64) -> FiveTuple {
        let source = ([10, 0, (number >> 24) as u8, 1], (number & 0xFFFF) as u16).into();
        let destination = ([10, 0, 1, (number >> 16) as u8], 80).into();
        FiveTuple { source, destination, protocol: 6 }
    }

    /// Two large flows among many small ones, more than there is room for.
    #[test]
    fn large_flows_are_found_among_more_than_there_is_room_for() {
        let (mut flows, mut rng, mut sent) = (TopFlows::new(64), Rng::new(1), [0; 2]);
        for _ in 0..200_000 {
            let number = rng.below(10);
            let number = if number < 2 { number } else { 2 + rng.below(100_000) };
            if let Some(sent) = sent.get_mut(number as usize) {
                *sent += 1;
            }
            flows.count(flow(number), 100, Verdict::Passed(Refusal::OtherTransport));
            assert!(flows.counted.len() <= flows.capacity());
        }
        let largest = flows.largest(2);
        let mut found: Vec<FiveTuple> = largest.iter().map(|(flow, _)| **flow).collect();
        found.sort_unstable();
        assert_eq!(found, [flow(0), flow(1)]);
        for (which, counts) in largest {
            let sent = sent[usize::from(*which == flow(1))];
            assert!(counts.packets <= sent && sent <= counts.packets + counts.missing);
            assert_eq!(counts.refused(), Some((Refusal::OtherTransport, counts.packets)));
        }
    }

    #[test]
    fn counts_of_threads_add_up() {
        let (mut one, mut other) = (TopFlows::default(), TopFlows::default());
        one.count(flow(1), 100, Verdict::Opened(None));
        other.count(flow(1), 50, Verdict::Merged);
        other.count(flow(2), 50, Verdict::Opened(None));
        one.add(&other);
        let all = one.largest(9);
        let seen: Vec<_> = all.iter().map(|(_, it)| (it.packets, it.bytes, it.merged)).collect();
        assert_eq!(seen, [(2, 150, 1), (1, 50, 0)]);
        assert_eq!(one.forgotten(), 0);
    }
}
