//! Reassembly inside of tunnels, and of the tunnels' own packets.

use linecard::offload::reassemble::{Config, Exit, GiveUp, Pass};
use linecard::offload::segment::fragment;
use linecard::packet::{Form, Layout, LinkType, Meta, Packet};
use linecard_testkit::packets::fragments::Whole;
use linecard_testkit::packets::frame::{Field, Frame, UDP};
use linecard_testkit::packets::plain;
use linecard_testkit::packets::reassembler::{Real, frame_of};
use linecard_testkit::packets::runner::arrival;
use linecard_testkit::packets::traffic::Arrival;
use linecard_testkit::packets::tunnel::{Wrap, each_kind};

/// A datagram in a tunnel of the kind at `at` of [`each_kind`]: whole, and as fragments, each in a
/// tunnel packet of its own.
fn in_tunnel(at: usize, v6: bool) -> (Vec<u8>, Vec<Vec<u8>>) {
    let wrapped = |index: usize| Frame {
        tunnel: each_kind(index).remove(at).1,
        v6,
        flags_fragment: 0,
        protocol: UDP,
        ..Frame::bulk(0, 2_000)
    };
    let bare = Frame { link: LinkType::Raw, tunnel: Vec::new(), ..wrapped(0) };
    let cut = Whole::new(LinkType::Raw, &bare.bytes(), 0, 0).cut(&[800, 1_600, 2_008]);
    let frames = cut.into_iter().enumerate();
    let frames = frames.map(|(index, datagram)| wrapped(index).around(datagram)).collect();
    (wrapped(0).bytes(), frames)
}

fn run(frames: &[Vec<u8>]) -> Real {
    let mut real = Real::new(LinkType::Ethernet, Config::default());
    let empty = arrival(&Frame::default(), 0);
    for (number, bytes) in frames.iter().enumerate() {
        real.push(number, &Arrival { bytes: bytes.clone(), ..empty.clone() });
    }
    real.stop();
    real
}

#[test]
fn inner_fragments_become_the_datagram_in_its_tunnel() {
    let mut passed = 0;
    for (at, (name, wraps)) in each_kind(0).iter().enumerate() {
        for v6 in [false, true] {
            let (whole, mut frames) = in_tunnel(at, v6);
            frames.reverse();
            let real = run(&frames);
            // An outer checksum covers data that is not read.
            let summed = wraps.iter().any(|wrap| match wrap {
                Wrap::Udp { field, .. } => *field == Field::Good,
                Wrap::Gre { checksum, .. } => checksum.is_some(),
                _ => false,
            });
            if summed {
                let reason = Exit::Passed(Pass::OuterChecksum);
                assert!(real.exits().iter().all(|(_, exit)| *exit == reason), "{name}");
                passed += 1;
                continue;
            }
            let [(packet, Exit::Reassembled)] = &real.out[..] else {
                panic!("{name}: {:?}", real.exits());
            };
            let made = frame_of(packet, Exit::Reassembled);
            assert!(made == whole, "{name}\n{made:02x?}\n{whole:02x?}");
            assert_eq!(packet.layout().form(), Form::Datagram, "{name}");
        }
    }
    assert_eq!(passed, 2 * 9);
}

/// Fault 3: a mark that the network around set on one of them is not lost.
#[test]
fn congestion_marks_of_outer_headers_survive() {
    for at in [2, 3, 10] {
        let (_, mut frames) = in_tunnel(at, false);
        let view = plain::view(LinkType::Ethernet, &frames[1]);
        let outer = view.networks().next().expect("the tunnel's");
        let mark = |bytes: &mut Vec<u8>, code: u8| {
            bytes[outer.0 + 1] |= if outer.1 { code << 4 } else { code };
            if !outer.1 {
                linecard_testkit::packets::fragments::seal(bytes, outer.0);
            }
        };
        frames.iter_mut().for_each(|bytes| mark(bytes, 2));
        mark(&mut frames[1], 3);
        let real = run(&frames);
        let [(packet, Exit::Reassembled)] = &real.out[..] else { panic!("{:?}", real.exits()) };
        let tos = packet.bytes()[outer.0 + 1];
        assert_eq!(if outer.1 { tos >> 4 } else { tos } & 3, 3);
    }
}

/// A tunnel's own packet in fragments: the headers of what it carries have to be in the first. One
/// that ended within them made the rest look like zeros, and what left was called malformed.
#[test]
fn a_first_fragment_shows_the_headers_in_the_tunnel_too() {
    let at = each_kind(0).iter().position(|(name, _)| *name == "VXLAN").expect("there");
    let tunnel = each_kind(0).remove(at).1;
    let mut frame = Frame { tunnel, ..Frame::bulk(0, 2_000) };
    for wrap in &mut frame.tunnel {
        if let Wrap::Ip(ip) = wrap {
            ip.flags_fragment = 0;
        }
    }
    let whole = frame.bytes();
    let headers = Layout::parse(LinkType::Ethernet, &whole).header_len() - 14;
    let mut seen = [0, 0];
    for mtu in 28..200 {
        let packet = Packet::new(whole.clone(), LinkType::Ethernet, Meta::default());
        let mut cut = fragment(&packet, mtu, 0).expect("no DF");
        let (mut room, mut frames) = ([0; 300], Vec::new());
        while let Some(written) = cut.write_next(&mut room).expect("room") {
            frames.push(room[..written.len].to_vec());
        }
        let config = Config { max_fragments: 1_000, ..Config::default() };
        let mut real = Real::new(LinkType::Ethernet, config);
        let empty = arrival(&Frame::default(), 0);
        for (number, bytes) in frames.iter().enumerate() {
            real.push(number, &Arrival { bytes: bytes.clone(), ..empty.clone() });
        }
        let exit = real.out[0].1;
        let shown = frames[0].len() - 14 >= headers;
        if shown {
            assert_eq!(exit, Exit::Reassembled, "{mtu}");
            assert!(frame_of(&real.out[0].0, exit) == whole, "{mtu}");
        } else {
            assert_eq!(exit, Exit::GivenUp(GiveUp::HeaderChain), "{mtu}");
        }
        seen[usize::from(shown)] += 1;
    }
    assert!(seen[0] > 50 && seen[1] > 50);
}
