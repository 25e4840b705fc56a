//! Parsing and verifying a single TCP segment.

use super::coalesce::ChecksumPolicy;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, Tcp, be16_at, tcp_flags};
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Layout, Packet, Piece};

/// Fields of a TCP header, and the length of the payload.
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
    /// Reads the header of a packet that is a complete TCP segment.
    pub(super) fn read<B: AsRef<[u8]>>(packet: &Packet<B>) -> Option<Self> {
        let layout = packet.layout();
        let transport = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp)?;
        if layout.form() != Form::Datagram {
            return None;
        }
        let tcp = header::at::<Tcp>(packet.bytes(), transport.at());
        Some(Self {
            sequence: tcp.sequence,
            acknowledgment: tcp.acknowledgment,
            flags: tcp.offset_flags & 0x0FFF,
            window: tcp.window,
            len: packet.payload_len() as u32,
        })
    }

    /// Whether any of these flags is set.
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// The sequence number after this segment: SYN and FIN count as one byte each (RFC 9293,
    /// section 3.4).
    pub(super) fn end(&self) -> u32 {
        let ends = [tcp_flags::SYN, tcp_flags::FIN].map(|flag| u32::from(self.has(flag)));
        self.sequence.wrapping_add(self.len).wrapping_add(ends[0] + ends[1])
    }
}

/// The options of a TCP header that are of interest here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The sender's clock, and the echo of its peer's (RFC 7323, section 3).
    pub(super) timestamps: Option<(u32, u32)>,
    /// The window scale of a SYN (RFC 7323, section 2).
    pub(super) window_scale: Option<u8>,
    /// There are other options, or malformed ones.
    pub(super) others: bool,
}

impl Options {
    /// Reads the options of a packet that is a complete TCP segment.
    pub(super) fn read<B: AsRef<[u8]>>(packet: &Packet<B>) -> Self {
        let mut options = Self::default();
        let Some(transport) = packet.layout().transport() else { return options };
        let mut rest = &packet.header()[transport.at() + Tcp::LEN..];
        // Each iteration consumes at least one byte, and there are at most 40.
        loop {
            match rest {
                // End of the options; padding follows.
                [] | [0, ..] => return options,
                [1, behind @ ..] => rest = behind,
                [kind, len, ..] if usize::from(*len) >= 2 && usize::from(*len) <= rest.len() => {
                    let (option, behind) = rest.split_at(usize::from(*len));
                    options.take(*kind, &option[2..]);
                    rest = behind;
                }
                _ => {
                    options.others = true;
                    return options;
                }
            }
        }
    }

    fn take(&mut self, kind: u8, body: &[u8]) {
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        match (kind, body.len()) {
            (8, 8) => self.timestamps = Some((word(0), word(4))),
            (3, 1) => self.window_scale = Some(body[0]),
            _ => self.others = true,
        }
    }
}

/// The signed distance from sequence number `a` to `b`, modulo 2³²; negative if `b` lies before `a`
/// (RFC 9293, section 3.4).
#[inline]
pub(super) fn distance(a: u32, b: u32) -> i32 {
    b.wrapping_sub(a) as i32
}

/// Bytes of a frame, including those of merged packets.
pub(super) fn frame_len<B: AsRef<[u8]>>(packet: &Packet<B>) -> usize {
    packet.bytes().len() + packet.chain().iter().map(Piece::len).sum::<usize>()
}

/// Whether a complete datagram may be acted upon: its checksums are verified here or were verified
/// by a trusted port. The result is recorded in the packet's metadata, so that no later stage reads
/// the payload again.
pub(super) fn vouch<B: AsRef<[u8]>>(packet: &mut Packet<B>, policy: ChecksumPolicy) -> bool {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let mut ipv4 = layout.layers().filter(|layer| layer.kind == LayerKind::Ipv4);
    if !ipv4.all(|layer| is_intact(bytes, layer)) {
        return false;
    }
    match packet.meta.checksum {
        // A packet with a partial checksum comes from this host and was never on a wire.
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

/// Whether the checksum of an IPv4 header is valid.
fn is_intact(bytes: &[u8], layer: Layer) -> bool {
    let len = header::at::<Ipv4>(bytes, layer.at()).header_len();
    Sum::of(&bytes[layer.at()..layer.at() + len]).is_valid()
}

/// Whether a checksum over payload is valid, or absent in UDP.
fn is_right(bytes: &[u8], layout: &Layout, layer: Layer) -> bool {
    let field = Layout::checksum_field(layer).map_or(0, |at| be16_at(bytes, at));
    if layer.kind == LayerKind::Udp && field == 0 {
        return true;
    }
    let covered = &bytes[layer.at()..layout.end()];
    let pseudo = layout.pseudo_sum_of(bytes, layer, covered.len());
    Sum::of(covered).plus(pseudo).is_valid()
}

/// The traffic class (DSCP and ECN) of every IP header of a packet.
pub(super) fn traffic_classes<B: AsRef<[u8]>>(packet: &Packet<B>) -> impl Iterator<Item = u8> {
    let bytes = packet.bytes();
    let ip = packet.layout().layers().filter(|layer| layer.kind.is_ip());
    ip.map(move |layer| match layer.kind {
        LayerKind::Ipv4 => header::at::<Ipv4>(bytes, layer.at()).tos,
        _ => (header::at::<Ipv6>(bytes, layer.at()).version_class_label >> 20) as u8,
    })
}

/// Whether any IP header is marked "congestion experienced" (RFC 3168, section 5).
pub(super) fn is_marked<B: AsRef<[u8]>>(packet: &Packet<B>) -> bool {
    traffic_classes(packet).any(|class| class & 3 == 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{LinkType, Meta};
    use alloc::vec::Vec;

    fn options(bytes: &[u8]) -> Options {
        let mut frame: Vec<u8> =
            [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2].to_vec();
        frame[3] += bytes.len() as u8;
        frame.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0x10, 1, 0, 0, 0, 0, 0]);
        frame[32] = (5 + bytes.len() as u8 / 4) << 4;
        frame.extend(bytes);
        Options::read(&Packet::new(frame, LinkType::Raw, Meta::default()))
    }

    #[test]
    fn options_are_told_apart() {
        let none = Options::default();
        assert_eq!(options(&[]), none);
        assert_eq!(options(&[1, 1, 1, 0]), none);
        // Bytes behind the end are padding.
        assert_eq!(options(&[1, 0, 5, 10]), none);
        let timestamps = Options { timestamps: Some((1, 2)), ..none };
        assert_eq!(options(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]), timestamps);
        assert_eq!(options(&[3, 3, 7, 1]), Options { window_scale: Some(7), ..none });
        let others = Options { others: true, ..none };
        // Selective acknowledgment permitted; maximum segment size; lengths that lie.
        for bytes in [[4, 2, 1, 1], [2, 4, 5, 180], [8, 4, 0, 0], [9, 1, 0, 0], [9, 7, 0, 0]] {
            assert_eq!(options(&bytes), others, "{bytes:?}");
        }
    }

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!((distance(u32::MAX, 4), distance(4, u32::MAX)), (5, -5));
    }
}
