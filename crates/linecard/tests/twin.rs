//! The coalescer and the segmenter against obvious slow twins, on random traffic.
//!
//! `LINECARD_SEED` replays one seed, `LINECARD_LONG` looks longer; see `linecard_testkit::packets::seeds`.

use linecard::offload::coalesce::Config;
use linecard::offload::segment::{fragment, segment};
use linecard::packet::{ChecksumState, Form, Gso, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard::time::ns;
use linecard_testkit::packets::frame::{self, Field, Frame, TCP, UDP, be16};
use linecard_testkit::packets::overlay::Overlay;
use linecard_testkit::packets::runner::{check_counters, check_round_trip, run, same_outs, whole};
use linecard_testkit::packets::traffic::{Scenario, scenario, tunnelled};
use linecard_testkit::packets::{between, for_seeds, is_whole, pick, plain, splitter};

/// Seeds that once failed: fragments' options, a UDP datagram without checksum called partial.
const KEPT: &[u64] = &[2, 11, 46_087];

/// Packets of one scenario.
const PACKETS: usize = 1_000;

/// Random traffic by seed.
type Draw = fn(&mut Rng, usize) -> Scenario;

/// Promise (Offloads): Parsing never fails and never reads outside the packet: 815,812 mutated and
/// truncated frames of all link types give the layout of a plain parser.
#[test]
fn layouts_equal_those_of_a_plain_parser() {
    println!("{}", compare_layouts(scenario, 90, &[0, 1, 6, 17, 43, 44, 58, 60, 0x45, 0xFF]));
}

#[test]
fn layouts_in_tunnels_equal_those_of_a_plain_parser() {
    let values = [0, 1, 4, 6, 17, 41, 43, 44, 47, 58, 60, 0x45, 0x60, 137, 255];
    println!("{}", compare_layouts(tunnelled, 200, &values));
}

/// Bytes in the first `reach` become one of `values`.
fn compare_layouts(draw: Draw, reach: usize, values: &[u8]) -> String {
    let mut frames = 0_u64;
    for_seeds(KEPT, 1, 200, |seed| {
        let rng = &mut Rng::new(seed);
        for arrival in draw(rng, PACKETS).arrivals {
            let mut bytes = arrival.bytes;
            for _ in 0..4 {
                plain::same_layout(arrival.link, &bytes);
                frames += 1;
                // Bytes changed in the headers, bytes cut off, bytes added.
                match rng.below(4) {
                    0 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
                    1 => bytes.resize(bytes.len() + rng.below(9) as usize, 0),
                    _ if bytes.is_empty() => {}
                    _ => {
                        let at = rng.below(bytes.len().min(reach) as u64) as usize;
                        bytes[at] = pick(rng, values);
                    }
                }
            }
        }
    });
    format!("{frames} frames parsed")
}

/// Promise (Offloads): The coalescer merges exactly as a naive one does, and segmenting restores
/// every byte: 3.0 million random packets,
/// half of them in tunnels, with damaged ones and random bounds, without a mismatch.
#[test]
fn merges_as_the_naive_coalescer_does_and_gives_everything_back() {
    println!("{}", compare_merges(scenario));
}

/// Promise (Offloads): In up to three tunnels (MPLS, PPPoE, IP in IP, GRE, VXLAN, Geneve), and with
/// a fourth, which is not followed, the coalescer also merges exactly as a naive one does;
/// `LINECARD_LONG=10M` runs ten million packets, in a minute of a release build, which looks ahead from the 513th
/// flow on only.
#[test]
fn merges_in_tunnels_as_the_naive_coalescer_does_and_gives_everything_back() {
    println!("{}", compare_merges(tunnelled));
}

fn compare_merges(draw: Draw) -> String {
    let (mut packets, mut leaving, mut flushed, mut segments) = (0, 0, 0, 0);
    for_seeds(KEPT, 1, 1_500, |seed| {
        let scenario = draw(&mut Rng::new(seed), PACKETS);
        let (real, twin) = run(&scenario);
        let outs = real.outs();
        same_outs(&scenario.config, &scenario.arrivals, &outs, &twin.out);
        check_counters(&real, &scenario.arrivals);
        check_round_trip(&real, &scenario.arrivals);
        if scenario.punctual {
            let longest = real.coalescer.counters().hold_ns.max();
            assert!(longest <= ns(scenario.config.hold_budget), "held for {longest} ns");
        }
        packets += outs.iter().map(|out| out.packets.len()).sum::<usize>();
        leaving += outs.len();
        let limits = |config: &Config| (config.max_segments, config.max_bytes, config.hold_budget);
        if limits(&scenario.config) == limits(&Config::default()) {
            let held = outs.iter().filter(|out| out.flush.is_some());
            flushed += held.clone().count();
            segments += held.map(|out| out.packets.len()).sum::<usize>();
        }
    });
    let mean = segments as f64 / flushed.max(1) as f64;
    // The traffic must not become one that nothing is merged of.
    assert!(mean > 3.0 || !is_whole(), "too few merge: {mean}");
    format!(
        "{packets} packets compared, {leaving} left; {mean:.2} merged where limits are not tiny"
    )
}

/// A large frame of random form.
fn large(rng: &mut Rng) -> Frame {
    let mut base = scenario(rng, 1).arrivals.remove(0);
    base.bytes.clear();
    let v6 = rng.chance(0.5);
    let mut payload = vec![0; pick(rng, &[0, 1, 2, 9, 100, 1_000, 3_000, 20_000, 65_000])];
    let len = between(rng, 0, payload.len() as u64) as usize;
    payload.truncate(len);
    if rng.chance(0.8) {
        rng.fill(&mut payload);
    }
    let protocol = pick(rng, &[TCP, UDP]);
    let mut extensions = Vec::new();
    if v6 && rng.chance(0.6) {
        let all = [
            (0, vec![0, 1, 4, 0, 0, 0, 0]),
            (60, vec![0, 1, 4, 0, 0, 0, 0]),
            (43, vec![0, 0, 0, 0, 0, 0, 0]),
            (60, vec![1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ];
        extensions = all.into_iter().filter(|_| rng.chance(0.5)).collect();
    }
    Frame {
        link: base.link,
        tags: match base.link {
            LinkType::Ethernet | LinkType::LinuxSll if rng.chance(0.5) => vec![[0x81, 0, 0, 7]],
            _ => Vec::new(),
        },
        v6,
        id: rng.next_u64() as u16,
        flags_fragment: 0,
        ip_options: if rng.chance(0.3) { ip_options(rng) } else { Vec::new() },
        extensions,
        protocol,
        sequence: rng.next_u64() as u32,
        flags: rng.below(0x1000) as u16,
        options: vec![1; 4 * rng.below(11) as usize],
        payload,
        field: if rng.chance(0.1) { Field::Partial } else { Field::Good },
        behind: if rng.chance(0.3) {
            frame::Behind::Bytes(vec![9; 5])
        } else {
            frame::Behind::Nothing
        },
        ..Frame::default()
    }
}

/// The same in tunnels.
fn large_tunnelled(rng: &mut Rng) -> Frame {
    let spec = large(rng);
    let tunnel = Overlay::new(rng, spec.link).wraps;
    Frame { tunnel, ..spec }
}

/// Well-formed options with and without the copied flag, filled up to a multiple of four.
fn ip_options(rng: &mut Rng) -> Vec<u8> {
    let mut options = Vec::new();
    while options.len() < 30 && rng.chance(0.8) {
        match rng.below(4) {
            0 => options.push(1),
            1 => options.extend([0x94, 4, 0, 0]),
            2 => options.extend([0x83, 7, 4, 192, 0, 2, 9]),
            _ => options.extend([7, 7, 4, 0, 0, 0, 0]),
        }
    }
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

/// Promise (Offloads): The segmenter produces what a naive splitter produces, from slices
/// and from contiguous payload: 363,853 segments without a mismatch.
#[test]
fn segments_equal_those_of_the_naive_splitter() {
    println!("{}", compare_segments(large));
}

#[test]
fn segments_in_tunnels_equal_those_of_the_naive_splitter() {
    println!("{}", compare_segments(large_tunnelled));
}

fn compare_segments(large: fn(&mut Rng) -> Frame) -> String {
    let (mut frames, mut made) = (0, 0);
    for_seeds(KEPT, 1, 6_000, |seed| {
        let rng = &mut Rng::new(seed);
        let spec = large(rng);
        let bytes = spec.bytes();
        let view = plain::view(spec.link, &bytes);
        let checksum = if spec.field == Field::Partial {
            ChecksumState::Partial
        } else {
            ChecksumState::Unknown
        };
        let shortest = 1 + view.end.saturating_sub(view.payload) as u64 / 400;
        let spread = pick(rng, &[1, 20, 1_448, 9_000]);
        let gso = Gso {
            size: between(rng, shortest, shortest + spread) as u16,
            segments: 0,
            fixed_ids: if spec.tunnel.is_empty() {
                u8::from(rng.chance(0.3))
            } else {
                rng.below(16) as u8
            },
            accecn: rng.chance(0.3),
            padded: rng.chance(0.3),
        };
        let packet = Packet::new(bytes.clone(), spec.link, Meta { checksum, ..Meta::default() });
        let cut = || segment(&packet, gso);
        if view.form != Form::Datagram || view.payload > 320 {
            // In too many tunnels, for example.
            assert!(!spec.tunnel.is_empty() && cut().is_err());
            return;
        }
        let real = splitter::collect(cut().expect("a datagram"), cut().expect("a datagram"));
        let twin = splitter::split(&bytes[..view.end], &view, gso, checksum);
        assert_eq!(real.len(), twin.len());
        for (number, (real, twin)) in real.iter().zip(&twin).enumerate() {
            assert!(real == twin, "segment {number}\n{real:02x?}\n{twin:02x?}");
        }
        frames += 1;
        made += real.len();
    });
    assert!(frames > 4_500 || made < 100_000, "too few are cut");
    format!("{frames} frames cut into {made} segments")
}

/// Sizes that have nothing to do with those of the packets that arrived: a segment's payload then
/// lies in several buffers, at odd offsets too.
#[test]
fn merged_packets_are_cut_at_any_size() {
    println!("{}", cut_merged(scenario));
}

#[test]
fn merged_packets_in_tunnels_are_cut_at_any_size() {
    println!("{}", cut_merged(tunnelled));
}

fn cut_merged(draw: Draw) -> String {
    let mut made = 0;
    for_seeds(KEPT, 1, 60, |seed| {
        let rng = &mut Rng::new(seed);
        let (real, _) = run(&draw(rng, PACKETS));
        for (packet, link) in real.out.iter().filter_map(|(packet, _)| {
            let large = packet.is_merged() && packet.meta.gso.is_some();
            large.then_some((packet, packet.buffer().link))
        }) {
            let bytes = whole(packet);
            let view = plain::view(link, &bytes);
            assert_eq!(view.form, Form::Datagram);
            let gso = packet.meta.gso.expect("merged");
            let size = between(rng, 1 + view.payload_len() as u64 / 50, 3_000) as u16;
            let gso = Gso { size, ..gso };
            let cut = || segment(packet, gso).expect("whole");
            let twin = splitter::split(&bytes, &view, gso, packet.meta.checksum);
            assert!(splitter::collect(cut(), cut()) == twin, "segments of {size} bytes");
            made += twin.len();
            let mtu = between(rng, 200, 3_000) as usize;
            if packet.meta.checksum == ChecksumState::Partial {
                continue;
            }
            if let Some(twin) = splitter::fragment_outer(&bytes, &view, mtu, 5) {
                let cut = || fragment(packet, mtu, 5).expect("as the twin");
                assert!(splitter::collect(cut(), cut()) == twin, "fragments for {mtu} bytes");
                made += twin.len();
            }
        }
    });
    format!("{made} segments and fragments of merged packets")
}

/// Promise (Offloads): Fragmenting produces what a naive fragmenter produces, and the fragments
/// reassemble: 148,610 fragments without a mismatch.
#[test]
fn fragments_equal_those_of_the_naive_fragmenter_and_reassemble() {
    println!("{}", compare_fragments(large));
}

#[test]
fn fragments_of_tunnels_equal_those_of_the_naive_fragmenter_and_reassemble() {
    println!("{}", compare_fragments(large_tunnelled));
}

fn compare_fragments(large: fn(&mut Rng) -> Frame) -> String {
    let (mut frames, mut made, mut refused) = (0, 0, 0);
    for_seeds(KEPT, 1, 6_000, |seed| {
        let rng = &mut Rng::new(seed);
        let mut spec = large(rng);
        spec.field = Field::Good;
        if rng.chance(0.2) {
            spec.protocol = pick(rng, &[1, 50, 58]);
        }
        // Some are fragments themselves, the last or another.
        spec.flags_fragment = pick(rng, &[0, 0, 0, 0x8000, 0x4000, 0x2000, 0x2007, 20]);
        let bytes = spec.bytes();
        let view = plain::view(spec.link, &bytes);
        let (ip, v6) = view.networks().next().expect("IP");
        let datagram = &bytes[..view.end];
        let least = (datagram.len() - ip) as u64 / 300;
        let mtu = (least + pick(rng, &[28, 68, 576, 1_280, 1_500, 9_000]) + rng.below(9)) as usize;
        let id = rng.next_u64() as u32;
        let packet = Packet::new(bytes.clone(), spec.link, Meta::default());
        let inner = view.networks().count() > 1 && view.form != Form::Datagram;
        let twin = splitter::fragment_outer(datagram, &view, mtu, id);
        let Some(twin) = twin.filter(|_| !inner) else {
            assert!(fragment(&packet, mtu, id).is_err());
            refused += 1;
            return;
        };
        let cut = || fragment(&packet, mtu, id).expect("as the twin");
        let real = splitter::collect(cut(), cut());
        assert_eq!(real.len(), twin.len());
        for (number, (real, twin)) in real.iter().zip(&twin).enumerate() {
            assert!(real == twin, "fragment {number}\n{real:02x?}\n{twin:02x?}");
            assert!(real.len() - ip <= mtu, "fragment {number} exceeds the MTU");
        }
        let is_whole = v6 || be16(&bytes, ip + 6) & 0x3FFF == 0;
        // PPPoE's length is not the reassembler's business.
        if real.len() > 1 && is_whole && view.layers[0].1 == ip {
            // The order of arrival does not matter.
            let mut shuffled = real.clone();
            shuffled.reverse();
            assert!(splitter::reassemble(&shuffled, ip, v6) == datagram, "not the original");
        }
        frames += 1;
        made += real.len();
    });
    format!("{frames} datagrams cut into {made} fragments and reassembled, {refused} refused")
}
