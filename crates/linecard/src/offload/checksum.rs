//! Checksums left to hardware, and taken back from it.
//!
//! Between a program and a device (a TAP, a virtual machine, a network interface) a packet may
//! travel with the sum of its pseudo header in the checksum field, and the last one to handle it
//! computes the rest ([`ChecksumState::Partial`]).

use crate::packet::checksum::Sum;
use crate::packet::header::be16_at;
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Layout, MAX_LAYERS, Packet};

/// Leaves the transport checksum to whoever sends the packet: the field takes the pseudo header's
/// sum. False, and nothing is changed, when the packet is no whole datagram, or carries no
/// checksum (UDP over IPv4).
///
/// Only for packets whose checksum is known to be right, as all that was merged under
/// [`ChecksumPolicy::Verify`](super::coalesce::ChecksumPolicy::Verify): a wrong one would be
/// replaced by a right one over corrupt data.
///
/// In tunnels this is the innermost checksum; those around it stay, as they will be right once the
/// inner one is. In a packet that is to be cut they get their pseudo header's sum too: whoever cuts
/// computes one for each segment.
pub fn defer_checksum<B: AsRef<[u8]> + AsMut<[u8]>>(packet: &mut Packet<B>) -> bool {
    let layout = *packet.layout();
    if !has_checksum(packet.bytes(), &layout) {
        return false;
    }
    let len = packet.payload_len();
    let cut = packet.meta.gso.is_some_and(|gso| len > usize::from(gso.size));
    let bytes = packet.bytes_mut();
    for (index, (layer, field)) in summed_layers(bytes, &layout).into_iter().flatten().enumerate() {
        if index == 0 || cut && layer.kind == LayerKind::Udp {
            let covered = layout.header_len() - layer.at() + len;
            let pseudo = layout.pseudo_sum_of(bytes, layer, covered).fold();
            bytes[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        }
    }
    packet.meta.checksum = ChecksumState::Partial;
    true
}

/// Computes the checksums that were left to hardware: what a device does with
/// [`ChecksumState::Partial`]. Payload is read. False, and nothing is changed, as in
/// [`defer_checksum`].
pub fn complete_checksum<B: AsRef<[u8]> + AsMut<[u8]>>(packet: &mut Packet<B>) -> bool {
    let layout = *packet.layout();
    if !has_checksum(packet.bytes(), &layout) {
        return false;
    }
    let (mut payload, mut odd) = (Sum::ZERO, false);
    for slice in packet.payload() {
        let sum = Sum::of(slice);
        payload = payload.plus(if odd { sum.swapped() } else { sum });
        odd ^= slice.len() % 2 == 1;
    }
    let len = packet.payload_len();
    let bytes = packet.bytes_mut();
    // From the inside out: those further out cover those further in.
    for (layer, field) in summed_layers(bytes, &layout).into_iter().flatten() {
        bytes[field..field + 2].fill(0);
        let pseudo = layout.pseudo_sum_of(bytes, layer, layout.header_len() - layer.at() + len);
        let header = Sum::of(&bytes[layer.at()..layout.header_len()]);
        let checksum = written_checksum(layer.kind, pseudo.plus(header).plus(payload));
        bytes[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    packet.meta.checksum = ChecksumState::Valid;
    true
}

fn has_checksum(bytes: &[u8], layout: &Layout) -> bool {
    layout.form() == Form::Datagram && summed_layers(bytes, layout)[0].is_some()
}

/// Layers with a checksum over payload and where it stands, innermost first; none for a UDP header
/// that carries 0, "no checksum" (RFC 768).
fn summed_layers(bytes: &[u8], layout: &Layout) -> [Option<(Layer, usize)>; MAX_LAYERS] {
    let mut found = [None; MAX_LAYERS];
    let layers = layout.layers().rev();
    let fields = layers.filter_map(|layer| Some((layer, Layout::checksum_field(layer)?)));
    for (place, (layer, field)) in found.iter_mut().zip(fields) {
        let absent = layer.kind == LayerKind::Udp && be16_at(bytes, field) == 0;
        *place = (!absent).then_some((layer, field));
    }
    found
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
