//! Active acknowledgment at the port that data arrives on, for all deployments.

use crate::port::{LivePort, left_to};
use linecard::offload::active_ack::{self, ActiveAck, Answer, Reply};
use linecard::packet::{Batch, ChecksumState, LinkType, Meta, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::Buffers;

/// A port that acknowledges data it receives, and passes or drops the receiver's own
/// acknowledgments; see [`linecard::offload::active_ack`].
pub(super) struct Answering<P, S: Buffers> {
    port: P,
    active: ActiveAck,
    buffers: S,
    replies: Batch<S::Buffer>,
    kept: Batch<S::Buffer>,
    /// Packets at the front of the batch that were passed already.
    passed: usize,
}

impl<P: LivePort<S::Buffer>, S: Buffers> Answering<P, S> {
    pub(super) fn new(port: P, active: ActiveAck, buffers: S) -> Self {
        let (replies, kept) = (Batch::new(), Batch::new());
        Self { port, active, buffers, replies, kept, passed: 0 }
    }

    /// Counters of active acknowledgment.
    pub(super) fn acknowledged(&self) -> &active_ack::Counters {
        self.active.counters()
    }

    fn answer(&mut self, packet: &mut Packet<S::Buffer>, now: Instant) {
        let buffer = if self.replies.room() > 0 { self.buffers.take() } else { None };
        let Ok(reply) = self.active.data(packet, buffer.is_some()) else { return };
        if let Some(reply) = buffer.and_then(|buffer| frame::<S>(buffer, &reply, now)) {
            let _room = self.replies.push(reply);
        }
    }
}

fn frame<S: Buffers>(
    mut buffer: S::Buffer,
    reply: &Reply,
    now: Instant,
) -> Option<Packet<S::Buffer>> {
    let bytes = reply.as_ref();
    buffer.as_mut().get_mut(..bytes.len())?.copy_from_slice(bytes);
    S::truncate(&mut buffer, bytes.len());
    let meta = Meta { timestamp: now, checksum: ChecksumState::Valid, ..Meta::default() };
    Some(Packet::new(buffer, LinkType::Ethernet, meta))
}

impl<P: LivePort<S::Buffer>, S: Buffers> Port<S::Buffer> for Answering<P, S> {
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        let before = batch.len();
        let state = self.port.receive(batch, now);
        batch.iter_mut().skip(before).for_each(|packet| self.answer(packet, now));
        self.port.transmit(&mut self.replies, now);
        state
    }

    /// Packets that were passed already are not examined again.
    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) {
        let mut number = 0;
        while let Some(mut packet) = batch.pop() {
            let passes =
                number < self.passed || self.active.answer(&mut packet) != Answer::Suppressed;
            if passes {
                // As large as the caller's batch.
                let _room = self.kept.push(packet);
            }
            number += 1;
        }
        std::mem::swap(batch, &mut self.kept);
        self.port.transmit(batch, now);
        self.passed = batch.len();
    }
}

impl<P: LivePort<S::Buffer>, S: Buffers> LivePort<S::Buffer> for Answering<P, S> {
    left_to!(port: large_packets, descriptor, counters, next_due);
}
