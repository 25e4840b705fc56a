//! The short way for the common packet: the next of the flow that came last, with a header that
//! differs from the first's only as it must.
//!
//! That is Van Jacobson's header prediction, for merging: one comparison under a mask stands for
//! all rules on equal fields, and the IPv4 header is intact if the few words that may differ sum up
//! as the first's did. A run of such packets is taken in one go. Everything else takes the long
//! way ([`Candidate::examine`](super::candidate::Candidate)), which comes to the same result for
//! what is taken here.

use super::aggregate::Aggregate;
use super::candidate::MIN_FRAME;
use super::config::ChecksumPolicy;
use super::{CHAIN_ROOM, Coalescer, Exit};
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Tcp, Udp};
use crate::packet::{ChecksumState, Layer, LayerKind, Packet, Shape, is_scattered};
use alloc::vec::{Drain, Vec};

/// What is expected of the next packet, apart from what grows with the aggregate.
struct Expected<'a, B> {
    first: &'a Packet<B>,
    header: &'a [u8],
    shape: &'a Shape,
    network: Layer,
    transport: Layer,
    policy: ChecksumPolicy,
    /// Sum of the pseudo header, its length aside.
    pseudo: Option<Sum>,
}

/// What the next packet adds.
struct Next {
    payload_len: u32,
    flags: u16,
    /// Sum of the fields that may differ; see [`super::candidate::Derived`].
    fields: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Takes packets off the front of `rest` as long as they continue what the last packet joined;
    /// gives their number.
    #[inline(always)]
    pub(super) fn follow<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        rest: &mut Drain<'_, Packet<B>>,
        out: &mut F,
    ) -> usize {
        // With limits of nothing, each packet would be due when the next one comes.
        let patient = self.budget_ns.min(self.floor_ns) > 0;
        let (Some(slot), true) = (self.current, patient) else { return 0 };
        let held = self.held.get_mut(slot);
        let (aggregate, Some(first)) = (&mut held.aggregate, &mut held.packet) else { return 0 };
        if !aggregate.predictable()
            || !rest.as_slice().first().is_some_and(|p| same_ports(first, p))
        {
            return 0;
        }
        let shape = self.hasher.shape(first.layout());
        let Some((shape, (network, transport))) = shape.and_then(|s| Some((s, s.plain()?))) else {
            return 0;
        };
        let mut chain = first.take_chain();
        if chain.capacity() == 0 {
            chain = self.chains.pop().unwrap_or_else(|| Vec::with_capacity(CHAIN_ROOM));
        }
        let mut expected = Expected {
            first,
            header: first.header(),
            shape,
            network,
            transport,
            policy: self.config.checksum,
            pseudo: None,
        };
        let room = self.config.max_held_packets.saturating_sub(self.held_packets);
        let room_bytes = self.config.max_held_bytes.saturating_sub(self.held_bytes);
        let (mut packets, mut bytes, mut ended) = (0, 0, None);
        while packets < room && ended.is_none() {
            let Some((packet, behind)) = rest.as_slice().split_first() else { break };
            let len = packet.bytes().len();
            let Some(next) = expected.read(packet, aggregate, behind) else { break };
            if bytes + len > room_bytes {
                break;
            }
            aggregate.add_fields(next.fields);
            ended = aggregate.advance(next.payload_len, next.flags);
            (packets, bytes) = (packets + 1, bytes + len);
            if let Some(packet) = rest.next() {
                chain.push(packet.into_piece());
            }
        }
        if packets == 0 && chain.is_empty() {
            self.chains.push(chain);
            return 0;
        }
        first.set_chain(chain);
        if packets == 0 {
            return 0;
        }
        aggregate.bytes += bytes;
        self.held_packets += packets;
        self.held_bytes += bytes;
        self.counters.packets_in += packets as u64;
        self.counters.bytes_in += bytes as u64;
        let (flow, flags) = (aggregate.flow, aggregate.last_flags);
        self.table.arrived_together(flow, self.now, packets);
        match ended {
            Some(reason) => self.flush(slot, reason, out),
            None => self.hasten(slot),
        }
        self.release_at_end(flow, flags);
        packets
    }
}

/// A quick look at what tells most flows apart, before more is prepared.
#[inline(always)]
fn same_ports<B: AsRef<[u8]>>(first: &Packet<B>, next: &Packet<B>) -> bool {
    let Some(transport) = first.layout().transport() else { return false };
    let ports =
        |packet: &Packet<B>| packet.bytes().get(transport.at()..)?.first_chunk::<4>().copied();
    ports(first) == ports(next)
}

impl<B: AsRef<[u8]>> Expected<'_, B> {
    /// What `packet` adds to the aggregate, if it is the next one.
    #[inline(always)]
    fn read(
        &mut self,
        packet: &Packet<B>,
        held: &mut Aggregate,
        behind: &[Packet<B>],
    ) -> Option<Next> {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let vouched = match packet.meta.checksum {
            ChecksumState::Valid => true,
            ChecksumState::Unknown if self.policy == ChecksumPolicy::Verify => false,
            _ => return None,
        };
        let header = bytes.get(..self.header.len())?;
        let alike = self.first.layout().same_but_end(layout)
            && packet.meta.lane == self.first.meta.lane
            && packet.meta.mark == self.first.meta.mark
            && packet.meta.gso.is_none()
            && !packet.is_merged()
            // The frame ends with the datagram, and needs no padding.
            && bytes.len() == layout.end()
            && bytes.len() >= MIN_FRAME
            && self.shape.mergeable(self.header, header);
        if !alike || !self.ipv4_is_next(header, held) {
            return None;
        }
        let payload_len = (bytes.len() - header.len()) as u32;
        let next = self.transport(header, payload_len, held)?;
        let intact = vouched || {
            let covered = &bytes[self.transport.at()..];
            let sum = match behind.get(1) {
                // Two packets ahead: one's checksum takes half as long as another's lines need.
                Some(later) if is_scattered(bytes, later.bytes()) => {
                    Sum::of_ahead(covered, later.bytes())
                }
                _ => Sum::of(covered),
            };
            let first = &self.first;
            let pseudo = self.pseudo.get_or_insert_with(|| {
                first.layout().pseudo_sum_of(first.bytes(), self.transport, 0)
            });
            sum.add(*pseudo).add(Sum::from_fields(covered.len() as u64)).is_valid()
        };
        (intact && held.has_room(payload_len)).then_some(next)
    }

    #[inline(always)]
    fn ipv4_is_next(&self, header: &[u8], held: &mut Aggregate) -> bool {
        self.network.kind != LayerKind::Ipv4
            || held.predicts_ipv4(header::at::<Ipv4>(header, self.network.at()))
    }

    #[inline(always)]
    fn transport(&self, header: &[u8], payload_len: u32, held: &Aggregate) -> Option<Next> {
        let at = self.transport.at();
        // The length is part of the pseudo header.
        let len = (header.len() - at) as u64 + u64::from(payload_len);
        if self.transport.kind == LayerKind::Tcp {
            let tcp = header::at::<Tcp>(header, at);
            let (sequence, word) = (tcp.sequence.get(), tcp.offset_flags.get());
            let fields = u64::from(sequence) + u64::from(word) + u64::from(tcp.checksum.get());
            let next = sequence == held.next_sequence && tcp.checksum.get() != 0xFFFF;
            next.then_some(Next { payload_len, flags: word & 0x01FF, fields: fields + len })
        } else {
            let udp = header::at::<Udp>(header, at);
            let fields = u64::from(udp.length.get()) + u64::from(udp.checksum.get());
            let summed = udp.checksum.get() != 0;
            summed.then_some(Next { payload_len, flags: 0, fields: fields + len })
        }
    }
}
