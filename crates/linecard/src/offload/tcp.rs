//! One TCP segment alone: what its header says, and whether to believe it.

use super::coalesce::ChecksumPolicy;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Tcp, be16_at, tcp_flags};
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Layout, Packet, Piece};

/// Fields of a TCP header, and the bytes of payload behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    /// Reserved bits and flags, 12 bits.
    pub(super) flags: u16,
    pub(super) window: u16,
    pub(super) len: u32,
}

impl Segment {
    /// Reads the header of a packet that is a whole TCP segment.
    pub(super) fn read<B: AsRef<[u8]>>(packet: &Packet<B>) -> Option<Self> {
        let layout = packet.layout();
        let transport = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp)?;
        if layout.form() != Form::Datagram {
            return None;
        }
        let tcp = header::at::<Tcp>(packet.bytes(), transport.at());
        Some(Self {
            sequence: tcp.sequence.get(),
            acknowledgment: tcp.acknowledgment.get(),
            flags: tcp.offset_flags.get() & 0x0FFF,
            window: tcp.window.get(),
            len: packet.payload_len() as u32,
        })
    }

    /// Whether any of these flags is set.
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// The sequence number behind it: SYN and FIN count as a byte each (RFC 9293, section 3.4).
    pub(super) fn end(&self) -> u32 {
        let ends = [tcp_flags::SYN, tcp_flags::FIN].map(|flag| u32::from(self.has(flag)));
        self.sequence.wrapping_add(self.len).wrapping_add(ends[0] + ends[1])
    }
}

/// How far `b` lies behind `a` in sequence numbers, which wrap; negative when it lies before
/// (RFC 9293, section 3.4).
#[inline]
pub(super) fn distance(a: u32, b: u32) -> i32 {
    b.wrapping_sub(a) as i32
}

/// Bytes of a frame, those of merged packets included.
pub(super) fn frame_len<B: AsRef<[u8]>>(packet: &Packet<B>) -> usize {
    packet.bytes().len() + packet.chain().iter().map(Piece::len).sum::<usize>()
}

/// Whether what a whole datagram says may steer anything: its checksums are right, or somebody who
/// is trusted says so. What has been computed is noted in the packet's metadata, so that no later
/// stage reads the payload again.
pub(super) fn vouch<B: AsRef<[u8]>>(packet: &mut Packet<B>, policy: ChecksumPolicy) -> bool {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let mut ipv4 = layout.layers().filter(|layer| layer.kind == LayerKind::Ipv4);
    if !ipv4.all(|layer| is_intact(bytes, layer)) {
        return false;
    }
    match packet.meta.checksum {
        // A partial checksum is a packet of this host: no wire has touched it.
        ChecksumState::Valid | ChecksumState::Partial => true,
        ChecksumState::Unknown if policy == ChecksumPolicy::Trust => true,
        ChecksumState::Unknown if packet.is_merged() => false,
        ChecksumState::Unknown => {
            let sums = layout.layers().filter(|layer| Layout::checksum_field(*layer).is_some());
            let right = sums.rev().all(|layer| is_right(bytes, layout, layer));
            if right {
                packet.meta.checksum = ChecksumState::Valid;
            }
            right
        }
    }
}

/// Whether an IPv4 header is as it was sent.
fn is_intact(bytes: &[u8], layer: Layer) -> bool {
    let len = header::at::<Ipv4>(bytes, layer.at()).header_len();
    Sum::of(&bytes[layer.at()..layer.at() + len]).is_valid()
}

/// Whether a checksum over payload is right, or a UDP header has none.
fn is_right(bytes: &[u8], layout: &Layout, layer: Layer) -> bool {
    let field = Layout::checksum_field(layer).map_or(0, |at| be16_at(bytes, at));
    if layer.kind == LayerKind::Udp && field == 0 {
        return true;
    }
    let covered = &bytes[layer.at()..layout.end()];
    let pseudo = layout.pseudo_sum_of(bytes, layer, covered.len());
    Sum::of(covered).plus(pseudo).is_valid()
}
