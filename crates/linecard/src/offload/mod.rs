//! The two offloads: [`coalesce`] (LRO) merges received packets, [`segment`] (LSO) cuts large
//! ones. `segment(coalesce(x)) == x`, byte for byte, for everything merged. [`reassemble`] puts IP
//! fragments together, so that what comes behind sees whole datagrams.
//!
//! They work on a packet's layers (see [`crate::packet::Layout`]): rules for a layer are written once and
//! multiply with those of the others, so that no combination of protocols is enumerated.

pub mod coalesce;
pub mod reason;
pub mod reassemble;
pub mod segment;

use crate::packet::LayerKind;
use crate::packet::Layout;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, Udp};

/// Sets the length fields of every layer for `payload_len` bytes behind the headers, and the
/// checksums of IPv4 headers. Transport checksums are left to the caller.
#[inline]
fn set_lengths(header: &mut [u8], layout: &Layout, payload_len: usize) {
    for layer in layout.layers() {
        let offset = usize::from(layer.offset);
        // Lengths were checked against the fields' 16 bits before.
        let len = (layout.header_len() - offset + payload_len) as u16;
        match layer.kind {
            LayerKind::Ipv4 => {
                header::at_mut::<Ipv4>(header, offset).total_len.set(len);
                set_ipv4_checksum(header, offset);
            }
            LayerKind::Ipv6 => {
                header::at_mut::<Ipv6>(header, offset).payload_len.set(len - Ipv6::LEN as u16);
            }
            LayerKind::Udp => header::at_mut::<Udp>(header, offset).length.set(len),
            LayerKind::Tcp => {}
        }
    }
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
