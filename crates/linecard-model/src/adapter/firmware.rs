//! The firmware's work: headers, and their part of the checksum.

use alloc::vec::Vec;
use linecard::packet::checksum::Sum;
use linecard::packet::header::{self, Ipv4, Tcp, tcp_flags};
use linecard::packet::{Form, LayerKind, Layout, LinkType};

/// A message being sent: its header, and the division of its payload.
#[derive(Debug, Clone)]
pub(super) struct Message {
    header: Vec<u8>,
    layout: Layout,
    /// Bytes of payload in total, and per packet.
    payload: usize,
    size: usize,
}

impl Message {
    /// Reads the header of a message, if it is plain TCP over IPv4.
    pub(super) fn take(bytes: &[u8], mtu: usize) -> Option<Self> {
        let layout = Layout::parse(LinkType::Ethernet, bytes);
        let kinds = layout.layers().map(|layer| layer.kind);
        if layout.form() != Form::Datagram || !kinds.eq([LayerKind::Ipv4, LayerKind::Tcp]) {
            return None;
        }
        let (network, payload) = (layout.network()?, layout.payload());
        let size = mtu.checked_sub(layout.header_len() - network.at()).filter(|&size| size > 0)?;
        let header = bytes[..layout.header_len()].to_vec();
        Some(Self { header, layout, payload: payload.len(), size })
    }

    pub(super) fn header_len(&self) -> usize {
        self.header.len()
    }

    /// Number of packets: one if the data fits.
    pub(super) fn packets(&self) -> usize {
        self.payload.div_ceil(self.size).max(1)
    }

    /// Offset of a packet's payload in the message, and its length.
    pub(super) fn part(&self, index: usize) -> (usize, usize) {
        let start = index * self.size;
        (start, self.size.min(self.payload - start))
    }

    /// Offset of the checksum that the device has to complete.
    pub(super) fn checksum_at(&self) -> usize {
        self.layout.checksum_offset().unwrap_or_default()
    }

    /// The header of a packet. Its checksum field holds the sum of pseudo header and header, to
    /// which the device adds the payload.
    pub(super) fn header(&self, index: usize) -> Vec<u8> {
        let mut area = self.header.clone();
        let (Some(network), Some(transport)) = (self.layout.network(), self.layout.transport())
        else {
            return area;
        };
        let (start, len) = self.part(index);
        let (is_first, is_last) = (index == 0, index + 1 == self.packets());
        let ip_len = self.header_len() - network.at() + len;
        let mut ip = header::at::<Ipv4>(&area, network.at());
        ip.total_len = ip_len as u16;
        ip.id = ip.id.wrapping_add(index as u16);
        ip.checksum = 0;
        header::put(&mut area, network.at(), &ip);
        let sum = Sum::of(&area[network.at()..transport.at()]);
        header::set_be16(&mut area, network.at() + Ipv4::CHECKSUM, sum.checksum());

        let mut tcp = header::at::<Tcp>(&area, transport.at());
        tcp.sequence = tcp.sequence.wrapping_add(start as u32);
        let mut flags = tcp.offset_flags;
        if !is_last {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if !is_first {
            flags &= !tcp_flags::CWR;
        }
        tcp.offset_flags = flags;
        tcp.checksum = 0;
        header::put(&mut area, transport.at(), &tcp);
        let pseudo = self.layout.pseudo_sum(&area, len).unwrap_or(Sum::ZERO);
        let sum = pseudo.plus(Sum::of(&area[transport.at()..]));
        header::set_be16(&mut area, transport.at() + Tcp::CHECKSUM, sum.fold());
        area
    }
}
