//! Patches the header of the first packet into that of the merged packet: lengths and flags are
//! those of the whole, and checksums are computed from those of the segments without reading
//! payload (RFC 1624).

use super::aggregate::Aggregate;
use super::candidate::{ChecksumKind, Padding};
use crate::offload::checksum::{field_of, written_checksum};
use crate::packet::checksum::Sum;
use crate::packet::header::{
    self, GRE_CHECKSUM, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Tcp, Udp, be16_at, protocol, tcp_flags,
};
use crate::packet::{
    ChecksumState, Gso, Layer, LayerKind, Layout, MAX_HEADER_LEN, Packet, pseudo_sum,
};

/// Layers patched so far, from the innermost to the outermost.
#[derive(Default)]
struct Inside {
    /// Sum of the patched fields that segmenting derives.
    fields: u64,
    /// Headers with a checksum over payload.
    sums: usize,
    /// The flag word of the first packet.
    flags: u16,
    /// The IP header of a packet without tunnels.
    network: Option<Layer>,
}

/// Bytes of both addresses.
const IPV4_ENDS: usize = 8;
const IPV6_ENDS: usize = 32;

/// A header whose checksum covers payload.
struct Covering {
    layer: Layer,
    /// The sums of its derived fields, checksum included, in the first packet, and after patching
    /// without the checksum; without the pseudo header.
    before: u64,
    after: u64,
    /// Length in the pseudo header.
    length: u64,
}

impl Aggregate {
    /// Turns the header of the first packet into that of the merged packet.
    pub(super) fn patch<B: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<B>) {
        let layout = *packet.layout();
        let is_usual =
            self.summed == 1 && self.checksum != ChecksumKind::None && self.size.is_multiple_of(2);
        let bytes = &mut packet.bytes_mut()[..layout.header_len()];
        let flags = match layout.usual_layers().filter(|_| is_usual) {
            Some(layers) => {
                let expected = cfg!(debug_assertions).then(|| {
                    let mut header = [0; MAX_HEADER_LEN];
                    header[..bytes.len()].copy_from_slice(bytes);
                    let flags = self.patch_layers(&mut header[..bytes.len()], &layout);
                    (header, flags)
                });
                let flags = self.patch_usual(bytes, layers);
                debug_assert!(
                    expected.is_none_or(|(header, of)| (&header[..bytes.len()], of) == (&*bytes, flags))
                );
                flags
            }
            None => self.patch_layers(bytes, &layout),
        };
        if self.checksum == ChecksumKind::Partial {
            packet.meta.checksum = ChecksumState::Partial;
        }
        packet.meta.gso = Some(Gso {
            // The payload of an IP packet is below 2¹⁶ bytes.
            size: self.size as u16,
            segments: self.grown.count,
            fixed_ids: self.grown.fixed_ids,
            accecn: flags & tcp_flags::CWR != 0,
            padded: self.padding == Padding::Zeros,
        });
    }

    /// Patches the usual headers, of which the addresses lie right before the transport header; returns the flag word
    /// of the first packet. The size of segments is even.
    #[inline(always)]
    fn patch_usual(&self, bytes: &mut [u8], (network, transport): (Layer, Layer)) -> u16 {
        let at = transport.at();
        let len = bytes.len() - at + self.grown.payload_len as usize;
        let ends = match network.kind {
            LayerKind::Ipv4 => {
                patch_ipv4(bytes, network.at(), len + Ipv4::LEN);
                IPV4_ENDS
            }
            _ => {
                header::set_be16(bytes, network.at() + Ipv6::PAYLOAD_LEN, field_of(len));
                IPV6_ENDS
            }
        };
        let (before, after, number, flags, place) = if transport.kind == LayerKind::Tcp {
            let tcp = header::at::<Tcp>(bytes, at);
            let all = tcp.offset_flags | self.grown.last_flags & (tcp_flags::PSH | tcp_flags::FIN);
            header::set_be16(bytes, at + Tcp::OFFSET_FLAGS, all);
            let sequence = u64::from(tcp.sequence);
            // The flag word is summed below as it is now.
            let before = sequence + u64::from(all) + u64::from(tcp.checksum);
            let after = sequence + u64::from(all);
            (before, after, protocol::TCP, tcp.offset_flags, Tcp::CHECKSUM)
        } else {
            let udp = header::at::<Udp>(bytes, at);
            let length = field_of(len);
            header::set_be16(bytes, at + Udp::LENGTH, length);
            let before = u64::from(length) + u64::from(udp.checksum);
            (before, u64::from(length), protocol::UDP, 0, Udp::CHECKSUM)
        };
        let length = if transport.kind == LayerKind::Tcp { len } else { field_of(len).into() };
        let around = u64::from(number) + length as u64;
        let checksum = if self.checksum == ChecksumKind::Partial {
            header_sum(&bytes[at - ends..at]).add(Sum::from_fields(around)).fold()
        } else {
            // The part that all packets have in common: it is in the whole once, and was in each of them.
            let all = header_sum(&bytes[at - ends..]).add(Sum::from_fields(number.into()));
            let common = all.add(Sum::from_fields(before).negated());
            let without = common.negated().times(u32::from(self.grown.count) - 1);
            let fields = Sum::from_fields(self.grown.fields[0]).negated();
            let whole = without.add(fields).add(Sum::from_fields(after + length as u64));
            written_checksum(transport.kind, whole)
        };
        header::set_be16(bytes, at + place, checksum);
        flags
    }

    /// Patches all layers; returns the flag word of the first packet.
    #[inline(never)]
    fn patch_layers(&self, bytes: &mut [u8], layout: &Layout) -> u16 {
        let mut inside = Inside::default();
        if let (2, Some(network), Some(transport)) =
            (layout.layer_count(), layout.layer(0), layout.layer(1))
        {
            // Unrolled: most packets have two layers.
            inside.network = Some(network).filter(|layer| layer.kind.is_ip());
            self.patch_layer(bytes, (layout, transport), &mut inside);
            self.patch_layer(bytes, (layout, network), &mut inside);
        } else {
            for layer in layout.layers().rev() {
                self.patch_layer(bytes, (layout, layer), &mut inside);
            }
        }
        inside.flags
    }

    #[inline(always)]
    fn patch_layer(
        &self,
        bytes: &mut [u8],
        (layout, layer): (&Layout, Layer),
        inside: &mut Inside,
    ) {
        let at = layer.at();
        let len = bytes.len() - at + self.grown.payload_len as usize;
        inside.fields += match layer.kind {
            LayerKind::Tcp => {
                let tcp = header::at::<Tcp>(bytes, at);
                let (sequence, flags) = (u64::from(tcp.sequence), tcp.offset_flags);
                let before = sequence + u64::from(flags) + u64::from(tcp.checksum);
                let all = flags | self.grown.last_flags & (tcp_flags::PSH | tcp_flags::FIN);
                let after = sequence + u64::from(all);
                let covering = Covering { layer, before, after, length: len as u64 };
                let checksum = self.checksum(bytes, (layout, covering), inside);
                let tcp = header::chunk_mut::<{ Tcp::LEN }>(bytes, at);
                header::set_be16(tcp, Tcp::OFFSET_FLAGS, all);
                header::set_be16(tcp, Tcp::CHECKSUM, checksum);
                inside.flags = flags;
                after + u64::from(checksum)
            }
            LayerKind::Udp => {
                let udp = header::at::<Udp>(bytes, at);
                let before = u64::from(udp.length) + u64::from(udp.checksum);
                let length = field_of(len);
                let after = u64::from(length);
                let covering = Covering { layer, before, after, length: after };
                let checksum = self.checksum(bytes, (layout, covering), inside);
                let udp = header::chunk_mut::<{ Udp::LEN }>(bytes, at);
                header::set_be16(udp, Udp::LENGTH, length);
                header::set_be16(udp, Udp::CHECKSUM, checksum);
                after + u64::from(checksum)
            }
            LayerKind::Gre => {
                let before = u64::from(be16_at(bytes, at + GRE_CHECKSUM));
                let covering = Covering { layer, before, after: 0, length: 0 };
                let checksum = self.checksum(bytes, (layout, covering), inside);
                header::set_be16(bytes, at + GRE_CHECKSUM, checksum);
                u64::from(checksum)
            }
            LayerKind::Ipv4 => {
                let Ipv4 { total_len, id, checksum, .. } = patch_ipv4(bytes, at, len);
                u64::from(total_len) + u64::from(id) + u64::from(checksum)
            }
            LayerKind::Ipv6 => {
                let length = field_of(len - Ipv6::LEN);
                header::set_be16(bytes, at + Ipv6::PAYLOAD_LEN, length);
                u64::from(length)
            }
            LayerKind::Pppoe => {
                let length = field_of(len - PPPOE_LEN);
                header::set_be16(bytes, at + PPPOE_LENGTH, length);
                u64::from(length)
            }
        };
    }

    /// The checksum of a header around payload, after the inner headers have been patched.
    #[inline(always)]
    fn checksum(
        &self,
        header: &[u8],
        (layout, covering): (&Layout, Covering),
        inside: &mut Inside,
    ) -> u16 {
        let nth = inside.sums;
        inside.sums += 1;
        if self.summed & 1 << nth == 0 {
            return 0;
        }
        let layer = covering.layer;
        let pseudo = match (inside.network, layer.kind) {
            (Some(network), LayerKind::Tcp) => pseudo_sum(header, network, protocol::TCP, 0),
            (Some(network), LayerKind::Udp) => pseudo_sum(header, network, protocol::UDP, 0),
            _ => layout.pseudo_sum_of(header, layer, 0),
        };
        let length = Sum::from_fields(covering.length);
        if self.checksum == ChecksumKind::Partial {
            return pseudo.add(length).fold();
        }
        // The part that all packets have in common.
        let whole = pseudo.plus(Sum::of(&header[layer.at()..]));
        let common = whole.minus(Sum::from_fields(covering.before + inside.fields));
        let after = Sum::from_fields(covering.after + inside.fields);
        let all = common.plus(after).plus(length).plus(self.payload_sum(nth, common));
        written_checksum(layer.kind, all)
    }

    /// The sum of all payload, from the packets' own checksum fields: in each packet, pseudo
    /// header, headers and payload sum to zero. Corrupt payload gives a wrong sum, and so a
    /// checksum that still fails at the receiver.
    #[inline(always)]
    fn payload_sum(&self, nth: usize, common: Sum) -> Sum {
        let [even, odd] = match nth.checked_sub(1) {
            None => self.grown.fields,
            Some(outer) => self.outer[outer % self.outer.len()],
        };
        let of = |packets: u16, fields| {
            common.times(packets.into()).plus(Sum::from_fields(fields)).negated()
        };
        if self.size.is_multiple_of(2) {
            return of(self.grown.count, even);
        }
        let odds = self.grown.count / 2;
        of(self.grown.count - odds, even).plus(of(odds, odd).swapped())
    }
}

/// The sum over addresses, and over a transport header behind them. Their usual lengths are constants, for which the
/// sum takes a few instructions.
#[inline(always)]
fn header_sum(bytes: &[u8]) -> Sum {
    const UDP: usize = IPV4_ENDS + Udp::LEN;
    const TCP: usize = IPV4_ENDS + Tcp::LEN;
    const TCP_TIMESTAMPS: usize = TCP + 12;
    match bytes.len() {
        UDP => Sum::of_words(header::chunk::<UDP>(bytes, 0)),
        TCP => Sum::of_words(header::chunk::<TCP>(bytes, 0)),
        TCP_TIMESTAMPS => Sum::of_words(header::chunk::<TCP_TIMESTAMPS>(bytes, 0)),
        _ => Sum::of(bytes),
    }
}

/// Patches an IPv4 header for a datagram of `len` bytes; returns it (RFC 1624, section 3).
#[inline(always)]
fn patch_ipv4(bytes: &mut [u8], at: usize, len: usize) -> Ipv4 {
    let ip = header::at::<Ipv4>(bytes, at);
    let total_len = field_of(len);
    let sum = Sum::word(!ip.checksum).add(Sum::word(!ip.total_len));
    let checksum = sum.add(Sum::word(total_len)).checksum();
    let header = header::chunk_mut::<{ Ipv4::LEN }>(bytes, at);
    header::set_be16(header, Ipv4::TOTAL_LEN, total_len);
    header::set_be16(header, Ipv4::CHECKSUM, checksum);
    Ipv4 { total_len, checksum, ..ip }
}
