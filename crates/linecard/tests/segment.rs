//! Segments, fragments, and frames that are cut: how many there are, how long, and why there are none.

use linecard::offload::burst::{CutError, FrameSegments, Room, cut, cut_pieces};
use linecard::offload::complete_checksum;
use linecard::offload::segment::{
    Class, Counters, Refusal, SegmentError, Segments, fragment, segment,
};
use linecard::offload::virtio::{FieldError, Header, flag, gso_type};
use linecard::packet::{ChecksumState, Form, Gso, LinkType, MAX_HEADER_LEN, Meta, Packet, Piece};
use linecard_testkit::packets::frame::{Field, Frame, UDP, sum16};
use linecard_testkit::packets::ip::Ip;
use linecard_testkit::packets::tunnel::Wrap;

fn packet(frame: &Frame) -> Packet<Vec<u8>> {
    Packet::new(frame.bytes(), frame.link, Meta::default())
}

/// Every frame that comes out, and its class.
fn all(mut segments: Segments<'_, Piece<Vec<u8>>>) -> Vec<(Vec<u8>, Class)> {
    let (mut room, mut frames) = (vec![0; segments.max_len()], Vec::new());
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        frames.push((room[..written.len].to_vec(), written.class));
    }
    frames
}

/// An extension header of this type and length.
fn extension(kind: u8, len: usize) -> (u8, Vec<u8>) {
    let mut body = vec![0; len - 1];
    // Units of eight bytes beyond the first; then one option that fills the rest, in parts.
    body[0] = (len / 8 - 1) as u8;
    (kind, body)
}

/// Raw IPv6 with this many bytes of headers: options of the destination, and of TCP.
fn with_headers(len: usize) -> Frame {
    let options = vec![1; (len - 60) % 8];
    let extensions = vec![extension(60, len - 60 - options.len())];
    let payload = (0..100).collect();
    Frame { link: LinkType::Raw, v6: true, extensions, options, payload, ..Frame::default() }
}

#[test]
fn the_longest_headers_are_kept_and_longer_ones_refused() {
    let cut = |len| {
        let packet = packet(&with_headers(len));
        assert_eq!((packet.layout().form(), packet.layout().header_len()), (Form::Datagram, len));
        segment(&packet, Gso { size: 60, ..Gso::default() }).map(all)
    };
    for len in [MAX_HEADER_LEN - 4, MAX_HEADER_LEN] {
        let frames = cut(len).expect("headers that are kept");
        let lens = frames.iter().map(|(frame, _)| frame.len()).collect::<Vec<_>>();
        assert_eq!(lens, [len + 60, len + 40]);
    }
    let too_long = cut(MAX_HEADER_LEN + 4).expect_err("too long");
    assert_eq!(too_long, SegmentError::HeaderTooLong { len: MAX_HEADER_LEN + 4 });
}

/// Hop-by-hop options are in every fragment, and the fragment header stands behind them.
#[test]
fn the_longest_headers_are_in_every_fragment_and_longer_ones_refused() {
    let cut = |options| {
        let extensions = vec![extension(0, options)];
        let payload = (0..200).collect();
        let frame =
            Frame { link: LinkType::Raw, v6: true, extensions, payload, ..Frame::default() };
        fragment(&packet(&frame), 480, 1).map(all)
    };
    let frames = cut(MAX_HEADER_LEN - 40).expect("headers that are kept");
    let lens = frames.iter().map(|(frame, _)| frame.len()).collect::<Vec<_>>();
    // 220 bytes behind the options: those of TCP, and 200.
    assert_eq!(lens, [480, MAX_HEADER_LEN + 8 + 220 - 152]);
    let too_long = cut(MAX_HEADER_LEN - 32).expect_err("too long");
    assert_eq!(too_long, SegmentError::HeaderTooLong { len: MAX_HEADER_LEN + 8 });
}

#[test]
fn counters_add_up_packets_bytes_and_segments_of_each_class() {
    let mut counters = Counters::default();
    let (mut taken, mut produced) = (0, 0);
    // In one, two, four and eight segments.
    for len in [70, 140, 250, 500] {
        let packet = packet(&Frame { payload: vec![1; len], ..Frame::default() });
        counters.received(packet.bytes().len());
        taken += packet.bytes().len() as u64;
        let mut segments = segment(&packet, Gso { size: 70, ..Gso::default() }).expect("TCP");
        let mut room = vec![0; segments.max_len()];
        while let Some(written) = segments.write_next(&mut room).expect("there is room") {
            counters.count(written);
            produced += written.len as u64;
        }
    }
    assert_eq!((counters.packets_in, counters.bytes_in, counters.bytes_out), (4, taken, produced));
    let classes = (counters.ssm, counters.bom, counters.com, counters.eom);
    assert_eq!((classes, counters.segments()), ((1, 3, 8, 3), 15));
}

/// Each error, with what its text has to name.
const ERRORS: [(SegmentError, Refusal, &[&str]); 10] = [
    (SegmentError::ZeroSize, Refusal::ZeroSize, &["segment size is 0"]),
    (SegmentError::NotADatagram(Form::CutShort), Refusal::NotADatagram, &["UDP", "CutShort"]),
    (SegmentError::NotIp(Form::CutShort), Refusal::NotIp, &["IP datagram", "CutShort"]),
    (SegmentError::HeaderTooLong { len: 324 }, Refusal::HeaderTooLong, &["324", "320"]),
    (SegmentError::MtuTooSmall { mtu: 67, headers: 60 }, Refusal::MtuTooSmall, &["67", "60"]),
    (SegmentError::DontFragment { len: 90, mtu: 70 }, Refusal::DontFragment, &["90", "70"]),
    (SegmentError::OffsetTooLarge { end: 65_536 }, Refusal::OffsetTooLarge, &["65536", "65535"]),
    (
        SegmentError::LengthField { field: "UDP length", len: 65_536 },
        Refusal::LengthField,
        &["UDP length", "65536"],
    ),
    (SegmentError::UnfinishedChecksum, Refusal::UnfinishedChecksum, &["complete it before"]),
    (SegmentError::OutputTooSmall { room: 30, needed: 31 }, Refusal::OutputTooSmall, &["30", "31"]),
];

#[test]
fn each_error_is_counted_as_itself_and_says_its_numbers() {
    for (error, refusal, words) in ERRORS {
        assert_eq!(Refusal::from(error), refusal);
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

/// UDP over IPv4 with ten bytes, whose checksum is left to a device, and the header that divides it by three.
fn described() -> (Header, Vec<u8>) {
    let payload = (1..=10).collect();
    let link = LinkType::Raw;
    let frame = Frame { link, protocol: UDP, payload, field: Field::Partial, ..Frame::default() };
    let (flags, gso_type) = (flag::NEEDS_CSUM, gso_type::UDP_L4);
    let (gso_size, csum_start, csum_offset) = (3, 20, 6);
    let header = Header { flags, gso_type, gso_size, csum_start, csum_offset, ..Header::default() };
    (header, frame.bytes())
}

const ROOMS: [Room; 5] = [
    Room { front: 0, back: 0 },
    Room { front: 8, back: 16 },
    Room { front: 1, back: 0 },
    Room { front: 0, back: 5 },
    Room { front: 40, back: 40 },
];

/// Writes everything to as many buffers of this length as it takes; each holds as many segments as fit. Without an
/// error, all of them, without their room; else how many bytes were asked for.
fn write_all<P: AsRef<[u8]>>(
    cut: &mut FrameSegments<'_, P>,
    segments: &[Vec<u8>],
    room: Room,
    len: usize,
) -> Result<(), usize> {
    let with = |segment: &Vec<u8>| room.front + segment.len() + room.back;
    let mut rest = segments;
    while !rest.is_empty() {
        let mut out = vec![0xEE; len];
        let mut run = match cut.write(room, &mut out) {
            Err(SegmentError::OutputTooSmall { room: given, needed }) => {
                assert!(given == len && with(&rest[0]) > len && needed > len, "{needed}");
                // It has not been looked at where not even the room fits.
                assert!(needed == with(&rest[0]) || len < room.front + room.back, "{needed}");
                return Err(needed);
            }
            run => run.expect("no other error").expect("some are left"),
        };
        let mut end = 0;
        let fit = rest.iter().take_while(|segment| {
            end += with(segment);
            end <= len
        });
        let (now, behind) = rest.split_at(fit.count());
        assert_eq!(run.bytes().len(), now.iter().map(with).sum::<usize>());
        assert_eq!(run.size(), with(&now[0]), "the first is the longest");
        assert_eq!(run.segments().len(), now.len());
        for (written, segment) in run.segments().zip(now) {
            let (front, others) = written.split_at(room.front);
            let (frame, back) = others.split_at(segment.len());
            assert!(frame == segment && back.len() == room.back, "{frame:02x?}");
            assert!(front.iter().chain(back).all(|byte| *byte == 0xEE));
        }
        rest = behind;
    }
    // None is left, whether or not there would be room.
    for len in [0, 1, len] {
        assert!(cut.write(room, &mut vec![0; len]).expect("nothing to write").is_none());
    }
    Ok(())
}

#[test]
fn as_many_segments_are_written_as_fit_with_their_room() {
    let (header, frame) = described();
    let packet = Packet::new(frame.clone(), LinkType::Raw, Meta::default());
    let plain = segment(&packet, Gso { size: 3, ..Gso::default() }).expect("UDP");
    let segments: Vec<Vec<u8>> = all(plain).into_iter().map(|(frame, _)| frame).collect();
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [31, 31, 31, 29]);
    for room in ROOMS {
        for len in 0..500 {
            let mut cut = cut(LinkType::Raw, &header, &frame).expect("described");
            assert_eq!(cut.count(), 4);
            let longest = cut.max_len();
            if let Err(needed) = write_all(&mut cut, &segments, room, len) {
                // That many are enough, and what did not fit has not been lost.
                assert!(needed <= room.front + longest + room.back);
                assert_eq!(write_all(&mut cut, &segments, room, needed), Ok(()));
            }
        }
    }
}

/// A frame that is not divided, in one piece and in several, is written whole, with or without a checksum to be
/// completed.
#[test]
fn a_frame_that_is_not_divided_is_written_whole() {
    let (header, partial) = described();
    let mut packet = Packet::new(partial.clone(), LinkType::Raw, Meta::default());
    packet.meta.checksum = ChecksumState::Partial;
    assert!(complete_checksum(&mut packet));
    let complete = packet.into_parts().0;
    let deferred = Header { gso_type: gso_type::NONE, gso_size: 0, ..header };
    let valid = Header { flags: flag::DATA_VALID, ..Header::default() };
    for (header, written) in
        [(deferred, &complete), (Header::default(), &partial), (valid, &partial)]
    {
        for ends in [&[38][..], &[28, 38], &[28, 28, 33, 38], &[29, 32, 38], &[30, 31, 33, 38]] {
            let mut at = 0;
            let mut pieces = Vec::new();
            for end in ends {
                pieces.push(&partial[at..*end]);
                at = *end;
            }
            for (room, len) in ROOMS.iter().flat_map(|room| (0..130).map(move |len| (*room, len))) {
                let of = cut_pieces(LinkType::Raw, &header, pieces[0], &pieces[1..]);
                let mut cut = of.expect("it is true");
                assert_eq!((cut.count(), cut.max_len()), (1, 38));
                let whole = std::slice::from_ref(written);
                if let Err(needed) = write_all(&mut cut, whole, room, len) {
                    assert_eq!(needed, room.front + 38 + room.back);
                    assert_eq!(write_all(&mut cut, whole, room, needed), Ok(()));
                }
                assert_eq!(cut.max_len(), 0, "nothing is left");
            }
        }
    }
}

/// A sum that starts at no transport header known here is completed if nothing is divided.
#[test]
fn checksums_in_unknown_tunnels_are_completed_and_nothing_is_divided() {
    let (header, frame) = described();
    let unknown = [&[0xAB; 6][..], &frame].concat();
    let header = Header { csum_start: header.csum_start + 6, ..header };
    let refused = cut(LinkType::Ethernet, &header, &unknown).expect_err("divided");
    assert!(matches!(refused, CutError::Header(_)), "{refused}");
    let whole = Header { gso_type: gso_type::NONE, ..header };
    let mut expected = unknown.clone();
    whole.complete_checksum(&mut expected).expect("inside");
    assert_ne!(expected, unknown);
    let mut out = [0; 100];
    let mut cut = cut(LinkType::Ethernet, &whole, &unknown).expect("whole");
    let run = cut.write(Room::default(), &mut out).expect("room").expect("a frame");
    assert_eq!(run.bytes(), expected);
    // A field that contradicts a known frame is an error all the same.
    let wrong = Header { csum_offset: 7, ..described().0 };
    let wrong = Header { gso_type: gso_type::NONE, ..wrong };
    let refused = linecard::offload::burst::cut(LinkType::Raw, &wrong, &frame).expect_err("odd");
    assert_eq!(refused, CutError::Header(FieldError::CsumOffset(7)));
    assert_eq!(refused.to_string(), FieldError::CsumOffset(7).to_string());
}

/// Bytes behind the datagram would be in no segment.
#[test]
fn a_frame_with_bytes_behind_its_datagram_is_not_divided() {
    let (header, frame) = described();
    let padded = [&frame[..], &[0; 4]].concat();
    let error = SegmentError::NotADatagram(Form::Padded);
    for pieces in [&[&padded[..], &[]][..], &[&frame, &[0; 4]], &[&padded[..30], &padded[30..]]] {
        let refused = cut_pieces(LinkType::Raw, &header, pieces[0], &pieces[1..]);
        let refused = refused.expect_err("padded");
        assert_eq!((refused, refused.to_string()), (CutError::Segment(error), error.to_string()));
    }
}

/// A fragment is divided further if it ends within the largest datagram; its own header counts as if it were that of
/// the whole.
#[test]
fn a_fragment_that_ends_beyond_any_datagram_is_not_divided() {
    for (payload, end) in [(1_514, 65_534), (1_515, 65_535), (1_516, 65_536), (1_517, 65_537)] {
        let (protocol, payload) = (1, vec![3; payload]);
        // 8,000 units of eight bytes before it.
        let flags_fragment = 0x2000 | 8_000;
        let frame = Frame { protocol, payload, flags_fragment, ..Frame::default() };
        let packet = packet(&frame);
        match fragment(&packet, 1_500, 0) {
            Ok(fragments) => assert!(end <= 65_535 && all(fragments).len() == 2),
            Err(error) => {
                assert_eq!(error, SegmentError::OffsetTooLarge { end });
                assert!(end > 65_535);
            }
        }
    }
}

/// RFC 791, section 3.1: options with the copied flag are in every fragment, up to the end of the list or what is no
/// option at all.
#[test]
fn options_are_copied_up_to_the_end_of_the_list() {
    let lists: [(&[u8], &[u8]); 8] = [
        (&[0x94, 4, 0, 0, 7, 4, 4, 0], &[0x94, 4, 0, 0]),
        (&[7, 4, 4, 0, 1, 1, 0x82, 2], &[0x82, 2, 0, 0]),
        (&[0x83, 3, 9, 1, 0x94, 4, 5, 6], &[0x83, 3, 9, 0x94, 4, 5, 6, 0]),
        // Behind the end there is nothing, whatever it looks like.
        (&[0x94, 4, 0, 0, 0, 3, 0, 0x82, 2, 0, 0, 0], &[0x94, 4, 0, 0]),
        (&[0, 0x94, 4, 0, 0, 0, 0, 0], &[]),
        // No option has a length of 0 or 1, or one beyond all of them.
        (&[0x94, 0, 0x94, 4, 0, 0, 0, 0], &[]),
        (&[0x94, 1, 0x94, 4, 0, 0, 0, 0], &[]),
        (&[0x82, 2, 0x94, 7, 0, 0, 0, 0], &[0x82, 2, 0, 0]),
    ];
    for (ip_options, copied) in lists {
        let (link, payload) = (LinkType::Raw, vec![5; 200]);
        let ip_options = ip_options.to_vec();
        let flags_fragment = 0;
        let frame = Frame { link, ip_options, payload, flags_fragment, ..Frame::default() };
        let fragments = all(fragment(&packet(&frame), 120, 0).expect("it may be divided"));
        let [(first, _), others @ ..] = &fragments[..] else { panic!("no fragment") };
        assert_eq!(first[20..20 + frame.ip_options.len()], frame.ip_options);
        assert!(others.len() >= 2);
        for (other, _) in others {
            assert_eq!(usize::from(other[0] & 15) * 4, 20 + copied.len(), "{:?}", frame.ip_options);
            assert_eq!(&other[20..20 + copied.len()], copied);
        }
    }
}

/// UDP in a tunnel: what its own checksum leaves out, that of the tunnel has to cover.
#[test]
fn segments_in_place_are_those_that_are_written() {
    for (inner, outer) in [Field::Good, Field::None, Field::Partial]
        .into_iter()
        .flat_map(|inner| [Field::Good, Field::None].map(|outer| (inner, outer)))
    {
        let udp = Wrap::Udp { source: 0xC001, port: 4789, field: outer };
        let ethernet = Wrap::Ethernet { mac: 3, tags: Vec::new(), behind: Vec::new(), kind: None };
        let vxlan = Wrap::Vxlan { flags: 8, vni: 7, reserved: 0 };
        let tunnel = vec![Wrap::Ip(Ip::default()), udp, vxlan, ethernet];
        let payload = (0..=255).collect();
        let frame = Frame { tunnel, payload, protocol: UDP, field: inner, ..Frame::default() };
        let partial = inner == Field::Partial;
        let checksum = if partial { ChecksumState::Partial } else { ChecksumState::Unknown };
        let meta = Meta { checksum, ..Meta::default() };
        let packet = Packet::new(frame.bytes(), LinkType::Ethernet, meta);
        assert_eq!(packet.layout().tunnels(), 1);
        let cut = || segment(&packet, Gso { size: 101, ..Gso::default() }).expect("UDP");
        let mut segments = cut();
        let mut in_place = Vec::new();
        while let Some(segment) = segments.next_segment() {
            let payload = segment.payload.collect::<Vec<_>>().concat();
            in_place.push(([segment.header, &payload].concat(), segment.class));
        }
        assert!(in_place == all(cut()), "{inner:?} in {outer:?}");
        assert_eq!(in_place.len(), 3);
        for (frame, _) in in_place.iter().filter(|_| outer == Field::Good && !partial) {
            // Addresses and protocol, length, and all of UDP, which includes the checksum.
            let len = [&frame[38..40], &[0, UDP]].concat();
            let sum = [&frame[26..34], &len, &frame[34..]].concat();
            assert_eq!(sum16(&sum), 0xFFFF, "{inner:?}");
        }
    }
}
