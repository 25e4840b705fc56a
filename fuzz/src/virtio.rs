//! Any virtio-net header before any frame: refused, or true of the frame, which can then be cut as
//! it says. Decoded headers can be encoded, and descriptions pass the check.

use crate::draw::Draw;
use crate::segment::built;
use linecard::offload::segment::segment;
use linecard::offload::virtio::{Endian, Format, Header, gso_type};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::{ChecksumState, Gso, LinkType, Meta, Packet};
use linecard_testkit::packets::splitter::collect;

/// Input: form of the header and segment size, changes to the header, then a frame.
pub fn virtio(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    let format = [Format::Legacy, Format::V1, Format::Tunnel, Format::Tunnel];
    let format = format[usize::from(mode & 3)];
    let endian = if mode & 4 != 0 { Endian::Big } else { Endian::Little };
    let size = draw.word();
    let changes: Vec<(usize, u8)> =
        (0..mode >> 3 & 3).map(|_| (draw.below(format.header_len()), draw.byte())).collect();
    let given = draw.take(if mode & 0x20 != 0 { format.header_len() } else { 0 });
    let (link, frame, _) = built(draw);

    let mut bytes = describe(&frame, link, size, (format, endian));
    bytes[..given.len()].copy_from_slice(&given);
    for (at, bits) in changes {
        bytes[at] ^= bits;
    }
    let header = Header::read(&bytes, format, endian).expect("long enough");
    read_back(&header, format, endian);
    header.complete_checksum(&mut frame.clone()).ok();
    follow(&header, frame, link);
}

/// The header that is right for this frame, if one is.
fn describe(
    frame: &[u8],
    link: LinkType,
    size: u16,
    (format, endian): (Format, Endian),
) -> [u8; Format::MAX_LEN] {
    let gso = (size > 0).then_some(Gso { size, ..Gso::default() });
    let mut packet = Packet::new(frame.to_vec(), link, Meta { gso, ..Meta::default() });
    defer_checksum(&mut packet);
    let mut bytes = [0; Format::MAX_LEN];
    if let Ok(header) = Header::of(&packet) {
        // A form without tunnels stays empty.
        let _written = header.write(&mut bytes, format, endian);
    }
    bytes
}

fn read_back(header: &Header, format: Format, endian: Endian) {
    let mut bytes = [0; Format::MAX_LEN];
    let tunnel = header.gso_type & gso_type::TUNNELS != 0;
    match header.write(&mut bytes, format, endian) {
        None => assert!(tunnel && format != Format::Tunnel),
        Some(len) => {
            assert_eq!(len, format.header_len());
            assert_eq!(Header::read(&bytes, format, endian), Some(*header));
        }
    }
}

fn follow(header: &Header, frame: Vec<u8>, link: LinkType) {
    let mut packet = Packet::new(frame, link, Meta::default());
    let layout = *packet.layout();
    let Ok(offload) = header.check(packet.bytes(), &layout) else { return };
    packet.meta = offload.into_meta(packet.meta);
    if let Ok(again) = Header::of(&packet) {
        let checked = again.check(packet.bytes(), &layout).expect("what is described is true");
        assert_eq!(checked.gso, offload.gso);
        // Nothing can be said of the checksums in a tunnel.
        if offload.checksum != ChecksumState::Valid {
            assert_eq!(checked.checksum, offload.checksum);
        }
    }
    if let Some(gso) = offload.gso {
        let cut = || segment(&packet, gso).ok();
        // Headers may be longer than are kept.
        let Some(segments) = cut() else { return };
        assert_eq!(segments.count(), usize::from(gso.segments));
        if segments.count() <= 100 {
            let frames = collect(segments, cut().expect("as before"));
            for frame in &frames {
                let segment = Packet::new(&frame[..], link, Meta::default());
                // Behind them, a part of a UDP payload may happen to look like a tunnel's packet.
                let layers = segment.layout().layers();
                assert!(layers.take(layout.layer_count()).eq(layout.layers()));
                assert!(segment.payload_len() <= gso.size.into());
            }
        }
    } else if offload.checksum == ChecksumState::Partial {
        assert!(complete_checksum(&mut packet), "what was checked can be completed");
    }
}
