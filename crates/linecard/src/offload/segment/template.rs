//! Builds the headers of segments from that of the original packet.
//!
//! All fields that differ between segments are cleared and the rest is summed once. Lengths and
//! flags, which most segments share, are then set; for each segment, only sequence number,
//! identifications and checksums remain.

use crate::offload::checksum::{field_of, written_checksum};
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Tcp, Udp, tcp_flags};
use crate::packet::{LayerKind, Layout, MAX_LAYERS};

/// The contents of the innermost checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The complete checksum.
    Full,
    /// The pseudo header's sum: hardware completes it.
    Partial,
    /// No checksum (UDP).
    None,
}

/// The part of a layer that is the same in all segments.
#[derive(Debug, Clone, Copy)]
struct LayerTemplate {
    kind: LayerKind,
    /// Whether there is a checksum over payload.
    summed: bool,
    at: u16,
    /// The IPv4 identification of the first packet, and its increment.
    id: u16,
    id_step: u8,
    /// The constant part of the sum that the layer's checksum covers.
    base: Sum,
    /// The same, including the fields set by `fix`.
    fixed: Sum,
}

const UNUSED: LayerTemplate = LayerTemplate {
    kind: LayerKind::Tcp,
    summed: false,
    at: 0,
    id: 0,
    id_step: 0,
    base: Sum::ZERO,
    fixed: Sum::ZERO,
};

impl LayerTemplate {
    #[inline(always)]
    fn at(&self) -> usize {
        usize::from(self.at)
    }

    /// Sets the fields of a header around the innermost transport; `len` counts it and all after
    /// it. `inside` is what the inner fields add to its checksum; returns what this layer and they
    /// add to outer checksums.
    #[inline(always)]
    fn fix(&mut self, area: &mut [u8], len: usize, inside: Sum) -> Sum {
        let at = self.at();
        match self.kind {
            LayerKind::Ipv4 => {
                let length = field_of(len);
                header::set_be16(area, at + Ipv4::TOTAL_LEN, length);
                self.fixed = self.base.add(Sum::word(length));
                // Including its checksum, the header sums to zero.
                inside.add(self.base.negated())
            }
            LayerKind::Ipv6 => {
                let length = field_of(len - Ipv6::LEN);
                header::set_be16(area, at + Ipv6::PAYLOAD_LEN, length);
                inside.add(Sum::word(length))
            }
            LayerKind::Pppoe => {
                let length = field_of(len - PPPOE_LEN);
                header::set_be16(area, at + PPPOE_LENGTH, length);
                inside.add(Sum::word(length))
            }
            LayerKind::Udp => {
                let length = field_of(len);
                header::set_be16(area, at + Udp::LENGTH, length);
                // The length is also in the pseudo header.
                self.fix_summed(Sum::word(length), Sum::word(length), inside)
            }
            LayerKind::Gre => self.fix_summed(Sum::ZERO, Sum::ZERO, inside),
            // It carries no inner layer.
            LayerKind::Tcp => inside,
        }
    }

    /// The same for a header of which `own` and, in its pseudo header, `pseudo` have been set.
    #[inline(always)]
    fn fix_summed(&mut self, own: Sum, pseudo: Sum, inside: Sum) -> Sum {
        if !self.summed {
            return inside.add(own);
        }
        let base = self.base.add(pseudo);
        self.fixed = base.add(own).add(inside);
        // Including payload and checksum, everything covered sums to zero: bytes that are not in the base
        // is its complement.
        base.negated()
    }

    /// Completes IPv4 in the packet with this index.
    #[inline(always)]
    fn complete_ipv4(&self, area: &mut [u8], index: usize) {
        // Counts up from that of the first segment and wraps.
        let id = self.id.wrapping_add(u16::from(self.id_step).wrapping_mul(index as u16));
        let checksum = self.fixed.add(Sum::word(id)).checksum();
        let ip = header::chunk_mut::<{ Ipv4::LEN }>(area, self.at());
        header::set_be16(ip, Ipv4::ID, id);
        header::set_be16(ip, Ipv4::CHECKSUM, checksum);
    }

    /// Completes UDP or GRE around a tunnel. Not inline, because most packets have no such layer.
    #[inline(never)]
    fn complete_summed(&self, area: &mut [u8], payload: Sum) {
        self.write_checksum(area, written_checksum(self.kind, self.fixed.add(payload)));
    }

    #[inline(always)]
    fn write_checksum(&self, area: &mut [u8], checksum: u16) {
        let field = match self.kind {
            LayerKind::Tcp => Tcp::CHECKSUM,
            LayerKind::Udp => Udp::CHECKSUM,
            _ => header::GRE_CHECKSUM,
        };
        header::set_be16(area, self.at() + field, checksum);
    }
}

/// The packet that a header is built for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion {
    /// Bytes of payload before it, and in it.
    pub(super) start: usize,
    pub(super) len: usize,
    /// Packets before it.
    pub(super) index: usize,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// Template of headers.
#[derive(Debug)]
pub(super) struct Template {
    header_len: usize,
    /// Innermost first.
    layers: [LayerTemplate; MAX_LAYERS],
    count: usize,
    field: Field,
    /// The innermost pseudo header, without its length.
    pseudo: Sum,
    sequence: u32,
    flags: u16,
    accecn: bool,
}

impl Template {
    /// Extracts the fields of a header that change, and clears them. `fixed_ids` and `accecn` are
    /// as in [`Gso`](crate::packet::Gso). Inline, with its parts: a template is large to move, and
    /// inlining saves some 20 ns per message.
    #[inline(always)]
    pub(super) fn take(
        bytes: &mut [u8],
        layout: &Layout,
        field: Field,
        (fixed_ids, accecn): (u8, bool),
    ) -> Self {
        let pseudo = layout.transport().map(|layer| layout.pseudo_sum_of(bytes, layer, 0));
        let mut template = Self {
            header_len: layout.header_len(),
            layers: [UNUSED; MAX_LAYERS],
            count: 0,
            field,
            pseudo: pseudo.unwrap_or_default(),
            sequence: 0,
            flags: 0,
            accecn,
        };
        template.take_fields(bytes, layout, fixed_ids);
        template.take_sums(bytes, layout);
        template
    }

    /// Extracts the fields that differ from the template, and clears them.
    #[inline(always)]
    fn take_fields(&mut self, area: &mut [u8], layout: &Layout, fixed_ids: u8) {
        let mut fixed = fixed_ids;
        for (layer, template) in layout.layers().rev().zip(&mut self.layers) {
            let at = layer.at();
            *template = LayerTemplate { kind: layer.kind, at: layer.offset, ..UNUSED };
            template.summed = match layer.kind {
                LayerKind::Tcp => {
                    let tcp = header::at::<Tcp>(area, at);
                    (self.sequence, self.flags) = (tcp.sequence, tcp.offset_flags);
                    let tcp = header::chunk_mut::<{ Tcp::LEN }>(area, at);
                    header::set_be32(tcp, Tcp::SEQUENCE, 0);
                    header::set_be16(tcp, Tcp::OFFSET_FLAGS, 0);
                    header::set_be16(tcp, Tcp::CHECKSUM, 0);
                    true
                }
                LayerKind::Udp => {
                    let summed = header::at::<Udp>(area, at).checksum != 0;
                    header::chunk_mut::<4>(area, at + Udp::LENGTH).fill(0);
                    summed
                }
                LayerKind::Gre => {
                    area[at + header::GRE_CHECKSUM..][..2].fill(0);
                    true
                }
                LayerKind::Ipv4 => {
                    template.id = header::at::<Ipv4>(area, at).id;
                    template.id_step = u8::from(fixed & 1 == 0);
                    fixed >>= 1;
                    let ip = header::chunk_mut::<{ Ipv4::LEN }>(area, at);
                    header::set_be16(ip, Ipv4::TOTAL_LEN, 0);
                    header::set_be16(ip, Ipv4::ID, 0);
                    header::set_be16(ip, Ipv4::CHECKSUM, 0);
                    false
                }
                LayerKind::Ipv6 => {
                    header::set_be16(area, at + Ipv6::PAYLOAD_LEN, 0);
                    false
                }
                LayerKind::Pppoe => {
                    area[at + PPPOE_LENGTH..][..2].fill(0);
                    false
                }
            };
            self.count += 1;
        }
    }

    #[inline(always)]
    fn take_sums(&mut self, area: &[u8], layout: &Layout) {
        // If hardware completes the innermost checksum, everything from that header on will sum to
        // the value to which its field is completed; see `fix_innermost`.
        let partial = self.field == Field::Partial;
        let inner = if partial { self.layers[0].at() } else { self.header_len };
        let layers = layout.layers().rev().zip(&mut self.layers);
        for (index, (layer, template)) in layers.enumerate() {
            let at = template.at();
            template.base = match layer.kind {
                LayerKind::Ipv4 => {
                    let len = header::at::<Ipv4>(area, at).header_len();
                    Sum::of(&area[at..at + len])
                }
                LayerKind::Tcp | LayerKind::Udp | LayerKind::Gre => {
                    let end = if index == 0 { self.header_len } else { inner };
                    let pseudo = match index {
                        0 => self.pseudo,
                        _ => layout.pseudo_sum_of(area, layer, 0),
                    };
                    pseudo.plus(Sum::of(&area[at..end]))
                }
                LayerKind::Ipv6 | LayerKind::Pppoe => Sum::ZERO,
            };
        }
    }

    /// Bytes before the payload.
    #[inline]
    pub(super) fn header_len(&self) -> usize {
        self.header_len
    }

    /// Whether the payload has to be summed.
    #[inline]
    pub(super) fn needs_sum(&self) -> bool {
        self.field == Field::Full
            || self.field == Field::None && self.layers[1..self.count].iter().any(|l| l.summed)
    }

    /// Sets lengths and flags in `area`, from the innermost layer to the outermost. They are the same in
    /// all packets of that length that are neither first nor last.
    #[inline(always)]
    pub(super) fn fix(&mut self, area: &mut [u8], part: Portion) {
        let area = &mut area[..self.header_len];
        let end = self.header_len + part.len;
        let mut inside = self.fix_innermost(area, part);
        for layer in &mut self.layers[1..self.count] {
            inside = layer.fix(area, end - layer.at(), inside);
        }
    }

    /// Sets the other fields in `area`, which was the last argument of `fix` or is a copy of it.
    #[inline(always)]
    pub(super) fn complete(&self, area: &mut [u8], part: Portion, payload: Sum) {
        self.complete_innermost(area, part, payload);
        // Including its checksum, everything a header covers sums to zero: outer headers do not see
        // payload.
        let mut payload = if self.field == Field::None { payload } else { Sum::ZERO };
        for layer in &self.layers[1..self.count] {
            if layer.kind == LayerKind::Ipv4 {
                layer.complete_ipv4(area, part.index);
            } else if layer.summed {
                layer.complete_summed(area, payload);
                payload = Sum::ZERO;
            }
        }
    }

    /// Sets the fields of TCP, or of UDP without a tunnel; returns what they add to outer
    /// checksums.
    #[inline(always)]
    fn fix_innermost(&mut self, area: &mut [u8], part: Portion) -> Sum {
        let len = self.header_len - self.layers[0].at() + part.len;
        let own = self.fix_fields(area, part, len);
        let len = Sum::from_fields(len as u64);
        let layer = &mut self.layers[0];
        match self.field {
            Field::Full => layer.fix_summed(own, len, Sum::ZERO),
            Field::Partial => {
                // Hardware will make pseudo header, header and payload sum to zero, so what outer
                // checksums see is the complement of the pseudo header.
                let pseudo = self.pseudo.add(len);
                layer.write_checksum(area, pseudo.fold());
                pseudo.negated()
            }
            Field::None => own,
        }
    }

    #[inline(always)]
    fn fix_fields(&self, area: &mut [u8], part: Portion, len: usize) -> Sum {
        let at = self.layers[0].at();
        let field = if self.layers[0].kind == LayerKind::Tcp {
            let flags = self.flags_of(part);
            header::set_be16(area, at + Tcp::OFFSET_FLAGS, flags);
            flags
        } else {
            let length = field_of(len);
            header::set_be16(area, at + Udp::LENGTH, length);
            length
        };
        Sum::word(field)
    }

    /// Completes TCP, or UDP without a tunnel.
    #[inline(always)]
    fn complete_innermost(&self, area: &mut [u8], part: Portion, payload: Sum) {
        let layer = &self.layers[0];
        let full = self.field == Field::Full;
        let sum = layer.fixed.add(payload);
        if layer.kind == LayerKind::Tcp {
            let sequence = self.sequence.wrapping_add(part.start as u32);
            let tcp = header::chunk_mut::<{ Tcp::LEN }>(area, layer.at());
            header::set_be32(tcp, Tcp::SEQUENCE, sequence);
            if full {
                let checksum = sum.add(Sum::double(sequence)).checksum();
                header::set_be16(tcp, Tcp::CHECKSUM, checksum);
            }
        } else if full {
            header::set_be16(area, layer.at() + Udp::CHECKSUM, written_checksum(layer.kind, sum));
        }
    }

    #[inline(always)]
    fn flags_of(&self, part: Portion) -> u16 {
        let mut flags = self.flags;
        if !part.is_last {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if !part.is_first && !self.accecn {
            flags &= !tcp_flags::CWR;
        }
        flags
    }
}
