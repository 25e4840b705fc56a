//! The short way for the common packet: the next of the flow that came last, with a header that
//! differs from the first's only as it must.
//!
//! That is Van Jacobson's header prediction, for merging: one comparison under a mask stands for
//! all rules on equal fields, and for parsing, too, since equal headers have equal offsets. What
//! remains is that lengths are those of the frame, numbers go on, and IPv4 headers are intact: the
//! few words of theirs that may differ sum up as the first's did. A run of such packets is taken in
//! one go. Everything else takes the long way ([`Candidate::examine`](super::candidate::Candidate)),
//! which comes to the same result for what is taken here.

use super::aggregate::{Aggregate, Grown, ipv4_fields};
use super::candidate::MIN_FRAME;
use super::config::ChecksumPolicy;
use super::{CHAIN_ROOM, Coalescer, Exit};
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Tcp, Udp, be16_at};
use crate::packet::{ChecksumState, Layer, LayerKind, Packet, Shape, is_scattered};
use alloc::vec::{Drain, Vec};

/// What is expected of the next packet, apart from what grows with the run.
struct Expected<'a, B> {
    first: &'a Packet<B>,
    header: &'a [u8],
    shape: &'a Shape,
    transport: Layer,
    /// What the words that may differ in the innermost IPv4 header sum up to.
    ipv4_fields: u16,
    policy: ChecksumPolicy,
    /// Sum of the pseudo header, its length aside, once it is needed.
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
        let next = rest.as_slice().first();
        if !next.is_some_and(|next| aggregate.may_continue(first.bytes(), next.bytes())) {
            return 0;
        }
        let Some(shape) = self.hasher.shape(first.layout()) else { return 0 };
        let room = self.config.max_held_packets.saturating_sub(self.held_packets);
        let room = room.min(aggregate.packets_left());
        let room_bytes = self.config.max_held_bytes.saturating_sub(self.held_bytes);
        let mut chain = first.take_chain();
        if chain.capacity() == 0 {
            chain = self.chains.pop().unwrap_or_else(|| Vec::with_capacity(CHAIN_ROOM));
        }
        let mut expected = Expected::after(first, aggregate, shape, self.config.checksum);
        let header_len = expected.header.len();
        let mut grown = aggregate.grown;
        let (mut packets, mut bytes, mut ended) = (0, 0, None);
        while packets < room && ended.is_none() {
            let Some((packet, behind)) = rest.as_slice().split_first() else { break };
            let len = packet.bytes().len();
            let Some(next) = expected.read(packet, &mut grown, behind) else { break };
            if !aggregate.has_room(&grown, next.payload_len) || bytes + len > room_bytes {
                break;
            }
            ended = aggregate.advance(&mut grown, next.payload_len, (next.flags, next.fields));
            (packets, bytes) = (packets + 1, bytes + len);
            if let Some(packet) = rest.next() {
                chain.push(packet.into_piece_of(header_len..len));
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
        aggregate.grown = grown;
        aggregate.bytes += bytes;
        self.held_packets += packets;
        self.held_bytes += bytes;
        self.counters.packets_in += packets as u64;
        self.counters.bytes_in += bytes as u64;
        let (flow, flags) = (aggregate.flow, grown.last_flags);
        self.table.arrived_together(flow, self.now, packets);
        match ended {
            Some(reason) => self.flush(slot, reason, out),
            None => self.hasten(slot),
        }
        self.release_at_end(flow, flags);
        packets
    }
}

impl<'a, B: AsRef<[u8]>> Expected<'a, B> {
    /// Behind what begins with `first`.
    #[inline(always)]
    fn after(
        first: &'a Packet<B>,
        aggregate: &Aggregate,
        shape: &'a Shape,
        policy: ChecksumPolicy,
    ) -> Self {
        let (header, transport) = (first.header(), shape.transport());
        let ipv4_fields = aggregate.ipv4_fields;
        Self { first, header, shape, transport, ipv4_fields, policy, pseudo: None }
    }

    /// What `packet` adds to the aggregate, if it is the next one.
    #[inline(always)]
    fn read(
        &mut self,
        packet: &Packet<B>,
        grown: &mut Grown,
        behind: &[Packet<B>],
    ) -> Option<Next> {
        let bytes = packet.bytes();
        let vouched = match packet.meta.checksum {
            ChecksumState::Valid => true,
            ChecksumState::Unknown if self.policy == ChecksumPolicy::Verify => false,
            _ => return None,
        };
        let alike = packet.link() == self.first.link()
            && packet.meta.lane == self.first.meta.lane
            && packet.meta.mark == self.first.meta.mark
            && packet.meta.gso.is_none()
            && !packet.is_merged()
            // No padding is needed.
            && bytes.len() >= MIN_FRAME
            && self.shape.mergeable(self.first.bytes(), bytes);
        if !alike {
            return None;
        }
        let goes_on = match self.shape.plain() {
            Some((network, _)) => self.network_goes_on(network, bytes, grown),
            None => self.layers_go_on(bytes, grown),
        };
        let next = self.transport(bytes).filter(|_| goes_on)?;
        (self.is_next(grown, bytes) && (vouched || self.is_intact(bytes, behind))).then_some(next)
    }

    /// Whether the lengths and identifications of an IP header are the next ones, and it is as
    /// intact as the first's.
    #[inline(always)]
    fn network_goes_on(&self, network: Layer, bytes: &[u8], grown: &mut Grown) -> bool {
        let len = bytes.len() - network.at();
        match network.kind {
            LayerKind::Ipv4 => {
                let ip = header::at::<Ipv4>(bytes, network.at());
                is_next_ipv4(ip, len, self.ipv4_fields) && grown.predicts_id(0, ip.id.get())
            }
            _ => {
                let ip = header::at::<Ipv6>(bytes, network.at());
                Ipv6::LEN + usize::from(ip.payload_len.get()) == len
            }
        }
    }

    /// The same for all headers around the transport, of a packet in tunnels.
    #[inline(never)]
    fn layers_go_on(&self, bytes: &[u8], grown: &mut Grown) -> bool {
        let mut ids = 0;
        self.first.layout().layers().rev().skip(1).all(|layer| {
            let len = bytes.len() - layer.at();
            match layer.kind {
                LayerKind::Ipv4 => {
                    let first = header::at::<Ipv4>(self.header, layer.at());
                    let ip = header::at::<Ipv4>(bytes, layer.at());
                    ids += 1;
                    is_next_ipv4(ip, len, ipv4_fields(first))
                        && grown.predicts_id(ids - 1, ip.id.get())
                }
                LayerKind::Ipv6 => {
                    let ip = header::at::<Ipv6>(bytes, layer.at());
                    Ipv6::LEN + usize::from(ip.payload_len.get()) == len
                }
                LayerKind::Pppoe => {
                    PPPOE_LEN + usize::from(be16_at(bytes, layer.at() + PPPOE_LENGTH)) == len
                }
                LayerKind::Udp => {
                    let udp = header::at::<Udp>(bytes, layer.at());
                    usize::from(udp.length.get()) == len && udp.checksum.get() == 0
                }
                // Its checksum is a second one.
                LayerKind::Gre | LayerKind::Tcp => false,
            }
        })
    }

    /// What the transport header adds, if its checksum is one that a sender computes.
    #[inline(always)]
    fn transport(&self, bytes: &[u8]) -> Option<Next> {
        let at = self.transport.at();
        // The length is part of the pseudo header.
        let len = bytes.len() - at;
        let payload_len = (bytes.len() - self.header.len()) as u32;
        if self.transport.kind == LayerKind::Tcp {
            let tcp = header::at::<Tcp>(bytes, at);
            let (word, checksum) = (tcp.offset_flags.get(), tcp.checksum.get());
            let fields = u64::from(tcp.sequence.get()) + u64::from(word) + u64::from(checksum);
            let next = Next { payload_len, flags: word & 0x01FF, fields: fields + len as u64 };
            (checksum != 0xFFFF).then_some(next)
        } else {
            let udp = header::at::<Udp>(bytes, at);
            let (length, checksum) = (udp.length.get(), udp.checksum.get());
            let fields = u64::from(length) + u64::from(checksum) + len as u64;
            let whole = usize::from(length) == len && checksum != 0;
            whole.then_some(Next { payload_len, flags: 0, fields })
        }
    }

    /// Whether the payload follows what is there.
    #[inline(always)]
    fn is_next(&self, grown: &Grown, bytes: &[u8]) -> bool {
        self.transport.kind != LayerKind::Tcp
            || header::at::<Tcp>(bytes, self.transport.at()).sequence.get() == grown.next_sequence
    }

    /// Whether the checksum is right.
    #[inline(always)]
    fn is_intact(&mut self, bytes: &[u8], behind: &[Packet<B>]) -> bool {
        let covered = &bytes[self.transport.at()..];
        let sum = match behind.get(1) {
            // Two packets ahead: one's checksum takes half as long as another's lines need.
            Some(later) if is_scattered(bytes, later.bytes()) => {
                Sum::of_ahead(covered, later.bytes())
            }
            _ => Sum::of(covered),
        };
        let first = self.first;
        let pseudo = self
            .pseudo
            .get_or_insert_with(|| first.layout().pseudo_sum_of(first.bytes(), self.transport, 0));
        sum.add(*pseudo).add(Sum::from_fields(covered.len() as u64)).is_valid()
    }
}

/// Whether an IPv4 header, of which all else is equal, has this length and sums up to the same.
#[inline(always)]
fn is_next_ipv4(ip: &Ipv4, len: usize, fields: u16) -> bool {
    usize::from(ip.total_len.get()) == len
        && ip.checksum.get() != 0xFFFF
        && ipv4_fields(ip) == fields
}
