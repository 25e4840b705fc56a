//! Headers of TCP and UDP segments, from the large packet's header as a template.

use super::{HEADER_AREA, Part, SegmentError};
use crate::offload::coalesce::written_checksum;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, Tcp, Udp, tcp_flags};
use crate::packet::{ChecksumState, Form, Gso, Layer, LayerKind, Layout, MAX_LAYERS, Packet};

/// What goes into each segment's checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Full,
    Partial,
    None,
}

/// What the segments' headers are made from: the header area is a template with all fields zero
/// that differ, and sums over it are taken once.
#[derive(Debug)]
pub(super) struct Segmenting {
    layout: Layout,
    transport: Layer,
    gso: Gso,
    field: Field,
    sequence: u32,
    flags: u16,
    id: u16,
    /// Sums over the IPv4 headers, by layer.
    bases: [Sum; MAX_LAYERS],
    /// Pseudo header of a datagram without payload.
    pseudo: Sum,
    /// Transport header.
    header: Sum,
}

impl Segmenting {
    /// Takes from the header of `packet`, which is in `area`, what changes per segment.
    pub(super) fn new<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        gso: Gso,
        area: &mut [u8; HEADER_AREA],
    ) -> Result<Self, SegmentError> {
        let layout = *packet.layout();
        let (Form::Datagram, Some(transport), Some(network)) =
            (layout.form(), layout.transport(), layout.network())
        else {
            return Err(SegmentError::NotADatagram(layout.form()));
        };
        let (mut sequence, mut flags, mut id) = (0, 0, 0);
        let field = field_of(packet, transport);
        let pseudo = layout.pseudo_sum(area, 0).unwrap_or_default();
        if network.kind == LayerKind::Ipv4 {
            id = header::at::<Ipv4>(area, network.offset.into()).id.get();
        }
        let mut bases = [Sum::ZERO; MAX_LAYERS];
        for (layer, base) in layout.layers().iter().zip(&mut bases) {
            let at = usize::from(layer.offset);
            match layer.kind {
                LayerKind::Ipv4 => {
                    let ip = header::at_mut::<Ipv4>(area, at);
                    (ip.total_len, ip.id, ip.checksum) = (0.into(), 0.into(), 0.into());
                    let end = at + ip.header_len();
                    *base = Sum::of(&area[at..end]);
                }
                LayerKind::Tcp => {
                    let tcp = header::at_mut::<Tcp>(area, at);
                    (sequence, flags) = (tcp.sequence.get(), tcp.offset_flags.get());
                    (tcp.sequence, tcp.offset_flags) = (0.into(), 0.into());
                    if field != Field::None {
                        tcp.checksum = 0.into();
                    }
                }
                LayerKind::Udp => {
                    let udp = header::at_mut::<Udp>(area, at);
                    (udp.length, udp.checksum) = (0.into(), 0.into());
                }
                LayerKind::Ipv6 => {}
            }
        }
        let header = Sum::of(&area[usize::from(transport.offset)..layout.header_len()]);
        Ok(Self { layout, transport, gso, field, sequence, flags, id, bases, pseudo, header })
    }

    pub(super) fn header_len(&self) -> usize {
        self.layout.header_len()
    }

    pub(super) fn needs_sum(&self) -> bool {
        self.field == Field::Full
    }

    pub(super) fn padded(&self) -> bool {
        self.gso.padded
    }

    /// Completes the header in `area` for one segment; gives its length.
    pub(super) fn build(&self, area: &mut [u8], part: Part, payload: Sum) -> usize {
        // Counts up from the first segment's and wraps, like sequence numbers.
        let id = if self.gso.fixed_id { self.id } else { self.id.wrapping_add(part.index as u16) };
        let header_len = self.header_len();
        let pseudo = self.pseudo.plus(Sum::double(part.len as u32));
        let mut sum = pseudo.plus(self.header).plus(payload);
        for (layer, base) in self.layout.layers().iter().zip(&self.bases) {
            let at = usize::from(layer.offset);
            // Lengths were checked against the fields' 16 bits before.
            let len = (header_len - at + part.len) as u16;
            match layer.kind {
                LayerKind::Ipv4 => {
                    let ip = header::at_mut::<Ipv4>(area, at);
                    ip.total_len.set(len);
                    ip.id.set(id);
                    let sum = base.plus(Sum::double(u32::from(len) + u32::from(id)));
                    ip.checksum.set(sum.checksum());
                }
                LayerKind::Ipv6 => {
                    header::at_mut::<Ipv6>(area, at).payload_len.set(len - Ipv6::LEN as u16);
                }
                LayerKind::Udp => {
                    header::at_mut::<Udp>(area, at).length.set(len);
                    sum = sum.plus(Sum::word(len));
                }
                LayerKind::Tcp => {
                    let tcp = header::at_mut::<Tcp>(area, at);
                    let (sequence, flags) = self.tcp_fields(part);
                    tcp.sequence.set(sequence);
                    tcp.offset_flags.set(flags);
                    sum = sum.plus(Sum::double(sequence)).plus(Sum::word(flags));
                }
            }
        }
        let value = match self.field {
            Field::None => return header_len,
            Field::Partial => pseudo.fold(),
            Field::Full => written_checksum(self.transport.kind, sum),
        };
        let field =
            if self.transport.kind == LayerKind::Tcp { Tcp::CHECKSUM } else { Udp::CHECKSUM };
        let at = usize::from(self.transport.offset) + field;
        area[at..at + 2].copy_from_slice(&value.to_be_bytes());
        header_len
    }

    #[inline]
    fn tcp_fields(&self, part: Part) -> (u32, u16) {
        let mut flags = self.flags;
        if !part.is_last() {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if !part.is_first() && !self.gso.accecn {
            flags &= !tcp_flags::CWR;
        }
        (self.sequence.wrapping_add(part.start as u32), flags)
    }
}

/// A datagram without checksum is cut into such; one whose checksum hardware was to complete
/// leaves that to hardware.
fn field_of<B: AsRef<[u8]>>(packet: &Packet<B>, transport: Layer) -> Field {
    let at = packet.layout().checksum_offset().unwrap_or_default();
    let none = packet.bytes()[at..at + 2] == [0, 0] && transport.kind == LayerKind::Udp;
    match packet.meta.checksum {
        _ if none => Field::None,
        ChecksumState::Partial => Field::Partial,
        _ => Field::Full,
    }
}
