//! Headers of segments, made from that of the packet that is cut.
//!
//! All fields that differ between the packets that make up a large one
//! are taken out, the rest is summed once, and each header is then completed from the innermost
//! layer out.

use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Tcp, Udp, tcp_flags};
use crate::packet::{LayerKind, Layout, MAX_LAYERS};

/// What goes into the innermost checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The checksum of the whole.
    Full,
    /// The pseudo header's sum: hardware completes it.
    Partial,
    /// Nothing (UDP).
    None,
}

/// What of a layer is the same in all packets.
#[derive(Debug, Clone, Copy)]
struct LayerTemplate {
    kind: LayerKind,
    at: usize,
    /// The first packet's IPv4 identification, and what each further one adds.
    id: u16,
    id_step: u16,
    /// Whether there is a checksum over payload.
    summed: bool,
    /// The sum of all that the layer's checksum covers but does not change.
    base: Sum,
}

const UNUSED: LayerTemplate = LayerTemplate {
    kind: LayerKind::Tcp,
    at: 0,
    id: 0,
    id_step: 0,
    summed: false,
    base: Sum::ZERO,
};

impl LayerTemplate {
    /// Completes a UDP or GRE header around a tunnel of which `behind` is the sum; gives the sum of
    /// what was written.
    fn write_tunnel(&self, area: &mut [u8], length: u16, behind: Sum) -> Sum {
        let (own, field) = match self.kind {
            LayerKind::Udp => (Sum::word(length), Udp::CHECKSUM),
            _ => (Sum::ZERO, header::GRE_CHECKSUM),
        };
        if self.kind == LayerKind::Udp {
            header::at_mut::<Udp>(area, self.at).length.set(length);
        }
        if !self.summed {
            return own;
        }
        // UDP's length is in the pseudo header, too.
        let checksum = written_checksum(self.kind, self.base.add(own).add(own).add(behind));
        area[self.at + field..][..2].copy_from_slice(&checksum.to_be_bytes());
        own.add(Sum::word(checksum))
    }
}

/// What has been written of a header, from the inside out.
struct Written {
    /// Sum of the fields, as far as the checksums further out cover them.
    fields: Sum,
    /// What stands for the payload where hardware completes the innermost checksum.
    completed: Option<Sum>,
    /// Headers with checksums over payload so far.
    nth: usize,
}

/// Which packet a header is for.
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

/// What headers are made from.
#[derive(Debug)]
pub(super) struct Template {
    header_len: usize,
    /// Innermost first.
    layers: [LayerTemplate; MAX_LAYERS],
    count: usize,
    field: Field,
    /// The innermost pseudo header, its length aside.
    pseudo: Sum,
    sequence: u32,
    flags: u16,
    accecn: bool,
}

impl Template {
    /// Takes from the header of a packet what changes, and leaves zeros. `fixed_ids` and `accecn`
    /// are as in [`Gso`](crate::packet::Gso).
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

    /// Takes the fields that differ from the template, and leaves zeros.
    fn take_fields(&mut self, area: &mut [u8], layout: &Layout, fixed_ids: u8) {
        let mut fixed = fixed_ids;
        for (layer, template) in layout.layers().rev().zip(&mut self.layers) {
            let at = layer.at();
            *template = LayerTemplate { kind: layer.kind, at, ..UNUSED };
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
        // that field is completed to; see `write`.
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

    /// Whether payload has to be summed.
    #[inline]
    pub(super) fn needs_sum(&self) -> bool {
        self.field == Field::Full
            || self.field == Field::None && self.layers[1..self.count].iter().any(|l| l.summed)
    }

    /// Completes the header in `area`, from the innermost layer out. `payload` gives the sum of the
    /// payload for the nth header that has a checksum over it.
    #[inline(always)]
    pub(super) fn write(&self, area: &mut [u8], part: Portion, payload: impl Fn(usize) -> Sum) {
        let area = &mut area[..self.header_len];
        let mut written = Written { fields: Sum::ZERO, completed: None, nth: 0 };
        if let ([inner, network, ..], 2) = (&self.layers, self.count) {
            // Unrolled: most packets have no more.
            self.write_innermost(area, (inner, part), &mut written, payload(0));
            self.write_outer(area, (network, part), &mut written, payload);
            return;
        }
        for (index, layer) in self.layers[..self.count].iter().enumerate() {
            if index == 0 {
                self.write_innermost(area, (layer, part), &mut written, payload(0));
            } else {
                self.write_outer(area, (layer, part), &mut written, &payload);
            }
        }
    }

    /// Completes TCP, or UDP that carries no tunnel.
    #[inline(always)]
    fn write_innermost(
        &self,
        area: &mut [u8],
        (layer, part): (&LayerTemplate, Portion),
        written: &mut Written,
        payload: Sum,
    ) {
        let len = self.header_len - layer.at + part.len;
        written.nth = 1;
        if layer.kind == LayerKind::Tcp {
            let (sequence, flags) = self.tcp_fields(part);
            let own = Sum::from_fields(u64::from(sequence) + u64::from(flags));
            let checksum = self.innermost(len, layer.base.add(own).add(payload));
            let tcp = header::at_mut::<Tcp>(area, layer.at);
            tcp.sequence.set(sequence);
            tcp.offset_flags.set(flags);
            tcp.checksum.set(checksum);
            written.fields = own.add(Sum::word(checksum));
        } else {
            let length = field_of(len);
            let own = Sum::word(length);
            let checksum = self.innermost(len, layer.base.add(own).add(payload));
            let udp = header::at_mut::<Udp>(area, layer.at);
            udp.length.set(length);
            udp.checksum.set(checksum);
            written.fields = own.add(Sum::word(checksum));
        }
        if self.field == Field::Partial {
            // Hardware will make pseudo header, header and payload sum to zero: what the checksums
            // around see is the pseudo header's complement.
            written.fields = Sum::ZERO;
            written.completed = Some(self.pseudo.add(Sum::from_fields(len as u64)).negated());
        }
    }

    /// Completes a header around the innermost transport.
    #[inline(always)]
    fn write_outer(
        &self,
        area: &mut [u8],
        (layer, part): (&LayerTemplate, Portion),
        written: &mut Written,
        payload: impl Fn(usize) -> Sum,
    ) {
        let at = layer.at;
        let len = self.header_len - at + part.len;
        let own = match layer.kind {
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
                own.add(Sum::word(checksum))
            }
            LayerKind::Ipv6 => {
                let length = field_of(len - Ipv6::LEN);
                header::at_mut::<Ipv6>(area, at).payload_len.set(length);
                Sum::word(length)
            }
            LayerKind::Pppoe => {
                let length = field_of(len - PPPOE_LEN);
                area[at + PPPOE_LENGTH..][..2].copy_from_slice(&length.to_be_bytes());
                Sum::word(length)
            }
            LayerKind::Udp | LayerKind::Gre => {
                let payload = written.completed.unwrap_or_else(|| payload(written.nth));
                written.nth += 1;
                layer.write_tunnel(area, field_of(len), written.fields.add(payload))
            }
            // It carries nothing further in.
            LayerKind::Tcp => Sum::ZERO,
        };
        written.fields = written.fields.add(own);
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
    fn tcp_fields(&self, part: Portion) -> (u32, u16) {
        let mut flags = self.flags;
        if !part.is_last {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if !part.is_first && !self.accecn {
            flags &= !tcp_flags::CWR;
        }
        (self.sequence.wrapping_add(part.start as u32), flags)
    }
}

/// A length as its field of 16 bits has it: 0 where it does not fit ("BIG TCP").
#[inline]
pub(super) fn field_of(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}

/// The checksum as senders write it: UDP sends 0xFFFF for 0, which would mean "none" (RFC 768).
#[inline]
pub(super) fn written_checksum(kind: LayerKind, sum: Sum) -> u16 {
    match (kind, sum.checksum()) {
        (LayerKind::Udp, 0) => 0xFFFF,
        (_, checksum) => checksum,
    }
}
