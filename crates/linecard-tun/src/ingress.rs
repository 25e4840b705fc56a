//! Turns a received frame with its virtio header into a packet.
//!
//! [`Tap`](crate::Tap) does so itself.

use linecard::offload::virtio::{FieldError, Header, gso_type};
use linecard::packet::{ChecksumState, Form, Layout, LinkType, Meta, Packet};

/// A packet of the frame in `buffer`, described by `header`.
///
/// An empty header costs nothing: the frame is parsed only when needed. A partial checksum other
/// than that of the innermost transport header, as in an unknown tunnel, is completed here.
///
/// # Errors
///
/// The field of the header that contradicts the frame.
pub fn packet<B: AsRef<[u8]> + AsMut<[u8]>>(
    header: &Header,
    mut buffer: B,
    link: LinkType,
    meta: Meta,
) -> Result<Packet<B>, FieldError> {
    if header.flags == 0 && header.gso_type == gso_type::NONE {
        return Ok(Packet::new(buffer, link, meta));
    }
    let layout = Layout::parse(link, buffer.as_ref());
    let meta = match header.check(buffer.as_ref(), &layout) {
        Ok(offload) => offload.into_meta(meta),
        Err(FieldError::CsumStart(_)) if header.gso_type == gso_type::NONE => {
            header.complete_checksum(buffer.as_mut())?;
            // The field may be one that the layout knows: its state is unknown.
            return Ok(Packet::new(buffer, link, meta));
        }
        Err(error) => return Err(error),
    };
    Ok(Packet::with_layout(buffer, link, layout, meta))
}

/// The checksum state that a kernel without virtio headers reports, as far as [`ChecksumState`] can
/// express it.
pub fn checksum<B: AsRef<[u8]>>(packet: &Packet<B>, said: ChecksumState) -> ChecksumState {
    // It refers to the outermost checksum, in a tunnel to an unspecified one, and also to checksums
    // other than those of TCP and UDP.
    let named = || packet.layout().tunnels() == 0 && packet.layout().form() == Form::Datagram;
    if said == ChecksumState::Unknown || named() { said } else { ChecksumState::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::offload::virtio::flag;
    use linecard::packet::{Pool, PoolBuffer};

    /// A UDP datagram of 4 bytes in IPv4, its checksum left open.
    fn datagram() -> Vec<u8> {
        let mut frame = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        frame.extend([0, 7, 0, 9, 0, 12, 1, 2, 1, 2, 3, 4]);
        frame
    }

    fn taken(bytes: &[u8]) -> PoolBuffer {
        let mut buffer = Pool::new(1, 64).take().expect("one");
        buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
        buffer.truncate(bytes.len());
        buffer
    }

    fn come(header: &Header, bytes: &[u8]) -> Result<Packet<PoolBuffer>, FieldError> {
        packet(header, taken(bytes), LinkType::Raw, Meta::default())
    }

    #[test]
    fn what_the_header_says_goes_into_the_metadata() {
        let plain = come(&Header::default(), &datagram()).expect("says nothing");
        assert_eq!(plain.meta, Meta::default());
        let header = Header {
            flags: flag::NEEDS_CSUM,
            gso_type: gso_type::UDP_L4,
            gso_size: 3,
            csum_start: 20,
            csum_offset: 6,
            ..Header::default()
        };
        let large = come(&header, &datagram()).expect("true");
        assert_eq!(large.meta.checksum, ChecksumState::Partial);
        assert_eq!(large.meta.gso.map(|gso| (gso.size, gso.segments)), Some((3, 2)));
    }

    #[test]
    fn a_header_that_is_not_true_is_refused() {
        let header = Header { gso_type: gso_type::TCPV4, gso_size: 3, ..Header::default() };
        assert!(matches!(come(&header, &datagram()), Err(FieldError::GsoType { .. })));
        let beyond = Header { flags: flag::NEEDS_CSUM, csum_start: 99, ..Header::default() };
        assert_eq!(come(&beyond, &datagram()).err(), Some(FieldError::CsumStart(99)));
    }

    #[test]
    fn a_checksum_elsewhere_is_completed() {
        let mut frame = datagram();
        frame[9] = 99;
        let header =
            Header { flags: flag::NEEDS_CSUM, csum_start: 28, csum_offset: 2, ..Header::default() };
        let packet = come(&header, &frame).expect("inside");
        assert_eq!(packet.meta.checksum, ChecksumState::Unknown);
        // The bytes from 28 on, 01 02 03 04, sum up to 0x0406.
        assert_eq!(packet.bytes()[30..], (!0x0406_u16).to_be_bytes());
    }

    #[test]
    fn what_is_said_of_a_tunnel_is_not_believed_of_what_is_inside() {
        let packet = Packet::new(taken(&datagram()), LinkType::Raw, Meta::default());
        assert_eq!(checksum(&packet, ChecksumState::Valid), ChecksumState::Valid);
        let mut outer = vec![0x45, 0, 0, 52, 0, 0, 0, 0, 64, 4, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        outer.extend(datagram());
        let packet = Packet::new(taken(&outer), LinkType::Raw, Meta::default());
        assert_eq!(checksum(&packet, ChecksumState::Valid), ChecksumState::Unknown);
    }
}
