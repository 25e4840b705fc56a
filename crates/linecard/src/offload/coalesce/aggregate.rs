//! A merged packet while it grows, and what its header becomes in the end.

use super::candidate::{Candidate, ChecksumKind, Padding};
use super::config::Config;
use super::merge::{IdRule, same_headers};
use super::reason::{Flush, Refusal};
use super::slab::SlotId;
use crate::offload::set_lengths;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Tcp, tcp_flags};
use crate::packet::{ChecksumState, Gso, LayerKind, Layout, Packet};
use crate::time::Instant;

/// Held packets of one flow that will leave as one.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    pub(super) first: SlotId,
    pub(super) last: SlotId,
    pub(super) count: u16,
    pub(super) opened: Instant,
    /// Bytes of frames held.
    pub(super) bytes: usize,
    kind: LayerKind,
    mark: u32,
    checksum: ChecksumKind,
    padding: Padding,
    ids: IdRule,
    /// Payload of the first packet: the segment size.
    size: usize,
    payload_len: usize,
    next_sequence: u32,
    /// Flags of the last packet, of which PSH and FIN are carried.
    last_flags: u16,
    /// Sum of all payload, from the segments' own checksums.
    payload_sum: Sum,
}

/// What a packet changes when it joins.
pub(super) struct Step {
    ids: IdRule,
    padding: Padding,
}

impl Aggregate {
    /// Begins with one packet, whose place in the slab the caller sets.
    pub(super) fn open<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        candidate: &Candidate,
        now: Instant,
    ) -> Self {
        Self {
            first: 0,
            last: 0,
            count: 1,
            opened: now,
            bytes: packet.bytes().len(),
            kind: candidate.kind,
            mark: packet.meta.mark,
            checksum: candidate.checksum,
            padding: candidate.padding,
            ids: IdRule::Open,
            size: candidate.payload_len,
            payload_len: candidate.payload_len,
            // Sequence numbers wrap (RFC 9293, section 3.4).
            next_sequence: candidate.sequence.wrapping_add(candidate.payload_len as u32),
            last_flags: candidate.flags,
            payload_sum: payload_sum(packet, candidate),
        }
    }

    /// Whether `next` continues this, and if not, why.
    pub(super) fn fits<B: AsRef<[u8]>>(
        &self,
        first: &Packet<B>,
        next: &Packet<B>,
        candidate: &Candidate,
        config: &Config,
    ) -> Result<Step, Refusal> {
        same_headers(first, next)?;
        self.check_sequence(candidate)?;
        if candidate.payload_len > self.size {
            return Err(Refusal::Longer);
        }
        if self.mark != next.meta.mark {
            return Err(Refusal::Mark);
        }
        if self.checksum != candidate.checksum {
            return Err(Refusal::ChecksumKind);
        }
        let ids = self.ids.follow(first, next, self.count)?;
        let padding = self.padding.join(candidate.padding)?;
        self.check_limits(first.layout(), candidate, config)?;
        Ok(Step { ids, padding })
    }

    /// Takes `packet`, which [`Aggregate::fits`]. The reason to let go follows when nothing can
    /// come behind it.
    pub(super) fn append<B: AsRef<[u8]>>(
        &mut self,
        packet: &Packet<B>,
        candidate: &Candidate,
        step: &Step,
    ) -> Option<Flush> {
        let sum = payload_sum(packet, candidate);
        let sum = if self.payload_len % 2 == 1 { sum.swapped() } else { sum };
        self.payload_sum = self.payload_sum.plus(sum);
        self.payload_len += candidate.payload_len;
        self.next_sequence = self.next_sequence.wrapping_add(candidate.payload_len as u32);
        self.last_flags = candidate.flags;
        self.count += 1;
        self.bytes += packet.bytes().len();
        (self.ids, self.padding) = (step.ids, step.padding);
        if candidate.ends() {
            Some(Flush::EndFlag)
        } else if candidate.payload_len < self.size {
            Some(Flush::ShortTail)
        } else {
            None
        }
    }

    /// Turns the first packet's header into that of the merged packet.
    pub(super) fn patch<B: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<B>) {
        let layout = *packet.layout();
        let (ends, size) = (self.last_flags & (tcp_flags::PSH | tcp_flags::FIN), self.size);
        let bytes = packet.bytes_mut();
        set_lengths(bytes, &layout, self.payload_len);
        let mut accecn = false;
        if let (LayerKind::Tcp, Some(transport)) = (self.kind, layout.transport()) {
            let tcp = header::at_mut::<Tcp>(bytes, usize::from(transport.offset));
            accecn = tcp.offset_flags.get() & tcp_flags::CWR != 0;
            tcp.offset_flags.set(tcp.offset_flags.get() | ends);
        }
        self.set_checksum(bytes, &layout);
        if self.checksum == ChecksumKind::Partial {
            packet.meta.checksum = ChecksumState::Partial;
        }
        packet.meta.gso = Some(Gso {
            // Payload of an IP packet is below 2¹⁶.
            size: size as u16,
            segments: self.count,
            fixed_id: self.ids == IdRule::Fixed,
            accecn,
            padded: self.padding == Padding::Zeros,
        });
    }

    fn set_checksum(&self, bytes: &mut [u8], layout: &Layout) {
        let (Some(transport), Some(field)) = (layout.transport(), layout.checksum_offset()) else {
            return;
        };
        let Some(pseudo) = layout.pseudo_sum(bytes, self.payload_len) else { return };
        let value = match self.checksum {
            ChecksumKind::None => return,
            ChecksumKind::Partial => pseudo.fold(),
            ChecksumKind::Full => {
                bytes[field..field + 2].fill(0);
                let header = &bytes[usize::from(transport.offset)..layout.header_len()];
                let sum = pseudo.plus(Sum::of(header)).plus(self.payload_sum);
                written_checksum(transport.kind, sum)
            }
        };
        bytes[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn check_sequence(&self, candidate: &Candidate) -> Result<(), Refusal> {
        if self.kind != LayerKind::Tcp || candidate.sequence == self.next_sequence {
            return Ok(());
        }
        let ahead = candidate.sequence.wrapping_sub(self.next_sequence) < 1 << 31;
        Err(if ahead { Refusal::SequenceGap } else { Refusal::SequenceOld })
    }

    #[inline]
    fn check_limits(
        &self,
        layout: &Layout,
        candidate: &Candidate,
        config: &Config,
    ) -> Result<(), Refusal> {
        let outermost = layout.layers().first().map_or(0, |layer| usize::from(layer.offset));
        let bytes = layout.header_len() - outermost + self.payload_len + candidate.payload_len;
        if bytes > config.max_bytes.min(Config::MAX_BYTES) {
            return Err(Refusal::SizeLimit);
        }
        let limit = match self.kind {
            LayerKind::Tcp => config.max_segments,
            _ => config.max_datagrams,
        };
        if self.count >= limit { Err(Refusal::SegmentLimit) } else { Ok(()) }
    }
}

impl Padding {
    /// Short frames of one merged packet are all padded, or none is.
    fn join(self, next: Self) -> Result<Self, Refusal> {
        match (self, next) {
            (a, b) if a == b => Ok(a),
            (Self::NotNeeded, other) | (other, Self::NotNeeded) => Ok(other),
            _ => Err(Refusal::Padding),
        }
    }
}

/// The checksum as senders write it: UDP sends 0xFFFF for 0, which would mean "none" (RFC 768).
#[inline]
pub(crate) fn written_checksum(kind: LayerKind, sum: Sum) -> u16 {
    match (kind, sum.checksum()) {
        (LayerKind::Udp, 0) => 0xFFFF,
        (_, checksum) => checksum,
    }
}

/// The sum of a packet's payload out of its own checksum field: pseudo header, header and payload
/// together sum to zero. A corrupt payload gives a wrong sum, and so a checksum that still fails
/// at the receiver.
fn payload_sum<B: AsRef<[u8]>>(packet: &Packet<B>, candidate: &Candidate) -> Sum {
    let layout = packet.layout();
    let (ChecksumKind::Full, Some(transport)) = (candidate.checksum, layout.transport()) else {
        return Sum::ZERO;
    };
    let header = &packet.bytes()[usize::from(transport.offset)..layout.header_len()];
    candidate.pseudo.plus(Sum::of(header)).negated()
}
