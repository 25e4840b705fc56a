//! Any frame cut at any size: an error, or what the naive splitter makes of it; fragments become
//! the datagram again.

use crate::draw::{Draw, LINKS};
use crate::traffic::{damage, disturb, frame};
use linecard::offload::reassemble::{Config, Exit};
use linecard::offload::segment;
use linecard::packet::{
    ChecksumState, Form, Gso, LayerKind, LinkType, MAX_HEADER_LEN, Meta, Packet,
};
use linecard::time::Instant;
use linecard_testkit::packets::fragments::seal;
use linecard_testkit::packets::frame::{Field, put16};
use linecard_testkit::packets::plain::{self, View};
use linecard_testkit::packets::reassembler;
use linecard_testkit::packets::runner::whole;
use linecard_testkit::packets::splitter::{self, collect};
use linecard_testkit::packets::traffic::Arrival;

/// More segments than this are not looked at one by one.
const MOST_SEGMENTS: usize = 100;

/// Input: what is asked for, then a frame that is built, or given as it is.
pub fn segment(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    let size = draw.word();
    let size = if mode & 1 != 0 { size & 0xFF } else { size };
    let gso = Gso {
        size,
        segments: 0,
        fixed_ids: mode >> 4,
        accecn: mode & 2 != 0,
        padded: mode & 4 != 0,
    };
    let (link, bytes, checksum) = built(draw);
    let view = plain::view(link, &bytes);
    let packet = Packet::new(bytes.clone(), link, Meta { checksum, ..Meta::default() });
    cut(&packet, &bytes, &view, gso);
    fragment(&packet, link, &view, usize::from(size));
}

/// A frame with payload, and what is known of its checksum.
pub(crate) fn built(draw: &mut Draw<'_>) -> (LinkType, Vec<u8>, ChecksumState) {
    let kind = draw.byte();
    if kind & 1 != 0 {
        let link = draw.pick(&LINKS);
        return (link, draw.rest().to_vec(), ChecksumState::Unknown);
    }
    let mut spec = frame(draw, 0);
    spec.flags_fragment = 0;
    spec.flags = draw.word() & 0xFFF;
    let len = usize::from(draw.word()) % 3_000;
    spec.payload = (0..len).map(|at| (at * 7) as u8).collect();
    for _ in 0..kind >> 1 & 3 {
        disturb(draw, &mut spec);
    }
    let mut bytes = spec.bytes();
    for _ in 0..kind >> 3 & 3 {
        damage(draw, &mut bytes);
    }
    let undamaged = kind >> 3 & 3 == 0;
    let checksum = match (spec.field, kind >> 5) {
        (Field::Partial, _) if undamaged => ChecksumState::Partial,
        (_, 1) => ChecksumState::Valid,
        _ => ChecksumState::Unknown,
    };
    (spec.link, bytes, checksum)
}

fn cut(packet: &Packet<Vec<u8>>, bytes: &[u8], view: &View, gso: Gso) {
    let cut = || segment::segment(packet, gso);
    if view.form != Form::Datagram || view.payload > MAX_HEADER_LEN || gso.size == 0 {
        assert!(cut().is_err());
        return;
    }
    let segments = cut().expect("a whole datagram");
    if segments.count() > MOST_SEGMENTS {
        return;
    }
    let real = collect(segments, cut().expect("a whole datagram"));
    let twin = splitter::split(&bytes[..view.end], view, gso, packet.meta.checksum);
    assert_eq!(real.len(), twin.len());
    for (number, (real, twin)) in real.iter().zip(&twin).enumerate() {
        assert!(real == twin, "segment {number}\n{real:02x?}\n{twin:02x?}");
    }
}

fn fragment(packet: &Packet<Vec<u8>>, link: LinkType, view: &View, mtu: usize) {
    let cut = || segment::fragment(packet, mtu, 0xABCD_1234);
    let Ok(fragments) = cut() else { return };
    if fragments.count() > MOST_SEGMENTS {
        return;
    }
    let real = collect(fragments, cut().expect("as before"));
    let datagram = &packet.bytes()[..view.end];
    let twin = splitter::fragment_outer(datagram, view, mtu, 0xABCD_1234);
    assert!(Some(&real) == twin.as_ref(), "{real:02x?}\n{twin:02x?}");
    if real.len() > 1 {
        give_back(link, view, &real, datagram);
    }
}

/// In the wrong order; what cannot become whole leaves as it came.
fn give_back(link: LinkType, view: &View, fragments: &[Vec<u8>], datagram: &[u8]) {
    let config = Config {
        max_fragments: 1_000,
        max_datagrams: 8,
        max_held_fragments: 8 * MOST_SEGMENTS,
        ..Config::default()
    };
    let mut real = reassembler::Real::new(link, config);
    for (number, bytes) in fragments.iter().rev().enumerate() {
        let now = Instant::from_ns(number as u64);
        let meta = Meta { timestamp: now, ..Meta::default() };
        real.push(number, &Arrival { link, bytes: bytes.clone(), meta, now });
    }
    real.stop();
    if let [(packet, Exit::Reassembled)] = &real.out[..] {
        let (mut got, mut expected) = (whole(packet), datagram.to_vec());
        // Fragments leave behind what lay behind the datagram, and PPPoE counts that.
        let network = view.networks().next().map_or(0, |(ip, _)| ip);
        for pppoe in view.all(LayerKind::Pppoe).filter(|pppoe| *pppoe < network) {
            let len = expected.len() - pppoe - 6;
            put16(&mut expected, pppoe + 4, len as u16);
        }
        // The checksum of a datagram that had a wrong one is right behind this.
        if let Some((ip, false)) = view.networks().next() {
            seal(&mut got, ip);
            seal(&mut expected, ip);
        }
        assert!(got == expected, "{got:02x?}\n{expected:02x?}");
        return;
    }
    let mut left: Vec<Vec<u8>> = real.out.iter().map(|(packet, _)| whole(packet)).collect();
    let mut came = fragments.to_vec();
    left.sort();
    came.sort();
    assert!(left == came, "{:?}", real.exits());
}
