//! Headers of TCP and UDP segments, from the large packet's header as a template.

use super::{HEADER_AREA, Part, SegmentError};
use crate::offload::{field_of, written_checksum};
use crate::packet::checksum::Sum;
use crate::packet::header::{
    self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Tcp, Udp, be16_at, tcp_flags,
};
use crate::packet::{ChecksumState, Form, Gso, LayerKind, Layout, MAX_LAYERS, Packet};

/// What goes into the innermost checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Full,
    Partial,
    None,
}

/// What of a layer is the same in all segments.
#[derive(Debug, Clone, Copy)]
struct Template {
    kind: LayerKind,
    at: usize,
    /// The first segment's IPv4 identification, and what each further one adds.
    id: u16,
    id_step: u16,
    /// Whether there is a checksum over payload.
    summed: bool,
    /// The sum of all that the layer's checksum covers but does not change.
    base: Sum,
}

const UNUSED: Template =
    Template { kind: LayerKind::Tcp, at: 0, id: 0, id_step: 0, summed: false, base: Sum::ZERO };

/// What the segments' headers are made from: the header area is a template with all fields zero
/// that differ, and sums over it are taken once.
#[derive(Debug)]
pub(super) struct Segmenting {
    header_len: usize,
    /// Innermost first.
    layers: [Template; MAX_LAYERS],
    count: usize,
    field: Field,
    /// The innermost pseudo header, its length aside.
    pseudo: Sum,
    sequence: u32,
    flags: u16,
    accecn: bool,
    padded: bool,
}

impl Segmenting {
    /// Takes from the header of `packet`, which is in `area`, what changes per segment.
    pub(super) fn new<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        gso: Gso,
        area: &mut [u8; HEADER_AREA],
    ) -> Result<Self, SegmentError> {
        let layout = packet.layout();
        let (Form::Datagram, Some(transport), Some(field)) =
            (layout.form(), layout.transport(), layout.checksum_offset())
        else {
            return Err(SegmentError::NotADatagram(layout.form()));
        };
        let absent = transport.kind == LayerKind::Udp && be16_at(area, field) == 0;
        let mut plan = Self {
            header_len: layout.header_len(),
            layers: [UNUSED; MAX_LAYERS],
            count: 0,
            field: match packet.meta.checksum {
                _ if absent => Field::None,
                ChecksumState::Partial => Field::Partial,
                _ => Field::Full,
            },
            pseudo: layout.pseudo_sum_of(area, transport, 0),
            sequence: 0,
            flags: 0,
            accecn: gso.accecn,
            padded: gso.padded,
        };
        plan.take_fields(area, layout, gso.fixed_ids);
        plan.take_sums(area, layout);
        Ok(plan)
    }

    /// Takes the fields that differ from the template, and leaves zeros.
    fn take_fields(&mut self, area: &mut [u8], layout: &Layout, fixed_ids: u8) {
        let mut fixed = fixed_ids;
        for (layer, template) in layout.layers().rev().zip(&mut self.layers) {
            let at = layer.at();
            *template = Template { kind: layer.kind, at, ..UNUSED };
            template.summed = match layer.kind {
                LayerKind::Tcp => {
                    let tcp = header::at_mut::<Tcp>(area, at);
                    (self.sequence, self.flags) = (tcp.sequence.get(), tcp.offset_flags.get());
                    (tcp.sequence, tcp.offset_flags) = (0.into(), 0.into());
                    tcp.checksum = 0.into();
                    true
                }
                LayerKind::Udp => {
                    let udp = header::at_mut::<Udp>(area, at);
                    let summed = udp.checksum.get() != 0;
                    (udp.length, udp.checksum) = (0.into(), 0.into());
                    summed
                }
                LayerKind::Gre => {
                    area[at + header::GRE_CHECKSUM..][..2].fill(0);
                    true
                }
                LayerKind::Ipv4 => {
                    let ip = header::at_mut::<Ipv4>(area, at);
                    template.id = ip.id.get();
                    template.id_step = u16::from(fixed & 1 == 0);
                    fixed >>= 1;
                    (ip.total_len, ip.id, ip.checksum) = (0.into(), 0.into(), 0.into());
                    false
                }
                LayerKind::Ipv6 => {
                    header::at_mut::<Ipv6>(area, at).payload_len = 0.into();
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

    fn take_sums(&mut self, area: &[u8], layout: &Layout) {
        // With an innermost checksum that hardware completes, what lies from there on sums to what
        // that field is completed to; see `build`.
        let partial = self.field == Field::Partial;
        let inner = if partial { self.layers[0].at } else { self.header_len };
        let layers = layout.layers().rev().zip(&mut self.layers);
        for (index, (layer, template)) in layers.enumerate() {
            let at = template.at;
            template.base = match layer.kind {
                LayerKind::Ipv4 => {
                    let len = header::at::<Ipv4>(area, at).header_len();
                    Sum::of(&area[at..at + len])
                }
                LayerKind::Tcp | LayerKind::Udp | LayerKind::Gre => {
                    let end = if index == 0 { self.header_len } else { inner };
                    layout.pseudo_sum_of(area, layer, 0).plus(Sum::of(&area[at..end]))
                }
                LayerKind::Ipv6 | LayerKind::Pppoe => Sum::ZERO,
            };
        }
    }

    #[inline]
    pub(super) fn header_len(&self) -> usize {
        self.header_len
    }

    #[inline]
    pub(super) fn needs_sum(&self) -> bool {
        self.field == Field::Full
            || self.field == Field::None && self.layers[1..self.count].iter().any(|l| l.summed)
    }

    #[inline]
    pub(super) fn padded(&self) -> bool {
        self.padded
    }

    /// Completes the header in `area` for one segment, from the innermost layer out; gives its
    /// length.
    #[inline(always)]
    pub(super) fn build(&self, area: &mut [u8; HEADER_AREA], part: Part, payload: Sum) -> usize {
        // The fields written so far, as far as the checksums further out cover them; and the
        // payload.
        let (mut fields, mut payload) = (Sum::ZERO, payload);
        for (index, layer) in self.layers[..self.count].iter().enumerate() {
            let at = layer.at;
            let len = self.header_len - at + part.len;
            match layer.kind {
                LayerKind::Tcp => {
                    let (sequence, flags) = self.tcp_fields(part);
                    let own = Sum::from_fields(u64::from(sequence) + u64::from(flags));
                    let checksum = self.innermost(len, layer.base.add(own).add(payload));
                    let tcp = header::at_mut::<Tcp>(area, at);
                    tcp.sequence.set(sequence);
                    tcp.offset_flags.set(flags);
                    tcp.checksum.set(checksum);
                    fields = own.add(Sum::word(checksum));
                }
                LayerKind::Udp => {
                    let udp = header::at_mut::<Udp>(area, at);
                    let length = field_of(len);
                    udp.length.set(length);
                    fields = fields.add(Sum::word(length));
                    if layer.summed {
                        let sum = layer.base.add(fields).add(payload);
                        let checksum = if index == 0 {
                            self.innermost(len, sum)
                        } else {
                            written_checksum(LayerKind::Udp, sum.add(Sum::word(length)))
                        };
                        header::at_mut::<Udp>(area, at).checksum.set(checksum);
                        fields = fields.add(Sum::word(checksum));
                    }
                }
                LayerKind::Gre => {
                    let checksum = layer.base.add(fields).add(payload).checksum();
                    area[at + header::GRE_CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
                    fields = fields.add(Sum::word(checksum));
                }
                LayerKind::Ipv4 => {
                    let ip = header::at_mut::<Ipv4>(area, at);
                    // Counts up from the first segment's and wraps, like sequence numbers.
                    let id = layer.id.wrapping_add(layer.id_step.wrapping_mul(part.index as u16));
                    let total_len = field_of(len);
                    let own = Sum::from_fields(u64::from(id) + u64::from(total_len));
                    let checksum = layer.base.add(own).checksum();
                    ip.total_len.set(total_len);
                    ip.id.set(id);
                    ip.checksum.set(checksum);
                    fields = fields.add(own).add(Sum::word(checksum));
                }
                LayerKind::Ipv6 => {
                    let length = field_of(len - Ipv6::LEN);
                    header::at_mut::<Ipv6>(area, at).payload_len.set(length);
                    fields = fields.add(Sum::word(length));
                }
                LayerKind::Pppoe => {
                    let length = field_of(len - PPPOE_LEN);
                    area[at + PPPOE_LENGTH..][..2].copy_from_slice(&length.to_be_bytes());
                    fields = fields.add(Sum::word(length));
                }
            }
            if index == 0 && self.field == Field::Partial {
                // Hardware will make pseudo header, header and payload sum to zero: what the
                // checksums around see is the pseudo header's complement.
                fields = Sum::ZERO;
                payload = self.pseudo.add(Sum::from_fields(len as u64)).negated();
            }
        }
        self.header_len
    }

    /// The innermost checksum, `sum` being all it covers but the length in the pseudo header.
    #[inline(always)]
    fn innermost(&self, len: usize, sum: Sum) -> u16 {
        let len = Sum::from_fields(len as u64);
        match self.field {
            Field::Full => written_checksum(self.layers[0].kind, sum.add(len)),
            Field::Partial => self.pseudo.add(len).fold(),
            Field::None => 0,
        }
    }

    #[inline(always)]
    fn tcp_fields(&self, part: Part) -> (u32, u16) {
        let mut flags = self.flags;
        if !part.is_last() {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if !part.is_first() && !self.accecn {
            flags &= !tcp_flags::CWR;
        }
        (self.sequence.wrapping_add(part.start as u32), flags)
    }
}
