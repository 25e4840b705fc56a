//! The pseudo header that TCP and UDP checksums cover (RFC 9293, section 3.1; RFC 8200,
//! section 8.1).

use super::checksum::Sum;
use super::header::{Ipv4, Ipv6, protocol};
use super::{Layer, LayerKind, Layout};

/// Sum over the pseudo header of a datagram whose transport part is `transport_len` bytes.
///
/// With an IPv6 routing header the final destination may differ from the header's: the checksum of
/// such packets does not verify, so they pass unchanged.
#[must_use]
#[inline]
pub fn pseudo_sum(bytes: &[u8], network: Layer, protocol: u8, transport_len: usize) -> Sum {
    let start = usize::from(network.offset);
    let addresses = match network.kind {
        LayerKind::Ipv4 => start + 12..start + Ipv4::LEN,
        _ => start + 8..start + Ipv6::LEN,
    };
    Sum::of(&bytes[addresses])
        .plus(Sum::word(u16::from(protocol)))
        .plus(Sum::double(u32::try_from(transport_len).unwrap_or(u32::MAX)))
}

impl Layout {
    /// Offset of the transport checksum field of a datagram.
    #[must_use]
    #[inline]
    pub fn checksum_offset(&self) -> Option<usize> {
        Self::checksum_field(self.transport()?)
    }

    /// Sum over the pseudo header of a datagram that carries `payload_len` bytes of payload.
    #[must_use]
    #[inline]
    pub fn pseudo_sum(&self, bytes: &[u8], payload_len: usize) -> Option<Sum> {
        let (network, transport) = (self.network()?, self.transport()?);
        let transport_len = self.header_len() - transport.at() + payload_len;
        Some(pseudo_sum(bytes, network, self.protocol(), transport_len))
    }

    /// Sum over what the checksum of `layer` covers in addition to the `len` bytes from there on: a
    /// pseudo header, or nothing for GRE.
    #[must_use]
    #[inline]
    pub fn pseudo_sum_of(&self, bytes: &[u8], layer: Layer, len: usize) -> Sum {
        let number = match layer.kind {
            LayerKind::Tcp => protocol::TCP,
            LayerKind::Udp => protocol::UDP,
            _ => return Sum::ZERO,
        };
        // The innermost layer is the most frequent case.
        let network = match (self.transport(), self.network()) {
            (Some(transport), Some(network)) if transport == layer => Some(network),
            _ => self.layers().take_while(|other| other.offset < layer.offset).last(),
        };
        network.map_or(Sum::ZERO, |network| pseudo_sum(bytes, network, number, len))
    }
}
