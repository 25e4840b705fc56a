//! A merged packet under construction.

use super::candidate::{
    Candidate, ChecksumKind, END_FLAGS, MAX_NESTED, MIN_FRAME, Padding, examine_padding,
};
use super::config::{ChecksumPolicy, Config};
use super::reason::{Flush, Refusal};
use crate::offload::virtio::Device;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, Tcp, Udp, be16_at, protocol, tcp_flags};
use crate::packet::{ChecksumState, Layer, LayerKind, Layout, Meta, Packet, is_tunnel, pseudo_sum};
use core::hint::select_unpredictable;

/// Held packets of one flow that will leave as one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Aggregate {
    /// Offset of the ports if the next packet can be predicted; else 0. Padded ones are predicted one by one only.
    pub(super) ports: u16,
    /// Headers that have a checksum over payload.
    pub(super) summed: u8,
    pub(super) checksum: ChecksumKind,
    pub(super) padding: Padding,
    /// The most packets that it may have.
    limit: u16,
    /// Payload of the first packet: the segment size.
    pub(super) size: u32,
    /// The most payload that it may have.
    room: u32,
    mark: u32,
    /// Of the first packet's innermost IPv4 header; see [`ipv4_fields`].
    pub(super) ipv4_fields: u16,
    pub(super) grown: Grown,
    /// Bytes of frames held.
    pub(super) bytes: usize,
    /// Sums of the derived fields of the headers around the innermost transport; see [`Grown`].
    pub(super) outer: [[u64; 2]; MAX_NESTED - 1],
}

/// The fields that change with every packet of an aggregate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Grown {
    pub(super) count: u16,
    /// Bits of headers whose identification may be constant.
    pub(super) may_fix: u8,
    /// Bits of headers whose identification is constant; see [`Grown::follow_ids`].
    pub(super) fixed_ids: u8,
    /// Flags of the last packet, of which PSH and FIN are carried.
    pub(super) last_flags: u16,
    pub(super) next_sequence: u32,
    pub(super) payload_len: u32,
    /// Identifications of the first packet.
    pub(super) ids: [u16; MAX_NESTED],
    /// Sums of the derived fields (see [`super::candidate::Derived`]) of the innermost transport:
    /// of packets whose payload starts at an even offset of the whole, and at an odd one.
    pub(super) fields: [u64; 2],
}

impl Grown {
    /// The increment of identifications, 0 or 1, if `next` is the next one.
    #[inline(always)]
    pub(super) fn id_step(&self, next: u16) -> Option<u16> {
        let difference = next.wrapping_sub(self.ids[0]);
        let fixed = match self.count {
            1 => difference == 0 && self.may_fix & 1 != 0,
            _ => self.fixed_ids & 1 != 0,
        };
        let expected = if fixed { 0 } else { self.count };
        (difference == expected).then_some(u16::from(!fixed))
    }

    /// Adds one packet; the first has `size` bytes of payload. Returns the reason to flush if no
    /// packet may follow.
    #[inline(always)]
    pub(super) fn advance(
        &mut self,
        size: u32,
        payload_len: u32,
        (flags, fields): (u16, u64),
    ) -> Option<Flush> {
        self.fields[(self.payload_len & 1) as usize] += fields;
        self.payload_len += payload_len;
        self.next_sequence = self.next_sequence.wrapping_add(payload_len);
        self.last_flags = flags;
        self.count += 1;
        if flags & END_FLAGS != 0 {
            Some(Flush::EndFlag)
        } else if payload_len < size {
            Some(Flush::ShortTail)
        } else {
            None
        }
    }

    /// Adds several packets of `size` bytes of payload each, without relevant flags. `fields` is
    /// their total sum; `fixed` tells whether IPv4 identifications are constant.
    #[inline(always)]
    pub(super) fn take_steady(&mut self, packets: u16, size: u32, fields: u64, fixed: bool) {
        if self.count == 1 {
            self.fixed_ids = u8::from(fixed);
        }
        let payload = size * u32::from(packets);
        self.fields[(self.payload_len & 1) as usize] += fields;
        self.payload_len += payload;
        self.next_sequence = self.next_sequence.wrapping_add(payload);
        self.last_flags = 0;
        self.count += packets;
    }

    /// Whether an IPv4 header, the nth from the innermost, has the expected identification. The
    /// second packet decides whether identifications are constant.
    #[inline(always)]
    pub(super) fn predicts_id(&mut self, nth: usize, id: u16) -> bool {
        let Some(first) = self.ids.get(nth) else { return false };
        let (difference, bit) = (id.wrapping_sub(*first), 1 << nth);
        if self.count == 1 {
            let fixed = u8::from(difference == 0) << nth & self.may_fix;
            self.fixed_ids = self.fixed_ids & !bit | fixed;
        }
        difference == if self.fixed_ids & bit != 0 { 0 } else { self.count }
    }
}

/// The effect of a joining packet.
pub(super) struct Step {
    pub(super) fixed_ids: u8,
    pub(super) padding: Padding,
}

impl Aggregate {
    /// Starts an aggregate with a packet, unless it may not merge.
    pub(super) fn examine<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        config: &Config,
    ) -> Result<Self, Refusal> {
        let candidate = Candidate::examine(packet, config, &[])?;
        Ok(Self::open(packet, &candidate, config))
    }

    /// Starts an aggregate with a packet that has been examined.
    #[inline]
    pub(super) fn open<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        candidate: &Candidate,
        config: &Config,
    ) -> Self {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let tcp = candidate.kind == LayerKind::Tcp;
        let [fields, outer @ ..] = candidate.derived.sums;
        let grown = Grown {
            count: 1,
            may_fix: config.device.map_or(u8::MAX, |device| may_count_up(layout, bytes, device)),
            fixed_ids: 0,
            last_flags: candidate.flags,
            // Sequence numbers wrap (RFC 9293, section 3.4).
            next_sequence: candidate.sequence.wrapping_add(candidate.payload_len),
            payload_len: candidate.payload_len,
            ids: candidate.derived.ids,
            fields: [fields, 0],
        };
        Self {
            ports: ports(candidate, packet),
            summed: candidate.derived.summed,
            checksum: candidate.checksum,
            padding: candidate.padding,
            limit: if tcp { config.max_segments } else { config.max_datagrams },
            size: candidate.payload_len,
            room: room(layout, config),
            mark: packet.meta.mark,
            ipv4_fields: layout.network().map_or(0, |network| match network.kind {
                LayerKind::Ipv4 => ipv4_fields(&header::at(bytes, network.at())),
                _ => 0,
            }),
            grown,
            bytes: bytes.len(),
            outer: outer.map(|sum| [sum, 0]),
        }
    }

    /// Starts an aggregate with a packet that has the headers of most packets, and nothing else that is unusual: as
    /// [`Candidate::examine`] and [`Aggregate::open`] do, with fewer steps. None for all other packets, and for those
    /// that may not merge.
    #[inline(always)]
    pub(super) fn open_usual(
        (frame, layout): (&[u8], &Layout),
        meta: &Meta,
        config: &Config,
    ) -> Option<Self> {
        let (network, transport) = layout.usual_layers()?;
        let size = layout.payload().len() as u32;
        let longest = usize::from(u16::MAX).min(config.max_held_bytes);
        let padding = examine_padding(frame, layout.end()).ok()?;
        let is_padded = padding == Padding::Zeros;
        let is_whole = frame.len() <= longest && !(is_padded && config.device.is_some());
        let bytes = &frame[..layout.end()];
        let verifies = config.checksum == ChecksumPolicy::Verify;
        let is_known = match meta.checksum {
            ChecksumState::Valid => true,
            ChecksumState::Unknown => verifies,
            ChecksumState::Partial => false,
        };
        let is_plain = meta.mark != Meta::NEVER && meta.gso.is_none();
        if !(is_whole && is_known && is_plain && size > 0) {
            return None;
        }
        let network_fields = UsualNetwork::read(bytes, network, config)?;
        let (grown, limit) = usual_transport(bytes, transport, (size, config))?;
        let verified = meta.checksum == ChecksumState::Valid;
        if !verified && !is_intact(bytes, network, transport) {
            return None;
        }
        let UsualNetwork { id, fields, may_fix } = network_fields;
        let mut ids = [0; MAX_NESTED];
        ids[0] = id;
        Some(Self {
            ports: transport.offset,
            summed: 1,
            checksum: ChecksumKind::Full,
            padding,
            limit,
            size,
            room: room(layout, config),
            mark: meta.mark,
            ipv4_fields: fields,
            grown: Grown { may_fix, ids, ..grown },
            bytes: frame.len(),
            outer: [[0; 2]; MAX_NESTED - 1],
        })
    }

    /// Whether `next`, whose headers are equal, continues this aggregate; the reason if it does
    /// not.
    #[inline(always)]
    pub(super) fn fits(&self, candidate: &Candidate, mark: u32) -> Result<Step, Refusal> {
        let grown = &self.grown;
        if candidate.kind == LayerKind::Tcp && candidate.sequence != grown.next_sequence {
            let ahead = candidate.sequence.wrapping_sub(grown.next_sequence) < 1 << 31;
            return Err(if ahead { Refusal::SequenceGap } else { Refusal::SequenceOld });
        }
        if candidate.payload_len > self.size {
            return Err(Refusal::Longer);
        }
        if self.mark != mark {
            return Err(Refusal::Mark);
        }
        if self.checksum != candidate.checksum || self.summed != candidate.derived.summed {
            return Err(Refusal::ChecksumKind);
        }
        let fixed_ids = grown.follow_ids(&candidate.derived)?;
        let padding = self.padding.join(candidate.padding)?;
        if grown.payload_len + candidate.payload_len > self.room {
            return Err(Refusal::SizeLimit);
        }
        if self.packets_left() == 0 {
            return Err(Refusal::SegmentLimit);
        }
        Ok(Step { fixed_ids, padding })
    }

    /// A quick check of the ports, which distinguishes most flows, before more is prepared; never
    /// true if the next packets cannot be predicted as a run.
    #[inline(always)]
    pub(super) fn may_continue(&self, first: &[u8], next: &[u8]) -> bool {
        let ports = |bytes: &[u8]| {
            bytes.get(usize::from(self.ports)..).and_then(|b| b.first_chunk::<4>().copied())
        };
        self.ports != 0 && self.padding != Padding::Zeros && ports(first) == ports(next)
    }

    /// Packets that still fit.
    #[inline(always)]
    pub(super) fn packets_left(&self) -> usize {
        usize::from(self.limit.saturating_sub(self.grown.count))
    }

    /// Packets as large as the first that still fit.
    #[inline(always)]
    pub(super) fn full_packets_left(&self) -> usize {
        // The first packet has payload, so the size is not 0.
        let room = (self.room - self.grown.payload_len.min(self.room)) / self.size.max(1);
        self.packets_left().min(room as usize)
    }

    /// Whether the packet has payload and that payload fits.
    #[inline(always)]
    pub(super) fn has_room(&self, grown: &Grown, payload_len: u32) -> bool {
        payload_len.wrapping_sub(1) < self.size && grown.payload_len + payload_len <= self.room
    }

    /// Adds a packet of `bytes` bytes for which [`Aggregate::fits`] holds; see [`Grown::advance`].
    #[inline(always)]
    pub(super) fn append(&mut self, candidate: &Candidate, bytes: usize) -> Option<Flush> {
        let odd = (self.grown.payload_len & 1) as usize;
        let [fields, outer @ ..] = &candidate.derived.sums;
        for (total, fields) in self.outer.iter_mut().zip(outer) {
            total[odd] += fields;
        }
        self.bytes += bytes;
        self.padding = candidate.padding;
        self.grown.advance(self.size, candidate.payload_len, (candidate.flags, *fields))
    }

    /// Bytes of the merged packet, whose first one has this layout; without padding.
    pub(super) fn frame_len(&self, layout: &Layout) -> usize {
        layout.header_len() + self.grown.payload_len as usize
    }
}

/// The parts of a usual IP header that an aggregate keeps.
struct UsualNetwork {
    id: u16,
    /// See [`ipv4_fields`].
    fields: u16,
    may_fix: u8,
}

impl UsualNetwork {
    /// None if the header is not intact, or its length is not that of the frame.
    #[inline(always)]
    fn read(bytes: &[u8], network: Layer, config: &Config) -> Option<Self> {
        let (at, len) = (network.at(), bytes.len() - network.at());
        if network.kind != LayerKind::Ipv4 {
            let may_fix = if config.device.is_none() { u8::MAX } else { 0 };
            let is_whole =
                usize::from(header::at::<Ipv6>(bytes, at).payload_len) + Ipv6::LEN == len;
            return is_whole.then_some(Self { id: 0, fields: 0, may_fix });
        }
        let ip = header::at::<Ipv4>(bytes, at);
        let header = header::chunk::<{ Ipv4::LEN }>(bytes, at);
        let is_intact = Sum::of_words(header).is_valid() && ip.checksum != 0xFFFF;
        let may_fix = config.device.map_or(u8::MAX, |device| u8::from(device.may_count_up(&ip)));
        let read = Self { id: ip.id, fields: ipv4_fields(&ip), may_fix };
        (is_intact && usize::from(ip.total_len) == len).then_some(read)
    }
}

/// The growing part from a usual transport header on, and the most packets; none if the header is unusual.
#[inline(always)]
fn usual_transport(
    bytes: &[u8],
    transport: Layer,
    (size, config): (u32, &Config),
) -> Option<(Grown, u16)> {
    let (at, length) = (transport.at(), (bytes.len() - transport.at()) as u64);
    let Transport { sequence, flags, fields, is_usual, .. } = Transport::read(bytes, transport);
    let is_tcp = transport.kind == LayerKind::Tcp;
    let limit = select_unpredictable(is_tcp, config.max_segments, config.max_datagrams);
    let apart = flags & tcp_flags::CWR != 0 && config.device.is_some();
    let is_tunnel = !is_tcp & is_tunnel(be16_at(bytes, at + 2));
    let grown = Grown {
        count: 1,
        last_flags: flags,
        next_sequence: sequence.wrapping_add(size),
        payload_len: size,
        fields: [fields + length, 0],
        ..Grown::default()
    };
    (is_usual & !apart & !is_tunnel).then_some((grown, limit))
}

/// Properties of a TCP or UDP header.
pub(super) struct Transport {
    /// TCP's, or 0.
    pub(super) sequence: u32,
    /// TCP's, or none.
    pub(super) flags: u16,
    /// Sum of the fields that may differ; see [`super::candidate::Derived`], without the length of the pseudo
    /// header.
    pub(super) fields: u64,
    /// UDP's.
    pub(super) length: u16,
    /// The checksum field has a form that a sender computes.
    pub(super) is_usual: bool,
}

impl Transport {
    /// The two protocols are told apart without a branch, which could hardly be predicted where they take turns.
    #[inline(always)]
    pub(super) fn read(bytes: &[u8], layer: Layer) -> Self {
        let (at, is_tcp) = (layer.at(), layer.kind == LayerKind::Tcp);
        let Some(header) = bytes[at..].first_chunk::<{ Tcp::LEN }>() else {
            return Self::of_udp(&header::at(bytes, at));
        };
        let tcp = header::at::<Tcp>(header, 0);
        let udp = Self::of_udp(&header::at(header, 0));
        let words = u64::from(tcp.offset_flags) + u64::from(tcp.checksum);
        let fields = u64::from(tcp.sequence) + words;
        Self {
            sequence: select_unpredictable(is_tcp, tcp.sequence, 0),
            flags: tcp.offset_flags & select_unpredictable(is_tcp, 0x01FF, 0),
            fields: select_unpredictable(is_tcp, fields, udp.fields),
            length: udp.length,
            is_usual: select_unpredictable(is_tcp, tcp.checksum != 0xFFFF, udp.is_usual),
        }
    }

    #[inline(always)]
    fn of_udp(udp: &Udp) -> Self {
        let fields = u64::from(udp.length) + u64::from(udp.checksum);
        let is_usual = udp.checksum != 0;
        Self { sequence: 0, flags: 0, fields, length: udp.length, is_usual }
    }
}

/// Whether the checksum of a packet without tunnels is valid.
#[inline(always)]
fn is_intact(bytes: &[u8], network: Layer, transport: Layer) -> bool {
    let number = if transport.kind == LayerKind::Tcp { protocol::TCP } else { protocol::UDP };
    let covered = &bytes[transport.at()..];
    Sum::of(covered).plus(pseudo_sum(bytes, network, number, covered.len())).is_valid()
}

/// Offset of the ports if the next packet can be predicted: the packet has one checksum, and its payload
/// cannot turn out to be a tunnel's packet.
#[inline]
fn ports<B: AsRef<[u8]>>(candidate: &Candidate, packet: &Packet<B>) -> u16 {
    let simple = candidate.checksum == ChecksumKind::Full && candidate.derived.summed == 1;
    let Some(transport) = packet.layout().transport().filter(|_| simple) else { return 0 };
    let tunnel = transport.kind == LayerKind::Udp
        && is_tunnel(header::at::<Udp>(packet.bytes(), transport.at()).destination);
    if tunnel { 0 } else { transport.offset }
}

/// Bits of the IPv4 headers, innermost lowest, whose identifications the device may count up if they
/// are constant.
#[inline]
fn may_count_up(layout: &Layout, bytes: &[u8], device: Device) -> u8 {
    let v4 = layout.layers().rev().filter(|layer| layer.kind == LayerKind::Ipv4).zip(0..u8::BITS);
    v4.fold(0, |bits, (layer, nth)| {
        bits | u8::from(device.may_count_up(&header::at(bytes, layer.at()))) << nth
    })
}

/// The sum of the words of an IPv4 header that may differ in packets that merge.
#[inline(always)]
pub(super) fn ipv4_fields(ip: &Ipv4) -> u16 {
    let fields = [ip.total_len, ip.id, ip.checksum].map(u64::from);
    Sum::from_fields(fields.iter().sum()).fold()
}

/// The most payload that fits after the headers: length fields have 16 bits from the outermost
/// layer on, but TCP directly over IP may exceed them ("BIG TCP"). With extension headers, a length
/// of 0 would be taken literally.
#[inline]
fn room(layout: &Layout, config: &Config) -> u32 {
    let outermost = layout.layer(0).map_or(0, |layer| layer.at());
    let plain_tcp = match (layout.layer_count(), layout.layer(0), layout.layer(1)) {
        (2, Some(network), Some(tcp)) if tcp.kind == LayerKind::Tcp => {
            network.kind == LayerKind::Ipv4 || tcp.at() - network.at() == Ipv6::LEN
        }
        _ => false,
    };
    let limit = if plain_tcp && config.device.is_none() {
        Config::MAX_BYTES
    } else {
        usize::from(u16::MAX)
    };
    let headers = layout.header_len() - outermost;
    config.max_bytes.min(limit).saturating_sub(headers) as u32
}

impl Padding {
    /// That of a frame of `len` bytes that ends with its datagram.
    #[inline(always)]
    pub(super) fn of_whole(len: usize) -> Self {
        if len < MIN_FRAME { Self::Missing } else { Self::NotNeeded }
    }

    /// Either all short frames of a merged packet are padded, or none is.
    #[inline(always)]
    fn join(self, next: Self) -> Result<Self, Refusal> {
        match (self, next) {
            (a, b) if a == b => Ok(a),
            (Self::NotNeeded, other) | (other, Self::NotNeeded) => Ok(other),
            _ => Err(Refusal::Padding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::*;
    use crate::packet::{Gso, LinkType};
    use alloc::vec::Vec;

    /// Changes a packet, whose transport header begins there.
    type Change = fn(&mut Vec<u8>, &mut Meta, usize);

    /// Whether the fast way opens an aggregate with a packet: the same as the general one then.
    fn is_usual(traffic: Traffic, device: Option<Device>, change: Change) -> bool {
        let config = Config { device, ..Config::default() };
        let packet = traffic.packet(0, 1);
        let (link, at) = (packet.link(), packet.layout().ports().0);
        let mut bytes = packet.bytes().to_vec();
        let mut meta = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
        change(&mut bytes, &mut meta, at);
        let packet = Packet::new(bytes, link, meta);
        let usual = Aggregate::open_usual((packet.bytes(), packet.layout()), &meta, &config);
        let is_usual = usual.is_some();
        usual
            .into_iter()
            .for_each(|usual| assert_eq!(Aggregate::examine(&packet, &config), Ok(usual)));
        is_usual
    }

    const UNCHANGED: Change = |_, _, _| ();

    #[test]
    fn the_fast_way_opens_what_is_usual_and_nothing_else() {
        let to_tunnel: Change = |bytes, _, at| bytes[at + 2..at + 4].copy_from_slice(&[0x12, 0xB5]);
        let from_tunnel: Change = |bytes, _, at| bytes[at..at + 2].copy_from_slice(&[0x12, 0xB5]);
        let unknown: Change = |_, meta, _| meta.checksum = ChecksumState::Unknown;
        let reduced: Change = |bytes, _, at| bytes[at + 13] |= 0x80;
        let is_large: Change = |_, meta, _| {
            meta.gso = Some(Gso { size: 50, segments: 2, ..Gso::default() });
        };
        let never: Change = |_, meta, _| meta.mark = Meta::NEVER;
        let partial: Change = |_, meta, _| meta.checksum = ChecksumState::Partial;
        let corrupt: Change = |bytes, meta, at| {
            bytes[at + 16] ^= 1;
            meta.checksum = ChecksumState::Unknown;
        };
        let ones: Change = |bytes, _, at| bytes[at + 16..at + 18].fill(0xFF);
        let without: Change = |bytes, _, at| bytes[at + 6..at + 8].fill(0);
        for (traffic, device) in
            each_traffic().flat_map(|traffic| [None, Some(Device::default())].map(|d| (traffic, d)))
        {
            let is_usual = |change| is_usual(traffic, device, change);
            assert!([UNCHANGED, from_tunnel, unknown].into_iter().all(is_usual), "{traffic:?}");
            let others = [is_large, never, partial, corrupt];
            assert!(!others.into_iter().any(is_usual), "{traffic:?}");
            assert_eq!(is_usual(to_tunnel), traffic.tcp);
            let (tcp, udp) = (traffic.tcp, !traffic.tcp);
            assert!(udp || is_usual(reduced) == device.is_none());
            assert!(udp || !is_usual(ones));
            assert!(tcp || !is_usual(without));
        }
    }

    #[test]
    fn the_fast_way_opens_neither_what_is_empty_nor_padding_that_no_device_restores() {
        let traffic = each_traffic().find(|traffic| !traffic.tcp && !traffic.v6).expect("one");
        let pad: Change = |bytes, _, _| bytes.resize(bytes.len().max(MIN_FRAME), 0);
        for (len, device, expected) in [
            (0, None, [false, false]),
            (1, None, [true, true]),
            (1, Some(Device::default()), [true, false]),
            (17, Some(Device::default()), [true, false]),
            (18, Some(Device::default()), [true, true]),
        ] {
            let traffic = Traffic { len, ..traffic };
            let usual = [UNCHANGED, pad].map(|change| is_usual(traffic, device, change));
            assert_eq!(usual, expected, "{len} {device:?}");
        }
    }

    #[test]
    fn what_joins_has_the_next_sequence_number() {
        let traffic = each_traffic().find(|traffic| traffic.tcp).expect("one");
        let config = Config::default();
        let first = traffic.packet(0, 1);
        let aggregate = Aggregate::examine(&first, &config).expect("it may merge");
        for (ahead, refusal) in [
            (0, None),
            (1, Some(Refusal::SequenceGap)),
            (i32::MAX as u32, Some(Refusal::SequenceGap)),
            (1 << 31, Some(Refusal::SequenceOld)),
            (u32::MAX, Some(Refusal::SequenceOld)),
        ] {
            let sequence = traffic.sequence.wrapping_add(ahead);
            let next = Traffic { sequence, ..traffic }.packet(1, 1);
            let candidate = Candidate::examine(&next, &config, &[]).expect("it may merge");
            assert_eq!(aggregate.fits(&candidate, 0).err(), refusal, "{ahead}");
        }
    }

    #[test]
    fn each_header_may_have_identifications_of_its_own() {
        let ids = [5, 6, 7, 8].first_chunk().copied().expect("as many");
        for nth in 0..MAX_NESTED {
            for (may_fix, difference, predicted) in [
                (0, 0, false),
                (0, 1, true),
                (1 << nth, 0, true),
                (1 << nth, 1, true),
                (1 << nth, 2, false),
            ] {
                let mut grown = Grown { count: 1, may_fix, ids, ..Grown::default() };
                assert_eq!(grown.predicts_id(nth, ids[nth] + difference), predicted);
                assert_eq!(grown.fixed_ids, if difference == 0 { may_fix } else { 0 });
            }
        }
    }

    #[test]
    fn a_device_may_count_up_identifications_of_each_header() {
        let traffic = each_traffic().find(|traffic| !traffic.v6).expect("one");
        for (outer, inner) in [(0, 0), (0, 0x40), (0x40, 0), (0x40, 0x40)] {
            let mut datagram = traffic.packet(0, 1).bytes()[14 + 4 * traffic.tags..].to_vec();
            let mut bytes = datagram[..Ipv4::LEN].to_vec();
            bytes[9] = protocol::IPV4;
            let len = (Ipv4::LEN + datagram.len()) as u16;
            header::set_be16(&mut bytes, Ipv4::TOTAL_LEN, len);
            (bytes[6], datagram[6]) = (outer, inner);
            bytes.extend(&datagram);
            let layout = Layout::parse(LinkType::Raw, &bytes);
            assert_eq!(layout.layer_count(), 3);
            let bits = may_count_up(&layout, &bytes, Device::default());
            assert_eq!(bits, inner >> 6 | outer >> 6 << 1);
        }
    }
}
