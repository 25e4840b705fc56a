//! The offloads. [`coalesce`] (LRO) merges received packets, and [`segment`] (LSO) segments large
//! ones: `segment(coalesce(x)) == x`, byte for byte, for everything merged. [`reassemble`]
//! reassembles IP fragments, so that later stages see complete datagrams; [`resequence`] reorders
//! TCP data by sequence number; [`ack_filter`] drops acknowledgments that a newer one supersedes;
//! [`active_ack`] acknowledges held data on behalf of the receiver. [`virtio`] is the header that
//! describes a large packet to a kernel or a virtual machine.
//!
//! All of them work on a packet's layers (see [`crate::packet::Layout`]): each kind of layer has
//! its own rules, so that combinations of protocols need not be enumerated.

pub mod ack_filter;
pub mod active_ack;
pub mod burst;
mod checksum;
pub mod coalesce;
mod counters;
mod ends;
mod flows;
mod heaps;
mod lists;
pub mod reason;
pub mod reassemble;
pub mod resequence;
pub mod segment;
mod tcp;
mod timer;
pub mod virtio;

pub use checksum::{complete_checksum, defer_checksum, verify_checksum};

use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, Udp};
use crate::packet::{LayerKind, Layout};
use checksum::field_of;

/// Sets the length fields of every layer for `payload_len` bytes after the headers, and the
/// checksums of IPv4 headers. Checksums over payload are left to the caller.
#[inline]
fn set_lengths(header: &mut [u8], layout: &Layout, payload_len: usize) {
    for layer in layout.layers() {
        let at = layer.at();
        let len = layout.header_len() - at + payload_len;
        match layer.kind {
            LayerKind::Ipv4 => {
                header::set_be16(header, at + Ipv4::TOTAL_LEN, field_of(len));
                set_ipv4_checksum(header, at);
            }
            LayerKind::Ipv6 => {
                header::set_be16(header, at + Ipv6::PAYLOAD_LEN, field_of(len - Ipv6::LEN));
            }
            LayerKind::Udp => header::set_be16(header, at + Udp::LENGTH, field_of(len)),
            LayerKind::Pppoe => {
                let field = field_of(len - PPPOE_LEN).to_be_bytes();
                header[at + PPPOE_LENGTH..][..2].copy_from_slice(&field);
            }
            LayerKind::Tcp | LayerKind::Gre => {}
        }
    }
}

/// The largest value of the length fields of IPv4, IPv6, UDP and PPPoE. IPv6 jumbograms (RFC 2675)
/// are not supported.
const MAX_LENGTH: usize = 65_535;

/// The first length field that cannot hold its value, and the value; `end` is the end of the
/// outermost datagram, counted from the start of the frame.
#[inline]
fn exceeded_length(layout: &Layout, end: usize) -> Option<(&'static str, usize)> {
    // No length field exceeds the length of the frame.
    if end <= MAX_LENGTH { None } else { first_exceeded_length(layout, end) }
}

#[cold]
fn first_exceeded_length(layout: &Layout, end: usize) -> Option<(&'static str, usize)> {
    let fields = layout.layers().filter_map(|layer| {
        let (field, uncounted) = match layer.kind {
            LayerKind::Ipv4 => ("IPv4 total length", 0),
            LayerKind::Ipv6 => ("IPv6 payload length", Ipv6::LEN),
            LayerKind::Udp => ("UDP length", 0),
            LayerKind::Pppoe => ("PPPoE length", PPPOE_LEN),
            LayerKind::Tcp | LayerKind::Gre => return None,
        };
        Some((field, end.saturating_sub(layer.at() + uncounted)))
    });
    fields.into_iter().find(|(_, len)| *len > MAX_LENGTH)
}

/// Recomputes the checksum of the IPv4 header at `offset`.
#[inline]
fn set_ipv4_checksum(bytes: &mut [u8], offset: usize) {
    header::set_be16(bytes, offset + Ipv4::CHECKSUM, 0);
    let end = offset + header::at::<Ipv4>(bytes, offset).header_len();
    let checksum = Sum::of(&bytes[offset..end]).checksum();
    header::set_be16(bytes, offset + Ipv4::CHECKSUM, checksum);
}
