//! The faults of offload.md, "What others get wrong", as they look from inside a tunnel, or in the
//! headers around it; numbered as in `faults.rs`.

use linecard::offload::coalesce::{Config, Creation, Exit, Refusal};
use linecard::offload::segment::fragment;
use linecard::packet::{
    ChecksumState, Form, LayerKind, Layout, LinkType, MAX_LABELS, MAX_TUNNELS, Meta, Packet,
};
use linecard_testkit::packets::frame::{ACK, Field, Frame, IpField, RST, SYN, UDP, be16};
use linecard_testkit::packets::ip::Ip;
use linecard_testkit::packets::plain;
use linecard_testkit::packets::runner::{
    Real, arrivals, check_round_trip, coalesce, groups, whole,
};
use linecard_testkit::packets::splitter;
use linecard_testkit::packets::tunnel::{Wrap, each_kind};

/// Three packets of a bulk transfer in a tunnel of the kind at `at` of [`each_kind`].
fn three(at: usize) -> Vec<Frame> {
    let frame = |index| Frame { tunnel: each_kind(index).remove(at).1, ..Frame::bulk(index, 100) };
    (0..3).map(frame).collect()
}

/// Where the kind with this name is.
fn place(name: &str) -> usize {
    each_kind(0).iter().position(|(other, _)| *other == name).expect("a name of the list")
}

/// Three packets in the tunnel named, a header of the second changed.
fn second(name: &str, change: impl Fn(&mut Wrap)) -> Vec<Frame> {
    let mut frames = three(place(name));
    frames[1].tunnel.iter_mut().for_each(change);
    frames
}

/// [`second`] with a change of the outer IP header.
fn second_ip(name: &str, change: impl Fn(&mut Ip)) -> Vec<Frame> {
    second(name, |wrap| {
        if let Wrap::Ip(ip) = wrap {
            change(ip);
        }
    })
}

/// All three leave alone, in order, with the bytes they came with.
fn none_merge(frames: &[Frame]) {
    assert_eq!(groups(frames), [[0], [1], [2]]);
}

fn tunnelled(name: &str, index: usize) -> Frame {
    Frame { tunnel: each_kind(index).remove(place(name)).1, ..Frame::bulk(index, 100) }
}

#[test]
fn nothing_changed_merges_in_every_tunnel() {
    for (at, (name, _)) in each_kind(0).iter().enumerate() {
        for (v6, protocol) in [(false, 6), (true, 6), (false, UDP), (true, UDP)] {
            let mut frames = three(at);
            frames.iter_mut().for_each(|frame| (frame.v6, frame.protocol) = (v6, protocol));
            let deep = name == &"three deep";
            let config = Config { max_tunnels: 3, ..Config::default() };
            let real = coalesce(config, &frames);
            check_round_trip(&real, &arrivals(&frames));
            assert_eq!(real.out.len(), 1, "{name}");
            // Fault 6: all lengths of the merged packet agree.
            let merged = whole(&real.out[0].0);
            let view = plain::view(LinkType::Ethernet, &merged);
            assert_eq!((view.form, view.payload_len()), (Form::Datagram, 300), "{name}");
            assert!(deep || view.networks().count() <= 3);
        }
    }
}

#[test]
fn fault_02_corrupt_outer_checksums_stay_corrupt() {
    let outer_udp = |wrap: &mut Wrap| {
        if let Wrap::Udp { field, .. } = wrap {
            *field = Field::Bad;
        }
    };
    let outer_gre = |wrap: &mut Wrap| {
        if let Wrap::Gre { checksum, .. } = wrap {
            *checksum = Some(Field::Bad);
        }
    };
    let all = |name: &str, change: &dyn Fn(&mut Wrap)| {
        let mut frames = second(name, change);
        none_merge(&frames);
        // All corrupt: they would agree with each other.
        frames.iter_mut().flat_map(|frame| &mut frame.tunnel).for_each(change);
        none_merge(&frames);
    };
    for name in ["VXLAN with checksum", "VXLAN over IPv6", "Geneve", "MPLS in UDP", "VXLAN in GRE"]
    {
        all(name, &outer_udp);
    }
    for name in ["GRE with checksum", "Ethernet in GRE", "VXLAN in GRE"] {
        all(name, &outer_gre);
    }
    for name in ["IP in IPv4", "GRE", "VXLAN"] {
        none_merge(&second_ip(name, |ip| ip.field = IpField::Bad));
    }
    for name in ["VXLAN", "VXLAN with checksum", "GRE", "PPPoE", "MPLS"] {
        let mut frames = three(place(name));
        frames[1].field = Field::Bad;
        none_merge(&frames);
    }
}

/// Was merged, and came back with a right checksum: UDP without a checksum in a tunnel whose
/// checksum is wrong, when the port said "partial".
#[test]
fn fault_02_no_checksum_inside_hides_no_wrong_one_outside() {
    let frames: Vec<Frame> = three(place("VXLAN with checksum"))
        .into_iter()
        .map(|mut frame| {
            frame.tunnel[1] = Wrap::Udp { source: 50_000, port: 4789, field: Field::Bad };
            Frame { protocol: UDP, field: Field::None, ..frame }
        })
        .collect();
    let mut all = arrivals(&frames);
    all.iter_mut().for_each(|arrival| arrival.meta.checksum = ChecksumState::Partial);
    let mut real = Real::new(Config { verify_alone: true, ..Config::default() });
    all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    real.stop();
    check_round_trip(&real, &all);
    assert_eq!(real.coalescer.counters().refused.of(Refusal::Checksum), 3);
}

/// A header that is only unusual was taken for the verdict on all headers.
#[test]
fn fault_02_an_unusual_header_inside_hides_no_wrong_one_outside() {
    let config = || Config { creation: Creation::OnSyn, ..Config::default() };
    let control = |flags, field| {
        let wraps = vec![Wrap::Ip(Ip { field, ..Ip::default() })];
        Frame {
            tunnel: wraps,
            ip_field: IpField::Ones,
            flags,
            payload: Vec::new(),
            ..Frame::bulk(0, 9)
        }
    };
    let real = coalesce(config(), &[control(SYN, IpField::Good)]);
    assert_eq!(real.coalescer.flows(), 1, "unusual is right");
    let real = coalesce(config(), &[control(SYN, IpField::Bad)]);
    assert_eq!(real.coalescer.flows(), 0, "a corrupt SYN opens nothing");
    let real = coalesce(config(), &[control(SYN, IpField::Good), control(RST, IpField::Bad)]);
    assert_eq!(real.coalescer.flows(), 1, "a corrupt RST closes nothing");
}

/// The outer checksum covers what lies behind the datagram in its inner frame; it was left out, so
/// that such a SYN was taken for a corrupt one, and a corrupt one perhaps for right.
#[test]
fn fault_02_outer_checksums_cover_padding_inside() {
    let names = ["VXLAN with checksum", "Ethernet in GRE"];
    let kinds = names.into_iter().flat_map(|name| [(name, false), (name, true)]);
    for ((name, v6), len) in kinds.flat_map(|kind| [(kind, 0), (kind, 1)]) {
        for (padding, spoilt) in [(vec![], 0), (vec![0; 5], 0), (vec![7; 5], 0), (vec![7; 4], 9)] {
            let payload = vec![7; len];
            let mut syn = Frame { flags: SYN, payload, ..tunnelled(name, 0) };
            for wrap in &mut syn.tunnel {
                match wrap {
                    Wrap::Ethernet { behind, .. } => behind.clone_from(&padding),
                    Wrap::Ip(ip) => ip.v6 = v6,
                    _ => {}
                }
            }
            let mut all = arrivals(&[syn]);
            if let Some(last) = all[0].bytes.last_mut() {
                *last ^= spoilt;
            }
            let mut real = Real::new(Config { creation: Creation::OnSyn, ..Config::default() });
            real.push(0, &all[0]);
            assert_eq!(real.coalescer.flows(), usize::from(spoilt == 0), "{name} {v6} {padding:?}");
        }
    }
}

#[test]
fn fault_03_marks_and_ids_of_outer_headers_count() {
    for name in ["IP in IPv4", "IP in IPv6", "GRE", "VXLAN", "VXLAN over IPv6", "Geneve"] {
        // Congestion experienced; a hop more; another DSCP.
        none_merge(&second_ip(name, |ip| ip.tos |= 3));
        none_merge(&second_ip(name, |ip| ip.tos ^= 0xB8));
        none_merge(&second_ip(name, |ip| ip.ttl -= 1));
    }
    for name in ["IP in IPv4", "MPLS in IP", "VXLAN"] {
        none_merge(&second_ip(name, |ip| ip.flags_fragment = 0));
        none_merge(&second_ip(name, |ip| ip.id += 9));
    }
    // Another tunnel is another flow: the first and the third stay together.
    let apart = |frames: &[Frame]| assert_eq!(groups(frames).concat().len(), 3);
    for (name, change) in OTHER_TUNNELS {
        let frames = second(name, change);
        apart(&frames);
        assert!(groups(&frames).contains(&vec![1]), "{name}");
    }
}

/// A tunnel by name, and a change of one of its headers.
type Change = (&'static str, fn(&mut Wrap));

/// Headers that tell tunnels apart.
const OTHER_TUNNELS: [Change; 6] = [
    ("VXLAN", |wrap| {
        if let Wrap::Vxlan { vni, .. } = wrap {
            *vni += 1;
        }
    }),
    ("GRE", |wrap| {
        if let Wrap::Gre { key, .. } = wrap {
            *key = Some(1);
        }
    }),
    ("MPLS", |wrap| {
        if let Wrap::Mpls { labels, .. } = wrap {
            labels[0][3] -= 1;
        }
    }),
    ("PPPoE", |wrap| {
        if let Wrap::Pppoe { session, .. } = wrap {
            *session += 1;
        }
    }),
    ("Geneve", |wrap| {
        if let Wrap::Geneve { options, .. } = wrap {
            options[7] += 1;
        }
    }),
    ("IP in IPv6", |wrap| {
        if let Wrap::Ip(ip) = wrap {
            ip.label += 1;
        }
    }),
];

/// Every IPv4 header has its own rule: one may stand still while the other counts.
#[test]
fn fault_03_identifications_of_each_header_have_their_own_rule() {
    for (inner, outer, fixed) in [(0, 0, 3), (1, 0, 2), (0, 1, 1), (1, 1, 0)] {
        let frames: Vec<Frame> = (0..4)
            .map(|index| {
                let id = 65_534_u16.wrapping_add(outer * index as u16);
                let ip = Ip { id, ..Ip::default() };
                let id = inner * index as u16;
                Frame { tunnel: vec![Wrap::Ip(ip)], id, ..Frame::bulk(index, 100) }
            })
            .collect();
        let real = coalesce(Config::default(), &frames);
        check_round_trip(&real, &arrivals(&frames));
        let gso = real.out[0].0.meta.gso.expect("all merge");
        assert_eq!((gso.segments, gso.fixed_ids), (4, fixed));
    }
}

/// One in 65,536 outer checksums computes to 0, which would mean "none".
#[test]
fn fault_05_an_outer_udp_checksum_is_never_zero() {
    for name in ["VXLAN with checksum", "VXLAN over IPv6", "Geneve", "MPLS in UDP"] {
        let mut frames = three(place(name));
        // The inner packet sums to the same number whatever the payload is; the port does not.
        let found = (0..=u16::MAX).any(|port| {
            for wrap in frames.iter_mut().flat_map(|frame| &mut frame.tunnel) {
                if let Wrap::Udp { source, .. } = wrap {
                    *source = port;
                }
            }
            let bytes = frames[1].bytes();
            let udp = plain::view(LinkType::Ethernet, &bytes).all(LayerKind::Udp).next();
            be16(&bytes, udp.expect("the tunnel's") + 6) == 0xFFFF
        });
        assert!(found, "{name}");
        assert_eq!(groups(&frames), [[0, 1, 2]], "{name}");
    }
}

/// A name, a change of a frame, and whether it shows the tunnel's ends only.
type Case = (&'static str, fn(Frame) -> Frame, bool);

#[test]
fn fault_07_nothing_overtakes_held_data_in_a_tunnel() {
    let other = |mut frame: Frame| {
        frame.destination = 9;
        frame
    };
    // Packets without visible ports, and the flows that they flush: data in the tunnel, and beside
    // the tunnel's ends.
    let cases: [Case; 5] = [
        ("an outer fragment", |frame| with_ip(frame, |ip| ip.flags_fragment = 0x2000), true),
        ("outer options", |frame| with_ip(frame, |ip| ip.options = vec![1; 4]), false),
        ("an inner fragment", |frame| Frame { flags_fragment: 0x2000, ..frame }, false),
        ("a GRE sequence number", with_sequence, true),
        ("no known header inside", with_another_type, true),
    ];
    for (name, change, all) in cases {
        let held = |index| tunnelled("Ethernet in GRE", index);
        let frames = [held(0), held(1), other(held(0)), change(held(2)), held(3)];
        let real = coalesce(Config::default(), &frames);
        check_round_trip(&real, &arrivals(&frames));
        let outs: Vec<_> = real.outs().into_iter().map(|out| out.packets).collect();
        let at = |packet: usize| outs.iter().position(|out| out.contains(&packet)).expect("left");
        assert!(at(0) < at(3), "{name} overtook");
        assert_eq!(at(2) < at(3), all, "{name}: the tunnel's other data");
    }
}

fn with_ip(mut frame: Frame, change: impl Fn(&mut Ip)) -> Frame {
    for wrap in &mut frame.tunnel {
        if let Wrap::Ip(ip) = wrap {
            change(ip);
        }
    }
    frame
}

fn with_sequence(mut frame: Frame) -> Frame {
    for wrap in &mut frame.tunnel {
        if let Wrap::Gre { sequence, .. } = wrap {
            *sequence = Some(1);
        }
    }
    frame
}

fn with_another_type(mut frame: Frame) -> Frame {
    for wrap in &mut frame.tunnel {
        if let Wrap::Ethernet { kind, .. } = wrap {
            *kind = Some(0x0806);
        }
    }
    frame
}

/// An inner Ethernet frame may be padded to 60 bytes; the padding is not payload, and as it could
/// not be given back, such packets pass.
#[test]
fn fault_09_padding_inside_a_tunnel_is_not_payload() {
    for (name, padding) in [("VXLAN", 1), ("VXLAN with checksum", 17), ("Ethernet in GRE", 5)] {
        let frames = second(name, |wrap| {
            if let Wrap::Ethernet { behind, .. } = wrap {
                *behind = vec![0; padding];
            }
        });
        none_merge(&frames);
        let bytes = frames[1].bytes();
        let layout = Layout::parse(LinkType::Ethernet, &bytes);
        assert_eq!((layout.form(), layout.payload().len()), (Form::Padded, 100));
        assert_eq!(layout.end(), bytes.len() - padding);
    }
    // Padding of the outer frame is known, and comes back: a tail of one byte.
    let mut frames = three(place("MPLS"));
    frames.iter_mut().for_each(|frame| frame.payload.truncate(1));
    frames[1].sequence = frames[0].sequence + 1;
    frames[2].sequence = frames[0].sequence + 2;
    frames
        .iter_mut()
        .for_each(|frame| frame.behind = linecard_testkit::packets::frame::Behind::Padding);
    assert_eq!(frames[0].bytes().len(), 14 + 8 + 41);
    assert_eq!(groups(&frames), [[0, 1, 2]]);
}

#[test]
fn fault_12_stacked_tunnels_are_bounded() {
    let stack = |wraps: &dyn Fn() -> Vec<Wrap>, count: usize| {
        let tunnel = (0..count).flat_map(|_| wraps()).collect();
        Frame { tunnel, ..Frame::bulk(0, 100) }
    };
    let ip = || Wrap::Ip(Ip::default());
    let gre = || Wrap::Gre { key: None, checksum: None, sequence: None };
    let ethernet = || Wrap::Ethernet { mac: 1, tags: Vec::new(), behind: Vec::new(), kind: None };
    let udp = || Wrap::Udp { source: 1, port: 4789, field: Field::None };
    let kinds: [&dyn Fn() -> Vec<Wrap>; 3] =
        [&|| vec![ip()], &|| vec![ip(), gre(), ethernet()], &|| {
            vec![ip(), udp(), Wrap::Vxlan { flags: 8, vni: 1, reserved: 0 }, ethernet()]
        }];
    for wraps in kinds {
        for count in 0..200 {
            let frame = stack(wraps, count);
            let layout = Layout::parse(frame.link, &frame.bytes());
            let followed = count <= MAX_TUNNELS;
            let expected = if followed { Form::Datagram } else { Form::OtherTransport };
            assert_eq!(layout.form(), expected, "{count} tunnels");
            assert_eq!(layout.tunnels(), count.min(MAX_TUNNELS));
        }
    }
    for count in 1..200 {
        let labels = vec![[0, 1, 0, 9]; count];
        let tunnel = vec![Wrap::Mpls { labels, endless: false }];
        let frame = Frame { tunnel, ..Frame::bulk(0, 100) };
        let layout = Layout::parse(frame.link, &frame.bytes());
        let expected = if count <= MAX_LABELS { Form::Datagram } else { Form::NotIp };
        assert_eq!(layout.form(), expected, "{count} labels");
    }
    // Deep, but as far as configured: tunnels around merged packets.
    for max_tunnels in 0..=MAX_TUNNELS {
        for count in 0..=MAX_TUNNELS + 1 {
            let frames: Vec<Frame> = (0..2)
                .map(|index| Frame {
                    tunnel: stack(kinds[0], count).tunnel,
                    ..Frame::bulk(index, 9)
                })
                .collect();
            let real = coalesce(Config { max_tunnels, ..Config::default() }, &frames);
            check_round_trip(&real, &arrivals(&frames));
            let merged = count <= max_tunnels;
            assert_eq!(real.out.len() == 1, merged, "{count} of at most {max_tunnels}");
            if count <= MAX_TUNNELS && !merged {
                assert_eq!(real.out[0].1, Exit::Passed(Refusal::TunnelDepth));
            }
        }
    }
}

/// A port is a guess: a packet that is not VXLAN or Geneve is UDP, and merges as UDP does.
#[test]
fn fault_12_a_port_does_not_make_a_tunnel() {
    for (port, first) in [(4789, 0), (8472, 0x0C), (6081, 0x40), (6081, 0x80)] {
        let frames: Vec<Frame> = (0..3)
            .map(|index| {
                let mut frame = Frame { ports: (9, port), ..Frame::udp(index, 100) };
                frame.payload[0] = first;
                frame
            })
            .collect();
        let layout = Layout::parse(LinkType::Ethernet, &frames[0].bytes());
        assert_eq!((layout.form(), layout.layer_count()), (Form::Datagram, 2), "{port}");
        assert_eq!(groups(&frames), [[0, 1, 2]]);
    }
    // Options that go beyond the datagram, and less than a tunnel's header: with the payload of
    // others behind it, it would look like a tunnel. It passes.
    for (port, first, len) in [(6081, 0x3F, 100), (6081, 0, 4), (4789, 8, 7), (8472, 8, 1)] {
        let frames: Vec<Frame> = (0..3)
            .map(|index| {
                let mut frame = Frame { ports: (9, port), ..Frame::udp(index, len) };
                frame.payload[0] = first;
                frame
            })
            .collect();
        none_merge(&frames);
    }
    // VXLAN around something else than IP has no flow of its own: it passes, in order.
    let frames: Vec<Frame> = three(place("VXLAN")).into_iter().map(with_another_type).collect();
    let real = coalesce(Config::default(), &frames);
    assert_eq!(real.coalescer.counters().refused.of(Refusal::OtherTransport), 3);
    none_merge(&frames);
}

/// Datagrams that end within the header of their port's tunnel were merged as UDP, and the merged
/// packet then looked like one of a tunnel: the next reader could not give it back.
#[test]
fn fault_12_what_ends_within_a_tunnel_header_is_not_merged() {
    for (port, payload) in [(4789, vec![8, 0, 0, 0]), (8472, vec![8]), (6081, vec![0x3F; 100])] {
        let mut payload = payload;
        if let Some(second) = payload.get_mut(1) {
            *second = 0;
        }
        let frame =
            |index| Frame { ports: (9, port), payload: payload.clone(), ..Frame::udp(index, 1) };
        let frames: Vec<Frame> = (0..3).map(frame).collect();
        let layout = Layout::parse(LinkType::Ethernet, &frames[0].bytes());
        assert_eq!(layout.form(), Form::OtherTransport, "{port}");
        none_merge(&frames);
    }
}

/// An IPv6 header that lay behind the datagram around it was taken for a part of it, and PPPoE's
/// length of 0 put the payload behind the end of the packet.
#[test]
fn fault_12_headers_lie_inside_what_is_around_them() {
    let mut bytes = Frame { v6: true, ..tunnelled("IP in IPv4", 0) }.bytes();
    bytes[16..18].copy_from_slice(&40_u16.to_be_bytes());
    let layout = Layout::parse(LinkType::Ethernet, &bytes);
    assert_eq!((layout.form(), layout.layer_count(), layout.end()), (Form::Malformed, 1, 54));
    for len in 0..2_u16 {
        let mut bytes = tunnelled("PPPoE", 0).bytes();
        bytes[18..20].copy_from_slice(&len.to_be_bytes());
        let layout = Layout::parse(LinkType::Ethernet, &bytes);
        assert_eq!(layout.form(), Form::Malformed);
        assert!(layout.header_len() <= layout.end());
    }
}

/// The addresses of a tunnel packet were forgotten when a header inside of it was amiss.
#[test]
fn fault_12_the_innermost_ip_header_is_known_whatever_follows() {
    let mut frame = tunnelled("PPPoE in VXLAN", 0);
    frame.tunnel.push(Wrap::Mpls { labels: vec![[0; 4]], endless: false });
    let layout = Layout::parse(frame.link, &frame.bytes());
    assert_eq!(layout.form(), Form::Malformed);
    assert_eq!(layout.network().map(|layer| layer.offset), Some(14));
}

/// Fragments of a datagram in PPPoE went out with the PPPoE length of the whole.
#[test]
fn fault_06_fragments_in_pppoe_have_its_length() {
    for v6 in [false, true] {
        let mut frame = Frame { v6, flags_fragment: 0, ..tunnelled("PPPoE", 0) };
        frame.payload = vec![7; 3_000];
        let bytes = frame.bytes();
        let packet = Packet::new(bytes.clone(), frame.link, Meta::default());
        let mut fragments = fragment(&packet, 1_000, 1).expect("no DF");
        let mut room = [0; 1_100];
        let mut seen = 0;
        while let Some(written) = fragments.write_next(&mut room).expect("room") {
            let view = plain::view(frame.link, &room[..written.len]);
            assert_eq!((view.form, view.end), (Form::Fragment, written.len));
            assert_eq!(usize::from(be16(&room, 18)), written.len - 14 - 6);
            seen += 1;
        }
        let view = plain::view(frame.link, &bytes);
        let twin = splitter::fragment_outer(&bytes, &view, 1_000, 1).expect("no DF");
        assert_eq!(seen, twin.len());
    }
}

/// 0xFFFF is the same number as 0, but no sender of GRE or of IP computes it.
#[test]
fn fault_14_outer_checksums_that_are_not_canonical_are_not_merged() {
    none_merge(&second_ip("IP in IPv4", |ip| ip.field = IpField::Ones));
    none_merge(&second_ip("VXLAN", |ip| ip.field = IpField::Ones));
    let mut frames = three(place("GRE with checksum"));
    // The inner packet sums to the same number in all packets: one key does for all.
    let found = (0..=u32::from(u16::MAX)).any(|key| {
        for frame in &mut frames {
            let (key, checksum) = (Some(key), Some(Field::Ones));
            frame.tunnel[1] = Wrap::Gre { key, checksum, sequence: None };
        }
        let bytes = frames[1].bytes();
        let gre = plain::view(LinkType::Ethernet, &bytes).all(LayerKind::Gre).next();
        be16(&bytes, gre.expect("GRE") + 4) == 0xFFFF
    });
    assert!(found);
    let real = coalesce(Config { verify_alone: true, ..Config::default() }, &frames);
    check_round_trip(&real, &arrivals(&frames));
    assert_eq!(real.coalescer.counters().refused.of(Refusal::UnusualChecksum), 3);
}

#[test]
fn acknowledgments_in_tunnels_pass_in_order() {
    for (at, (name, _)) in each_kind(0).iter().enumerate() {
        let mut frames = three(at);
        (frames[1].flags, frames[1].payload) = (ACK, Vec::new());
        let config = Config { max_tunnels: 3, ..Config::default() };
        let real = coalesce(config, &frames);
        check_round_trip(&real, &arrivals(&frames));
        assert_eq!(real.coalescer.counters().refused.of(Refusal::NoPayload), 1, "{name}");
    }
}
