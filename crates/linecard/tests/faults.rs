//! One test for each fault that other engines have: the list of offload.md, "What others get
//! wrong". Each fails when the rule it is named after is taken away.

use linecard::offload::coalesce::{Config, Exit, Flush, Refusal};
use linecard::offload::segment::{SegmentError, fragment, segment};
use linecard::packet::{Batch, Form, Gso, LayerKind, LinkType, MAX_TAGS, Meta, Packet};
use linecard::time::Instant;
use linecard_testkit::packets::frame::{
    self, ACK, AE, Behind, CWR, ECE, FIN, Field, Frame, IpField, PSH, RST, TCP, UDP, URG,
};
use linecard_testkit::packets::runner::{
    Real, arrival, arrivals, check_round_trip, coalesce, groups, packet,
};
use linecard_testkit::packets::{plain, splitter};
use linecard_testkit::part;

/// Three packets of a bulk transfer, the second changed.
fn second(change: impl Fn(&mut Frame)) -> Vec<Frame> {
    let mut frames: Vec<Frame> = (0..3).map(|index| Frame::bulk(index, 100)).collect();
    change(&mut frames[1]);
    frames
}

/// [`second`] over IPv6.
fn second_v6(change: impl Fn(&mut Frame)) -> Vec<Frame> {
    let mut frames = second(change);
    frames.iter_mut().for_each(|frame| frame.v6 = true);
    frames
}

/// All packets of [`second`] leave alone, in order.
fn none_merge(frames: &[Frame]) {
    assert_eq!(groups(frames), [[0], [1], [2]]);
}

/// The segments of a frame that is cut.
fn cut(frame: &Frame, gso: Gso) -> Vec<Vec<u8>> {
    let packet = Packet::new(frame.bytes(), frame.link, Meta::default());
    let mut segments = segment(&packet, gso).expect("a whole datagram");
    let mut all = Vec::new();
    let mut room = [0; 70_000];
    while let Some(written) = segments.write_next(&mut room).expect("room") {
        all.push(room[..written.len].to_vec());
    }
    all
}

fn size(size: u16) -> Gso {
    Gso { size, ..Gso::default() }
}

/// Promise (Offloads): Each of fourteen faults of other engines is absent; the tests `fault_01` to
/// `fault_14` name them.
#[test]
fn nothing_changed_merges() {
    assert_eq!(groups(&second(|_| ())), [[0, 1, 2]]);
    assert_eq!(groups(&second_v6(|_| ())), [[0, 1, 2]]);
}

#[test]
fn fault_01_different_windows_do_not_merge() {
    none_merge(&second(|frame| frame.window += 1));
    none_merge(&second(|frame| frame.window = 0));
    // A zero-window update without data stays what it is, where it is.
    let update = |frame: &mut Frame| (frame.window, frame.payload) = (0, Vec::new());
    none_merge(&second(update));
    none_merge(&second(|frame| frame.acknowledgment += 1));
}

/// Promise (Offloads): Merging launders no error: a corrupt segment still fails at the receiver,
/// and with trusted checksums the merged packet fails.
#[test]
fn fault_02_corrupt_checksums_stay_corrupt() {
    for frames in [
        second(|frame| frame.ip_field = IpField::Bad),
        second(|frame| frame.field = Field::Bad),
        second_v6(|frame| frame.field = Field::Bad),
    ] {
        // The round trip checks that it leaves with the bytes it came with.
        none_merge(&frames);
    }
    // All corrupt: they would agree with each other.
    let mut frames = second(|_| ());
    frames.iter_mut().for_each(|frame| frame.ip_field = IpField::Bad);
    none_merge(&frames);
    frames.iter_mut().for_each(|frame| (frame.ip_field, frame.field) = (IpField::Good, Field::Bad));
    none_merge(&frames);
}

/// A checksum that is wrongly vouched for stays wrong: payload is not read.
#[test]
fn fault_02_a_checksum_wrongly_vouched_for_fails_in_the_merged_packet() {
    let frames = second(|frame| frame.field = Field::Bad);
    let config = Config {
        checksum: linecard::offload::coalesce::ChecksumPolicy::Trust,
        ..Config::default()
    };
    let outs = coalesce(config, &frames).outs();
    assert_eq!(outs[0].packets, [0, 1, 2]);
    let verified = coalesce(
        Config { verify_alone: true, ..Config::default() },
        &[Frame { raw: Some(outs[0].frame.clone()), ..Frame::default() }],
    );
    assert_eq!(verified.out[0].1, Exit::Passed(Refusal::Checksum));
}

#[test]
fn fault_03_ids_flow_labels_ttl_and_marks_count() {
    none_merge(&second(|frame| frame.id = 77));
    none_merge(&second(|frame| (frame.id, frame.flags_fragment) = (77, 0)));
    none_merge(&second(|frame| frame.ttl -= 1));
    none_merge(&second(|frame| frame.tos = 3));
    none_merge(&second(|frame| frame.flags_fragment = 0));
    none_merge(&second_v6(|frame| frame.ttl -= 1));
    none_merge(&second_v6(|frame| frame.tos = 3));
    // Another label is another flow: the others merge, and keep their gap.
    let other = groups(&second_v6(|frame| frame.label += 1));
    assert_eq!(other.len(), 3);
    // Fixed, then counting, and the other way round: the first step decides.
    let with = |ids: [u16; 4]| -> Vec<Frame> {
        let frame = |(index, id)| Frame { id, ..Frame::bulk(index, 100) };
        ids.into_iter().enumerate().map(frame).collect()
    };
    assert_eq!(groups(&with([9, 9, 9, 9])), [[0, 1, 2, 3]]);
    assert_eq!(groups(&with([65_534, 65_535, 0, 1])), [[0, 1, 2, 3]]);
    assert_eq!(groups(&with([9, 9, 10, 11])), [[0, 1], [2, 3]]);
    assert_eq!(groups(&with([9, 10, 10, 10])), [[0, 1], [2, 3]]);
    assert_eq!(groups(&with([9, 11, 13, 15])), [[0], [1], [2], [3]]);
    assert_eq!(groups(&with([9, 8, 7, 6])), [[0], [1], [2], [3]]);
}

#[test]
fn fault_04_accurate_ecn_and_cwr() {
    for flag in [AE, CWR, ECE, 0x200, 0x400, 0x800] {
        none_merge(&second(|frame| frame.flags |= flag));
        // On all of them it is kept on all of them; the round trip looks at each.
        let mut frames = second(|_| ());
        frames.iter_mut().for_each(|frame| frame.flags |= flag);
        assert_eq!(groups(&frames), [[0, 1, 2]], "{flag:#x}");
    }
    let frame = Frame { flags: ACK | AE | CWR | ECE | PSH | FIN, ..Frame::bulk(0, 300) };
    let flags = |gso: Gso| -> Vec<u16> {
        cut(&frame, gso).iter().map(|bytes| frame::be16(bytes, 46) & 0xFFF).collect()
    };
    let rest = ACK | AE | ECE;
    assert_eq!(flags(size(100)), [rest | CWR, rest, rest | PSH | FIN]);
    let accurate = Gso { accecn: true, ..size(100) };
    assert_eq!(flags(accurate), [rest | CWR, rest | CWR, rest | CWR | PSH | FIN]);
}

#[test]
fn fault_05_uso_never_sends_checksum_zero() {
    for v6 in [false, true] {
        let one = |index| Frame {
            v6,
            field: Field::ComputesToZero,
            payload: vec![index, 2, 3, index, 5, 6, 7],
            ..Frame::udp(usize::from(index), 7)
        };
        let frames: Vec<Frame> = (0..3).map(one).collect();
        assert_eq!(groups(&frames), [[0, 1, 2]]);
        let whole: Vec<u8> = (frames.iter())
            .flat_map(|frame| frame.bytes()[if v6 { 62 } else { 42 }..].to_vec())
            .collect();
        let large = Frame { payload: whole, ..one(0) };
        for (index, bytes) in
            cut(&Frame { field: Field::Good, ..large }, size(7)).iter().enumerate()
        {
            let field = frame::be16(bytes, if v6 { 60 } else { 40 });
            assert_eq!(field, 0xFFFF, "segment {index}, v6 {v6}");
            assert_eq!(*bytes, frames[index].bytes());
        }
    }
    // So does a merged packet whose own checksum computes to 0.
    let large = Frame { field: Field::ComputesToZero, ..Frame::udp(0, 200) };
    let payload = large.bytes()[42..].to_vec();
    let half = |index: usize| Frame {
        payload: payload[index * 100..][..100].to_vec(),
        ..Frame::udp(index, 100)
    };
    let outs = coalesce(Config::default(), &[half(0), half(1)]).outs();
    assert_eq!((outs.len(), frame::be16(&outs[0].frame, 40)), (1, 0xFFFF));
    // No checksum stays none.
    let none = Frame { field: Field::None, ..Frame::udp(0, 200) };
    assert!(cut(&none, size(100)).iter().all(|bytes| frame::be16(bytes, 40) == 0));
}

#[test]
fn fault_06_payload_length_counts_extension_headers() {
    let extensions = vec![(0, vec![0, 1, 4, 0, 0, 0, 0]), (60, vec![1; 15])];
    let frames: Vec<Frame> = (0..3)
        .map(|index| Frame { v6: true, extensions: extensions.clone(), ..Frame::bulk(index, 100) })
        .collect();
    assert_eq!(groups(&frames), [[0, 1, 2]]);
    let outs = coalesce(Config::default(), &frames).outs();
    assert_eq!(usize::from(frame::be16(&outs[0].frame, 18)), 8 + 16 + 20 + 300);
    let large = Frame { payload: vec![1; 250], ..frames[0].clone() };
    let lengths = |bytes: &Vec<u8>| frame::be16(bytes, 18);
    let all: Vec<u16> = cut(&large, size(100)).iter().map(lengths).collect();
    assert_eq!(all, [144, 144, 94]);
}

/// Promise (Offloads): Nothing of a flow overtakes its held data: fragments, options, control
/// packets and malformed lengths wait behind it.
#[test]
fn fault_07_nothing_overtakes_held_data() {
    let empty = |frame: &mut Frame| frame.payload = Vec::new();
    let changes: [&dyn Fn(&mut Frame); 12] = [
        &|frame| (frame.flags, frame.payload) = (ACK | RST, Vec::new()),
        &|frame| (frame.flags, frame.payload) = (ACK | FIN, Vec::new()),
        &empty,
        &|frame| frame.ip_options = vec![1, 1, 1, 0],
        &|frame| frame.flags_fragment = 0x2000,
        &|frame| frame.flags_fragment = 0x0010,
        &|frame| frame.options = vec![1, 1, 1, 1],
        &|frame| frame.field = Field::Bad,
        &|frame| frame.ip_field = IpField::Bad,
        &|frame| frame.keep = 60,
        &|frame| frame.behind = Behind::Bytes(vec![1, 2, 3]),
        &|frame| (frame.flags, frame.urgent) = (ACK | URG, 3),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut frames: Vec<Frame> = (0..4).map(|index| Frame::bulk(index, 100)).collect();
        change(&mut frames[2]);
        assert_eq!(groups(&frames), [&[0, 1][..], &[2], &[3]], "change {number}");
    }
    let mut frames: Vec<Frame> = (0..4).map(|index| Frame::bulk(index, 100)).collect();
    frames.iter_mut().for_each(|frame| frame.v6 = true);
    frames[2].extensions = vec![(44, vec![0, 0, 1, 0, 0, 0, 9])];
    assert_eq!(groups(&frames), [&[0, 1][..], &[2], &[3]]);
    // ICMP is of no flow, and need not wait; nor does another flow.
    let mut frames: Vec<Frame> = (0..3).map(|index| Frame::bulk(index, 100)).collect();
    frames.insert(1, Frame { protocol: 1, ..Frame::default() });
    assert_eq!(groups(&frames), [&[1][..], &[0, 2, 3]]);
}

/// A packet with total length 0, as a capture on the sender has for what exceeds 64 KiB, shows its
/// addresses and ports all the same.
#[test]
fn fault_07_a_malformed_length_does_not_overtake() {
    let mut odd = Frame::bulk(2, 100).bytes();
    frame::put16(&mut odd, 16, 0);
    let frames =
        [Frame::bulk(0, 100), Frame::bulk(1, 100), Frame { raw: Some(odd), ..Frame::default() }];
    let outs = coalesce(Config::default(), &frames).outs();
    let order: Vec<_> = outs.into_iter().map(|out| out.packets).collect();
    assert_eq!(order, [&[0, 1][..], &[2]]);
}

#[test]
fn fault_08_push_stays_and_sizes_are_not_mixed() {
    let mut frames: Vec<Frame> = (0..4).map(|index| Frame::bulk(index, 100)).collect();
    frames[1].flags |= PSH;
    assert_eq!(groups(&frames), [[0, 1], [2, 3]]);
    for end in [FIN, PSH | FIN] {
        frames[1].flags = ACK | end;
        assert_eq!(groups(&frames), [[0, 1], [2, 3]]);
    }
    for lone in [RST, URG, 2] {
        frames[1].flags = ACK | lone;
        assert_eq!(groups(&frames), [&[0][..], &[1], &[2, 3]]);
    }
    let of = |sizes: &[usize], protocol| {
        let mut sequence = 5;
        let mut frames = Vec::new();
        for (id, len) in sizes.iter().enumerate() {
            let payload = vec![id as u8; *len];
            let id = id as u16;
            frames.push(Frame { protocol, sequence, id, payload, ..Frame::default() });
            sequence += *len as u32;
        }
        groups(&frames).iter().map(Vec::len).collect::<Vec<_>>()
    };
    for protocol in [TCP, UDP] {
        assert_eq!(of(&[1000, 100, 1000], protocol), [2, 1]);
        assert_eq!(of(&[100, 1000], protocol), [1, 1]);
        assert_eq!(of(&[1000, 1000, 1, 1], protocol), [3, 1]);
        assert_eq!(of(&[1, 1, 1], protocol), [3]);
    }
}

#[test]
fn fault_09_padding_is_not_payload() {
    // 54 bytes of header and 6 of payload need no padding; a tail of one byte does.
    let mut frames: Vec<Frame> = (0..3).map(|index| Frame::bulk(index, 6)).collect();
    frames[2].payload.truncate(1);
    frames.iter_mut().for_each(|frame| frame.behind = Behind::Padding);
    assert_eq!(frames[2].bytes().len(), 60);
    assert_eq!(groups(&frames), [[0, 1, 2]]);
    let outs = coalesce(Config::default(), &frames).outs();
    assert_eq!((outs[0].frame.len(), frame::be16(&outs[0].frame, 16)), (54 + 13, 40 + 13));
    // One is padded, one is not: that cannot be given back.
    let mut frames: Vec<Frame> = (0..2).map(|index| Frame::bulk(index, 2)).collect();
    frames[1].behind = Behind::Padding;
    assert_eq!(groups(&frames), [[0], [1]]);
    // Nor where the first is padded, and both are found in a batch: with others in between, and held or not.
    for (of, flush_at_batch_end) in
        [(Frame::bulk as fn(_, _) -> _, true), (Frame::udp, true), (Frame::udp, false)]
    {
        let mut frames: Vec<Frame> = (0..3).map(|index| of(index, 2)).collect();
        frames[0].behind = Behind::Padding;
        frames.insert(1, Frame { ports: (1, 9), ..of(7, 100) });
        let mut real = Real::new(Config { flush_at_batch_end, ..Config::default() });
        let mut batch = Batch::new();
        for (number, arrival) in arrivals(&frames).iter().enumerate() {
            batch.push(packet(number, arrival)).expect("fewer than 64");
        }
        real.push_batch(&mut batch, Instant::ZERO);
        real.stop();
        let mut groups: Vec<_> = real.outs().into_iter().map(|out| out.packets).collect();
        groups.sort();
        assert_eq!(groups, [vec![0], vec![1], vec![2, 3]]);
        check_round_trip(&real, &arrivals(&frames));
    }
    // Padding that is not zero, or not up to 60 bytes, is preserved by not merging.
    let behind = [vec![0; 4], vec![1; 4], vec![0; 5], vec![0; 40]];
    for (bytes, groups_of) in behind.into_iter().zip([1, 2, 2, 2]) {
        let mut frames: Vec<Frame> = (0..2).map(|index| Frame::bulk(index, 2)).collect();
        frames.iter_mut().for_each(|frame| frame.behind = Behind::Bytes(bytes.clone()));
        assert_eq!(groups(&frames).len(), groups_of, "{bytes:?}");
    }
}

/// All arrivals of six packets, any of them any number of times and in any order: 46,656 patterns.
#[test]
fn fault_10_one_aggregate_per_flow_whatever_the_order() {
    let frames: Vec<Frame> = (0..6).map(|index| Frame::bulk(index, 3)).collect();
    let config = Config { max_flows: 8, max_held_packets: 16, ..Config::default() };
    for pattern in (0..6_usize.pow(6)).step_by(part()) {
        let order: Vec<Frame> =
            (0..6).map(|place| frames[pattern / 6_usize.pow(place) % 6].clone()).collect();
        let real = coalesce(config.clone(), &order);
        let left: Vec<usize> = real.outs().into_iter().flat_map(|out| out.packets).collect();
        assert_eq!(left, [0, 1, 2, 3, 4, 5], "pattern {pattern}");
        check_round_trip(&real, &arrivals(&order));
    }
}

#[test]
fn fault_11_a_flush_leaves_nothing_and_no_state() {
    let mut real = Real::new(Config::default());
    let flow = |port, index| Frame { ports: (port, 9), ..Frame::bulk(index, 50) };
    for port in 1..=40 {
        for index in 0..2 {
            let number = usize::from(port) * 2 + index;
            real.push(number, &arrival(&flow(port, index), 0));
        }
    }
    assert_eq!(real.coalescer.held(), 80);
    real.stop();
    assert_eq!((real.coalescer.held(), real.coalescer.next_wakeup()), (0, None));
    assert_eq!(real.out.len(), 40);
    // Each packet is compared with the next one, not with those that have left.
    let mut frames: Vec<Frame> = (0..6).map(|index| Frame::bulk(index, 100)).collect();
    frames[2].field = Field::Bad;
    assert_eq!(groups(&frames), [&[0, 1][..], &[2], &[3, 4, 5]]);
    // A packet refused for its header opens with its own values.
    let mut frames: Vec<Frame> = (0..6).map(|index| Frame::bulk(index, 100)).collect();
    frames[3..].iter_mut().for_each(|frame| (frame.window, frame.id) = (9, 1));
    assert_eq!(groups(&frames), [[0, 1, 2], [3, 4, 5]]);
}

/// Tunnels and virtio headers come later; what nests today is VLAN tags and extension headers, and
/// no length in them is trusted.
#[test]
fn fault_12_nesting_is_bounded_and_lengths_are_not_trusted() {
    for tags in 0..200 {
        let frame = Frame { tags: vec![[0x81, 0, 0, 1]; tags], ..Frame::default() };
        let packet = Packet::new(frame.bytes(), frame.link, Meta::default());
        let expected = if tags <= MAX_TAGS { Form::Datagram } else { Form::NotIp };
        assert_eq!(packet.layout().form(), expected, "{tags} tags");
    }
    for count in 0..200 {
        let extensions = vec![(60, vec![0, 1, 4, 0, 0, 0, 0]); count];
        let frame = Frame { v6: true, extensions, ..Frame::default() };
        let packet = Packet::new(frame.bytes(), frame.link, Meta::default());
        let expected = if count <= 8 { Form::Datagram } else { Form::OtherTransport };
        assert_eq!(packet.layout().form(), expected, "{count} extension headers");
        assert!(packet.layout().layers().all(|layer| layer.kind != LayerKind::Ipv4));
    }
    let packet = Packet::new(Frame::default().bytes(), LinkType::Ethernet, Meta::default());
    assert_eq!(segment(&packet, size(0)).err(), Some(SegmentError::ZeroSize));
    let short = Frame { keep: 80, ..Frame::default() };
    let packet = Packet::new(short.bytes(), short.link, Meta::default());
    assert_eq!(segment(&packet, size(9)).err(), Some(SegmentError::NotADatagram(Form::CutShort)));
}

/// Found by review: routing headers with segments left, and more headers than are followed, that
/// end beyond the datagram or only in a trailer.
#[test]
fn fault_12_fragmenting_never_leaves_the_datagram() {
    let odd =
        [(1, 30, 1), (1, 8, 1), (9, 1, 0), (10, 5, 0), (10, 15, 0), (10, 20, 0), (12, 200, 0)];
    for (count, units, left) in odd {
        for trailer in [0, 8, 300] {
            let mut extensions = vec![(60, vec![0, 1, 4, 0, 0, 0, 0]); count - 1];
            extensions.push((43, vec![units, 0, left, 0, 0, 0, 0]));
            let frame = Frame {
                link: LinkType::Raw,
                v6: true,
                extensions,
                payload: vec![0; 60],
                behind: Behind::Bytes(vec![0; trailer]),
                ..Frame::default()
            };
            let packet = Packet::new(frame.bytes(), frame.link, Meta::default());
            if let Ok(mut fragments) = fragment(&packet, 68, 1) {
                let mut room = vec![0; fragments.max_len()];
                while let Ok(Some(_)) = fragments.write_next(&mut room) {}
            }
        }
    }
}

/// A fragment whose offset and length add up to more than a datagram can be is not divided: its
/// offsets would wrap.
#[test]
fn fault_12_a_fragment_beyond_any_datagram_is_not_divided() {
    let frame = Frame { flags_fragment: 8_000, ..Frame::bulk(0, 1_600) };
    let packet = Packet::new(frame.bytes(), frame.link, Meta::default());
    let error = fragment(&packet, 600, 0).err();
    assert!(matches!(error, Some(SegmentError::OffsetTooLarge { .. })), "{error:?}");
}

/// An extension header that says it is longer than the datagram, before a protocol that is not
/// looked into: nothing of it may be taken for bytes of the packet.
#[test]
fn fault_12_an_extension_header_beyond_the_datagram_is_malformed() {
    for next in [58, 59, 44, 50, 6] {
        for (units, padding) in [(1, 0), (20, 0), (200, 0), (1, 8)] {
            let frame = Frame {
                link: LinkType::Raw,
                v6: true,
                extensions: vec![(0, vec![units, 1, 4, 0, 0, 0, 0])],
                protocol: next,
                payload: Vec::new(),
                behind: Behind::Bytes(vec![0; padding]),
                ..Frame::default()
            };
            let mut bytes = frame.bytes();
            if next == TCP {
                bytes.truncate(48);
                frame::put16(&mut bytes, 4, 8);
            }
            let packet = Packet::new(bytes, frame.link, Meta::default());
            assert_eq!(packet.layout().form(), Form::Malformed, "next {next}, {units} units");
            assert!(fragment(&packet, 1280, 1).is_err());
        }
    }
}

#[test]
fn fault_13_cost_does_not_grow_with_flows() {
    const BURST: usize = 4;
    let flows = 100_000 / part();
    let config = Config { max_flows: flows, max_held_packets: 1_024, ..Config::default() };
    let mut real = Real::new(config);
    let mut number = 0;
    // The flows take turns with bursts, all within the table's memory.
    for round in 0..2 {
        for flow in 0..flows {
            for index in 0..BURST {
                let frame = Frame {
                    source: (flow >> 12) as u8,
                    ports: (1024 + (flow & 0xFFF) as u16, 80),
                    ..Frame::bulk(round * BURST + index, 8)
                };
                real.push(number, &arrival(&frame, number as u64));
                number += 1;
            }
            assert!(real.coalescer.held() <= 1_024);
        }
    }
    real.stop();
    let counters = real.coalescer.counters();
    assert!(real.coalescer.flows() <= flows.next_power_of_two());
    assert!(counters.mean_aggregate() >= BURST as f64 * 0.99, "{}", counters.mean_aggregate());
    assert_eq!(counters.packets_in, (2 * flows * BURST) as u64);
}

/// Promise (Offloads): Payload is neither copied nor read to merge: the slices of a merged packet
/// point into the received buffers.
///
/// No copy per packet: the merged packet's slices lie where the packets arrived.
#[test]
fn fault_13_payload_stays_where_it_arrived() {
    let mut places = Vec::new();
    let mut real = Real::new(Config::default());
    for index in 0..5 {
        let packet = packet(index, &arrival(&Frame::bulk(index, 100), 0));
        places.push(packet.bytes()[54..].as_ptr());
        let out = &mut real.out;
        real.coalescer.push(packet, Instant::ZERO, &mut |p, e| out.push((p, e)));
    }
    real.stop();
    let slices: Vec<*const u8> = real.out[0].0.payload().map(<[u8]>::as_ptr).collect();
    assert_eq!(slices, places);
    let packet = &real.out[0].0;
    let mut segments = segment(packet, packet.meta.gso.expect("merged")).expect("merged");
    for place in places {
        let mut payload = segments.next_segment().expect("five").payload;
        assert_eq!(payload.next().map(<[u8]>::as_ptr), Some(place));
    }
}

#[test]
fn fault_14_a_checksum_that_is_valid_but_not_canonical_is_not_merged() {
    for v6 in [false, true] {
        let with = |field| -> Vec<Frame> {
            let change = |frame: &mut Frame| frame.field = field;
            if v6 { second_v6(change) } else { second(change) }
        };
        none_merge(&with(Field::Ones));
        assert_eq!(groups(&with(Field::ComputesToZero)), [[0, 1, 2]]);
    }
    let real = coalesce(Config::default(), &second(|frame| frame.field = Field::Ones));
    assert_eq!(real.out[1].1, Exit::Passed(Refusal::UnusualChecksum));
    assert_eq!(real.out[0].1, Exit::Flushed(Flush::Bypass));
    // In UDP 0xFFFF is what a sender writes.
    let udp: Vec<Frame> =
        (0..3).map(|index| Frame { field: Field::Ones, ..Frame::udp(index, 20) }).collect();
    assert_eq!(groups(&udp), [[0, 1, 2]]);
    // The same for the IPv4 header: 0xFFFF is valid there too, and segmenting writes 0.
    let mut frames = second(|_| ());
    frames[0].ip_field = IpField::Ones;
    let id = frame::be16(&frames[0].bytes(), 18);
    frames[1].id = id.wrapping_add(1);
    frames[2].id = id.wrapping_add(2);
    assert_eq!(groups(&frames), [&[0][..], &[1, 2]]);
    frames[0].ip_field = IpField::Zero;
    assert_eq!(groups(&frames), [[0, 1, 2]]);
}

/// RFC 791, section 3.1: options without the copied flag are in the first fragment only, also
/// where padding makes both lengths equal.
#[test]
fn options_that_are_not_copied_stay_in_the_first_fragment() {
    let frame = Frame {
        flags_fragment: 0,
        // Loose route (copied) of 5 bytes, and an empty record route of 3.
        ip_options: vec![0x83, 5, 4, 0, 0, 7, 3, 4],
        ..Frame::udp(0, 100)
    };
    let bytes = frame.bytes();
    let packet = Packet::new(bytes.clone(), frame.link, Meta::default());
    let mut fragments = fragment(&packet, 68, 0).expect("no DF");
    let mut room = [0; 100];
    let twin = splitter::fragment(&bytes, 14, false, 68, 0).expect("no DF");
    for expected in twin {
        let written = fragments.write_next(&mut room).expect("room").expect("as many");
        assert_eq!(room[..written.len], expected[..]);
    }
    assert_eq!(plain::view(frame.link, &room).ip, Some(14));
}
