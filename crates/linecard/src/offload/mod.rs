//! The two offloads: [`coalesce`] (LRO) merges received packets, [`segment`] (LSO) cuts large
//! ones. `segment(coalesce(x)) == x`, byte for byte, for everything merged. [`reassemble`] puts IP
//! fragments together, so that what comes behind sees whole datagrams; [`resequence`] gives TCP data
//! on in the order of its sequence numbers; [`ack_filter`] lets a newer acknowledgment stand for older
//! ones; [`active_ack`] acknowledges held data on the receiver's behalf.
//!
//! They work on a packet's layers (see [`crate::packet::Layout`]): rules for a layer are written once and
//! multiply with those of the others, so that no combination of protocols is enumerated.

pub mod ack_filter;
pub mod active_ack;
pub mod coalesce;
mod ends;
mod flows;
mod lists;
pub mod reason;
pub mod reassemble;
pub mod resequence;
pub mod segment;
mod tcp;
mod timer;

use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Udp};
use crate::packet::{LayerKind, Layout};

/// Sets the length fields of every layer for `payload_len` bytes behind the headers, and the
/// checksums of IPv4 headers. Checksums over payload are left to [`set_sums`].
#[inline]
fn set_lengths(header: &mut [u8], layout: &Layout, payload_len: usize) {
    for layer in layout.layers() {
        let at = layer.at();
        let len = layout.header_len() - at + payload_len;
        match layer.kind {
            LayerKind::Ipv4 => {
                header::at_mut::<Ipv4>(header, at).total_len.set(field_of(len));
                set_ipv4_checksum(header, at);
            }
            LayerKind::Ipv6 => {
                header::at_mut::<Ipv6>(header, at).payload_len.set(field_of(len - Ipv6::LEN));
            }
            LayerKind::Udp => header::at_mut::<Udp>(header, at).length.set(field_of(len)),
            LayerKind::Pppoe => {
                let field = field_of(len - PPPOE_LEN).to_be_bytes();
                header[at + PPPOE_LENGTH..][..2].copy_from_slice(&field);
            }
            LayerKind::Tcp | LayerKind::Gre => {}
        }
    }
}

/// A length as its field of 16 bits has it: 0 where it does not fit ("BIG TCP").
#[inline]
fn field_of(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}

/// Computes the checksum of the IPv4 header at `offset` anew.
#[inline]
fn set_ipv4_checksum(bytes: &mut [u8], offset: usize) {
    let ip = header::at_mut::<Ipv4>(bytes, offset);
    ip.checksum.set(0);
    let end = offset + ip.header_len();
    let checksum = Sum::of(&bytes[offset..end]).checksum();
    header::at_mut::<Ipv4>(bytes, offset).checksum.set(checksum);
}

/// Sets the checksums that cover payload, from the innermost header out, when all other fields are
/// final. `payload_sum` gives the sum of the payload for the nth such header, or none where the
/// field stays as it is. With `partial` the innermost gets the pseudo header's sum only.
fn set_sums(
    header: &mut [u8],
    layout: &Layout,
    (payload_len, partial): (usize, bool),
    payload_sum: impl Fn(usize) -> Option<Sum>,
) {
    let layers = layout.layers().rev();
    let fields = layers.filter_map(|layer| Some((layer, Layout::checksum_field(layer)?)));
    for (index, (layer, field)) in fields.enumerate() {
        let Some(payload) = payload_sum(index) else { continue };
        let len = layout.header_len() - layer.at() + payload_len;
        let pseudo = layout.pseudo_sum_of(header, layer, len);
        let value = if partial && index == 0 {
            pseudo.fold()
        } else {
            header[field..field + 2].fill(0);
            let covered = Sum::of(&header[layer.at()..layout.header_len()]);
            written_checksum(layer.kind, pseudo.plus(covered).plus(payload))
        };
        header[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// The checksum as senders write it: UDP sends 0xFFFF for 0, which would mean "none" (RFC 768).
#[inline]
fn written_checksum(kind: LayerKind, sum: Sum) -> u16 {
    match (kind, sum.checksum()) {
        (LayerKind::Udp, 0) => 0xFFFF,
        (_, checksum) => checksum,
    }
}
