//! The fast path for the common case: a packet that continues the current data, with a header that
//! differs from the first one's only where it must.
//!
//! This is Van Jacobson's header prediction, applied to merging: one comparison under a mask covers
//! all rules on equal fields, and also replaces parsing, since equal headers have equal offsets.
//! The remaining checks are that lengths match the frame, numbers continue, and IPv4 headers
//! are intact: the few words that may differ have to sum up as in the first. A run of such packets
//! is processed in one go. All others take the slow path
//! ([`Candidate::examine`](super::candidate::Candidate)), which gives the same result for the
//! packets handled here.

use super::aggregate::{Aggregate, Grown, Transport, ipv4_fields};
use super::arrivals::{Arrivals, Source, Trust, Upcoming};
use super::candidate::{MIN_FRAME, Padding, examine_padding};
use super::config::{ChecksumPolicy, Config};
use super::ids::SlotId;
use super::slab::Held;
use super::{Coalescer, Exit, Flush, steady};
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Udp, be16_at};
use crate::packet::{Layer, LayerKind, Layout, Meta, Packet, Shape, is_scattered, is_tunnel};
use core::hint::select_unpredictable;

/// The expectation of the next packet, except for the fields that change within the run.
pub(super) struct Expected<'a> {
    /// The bytes of the first packet.
    pub(super) bytes: &'a [u8],
    layout: &'a Layout,
    pub(super) shape: &'a Shape,
    pub(super) header_len: usize,
    pub(super) transport: Layer,
    pub(super) source: Source,
    /// Bytes of the frame at least, so that it is padded as the others are: not at all.
    least: usize,
    /// The expected sum of those words of the innermost IPv4 header that may differ.
    pub(super) ipv4_fields: u16,
    /// Sum of the pseudo header without its length; zero if no checksum is verified.
    pseudo: Sum,
}

/// The first packet of a merged one.
pub(super) struct Head<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) layout: &'a Layout,
    pub(super) source: Source,
}

impl<'a> Head<'a> {
    #[inline(always)]
    pub(super) fn of<B: AsRef<[u8]>>(first: &'a Packet<B>, config: &Config) -> Self {
        let Meta { lane, mark, .. } = first.meta;
        let (verifies, pads) = (config.checksum == ChecksumPolicy::Verify, config.device.is_none());
        let source = Source { link: first.link(), lane, mark, verifies, pads };
        Self { bytes: first.bytes(), layout: first.layout(), source }
    }
}

/// How much a run may add.
pub(super) struct Limits {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

impl Limits {
    /// Whether a packet of this length still fits, given what has `grown`.
    #[inline(always)]
    fn leave_room(
        &self,
        (next, len): &(Next, usize),
        (aggregate, grown): (&Aggregate, &Grown),
        taken: &Taken,
    ) -> bool {
        taken.packets < self.packets.min(aggregate.packets_left())
            && taken.bytes + len <= self.bytes
            && aggregate.has_room(grown, next.payload_len)
    }
}

/// The packets added.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) packets: usize,
    bytes: usize,
    /// Why no packet may follow.
    pub(super) ended: Option<Flush>,
}

/// The growth by the next packet.
struct Next {
    payload_len: u32,
    flags: u16,
    /// Sum of the fields that may differ; see [`super::candidate::Derived`].
    fields: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Merges packets from the front as long as they continue the current data; returns their
    /// number.
    #[inline(always)]
    pub(super) fn follow<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        arrivals: &mut A,
        out: &mut F,
    ) -> usize {
        let (Some(slot), true) = (self.current, self.patient) else { return 0 };
        let Held { entry, packet, .. } = self.held.get(slot);
        let is_next = arrivals.bytes(0).is_some_and(|next| entry.successor.may_be(next));
        if packet.is_none() || !is_next {
            return 0;
        }
        let alone = !entry.examined;
        let is_alike = alone && self.is_plainly_next(slot, arrivals);
        let examined = match (alone, is_alike) {
            (false, _) => true,
            (_, true) => self.examine_alone(slot, out),
            _ => self.examine_before(slot, arrivals, out),
        };
        let Held { aggregate, packet: Some(first), .. } = self.held.get(slot) else { return 0 };
        if !examined || aggregate.ports == 0 {
            return 0;
        }
        let may_follow = |next| aggregate.may_continue(first.bytes(), next);
        let taken = if arrivals.bytes(1).is_some_and(may_follow) {
            self.join_all(slot, arrivals)
        } else {
            self.join_one(slot, (arrivals, is_alike))
        };
        if taken.packets == 0 {
            return 0;
        }
        self.held_packets += taken.packets;
        self.held_bytes += taken.bytes;
        self.counters.packets_in += taken.packets as u64;
        self.counters.bytes_in += taken.bytes as u64;
        let Held { entry, aggregate, .. } = self.held.get_mut(slot);
        entry.successor.expect(aggregate.grown.next_sequence);
        let (flow, flags) = (entry.flow, aggregate.grown.last_flags);
        self.table.arrived_together(flow, self.now, taken.packets);
        match taken.ended {
            Some(reason) => self.flush(slot, reason, out),
            None => self.hasten(slot),
        }
        self.release_at_end(flow, flags);
        taken.packets
    }

    /// Whether the packet held at `slot` has usual headers, and the next one has the same, and the lengths that they
    /// say; it is known to be the next one by ports, sequence number and length.
    #[inline(always)]
    fn is_plainly_next<A: Arrivals<B>>(&mut self, slot: SlotId, arrivals: &A) -> bool {
        let Some(first) = &self.held.get(slot).packet else { return false };
        let (layout, next) = (first.layout(), arrivals.bytes(0).unwrap_or_default());
        let Some((network, transport)) = layout.usual_layers() else { return false };
        if next.len() < MIN_FRAME.min(first.bytes().len()) {
            // Shorter than a padded frame: the general way compares them.
            return false;
        }
        let shape = self.hasher.shape(layout);
        let Head { mut source, .. } = Head::of(first, &self.config);
        source.verifies = true;
        let is_alike = arrivals.trust(0, &source).is_some()
            && shape.is_some_and(|shape| shape.mergeable(first.bytes(), next));
        if !is_alike {
            return false;
        }
        let end = network.at() + network_len(next, network);
        (layout.header_len() + 1..=layout.end().min(next.len())).contains(&end)
            && examine_padding(next, end).is_ok()
            && (transport.kind == LayerKind::Tcp || is_whole_datagram(&next[transport.at()..end]))
    }

    /// How much more may be held.
    #[inline(always)]
    fn limits(&self) -> Limits {
        Limits {
            packets: self.config.max_held_packets.saturating_sub(self.held_packets),
            bytes: self.config.max_held_bytes.saturating_sub(self.held_bytes),
        }
    }

    /// Merges packets as long as they continue the data held at `slot`.
    #[inline(always)]
    fn join_all<A: Arrivals<B>>(&mut self, slot: SlotId, arrivals: &mut A) -> Taken {
        let mut limits = self.limits();
        let held = self.held.get_mut(slot);
        let (aggregate, Some(first)) = (&mut held.aggregate, &mut held.packet) else {
            return Taken::default();
        };
        let mut chain = first.take_chain();
        if chain.capacity() == 0 {
            chain = Self::spare_chain(&mut self.chains);
        }
        let (mut taken, before) = (Taken::default(), aggregate.bytes);
        if let Some(shape) = self.hasher.shape(first.layout()) {
            let head = Head::of(first, &self.config);
            let expected = Expected::after(head, aggregate, shape, &*arrivals);
            let (header_len, len) = (expected.header_len, expected.bytes.len());
            let steady = steady::follow(&*arrivals, &expected, aggregate, &limits);
            arrivals.take_pieces(steady, header_len..len, &mut chain);
            limits.packets -= steady;
            limits.bytes -= steady * len;
            let next = arrivals.bytes(0);
            if next.is_some_and(|next| aggregate.may_continue(expected.bytes, next)) {
                taken = expected.run(aggregate, &limits, (arrivals, &mut chain));
            }
            taken.packets += steady;
            taken.bytes = aggregate.bytes - before;
        }
        if chain.is_empty() {
            self.recycle(chain);
        } else {
            first.set_chain(chain);
        }
        taken
    }

    /// Merges one packet if it continues the data held at `slot`; it may be known that it has the same headers.
    #[inline(always)]
    fn join_one<A: Arrivals<B>>(
        &mut self,
        slot: SlotId,
        (arrivals, is_alike): (&mut A, bool),
    ) -> Taken {
        let limits = self.limits();
        let held = self.held.get_mut(slot);
        let (aggregate, Some(first)) = (&mut held.aggregate, &mut held.packet) else {
            return Taken::default();
        };
        let Some(shape) = self.hasher.shape(first.layout()) else { return Taken::default() };
        let expected = Expected::after(Head::of(first, &self.config), aggregate, shape, &*arrivals);
        let header_len = expected.header_len;
        let none = Taken::default();
        let frame = arrivals.bytes(0).filter(|frame| frame.len() >= expected.least);
        let Some(frame) = frame else { return none };
        let (datagram, padding) = expected.datagram(frame, aggregate.padding);
        let (bytes, end) = (frame.len(), datagram.len());
        let next = if is_alike || expected.is_alike(arrivals) {
            expected.read_datagram(datagram, arrivals, &mut aggregate.grown)
        } else {
            None
        };
        let fits =
            |next: &(Next, usize)| limits.leave_room(next, (aggregate, &aggregate.grown), &none);
        let Some((next, _)) = next.map(|next| (next, bytes)).filter(fits) else { return none };
        let size = aggregate.size;
        let ended = aggregate.grown.advance(size, next.payload_len, (next.flags, next.fields));
        aggregate.padding = padding;
        aggregate.bytes += bytes;
        let chain = first.chain_mut();
        if chain.capacity() == 0 {
            *chain = Self::spare_chain(&mut self.chains);
        }
        arrivals.take_pieces(1, header_len..end, chain);
        Taken { packets: 1, bytes, ended }
    }
}

impl<'a> Expected<'a> {
    /// The expectation after data that begins with this head.
    #[inline(always)]
    pub(super) fn after<A: Upcoming>(
        Head { bytes, layout, mut source }: Head<'a>,
        aggregate: &Aggregate,
        shape: &'a Shape,
        arrivals: &A,
    ) -> Self {
        let transport = shape.transport();
        // If the first packet's checksum was verified by the port, there is no sum to verify others
        // with.
        source.verifies = arrivals.trust(0, &source) == Some(Trust::Verify);
        let verifies = source.verifies;
        let pseudo = if verifies { layout.pseudo_sum_of(bytes, transport, 0) } else { Sum::ZERO };
        Self {
            bytes,
            layout,
            shape,
            header_len: layout.header_len(),
            transport,
            source,
            least: if aggregate.padding == Padding::Missing { 0 } else { MIN_FRAME },
            ipv4_fields: aggregate.ipv4_fields,
            pseudo,
        }
    }

    /// Adds packets as long as each is the next one. A separate function, so that its state stays
    /// in registers.
    #[inline(never)]
    pub(super) fn run<A: Upcoming>(
        &self,
        aggregate: &mut Aggregate,
        limits: &Limits,
        (arrivals, chain): (&mut A, &mut A::Chain),
    ) -> Taken {
        let (mut grown, mut taken) = (aggregate.grown, Taken::default());
        while taken.ended.is_none() {
            let next = self.read(arrivals, &mut grown);
            let next = next.filter(|next| limits.leave_room(next, (aggregate, &grown), &taken));
            let Some((next, len)) = next else { break };
            taken.packets += 1;
            taken.bytes += len;
            let fields = (next.flags, next.fields);
            taken.ended = grown.advance(aggregate.size, next.payload_len, fields);
            arrivals.take_pieces(1, self.header_len..len, chain);
        }
        if taken.packets > 0 {
            aggregate.grown = grown;
            aggregate.bytes += taken.bytes;
        }
        taken
    }

    /// A frame that is alike without its padding, if it has some as segmenting restores it, and the padding of what it
    /// joins, which has this one.
    #[inline(always)]
    fn datagram<'b>(&self, frame: &'b [u8], padding: Padding) -> (&'b [u8], Padding) {
        let may_pad = frame.len() == MIN_FRAME && padding != Padding::Missing && self.source.pads;
        let Some((network, _)) = self.shape.plain().filter(|_| may_pad) else {
            return (frame, padding);
        };
        let end = network.at() + network_len(frame, network);
        match frame.split_at_checked(end) {
            Some((datagram, behind @ [_, ..]))
                if end > self.header_len && behind.iter().all(|byte| *byte == 0) =>
            {
                (datagram, Padding::Zeros)
            }
            _ => (frame, padding),
        }
    }

    /// Whether the first packet has the same headers, and is not too short.
    #[inline(always)]
    pub(super) fn is_alike<A: Upcoming>(&self, arrivals: &A) -> bool {
        let next = arrivals.bytes(0);
        next.is_some_and(|next| next.len() >= self.least && self.shape.mergeable(self.bytes, next))
    }

    /// Adds the first packet, whose headers are alike, to an aggregate, if it is the next one; returns where its payload
    /// ends. A reason why no packet may follow is written to `ended`.
    #[inline(always)]
    pub(super) fn append<A: Upcoming>(
        &self,
        aggregate: &mut Aggregate,
        arrivals: &A,
        ended: &mut Option<Flush>,
    ) -> Option<usize> {
        let frame = arrivals.bytes(0).filter(|frame| frame.len() >= self.least)?;
        let (datagram, padding) = self.datagram(frame, aggregate.padding);
        let next = self.read_datagram(datagram, arrivals, &mut aggregate.grown)?;
        if aggregate.packets_left() == 0 || !aggregate.has_room(&aggregate.grown, next.payload_len)
        {
            return None;
        }
        let (size, fields) = (aggregate.size, (next.flags, next.fields));
        *ended = aggregate.grown.advance(size, next.payload_len, fields);
        aggregate.padding = padding;
        aggregate.bytes += frame.len();
        Some(datagram.len())
    }

    /// The growth of the aggregate by the first packet, and its length, if it is the next one.
    #[inline(always)]
    fn read<A: Upcoming>(&self, arrivals: &A, grown: &mut Grown) -> Option<(Next, usize)> {
        let bytes = arrivals.bytes(0).filter(|_| self.is_alike(arrivals))?;
        Some((self.read_datagram(bytes, arrivals, grown)?, bytes.len()))
    }

    /// [`Expected::read`] of a packet that is alike, without its padding.
    #[inline(always)]
    fn read_datagram<A: Upcoming>(
        &self,
        bytes: &[u8],
        arrivals: &A,
        grown: &mut Grown,
    ) -> Option<Next> {
        let trust = arrivals.trust(0, &self.source)?;
        let goes_on = match self.shape.plain() {
            Some((network, _)) => self.network_goes_on(network, bytes, grown),
            None => layers_go_on((self.bytes, self.layout), bytes, grown),
        };
        let next = self.transport(bytes, grown).filter(|_| goes_on)?;
        let intact = trust == Trust::Vouched || self.is_intact(bytes, arrivals.bytes(2));
        intact.then_some(next)
    }

    /// Whether the length and identification of an IP header are the next ones, and the header is
    /// as intact as the first.
    #[inline(always)]
    fn network_goes_on(&self, network: Layer, bytes: &[u8], grown: &mut Grown) -> bool {
        let len = bytes.len() - network.at();
        match network.kind {
            LayerKind::Ipv4 => {
                let ip = header::at::<Ipv4>(bytes, network.at());
                is_next_ipv4(&ip, len, self.ipv4_fields) && grown.predicts_id(0, ip.id)
            }
            _ => network_len(bytes, network) == len,
        }
    }

    /// The growth by the transport header, if the payload continues the data and the checksum has a
    /// form that a sender computes.
    #[inline(always)]
    fn transport(&self, bytes: &[u8], grown: &Grown) -> Option<Next> {
        let at = self.transport.at();
        // The length is part of the pseudo header.
        let len = bytes.len() - at;
        let payload_len = (bytes.len() - self.header_len) as u32;
        let Transport { sequence, flags, fields, length, is_usual } =
            Transport::read(bytes, self.transport);
        let is_tcp = self.transport.kind == LayerKind::Tcp;
        let (is_next, is_whole) = (sequence == grown.next_sequence, usize::from(length) == len);
        let goes_on = is_usual & select_unpredictable(is_tcp, is_next, is_whole);
        goes_on.then_some(Next { payload_len, flags, fields: fields + len as u64 })
    }

    /// Whether the checksum is valid.
    #[inline(always)]
    pub(super) fn is_intact(&self, bytes: &[u8], later: Option<&[u8]>) -> bool {
        let covered = &bytes[self.transport.at()..];
        let sum = match later {
            // Two packets ahead: summing one takes half as long as fetching the lines of another.
            Some(later) if is_scattered(bytes, later) => Sum::of_ahead(covered, later),
            _ => Sum::of(covered),
        };
        sum.add(self.pseudo).add(Sum::from_fields(covered.len() as u64)).is_valid()
    }
}

/// Whether the lengths and identifications of all headers around the transport of a tunnelled packet are the next
/// ones, and the headers as intact as the first.
#[inline(never)]
fn layers_go_on((first, layout): (&[u8], &Layout), bytes: &[u8], grown: &mut Grown) -> bool {
    let mut ids = 0;
    layout.layers().rev().skip(1).all(|layer| {
        let len = bytes.len() - layer.at();
        match layer.kind {
            LayerKind::Ipv4 => {
                let first = header::at::<Ipv4>(first, layer.at());
                let ip = header::at::<Ipv4>(bytes, layer.at());
                ids += 1;
                is_next_ipv4(&ip, len, ipv4_fields(&first)) && grown.predicts_id(ids - 1, ip.id)
            }
            LayerKind::Ipv6 => network_len(bytes, layer) == len,
            LayerKind::Pppoe => {
                PPPOE_LEN + usize::from(be16_at(bytes, layer.at() + PPPOE_LENGTH)) == len
            }
            LayerKind::Udp => {
                let udp = header::at::<Udp>(bytes, layer.at());
                usize::from(udp.length) == len && udp.checksum == 0
            }
            // Its checksum would be a second one.
            LayerKind::Gre | LayerKind::Tcp => false,
        }
    })
}

/// Whether a UDP datagram has this length, and cannot turn out to be a tunnel's packet.
#[inline(always)]
fn is_whole_datagram(bytes: &[u8]) -> bool {
    let udp = header::at::<Udp>(bytes, 0);
    usize::from(udp.length) == bytes.len() && !is_tunnel(udp.destination)
}

/// The length of an IP packet as its header has it.
#[inline(always)]
fn network_len(bytes: &[u8], network: Layer) -> usize {
    match network.kind {
        LayerKind::Ipv4 => header::at::<Ipv4>(bytes, network.at()).total_len.into(),
        _ => Ipv6::LEN + usize::from(header::at::<Ipv6>(bytes, network.at()).payload_len),
    }
}

/// Whether an IPv4 header, whose other fields are equal, has this length and the same sum.
#[inline(always)]
fn is_next_ipv4(ip: &Ipv4, len: usize, fields: u16) -> bool {
    usize::from(ip.total_len) == len && ip.checksum != 0xFFFF && ipv4_fields(ip) == fields
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::Packets;
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::super::{Config, SPARE_CHAINS};
    use super::*;
    use crate::packet::{Batch, ChecksumState, LinkType, Piece};
    use crate::time::Instant;
    use alloc::vec;

    /// UDP over IPv4 with a checksum that was verified elsewhere.
    fn datagram(ttl: u8, chain: Vec<Piece<Vec<u8>>>) -> Packet<Vec<u8>> {
        let mut bytes = vec![0x45, 0, 0, 68, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let checksum = Sum::of(&bytes).checksum();
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend([0, 7, 0, 9, 0, 48, 0, 1]);
        bytes.resize(68, 7);
        let meta = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
        Packet::gather(bytes, chain, LinkType::Raw, meta).expect("a datagram")
    }

    /// Packets may bring lists of their own; of those that stay empty no more are kept than of
    /// others.
    #[test]
    fn keeps_no_more_lists_than_it_may() {
        let mut coalescer = Coalescer::new(Config::default());
        let mut batch = Batch::new();
        for _ in 0..SPARE_CHAINS + 1 {
            for ttl in [64, 63, 62] {
                let packet = datagram(ttl, Vec::with_capacity(1));
                batch.push(packet).expect("fewer than 64");
            }
            coalescer.push_batch(&mut batch, Instant::ZERO, &mut |packet, _| {
                assert!(!packet.is_merged());
            });
        }
        assert!(coalescer.chains.len() <= SPARE_CHAINS);
    }

    #[test]
    fn empty_lists_are_not_kept_nor_more_than_it_may() {
        let mut coalescer = Coalescer::<Vec<u8>>::new(Config::default());
        coalescer.recycle(Vec::new());
        assert!(coalescer.chains.is_empty());
        (0..=SPARE_CHAINS).for_each(|_| coalescer.recycle(Vec::with_capacity(1)));
        assert_eq!(coalescer.chains.len(), SPARE_CHAINS);
    }

    /// The fast path takes all packets that simply continue, whether the first one has been examined or not.
    #[test]
    fn what_continues_is_followed() {
        for traffic in each_traffic() {
            for verify_alone in [false, true] {
                let config = Config { verify_alone, max_flows: 8, ..Config::default() };
                let mut coalescer = Coalescer::new(config);
                let out = &mut |_, _| unreachable!("all is held");
                coalescer.push(traffic.packet(0, 1), Instant::ZERO, out);
                let mut rest: Vec<_> = (1..9).map(|index| traffic.packet(index, 7)).collect();
                let mut arrivals = Packets(rest.drain(..));
                if !verify_alone {
                    let slot = coalescer.current.expect("it is held");
                    assert!(coalescer.is_plainly_next(slot, &arrivals), "{traffic:?}");
                }
                assert_eq!(coalescer.follow(&mut arrivals, out), 8, "{traffic:?}");
                assert_eq!(coalescer.held(), 9);
                // One alone, too.
                let mut last = vec![traffic.packet(9, 7)];
                assert_eq!(coalescer.follow(&mut Packets(last.drain(..)), out), 1, "{traffic:?}");
                let mut coalescer = Coalescer::new(coalescer.config().clone());
                coalescer.push(traffic.packet(0, 1), Instant::ZERO, out);
                let mut next = vec![traffic.packet(1, 7)];
                assert_eq!(coalescer.follow(&mut Packets(next.drain(..)), out), 1, "{traffic:?}");
            }
        }
    }
    /// A packet whose bytes are changed, with its transport header there.
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>, usize);

    /// Whether a packet after a first one of such traffic simply continues it.
    fn is_plain_after(traffic: Traffic, second: Traffic, change: Change<'_>) -> bool {
        let mut coalescer = Coalescer::new(Config { max_flows: 8, ..Config::default() });
        let out = &mut |_, _| unreachable!("it is held");
        coalescer.push(traffic.packet(0, 1), Instant::ZERO, out);
        let slot = coalescer.current.expect("it is held");
        let next = second.packet(1, 1);
        let (link, at) = (next.link(), next.layout().ports().0);
        let mut bytes = next.into_parts().0;
        change(&mut bytes, at);
        let mut rest = vec![Packet::new(bytes, link, Meta::default())];
        coalescer.is_plainly_next(slot, &Packets(rest.drain(..)))
    }

    #[test]
    fn what_says_another_length_does_not_simply_continue() {
        for traffic in each_traffic() {
            let is_plain = |change: Change<'_>| is_plain_after(traffic, traffic, change);
            assert!(is_plain(&|_, _| ()));
            let ip = if traffic.v6 { 36 } else { 18 };
            for by in [-1_i16, 1, 256] {
                let add = |bytes: &mut Vec<u8>, at: usize| {
                    let field = be16_at(bytes, at).wrapping_add_signed(by);
                    header::set_be16(bytes, at, field);
                };
                assert!(!is_plain(&|bytes, at| add(bytes, at - ip)), "{traffic:?} {by}");
                let is_tcp = is_plain(&|bytes, at| add(bytes, at + Udp::LENGTH));
                assert_eq!(is_tcp, traffic.tcp, "{traffic:?} {by}");
            }
            assert!(!is_plain(&|bytes, _| bytes.push(0)));
            assert!(!is_plain(&|bytes, _| bytes.truncate(MIN_FRAME)));
        }
    }

    #[test]
    fn padding_without_data_does_not_simply_continue() {
        let traffic = each_traffic().find(|traffic| !traffic.tcp && !traffic.v6).expect("one");
        let of = |len| Traffic { len, ..traffic };
        let pad: Change<'_> = &|bytes, _| bytes.resize(MIN_FRAME, 0);
        let is_plain = |len, change| is_plain_after(of(18), of(len), change);
        assert_eq!([0, 1, 17, 18].map(|len| is_plain(len, pad)), [false, true, true, true]);
        // A bit behind the datagram.
        let fill: Change<'_> = &|bytes, _| bytes.resize(MIN_FRAME, 4);
        assert_eq!([0, 1, 17, 18].map(|len| is_plain(len, fill)), [false, false, false, true]);
        // Shorter ones are compared in the general way.
        assert!(!is_plain(17, &|_, _| ()));
    }

    /// Where a frame's datagram ends, and whether the rest is padding that segmenting restores.
    fn datagram_of(frame: &[u8], padding: Padding, pads: bool) -> (usize, Padding) {
        let config = Config::default();
        let first = each_traffic().find(|traffic| !traffic.tcp && !traffic.v6).expect("one");
        let first = first.packet(0, 1);
        let aggregate = Aggregate::examine(&first, &config).expect("it may merge");
        let mut hasher = crate::packet::FlowHasher::new(1);
        let shape = hasher.shape(first.layout()).expect("visible ports");
        let mut none = Vec::<Packet<Vec<u8>>>::new();
        let mut head = Head::of(&first, &config);
        head.source.pads = pads;
        let expected = Expected::after(head, &aggregate, shape, &Packets(none.drain(..)));
        let (datagram, padding) = expected.datagram(frame, padding);
        (datagram.len(), padding)
    }

    /// Of a frame of 60 bytes that is padded with zeros behind its data.
    #[test]
    fn a_datagram_ends_before_its_padding() {
        use Padding::{Missing, NotNeeded, Zeros};
        let traffic = each_traffic().find(|traffic| !traffic.tcp && !traffic.v6).expect("one");
        for len in 0..20 {
            let whole = Traffic { len, ..traffic }.packet(1, 1).into_parts().0;
            let end = whole.len();
            for (size, fill) in [(end, 0), (60, 0), (60, 1), (60, 0x80), (59, 0), (61, 0)] {
                let mut frame = whole.clone();
                frame.resize(size.max(end), fill);
                let is_padded = (1..18).contains(&len) && (frame.len(), fill) == (60, 0);
                for padding in [NotNeeded, Missing, Zeros] {
                    let whole = (frame.len(), padding);
                    let may_pad = is_padded && padding != Missing;
                    let expected = if may_pad { (end, Zeros) } else { whole };
                    assert_eq!(datagram_of(&frame, padding, true), expected, "{len} {size} {fill}");
                    assert_eq!(datagram_of(&frame, padding, false), whole, "{len} {size} {fill}");
                }
            }
            // Nonzero only at the end.
            let mut frame = whole.clone();
            frame.resize(60.max(end), 0);
            if let Some(last) = frame.last_mut().filter(|_| len < 18) {
                *last = 1;
                assert_eq!(datagram_of(&frame, Zeros, true), (60, Zeros));
            }
        }
    }

    /// The next packet of a flow in a tunnel: PPPoE, IPv4, IPv6, and VXLAN over either.
    fn tunnelled(kind: usize, index: usize) -> Vec<u8> {
        let traffic = each_traffic().find(|traffic| traffic.tcp && !traffic.v6).expect("one");
        let packet = traffic.packet(index, 1);
        let frame = packet.bytes();
        let datagram = &frame[14 + 4 * traffic.tags..];
        let v4 = |protocol: u8, inner: &[u8]| {
            let len = (20 + inner.len() as u16).to_be_bytes();
            let id = (0xFFFF_u16.wrapping_add(index as u16)).to_be_bytes();
            let mut header = vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, protocol];
            header.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let checksum = Sum::of(&header).checksum();
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            [&header[..], inner].concat()
        };
        let v6 = |next: u8, inner: &[u8]| {
            let len = (inner.len() as u16).to_be_bytes();
            let header = [&[0x60, 0, 0, 0, len[0], len[1], next, 64][..], &[7; 32]].concat();
            [&header[..], inner].concat()
        };
        let vxlan = |inner: &[u8]| {
            let len = (16 + inner.len() as u16).to_be_bytes();
            let header = [0xC0, 0, 0x12, 0xB5, len[0], len[1], 0, 0, 8, 0, 0, 0, 0, 0, 5, 0];
            [&header[..], inner].concat()
        };
        let ethernet = |kind: [u8; 2], inner: &[u8]| [&[2; 12][..], &kind, inner].concat();
        match kind {
            0 => {
                let len = (2 + datagram.len() as u16).to_be_bytes();
                let header = [0x11, 0, 0, 4, len[0], len[1], 0, 0x21];
                ethernet([0x88, 0x64], &[&header[..], datagram].concat())
            }
            1 => ethernet([8, 0], &v4(4, datagram)),
            2 => ethernet([0x86, 0xDD], &v6(4, datagram)),
            3 => ethernet([8, 0], &v4(17, &vxlan(frame))),
            _ => ethernet([8, 0], &v4(17, &vxlan(&ethernet([8, 0], &v4(4, datagram))))),
        }
    }

    #[test]
    fn lengths_and_identifications_of_all_layers_go_on() {
        for kind in 0..5 {
            let (first, next) = (tunnelled(kind, 0), tunnelled(kind, 1));
            let layout = Layout::parse(LinkType::Ethernet, &first);
            assert_eq!(layout.layer_count(), [3, 3, 3, 4, 5][kind]);
            let meta = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
            let config = Config::default();
            let packet = Packet::with_layout(first.clone(), LinkType::Ethernet, layout, meta);
            let aggregate = Aggregate::examine(&packet, &config).expect("it may merge");
            let goes_on =
                |next: &[u8]| layers_go_on((&first, &layout), next, &mut { aggregate.grown });
            assert!(goes_on(&next), "{kind}");
            for layer in layout.layers().rev().skip(1) {
                let at = layer.at();
                let mut fields = vec![match layer.kind {
                    LayerKind::Ipv6 | LayerKind::Pppoe | LayerKind::Udp => at + 4,
                    _ => at + Ipv4::TOTAL_LEN,
                }];
                match layer.kind {
                    LayerKind::Ipv4 => fields.extend([at + Ipv4::ID, at + Ipv4::CHECKSUM]),
                    LayerKind::Udp => fields.push(at + Udp::CHECKSUM),
                    _ => {}
                }
                for (field, bit) in fields.into_iter().flat_map(|f| (0..16).map(move |b| (f, b))) {
                    let mut other = next.clone();
                    other[field + bit / 8] ^= 1 << (bit % 8);
                    assert!(!goes_on(&other), "{kind} {field} {bit}");
                }
            }
            assert!(!goes_on(&next[..next.len() - 1]));
        }
    }
}
