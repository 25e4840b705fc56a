//! The segmenter as a stage.

use super::give;
use crate::offload::segment::{Counters, SegmentError, segment};
use crate::packet::{Batch, Gso, LinkType, Meta, Packet, Pool, PoolBuffer};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Divides packets that carry a segment size into segments, each in its own buffer (LSO); see
/// [`crate::offload::segment`]. Other packets pass unchanged.
///
/// `B` is the buffer of its packets, which one of a pool can become.
#[derive(Debug)]
pub struct Segment<B = PoolBuffer> {
    link: LinkType,
    pool: Pool,
    /// Segmented, but not yet output: at most the segments of one packet.
    ready: VecDeque<Packet<B>>,
    counters: Counters,
}

impl<B: AsRef<[u8]> + From<PoolBuffer>> Segment<B> {
    /// Takes buffers for segments from `pool`. If too few are free, the packet waits; so the pool
    /// must have enough buffers for the segments of the largest packet.
    #[must_use]
    pub fn new(link: LinkType, pool: Pool) -> Self {
        Self { link, pool, ready: VecDeque::new(), counters: Counters::default() }
    }

    /// The counters of the offload.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        &self.counters
    }

    /// Segments one packet; false if it has to wait for buffers.
    fn cut(&mut self, packet: &Packet<B>, gso: Gso) -> Result<bool, SegmentError> {
        let mut segments = segment(packet, gso)?;
        let (needed, room) = (segments.max_len(), self.pool.buffer_len());
        if needed > room {
            return Err(SegmentError::OutputTooSmall { room, needed });
        }
        if segments.count() > self.pool.free() {
            return Ok(false);
        }
        self.counters.received(packet.datagram_len());
        while let Some(mut buffer) = self.pool.take() {
            let Some(written) = segments.write_next(buffer.as_mut())? else { break };
            self.counters.count(written);
            buffer.truncate(written.len);
            let meta = Meta { gso: None, ..packet.meta };
            self.ready.push_back(Packet::new(buffer.into(), self.link, meta));
        }
        Ok(true)
    }
}

impl<B: AsRef<[u8]> + From<PoolBuffer>> Stage<B> for Segment<B> {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn process(&mut self, input: &mut Batch<B>, _now: Instant, output: &mut Batch<B>) {
        loop {
            give(&mut self.ready, output);
            if output.room() == 0 {
                return;
            }
            let Some(packet) = input.front() else { return };
            match packet.meta.gso.map(|gso| self.cut(packet, gso)) {
                Some(Ok(false)) => return,
                Some(Ok(true)) => drop(input.pop()),
                Some(Err(_)) | None => {
                    self.counters.refused += u64::from(packet.meta.gso.is_some());
                    self.ready.extend(input.pop());
                }
            }
        }
    }

    fn held(&self) -> usize {
        self.ready.len()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("packets_in", self.counters.packets_in);
        visit("ssm", self.counters.ssm);
        visit("bom", self.counters.bom);
        visit("com", self.counters.com);
        visit("eom", self.counters.eom);
        visit("refused", self.counters.refused);
    }
}
