//! Checksum offload: deferring a checksum to hardware, completing a deferred one, and verifying one.
//!
//! Between a program and a device (a TAP, a virtual machine, a network interface) a packet may
//! carry only the sum of its pseudo header in the checksum field; the device completes the checksum
//! ([`ChecksumState::Partial`]).

use crate::packet::checksum::Sum;
use crate::packet::header::be16_at;
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Layout, MAX_LAYERS, Packet};

/// Defers the transport checksum to the sending device: the field is set to the sum of the pseudo
/// header. Returns false, and changes nothing, if the packet is not a complete datagram or carries
/// no checksum (UDP over IPv4).
///
/// The checksum must be known to be valid, as that of every packet merged under
/// [`ChecksumPolicy::Verify`](super::coalesce::ChecksumPolicy::Verify): otherwise corrupt data
/// would get a valid checksum.
///
/// In tunnels this defers the innermost checksum; outer checksums stay, and are valid once the
/// inner one is completed. If the packet is to be segmented, outer checksums are deferred too,
/// because the segmenting device computes one for each segment.
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

/// Completes the checksums that were deferred, as a device does for [`ChecksumState::Partial`].
/// This reads the payload. Returns false, and changes nothing, as [`defer_checksum`] does.
pub fn complete_checksum<B: AsRef<[u8]> + AsMut<[u8]>>(packet: &mut Packet<B>) -> bool {
    let layout = *packet.layout();
    if !has_checksum(packet.bytes(), &layout) {
        return false;
    }
    let (payload, len) = (payload_sum(packet), packet.payload_len());
    let bytes = packet.bytes_mut();
    // From the innermost layer to the outermost, because outer checksums cover the inner ones.
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

/// Whether the transport checksum is right; in tunnels, the innermost one. This reads the payload.
/// None if the packet is not a complete datagram, or carries no checksum (UDP over IPv4).
///
/// A deferred checksum ([`ChecksumState::Partial`]) is wrong until it is completed.
///
/// ```
/// use linecard::offload::verify_checksum;
/// use linecard::packet::{LinkType, Meta, Packet};
/// let mut bytes = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// bytes.extend([0, 7, 0, 9, 0, 10, 0xEA, 0xC5, 1, 2]);
/// let verify = |bytes: &[u8]| verify_checksum(&Packet::new(bytes, LinkType::Raw, Meta::default()));
/// assert_eq!(verify(&bytes), Some(true));
/// bytes[29] = 3;
/// assert_eq!(verify(&bytes), Some(false));
/// // No checksum (RFC 768).
/// bytes[26..28].fill(0);
/// assert_eq!(verify(&bytes), None);
/// ```
#[must_use]
pub fn verify_checksum<B: AsRef<[u8]>>(packet: &Packet<B>) -> Option<bool> {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let transport = layout.transport().filter(|_| has_checksum(bytes, layout))?;
    let pseudo = layout.pseudo_sum(bytes, packet.payload_len())?;
    let header = Sum::of(&bytes[transport.at()..layout.header_len()]);
    Some(pseudo.plus(header).plus(payload_sum(packet)).is_valid())
}

fn payload_sum<B: AsRef<[u8]>>(packet: &Packet<B>) -> Sum {
    let (mut payload, mut odd) = (Sum::ZERO, false);
    for slice in packet.payload() {
        let sum = Sum::of(slice);
        payload = payload.plus(if odd { sum.swapped() } else { sum });
        odd ^= slice.len() % 2 == 1;
    }
    payload
}

fn has_checksum(bytes: &[u8], layout: &Layout) -> bool {
    layout.form() == Form::Datagram && summed_layers(bytes, layout)[0].is_some()
}

/// Layers with a checksum over payload, and the offset of their checksum field, innermost first. A
/// UDP header with checksum 0, "no checksum" (RFC 768), is left out.
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

/// A length as a 16-bit field: 0 if it does not fit ("BIG TCP").
#[inline]
pub(super) fn field_of(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}

/// The value of the checksum field: UDP replaces 0 by 0xFFFF, because 0 means "no checksum" (RFC
/// 768).
#[inline]
pub(super) fn written_checksum(kind: LayerKind, sum: Sum) -> u16 {
    match (kind, sum.checksum()) {
        (LayerKind::Udp, 0) => 0xFFFF,
        (_, checksum) => checksum,
    }
}
