//! Reassembly against a naive twin, on random fragments of random datagrams: in any order, with
//! duplicates, overlaps, losses and lies, under tiny limits; and fragments become the datagram again.

use core::time::Duration;
use linecard::offload::reassemble::{Config, Counters, Exit, GiveUp};
use linecard::offload::segment::fragment;
use linecard::packet::{Layout, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_testkit::packets::fragments::{Part, Whole, seal};
use linecard_testkit::packets::frame::{Behind, Frame, TCP, UDP};
use linecard_testkit::packets::overlay::Overlay;
use linecard_testkit::packets::reassembler::{Real, Twin, frame_of};
use linecard_testkit::packets::runner::whole;
use linecard_testkit::packets::traffic::Arrival;
use linecard_testkit::packets::{between, for_seeds, pick, plain};

/// Seeds that once failed: more header bytes than are looked at.
const KEPT: [u64; 1] = [15_714];

/// Cuts a datagram.
type Cut = fn(&mut Rng, &Frame) -> Vec<Vec<u8>>;

/// A datagram to be cut.
fn datagram(rng: &mut Rng, link: LinkType, id: u16) -> Frame {
    let v6 = rng.chance(0.5);
    let tags = if link == LinkType::Ethernet && rng.chance(0.2) {
        vec![[0x81, 0, 0, pick(rng, &[1, 2])]]
    } else {
        Vec::new()
    };
    let options = [&[][..], &[0x94, 4, 0, 0], &[7, 7, 4, 1, 2, 3, 4, 1, 0x94, 4, 0, 0]];
    let extension = |rng: &mut Rng| {
        let kind = pick(rng, &[0, 43, 60, 60]);
        let units = pick(rng, &[0, 0, 1, 4]);
        let mut body = vec![9; 7 + units * 8];
        // Length in units, then routing type and no segments left.
        (body[0], body[2]) = (units as u8, 0);
        (kind, body)
    };
    let extensions = (0..pick(rng, &[0, 0, 1, 3])).map(|_| extension(rng)).collect();
    let most = pick(rng, &[100, 400, 3_000]);
    let mut payload = vec![0; between(rng, 0, most) as usize];
    rng.fill(&mut payload);
    Frame {
        link,
        tags,
        v6,
        mac: pick(rng, &[1, 2]),
        source: pick(rng, &[1, 1, 2]),
        tos: pick(rng, &[0, 0, 1, 2, 3]),
        ttl: pick(rng, &[64, 63]),
        id,
        flags_fragment: 0,
        ip_options: if v6 { Vec::new() } else { pick(rng, &options).to_vec() },
        extensions,
        protocol: pick(rng, &[TCP, UDP, UDP, 1, 59]),
        options: pick(rng, &[&[][..], &[1, 1, 1, 0]]).to_vec(),
        payload,
        ..Frame::default()
    }
}

/// Cuts a datagram: as the segmenter does, and again, or by hand with lies.
fn cut(rng: &mut Rng, spec: &Frame) -> Vec<Vec<u8>> {
    let (bytes, id) = (spec.bytes(), spec.id.into());
    if rng.chance(0.5) {
        return cut_by_hand(rng, spec, &bytes, id);
    }
    let mut frames = vec![bytes];
    for _ in 0..pick(rng, &[1, 2]) {
        let most = pick(rng, &[120, 700, 1_500]);
        let mtu = between(rng, 60, most) as usize;
        frames =
            frames.into_iter().flat_map(|frame| fragments(spec.link, frame, mtu, id)).collect();
    }
    frames
}

/// The fragments of a frame, or itself when it cannot be cut.
fn fragments(link: LinkType, frame: Vec<u8>, mtu: usize, id: u32) -> Vec<Vec<u8>> {
    let packet = Packet::new(frame.clone(), link, Meta::default());
    let Ok(mut segments) = fragment(&packet, mtu, id) else { return vec![frame] };
    let mut frames = Vec::new();
    while let Some(segment) = segments.next_segment() {
        let payload: Vec<&[u8]> = segment.payload.collect();
        frames.push([segment.header, &payload.concat()].concat());
    }
    frames
}

fn cut_by_hand(rng: &mut Rng, spec: &Frame, bytes: &[u8], id: u32) -> Vec<Vec<u8>> {
    let kept = rng.below(spec.extensions.len() as u64 + 1) as usize;
    let extensions = spec.extensions[..kept].iter().map(|(_, body)| body.len() + 1).sum();
    let whole = Whole::new(spec.link, bytes, extensions, id);
    let len = whole.data.len();
    let mut ends: Vec<usize> =
        (0..rng.below(6)).map(|_| rng.below(len as u64 + 1) as usize / 8 * 8).collect();
    if rng.chance(0.9) {
        ends.retain(|end| *end > 0);
    }
    ends.push(len);
    ends.sort_unstable();
    if rng.chance(0.9) {
        ends.dedup();
    }
    let mut frames = whole.cut(&ends);
    while rng.chance(0.4) {
        frames.push(whole.fragment(&lie(rng, &whole)));
    }
    frames
}

/// A part that may overlap, contradict, reach too far, be uneven or empty.
fn lie(rng: &mut Rng, whole: &Whole) -> Part {
    let len = whole.data.len() as u64;
    let start = rng.below(len + 1) as usize / 8 * 8;
    let end = between(rng, start as u64, len) as usize;
    let end = if rng.chance(0.2) { end } else { end / 8 * 8 };
    let mut part = whole.part(start, end);
    match rng.below(6) {
        0 => part.more = !part.more,
        2 => part.offset = between(rng, 8_170, 8_191) as usize * 8,
        3 => part.data.clear(),
        _ => {}
    }
    part
}

/// A datagram in a tunnel: cut inside of it, or the tunnel's own packet cut.
fn cut_in_tunnel(rng: &mut Rng, spec: &Frame) -> Vec<Vec<u8>> {
    let mut overlay = Overlay::new(rng, spec.link);
    let tunnelled = Frame { tunnel: overlay.wraps.clone(), ..spec.clone() };
    if rng.chance(0.3) {
        // The segmenter's, as that is where a router would cut.
        let mtu = between(rng, 60, 1_500) as usize;
        return fragments(spec.link, tunnelled.bytes(), mtu, spec.id.into());
    }
    let bare = Frame { link: LinkType::Raw, tags: Vec::new(), ..spec.clone() };
    let mut wrap = |datagram| {
        // The way through the network may change, and marks congestion.
        if rng.chance(0.05) {
            overlay.change(rng);
        }
        let frame = Frame { tunnel: overlay.wraps.clone(), ..spec.clone() }.around(datagram);
        overlay.advance(rng);
        frame
    };
    let datagrams = cut(&mut Rng::new(spec.id.into()), &bare);
    datagrams.into_iter().map(&mut wrap).collect()
}

/// Fragments of some datagrams in random order, with losses, duplicates and damage.
fn arrivals(rng: &mut Rng, link: LinkType, config: &Config, cut: Cut) -> Vec<Arrival> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    // With few identifications datagrams get mixed up.
    let ids = pick(rng, &[3, 65_536, 65_536]);
    for _ in 0..between(rng, 1, 12) {
        let id = rng.below(ids) as u16;
        let spec = datagram(rng, link, id);
        frames.extend(cut(rng, &spec));
    }
    let loss = pick(rng, &[0.0, 0.0, 0.1]);
    frames.retain(|_| !rng.chance(loss));
    let copies: Vec<Vec<u8>> = frames.iter().filter(|_| rng.chance(0.1)).cloned().collect();
    frames.extend(copies);
    let window = pick(rng, &[1, 3, 20, 1_000]);
    for at in 0..frames.len() {
        let other = (at + rng.below(window) as usize).min(frames.len() - 1);
        frames.swap(at, other);
    }
    // Strictly later each time, or the oldest one would not be defined.
    let mut now = Instant::ZERO;
    let step = pick(rng, &[10, 10_000]);
    let lanes = pick(rng, &[1, 1, 2]);
    let mut arrive = |mut bytes: Vec<u8>| {
        now = now.plus_ns(1 + rng.below(step));
        if rng.chance(0.01) {
            now = now.plus(config.timeout_v4);
        }
        damage(rng, link, &mut bytes);
        let lane = if rng.chance(0.9) { 0 } else { rng.below(lanes) as u32 };
        let mark = pick(rng, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, Meta::NEVER]);
        let mark = if rng.chance(0.9) { 0 } else { mark };
        let meta = Meta { timestamp: now, lane, mark, ..Meta::default() };
        Arrival { link, bytes, meta, now }
    };
    frames.into_iter().map(&mut arrive).collect()
}

fn damage(rng: &mut Rng, link: LinkType, bytes: &mut Vec<u8>) {
    let view = plain::view(link, bytes);
    let Some(ip) = view.ip else { return };
    match rng.below(100) {
        // Another congestion mark, rightly sealed.
        0 | 1 => {
            bytes[ip + 1] ^= if view.v6 { 0x10 } else { 1 } << rng.below(2);
            if !view.v6 {
                seal(bytes, ip);
            }
        }
        2 if !view.v6 => bytes[ip + 10] ^= 1,
        3 => bytes.resize(bytes.len().max(60), 0),
        4 => bytes.truncate(bytes.len() - 1),
        5 => {
            let at = rng.below(bytes.len() as u64) as usize;
            // Another source might fall into the place of one that is there: the twin does not
            // hash.
            let source = if view.v6 { ip + 8..ip + 16 } else { ip + 12..ip + 16 };
            bytes[at] ^= if source.contains(&at) { 0 } else { 1 << rng.below(8) };
        }
        _ => {}
    }
}

fn config(rng: &mut Rng) -> Config {
    let mut config = Config::default();
    config.timeout_v4 = Duration::from_nanos(pick(rng, &[20_000, 30_000_000_000, 30_000_000_000]));
    config.timeout_v6 = pick(rng, &[config.timeout_v4, 2 * config.timeout_v4]);
    config.shares = pick(rng, &[0, 1, 2, 8]);
    config.drop_duplicates = rng.chance(0.5);
    if rng.chance(0.4) {
        config.max_datagrams = pick(rng, &[0, 1, 2, 5, 4_096]);
        config.max_fragments = pick(rng, &[0, 2, 3, 8, 64]);
        config.max_held_fragments = pick(rng, &[0, 1, 2, 5, 30, 1_000]);
        config.max_held_bytes = pick(rng, &[0, 200, 1_000, 3_000, 1 << 20]);
    }
    config
}

/// Promise (Offloads): Reassembly outputs exactly what a naive one outputs, in the same order:
/// 261,130 packets with duplicates, overlaps, losses, damage, timeouts and tiny limits, and each
/// reason to give a datagram up at least 40 times.
#[test]
fn leaves_what_the_twin_leaves_in_the_same_order() {
    let seen = compare(cut);
    println!("{} packets, {} datagrams whole", seen.packets_in, seen.reassembled);
    // One seed alone, when replayed, need not show everything.
    let long = seen.packets_in > 100_000;
    for reason in GiveUp::ALL {
        let times = seen.given_up.of(*reason);
        println!("{times:>8} {}", reason.name());
        assert!(!long || times >= 40, "{reason:?} is hardly tested");
    }
    assert!(!long || seen.reassembled > 9_000 && seen.dropped > 1_000);
}

#[test]
fn leaves_what_the_twin_leaves_in_tunnels() {
    let seen = compare(cut_in_tunnel);
    println!("{} packets, {} datagrams whole", seen.packets_in, seen.reassembled);
    assert!(seen.packets_in < 100_000 || seen.reassembled > 4_000);
}

/// Total counters.
fn compare(cut: Cut) -> Counters {
    let mut seen = Counters::default();
    for_seeds(&KEPT, 1, 6_000, |seed| {
        let rng = &mut Rng::new(seed);
        let config = config(rng);
        let link = pick(rng, &[LinkType::Ethernet, LinkType::Raw, LinkType::LinuxSll]);
        let arrivals = arrivals(rng, link, &config, cut);
        let mut real = Real::new(link, config.clone());
        let mut twin = Twin::new(link, config);
        for (number, arrival) in arrivals.iter().enumerate() {
            if rng.chance(0.1) {
                real.advance(arrival.now);
                twin.advance(arrival.now);
            }
            real.push(number, arrival);
            twin.push(number, arrival);
            assert_eq!(real.reassembler.held(), twin.held(), "after packet {number}");
        }
        real.stop();
        twin.stop();
        assert_eq!(real.left(), twin.left);
        for (packet, exit) in &real.out {
            let parsed = Layout::parse(link, &frame_of(packet, *exit));
            assert_eq!(packet.layout().form(), parsed.form());
            assert_eq!(packet.layout().header_len(), parsed.header_len());
        }
        let counters = real.reassembler.counters();
        assert_eq!(counters.dropped, twin.dropped.len() as u64);
        assert_eq!(counters.packets_out, real.out.len() as u64);
        seen.add(counters);
    });
    seen
}

/// Promise (Offloads): Fragmented datagrams become whole, `reassemble(fragment(x)) == x`: 1,122
/// datagrams in 11,410 fragments in random order, IPv4 with options, IPv6 with extension headers,
/// five link types.
///
/// `reassemble(fragment(x)) == x`, in any order.
#[test]
fn what_was_cut_comes_back() {
    let (mut datagrams, mut parts) = (0, 0);
    for_seeds(&[], 1, 4_000, |seed| {
        let rng = &mut Rng::new(seed);
        let links = [
            LinkType::Ethernet,
            LinkType::Raw,
            LinkType::LinuxSll,
            LinkType::LinuxSll2,
            LinkType::Loopback,
        ];
        let link = pick(rng, &links);
        let mut spec = datagram(rng, link, seed as u16);
        if rng.chance(0.02) {
            spec.payload.resize(between(rng, 50_000, 65_000) as usize, 7);
        }
        let original = spec.bytes();
        let behind = if rng.chance(0.5) { Behind::Bytes(vec![1, 2, 3]) } else { Behind::Nothing };
        let framed = Frame { behind, ..spec }.bytes();
        let mtu = between(rng, 200, 1_500) as usize;
        let mut frames = fragments(link, framed, mtu, seed as u32);
        if frames.len() == 1 {
            return;
        }
        for at in 0..frames.len() {
            let other = rng.below(frames.len() as u64) as usize;
            frames.swap(at, other);
        }
        let config = Config { max_fragments: 1_000, ..Config::default() };
        let mut real = Real::new(link, config);
        for (number, bytes) in frames.iter().enumerate() {
            let now = Instant::from_ns(number as u64);
            let meta = Meta { timestamp: now, ..Meta::default() };
            real.push(number, &Arrival { link, bytes: bytes.clone(), meta, now });
        }
        let [(packet, Exit::Reassembled)] = &real.out[..] else {
            panic!("{:?}", real.exits());
        };
        assert!(whole(packet) == original, "{:02x?}\n{original:02x?}", whole(packet));
        let layout = Layout::parse(link, &original);
        let seen = packet.layout();
        assert_eq!((seen.form(), seen.protocol()), (layout.form(), layout.protocol()));
        assert_eq!((seen.network(), seen.transport()), (layout.network(), layout.transport()));
        assert_eq!(seen.header_len(), layout.header_len());
        // The timestamp is that of the last fragment to arrive.
        assert_eq!(packet.meta.timestamp.as_ns(), frames.len() as u64 - 1);
        datagrams += 1;
        parts += frames.len();
    });
    println!("{datagrams} datagrams cut into {parts} fragments came back");
}
