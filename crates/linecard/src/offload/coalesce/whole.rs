//! Batches of which nothing is held: they are merged as bursts are, without the flow table, the places and the
//! timers of held data.

use super::burst::{AllAlone, OwnedFrames, OwnedPackets, Way};
use super::config::Creation;
use super::{Coalescer, Exit};
use crate::packet::{BATCH, LinkType, Meta, Packet};

/// Bytes of a packet at most, as far as limits of held bytes go.
const LARGEST: usize = 1 << 16;

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Whether nothing of a batch of so many packets is held, nothing is held before it, and no limit could be
    /// reached within it.
    #[inline]
    pub(super) fn holds_none_of(&self, packets: usize) -> bool {
        let config = &self.config;
        config.flush_at_batch_end
            && self.held_packets == 0
            && self.patient
            && config.creation == Creation::OnData
            && config.max_held_packets >= packets
            && config.max_held_bytes / LARGEST >= packets
    }

    /// How many packets of a list can be merged at once without reaching a limit, if that is a batch at least;
    /// otherwise all of them.
    pub(super) fn part_of(&self, packets: usize) -> usize {
        let limit = self.config.max_held_packets.min(self.config.max_held_bytes / LARGEST);
        if limit < BATCH { packets } else { packets.min(limit) }
    }

    pub(super) fn merge_packets<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packets: impl Iterator<Item = Packet<B>>,
        out: &mut F,
    ) {
        let Self { burst, burst_packets, config, counters, chains, .. } = self;
        // Packets are left where the caller's function has panicked.
        burst_packets.clear();
        burst_packets.extend(packets.map(Some));
        let way =
            Way { counters, chains, out, alone: AllAlone::default(), alone_bytes: 0, merged: 0 };
        let mut store = OwnedPackets { packets: burst_packets, way };
        burst.merge(config, &mut store);
        drop(store);
        burst_packets.clear();
    }

    pub(super) fn merge_frames<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        frames: impl Iterator<Item = B>,
        (link, meta): (LinkType, Meta),
        out: &mut F,
    ) {
        let Self { burst, burst_frames, config, counters, chains, .. } = self;
        burst_frames.clear();
        burst_frames.extend(frames.map(Some));
        let way =
            Way { counters, chains, out, alone: AllAlone::default(), alone_bytes: 0, merged: 0 };
        let mut store = OwnedFrames { frames: burst_frames, link, meta, way };
        burst.merge(config, &mut store);
        drop(store);
        burst_frames.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn lists_are_merged_in_parts_for_which_there_is_room() {
        let part = |max_held_packets, max_held_bytes, packets| {
            let config = Config { max_held_packets, max_held_bytes, ..Config::default() };
            Coalescer::<Vec<u8>>::new(config).part_of(packets)
        };
        let Config { max_held_packets, max_held_bytes, .. } = Config::default();
        for (packets, expected) in [(0, 0), (100, 100), (512, 512), (513, 512), (10_000, 512)] {
            assert_eq!(part(max_held_packets, max_held_bytes, packets), expected);
        }
        for (limit, expected) in [(BATCH - 1, 100), (BATCH, BATCH), (BATCH + 1, BATCH + 1)] {
            assert_eq!(part(limit, max_held_bytes, 100), expected);
            assert_eq!(part(max_held_packets, limit * LARGEST, 100), expected);
        }
    }
}
