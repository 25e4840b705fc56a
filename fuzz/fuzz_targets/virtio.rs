//! Any virtio header before any frame: refused, or the frame is cut without losing payload, and
//! what describes it again says the same.
//!
//! Input: a byte of configuration, the header, the frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linecard::offload::segment::segment;
use linecard::offload::virtio::{Endian, Format, Header};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::{LinkType, Meta, Packet};

fuzz_target!(|data: &[u8]| {
    let Some((setting, rest)) = data.split_first() else { return };
    let format = [Format::Legacy, Format::V1, Format::Tunnel][usize::from(setting % 3)];
    let endian = if setting & 0x40 == 0 { Endian::Little } else { Endian::Big };
    let link = if setting & 0x80 == 0 { LinkType::Ethernet } else { LinkType::Raw };
    let Some(header) = Header::read(rest, format, endian) else { return };
    let frame = rest[format.header_len()..].to_vec();
    let _ = header.complete_checksum(&mut frame.clone());

    let mut packet = Packet::new(frame, link, Meta::default());
    let Ok(offload) = header.check(packet.bytes(), packet.layout()) else { return };
    packet.meta = offload.into_meta(Meta::default());
    let again = Header::of(&packet);
    let Some(gso) = offload.gso else {
        again.expect("a packet that is not to be cut can be described");
        complete_checksum(&mut packet);
        return;
    };
    let mut segments = segment(&packet, gso).expect("what was checked can be cut");
    assert_eq!(segments.count(), usize::from(gso.segments));
    let (mut room, mut payload) = (vec![0; segments.max_len()], 0);
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        payload += written.len - packet.layout().header_len();
    }
    assert_eq!(payload, packet.payload_len());
    if defer_checksum(&mut packet) {
        let again = Header::of(&packet).expect("it was described");
        let checked = again.check(packet.bytes(), packet.layout()).expect("it is true");
        assert_eq!(checked.gso, Some(gso));
    }
});
