//! No segment or fragment is longer than its 16-bit length fields can say, whatever is asked for.

use linecard::offload::segment::{SegmentError, Segments, fragment, segment};
use linecard::packet::{Form, Gso, LayerKind, Layout, LinkType, Meta, Packet, Piece};
use linecard::rng::Rng;
use linecard_testkit::packets::frame::{Frame, TCP, UDP};
use linecard_testkit::packets::tunnel::each_kind;
use linecard_testkit::packets::{between, for_seeds, is_whole, pick};

const MAX: usize = 65_535;

/// A packet whose outermost length fields are 0 where its length does not fit ("BIG TCP").
fn packet(frame: &Frame) -> Packet<Vec<u8>> {
    let (network, v6) = (Layout::parse(frame.link, &short(frame)).outer_network(), frame.v6);
    let network = usize::from(network.expect("an IP header").offset);
    let mut bytes = frame.bytes();
    let len = bytes.len() - network;
    if len > MAX + if v6 { 40 } else { 0 } && frame.tunnel.is_empty() {
        let field = network + if v6 { 4 } else { 2 };
        bytes[field..field + 2].fill(0);
        if frame.protocol == UDP {
            let udp = network + if v6 { 40 } else { 20 };
            bytes[udp + 4..udp + 6].fill(0);
        }
    }
    Packet::new(bytes, frame.link, Meta::default())
}

fn short(frame: &Frame) -> Vec<u8> {
    Frame { payload: vec![0; 8], ..frame.clone() }.bytes()
}

/// The largest value that a length field of this packet would take in a frame of `end` bytes.
fn longest_field(layout: &Layout, end: usize) -> usize {
    let counted = layout.layers().filter_map(|layer| match layer.kind {
        LayerKind::Ipv4 | LayerKind::Udp => Some(end - layer.at()),
        LayerKind::Ipv6 => Some(end - layer.at() - 40),
        LayerKind::Pppoe => Some(end - layer.at() - 6),
        LayerKind::Tcp | LayerKind::Gre => None,
    });
    counted.max().unwrap_or(0)
}

/// Every frame that comes out is a whole datagram that ends where the frame does.
fn check_all(mut segments: Segments<'_, Piece<Vec<u8>>>, link: LinkType, form: Form) -> usize {
    let (mut room, mut payload) = (vec![0; segments.max_len()], 0);
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        let frame = &room[..written.len];
        let layout = Layout::parse(link, frame);
        assert_eq!((layout.form(), layout.end()), (form, frame.len()), "{layout:?}");
        assert!(longest_field(&layout, frame.len()) <= MAX, "{layout:?}");
        payload += layout.payload().len();
    }
    payload
}

fn random(rng: &mut Rng) -> Frame {
    let mut kinds = each_kind(0);
    let kind = rng.below(kinds.len() as u64) as usize;
    let tunnel = if rng.chance(0.7) { Vec::new() } else { kinds.swap_remove(kind).1 };
    let v6 = rng.chance(0.5);
    // Extension headers, TCP options and tags make headers as long as they can be.
    let count = if v6 && rng.chance(0.3) { between(rng, 1, 6) } else { 0 };
    let around = pick(rng, &[1_500, 65_400, 65_600, 131_000, 131_000, 200_000]);
    Frame {
        tunnel,
        v6,
        extensions: (0..count).map(|_| (60, [&[2_u8, 1, 20][..], &[0; 20]].concat())).collect(),
        tags: vec![[0x81, 0, 0, 1]; between(rng, 0, 2) as usize],
        protocol: if rng.chance(0.25) { UDP } else { TCP },
        options: vec![1; 4 * between(rng, 0, 10) as usize],
        payload: vec![7; between(rng, around / 2, around) as usize],
        ..Frame::default()
    }
}

#[test]
fn no_segment_is_longer_than_its_length_fields_say() {
    let (mut whole, mut refused) = (0, 0);
    for_seeds(&[], 0, 1_500, |seed| {
        let rng = &mut Rng::new(seed);
        let frame = random(rng);
        let packet = packet(&frame);
        let layout = *packet.layout();
        if layout.form() != Form::Datagram {
            return;
        }
        let near = between(rng, 65_430, 65_535);
        let size = pick(rng, &[1_448, 9_000, near, near, near, 65_535]) as u16;
        let payload = packet.payload_len();
        let expected = longest_field(&layout, layout.header_len() + payload.min(size.into()));
        match segment(&packet, Gso { size, ..Gso::default() }) {
            Ok(segments) => {
                assert!(expected <= MAX, "{expected}: {layout:?}");
                assert_eq!(check_all(segments, frame.link, Form::Datagram), payload);
                whole += 1;
            }
            Err(SegmentError::LengthField { len, .. }) => {
                // The outermost length that does not fit is named.
                assert_eq!(len, expected);
                assert!(len > MAX);
                refused += 1;
            }
            Err(other) => assert!(matches!(other, SegmentError::HeaderTooLong { .. }), "{other}"),
        }
    });
    println!("{whole} cut, {refused} refused");
    assert!(whole > 300 && refused > 100 || !is_whole(), "{whole} cut, {refused} refused");
}

#[test]
fn the_longest_segment_is_made_and_one_byte_more_is_refused() {
    let big = |v6, protocol| Frame { v6, protocol, payload: vec![1; 70_000], ..Frame::default() };
    let cases = [
        (big(false, TCP), 65_535 - 40, "IPv4 total length"),
        (big(true, TCP), 65_535 - 20, "IPv6 payload length"),
        (big(false, UDP), 65_535 - 28, "IPv4 total length"),
    ];
    for (frame, most, field) in cases {
        let packet = packet(&frame);
        if packet.layout().form() != Form::Datagram {
            // UDP is not taken with a length field of 0.
            assert_eq!(frame.protocol, UDP);
            continue;
        }
        let cut = |size: u16| segment(&packet, Gso { size, ..Gso::default() });
        assert_eq!(check_all(cut(most).expect("it fits"), frame.link, Form::Datagram), 70_000);
        let error = cut(most + 1).expect_err("one byte more");
        assert_eq!(error, SegmentError::LengthField { field, len: MAX + 1 });
        let said = error.to_string();
        assert!(said.contains("65536") && said.contains("65535") && said.contains(field), "{said}");
        // The whole 16 bits of the segment size, as a virtio header or `--mss 65535` give them.
        assert!(matches!(cut(u16::MAX), Err(SegmentError::LengthField { .. })));
    }
}

#[test]
fn no_fragment_is_longer_than_its_length_fields_say() {
    for v6 in [false, true] {
        let of = |len| Frame { v6, flags_fragment: 0, payload: vec![1; len], ..Frame::default() };
        // 70,000 bytes are not an IP datagram: neither whole nor divided.
        for mtu in [1_280, 65_535, 65_600, 80_000] {
            let error = fragment(&packet(&of(70_000)), mtu, 1).expect_err("too long");
            assert!(matches!(error, SegmentError::LengthField { len: 70_020.., .. }), "{error}");
        }
        let most = MAX - if v6 { 20 } else { 40 };
        for mtu in [1_280, 65_500, 65_535, 65_570, 65_574, 80_000] {
            let whole = packet(&of(most));
            let len = whole.datagram_len() - 14;
            let fragments = fragment(&whole, mtu, 1).expect("the longest datagram");
            let form = if len <= mtu { Form::Datagram } else { Form::Fragment };
            check_all(fragments, LinkType::Ethernet, form);
        }
    }
}
