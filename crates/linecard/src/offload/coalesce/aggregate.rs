//! A merged packet while it grows, and what its header becomes in the end.

use super::candidate::{Candidate, ChecksumKind, END_FLAGS, MAX_NESTED, Padding};
use super::config::Config;
use super::reason::{Flush, Refusal};
use super::table::FlowId;
use crate::offload::template::{Field, Portion, Template};
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, tcp_flags};
use crate::packet::{ChecksumState, Gso, LayerKind, Layout, Packet};
use crate::time::Instant;

/// Held packets of one flow that will leave as one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aggregate {
    pub(super) flow: FlowId,
    pub(super) count: u16,
    /// Identifications that stand still; see [`Aggregate::follow_ids`].
    pub(super) fixed_ids: u8,
    /// Headers with a checksum over payload that there is.
    summed: u8,
    pub(super) next_sequence: u32,
    /// Payload of the first packet: the segment size.
    size: u32,
    payload_len: u32,
    /// Payload that fits in all.
    room: u32,
    /// Packets that fit.
    limit: u16,
    /// Flags of the last packet, of which PSH and FIN are carried.
    pub(super) last_flags: u16,
    mark: u32,
    /// Of the first packet's innermost IPv4 header; see [`Aggregate::predicts_ipv4`].
    ipv4_fields: u16,
    checksum: ChecksumKind,
    padding: Padding,
    /// Identifications of the first packet.
    pub(super) ids: [u16; MAX_NESTED],
    pub(super) opened: Instant,
    /// Bytes of frames held.
    pub(super) bytes: usize,
    /// Sums of the derived fields (see [`super::candidate::Derived`]) of packets whose payload
    /// starts at an even offset of the whole, and at an odd one; for each header with a checksum.
    fields: [[u64; 2]; MAX_NESTED],
}

/// What a packet changes when it joins.
pub(super) struct Step {
    pub(super) fixed_ids: u8,
    pub(super) padding: Padding,
}

impl Aggregate {
    /// Begins with one packet.
    #[inline]
    pub(super) fn open<B: AsRef<[u8]>>(
        (flow, packet): (FlowId, &Packet<B>),
        candidate: &Candidate,
        config: &Config,
        now: Instant,
    ) -> Self {
        let tcp = candidate.kind == LayerKind::Tcp;
        Self {
            flow,
            count: 1,
            fixed_ids: 0,
            summed: candidate.derived.summed,
            // Sequence numbers wrap (RFC 9293, section 3.4).
            next_sequence: candidate.sequence.wrapping_add(candidate.payload_len),
            size: candidate.payload_len,
            payload_len: candidate.payload_len,
            room: room(packet.layout(), config),
            limit: if tcp { config.max_segments } else { config.max_datagrams },
            last_flags: candidate.flags,
            mark: packet.meta.mark,
            ipv4_fields: packet.layout().network().map_or(0, |network| match network.kind {
                LayerKind::Ipv4 => ipv4_fields(header::at(packet.bytes(), network.at())),
                _ => 0,
            }),
            checksum: candidate.checksum,
            padding: candidate.padding,
            ids: candidate.derived.ids,
            opened: now,
            bytes: packet.bytes().len(),
            fields: candidate.derived.sums.map(|sum| [sum, 0]),
        }
    }

    /// Whether `next`, whose headers are equal, continues this, and if not, why.
    #[inline(always)]
    pub(super) fn fits(&self, candidate: &Candidate, mark: u32) -> Result<Step, Refusal> {
        if candidate.kind == LayerKind::Tcp && candidate.sequence != self.next_sequence {
            let ahead = candidate.sequence.wrapping_sub(self.next_sequence) < 1 << 31;
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
        let fixed_ids = self.follow_ids(&candidate.derived)?;
        let padding = self.padding.join(candidate.padding)?;
        if self.payload_len + candidate.payload_len > self.room {
            return Err(Refusal::SizeLimit);
        }
        if self.count >= self.limit {
            return Err(Refusal::SegmentLimit);
        }
        Ok(Step { fixed_ids, padding })
    }

    /// Whether the next packet can be predicted: a whole checksum and no padding.
    #[inline(always)]
    pub(super) fn predictable(&self) -> bool {
        self.checksum == ChecksumKind::Full
            && self.padding == Padding::NotNeeded
            && self.summed == 1
    }

    /// Whether an IPv4 header has the next identification, and is as intact as the first's: length,
    /// identification and checksum sum up as they did there, and all else is equal.
    /// The second packet says whether identifications stand still.
    #[inline(always)]
    pub(super) fn predicts_ipv4(&mut self, ip: &Ipv4) -> bool {
        let difference = ip.id.get().wrapping_sub(self.ids[0]);
        if self.count == 1 {
            self.fixed_ids = u8::from(difference == 0);
        }
        let step = if self.fixed_ids & 1 != 0 { 0 } else { self.count };
        difference == step && ip.checksum.get() != 0xFFFF && ipv4_fields(ip) == self.ipv4_fields
    }

    /// Whether there is payload, and it fits.
    #[inline(always)]
    pub(super) fn has_room(&self, payload_len: u32) -> bool {
        payload_len.wrapping_sub(1) < self.size
            && self.payload_len + payload_len <= self.room
            && self.count < self.limit
    }

    /// Adds the derived fields of the next packet, in an aggregate with one checksum.
    #[inline(always)]
    pub(super) fn add_fields(&mut self, fields: u64) {
        self.fields[0][(self.payload_len & 1) as usize] += fields;
    }

    /// Takes a packet of `bytes` bytes, which [`Aggregate::fits`]. The reason to let go follows
    /// when nothing can come behind it.
    #[inline(always)]
    pub(super) fn append(&mut self, candidate: &Candidate, bytes: usize) -> Option<Flush> {
        let odd = (self.payload_len & 1) as usize;
        let sums = self.fields.iter_mut().zip(&candidate.derived.sums);
        for (total, fields) in sums.take(candidate.derived.sum_count.into()) {
            total[odd] += fields;
        }
        self.bytes += bytes;
        self.padding = candidate.padding;
        self.advance(candidate.payload_len, candidate.flags)
    }

    /// Moves on behind a packet that has joined.
    #[inline(always)]
    pub(super) fn advance(&mut self, payload_len: u32, flags: u16) -> Option<Flush> {
        self.payload_len += payload_len;
        self.next_sequence = self.next_sequence.wrapping_add(payload_len);
        self.last_flags = flags;
        self.count += 1;
        if flags & END_FLAGS != 0 {
            Some(Flush::EndFlag)
        } else if payload_len < self.size {
            Some(Flush::ShortTail)
        } else {
            None
        }
    }

    /// Payload of all packets but the first.
    pub(super) fn behind_first(&self) -> usize {
        (self.payload_len - self.size) as usize
    }

    /// Turns the first packet's header into that of the merged packet.
    pub(super) fn patch<B: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<B>) {
        let layout = *packet.layout();
        let bytes = packet.bytes_mut();
        let field = match self.checksum {
            ChecksumKind::Full => Field::Full,
            ChecksumKind::Partial => Field::Partial,
            ChecksumKind::None => Field::None,
        };
        let mut template = Template::take(bytes, &layout, field, (0, false));
        let sums = self.payload_sums(&template);
        let accecn = template.flags() & tcp_flags::CWR != 0;
        template.add_flags(self.last_flags & (tcp_flags::PSH | tcp_flags::FIN));
        let len = self.payload_len as usize;
        let whole = Portion { start: 0, len, index: 0, is_first: true, is_last: true };
        template.write(bytes, whole, |nth| sums[nth % MAX_NESTED]);
        if field == Field::Partial {
            packet.meta.checksum = ChecksumState::Partial;
        }
        packet.meta.gso = Some(Gso {
            // Payload of an IP packet is below 2¹⁶.
            size: self.size as u16,
            segments: self.count,
            fixed_ids: self.fixed_ids,
            accecn,
            padded: self.padding == Padding::Zeros,
        });
    }

    /// The sum of all payload out of the packets' own checksum fields, once for each header that
    /// has one: pseudo header, headers and payload together sum to zero. A corrupt payload gives a
    /// wrong sum, and so a checksum that still fails at the receiver.
    #[inline]
    fn payload_sums(&self, template: &Template) -> [Sum; MAX_NESTED] {
        let mut sums = [Sum::ZERO; MAX_NESTED];
        let odd = if self.size % 2 == 1 { self.count / 2 } else { 0 };
        let all = sums.iter_mut().zip(template.bases()).zip(&self.fields);
        for ((sum, base), [even_fields, odd_fields]) in all {
            // What all packets have in common, and what their fields add to it.
            let of = |packets: u16, fields| {
                let common = base.unwrap_or_default().times(packets.into());
                common.plus(Sum::from_fields(fields)).negated()
            };
            *sum = of(self.count - odd, *even_fields);
            if odd > 0 {
                *sum = sum.plus(of(odd, *odd_fields).swapped());
            }
        }
        sums
    }
}

/// The sum of the words that differ in an IPv4 header whose packet merges.
#[inline(always)]
fn ipv4_fields(ip: &Ipv4) -> u16 {
    let fields = [ip.total_len.get(), ip.id.get(), ip.checksum.get()].map(u64::from);
    Sum::from_fields(fields.iter().sum()).fold()
}

/// Payload that fits behind the headers: lengths from the outermost layer on have 16 bits, but
/// TCP directly over IP needs none ("BIG TCP"). Behind extension headers, a length of 0 would be
/// read as it is.
#[inline]
fn room(layout: &Layout, config: &Config) -> u32 {
    let outermost = layout.layers().next().map_or(0, |layer| layer.at());
    let plain_tcp = match (layout.layer_count(), layout.network(), layout.transport()) {
        (2, Some(network), Some(tcp)) if tcp.kind == LayerKind::Tcp => {
            network.kind == LayerKind::Ipv4 || tcp.at() - network.at() == Ipv6::LEN
        }
        _ => false,
    };
    let limit = if plain_tcp { Config::MAX_BYTES } else { usize::from(u16::MAX) };
    let headers = layout.header_len() - outermost;
    config.max_bytes.min(limit).saturating_sub(headers) as u32
}

impl Padding {
    /// Short frames of one merged packet are all padded, or none is.
    #[inline(always)]
    fn join(self, next: Self) -> Result<Self, Refusal> {
        match (self, next) {
            (a, b) if a == b => Ok(a),
            (Self::NotNeeded, other) | (other, Self::NotNeeded) => Ok(other),
            _ => Err(Refusal::Padding),
        }
    }
}
