//! Headers of TCP and UDP segments, from the large packet's header as a template.

use super::{HEADER_AREA, Part, SegmentError};
use crate::offload::coalesce::written_checksum;
use crate::offload::set_lengths;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Tcp, tcp_flags};
use crate::packet::{ChecksumState, Form, Gso, Layer, LayerKind, Layout, Packet};

/// What goes into each segment's checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Full,
    Partial,
    None,
}

/// What the segments' headers are made from.
#[derive(Debug)]
pub(super) struct Segmenting {
    layout: Layout,
    transport: Layer,
    gso: Gso,
    field: Field,
    sequence: u32,
    flags: u16,
    id: u16,
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
        if transport.kind == LayerKind::Tcp {
            let tcp = header::at::<Tcp>(area, transport.offset.into());
            (sequence, flags) = (tcp.sequence.get(), tcp.offset_flags.get());
        }
        if network.kind == LayerKind::Ipv4 {
            id = header::at::<Ipv4>(area, network.offset.into()).id.get();
        }
        let field = field_of(packet, transport);
        Ok(Self { layout, transport, gso, field, sequence, flags, id })
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
        for layer in self.layout.layers() {
            if layer.kind == LayerKind::Ipv4 {
                header::at_mut::<Ipv4>(area, layer.offset.into()).id.set(id);
            }
        }
        set_lengths(area, &self.layout, part.len);
        if self.transport.kind == LayerKind::Tcp {
            self.set_tcp(area, part);
        }
        self.set_checksum(area, part.len, payload);
        self.header_len()
    }

    fn set_tcp(&self, area: &mut [u8], part: Part) {
        let mut flags = self.flags;
        if !part.is_last() {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if !part.is_first() && !self.gso.accecn {
            flags &= !tcp_flags::CWR;
        }
        let tcp = header::at_mut::<Tcp>(area, self.transport.offset.into());
        tcp.sequence.set(self.sequence.wrapping_add(part.start as u32));
        tcp.offset_flags.set(flags);
    }

    fn set_checksum(&self, area: &mut [u8], payload_len: usize, payload: Sum) {
        let (Some(at), Some(pseudo)) =
            (self.layout.checksum_offset(), self.layout.pseudo_sum(area, payload_len))
        else {
            return;
        };
        let value = match self.field {
            Field::None => return,
            Field::Partial => pseudo.fold(),
            Field::Full => {
                area[at..at + 2].fill(0);
                let header = &area[usize::from(self.transport.offset)..self.header_len()];
                written_checksum(self.transport.kind, pseudo.plus(Sum::of(header)).plus(payload))
            }
        };
        area[at..at + 2].copy_from_slice(&value.to_be_bytes());
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
